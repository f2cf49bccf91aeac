/*
 * slide_tiff.c - Aperio SVS, read directly.
 *
 * tiff_level.h says where each tile lies, and tile_file.h reads the tiles. OpenSlide takes five
 * times as long for the same pixels, in its blitting.
 *
 * OpenSlide still describes the slide as a whole (slide_metadata.h). A slide that OpenSlide rejects
 * because of one damaged tile is read all the same, with what its own description says. Aperio
 * files with another compression are left to OpenSlide altogether.
 */
#include "convert/readers/slide_tiles.h"

#include "common/base/text.h"
#include "convert/readers/slide_metadata.h"
#include "convert/readers/svs_description.h"
#include "convert/readers/tiff_level.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tiff_slide {
    struct slide_tiles common;
    struct slide_info info;
    char *path;
    struct tiff_level level;
    struct slide_metadata *metadata; /* NULL when OpenSlide cannot open the file */
};

static struct tiff_slide *from_slide(struct slide *s)
{
    return (struct tiff_slide *)s;
}

/* --- opening and closing --- */

static void tiff_close(struct slide *s)
{
    struct tiff_slide *v = from_slide(s);
    tile_file_close(v->common.tiles);
    slide_metadata_close(v->metadata);
    tiff_level_free(&v->level);
    free(v->path);
    free(v);
}

/* What the file itself says of the slide. */
static void describe(struct tiff_slide *v, int64_t level)
{
    const struct tiff_level *l = &v->level;
    struct slide_info *i = &v->info;
    *i = (struct slide_info){.level = level,
                             .downsample = l->downsample,
                             .width = l->width,
                             .height = l->height,
                             .tile_cols = l->format.cols,
                             .tile_rows = l->format.rows,
                             .has_thumbnail = l->has_thumbnail};
    i->has_eighth =
        l->format.compression == TILE_JPEG && i->tile_cols % 8 == 0 && i->tile_rows % 8 == 0;
    i->gray_is_luma =
        l->format.compression == TILE_JPEG && l->format.photometric == TILE_PHOTOMETRIC_YCBCR;
    if (l->format.compression != TILE_JPEG)
        snprintf(i->no_jpeg, sizeof i->no_jpeg, "its tiles are JPEG 2000");
    memset(i->background, 255, 3);
    i->levels = l->levels;
    memcpy(i->downsamples, l->downsamples, sizeof i->downsamples);
    snprintf(i->vendor, sizeof i->vendor, "aperio");
    i->mpp_x = i->mpp_y = svs_description_number(l->description, "MPP");
    i->objective_power = svs_description_number(l->description, "AppMag");
}

/* What OpenSlide knows of the slide. 0: OpenSlide sees another level than this reader. */
static int take_metadata(struct tiff_slide *v, const char *path, int64_t level, struct err *e)
{
    struct slide_info w;
    struct err why = {""};
    struct slide_info *i = &v->info;
    if (!slide_metadata_available())
        return 1;
    const int known = slide_metadata_open(&v->metadata, path, level, &w, &why);
    if (known == -1 && slide_may_pass(errno))
        return err_set(e, "%s", why.msg);
    if (known == -1) { /* the file has the level: a call that failed has hidden it */
        errno = EIO;
        return err_set(e, "OpenSlide does not see its level %" PRId64 "; try again", level);
    }
    if (known <= 0) {
        text_replace(why.msg, sizeof why.msg, path, "the file"); /* stores keep no path */
        snprintf(i->problem, sizeof i->problem, "%.200s",
                 known < 0 ? why.msg : "OpenSlide does not know it");
        return 1;
    }
    if (strcmp(w.vendor, "aperio") || w.width != i->width || w.height != i->height)
        return 0;
    if (w.levels != v->level.levels) { /* a level that a failed call has hidden from OpenSlide */
        errno = EIO;
        return err_set(e, "OpenSlide sees %" PRId64 " of its %" PRId64 " levels; try again",
                       w.levels, v->level.levels);
    }
    memcpy(i->quickhash, w.quickhash, sizeof i->quickhash);
    memcpy(i->background, w.background, 3);
    i->downsample = w.downsample;
    i->levels = w.levels;
    memcpy(i->downsamples, w.downsamples, sizeof i->downsamples);
    return 1;
}

static int open_tiles(struct tiff_slide *v, const char *path, int threads, struct err *e)
{
    const struct tiff_level *l = &v->level;
    struct tile_grid g = {
        .format = l->format, .cols = l->cols, .rows = l->rows, .places = l->places};
    memcpy(g.background, v->info.background, sizeof g.background);
    v->common.tiles = tile_file_open(path, &g, threads, e);
    return v->common.tiles ? 1 : -1;
}

static int tiff_open(struct slide **out, const char *path, int64_t level, int threads,
                    struct slide_info *info, struct err *e)
{
    struct tiff_slide *v = calloc(1, sizeof *v);
    if (!v)
        return err_set(e, "out of memory");
    *v = (struct tiff_slide){.common.slide.reader = &slide_svs};
    int r = tiff_level_read(&v->level, path, level, e);
    if (r > 0) {
        describe(v, level);
        r = take_metadata(v, path, level, e);
    }
    if (r > 0)
        r = open_tiles(v, path, threads, e);
    v->path = strdup(path);
    if (r > 0 && !v->path)
        r = err_set(e, "out of memory");
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

/* --- metadata --- */

static int tiff_properties(struct slide *s,
                          int (*put)(void *ctx, const char *key, const char *value), void *ctx)
{
    const struct tiff_slide *v = from_slide(s);
    return v->metadata ? slide_metadata_properties(v->metadata, put, ctx)
                       : svs_description_properties(v->level.description, put, ctx);
}

static int tiff_thumbnail(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height,
                         struct err *e)
{
    const struct tiff_slide *v = from_slide(s);
    const int r = v->metadata ? slide_metadata_thumbnail(v->metadata, rgb, width, height, e) : 0;
    if (r != 0 || (v->metadata && *width > 0))
        return r;
    /* OpenSlide drops a thumbnail without a word when it cannot open the file once more */
    if (tiff_level_thumbnail(v->path, rgb, width, height))
        return 1;
    if (slide_may_pass(errno))
        return err_sys(e, "cannot read its thumbnail");
    err_set(e, "its thumbnail cannot be read");
    return SLIDE_DAMAGED;
}

static int tiff_thumbnail_jpeg(struct slide *s, struct jpeg_strips *out, struct err *e)
{
    const struct tiff_slide *v = from_slide(s);
    return svs_thumbnail_keep(v->path, &v->level.thumbnail, out, e);
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
    *profile = malloc(l->icc_bytes);
    if (!*profile)
        return err_set(e, "out of memory");
    memcpy(*profile, l->icc, l->icc_bytes);
    return 1;
}

const struct slide_reader slide_svs = {
    .name = "svs",
    .open = tiff_open,
    .read = slide_tiles_read,
    .read_eighth = slide_tiles_read_eighth,
    .read_jpeg = slide_tiles_read_jpeg,
    .is_missing = slide_tiles_is_missing,
    .contradiction = slide_tiles_contradiction,
    .prefetch = slide_tiles_prefetch,
    .properties = tiff_properties,
    .thumbnail = tiff_thumbnail,
    .thumbnail_jpeg = tiff_thumbnail_jpeg,
    .icc = tiff_icc,
    .close = tiff_close,
};
