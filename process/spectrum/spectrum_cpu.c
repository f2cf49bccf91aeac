/* spectrum_cpu.c - the CPU backend: all threads together are one device; cpu_unit.h computes. */
#include "common/base/memory.h"
#include "process/spectrum/cpu_unit.h"

#include "common/store/gray.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2, PAGE = 4096 };

const char *spectrum_cpu_vectors(void)
{
    return lanes_best()->name;
}

/* --- opening and closing --- */

static void close_scratch(struct scratch *w)
{
    free(w->rows);
    free(w->across);
    free(w->strip);
    free(w->columns);
    free(w->ring);
    free(w->mean);
    free(w->low);
    free(w->data);
    free(w->values);
    free(w->inner);
    free(w->edge);
    free(w->bins);
    free(w->lines);
    free(w->steps);
    *w = (struct scratch){.rows = NULL};
}

static void free_all(struct spectrum *b)
{
    for (int t = 0; b->scratch && t < b->threads; t++)
        close_scratch(&b->scratch[t]);
    free(b->scratch);
    free(b->buffers);
    free(b->taper);
    free(b->circle);
    free(b->cells);
    lanes_plan_free(&b->plan);
    lanes_real_free(&b->real);
    cpu_octaves_free(&b->octaves);
    spectrum_classes_free(&b->classes);
    free(b);
}

