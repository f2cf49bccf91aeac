/* stub_kernels.c - what takes the place of the kernels, and how nvcc's objects launch them; see
 * stub.h. */
#include "tests/stub.h"

#include "common/codec/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- kernels --- */

/* Gray of row y, clamped, as the slabs have it. reach: the rows of the slab above that may be used.
 */
static void gray_row(const struct smooth_args *a, int64_t y, int64_t reach, int device, float *out)
{
    const int64_t row = y < 0 ? 0 : y >= a->height ? a->height - 1 : y;
    const struct smooth_slab *s = row < a->slab.row ? &a->above : &a->slab;
    const int64_t r = row - s->row, pitch = (int64_t)a->layout.chunk_cols * a->layout.channels,
                  chunk = a->layout.chunk_rows * pitch;
    stub_check(r >= 0 && r < s->rows, "a row is wanted that is in no slab");
    stub_check(s == &a->slab || r >= s->rows - reach, "too high a row of the slab above is wanted");
    for (int64_t col = 0; col < a->layout.columns; col++) {
        const uint8_t *p = s->d_chunks +
                           (r / a->layout.chunk_rows * a->layout.columns + col) * chunk +
                           r % a->layout.chunk_rows * pitch;
        const int64_t left = a->width - col * a->layout.chunk_cols,
                      n = left < a->layout.chunk_cols ? left : a->layout.chunk_cols;
        stub_check_memory(p, (size_t)pitch, device, "pixels to smooth");
        for (int64_t x = 0; x < n; x++, p += a->layout.channels)
            out[col * a->layout.chunk_cols + x] =
                (float)(a->layout.channels == 3 ? 299 * p[0] + 587 * p[1] + 114 * p[2] : p[0]);
    }
}

/* Sums and differences of columns, as smooth.h describes them; exact. */
static void fold(float *row, int64_t width)
{
    for (int64_t left = 0; left + 128 <= width; left += 128)
        for (float *p = row + left; p < row + left + 64; p++) {
            const float a = p[0], b = p[64];
            p[0] = a + b;
            p[64] = a - b;
        }
}

/* Instead of the smoothed row y: gray of row y + 2 gray of y - radius + 3 gray of y + radius,
 * exact. */
static void run_smooth(const struct smooth_args *a, int device)
{
    float weights = a->down[0],
          *rows = malloc(3 * (size_t)(a->width + a->layout.chunk_cols) * sizeof *rows);
    stub_check(rows && a->pitch >= a->width && a->pitch % 4 == 0 && a->above.rows > 0,
               "smoothing: arguments");
    float *up = rows + a->width + a->layout.chunk_cols,
          *down = up + a->width + a->layout.chunk_cols;
    for (int k = 1; k <= a->radius; k++)
        weights += 2 * a->down[k];
    weights *= a->layout.channels == 3 ? 1000.0f : 1.0f;
    stub_check(weights > 0.9999f && weights < 1.0001f,
               "smoothing: the weights are not of the scale of gray");
    for (int64_t y = a->first; y < a->end; y++) {
        float *out = a->d_smooth + y % a->ring_rows * a->pitch;
        gray_row(a, y, 2 * a->radius, device, rows);
        gray_row(a, y - a->radius, 2 * a->radius, device, up);
        gray_row(a, y + a->radius, 2 * a->radius, device, down);
        stub_check_memory(out, (size_t)a->pitch * sizeof *out, device, "ring of smoothed rows");
        for (int64_t x = a->begin; x < a->width; x++)
            out[x] = rows[x] + 2 * up[x] + 3 * down[x];
        if (a->folded)
            fold(out + a->begin, a->width - a->begin);
    }
    free(rows);
}

/* Of row y of a window of n px: each value times a weight of its place. */
static uint64_t row_checksum(const float *row, int y, int n, bool folded, int device)
{
    uint64_t sum = 0;
    stub_check_memory(row, (size_t)n * sizeof *row, device, "a window's row");
    for (int x = 0; x < n; x++) {
        const float *at = row + (folded ? x & ~64 : x), value = !folded  ? at[0]
                                                                : x & 64 ? (at[0] - at[64]) / 2
                                                                         : (at[0] + at[64]) / 2;
        sum += (uint64_t)value * (unsigned)(1 + (7 * y + 13 * x) % 256);
    }
    return sum;
}

