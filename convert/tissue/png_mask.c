/* png_mask.c - see png_mask.h. HAVE_PNG comes from the Makefile's probe. */
#include "convert/tissue/png_mask.h"

#ifdef HAVE_PNG

#include "common/base/memory.h"
#include "common/base/stop.h"

#include <inttypes.h>
#include <png.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIDE = 1000000 };

/* Pixels of the picture along one axis that belong to a cell: first .. end - 1. */
struct range {
    int64_t first, end;
};

struct mask {
    png_structp png;
    png_infop info;
    jmp_buf on_error;
    char why[160];
    FILE *f;
    int64_t width, height, cell; /* of the slide, px */
    int64_t w, h;                /* of the picture */
    int64_t cols, rows;          /* cells */
    struct range *across, *down; /* [cols], [rows] */
    uint32_t *set;               /* [rows][cols]: set pixels of each cell */
    uint8_t *row;                /* a row of the picture as libpng gives it */
    uint8_t *bits;               /* [w] 1 = set */
};

/* --- what libpng calls --- */

static void fail(png_structp png, png_const_charp text)
{
    struct mask *m = png_get_error_ptr(png);
    snprintf(m->why, sizeof m->why, "%s", text);
    longjmp(m->on_error, 1);
}

static void ignore(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

/* --- cells --- */

/* `size` px of the slide are shown by `n` pixels. NULL: out of memory. */
static struct range *find_ranges(int64_t size, int64_t n, int64_t cell, int64_t cells,
                                 struct err *e)
{
    struct range *r = memory_try((size_t)cells, sizeof *r, e);
    int64_t k = 0;
    if (!r)
        return NULL;
    for (int64_t c = 0; c < cells; c++) {
        const int64_t end = (c + 1) * cell < size ? (c + 1) * cell : size;
        r[c].first = k;
        while (k < n && (2 * k + 1) * size < 2 * n * end) /* its centre is before the cell's end */
            k++;
        r[c].end = k;
        if (r[c].first == r[c].end) {
            r[c].first = (c * cell + end) * n / (2 * size);
            r[c].end = r[c].first + 1;
        }
    }
    return r;
}

/* Which pixels of the row are set. */
static void find_bits(struct mask *m, int channels, size_t bytes)
{
    const bool alpha = channels % 2 == 0;
    const size_t each = (size_t)channels * bytes, colour = each - (alpha ? bytes : 0);
    for (int64_t x = 0; x < m->w; x++) {
        const uint8_t *p = m->row + (size_t)x * each;
        bool any = false, visible = !alpha;
        for (size_t k = 0; k < each; k++)
            if (p[k])
                *(k < colour ? &any : &visible) = true;
        m->bits[x] = any && visible;
    }
}

/* Adds row y, and moves *from on to the first row of cells that it can belong to. */
static void add_row(struct mask *m, int64_t y, int64_t *from)
{
    while (*from < m->rows && m->down[*from].end <= y)
        ++*from;
    for (int64_t r = *from; r < m->rows && m->down[r].first <= y; r++)
        for (int64_t c = 0; c < m->cols; c++)
            for (int64_t x = m->across[c].first; x < m->across[c].end; x++)
                m->set[r * m->cols + c] += m->bits[x];
}

/* --- the picture --- */

/* Is the picture's shape that of the slide, as far as whole pixels can say? */
static int check_shape(const struct mask *m, struct err *e)
{
    const double high = (double)m->w * (double)m->height / (double)m->width;
    const double wide = (double)m->h * (double)m->width / (double)m->height;
    const double a = high > (double)m->h ? high - (double)m->h : (double)m->h - high;
    const double b = wide > (double)m->w ? wide - (double)m->w : (double)m->w - wide;
    if ((a <= 1 || b <= 1) && a <= 0.05 * high && b <= 0.05 * wide)
        return 0;
    return err_set(e,
                   "a mask of %" PRId64 " x %" PRId64
                   " px has another shape than the slide, %" PRId64 " x %" PRId64
                   " px; is it the mask of another slide?",
                   m->w, m->h, m->width, m->height);
}

static int begin(struct mask *m, struct err *e)
{
    png_set_user_limits(m->png, MOST_SIDE, MOST_SIDE);
    png_init_io(m->png, m->f);
    png_read_info(m->png, m->info);
    m->w = png_get_image_width(m->png, m->info);
    m->h = png_get_image_height(m->png, m->info);
    if (png_get_interlace_type(m->png, m->info) != PNG_INTERLACE_NONE)
        return err_set(e, "the PNG is interlaced; save it without");
    if (check_shape(m, e))
        return -1;
    png_set_expand(m->png);
    png_read_update_info(m->png, m->info);
    m->across = find_ranges(m->width, m->w, m->cell, m->cols, e);
    m->down = find_ranges(m->height, m->h, m->cell, m->rows, e);
    m->set = memory_try_zero((size_t)(m->cols * m->rows), sizeof *m->set, e);
    m->row = memory_try(1, png_get_rowbytes(m->png, m->info), e);
    m->bits = memory_try(1, (size_t)m->w, e);
    return m->across && m->down && m->set && m->row && m->bits ? 0 : -1;
}

static int read_rows(struct mask *m, struct err *e)
{
    const int channels = png_get_channels(m->png, m->info);
    const size_t bytes = png_get_bit_depth(m->png, m->info) == 16 ? 2 : 1;
    int64_t from = 0;
    for (int64_t y = 0; y < m->h; y++) {
        if (stop_check(e))
            return -1;
        png_read_row(m->png, m->row, NULL);
        find_bits(m, channels, bytes);
        add_row(m, y, &from);
    }
    png_read_end(m->png, NULL);
    return 0;
}

/* libpng jumps back here, so nothing local changes after setjmp. */
static int read_picture(struct mask *m, struct err *e)
{
    m->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, m, fail, ignore);
    m->info = m->png ? png_create_info_struct(m->png) : NULL;
    if (!m->info)
        return err_set(e, "out of memory");
    if (setjmp(m->on_error))
        return err_set(e, "not a valid PNG: %s", m->why);
    return begin(m, e) || read_rows(m, e) ? -1 : 0;
}

static void decide(const struct mask *m, uint8_t *cells)
{
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t c = 0; c < m->cols; c++) {
            const int64_t all =
                (m->down[r].end - m->down[r].first) * (m->across[c].end - m->across[c].first);
            cells[r * m->cols + c] = 2 * (int64_t)m->set[r * m->cols + c] >= all;
        }
}

int png_mask_read(const char *path, int64_t width, int64_t height, int64_t cell, uint8_t *cells,
                  struct err *e)
{
    struct mask m = {.width = width,
                     .height = height,
                     .cell = cell,
                     .cols = (width + cell - 1) / cell,
                     .rows = (height + cell - 1) / cell};
    if (!(m.f = fopen(path, "rb")))
        return err_sys(e, "cannot read");
    const int bad = read_picture(&m, e);
    if (!bad)
        decide(&m, cells);
    png_destroy_read_struct(&m.png, &m.info, NULL);
    fclose(m.f);
    free(m.across);
    free(m.down);
    free(m.set);
    free(m.row);
    free(m.bits);
    return bad;
}

#else

int png_mask_read(const char *path, int64_t width, int64_t height, int64_t cell, uint8_t *cells,
                  struct err *e)
{
    (void)path, (void)width, (void)height, (void)cell, (void)cells;
    return err_set(e, "this build reads no PNG, because libpng was missing; install it "
                      "(libpng-dev) and build again");
}

#endif
