/*
 * cpu_unit.c - see cpu_unit.h.
 *
 * A unit is computed in strips of columns, from left to right. A strip is smoothed; then each of
 * its columns is transformed, for each row of windows, into a ring that holds the last `window`
 * columns and one strip more. So a column of pixels is transformed once for all windows side by
 * side that contain it. As soon as a window's last column is in the ring, its rows of frequencies
 * are transformed, 16 at a time, and counted.
 *
 * Every float that leads to a count is computed in one fixed order, whatever the unit, strip or
 * lane it belongs to and whatever the processor's vectors: counts do not depend on threads, slabs,
 * groups or machine.
 *
 * What would cost accuracy in float is kept apart: the mean of each column, and then the mean over
 * the window of the rows in which those means show (frequency 0, and 1 with Hann's taper). The few
 * bins in which this second mean shows are summed up in double.
 */
#include "process/spectrum/cpu_unit.h"

#include "common/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* --- sums over octaves --- */

/* --- the lists --- */

void cpu_octaves_free(struct cpu_octaves *c)
{
    free(c->octaves);
    free(c->rows);
    free(c->parts);
    free(c->ends);
    *c = (struct cpu_octaves){0};
}

/* Where a frequency is added up, or FEATURES_NONE. */
static int8_t place_of(int n, int v, int u)
{
    const int octave = features_octave(n, v, u);
    if (v > n / 2 || octave == FEATURES_OCTAVES - 1)
        return FEATURES_NONE;
    return (int8_t)(octave == FEATURES_NONE ? CPU_BELOW : octave);
}

static void find_octaves(struct cpu_octaves *c, const struct lanes_plan *plan)
{
    const int n = plan->n;
    for (int v = 0; v < lanes_blocks(n) * LANES; v++)
        for (int u = 0; u < n; u++) {
            const int at = v / LANES * n + plan->place[u];
            c->octaves[at * LANES + v % LANES] = place_of(n, v, u <= n / 2 ? u : u - n);
        }
}

/* The lanes of a row that belong to the octave; returns how many. */
static int mask_of(const int8_t *octaves, int octave, uint32_t mask[LANES])
{
    int lanes = 0;
    for (int l = 0; l < LANES; l++) {
        mask[l] = octaves[l] == octave ? UINT32_MAX : 0;
        lanes += octaves[l] == octave;
    }
    return lanes;
}

/* Appends the rows of an octave to the lists, or only counts them while there are no lists. */
static void list_octave(struct cpu_octaves *c, int block, int octave, struct cpu_ends *end)
{
    const int8_t *octaves = c->octaves + block * c->window * LANES;
    for (int place = 0; place < c->window; place++) {
        struct cpu_part part = {.place = place};
        const int lanes = mask_of(octaves + place * LANES, octave, part.mask);
        if (lanes == LANES && c->rows)
            c->rows[end->rows] = place;
        if (lanes > 0 && lanes < LANES && c->parts)
            c->parts[end->parts] = part;
        end->rows += lanes == LANES;
        end->parts += lanes > 0 && lanes < LANES;
    }
}

static struct cpu_ends list_all(struct cpu_octaves *c)
{
    struct cpu_ends end = {0, 0};
    for (int b = 0; b < lanes_blocks(c->window); b++)
        for (int octave = 0; octave < FEATURES_OCTAVES; octave++) {
            list_octave(c, b, octave, &end);
            c->ends[b][octave] = end;
        }
    return end;
}

void cpu_octaves_create(struct cpu_octaves *c, const struct lanes_plan *plan)
{
    const size_t blocks = (size_t)lanes_blocks(plan->n);
    *c = (struct cpu_octaves){.window = plan->n};
    c->octaves = memory_need(blocks, (size_t)plan->n * LANES);
    c->ends = memory_need(blocks, sizeof *c->ends);
    find_octaves(c, plan);
    const struct cpu_ends all = list_all(c);
    c->rows = memory_need((size_t)all.rows, sizeof *c->rows);
    c->parts = aligned_alloc(16, (size_t)all.parts * sizeof *c->parts);
    if (!c->parts)
        memory_end();
    list_all(c);
}

/* --- sums --- */