/* All values of a window have one bin number. */
static void add_features(const struct counts_features *f, int n, unsigned bin, int64_t window,
                         int device)
{
    static int64_t values[FEATURES_OCTAVES];
    static int known;
    if (known != n)
        features_values(known = n, values);
    stub_check_memory(f->d_octaves, sizeof values, device, "sums of octaves");
    stub_check_memory(f->d_sample + window, 1, device, "the sample");
    stub_check(f->spectrum == (unsigned)(n * (n / 2 + 1)), "features: size of a spectrum");
    for (int o = 0; o < FEATURES_OCTAVES; o++) {
        const unsigned long long sum = (unsigned long long)values[o] * bin;
        unsigned *ring = counts_ring(f, window, o);
        f->d_octaves[o] += sum;
        for (unsigned k = 0; ring && k < f->words; k++) {
            stub_check_memory(ring + k, sizeof *ring, device, "sums of rings");
            ring[k] = (unsigned)(sum >> 32 * k);
        }
    }
    const unsigned kind = f->d_sample[window] & FEATURES_KIND;
    if (kind == 0)
        return;
    unsigned *sums = f->d_spectra + (size_t)(kind - 1) * f->spectrum;
    stub_check_memory(sums, f->spectrum * sizeof *sums, device, "spectra");
    for (unsigned k = 0; k < f->spectrum; k++)
        sums[k] += bin;
}

/* All values of a window fall into the bin that its checksum says. */
static void add_window(const struct counts_sums *s, const struct counts_bins *b, uint64_t sum,
                       int n, int64_t window, int device)
{
    const unsigned long long bin = sum % (unsigned)b->bins,
                             samples = (unsigned long long)n * (unsigned)n;
    unsigned long long *out = s->d_windows + 2 * window;
    stub_check_memory(s->d_histogram, (size_t)(b->bins + 2) * sizeof *out, device, "histogram");
    stub_check_memory(out, 2 * sizeof *out, device, "sums of a window");
    s->d_histogram[bin + 1] += samples;
    out[0] += samples << COUNTS_SHIFT | samples * bin;
    out[1] += samples * bin * bin + (bin % FEATURES_NO_GRAY << COUNTS_GRAY_SHIFT);
    add_features(&s->features, n, (unsigned)bin, window, device);
}

/* The number of a window of the slide, counted from the first one of the band. */
static int64_t in_band(const struct counts_windows *w, int64_t k)
{
    return k - w->band_wy * w->nx;
}

static bool is_wanted(const struct counts_windows *w, int64_t k, int device)
{
    const uint8_t *wanted = w->d_wanted ? w->d_wanted + in_band(w, k) : NULL;
    if (wanted)
        stub_check_memory(wanted, 1, device, "which windows are wanted");
    return !wanted || *wanted;
}

/* The fused kernel finds each half of a window in one piece. */
static uint64_t fused_checksum(const struct fused_args *a, int64_t wx, int64_t wy, int device)
{
    const int64_t stride = FUSED_STRIDE / a->steps, left = wx * stride;
    const float *ring = a->d_smooth + wx % a->steps * a->apart + left;
    uint64_t sum = 0;
    stub_check(left + FUSED_WINDOW <= a->pitch, "a window beyond the ring's pitch");
    for (int y = 0; y < FUSED_WINDOW && !stub.quick; y++) {
        const int64_t top = (wy * stride + y / FUSED_STRIDE * FUSED_STRIDE) % a->ring_rows;
        const float *row = ring + (top + y % FUSED_STRIDE) * a->pitch;
        sum += row_checksum(row, y, FUSED_WINDOW, true, device);
    }
    return sum;
}

static void run_fused(const struct fused_args *a, int device)
{
    const int64_t nx = a->windows.nx;
    stub_check(a->ring_rows % FUSED_STRIDE == 0 && a->pitch % 4 == 0, "fused: the ring");
    for (int64_t k = a->windows.first_wy * nx; k < a->windows.end_wy * nx; k++)
        if (is_wanted(&a->windows, k, device))
            add_window(&a->sums, &a->bins, fused_checksum(a, k % nx, k / nx, device), FUSED_WINDOW,
                       in_band(&a->windows, k), device);
}

static uint64_t gathered_checksum(const struct windows_args *a, int64_t wx, int64_t wy, int device)
{
    const int64_t left = wx * a->stride;
    uint64_t sum = 0;
    stub_check(left + a->window <= a->pitch, "a window beyond the ring's pitch");
    for (int y = 0; y < a->window && !stub.quick; y++) {
        const int64_t row = (wy * a->stride + y) % a->ring_rows;
        sum += row_checksum(a->d_smooth + row * a->pitch + left, y, a->window, false, device);
    }
    return sum;
}

/* The checksum goes where the window's pixels begin, TRANSFORM carries it to its spectrum, COUNT
 * reads it there. */
