/*
 * slide_ndpi.c - Hamamatsu NDPI, its tiles read directly.
 *
 * ndpi_level.h cuts the one JPEG of a level into tiles. OpenSlide describes the slide as a whole
 * (slide_metadata.h), so a build without OpenSlide does not read the format. Levels that cannot be
 * cut exactly, and those that OpenSlide makes by shrinking, are left to OpenSlide.
 */
#include "convert/readers/tile_file.h"

#include "common/base/memory.h"

#include "convert/readers/ndpi_level.h"
#include "convert/readers/slide_metadata.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ndpi {
    struct tiled_slide common;
    struct ndpi_level level;
    struct slide_metadata *metadata;
};

static struct ndpi *from_slide(struct slide *s)
{
    return (struct ndpi *)s;
}

/* --- opening and closing --- */

static void ndpi_close(struct slide *s)
{
    struct ndpi *v = from_slide(s);
    tile_file_close(v->common.tiles);
    slide_metadata_close(v->metadata);
    ndpi_level_free(&v->level);
    free(v);
}

static void open_tiles(struct ndpi *v, const struct slide_file *file, int threads,
                       struct slide_info *info)
{
    const struct ndpi_level *l = &v->level;
    struct tile_grid g = {.format = {.compression = TILE_JPEG,
                                     .photometric = TILE_PHOTOMETRIC_YCBCR,
                                     .cols = l->cols,
                                     .rows = l->rows},
                          .cols = l->across,
                          .rows = (l->height + l->rows - 1) / l->rows,
                          .gather = ndpi_level_gather,
                          .ctx = l};
    memcpy(g.background, info->background, sizeof g.background);
    info->tile_cols = l->cols;
    info->tile_rows = l->rows;
    info->has_eighth = info->gray_is_luma = true;
    v->common.tiles = tile_file_open(file, &g, threads);
}

static int ndpi_open(struct slide **out, const struct slide_file *file, int64_t level, int threads,
                     struct slide_info *info, struct err *e)
{
    struct slide_info i;
    if (!ndpi_is(file))
        return 0;
    struct ndpi *v = memory_need(1, sizeof *v);
    v->common.slide.reader = &slide_ndpi;
    /* what OpenSlide rejects is reported by its own reader, which is asked next */
    int r = slide_metadata_open(&v->metadata, file, level, &i, e);
    r = r == SLIDE_DAMAGED ? 0 : r;
    if (r > 0 && slide_metadata_confirm(v->metadata, e))
        r = -1;
    if (r > 0)
        r = ndpi_level_read(&v->level, file, i.width, i.height, e);
    if (r > 0)
        open_tiles(v, file, threads, &i);
    if (r <= 0) {
        const int code = errno;
        ndpi_close(&v->common.slide);
        errno = code;
        return r;
    }
    *info = i;
    *out = &v->common.slide;
    return 1;
}

/* --- tiles --- */

static void ndpi_prefetch(struct slide *s, int64_t row, int64_t rows)
{
    ndpi_level_prefetch(&from_slide(s)->level, row, rows);
}

/* --- metadata --- */

static int ndpi_properties(struct slide *s,
                           int (*put)(void *ctx, const char *key, const char *value), void *ctx)
{
    return slide_metadata_properties(from_slide(s)->metadata, put, ctx);
}

static int ndpi_thumbnail(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height,
                          struct err *e)
{
    return slide_metadata_thumbnail(from_slide(s)->metadata, rgb, width, height, e);
}

static int ndpi_icc(struct slide *s, uint8_t **profile, size_t *bytes, struct err *e)
{
    return slide_metadata_icc(from_slide(s)->metadata, profile, bytes, e);
}

const struct slide_reader slide_ndpi = {
    .name = "ndpi",
    .open = ndpi_open,
    .read = tile_file_read,
    .read_eighth = tile_file_read_eighth,
    .read_kept = tile_file_read_kept,
    .is_missing = tile_file_is_missing,
    .refusal = tile_file_refusal,
    .prefetch = ndpi_prefetch,
    .properties = ndpi_properties,
    .thumbnail = ndpi_thumbnail,
    .icc = ndpi_icc,
    .close = ndpi_close,
};
