/*
 * slide_picture.c - plain pictures as slides of one level: TIFF in strips, PNG and JPEG.
 *
 * Fields of a microscope camera, cores of a tissue microarray, exports of viewers. um per px is
 * unknown, as resolutions in such files are for print, unless OME-XML states it. bands.h makes
 * tiles of them.
 */
#include "convert/readers/frame/slide_reader.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "convert/readers/picture/bands.h"
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

enum { MOST_ICC = 1 << 26 };

typedef int opener(struct rows **r, const struct slide_file *file, struct rows_picture *p,
                   struct err *e);
typedef int profiler(const struct slide_file *file, uint8_t **icc, size_t *bytes, struct err *e);

struct picture {
    struct slide slide;
    const struct slide_file *file;
    struct bands *bands;
    struct tiff_picture tiff; /* its places are NULL for other files */
    opener *open;             /* of those */
    struct rows_picture whole;
    double mpp_x, mpp_y; /* NaN when unknown */
    int orientation;     /* by TIFF's tag; 0: none */
    bool lacks_tag;      /* the values of a tag are not in the file */
    uint8_t *icc;
    size_t icc_bytes;
};

static struct picture *from_slide(struct slide *s)
{
    return (struct picture *)s;
}

static void picture_close(struct slide *s)
{
    struct picture *v = from_slide(s);
    bands_close(v->bands);
    tiff_picture_free(&v->tiff);
    free(v->icc);
    free(v);
}

/* --- opening --- */

static int begin_whole(const void *ctx, int64_t col, int64_t row, struct rows **r, struct err *e)
{
    const struct picture *v = ctx;
    struct rows_picture p;
    (void)col, (void)row;
    const int bad = v->open(r, v->file, &p, e);
    if (bad == 0 && (p.cols != v->whole.cols || p.channels != v->whole.channels)) {
        rows_close(*r);
        errno = EIO;
        return err_blame(e, ERR_TROUBLE, SLIDE_FILE_CHANGED);
    }
    return bad == ROWS_OTHER ? ROWS_DAMAGED : bad;
}

/* `bad` of tiff_picture_read and the like as what open returns. */
static int rejected(int bad, struct err *e)
{
    if (bad == ROWS_OTHER)
        err_add(e, "unsupported");
    else if (bad == ROWS_DAMAGED)
        err_add(e, "damaged");
    if (bad != -1)
        errno = 0;
    return -1;
}

static int open_whole(struct picture *v, opener *open, profiler *icc, struct bands_picture *b,
                      struct err *e)
{
    struct rows *r;
    v->open = open;
    const int bad = open(&r, v->file, &v->whole, e);
    if (bad == ROWS_DAMAGED) /* named by slide.c */
        return 0;
    if (bad)
        return rejected(bad, e);
    rows_close(r);
    if (v->whole.rows / MOST_RATIO * v->whole.cols > (int64_t)v->file->bytes)
        return err_set(
            e, "damaged: the file is too small for %" PRId64 " x %" PRId64 " px; copy it again",
            v->whole.cols, v->whole.rows);
    if (icc(v->file, &v->icc, &v->icc_bytes, e) < 0)
        return -1;
    *b = (struct bands_picture){.width = v->whole.cols,
                                .height = v->whole.rows,
                                .cols = v->whole.cols,
                                .rows = v->whole.rows,
                                .channels = v->whole.channels,
                                .background = {255, 255, 255},
                                .begin = begin_whole,
                                .ctx = v};
    return 1;
}

