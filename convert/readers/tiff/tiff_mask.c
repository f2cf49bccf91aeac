/* tiff_mask.c - see tiff_mask.h. */
#include "convert/readers/tiff/tiff_mask.h"

#include "common/base/memory.h"
#include "convert/readers/tiff/tiff_picture.h"

#include <errno.h>
#include <stdlib.h>

struct mask {
    int64_t width;      /* px */
    int64_t cols, rows; /* px of a chunk */
    int64_t across;     /* chunks */
    int bits;           /* pixels of a byte: 8 or 1 */
    bool *shown;
};

/* As picture_row: a damaged row hides nothing. */
static void take_row(void *ctx, int64_t x, int64_t y, int64_t n, const uint8_t *row)
{
    const struct mask *m = ctx;
    bool *shown = m->shown + y / m->rows * m->across;
    for (int64_t k = 0; k < n; k++) {
        const int byte = row ? row[k] : UINT8_MAX;
        for (int bit = 0; byte && bit < m->bits; bit++) {
            const int64_t at = (x + k) * m->bits + bit;
            if (at < m->width && (m->bits == 1 || (byte & 128 >> bit)))
                shown[at / m->cols] = true;
        }
    }
}

/* Reads a mask of the form f, which is closed. */
static int scan(struct mask *m, const struct picture_form *f, struct err *e)
{
    const int64_t down = (f->height + m->rows - 1) / m->rows;
    struct picture *p = picture_open(f);
    m->across = (m->width + m->cols - 1) / m->cols;
    m->shown = memory_try_zero((size_t)m->across, (size_t)down, e);
    const int bad = m->shown ? picture_scan(p, take_row, m, e) : -1;
    const int code = errno;
    picture_close(p);
    if (bad)
        free(m->shown);
    errno = code;
    return bad;
}

int tiff_mask_read(const struct slide_file *file, uint64_t at, int64_t width, int64_t tile_cols,
                   int64_t tile_rows, bool **shown, struct err *e)
{
    struct picture_form f = {0};
    struct mask m = {.width = width, .cols = tile_cols, .rows = tile_rows};
    struct err why = {0};
    *shown = NULL;
    if (at == 0)
        return 0;
    const int other = tiff_picture_open_mask(&f, file, at, &m.bits, &why);
    int bad = other == -1 ? err_copy(e, &why) : other ? 0 : scan(&m, &f, e);
    if (other)
        picture_form_free(&f);
    *shown = other || bad ? NULL : m.shown;
    return bad;
}
