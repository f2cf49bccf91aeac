/*
 * spectrum_cpu.c - the plain reference backend: FFTW in single precision.
 *
 * A part is a block of window columns, over all the window rows that a slab completes: it is smoothed
 * once into a work area of its thread, then each window is taken from there. Threads share the plan
 * and the slots and nothing else. Every float that leads to a count is computed in one fixed order,
 * whatever the part it lies in, and FFTW_ESTIMATE always chooses the same plan: counts do not depend
 * on threads, slabs or groups.
 */
#include "process/spectrum.h"

#include <fftw3.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_COLUMNS = 8, LANES = 4 };

/* Work areas of one thread. */
struct work {
    float *smooth;      /* [rows of the part][columns of the part] */
    size_t smooth_size; /* floats */
    float *line;        /* one row before the horizontal pass, radius more on both sides */
    size_t line_size;
    float *window;      /* [window][window] */
    fftwf_complex *half; /* [window][window / 2 + 1] */
    uint32_t *inner;    /* [LANES][bins + 2]: classes of the columns that count twice */
    uint32_t *edge;     /* [bins + 2]: of the two that count once */
};

struct spectrum {
    struct result_params params;
    struct spectrum_classes classes;
    double weights[SPECTRUM_MAX_RADIUS + 1];
    float *taper;
    double taper_dft[2];
    fftwf_plan plan;
    float *slots;
    size_t slot_bytes;
    struct work *work; /* [threads] */
    int threads;
};

const char *spectrum_cpu_library(void)
{
    return fftwf_version;
}

static const char *cpu_device(const struct spectrum *b)
{
    (void)b;
    return "CPU";
}

static void cpu_close(struct spectrum *b)
{
    if (!b)
        return;
    for (int t = 0; b->work && t < b->threads; t++) {
        struct work *w = &b->work[t];
        free(w->smooth);
        free(w->line);
        fftwf_free(w->window);
        fftwf_free(w->half);
        free(w->inner);
        free(w->edge);
    }
    free(b->work);
    free(b->slots);
    free(b->taper);
    spectrum_classes_free(&b->classes);
    if (b->plan)
        fftwf_destroy_plan(b->plan);
    fftwf_cleanup();
    free(b);
}

static int open_work(struct spectrum *b, struct work *w)
{
    const size_t n = (size_t)b->params.window, classes = (size_t)b->params.bins + 2;
    w->window = fftwf_malloc(n * n * sizeof(float));
    w->half = fftwf_malloc(n * (n / 2 + 1) * sizeof(fftwf_complex));
    w->inner = calloc(LANES * classes, sizeof(uint32_t));
    w->edge = calloc(classes, sizeof(uint32_t));
    return w->window && w->half && w->inner && w->edge ? 0 : -1;
}

static int cpu_open(struct spectrum **out, const char *devices, const struct result_params *p, int threads, struct err *e)
{
    (void)devices;
    const int n = (int)p->window;
    struct spectrum *b = *out = calloc(1, sizeof *b);
    if (!b)
        return err_set(e, "out of memory");
    b->params = *p;
    b->threads = threads;
    b->work = calloc((size_t)threads, sizeof *b->work);
    b->taper = malloc((size_t)n * sizeof(float));
    int bad = !b->work || !b->taper;
    for (int t = 0; t < threads && !bad; t++)
        bad = open_work(b, &b->work[t]);
    if (!bad && spectrum_classes_create(&b->classes, p, e))
        bad = 1;
    if (!bad) {
        spectrum_gauss(p, b->weights);
        spectrum_taper(p, b->taper, b->taper_dft);
        b->plan = fftwf_plan_dft_r2c_2d(n, n, b->work[0].window, b->work[0].half, FFTW_ESTIMATE);
        bad = !b->plan;
    }
    if (!bad)
        return 0;
    cpu_close(b);
    *out = NULL;
    return err_set(e, "out of memory");
}

static int cpu_lanes(const struct spectrum *b)
{
    (void)b;
    return 1;
}

static bool cpu_alive(const struct spectrum *b, int lane)
{
    (void)b, (void)lane;
    return true;
}

static const char *cpu_kernel(const struct spectrum *b)
{
    (void)b;
    return "FFTW";
}

static bool cpu_fits(const struct spectrum *b, const struct spectrum_slide *s, size_t slot_bytes)
{
    (void)s;
    return slot_bytes <= b->slot_bytes;
}

static int cpu_reserve(struct spectrum *b, const struct spectrum_slide *s, size_t slot_bytes, struct err *e)
{
    (void)s;
    free(b->slots);
    b->slots = aligned_alloc(4096, SPECTRUM_SLOTS * ((slot_bytes + 4095) / 4096 * 4096));
    b->slot_bytes = b->slots ? (slot_bytes + 4095) / 4096 * 4096 : 0;
    return b->slots ? 0 : err_set(e, "out of memory: cannot have %zu MiB; take a smaller --memory",
                                  SPECTRUM_SLOTS * slot_bytes >> 20);
}