/* Four times four lanes, which every processor of the architecture adds at once. */
typedef uint32_t quad __attribute__((vector_size(16), may_alias));

static uint64_t sum_octave(const struct cpu_octaves *c, struct cpu_ends from, struct cpu_ends end,
                           const uint32_t *classes)
{
    quad s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    for (const int *row = c->rows + from.rows; row < c->rows + end.rows; row++) {
        const quad *p = (const quad *)(classes + *row * LANES);
        s0 += p[0], s1 += p[1], s2 += p[2], s3 += p[3];
    }
    for (const struct cpu_part *k = c->parts + from.parts; k < c->parts + end.parts; k++) {
        const quad *p = (const quad *)(classes + k->place * LANES), *m = (const quad *)k->mask;
        s0 += p[0] & m[0], s1 += p[1] & m[1], s2 += p[2] & m[2], s3 += p[3] & m[3];
    }
    s0 += s1 + s2 + s3;
    return (uint64_t)s0[0] + s0[1] + s0[2] + s0[3];
}

/* Adds the classes of a block, [window][LANES], over each octave, or CPU_BELOW, to sums. */
static void add_octaves(const struct cpu_octaves *c, int block, const uint32_t *classes,
                        uint64_t sums[FEATURES_OCTAVES])
{
    struct cpu_ends from = {0, 0};
    if (block > 0)
        from = c->ends[block - 1][FEATURES_OCTAVES - 1];
    for (int o = 0; o < FEATURES_OCTAVES; from = c->ends[block][o++])
        sums[o] += sum_octave(c, from, c->ends[block][o], classes);
}

/* The same `times` times for the first lane alone. */
static void add_octaves_first(const struct cpu_octaves *c, int block, const uint32_t *classes,
                              int times, uint64_t sums[FEATURES_OCTAVES])
{
    const int8_t *octaves = c->octaves + block * c->window * LANES;
    for (int k = 0; k < c->window * LANES; k += LANES)
        if (octaves[k] != FEATURES_NONE)
            sums[octaves[k]] += (uint64_t)(times * (int64_t)classes[k]);
}

enum { AHEAD = 8, ROW_BYTES = 2 * LANES * (int)sizeof(float) };

static bool is_wanted(const struct spectrum_band *s, int64_t i, int64_t j)
{
    return !s->wanted || s->wanted[j * s->nx + i];
}

/* Does a wanted window of row j contain a column of the strip at x? */
static bool needs_strip(const struct spectrum *b, const struct unit *u, int64_t j, int64_t x)
{
    const int64_t n = b->params.window, stride = b->params.stride;
    int64_t i = x < n ? 0 : (x - n) / stride + 1; /* the first that reaches beyond x */
    for (i = i < u->wx ? u->wx : i; i < u->end_wx && i * stride < x + LANES_STRIP; i++)
        if (is_wanted(u->band, i, j))
            return true;
    return false;
}

/* --- smoothing --- */

/* Row y of the slide in the buffers. Beyond the slide's edge it is the edge row. */
static const float *row_of(const struct spectrum *b, const struct spectrum_band *s, int64_t y)
{
    const int64_t r = cpu_clamp(y, 0, s->height - 1) - s->first_row;
    const int64_t slab = r / s->slab_rows;
    return cpu_buffer_of(b, (int)((s->assigned.first_buffer + slab) % SPECTRUM_BUFFERS)) +
           r % s->slab_rows * s->pitch;
}

/* The pixels from `radius` left of the strip at x to `radius` right of it. At the slide's edge they
 * are a copy that repeats the edge column. */
static const float *line_of(const struct spectrum *b, const struct spectrum_band *s,
                            const float *row, int64_t x, float *copy)
{
    const int64_t radius = b->params.radius;
    if (x >= radius && x + LANES_STRIP + radius <= s->width)
        return row + x - radius;
    for (int64_t k = 0; k < LANES_STRIP + 2 * radius; k++)
        copy[k] = row[cpu_clamp(x - radius + k, 0, s->width - 1)];
    return copy;
}

/* Rows are far apart in memory, so the processor does not predict the next one. */
static void fetch(const float *p, int n)
{
    for (int k = 0; k < n; k += 16)
        __builtin_prefetch(p + k);
}

