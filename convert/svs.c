/*
 * svs.c - Aperio SVS, read directly.
 *
 * svs_level.h says where each tile lies. Tiles are read with pread from one descriptor, and each
 * thread decodes them (tile.h) straight into the chunk that is stored. OpenSlide takes five times
 * as long for the same pixels, in its blitting.
 *
 * OpenSlide still describes the slide as a whole (slide_metadata.h). A slide that OpenSlide rejects
 * because of one damaged tile is read all the same, with what its own description says. Aperio
 * files with another compression are left to OpenSlide altogether.
 */
#include "convert/slide.h"

#include "convert/anonymous.h"
#include "convert/slide_metadata.h"
#include "convert/svs_description.h"
#include "convert/svs_level.h"
#include "convert/tile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GAP_BYTES = 1 << 16 }; /* tiles this near to each other are prefetched in one go */

/* What one thread needs. */
struct scratch {
    struct tile_decoder *decoder; /* NULL until it is needed */
    uint8_t *bytes;               /* of one compressed tile */
    size_t size;                  /* of bytes */
};

struct svs {
    struct slide slide;
    int fd;
    uint64_t file_bytes;
    struct slide_info info;
    char *path;
    struct svs_level level;
    struct slide_metadata *metadata; /* NULL when OpenSlide cannot open the file */
    int threads;
    struct scratch *scratch; /* [threads] */
};

static struct svs *from_slide(struct slide *s)
{
    return (struct svs *)s;
}

/* --- opening and closing --- */

static void svs_close(struct slide *s)
{
    struct svs *v = from_slide(s);
    for (int t = 0; v->scratch && t < v->threads; t++) {
        tile_free(v->scratch[t].decoder);
        free(v->scratch[t].bytes);
    }
    slide_metadata_close(v->metadata);
    if (v->fd >= 0)
        close(v->fd);
    free(v->scratch);
    svs_level_free(&v->level);
    free(v->path);
    free(v);
}