static float *slot_of(const struct spectrum *b, int k)
{
    return b->slots + (size_t)k * (b->slot_bytes / sizeof(float));
}

static bool cpu_slot_free(const struct spectrum *b, int lane, int k)
{
    (void)b, (void)lane, (void)k;
    return true; /* the stream itself waits for what reads it */
}

static int cpu_slot(struct spectrum *b, int lane, int k, void **memory, struct err *e)
{
    (void)lane, (void)e;
    *memory = slot_of(b, k);
    return 0;
}

static int64_t cpu_parts(const struct spectrum *b, const struct spectrum_slab *s)
{
    (void)b;
    return s->end_wy > s->wy ? (s->slide->nx + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS : 0;
}

/* --- smoothing --- */

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* Row y of the slide in the slots; beyond the slide's edge, its edge row. */
static const float *row_of(const struct spectrum *b, const struct spectrum_slide *s, int64_t y)
{
    const int64_t r = clamp(y, 0, s->height - 1) - s->first_row;
    const int64_t slab = r / s->slab_rows;
    return slot_of(b, (int)((s->first_slot + slab) % SPECTRUM_SLOTS)) + r % s->slab_rows * s->pitch;
}

/* line[k] = vertical sum at column x + k - radius; columns beyond the slide repeat its edge. */
static void smooth_down(const struct spectrum *b, const struct spectrum_slide *s, int64_t x,
                        int64_t y, int64_t columns, float *line)
{
    const int64_t radius = b->params.radius;
    const int64_t from = clamp(x - radius, 0, s->width), to = clamp(x + columns + radius, 0, s->width);
    float *out = line + (from - (x - radius));
    const float *middle = row_of(b, s, y) + from;
    const float w0 = (float)(b->weights[0] / (double)s->scale);
    for (int64_t k = 0; k < to - from; k++)
        out[k] = w0 * middle[k];
    for (int64_t t = 1; t <= radius; t++) {
        const float *above = row_of(b, s, y - t) + from, *below = row_of(b, s, y + t) + from;
        const float w = (float)(b->weights[t] / (double)s->scale);
        for (int64_t k = 0; k < to - from; k++)
            out[k] += w * (above[k] + below[k]);
    }
    for (int64_t k = x - radius; k < 0; k++)
        line[k - (x - radius)] = out[0];
    for (int64_t k = s->width; k < x + columns + radius; k++)
        line[k - (x - radius)] = out[to - from - 1];
}

static void smooth_across(const struct spectrum *b, const float *line, int64_t columns, float *out)
{
    const int64_t radius = b->params.radius;
    const float w0 = (float)b->weights[0];
    for (int64_t k = 0; k < columns; k++)
        out[k] = w0 * line[k + radius];
    for (int64_t t = 1; t <= radius; t++) {
        const float w = (float)b->weights[t];
        for (int64_t k = 0; k < columns; k++)
            out[k] += w * (line[k + radius - t] + line[k + radius + t]);
    }
}

/* --- one window --- */

static double mean_of(const float *v, size_t n)
{
    double sum[8] = {0};
    for (size_t k = 0; k < n; k += 8)
        for (size_t l = 0; l < 8; l++)
            sum[l] += (double)v[k + l];
    return (((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]))) /
           (double)n;
}

/* Copies the window, takes its mean off, tapers, transforms, puts the mean's bins back. */
static void transform(const struct spectrum *b, struct work *w, const float *from, size_t pitch)
{
    const size_t n = (size_t)b->params.window, columns = n / 2 + 1;
    const bool tapered = b->taper_dft[1] != 0;
    for (size_t y = 0; y < n; y++)
        memcpy(w->window + y * n, from + y * pitch, n * sizeof(float));
    const double mean = mean_of(w->window, n * n);
    const float m = (float)mean;
    for (size_t k = 0; k < n * n; k++)
        w->window[k] -= m;
    for (size_t y = 0; tapered && y < n; y++)
        for (size_t x = 0; x < n; x++)
            w->window[y * n + x] *= b->taper[y] * b->taper[x];
    fftwf_execute_dft_r2c(b->plan, w->window, w->half);
    for (size_t y = 0; y < n; y = y == 1 ? n - 1 : y + 1)
        for (size_t x = 0; x < 2; x++)
            w->half[y * columns + x][0] +=
                (float)((double)m * b->taper_dft[y > 0] * b->taper_dft[x]);
}

static uint32_t class_of(const struct spectrum_classes *c, const float *z)
{
    return spectrum_class(c, z[0] * z[0] + z[1] * z[1]);
}