static void smooth_strip(const struct spectrum *b, const struct unit *u, struct scratch *w,
                         int64_t x)
{
    const int radius = (int)b->params.radius;
    const int64_t rows = (u->end_wy - 1 - u->wy) * b->params.stride + b->params.window;
    const float *from[2 * SPECTRUM_MAX_RADIUS + 1];
    float copy[LANES_STRIP + 2 * SPECTRUM_MAX_RADIUS];
    float across[SPECTRUM_MAX_RADIUS + 1], down[SPECTRUM_MAX_RADIUS + 1];
    for (int t = 0; t <= radius; t++) {
        across[t] = (float)(b->weights[t] / (double)u->band->scale);
        down[t] = (float)b->weights[t];
    }
    for (int64_t y = 0; y < rows + 2 * radius; y++) {
        const float *line = line_of(b, u->band, w->rows[y], x, copy);
        if (y + AHEAD < rows + 2 * radius)
            fetch(w->rows[y + AHEAD] + x, LANES_STRIP + 16);
        for (int t = 0; t <= 2 * radius; t++)
            from[t] = line + t;
        b->lanes->smooth(from, across, radius, w->across + y * LANES_STRIP, LANES);
    }
    for (int64_t y = 0; y < rows; y++) {
        for (int t = 0; t <= 2 * radius; t++)
            from[t] = w->across + (y + t) * LANES_STRIP;
        b->lanes->smooth(from, down, radius, w->strip + y * LANES, w->strip_rows * LANES);
    }
}

/* --- one window --- */

static void fill_ring(const struct spectrum *b, const struct unit *u, struct scratch *w, int64_t j,
                      int64_t x)
{
    const int64_t row = j - u->wy, at = (x - u->wx * b->params.stride) % b->ring;
    const float *in = w->strip + row * b->params.stride * LANES;
    float *ring = w->ring + (size_t)row * cpu_ring_floats(b) + at * 2 * LANES;
    float *mean = w->mean + row * b->ring + at;
    for (size_t c = 0; c < LANES_STRIP; c += LANES)
        b->lanes->columns(&b->real, in + c * w->strip_rows, w->columns, mean + c,
                          ring + c * 2 * LANES, (size_t)b->ring * 2 * LANES);
}

/* Row f of the frequencies, with the columns' means added, to low[]; its mean to mu. */
static void row_with_means(const struct spectrum *b, struct scratch *w, const struct lanes_ring *r,
                           const float *mean, int f, double mu[2])
{
    const int n = (int)b->params.window;
    double sum[2][4] = {{0}};
    for (int x = 0; x < n; x++) {
        const int k = r->at + x < r->length ? r->at + x : r->at + x - r->length;
        const float *z = r->values + k * 2 * LANES + f;
        w->low[x][0] = (double)z[0] + (double)mean[k] * b->taper_dft[f];
        w->low[x][1] = (double)z[LANES];
        sum[0][x % 4] += w->low[x][0];
        sum[1][x % 4] += w->low[x][1];
    }
    for (int part = 0; part < 2; part++)
        mu[part] = ((sum[part][0] + sum[part][1]) + (sum[part][2] + sum[part][3])) / (double)n;
}

/* The squared magnitude of frequency k of low[]. */
static float low_power(const struct spectrum *b, const struct scratch *w, int64_t k)
{
    const int64_t n = b->params.window;
    double re = 0, im = 0;
    for (int64_t x = 0; x < n; x++) {
        const double *z = w->low[x], *c = b->circle[k * x & (n - 1)], t = (double)b->taper[x];
        re += t * (z[0] * c[0] - z[1] * c[1]);
        im += t * (z[0] * c[1] + z[1] * c[0]);
    }
    return (float)(re * re + im * im);
}

/* The first block. The rows in which the columns' means show are transformed without their own
 * mean; the bins in which that mean shows are computed in double. */
