/* svs_thumbnail.c - see svs_thumbnail.h. The strips are the tiles of a level of one column. */
#include "convert/readers/svs_thumbnail.h"

#include "common/base/memory.h"

#include "convert/readers/slide.h"
#include "convert/readers/slide_damage.h"

#include <errno.h>
#include <stdlib.h>

void svs_strips_free(struct svs_strips *s)
{
    free(s->places);
    free(s->tables);
    *s = (struct svs_strips){0};
}

/* Opens strips of so many rows, from strip `first` on. */
static struct tiled_slide open_strips(const struct slide_file *file, const struct svs_strips *s,
                                      int64_t first, int64_t rows)
{
    struct tile_grid g = {
        .format = s->format, .cols = 1, .rows = s->n - first, .places = s->places + first};
    g.format.rows = rows;
    return (struct tiled_slide){.tiles = tile_file_open(file, &g, 1)};
}

/* Strip k as a chunk, if it is not damaged. 1, 0 or -1. */
static int keep_strip(struct tiled_slide *t, int64_t k, struct jpeg_strips *out, struct err *e)
{
    struct jpeg_chunk chunk = {0};
    enum store_status status = STORE_DAMAGED;
    int r = tile_file_read_kept(&t->slide, 0, 0, k, &chunk, NULL, &status, e);
    if (r == 0 && status == STORE_WHOLE)
        r = jpeg_strips_add(out, &chunk, e) ? -1 : 1;
    else if (r == SLIDE_OTHER)
        r = 0;
    free(chunk.bytes);
    return r;
}

/* A last strip of fewer rows as pixels. 1, 0 or -1. */
static int keep_pixels(const struct slide_file *file, const struct svs_strips *s,
                       struct jpeg_strips *out, struct err *e)
{
    const size_t bytes = (size_t)(3 * out->width * out->rows);
    struct jpeg_chunk chunk = {.bytes = memory_try_zero(1, bytes, e), .n = bytes, .room = bytes};
    enum store_status status = STORE_DAMAGED;
    struct tiled_slide t = open_strips(file, s, s->n - 1, s->height - (s->n - 1) * out->rows);
    int r = chunk.bytes ? 0 : -1;
    if (r == 0)
        r = tile_file_read(&t.slide, 0, 0, 0, 3, chunk.bytes, &status, e);
    if (r == 0 && status == STORE_WHOLE)
        r = jpeg_strips_add(out, &chunk, e) ? -1 : 1;
    tile_file_close(t.tiles);
    free(chunk.bytes);
    return r;
}

static int keep(const struct slide_file *file, const struct svs_strips *s, struct jpeg_strips *out,
                struct err *e)
{
    struct tiled_slide t = open_strips(file, s, 0, out->rows);
    int r = 1;
    for (int64_t k = 0; r > 0 && k < s->n; k++)
        r = jpeg_strips_is_raw(out, k) ? keep_pixels(file, s, out, e) : keep_strip(&t, k, out, e);
    tile_file_close(t.tiles);
    return r;
}

int svs_thumbnail_keep(const struct slide_file *file, const struct svs_strips *s,
                       struct jpeg_strips *out, struct err *e)
{
    *out =
        (struct jpeg_strips){.width = s->format.cols, .height = s->height, .rows = s->format.rows};
    errno = 0;
    int r = s->n > 0 ? keep(file, s, out, e) : 0;
    if (r < 0 && !slide_may_pass(errno)) /* tables that are damaged */
        r = 0;
    if (r <= 0) {
        const int code = errno;
        jpeg_strips_free(out);
        errno = code;
    }
    return r;
}
