/*
 * slide_tiff.c - slides in tiled TIFF files, read directly: Aperio SVS, Philips TIFF, OME-TIFF and
 * pyramids of no known scanner.
 *
 * tiff_level.h says where each tile lies, and tile_file.h reads the tiles. OpenSlide takes five
 * times as long for the same pixels, in its blitting.
 *
 * OpenSlide still describes the slide as a whole (slide_metadata.h). An Aperio or Philips slide
 * that it rejects because of one damaged tile is read all the same, with what its own description
 * says. So are OME-TIFF files that OpenSlide does not know; they have no quickhash. What tile.h
 * does not decode is left to OpenSlide altogether.
 */
#include "convert/readers/frame/tile_file.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"

#include "convert/readers/frame/slide_metadata.h"
#include "convert/readers/tiff/tiff_file.h"
#include "convert/readers/tiff/tiff_level.h"
#include "convert/readers/tiff/tiff_mask.h"
#include "convert/readers/tiff/tiff_picture.h"
#include "convert/readers/tiff/tiff_samples.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tiff_slide {
    struct tiled_slide common;
    struct slide_info info;
    const struct slide_file *file;
    struct tiff_level level;
    struct picture *picture; /* the level, if its tiles are decoded as one; else NULL */
};

static const struct slide_reader tiff_as_picture;

static struct tiff_slide *from_slide(struct slide *s)
{
    return (struct tiff_slide *)s;
}

/* --- opening and closing --- */

static void tiff_close(struct slide *s)
{
    struct tiff_slide *v = from_slide(s);
    tile_file_close(v->common.tiles);
    picture_close(v->picture);
    slide_metadata_close(v->common.slide.metadata);
    tiff_level_free(&v->level);
    free(v);
}

static bool is_aperio(const struct tiff_level *l)
{
    return l->pyramid->kind == TIFF_APERIO;
}

/* OpenSlide's name of the format. */
static const char *vendor_of(const struct tiff_level *l)
{
    return is_aperio(l) ? "aperio" : l->pyramid->kind == TIFF_PHILIPS ? "philips" : "generic-tiff";
}

/* Why the tiles cannot be kept, if they cannot. */
static void name_obstacle(const struct tiff_level *l, struct slide_info *i)
{
    const struct tile_format *f = &l->format;
    char name[64];
    tiff_file_name_compression((uint64_t)f->compression, name, sizeof name);
    i->is_j2k = tile_is_j2k(f) && !tile_is_gray(f);
    snprintf(i->tile_compression, sizeof i->tile_compression, "%.23s", name);
    if (l->in_planes)
        snprintf(i->no_jpeg, sizeof i->no_jpeg, "its tiles are in separate planes");
    else if (f->samples > tile_colours(f))
        snprintf(i->no_jpeg, sizeof i->no_jpeg, "its tiles have alpha or other extra samples");
    else if (f->photometric == TILE_PHOTOMETRIC_PALETTE)
        snprintf(i->no_jpeg, sizeof i->no_jpeg, "its tiles have a palette");
    else if (tile_is_j2k(f) && tile_is_gray(f))
        snprintf(i->no_jpeg, sizeof i->no_jpeg, "its JPEG 2000 tiles are gray");
    else if (!tile_may_be_kept(f))
        snprintf(i->no_jpeg, sizeof i->no_jpeg, "its tiles are %s", name);
}