static void power_of_first(const struct spectrum *b, struct scratch *w, const struct lanes_ring *r,
                           const float *mean)
{
    const int n = (int)b->params.window, rows = r->taper ? 2 : 1, bins = r->taper ? 3 : 1;
    const int bin[3] = {0, 1, n - 1}, first = n < r->length - r->at ? n : r->length - r->at;
    const struct lanes_ring copy = {.values = w->data, .length = n, .taper = r->taper};
    float exact[2][3];
    memcpy(w->data, r->values + r->at * 2 * LANES, (size_t)first * ROW_BYTES);
    memcpy(w->data + first * 2 * LANES, r->values, (size_t)(n - first) * ROW_BYTES);
    for (int f = 0; f < rows; f++) {
        double mu[2];
        row_with_means(b, w, r, mean, f, mu);
        for (int k = 0; k < bins; k++)
            exact[f][k] = low_power(b, w, bin[k]);
        for (int x = 0; x < n; x++) {
            w->data[x * 2 * LANES + f] = (float)(w->low[x][0] - mu[0]);
            w->data[(x * 2 + 1) * LANES + f] = (float)(w->low[x][1] - mu[1]);
        }
    }
    b->lanes->power(&b->plan, &copy, LANES, w->data, &w->values->power);
    for (int f = 0; f < rows; f++)
        for (int k = 0; k < bins; k++)
            w->values[b->plan.place[bin[k]] * LANES + f].power = exact[f][k];
}

/* --- counting --- */

/* Replaces a value's power by its class, from the table of cells, and counts it. */
static inline void count(uint32_t *counters, const uint32_t *cells, union cpu_value *v)
{
    v->class = (v->class + cells[v->class >> CPU_CELL_SHIFT]) >> CPU_CELL_SHIFT;
    counters[v->class]++;
}

static void classify(const struct spectrum *b, union cpu_value *v)
{
    const float power = v->power;
    v->class = spectrum_class(&b->classes, power);
}

/* Replaces the power spectrum of one block by classes and adds them to the counters of what counts
 * twice. Neighbouring values use different counters, so that they need not wait for each other. */
static void count_twice(const struct spectrum *b, struct scratch *w)
{
    const size_t n = (size_t)b->params.window * LANES, classes = (size_t)b->params.bins + 2;
    const uint32_t *cells = b->cells;
    uint32_t *c0 = w->inner, *c1 = c0 + classes, *c2 = c1 + classes, *c3 = c2 + classes;
    union cpu_value *v = w->values;
    for (size_t k = 0; cells && k < n; k += CPU_COUNTERS) {
        count(c0, cells, &v[k]);
        count(c1, cells, &v[k + 1]);
        count(c2, cells, &v[k + 2]);
        count(c3, cells, &v[k + 3]);
    }
    for (size_t k = 0; !cells && k < n; k++) {
        classify(b, &v[k]);
        c0[v[k].class]++;
    }
}

/* Adds `times` for the classes of the first lane to the counters of what counts once. */
static void count_first(const struct spectrum *b, struct scratch *w, int times)
{
    for (int64_t x = 0; x < b->params.window; x++)
        w->edge[w->values[x * LANES].class] += (uint32_t)times;
}

/* The class of the nearest bin. */
static void clamp_classes(const struct spectrum *b, struct scratch *w)
{
    const uint32_t bins = (uint32_t)b->params.bins;
    for (int64_t k = 0; k < b->params.window * LANES; k++) {
        const uint32_t c = w->values[k].class;
        w->values[k].class = c < 1 ? 1 : c > bins ? bins : c;
    }
}

/* Counts the power spectrum of one block. */
static void count_block(const struct spectrum *b, struct scratch *w, int block)
{
    const int last = lanes_blocks((int)b->params.window) - 1;
    if (block < last)
        count_twice(b, w);
    else
        for (int64_t x = 0; x < b->params.window; x++)
            classify(b, &w->values[x * LANES]);
    if (block == 0)
        count_first(b, w, -1); /* row 0 counts once */
    if (block == last)
        count_first(b, w, 1); /* so does row window / 2, alone in its block */
}

static void sum_octaves(const struct spectrum *b, struct scratch *w, int block)
{
    const int last = lanes_blocks((int)b->params.window) - 1;
    const uint32_t *classes = &w->values->class;
    if (!b->inside)
        clamp_classes(b, w);
    if (block < last)
        add_octaves(&b->octaves, block, classes, w->twice);
    if (block == 0)
        add_octaves_first(&b->octaves, block, classes, -1, w->once);
    if (block == last)
        add_octaves_first(&b->octaves, block, classes, 1, w->once);
}

