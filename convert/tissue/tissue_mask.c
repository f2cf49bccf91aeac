/* tissue_mask.c - see tissue_mask.h. */
#include "convert/tissue/tissue_mask.h"

#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/stop.h"
#include "common/regions/geojson.h"
#include "convert/tissue/png_mask.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

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

static int read_polygons(const char *file, const struct store_info *i, uint8_t *cells,
                         struct err *e)
{
    const struct geojson_classes all = {0};
    struct polygons p;
    if (geojson_read(file, &all, &p, e))
        return -1;
    const int r = cover_cells(&p, i, cells, e);
    polygons_free(&p);
    return r ? err_add(e, "%s", file) : 0;
}

/* --- either --- */

static int read_cells(const char *file, const struct store_info *i, uint8_t *cells, struct err *e)
{
    struct stat st;
    if (ends_with(file, ".geojson") || ends_with(file, ".json"))
        return read_polygons(file, i, cells, e);
    if (!ends_with(file, ".png"))
        return err_set(e, "%s: a tissue mask is a .png or .geojson file, or a folder of these",
                       file);
    if (stat(file, &st) || !S_ISREG(st.st_mode))
        return err_set(e, "%s: not a file", file);
    return png_mask_read(file, i->width, i->height, STORE_CELL, cells, e) ? err_add(e, "%s", file)
                                                                          : 0;
}

uint8_t *tissue_mask_read(const char *from, const char *slide, struct store_info *i, struct err *e)
{
    const size_t n = (size_t)(cells_of(i->width) * cells_of(i->height));
    char *file = find_file(from, slide, e);
    uint8_t *cells = file ? memory_try(1, n, e) : NULL;
    if (cells && read_cells(file, i, cells, e)) {
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