/* The description of the slide in the file itself. */
static void describe(struct tiff_slide *v, int64_t level)
{
    const struct tiff_level *l = &v->level;
    struct slide_info *i = &v->info;
    *i = (struct slide_info){.level = level,
                             .downsample = l->pyramid->downsamples[level],
                             .width = l->width,
                             .height = l->height,
                             .tile_cols = l->format.cols,
                             .tile_rows = l->format.rows,
                             .has_thumbnail = l->has_thumbnail};
    i->has_eighth = l->format.compression == TILE_JPEG && !l->in_planes && i->tile_cols % 8 == 0 &&
                    i->tile_rows % 8 == 0;
    i->gray_is_luma =
        l->format.compression == TILE_JPEG && l->format.photometric == TILE_PHOTOMETRIC_YCBCR;
    i->is_gray = tile_is_gray(&l->format) && !l->in_planes;
    name_obstacle(l, i);
    tiff_note_left_out(l->format.samples - tile_colours(&l->format) - (l->format.alpha_at > 0),
                       i->note, sizeof i->note);
    if (l->pyramid->planes > 1)
        slide_note(i, "it has %d focal planes, of which the first is stored", l->pyramid->planes);
    tiff_note_unitless(l->pyramid->unitless, i);
    if (l->pyramid->is_cut)
        snprintf(i->problem, sizeof i->problem, "its list of directories leads %s",
                 l->pyramid->is_crowded ? "to one with too many tags" : "out of the file");
    memset(i->background, 255, 3);
    i->levels = l->pyramid->levels;
    memcpy(i->downsamples, l->pyramid->downsamples, sizeof i->downsamples);
    snprintf(i->vendor, sizeof i->vendor, "%s", vendor_of(l));
    i->mpp_x = l->pyramid->mpp_x;
    i->mpp_y = l->pyramid->mpp_y;
    i->objective_power = NAN;
    if (is_aperio(l))
        i->objective_power = svs_description_number(l->pyramid->description, "AppMag");
}

/* OpenSlide does not open a scanner's file that it should know. The pixels are read all the same,
 * so that is no damage. */
static void note_refusal(struct tiff_slide *v, int known, struct err *why)
{
    struct slide_info *i = &v->info;
    if (v->level.pyramid->kind > TIFF_PHILIPS)
        return;
    err_replace(why, v->file->path, "the file");
    slide_note(i, "read without OpenSlide (%.120s)",
               known < 0 ? why->msg : "it does not know the file");
}

/* OpenSlide decodes a tile of each level of an SVS when it opens it, and does not bound what the
 * headers of JPEG 2000 ask for. Are those of the first tile of a level such as we would decode? */
static int check_first_tile(const struct tiff_level *l, struct err *e)
{
    int64_t k = 0;
    while (k < l->cols * l->rows && l->places[k].bytes == 0)
        k++;
    if (k == l->cols * l->rows)
        return 0;
    const struct tile_place *p = &l->places[k];
    uint8_t *bytes = p->bytes <= l->file->bytes ? memory_try((size_t)p->bytes, 1, e) : NULL;
    const bool whole = bytes && read_at(l->file->fd, p->offset, bytes, p->bytes) == p->bytes;
    const int bad = whole ? tile_check_headers(&l->format, bytes, (size_t)p->bytes, e) : 0;
    free(bytes);
    return bad;
}

static int check_first_tiles(const struct tiff_slide *v, struct err *e)
{
    int bad = 0;
    for (int64_t k = 0; is_aperio(&v->level) && k < v->level.pyramid->levels && !bad; k++) {
        struct err ignored;
        struct tiff_level l = {0};
        if (tiff_level_read(&l, v->file, k, true, &ignored) > 0 && tile_is_j2k(&l.format) &&
            !l.in_planes && !l.is_picture)
            bad = check_first_tile(&l, e);
        tiff_level_free(&l);
    }
    return bad;
}

/* OpenSlide's description of the slide. 0: OpenSlide sees another level than this reader. */
static int take_metadata(struct tiff_slide *v, int64_t level, struct err *e)
{
    struct slide_info w;
    struct err why = {0};
    struct slide_info *i = &v->info;
    const struct tiff_level *l = &v->level;
    const int64_t seen = l->pyramid->seen[level];
    if (!slide_metadata_available() ||
        l->pyramid->seen[0] != 0) /* it takes another for the slide */
        return 1;
    if (check_first_tiles(v, &why)) {
        note_refusal(v, -1, &why);
        return 1;
    }
    const int known =
        slide_metadata_open(&v->common.slide.metadata, v->file, seen < 0 ? 0 : seen, &w, &why);
    if (known == -1 && slide_may_pass(errno))
        return err_copy(e, &why);
    if (known == -1) { /* the file has the level: a call that failed has hidden it */
        errno = EIO;
        return err_set(e, "OpenSlide does not see its level %" PRId64 "; try again", level);
    }
    if (known <= 0) {
        note_refusal(v, known, &why);
        return 1;
    }
    if (strcmp(w.vendor, i->vendor) != 0 ||
        (seen >= 0 && (w.width != i->width || w.height != i->height)))
        return slide_metadata_confirm(v->common.slide.metadata,
                                      e); /* 0: to OpenSlide. A call may have failed */
    if (w.levels != l->pyramid->n_seen) { /* a level that a failed call has hidden from OpenSlide */
        errno = EIO;
        return err_set(e, "OpenSlide sees %" PRId64 " of its %" PRId64 " levels; try again",
                       w.levels, l->pyramid->n_seen);
    }
    memcpy(i->quickhash, w.quickhash, sizeof i->quickhash);
    memcpy(i->background, w.background, 3);
    i->bounds_x = w.bounds_x;
    i->bounds_y = w.bounds_y;
    return 1;
}