static float *floats(size_t n)
{
    const size_t bytes = (n * sizeof(float) + LANES_ALIGN - 1) / LANES_ALIGN * LANES_ALIGN;
    float *p = aligned_alloc(LANES_ALIGN, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

static int open_scratch(const struct spectrum *b, struct scratch *w)
{
    const size_t n = (size_t)b->params.window, classes = (size_t)b->params.bins + 2;
    w->strip_rows = (size_t)((b->rows - 1) * b->params.stride) + n;
    const size_t rows = w->strip_rows + 2 * (size_t)b->params.radius;
    w->rows = calloc(rows, sizeof *w->rows);
    w->across = floats(rows * LANES_STRIP);
    w->strip = floats(w->strip_rows * LANES_STRIP);
    w->columns = floats(lanes_real_work((int)n));
    w->ring = floats((size_t)b->rows * cpu_ring_floats(b));
    w->mean = floats((size_t)(b->rows * b->ring));
    w->low = calloc(n, sizeof *w->low);
    w->data = floats(n * 2 * LANES);
    w->values = (union cpu_value *)floats(n * LANES);
    w->inner = calloc(CPU_COUNTERS * classes, sizeof(uint32_t));
    w->edge = calloc(classes, sizeof(uint32_t));
    w->bins = malloc(result_spectrum_sums(&b->params) * sizeof *w->bins);
    w->lines = malloc(n * sizeof *w->lines);
    w->steps = malloc(2 * n * sizeof *w->steps);
    return w->rows && w->across && w->strip && w->columns && w->ring && w->mean && w->low &&
                   w->data && w->values && w->inner && w->edge && w->bins && w->lines && w->steps
               ? 0
               : -1;
}

/*
 * If no cell of the table of classes has more than one edge, as with the default bins, the class of
 * a float takes one addition. The number added to the float's bits makes them reach the next
 * multiple of a cell at the edge, and replaces the cell's number by the class below the edge.
 */
static void make_cells(struct spectrum *b)
{
    const struct spectrum_classes *c = &b->classes;
    const uint32_t size = 1 << CPU_CELL_SHIFT;
    if (c->steps > 1 || c->shift != CPU_CELL_SHIFT || c->n_edges >= UINT32_MAX >> CPU_CELL_SHIFT)
        return;
    b->cells = memory_need(c->cells, sizeof *b->cells);
    for (uint32_t k = 0; k < c->cells; k++) {
        uint32_t edge;
        memcpy(&edge, &c->edges[c->start[k]], sizeof edge); /* NaN after the last */
        const uint32_t in_cell = edge >> CPU_CELL_SHIFT == k ? size - edge % size : 0;
        b->cells[k] = (c->start[k] - k) * size + in_cell;
    }
}

/* Is there a bin for every magnitude, from 0 to that of a white window? */
static void set_inside(struct spectrum *b)
{
    const double n = (double)b->params.window, most = 256 * n * n;
    b->inside = b->classes.edges[0] == 0 && (double)b->classes.edges[b->params.bins] > most * most;
}

/* The size of a unit. Rows of windows that share pixels are computed together, so that the pixels
 * are smoothed once. There are so many columns that those left of a unit's first full window matter
 * little. */
static void choose_unit(struct spectrum *b)
{
    const int64_t n = b->params.window, stride = b->params.stride;
    b->ring = n + LANES_STRIP;
    b->rows = stride < n ? ROWS : 1;
    b->block = 8 * n > stride ? 8 * n / stride : 1;
}

static void open_tables(struct spectrum *b)
{
    const int n = (int)b->params.window;
    b->taper = memory_need((size_t)n, sizeof(float));
    b->circle = memory_need((size_t)n, sizeof *b->circle);
    spectrum_gauss(&b->params, b->weights);
    spectrum_taper(&b->params, b->taper, b->taper_dft);
    for (int k = 0; k < n; k++) {
        b->circle[k][0] = cos(2 * M_PI * k / n);
        b->circle[k][1] = -sin(2 * M_PI * k / n);
    }
    spectrum_classes_create(&b->classes, &b->params);
    lanes_plan_create(&b->plan, n);
    lanes_real_create(&b->real, n, b->taper_dft[1] != 0 ? b->taper : NULL);
    set_inside(b);
    cpu_octaves_create(&b->octaves, &b->plan);
    make_cells(b);
}

static int cpu_open(struct spectrum_use *u, const struct spectrum_setup *s, struct err *note,
                    struct err *e)
{
    struct spectrum *b = memory_need(1, sizeof *b);
    (void)note, (void)e;
    b->params = s->params;
    b->threads = s->threads;
    b->lanes = lanes_best();
    choose_unit(b);
    open_tables(b);
    b->scratch = memory_need((size_t)b->threads, sizeof *b->scratch);
    u->devices[0] = b;
    u->labels[0] = (struct spectrum_label){"CPU", -1};
    u->n = 1;
    u->kernel = b->lanes->name;
    return 0;
}

static void cpu_close(struct spectrum_use *u)
{
    free_all(u->devices[0]);
}

static bool cpu_available(struct err *e)
{
    (void)e;
    return true;
}

static bool cpu_alive(const struct spectrum *b)
{
    (void)b;
    return true;
}

/* --- buffers --- */

static int cpu_reserve(struct spectrum *b, const struct spectrum_band *s, size_t buffer_bytes,
                       bool drained, struct err *e)
{
    const size_t bytes = (buffer_bytes + PAGE - 1) / PAGE * PAGE;
    (void)s;
    if (buffer_bytes <= b->buffer_bytes)
        return 0;
    if (!drained)
        return SPECTRUM_DRAIN;
    free(b->buffers);
    b->buffers = aligned_alloc(PAGE, SPECTRUM_BUFFERS * bytes);
    b->buffer_bytes = b->buffers ? bytes : 0;
    return b->buffers
               ? 0
               : err_blame(e, ERR_MEMORY,
                           "out of memory: cannot allocate %zu MiB; use fewer threads (-j) or more "
                           "memory",
                           SPECTRUM_BUFFERS * buffer_bytes >> 20);
}

static bool cpu_buffer_free(const struct spectrum *b, int k)
{
    (void)b, (void)k;
    return true; /* the stream waits for the units that read it */
}

float *spectrum_cpu_buffer(struct spectrum *b, int k)
{
    return cpu_buffer_of(b, k);
}

/* Where a thread lays pixels. */
struct layer {
    const struct spectrum_slab *slab;
    int64_t row; /* of the chunks, in the band's */
    float *buffer;
};

/* Lays the pixels of the chunk in column `col` as gray into the buffer. */
static void lay(void *ctx, int64_t col, const uint8_t *pixels)
{
    const struct layer *l = ctx;
    const struct spectrum_slab *s = l->slab;
    const struct spectrum_band *d = s->band;
    const int64_t top = d->first_row + l->row * d->chunk_rows, x = col * d->chunk_cols;
    const int64_t left = s->row + s->rows - top;
    const int64_t rows = left < d->chunk_rows ? left : d->chunk_rows;
    const int64_t n = d->width - x < d->chunk_cols ? d->width - x : d->chunk_cols;
    float *out = l->buffer + (top - s->row) * d->pitch + x;
    for (int64_t y = 0; y < rows; y++, out += d->pitch) {
        const uint8_t *in = pixels + y * d->chunk_cols * d->channels;
        if (d->channels == 3)
            gray_from_rgb(in, out, (size_t)n);
        else
            gray_from_bytes(in, out, (size_t)n);
    }
}

static int cpu_load(struct spectrum *b, const struct spectrum_slab *s, struct chunks_extent x,
                    struct spectrum_thread *t, struct err *e)
{
    struct layer l = {s, x.row, cpu_buffer_of(b, s->buffer)};
    return chunks_visit(s->band->chunks, &t->scratch, x, lay, &l, e) ? SPECTRUM_BAD_STORE : 0;
}

/* --- units --- */

static int64_t blocks_across(const struct spectrum *b, const struct spectrum_slab *s)
{
    return (s->band->nx + b->block - 1) / b->block;
}

static int64_t blocks_down(const struct spectrum *b, const struct spectrum_slab *s)
{
    return (s->end_wy - s->wy + b->rows - 1) / b->rows;
}

static int64_t cpu_units(const struct spectrum *b, const struct spectrum_slab *s)
{
    return s->end_wy > s->wy ? blocks_across(b, s) * blocks_down(b, s) : 0;
}

static struct unit unit_of(const struct spectrum *b, const struct spectrum_slab *s, int64_t k)
{
    const int64_t across = blocks_across(b, s), down = blocks_down(b, s), rows = s->end_wy - s->wy;
    const int64_t wx = k % across * b->block, row = k / across;
    return (struct unit){.band = s->band,
                         .wx = wx,
                         .end_wx = cpu_clamp(wx + b->block, 0, s->band->nx),
                         .wy = s->wy + rows * row / down,
                         .end_wy = s->wy + rows * (row + 1) / down};
}

static int cpu_compute(struct spectrum *b, const struct spectrum_slab *s, int64_t k,
                       struct spectrum_thread *t, struct result_counts *counts, struct err *e)
{
    const struct unit u = unit_of(b, s, k);
    struct scratch *w = &b->scratch[t->number];
    if (!w->rows && open_scratch(b, w)) {
        close_scratch(w);
        return err_memory(e);
    }
    cpu_unit_compute(b, &u, w, counts);
    return 0;
}

const struct spectrum_backend spectrum_cpu = {
    .name = "cpu",
    .layout = SPECTRUM_ROWS,
    .buffers = SPECTRUM_BUFFERS,
    .memory = 512 << 20,
    .thread_memory = 128 << 20,
    .available = cpu_available,
    .open = cpu_open,
    .close = cpu_close,
    .alive = cpu_alive,
    .reserve = cpu_reserve,
    .buffer_free = cpu_buffer_free,
    .load = cpu_load,
    .units = cpu_units,
    .compute = cpu_compute,
};