static void run_windows(const struct windows_args *a, enum what what, unsigned blocks, int device)
{
    const int64_t n = a->window, half = n * (n / 2 + 1), nx = a->windows.nx;
    stub_check(blocks == (uint64_t)a->n, "windows: blocks");
    for (int64_t i = 0; i < a->n; i++) {
        const int64_t k = a->windows.first_wy * nx + a->first + i;
        uint64_t sum;
        if (!is_wanted(&a->windows, k, device))
            continue;
        if (what == GATHER) {
            sum = gathered_checksum(a, k % nx, k / nx, device);
            stub_check_memory(a->d_gathered + i * n * n, (size_t)(n * n) * sizeof *a->d_gathered,
                              device, "gathered windows");
            stub_check_memory(a->d_mean + i, sizeof *a->d_mean, device, "means of windows");
            memcpy(a->d_gathered + i * n * n, &sum, sizeof sum);
        } else {
            stub_check_memory(a->d_spectra + i * half, (size_t)half * sizeof *a->d_spectra, device,
                              "spectra");
            memcpy(&sum, a->d_spectra + i * half, sizeof sum);
            const int64_t at = in_band(&a->windows, k);
            a->sums.d_windows[2 * at] = a->sums.d_windows[2 * at + 1] =
                0; /* as the kernel: stored, not added */
            add_window(&a->sums, &a->bins, sum, a->window, at, device);
        }
    }
    if (a->d_taper)
        stub_check_memory(a->d_taper, (size_t)n * sizeof *a->d_taper, device, "taper");
}

static void run_crc(const struct crc_batch *b, int device)
{
    stub_check_memory(b->chunks, (size_t)b->n * sizeof *b->chunks, -1, "chunks to check");
    stub_check_memory(b->crc32, (size_t)b->n * sizeof *b->crc32, -1, "CRCs");
    if (b->heads)
        stub_check_memory(b->heads, (size_t)b->n * CRC_HEAD, -1, "heads of chunks");
    for (int k = 0; k < b->n; k++) {
        const struct crc_chunk *c = &b->chunks[k];
        stub_check_memory(b->d_stored + c->at, c->bytes, device, "a chunk to check");
        b->crc32[k] = codec_crc32(b->d_stored + c->at, c->bytes);
        if (b->heads)
            memcpy(b->heads + (size_t)k * CRC_HEAD, b->d_stored + c->at,
                   c->bytes < CRC_HEAD ? c->bytes : CRC_HEAD);
    }
}

/* The number of the greatest step from one line of n + 1 pixels to the next, of which there are as
 * many. `across` and `down`: floats to the next pixel of a line, and to the next line. */
static unsigned greatest_step(const float *p, int n, int64_t across, int64_t down)
{
    double most = 0;
    unsigned at = FEATURES_NO_STEP;
    for (int k = 0; k < n; k++) {
        double sum = 0;
        for (const float *q = p + k * down + across; q <= p + k * down + n * across; q += across)
            sum += fabs((double)(q[down] - q[0]));
        if (sum > most) {
            most = sum;
            at = (unsigned)k;
        }
    }
    return at;
}

static void run_steps(const struct steps_args *s, int device)
{
    const struct smooth_args *a = &s->pixels;
    const int64_t nx = s->windows.nx, pitch = a->width + a->layout.chunk_cols,
                  skip = s->window - 1 - s->steps;
    float *rows = malloc((size_t)(s->steps + 1) * (size_t)pitch * sizeof *rows);
    stub_check(rows && s->steps > 0, "steps: arguments");
    for (int64_t wy = s->windows.first_wy; wy < s->windows.end_wy; wy++) {
        for (int64_t y = 0; y <= s->steps && !stub.quick; y++)
            gray_row(a, wy * s->stride + skip + y, s->steps + a->radius, device, rows + y * pitch);
        for (int64_t wx = 0; wx < nx; wx++) {
            const int64_t window = (wy - s->windows.band_wy) * nx + wx;
            uint16_t *out = s->d_steps + window;
            const float *p = rows + wx * s->stride + skip;
            stub_check_memory(s->d_sample + window, 1, device, "the sample of steps");
            if (!(s->d_sample[window] & FEATURES_STEPPED) ||
                !is_wanted(&s->windows, wy * nx + wx, device))
                continue;
            stub_check_memory(out, sizeof *out, device, "steps of a window");
            *out = stub.quick
                       ? 0
                       : (uint16_t)(greatest_step(p, s->steps, 1, pitch) << COUNTS_STEP_SHIFT |
                                    greatest_step(p, s->steps, pitch, 1));
        }
    }
    free(rows);
}

void stub_run_kernel(const struct op *o, int device)
{
    if (o->what == SMOOTH && !stub.quick)
        run_smooth(&o->smooth, device);
    else if (o->what == STEPS)
        run_steps(&o->steps, device);
    else if (o->what == FUSED)
        run_fused(&o->fused, device);
    else if (o->what == GATHER || o->what == COUNT)
        run_windows(&o->windows, o->what, o->blocks, device);
    else if (o->what == CRC)
        run_crc(&o->crc, device);
    else if (o->what != SMOOTH)
        stub_run_jpeg(o, device);
}