static int open_tiles(struct tiff_slide *v, int threads)
{
    const struct tiff_level *l = &v->level;
    struct tile_grid g = {.format = l->format,
                          .cols = l->cols,
                          .rows = l->rows,
                          .places = l->places,
                          .in_planes = l->in_planes};
    memcpy(g.background, v->info.background, sizeof g.background);
    v->common.tiles = tile_file_open(v->file, &g, threads);
    return 1;
}

/* Tiles that are too large to be decoded one by one, or that OpenSlide would turn. 1 or -1. */
static int open_picture(struct tiff_slide *v, struct err *e)
{
    struct picture_form f;
    struct slide_info *i = &v->info;
    int bad = tiff_picture_open(&f, v->file, v->level.pyramid->at[i->level], e);
    if (!bad)
        bad = tiff_mask_read(v->file, v->level.pyramid->masks[i->level], f.width, PICTURE_TILE,
                             PICTURE_TILE, &f.shown, e);
    if (bad) {
        const int code = errno;
        picture_form_free(&f);
        errno = code;
        return bad == PICTURE_OTHER ? err_add(e, "unsupported") : -1;
    }
    memcpy(f.background, i->background, sizeof f.background);
    v->common.slide.reader = &tiff_as_picture;
    i->tile_cols = i->tile_rows = PICTURE_TILE;
    i->has_eighth = i->gray_is_luma = i->is_j2k = false;
    i->is_gray = tile_is_gray(&f.format);
    snprintf(i->no_jpeg, sizeof i->no_jpeg, "its %s",
             v->level.in_strips                    ? "level lies in strips"
             : v->level.format.cols > PICTURE_TILE ? "tiles are too large"
                                                   : "tiles are of a kind that is decoded in rows");
    i->in_order = true;
    v->picture = picture_open(&f);
    return 1;
}

static int open_as(const struct slide_reader *reader, struct slide **out,
                   const struct slide_file *file, int64_t level, int threads,
                   struct slide_info *info, struct err *e)
{
    struct tiff_slide *v = memory_need(1, sizeof *v);
    *v = (struct tiff_slide){.common.slide.reader = reader, .file = file};
    int r = tiff_level_read(&v->level, file, level, reader == &slide_svs, e);
    if (r > 0) {
        describe(v, level);
        r = take_metadata(v, level, e);
    }
    if (r > 0)
        r = v->level.is_picture ? open_picture(v, e) : open_tiles(v, threads);
    if (r <= 0) {
        const int code = errno;
        tiff_close(&v->common.slide);
        errno = code;
        return r;
    }
    *info = v->info;
    *out = &v->common.slide;
    return 1;
}

static int svs_open(struct slide **out, const struct slide_file *file, int64_t level, int threads,
                    struct slide_info *info, struct err *e)
{
    return open_as(&slide_svs, out, file, level, threads, info, e);
}

static int tiff_open(struct slide **out, const struct slide_file *file, int64_t level, int threads,
                     struct slide_info *info, struct err *e)
{
    return open_as(&slide_tiff, out, file, level, threads, info, e);
}

static const char *tiff_colour_conflict(const struct slide *s)
{
    if (((const struct tiff_slide *)s)->level.is_jfif)
        return "the tiles say YCbCr (JFIF), the photometric tag says RGB; read as YCbCr";
    return tile_file_colour_conflict(s);
}

/* --- metadata --- */

