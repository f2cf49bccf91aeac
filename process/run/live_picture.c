/* live_picture.c - see live_picture.h. */
#include "process/run/live_picture.h"

#include "common/base/memory.h"

#include "process/draw/block_mean.h"
#include "process/draw/colours.h"
#include "process/draw/png_file.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SIDE = 1024 };

static void make_row(const struct result_slide *s, int map, int64_t y, int64_t width, int64_t block,
                     uint8_t *out)
{
    const struct result_map_kind *kind = s->maps[map].kind;
    for (int64_t x = 0; x < width; x++) {
        const double mean = block_mean(s, map, x, y, block);
        const int k = colours_number(mean, kind->low, kind->high, COLOURS_MAP);
        out[x] = (uint8_t)(k < 0 ? COLOURS_STROKE : k);
    }
}

int live_picture(FILE *f, const struct result_slide *s, int map, int64_t rows, struct err *e)
{
    const int64_t longest = s->nx > s->ny ? s->nx : s->ny;
    const int64_t block = (longest + MOST_SIDE - 1) / MOST_SIDE;
    const int64_t width = (s->nx + block - 1) / block, height = (s->ny + block - 1) / block;
    uint32_t palette[COLOURS_PALETTE];
    uint8_t *row = memory_need((size_t)width, 1); /* at most MOST_SIDE */
    colours_palette(palette, 255);
    palette[COLOURS_STROKE] = 0; /* the page hatches behind it */
    const struct png_file_setup setup = {.width = width,
                                         .height = height,
                                         .kind = PNG_FILE_PALETTE,
                                         .palette = palette,
                                         .n_palette = COLOURS_PALETTE,
                                         .level = 1};
    struct png_file *p = png_file_begin(f, &setup, e);
    int bad = p ? 0 : -1;
    for (int64_t y = 0; y < height && !bad; y++) {
        const int64_t end = (y + 1) * block < s->ny ? (y + 1) * block : s->ny;
        if (end <= rows)
            make_row(s, map, y, width, block, row);
        else
            memset(row, COLOURS_CLEAR, (size_t)width);
        bad = png_file_row(p, row, e);
    }
    bad = bad || png_file_end(p, e);
    png_file_free(p);
    free(row);
    return bad ? -1 : 0;
}
