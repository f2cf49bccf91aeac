/* tissue_mask.c - see tissue_mask.h. */
#include "convert/tissue/tissue_mask.h"

#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/stop.h"
#include "common/regions/geojson.h"
#ifdef HAVE_PNG
#include "convert/readers/picture/png_input.h"
#endif

#include <inttypes.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* --- PNG --- */

/* HAVE_PNG comes from the Makefile's probe. */

#ifdef HAVE_PNG

/* Pixels of the picture along one axis that belong to a cell: first .. end - 1. */
struct range {
    int64_t first, end;
};

struct mask {
    png_structp png;
    png_infop info;
    jmp_buf on_error;
    char why[160];
    bool no_memory;
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
    if (png_input_open(&m->png, &m->info, m, fail, &m->no_memory))
        return err_memory(e);
    if (setjmp(m->on_error))
        return m->no_memory ? err_memory(e) : err_set(e, "not a valid PNG: %s", m->why);
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
    stop_library_begin();
    const int bad = read_picture(&m, e);
    stop_library_end();
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
    return err_set(e, "this build cannot read PNG: libpng was missing; install it "
                      "(libpng-dev) and build again");
}

#endif

static int64_t cells_of(int64_t size)
{
    return (size + STORE_CELL - 1) / STORE_CELL;
}

static bool ends_with(const char *path, const char *ending)
{
    const size_t n = strlen(path), m = strlen(ending);
    return n >= m && !strcasecmp(path + n - m, ending);
}

/* --- which file --- */

/* The slide's file in the folder; owned by the caller. NULL on failure. */
static char *find_in(const char *folder, const char *slide, struct err *e)
{
    static const char *const endings[] = {"png", "geojson", "json", NULL};
    const char *name = path_base_name(slide), *dot = strrchr(name, '.');
    const size_t whole = strlen(name), stem = dot ? (size_t)(dot - name) : 0;
    const struct folder_name names[] = {{name, stem}, {name, whole}};
    char *file = folder_file_named(folder, names, 2, endings);
    if (!file)
        err_set(e, "no tissue mask: %s has no file %.*s.png or .geojson", folder,
                (int)(stem ? stem : whole), name);
    return file;
}

/* The mask's file; owned by the caller. NULL on failure. */
static char *find_file(const char *from, const char *slide, struct err *e)
{
    struct stat st;
    if (stat(from, &st)) {
        err_sys(e, "%s: cannot read", from);
        return NULL;
    }
    if (S_ISDIR(st.st_mode))
        return find_in(from, slide, e);
    return memory_copy(from);
}

/* --- polygons --- */

/* Adds the spans of a row of pixels to the numbers of pixels inside of each cell. */
static void add_spans(const struct polygons_span *s, int64_t n, uint32_t *inside)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t x = s[k].first, end; x < s[k].end; x = end) {
            end = (x / STORE_CELL + 1) * STORE_CELL;
            end = end < s[k].end ? end : s[k].end;
            inside[x / STORE_CELL] += (uint32_t)(end - x);
        }
}

static int cover(struct polygons_rows *rows, const struct store_info *i, uint32_t *inside,
                 uint8_t *cells, struct err *e)
{
    const int64_t cols = cells_of(i->width);
    for (int64_t y = 0; y < i->height; y++) {
        int64_t n;
        if (stop_check(e))
            return -1;
        if (y % STORE_CELL == 0)
            memset(inside, 0, (size_t)cols * sizeof *inside);
        const struct polygons_span *spans = polygons_row(rows, y, &n);
        add_spans(spans, n, inside);
        if (y % STORE_CELL != STORE_CELL - 1 && y != i->height - 1)
            continue;
        const int64_t first = y / STORE_CELL * STORE_CELL;
        for (int64_t c = 0; c < cols; c++) {
            const int64_t left = i->width - c * STORE_CELL;
            const int64_t all = (left < STORE_CELL ? left : STORE_CELL) * (y + 1 - first);
            cells[y / STORE_CELL * cols + c] = 2 * (int64_t)inside[c] >= all;
        }
    }
    return 0;
}

static int cover_cells(struct polygons *p, const struct store_info *i, uint8_t *cells,
                       struct err *e)
{
    if (polygons_check_place(p, (double)i->width * i->downsample, (double)i->height * i->downsample,
                             e))
        return -1;
    polygons_shrink(p, i->downsample);
    struct polygons_rows *rows = polygons_open(p, i->width, i->height, e);
    uint32_t *inside = rows ? memory_try((size_t)cells_of(i->width), sizeof *inside, e) : NULL;
    const int r = inside ? cover(rows, i, inside, cells, e) : -1;
    polygons_close(rows);
    free(inside);
    return r;
}

static int read_polygons(const char *file, const struct store_info *i, bool *moves, uint8_t *cells,
                         struct err *e)
{
    const struct geojson_classes all = {0};
    struct polygons p;
    if (geojson_read(file, &all, &p, e))
        return -1;
    *moves = *moves && (i->bounds_x > 0 || i->bounds_y > 0);
    if (*moves)
        polygons_move(&p, (double)i->bounds_x, (double)i->bounds_y);
    const int r = cover_cells(&p, i, cells, e);
    polygons_free(&p);
    return r ? err_add(e, "%s", file) : 0;
}

/* --- either --- */

static int read_cells(const char *file, const struct store_info *i, bool *moves, uint8_t *cells,
                      struct err *e)
{
    struct stat st;
    if (ends_with(file, ".geojson") || ends_with(file, ".json"))
        return read_polygons(file, i, moves, cells, e);
    *moves = false;
    if (!ends_with(file, ".png"))
        return err_set(e, "%s: a tissue mask is a .png or .geojson file, or a folder of these",
                       file);
    if (stat(file, &st) || !S_ISREG(st.st_mode))
        return err_set(e, "%s: not a file", file);
    return png_mask_read(file, i->width, i->height, STORE_CELL, cells, e) ? err_add(e, "%s", file)
                                                                          : 0;
}

uint8_t *tissue_mask_read(const char *from, const char *slide, struct store_info *i, bool *moves,
                          struct err *e)
{
    const size_t n = (size_t)(cells_of(i->width) * cells_of(i->height));
    char *file = find_file(from, slide, e);
    uint8_t *cells = file ? memory_try(1, n, e) : NULL;
    if (cells && read_cells(file, i, moves, cells, e)) {
        free(cells);
        cells = NULL;
    }
    free(file);
    if (cells)
        snprintf(i->tissue_rule, sizeof i->tissue_rule, "mask %08" PRIx32, codec_crc32(cells, n));
    else
        err_add(e, "%s", slide);
    return cells;
}