/* Adds the thread's counters to the counts and clears them. In the place of the last octave the
 * window has the sum of all bin numbers, clamped. */
static struct spectrum_window collect(const struct spectrum *b, struct scratch *w,
                                      struct result_counts *counts)
{
    const size_t classes = (size_t)b->params.bins + 2;
    const uint32_t *in = w->inner;
    uint32_t *c = w->edge;
    struct spectrum_window window = {0};
    for (size_t k = 0; k < classes; k++)
        c[k] += 2 * (in[k] + in[k + classes] + in[k + 2 * classes] + in[k + 3 * classes]);
    counts->underflow += c[0];
    counts->overflow += c[classes - 1];
    for (uint64_t k = 0; k < classes - 2; k++) {
        const uint64_t here = c[k + 1];
        counts->histogram[k] += here;
        window.n += here;
        window.sum += here * k;
        window.squares += here * k * k;
    }
    window.octaves[CPU_BELOW] = window.sum + c[classes - 1] * (uint64_t)(b->params.bins - 1);
    memset(w->inner, 0, CPU_COUNTERS * classes * sizeof *w->inner);
    memset(w->edge, 0, classes * sizeof *w->edge);
    counts->windows++;
    return window;
}

/* The sum of bin numbers over a place of struct cpu_octaves: classes less one, n of them. */
static uint64_t sum_of_place(const struct scratch *w, int place, int64_t n)
{
    return 2 * w->twice[place] + w->once[place] - (uint64_t)n;
}

/* The sums over octaves. The last one is what is left of all values. */
static void collect_octaves(const struct spectrum *b, const struct spectrum_features *f,
                            struct scratch *w, struct spectrum_window *window,
                            struct result_counts *counts)
{
    int64_t below = b->params.window * b->params.window - f->values[CPU_BELOW];
    for (int o = 0; o < CPU_BELOW; o++) {
        window->octaves[o] = sum_of_place(w, o, f->values[o]);
        window->octaves[CPU_BELOW] -= window->octaves[o];
        below -= f->values[o];
    }
    window->octaves[CPU_BELOW] -= sum_of_place(w, CPU_BELOW, below);
    for (int o = 0; o < FEATURES_OCTAVES; o++)
        counts->octaves[o] += window->octaves[o];
    memset(w->twice, 0, sizeof w->twice);
    memset(w->once, 0, sizeof w->once);
}

/* The bin numbers of vertical frequency v and of -v: F(-v, u) is the conjugate of F(v, -u). */
static void keep_row(const struct spectrum *b, struct scratch *w, int v,
                     const union cpu_value *values)
{
    const int n = (int)b->params.window, columns = n / 2 + 1;
    uint32_t *row = w->bins + v * columns, *mirror = w->bins + (n - v) % n * columns;
    for (int u = 0; u < columns; u++)
        row[u] = values[b->plan.place[u] * LANES].class - 1;
    for (int u = 0; u < columns && mirror != row; u++)
        mirror[u] = values[b->plan.place[(n - u) & (n - 1)] * LANES].class - 1;
}

/* The first `lanes` vertical frequencies of a block. */
static void keep_block(const struct spectrum *b, struct scratch *w, int block, int lanes)
{
    for (int l = 0; l < lanes; l++)
        keep_row(b, w, block * LANES + l, w->values + l);
}

/* Of a window, from the means of its columns in the ring. */
static uint8_t gray_of(const struct spectrum *b, const struct lanes_ring *r, const float *mean)
{
    const int n = (int)b->params.window;
    double sum[4] = {0};
    for (int x = 0; x < n; x++)
        sum[x % 4] += (double)mean[r->at + x < r->length ? r->at + x : r->at + x - r->length];
    return features_gray((float)(((sum[0] + sum[1]) + (sum[2] + sum[3])) / (double)n));
}