static int take_icc(struct picture *v, const struct tiff_file *t, const struct tiff_directory *d,
                    struct err *e)
{
    const struct tiff_tag *tag = tiff_directory_tag(d, TIFF_FILE_ICC);
    errno = 0;
    v->icc = tag ? (uint8_t *)tiff_file_bytes(t, tag, MOST_ICC) : NULL;
    v->icc_bytes = v->icc ? (size_t)tiff_tag_bytes(tag) : 0;
    return errno ? err_sys(e, "cannot read") : 0;
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

static int open_strips(struct picture *v, const struct tiff_file *t, struct bands_picture *b,
                       struct err *e)
{
    uint64_t at = 0;
    int r = tiff_pyramid_strips(v->file, &at, &v->mpp_x, &v->mpp_y, e);
    if (r <= 0)
        return r;
    const int bad = tiff_picture_read(&v->tiff, v->file, at, e);
    if (bad)
        return rejected(bad, e);
    const struct tiff_directory *d = tiff_file_directory(t, at);
    if (d) {
        v->orientation = (int)(tiff_file_value(t, d, TIFF_FILE_ORIENTATION, 0) & 0xf);
        r = take_icc(v, t, d, e) ? -1 : 1;
        v->lacks_tag = lacks_tag(t, d);
    }
    *b = tiff_picture_bands(&v->tiff);
    return r;
}

static int open_any(struct picture *v, struct bands_picture *b, const char **vendor, struct err *e)
{
    uint8_t head[8] = {0};
    errno = 0;
    if (read_at(v->file->fd, 0, head, sizeof head) < sizeof head)
        return errno ? err_sys(e, "cannot read") : 0;
    *vendor = "png";
    if (!memcmp(head, "\x89PNG\r\n\x1a\n", 8))
        return open_whole(v, png_rows_open, png_picture_icc, b, e);
    *vendor = "jpeg";
    if (!memcmp(head, "\xff\xd8\xff", 3))
        return open_whole(v, jpeg_picture_open, jpeg_picture_icc, b, e);
    *vendor = "tiff";
    const struct tiff_file *t = tiff_file_of(v->file);
    return t ? open_strips(v, t, b, e) : 0;
}

static void describe(const struct picture *v, const struct bands_picture *b, const char *vendor,
                     struct slide_info *i)
{
    *i = (struct slide_info){.downsample = 1,
                             .levels = 1,
                             .in_order = true,
                             .downsamples = {1},
                             .is_gray = b->channels == 1,
                             .width = b->width,
                             .height = b->height,
                             .tile_cols = BANDS_TILE,
                             .tile_rows = BANDS_TILE,
                             .mpp_x = v->mpp_x,
                             .mpp_y = v->mpp_y,
                             .objective_power = NAN};
    memset(i->background, 255, 3);
    tiff_note_left_out(v->tiff.n_left_out, i->note, sizeof i->note);
    snprintf(i->vendor, sizeof i->vendor, "%s", vendor);
    snprintf(i->no_jpeg, sizeof i->no_jpeg, "it has no tiles of its own");
}

static int picture_open(struct slide **out, const struct slide_file *file, int64_t level,
                        int threads, struct slide_info *info, struct err *e)
{
    struct bands_picture b;
    const char *vendor = "";
    struct picture *v = memory_need(1, sizeof *v);
    v->slide.reader = &slide_picture;
    v->mpp_x = v->mpp_y = NAN;
    v->file = file;
    int r = open_any(v, &b, &vendor, e);
    if (r > 0 && level > 0)
        r = slide_reject_level(1, level, e);
    if (r > 0 && !(v->bands = bands_open(&b, threads, e)))
        r = -1;
    if (r <= 0) {
        const int code = errno;
        picture_close(&v->slide);
        errno = code;
        return r;
    }
    describe(v, &b, vendor, info);
    if (v->lacks_tag)
        snprintf(info->problem, sizeof info->problem,
                 "a tag of its directory lies outside the file");
    *out = &v->slide;
    return 1;
}

/* --- reading --- */

static int picture_read(struct slide *s, int thread, int64_t col, int64_t row, int channels,
                        uint8_t *out, enum store_status *status, struct err *e)
{
    (void)thread;
    return bands_read(from_slide(s)->bands, col, row, channels, out, status, e);
}

static const char *picture_refusal(const struct slide *s)
{
    return bands_refusal(((const struct picture *)s)->bands);
}

static const char *picture_contradiction(const struct slide *s)
{
    const struct picture *v = (const struct picture *)s;
    return !v->open                               ? tiff_picture_contradiction(&v->tiff)
           : v->whole.conflict == TILE_AGREES     ? NULL
           : v->whole.conflict == TILE_SUBSAMPLED ? "the JPEG states RGB, but has subsampled "
                                                    "chroma; read as YCbCr"
                                                  : "the JPEG states RGB as well as YCbCr; read as "
                                                    "YCbCr";
}

static int picture_properties(struct slide *s,
                              int (*put)(void *ctx, const char *key, const char *value), void *ctx)
{
    char text[8];
    const int orientation = from_slide(s)->orientation;
    snprintf(text, sizeof text, "%d", orientation);
    return orientation ? put(ctx, SLIDE_ORIENTATION, text) : 0;
}

static int picture_icc(struct slide *s, uint8_t **profile, size_t *bytes, struct err *e)
{
    const struct picture *v = from_slide(s);
    if (!v->icc)
        return 0;
    if (!(*profile = memory_try(v->icc_bytes, 1, e)))
        return -1;
    memcpy(*profile, v->icc, v->icc_bytes);
    *bytes = v->icc_bytes;
    return 1;
}

const struct slide_reader slide_picture = {
    .name = "picture",
    .open = picture_open,
    .read = picture_read,
    .refusal = picture_refusal,
    .contradiction = picture_contradiction,
    .properties = picture_properties,
    .icc = picture_icc,
    .close = picture_close,
};