static int tiff_properties(struct slide *s,
                           int (*put)(void *ctx, const char *key, const char *value), void *ctx)
{
    const struct tiff_slide *v = from_slide(s);
    char text[8];
    snprintf(text, sizeof text, "%d", v->level.orientation & 0xf);
    int r = v->level.orientation != 1 ? put(ctx, SLIDE_ORIENTATION, text) : 0;
    snprintf(text, sizeof text, "%d", v->level.pyramid->planes & 0xfff);
    if (r == 0 && v->level.pyramid->planes > 1)
        r = put(ctx, SLIDE_FOCAL_PLANES, text);
    if (r)
        return r;
    if (s->metadata)
        return slide_metadata_properties(s, put, ctx);
    return is_aperio(&v->level)
               ? svs_description_properties(v->level.pyramid->description, put, ctx)
               : 0;
}

static int tiff_thumbnail(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height,
                          struct err *e)
{
    const struct tiff_slide *v = from_slide(s);
    const int r = s->metadata ? slide_metadata_thumbnail(s, rgb, width, height, e) : 0;
    if (r != 0 || (s->metadata && *width > 0) || !is_aperio(&v->level))
        return r;
    /* OpenSlide drops a thumbnail without a word when it cannot open the file once more */
    if (tiff_level_thumbnail(v->file, rgb, width, height))
        return 1;
    if (slide_may_pass(errno))
        return err_sys(e, "cannot read its thumbnail");
    err_set(e, "its thumbnail cannot be read");
    return SLIDE_DAMAGED;
}

static int tiff_thumbnail_jpeg(struct slide *s, struct jpeg_strips *out, struct err *e)
{
    const struct tiff_slide *v = from_slide(s);
    return svs_thumbnail_keep(v->file, &v->level.thumbnail, out, e);
}

static int tiff_icc(struct slide *s, uint8_t **profile, size_t *bytes, struct err *e)
{
    const struct tiff_level *l = &from_slide(s)->level;
    if (l->lost_icc) {
        err_set(e, "its ICC profile cannot be read");
        return SLIDE_DAMAGED;
    }
    if (!l->icc)
        return 0;
    *bytes = l->icc_bytes;
    *profile = memory_try(l->icc_bytes, 1, e);
    if (!*profile)
        return -1;
    memcpy(*profile, l->icc, l->icc_bytes);
    return 1;
}

const struct slide_reader slide_svs = {
    .name = "svs",
    .open = svs_open,
    .read = tile_file_read,
    .read_eighth = tile_file_read_eighth,
    .read_kept = tile_file_read_kept,
    .is_missing = tile_file_is_missing,
    .refusal = tile_file_refusal,
    .colour_conflict = tiff_colour_conflict,
    .prefetch = tile_file_prefetch,
    .properties = tiff_properties,
    .thumbnail = tiff_thumbnail,
    .thumbnail_jpeg = tiff_thumbnail_jpeg,
    .icc = tiff_icc,
    .close = tiff_close,
};

const struct slide_reader slide_tiff = {
    .name = "tiff",
    .open = tiff_open,
    .read = tile_file_read,
    .read_eighth = tile_file_read_eighth,
    .read_kept = tile_file_read_kept,
    .is_missing = tile_file_is_missing,
    .refusal = tile_file_refusal,
    .colour_conflict = tiff_colour_conflict,
    .prefetch = tile_file_prefetch,
    .properties = tiff_properties,
    .thumbnail = tiff_thumbnail,
    .icc = tiff_icc,
    .close = tiff_close,
};

/* --- as a picture --- */

static int read_tile(struct slide *s, int thread, int64_t col, int64_t row, int channels,
                     uint8_t *out, enum store_status *status, struct err *e)
{
    (void)thread;
    return picture_read(from_slide(s)->picture, col, row, channels, out, status, e);
}

static const char *refusal(const struct slide *s)
{
    return picture_refusal(((const struct tiff_slide *)s)->picture);
}

static const char *conflict(const struct slide *s)
{
    return picture_conflict(((const struct tiff_slide *)s)->picture);
}

static const struct slide_reader tiff_as_picture = {
    .name = "tiff",
    .read = read_tile,
    .refusal = refusal,
    .colour_conflict = conflict,
    .properties = tiff_properties,
    .thumbnail = tiff_thumbnail,
    .icc = tiff_icc,
    .close = tiff_close,
};
