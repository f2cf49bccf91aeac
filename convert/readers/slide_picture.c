/*
 * slide_picture.c - plain pictures as slides: TIFF in strips, PNG and JPEG.
 *
 * Fields of a microscope camera, cores of a tissue microarray, exports of viewers. A TIFF file may
 * have coarser levels, in strips or tiles (tiff_pyramid.h). picture.h makes tiles of them.
 */
#include "convert/readers/frame/slide_reader.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "convert/readers/picture/picture.h"
#include "convert/readers/tiff/tiff_mask.h"
#include "convert/readers/tiff/tiff_picture.h"
#include "convert/readers/tiff/tiff_pyramid.h"
#include "convert/readers/tiff/tiff_samples.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most pixels per byte of a PNG or JPEG file: deflate packs 1,032 bytes into one, and each can be 8
 * pixels. */
enum { MOST_RATIO = 8 * 1032 };

typedef int opener(struct picture_form *f, const struct slide_file *file, struct err *e);

struct picture_slide {
    struct slide slide;
    const struct slide_file *file;
    struct picture *picture;
    const struct tiff_pyramid *pyramid; /* of TIFF; NULL: it has one level */
    int orientation;                    /* by TIFF's tag; 0: none */
    bool lacks_tag;                     /* the values of a tag are not in the file */
};

static struct picture_slide *from_slide(struct slide *s)
{
    return (struct picture_slide *)s;
}

static void close_slide(struct slide *s)
{
    picture_close(from_slide(s)->picture);
    free(s);
}

/* --- opening --- */

/* Turns a failure of tiff_picture_open() and the like into the result of open_slide(). */
static int rejected(int bad, struct err *e)
{
    if (bad == PICTURE_OTHER)
        err_add(e, "unsupported");
    else if (bad == PICTURE_DAMAGED)
        err_add(e, "damaged");
    if (bad != -1)
        errno = 0;
    return -1;
}

static int open_whole(struct picture_slide *v, opener *open, struct picture_form *f, struct err *e)
{
    const int bad = open(f, v->file, e);
    if (bad == PICTURE_DAMAGED) /* named by slide.c */
        return 0;
    if (bad)
        return rejected(bad, e);
    if (f->height / MOST_RATIO * f->width > (int64_t)v->file->bytes)
        return err_set(
            e, "damaged: the file is too small for %" PRId64 " x %" PRId64 " px; copy it again",
            f->width, f->height);
    return 1;
}

/* Do values of a tag lie outside the file? Not of types whose place is not known, as RATIONAL. */
static bool lacks_tag(const struct tiff_file *t, const struct tiff_directory *d)
{
    for (size_t k = 0; k < d->n; k++) {
        const uint64_t n = tiff_tag_bytes(&d->tags[k]);
        if (n > 0 && (d->tags[k].at > t->bytes || n > t->bytes - d->tags[k].at))
            return true;
    }
    return false;
}

static int open_strips(struct picture_slide *v, const struct tiff_file *t, int64_t level,
                       struct picture_form *f, struct err *e)
{
    bool lost;
    const int r = tiff_pyramid_strips(&v->pyramid, v->file, e);
    if (r <= 0)
        return r;
    if (level >= v->pyramid->levels)
        return slide_reject_level(v->pyramid->levels, level, e);
    const uint64_t at = v->pyramid->at[level], mask = v->pyramid->masks[level];
    int bad = tiff_picture_open(f, v->file, at, e);
    if (!bad)
        bad = tiff_mask_read(v->file, mask, f->width, PICTURE_TILE, PICTURE_TILE, &f->shown, e);
    if (bad)
        return rejected(bad, e);
    const struct tiff_directory *d = tiff_file_directory(t, at);
    if (!d)
        return r;
    v->orientation = (int)(tiff_file_value(t, d, TIFF_FILE_ORIENTATION, 0) & 0xf);
    v->lacks_tag = lacks_tag(t, d);
    errno = 0;
    f->icc = tiff_file_icc(t, v->pyramid->at[0], &f->icc_bytes, &lost);
    f->mpp_x = v->pyramid->mpp_x;
    f->mpp_y = v->pyramid->mpp_y;
    return slide_may_pass(errno) ? err_sys(e, "cannot read") : r;
}