/* --- the runtime: kernels --- */

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t size, int constant, int global);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int limit, void *tid, void *bid, void *block, void *grid, int *warp);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                       cudaStream_t *stream);
cudaError_t __cudaGetKernel(struct kernel **kernel, const void *host);
cudaError_t __cudaLaunchKernel(struct kernel *k, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t s);

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    (void)binary;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int limit, void *tid, void *bid, void *block, void *grid, int *warp)
{
    static const struct {
        const char *word;
        enum what what;
    } words[] = {{"smooth_kernel", SMOOTH},   {"smooth_plain_kernel", SMOOTH},
                 {"fused_kernel", FUSED},     {"steps_kernel", STEPS},
                 {"gather_kernel", GATHER},   {"count_kernel", COUNT},
                 {"strip_kernel", STRIP},     {"own_kernel", OWN_TABLES},
                 {"samples_kernel", SAMPLES}, {"colours_kernel", PIXELS},
                 {"huffman_kernel", HUFFMAN}, {"blocks_kernel", PIXELS},
                 {"planes_kernel", PIXELS},   {"crc_kernel", CRC}};
    (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid,
        (void)warp;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (strstr(name, words[k].word)) {
            stub_check(stub.n_kernels < MOST_KERNELS, "too many kernels");
            stub.kernels[stub.n_kernels++] = (struct kernel){.host = host, .what = words[k].what};
            return;
        }
    stub_die("a kernel that the stub does not know: %s", name);
}

/* Tables in constant memory: only the kernels read them. */
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t size, int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)external, (void)size, (void)constant,
        (void)global;
}

static struct kernel *kernel_of(const void *host)
{
    for (int k = 0; k < stub.n_kernels; k++)
        if (stub.kernels[k].host == host)
            return &stub.kernels[k];
    stub_die("a kernel that was not registered");
}

cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute what, int value)
{
    cudaError_t r = stub_enter(stub_device);
    const bool bytes = what == cudaFuncAttributeMaxDynamicSharedMemorySize;
    stub_check(bytes || what == cudaFuncAttributePreferredSharedMemoryCarveout,
               "an attribute of a kernel");
    stub_check(value >= 0 && (bytes || value <= 100), "the value of an attribute");
    if (!r && bytes && (size_t)value > stub_shared_bytes(stub_device))
        r = cudaErrorInvalidValue;
    if (!r && bytes)
        kernel_of(host)->shared[stub_device] = value;
    return stub_leave(r);
}

static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configuration;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    configuration.grid = grid;
    configuration.block = block;
    configuration.shared = shared;
    configuration.stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                       cudaStream_t *stream)
{
    *grid = configuration.grid;
    *block = configuration.block;
    *shared = configuration.shared;
    *stream = configuration.stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(struct kernel **kernel, const void *host)
{
    *kernel = kernel_of(host);
    return cudaSuccess;
}

static cudaError_t launch(const struct kernel *k, dim3 grid, void **args, size_t shared,
                          cudaStream_t s)
{
    static const size_t bytes[WHATS] = {
        [SMOOTH] = sizeof(struct smooth_args),   [FUSED] = sizeof(struct fused_args),
        [STEPS] = sizeof(struct steps_args),     [GATHER] = sizeof(struct windows_args),
        [COUNT] = sizeof(struct windows_args),   [STRIP] = sizeof(struct jpeg_batch),
        [HUFFMAN] = sizeof(struct jpeg_batch),   [PIXELS] = sizeof(struct jpeg_batch),
        [CRC] = sizeof(struct crc_batch),        [SAMPLES] = sizeof(struct jpeg_batch),
        [OWN_TABLES] = sizeof(struct jpeg_batch)};
    cudaError_t r = stub_enter(s->device);
    stub_check(s->device == stub_device, "a kernel while another device is set");
    if (!r && (shared > PLAIN_SHARED_BYTES && (int)shared > k->shared[stub_device]))
        r = cudaErrorInvalidValue;
    if (!r && (grid.x == 0 || grid.y == 0 || grid.y > 65535))
        r = cudaErrorInvalidConfiguration;
    if (r)
        return stub_leave(r);
    struct op *o = stub_queue(s, k->what);
    memcpy((char *)o + offsetof(struct op, smooth), args[0],
           bytes[k->what]); /* where all of the union begins */
    o->blocks = grid.x;
    return stub_leave(stub_queued(s));
}

cudaError_t __cudaLaunchKernel(struct kernel *k, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t s)
{
    (void)block;
    return launch(k, grid, args, shared, s);
}

/* As CUDA 12 has it. */
cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared,
                             cudaStream_t s)
{
    (void)block;
    return launch(kernel_of(host), grid, args, shared, s);
}