static uint8_t greatest(const int32_t *steps, int64_t n)
{
    int64_t at = 0;
    for (int64_t k = 1; k < n; k++)
        if (steps[k] > steps[at])
            at = k;
    return steps[at] ? (uint8_t)at : FEATURES_NO_STEP;
}

static void find_steps(const struct spectrum *b, const struct unit *u, struct scratch *w, int64_t k,
                       struct spectrum_window *window)
{
    const struct result_params *p = &b->params;
    const int64_t nx = u->band->nx, wx = k % nx, wy = k / nx;
    const int64_t n = features_steps(p->window, p->stride), skip = p->window - 1 - n,
                  top = (wy - u->wy) * p->stride + p->radius + skip;
    window->row_step = window->column_step = FEATURES_NO_STEP;
    if (!(u->band->features->sample[k] & FEATURES_STEPPED))
        return;
    for (int64_t y = 0; y <= n; y++)
        w->lines[y] = w->rows[top + y] + wx * p->stride + skip;
    b->lanes->steps(w->lines, (int)n, w->steps, w->steps + n);
    window->row_step = greatest(w->steps, n);
    window->column_step = greatest(w->steps + n, n);
}

static void put_window(const struct spectrum *b, const struct unit *u, struct scratch *w, int64_t k,
                       int sample, uint8_t gray, struct result_counts *counts)
{
    struct spectrum_window window = collect(b, w, counts);
    window.gray = gray;
    find_steps(b, u, w, k, &window);
    collect_octaves(b, u->band->features, w, &window, counts);
    spectrum_put_window(&b->params, u->band, k, &window);
    if (sample)
        spectrum_add_sample(&b->params, u->band, (enum features_sample)(sample - 1), w->bins, 1);
}

static void count_window(const struct spectrum *b, const struct unit *u, struct scratch *w,
                         int64_t i, int64_t j, struct result_counts *counts)
{
    const int64_t row = j - u->wy, k = j * u->band->nx + i;
    const int last = lanes_blocks((int)b->params.window) - 1;
    const int sample = u->band->features->sample[k] & FEATURES_KIND;
    struct lanes_ring r = {.values = w->ring + (size_t)row * cpu_ring_floats(b),
                           .length = (int)b->ring,
                           .at = (int)((i - u->wx) * b->params.stride % b->ring),
                           .taper = b->real.taper};
    const float *mean = w->mean + row * b->ring;
    const uint8_t gray = gray_of(b, &r, mean);
    for (int block = 0; block <= last; block++, r.values += b->ring * 2 * LANES) {
        const int lanes = block < last ? LANES : 1;
        if (block == 0)
            power_of_first(b, w, &r, mean);
        else
            b->lanes->power(&b->plan, &r, lanes, w->data, &w->values->power);
        count_block(b, w, block);
        sum_octaves(b, w, block);
        if (sample)
            keep_block(b, w, block, lanes);
    }
    put_window(b, u, w, k, sample, gray, counts);
}

/* --- a unit --- */

static void do_strip(const struct spectrum *b, const struct unit *u, struct scratch *w, int64_t x)
{
    bool smooth = false;
    for (int64_t j = u->wy; j < u->end_wy; j++) {
        if (!needs_strip(b, u, j, x))
            continue;
        if (!smooth)
            smooth_strip(b, u, w, x);
        smooth = true;
        fill_ring(b, u, w, j, x);
    }
}

void cpu_unit_compute(const struct spectrum *b, const struct unit *u, struct scratch *w,
                      struct result_counts *counts)
{
    const int64_t n = b->params.window, stride = b->params.stride, radius = b->params.radius;
    const int64_t rows = (u->end_wy - 1 - u->wy) * stride + n + 2 * radius;
    for (int64_t y = 0; y < rows; y++)
        w->rows[y] = row_of(b, u->band, u->wy * stride - radius + y);
    for (int64_t i = u->wx, x = u->wx * stride; i < u->end_wx; x += LANES_STRIP) {
        do_strip(b, u, w, x);
        for (; i < u->end_wx && i * stride + n <= x + LANES_STRIP; i++)
            for (int64_t j = u->wy; j < u->end_wy; j++)
                if (is_wanted(u->band, i, j))
                    count_window(b, u, w, i, j, counts);
    }
}