static int open_any(struct picture_slide *v, int64_t level, struct picture_form *f,
                    const char **vendor, struct err *e)
{
    uint8_t head[8] = {0};
    errno = 0;
    if (read_at(v->file->fd, 0, head, sizeof head) < sizeof head)
        return errno ? err_sys(e, "cannot read") : 0;
    *vendor = "png";
    if (!memcmp(head, "\x89PNG\r\n\x1a\n", 8))
        return open_whole(v, picture_open_png, f, e);
    *vendor = "jpeg";
    if (!memcmp(head, "\xff\xd8\xff", 3))
        return open_whole(v, picture_open_jpeg, f, e);
    *vendor = "tiff";
    const struct tiff_file *t = tiff_file_of(v->file);
    return t ? open_strips(v, t, level, f, e) : 0;
}

static void describe(const struct picture_slide *v, int64_t level, const struct picture_form *f,
                     const char *vendor, struct slide_info *i)
{
    const struct tiff_pyramid *p = v->pyramid;
    *i = (struct slide_info){.level = level,
                             .downsample = 1,
                             .levels = 1,
                             .in_order = true,
                             .tile_compression = "no tiles",
                             .downsamples = {1},
                             .is_gray = tile_is_gray(&f->format),
                             .width = f->width,
                             .height = f->height,
                             .tile_cols = PICTURE_TILE,
                             .tile_rows = PICTURE_TILE,
                             .mpp_x = f->mpp_x,
                             .mpp_y = f->mpp_y,
                             .objective_power = NAN};
    memset(i->background, 255, 3);
    tiff_note_left_out(f->format.samples - tile_colours(&f->format) - (f->format.alpha_at > 0),
                       i->note, sizeof i->note);
    if (p) {
        i->levels = p->levels;
        memcpy(i->downsamples, p->downsamples, sizeof i->downsamples);
        i->downsample = p->downsamples[level];
        tiff_note_unitless(p->unitless, i);
    }
    snprintf(i->vendor, sizeof i->vendor, "%s", vendor);
    snprintf(i->no_jpeg, sizeof i->no_jpeg, "it has no tiles of its own");
    if (v->lacks_tag)
        snprintf(i->problem, sizeof i->problem, "a tag of its directory lies outside the file");
}

static int open_slide(struct slide **out, const struct slide_file *file, int64_t level, int threads,
                      struct slide_info *info, struct err *e)
{
    struct picture_form f = {0};
    const char *vendor = "";
    struct picture_slide *v = memory_need(1, sizeof *v);
    (void)threads;
    v->slide.reader = &slide_picture;
    v->file = file;
    int r = open_any(v, level, &f, &vendor, e);
    if (r > 0 && level > 0 && !v->pyramid)
        r = slide_reject_level(1, level, e);
    if (r <= 0) {
        const int code = errno;
        picture_form_free(&f);
        free(v);
        errno = code;
        return r;
    }
    describe(v, level, &f, vendor, info);
    v->picture = picture_open(&f);
    *out = &v->slide;
    return 1;
}

/* --- reading --- */

static int read_tile(struct slide *s, int thread, int64_t col, int64_t row, int channels,
                     uint8_t *out, enum store_status *status, struct err *e)
{
    (void)thread;
    return picture_read(from_slide(s)->picture, col, row, channels, out, status, e);
}

static const char *refusal(const struct slide *s)
{
    return picture_refusal(((const struct picture_slide *)s)->picture);
}

static const char *conflict(const struct slide *s)
{
    return picture_conflict(((const struct picture_slide *)s)->picture);
}

static int properties(struct slide *s, int (*put)(void *ctx, const char *key, const char *value),
                      void *ctx)
{
    char text[8];
    const int orientation = from_slide(s)->orientation;
    snprintf(text, sizeof text, "%d", orientation);
    return orientation ? put(ctx, SLIDE_ORIENTATION, text) : 0;
}

static int icc(struct slide *s, uint8_t **profile, size_t *bytes, struct err *e)
{
    return picture_icc(from_slide(s)->picture, profile, bytes, e);
}

const struct slide_reader slide_picture = {
    .name = "picture",
    .open = open_slide,
    .read = read_tile,
    .refusal = refusal,
    .colour_conflict = conflict,
    .properties = properties,
    .icc = icc,
    .close = close_slide,
};