/* What the file itself says of the slide. */
static void describe(struct svs *v, int64_t level)
{
    const struct svs_level *l = &v->level;
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
    i->gray_is_luma = l->format.compression == TILE_JPEG &&
                      l->format.photometric == TILE_PHOTOMETRIC_YCBCR;
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
static int take_metadata(struct svs *v, const char *path, int64_t level, struct err *e)
{
    struct slide_info w;
    struct err why = {""};
    struct slide_info *i = &v->info;
    if (!slide_metadata_available())
        return 1;
    const int known = slide_metadata_open(&v->metadata, path, level, &w, &why);
    if (known == -1)
        return err_set(e, "%s", why.msg);
    if (known <= 0) {
        anonymous_replace(why.msg, sizeof why.msg, path, "the file"); /* stores keep no path */
        snprintf(i->problem, sizeof i->problem, "%.200s",
                 known < 0 ? why.msg : "OpenSlide does not know it");
        return 1;
    }
    if (strcmp(w.vendor, "aperio") || w.width != i->width || w.height != i->height)
        return 0;
    memcpy(i->quickhash, w.quickhash, sizeof i->quickhash);
    memcpy(i->background, w.background, 3);
    i->downsample = w.downsample;
    i->levels = w.levels;
    memcpy(i->downsamples, w.downsamples, sizeof i->downsamples);
    return 1;
}

static int open_file(struct svs *v, const char *path, struct err *e)
{
    struct stat st;
    v->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (v->fd < 0 || fstat(v->fd, &st))
        return err_sys(e, "cannot open");
    v->file_bytes = (uint64_t)st.st_size;
    return 1;
}

static int svs_open(struct slide **out, const char *path, int64_t level, int threads,
                    struct slide_info *info, struct err *e)
{
    struct svs *v = calloc(1, sizeof *v);
    if (!v)
        return err_set(e, "out of memory");
    *v = (struct svs){.slide.reader = &slide_svs, .fd = -1, .threads = threads};
    int r = svs_level_read(&v->level, path, level, e);
    if (r > 0) {
        describe(v, level);
        r = take_metadata(v, path, level, e);
    }
    if (r > 0)
        r = open_file(v, path, e);
    v->path = strdup(path);
    v->scratch = calloc((size_t)threads, sizeof *v->scratch);
    if (r > 0 && (!v->path || !v->scratch))
        r = err_set(e, "out of memory");
    if (r <= 0) {
        const int code = errno;
        svs_close(&v->slide);
        errno = code;
        return r;
    }
    *info = v->info;
    *out = &v->slide;
    return 1;
}

/* --- tiles --- */

/* Can the bytes lie there? More than twice the pixels' size is no tile. */
static bool is_possible(const struct svs *v, const struct svs_place *p)
{
    const struct tile_format *f = &v->level.format;
    const uint64_t most = 6 * (uint64_t)(f->cols * f->rows) + 65536;
    return p->bytes <= most && p->offset <= v->file_bytes && p->bytes <= v->file_bytes - p->offset;
}

/* 0; 1: the file ends before the tile does; -1. */
static int read_bytes(const struct svs *v, struct scratch *t, const struct svs_place *p,
                      struct err *e)
{
    if (p->bytes > t->size) {
        free(t->bytes);
        t->size = 0;
        if (!(t->bytes = malloc(p->bytes)))
            return err_set(e, "out of memory");
        t->size = p->bytes;
    }
    for (size_t done = 0; done < p->bytes;) {
        const off_t at = (off_t)(p->offset + done);
        const ssize_t n = pread(v->fd, t->bytes + done, p->bytes - done, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "cannot read");
        if (n == 0)
            return 1;
        done += (size_t)n;
    }
    return 0;
}

/* n pixels of background. */
static void fill(const struct svs *v, int channels, size_t n, uint8_t *out)
{
    const uint8_t *b = v->info.background;
    const uint8_t gray = (uint8_t)((299 * b[0] + 587 * b[1] + 114 * b[2] + 500) / 1000);
    if (channels == 1)
        memset(out, gray, n);
    for (size_t k = 0; channels == 3 && k < n; k++)
        memcpy(out + 3 * k, b, 3);
}

/* Prepares the thread's decoder and reads a tile's bytes. 0; 1: they are not in the file; -1. */
static int fetch(struct svs *v, struct scratch *t, const struct svs_place *p, struct err *e)
{
    if (!t->decoder && !(t->decoder = tile_create(&v->level.format, e)))
        return -1;
    return p->bytes > 0 && is_possible(v, p) ? read_bytes(v, t, p, e) : 1;
}

/* What follows from decoding a tile: `bad` is 0, 1 (its bytes are not in the file), TILE_DAMAGED or
 * TILE_NO_MEMORY. The n pixels of a bad tile become background. */
static int settle(const struct svs *v, const struct svs_place *p, int bad, int channels, size_t n,
                  uint8_t *out, enum store_status *status)
{
    if (bad == TILE_NO_MEMORY)
        return -1;
    *status = bad == 0 ? STORE_WHOLE : p->bytes == 0 ? STORE_MISSING : STORE_DAMAGED;
    if (bad)
        fill(v, channels, n, out);
    return 0;
}

static int svs_read(struct slide *s, int thread, int64_t col, int64_t row, int channels,
                    uint8_t *out, enum store_status *status, struct err *e)
{
    struct svs *v = from_slide(s);
    const struct tile_format *f = &v->level.format;
    const struct svs_place *p = &v->level.places[row * v->level.cols + col];
    struct scratch *t = &v->scratch[thread];
    int bad = fetch(v, t, p, e);
    if (bad < 0)
        return -1;
    if (bad == 0)
        bad = tile_decode(t->decoder, t->bytes, p->bytes, channels, out, e);
    return settle(v, p, bad, channels, (size_t)(f->cols * f->rows), out, status);
}

static int svs_read_eighth(struct slide *s, int thread, int64_t col, int64_t row, uint8_t *rgb,
                           enum store_status *status, struct err *e)
{
    struct svs *v = from_slide(s);
    const struct tile_format *f = &v->level.format;
    const struct svs_place *p = &v->level.places[row * v->level.cols + col];
    struct scratch *t = &v->scratch[thread];
    int bad = fetch(v, t, p, e);
    if (bad < 0)
        return -1;
    if (bad == 0)
        bad = tile_decode_eighth(t->decoder, t->bytes, p->bytes, rgb, e);
    return settle(v, p, bad, 3, (size_t)(f->cols / 8 * (f->rows / 8)), rgb, status);
}

static int svs_read_jpeg(struct slide *s, int thread, int64_t col, int64_t row,
                         struct jpeg_chunk *chunk, uint8_t *eighth, enum store_status *status,
                         struct err *e)
{
    struct svs *v = from_slide(s);
    const struct svs_place *p = &v->level.places[row * v->level.cols + col];
    struct scratch *t = &v->scratch[thread];
    int bad = fetch(v, t, p, e);
    if (bad < 0)
        return -1;
    *status = p->bytes == 0 ? STORE_MISSING : STORE_DAMAGED;
    if (bad)
        return 0;
    bad = tile_keep(t->decoder, t->bytes, p->bytes, chunk, eighth, e);
    if (bad == TILE_NO_MEMORY)
        return -1;
    if (bad == TILE_DAMAGED)
        return 0;
    *status = STORE_WHOLE;
    return bad == TILE_OTHER ? SLIDE_OTHER : 0;
}

static bool svs_is_missing(const struct slide *s, int64_t col, int64_t row)
{
    const struct svs_level *l = &((const struct svs *)s)->level;
    return l->places[row * l->cols + col].bytes == 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct svs_place *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Asks the kernel for n tiles, sorted by offset: neighbours in one go. */
static void advise(const struct svs *v, const struct svs_place *p, size_t n)
{
    for (size_t a = 0, b; a < n; a = b) {
        uint64_t stop = p[a].offset + p[a].bytes;
        for (b = a + 1; b < n && p[b].offset <= stop + GAP_BYTES; b++)
            if (p[b].offset + p[b].bytes > stop)
                stop = p[b].offset + p[b].bytes;
        posix_fadvise(v->fd, (off_t)p[a].offset, (off_t)(stop - p[a].offset), POSIX_FADV_WILLNEED);
    }
}

static void svs_prefetch(struct slide *s, int64_t row, int64_t rows)
{
    const struct svs *v = from_slide(s);
    const struct svs_level *l = &v->level;
    const int64_t end = row + rows < l->rows ? row + rows : l->rows;
    size_t n = 0;
    struct svs_place *p = malloc((size_t)((end - row) * l->cols) * sizeof *p);
    for (int64_t k = row * l->cols; p && k < end * l->cols; k++)
        if (l->places[k].bytes > 0 && is_possible(v, &l->places[k]))
            p[n++] = l->places[k];
    if (n > 1)
        qsort(p, n, sizeof *p, by_offset);
    advise(v, p, n);
    free(p);
}

/* --- metadata --- */

static int svs_properties(struct slide *s,
                          int (*put)(void *ctx, const char *key, const char *value), void *ctx)
{
    const struct svs *v = from_slide(s);
    return v->metadata ? slide_metadata_properties(v->metadata, put, ctx)
                       : svs_description_properties(v->level.description, put, ctx);
}

static int svs_thumbnail(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height,
                         struct err *e)
{
    const struct svs *v = from_slide(s);
    const int r = v->metadata ? slide_metadata_thumbnail(v->metadata, rgb, width, height, e) : 0;
    if (r != 0 || (v->metadata && *width > 0))
        return r;
    /* OpenSlide drops a thumbnail without a word when it cannot open the file once more */
    if (svs_level_thumbnail(v->path, rgb, width, height))
        return 1;
    if (slide_may_pass(errno))
        return err_sys(e, "cannot read its thumbnail");
    err_set(e, "its thumbnail cannot be read");
    return SLIDE_DAMAGED;
}

static int svs_icc(struct slide *s, uint8_t **profile, size_t *bytes, struct err *e)
{
    const struct svs_level *l = &from_slide(s)->level;
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
    .open = svs_open,
    .read = svs_read,
    .read_eighth = svs_read_eighth,
    .read_jpeg = svs_read_jpeg,
    .is_missing = svs_is_missing,
    .prefetch = svs_prefetch,
    .properties = svs_properties,
    .thumbnail = svs_thumbnail,
    .icc = svs_icc,
    .close = svs_close,
};