/* Classes of all bins of the half spectrum into the thread's counters. */
static void classify(const struct spectrum *b, struct work *w)
{
    const size_t n = (size_t)b->params.window, columns = n / 2 + 1;
    const size_t classes = (size_t)b->params.bins + 2;
    for (size_t y = 0; y < n; y++) {
        const fftwf_complex *row = w->half + y * columns;
        w->edge[class_of(&b->classes, row[0])]++;
        w->edge[class_of(&b->classes, row[n / 2])]++;
        for (size_t x = 1; x < n / 2; x++)
            w->inner[x % LANES * classes + class_of(&b->classes, row[x])]++;
    }
}

/* Adds the thread's counters to the counts and clears them; notes the window's mean and std. */
static void collect(const struct spectrum *b, struct work *w, struct result_counts *counts,
                    float *mean_db, float *std_db)
{
    const size_t classes = (size_t)b->params.bins + 2;
    uint64_t n = 0, sum = 0, squares = 0;
    for (size_t k = 0; k < classes; k++) {
        const uint32_t *in = w->inner + k;
        const uint64_t c = w->edge[k] + 2 * ((uint64_t)in[0] + in[classes] + in[2 * classes] +
                                             in[3 * classes]);
        if (k == 0)
            counts->underflow += c;
        else if (k == classes - 1)
            counts->overflow += c;
        else {
            counts->histogram[k - 1] += c;
            n += c;
            sum += c * (k - 1);
            squares += c * (k - 1) * (k - 1);
        }
    }
    memset(w->inner, 0, LANES * classes * sizeof *w->inner);
    memset(w->edge, 0, classes * sizeof *w->edge);
    counts->windows++;
    spectrum_window_moments(&b->params, n, sum, squares, mean_db, std_db);
}

/* --- a part --- */

static int grow(float **area, size_t *size, size_t want, struct err *e)
{
    if (want <= *size)
        return 0;
    free(*area);
    *size = 0;
    *area = malloc(want * sizeof(float));
    if (!*area)
        return err_set(e, "out of memory");
    *size = want;
    return 0;
}

static bool counts_window(const struct spectrum_slide *s, int64_t i, int64_t j)
{
    return !s->counts || s->counts[j * s->nx + i];
}

static bool any_counts(const struct spectrum_slab *s, int64_t wx, int64_t end_wx)
{
    for (int64_t j = s->wy; j < s->end_wy; j++)
        for (int64_t i = wx; i < end_wx; i++)
            if (counts_window(s->slide, i, j))
                return true;
    return false;
}

static int cpu_run(struct spectrum *b, const struct spectrum_slab *s, int64_t k, int thread,
                   struct result_counts *counts, struct err *e)
{
    const struct spectrum_slide *slide = s->slide;
    const int64_t n = b->params.window, stride = b->params.stride;
    const int64_t wx = k * BLOCK_COLUMNS, end_wx = clamp(wx + BLOCK_COLUMNS, 0, slide->nx);
    const int64_t columns = (end_wx - 1 - wx) * stride + n, rows = (s->end_wy - 1 - s->wy) * stride + n;
    struct work *w = &b->work[thread];
    if (!any_counts(s, wx, end_wx))
        return 0;
    if (grow(&w->smooth, &w->smooth_size, (size_t)(rows * columns), e) ||
        grow(&w->line, &w->line_size, (size_t)(columns + 2 * b->params.radius), e))
        return -1;
    for (int64_t y = 0; y < rows; y++) {
        smooth_down(b, slide, wx * stride, s->wy * stride + y, columns, w->line);
        smooth_across(b, w->line, columns, w->smooth + y * columns);
    }
    for (int64_t j = s->wy; j < s->end_wy; j++)
        for (int64_t i = wx; i < end_wx; i++) {
            if (!counts_window(slide, i, j))
                continue;
            transform(b, w, w->smooth + (j - s->wy) * stride * columns + (i - wx) * stride,
                      (size_t)columns);
            classify(b, w);
            collect(b, w, counts, &slide->mean_db[j * slide->nx + i],
                    &slide->std_db[j * slide->nx + i]);
        }
    return 0;
}

static int cpu_finish(struct spectrum *b, const struct spectrum_slide *s,
                      struct result_counts *counts, struct spectrum_times *times, struct err *e)
{
    (void)b, (void)s, (void)counts, (void)times, (void)e; /* run has told everything */
    return 0;
}

extern const struct spectrum_backend spectrum_cpu;
const struct spectrum_backend spectrum_cpu = {
    .name = "cpu", .layout = SPECTRUM_ROWS, .memory = 512 << 20, .open = cpu_open, .lanes = cpu_lanes,
    .alive = cpu_alive, .device = cpu_device, .kernel = cpu_kernel, .fits = cpu_fits,
    .reserve = cpu_reserve, .slot_free = cpu_slot_free, .slot = cpu_slot,
    .parts = cpu_parts, .run = cpu_run, .finish = cpu_finish, .close = cpu_close,
};
