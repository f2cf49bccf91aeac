/*
 * bench_kernels.cu - the kernels on one device. Each is checked against float64 on the host and
 * timed on a whole slide in the device's memory, beside cuFFT alone.
 *
 *   bench_kernels RGB WIDTH HEIGHT [SLIDE_WIDTH SLIDE_HEIGHT]
 *
 * RGB is a file of u8 [HEIGHT][WIDTH][3]; its pixels are repeated to fill the slide.
 *
 * bench_kernels_small, with FUSED_RESIDENT = 1, has the kernel as it is built for GPUs that hold
 * one block per multiprocessor, and leaves 28 KB of level 1 cache, as they do.
 */
#include "cuda/fused.h"
#include "cuda/smooth.h"
#include "cuda/windows.h"
#include "tests/gpu_call.h"

#include <cufft.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

#define FFT(call) check_fft((call), #call)
static void check_fft(cufftResult r, const char *what)
{
    if (r) {
        fprintf(stderr, "bench_kernels: %s: cuFFT %d\n", what, (int)r);
        exit(1);
    }
}

enum { CHUNK = 240, AT_ONCE = 32, BINS = 1600, RUNS = 7, BATCH = 1024, N = 256, S = 128 };

static int multiprocessors, shared_each, shared_block; /* of the device */

/* --- the slide --- */

struct slide {
    int64_t width, height, nx, ny, chunk_columns, chunk_rows;
    int channels;
    uint8_t *d_chunks;
    float *d_smooth; /* ring */
    int64_t ring_rows, pitch;
    unsigned long long *d_histogram, *d_windows;
    uint8_t *d_mask; /* windows to check */
    struct counts_features features;
};

__global__ void lay(uint8_t *out, const uint8_t *rgb, int w, int h, int64_t columns, int channels,
                    int64_t bytes)
{
    const int64_t chunk = (int64_t)CHUNK * CHUNK * channels;
    for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < bytes;
         k += (int64_t)gridDim.x * blockDim.x) {
        const int64_t c = k / chunk, in = k % chunk;
        const int64_t y = c / columns * CHUNK + in / (CHUNK * channels),
                      x = c % columns * CHUNK + in / channels % CHUNK;
        const uint8_t *p = rgb + ((y % h) * w + x % w) * 3;
        out[k] = channels == 3 ? p[in % 3]
                               : (uint8_t)((299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000);
    }
}

static struct smooth_args smooth_of(const struct slide &s, int64_t first, int64_t end)
{
    struct smooth_args a = {};
    a.above = a.slab = {s.d_chunks, 0, s.height};
    a.width = s.width;
    a.height = s.height;
    a.layout = layout_of(s.width, CHUNK, CHUNK, s.channels);
    a.first = first;
    a.end = end;
    a.d_smooth = s.d_smooth;
    a.ring_rows = s.ring_rows;
    a.pitch = s.pitch;
    a.radius = 3;
    double sum = 0, w[4];
    for (int r = 0; r < 4; r++)
        sum += (w[r] = exp(-r * r / 2.0)) * (r ? 2 : 1);
    for (int r = 0; r < 4; r++) {
        a.across[r] = (float)(w[r] / sum);
        a.down[r] = (float)(w[r] / sum / (s.channels == 3 ? 1000 : 1));
    }
    return a;
}

static struct counts_bins contract_bins()
{
    return {1, 0, (float)(200 * log10(2.0)), BINS, true};
}

struct version {
    const char *name;
    cudaError_t (*prepare)(void);
    void (*run)(const struct fused_args *, cudaStream_t);
    bool hann;
};

static struct fused_args fused_of(const struct slide &s, int64_t wy, int64_t end_wy, bool masked,
                                  const struct version &v)
{
    return {s.d_smooth,
            s.ring_rows,
            s.pitch,
            0,
            1,
            {s.nx, wy, end_wy, 0, masked ? s.d_mask : NULL},
            contract_bins(),
            {s.d_histogram, s.d_windows, s.features},
            v.hann,
            multiprocessors,
            (size_t)shared_each,
            0};
}

/* --- versions --- */

static struct check_device device;
static struct result_params params;
static struct windows *windows;

static cudaError_t prepare_cufft(void)
{
    struct err e = {};
    params = spectrum_defaults();
    if ((windows = windows ? windows : windows_create(&device, &params, 0, &e)) &&
        windows_reserve(windows, 0, &e) == 0)
        return cudaSuccess;
    fprintf(stderr, "bench_kernels: %s\n", e.msg);
    exit(1);
}

static void cufft_windows(const struct fused_args *a, cudaStream_t)
{
    struct err e = {};
    if (windows_count(windows, a, &e) == 0)
        return;
    fprintf(stderr, "bench_kernels: %s\n", e.msg);
    exit(1);
}

/* Shared memory that blocks have and do not use, so that 28 KB of level 1 cache are left. */
static size_t unused_shared()
{
#ifdef FUSED_RESIDENT
    return (size_t)shared_block - fused_shared_bytes(BINS);
#else
    return 0;
#endif
}

static void run_fused(const struct fused_args *a, cudaStream_t stream)
{
    struct fused_args with = *a;
    with.unused = unused_shared();
    fused_windows(&with, stream);
}

static cudaError_t nothing(void)
{
    return cudaSuccess;
}

static const struct version versions[] = {
    {"cuFFT (cuda/windows.cu)", prepare_cufft, cufft_windows, false},
    {"fused (cuda/fused.cu)", nothing, run_fused, false},
    {"fused, Hann's taper", nothing, run_fused, true},
};

/* --- the check: some windows in float64 --- */

static void fft(std::complex<double> *v, int n, int stride)
{
    if (n == 1)
        return;
    std::vector<std::complex<double>> t(n);
    fft(v, n / 2, stride * 2);
    fft(v + stride, n / 2, stride * 2);
    for (int k = 0; k < n / 2; k++) {
        const std::complex<double> a = v[2 * k * stride],
                                   b = std::polar(1.0, -2 * M_PI * k / n) * v[(2 * k + 1) * stride];
        t[k] = a + b;
        t[k + n / 2] = a - b;
    }
    for (int k = 0; k < n; k++)
        v[k * stride] = t[k];
}

static double gray(const std::vector<uint8_t> &rgb, int w, int h, int channels, int64_t x,
                   int64_t y, const struct slide &s)
{
    x = std::min(std::max(x, (int64_t)0), s.width - 1);
    y = std::min(std::max(y, (int64_t)0), s.height - 1);
    const uint8_t *p = &rgb[((y % h) * w + x % w) * 3];
    const int g = 299 * p[0] + 587 * p[1] + 114 * p[2];
    return channels == 3 ? g / 1000.0 : (double)((g + 500) / 1000);
}

static void reference(const std::vector<uint8_t> &rgb, int w, int h, const struct slide &s,
                      int64_t wx, int64_t wy, bool hann, std::vector<double> &histogram)
{
    double weight[7], sum = 0;
    for (int r = 0; r < 7; r++)
        sum += weight[r] = exp(-(r - 3) * (r - 3) / 2.0);
    std::vector<double> g((N + 6) * (N + 6)), d(N * (N + 6));
    for (int y = 0; y < N + 6; y++)
        for (int x = 0; x < N + 6; x++)
            g[y * (N + 6) + x] = gray(rgb, w, h, s.channels, wx * S + x - 3, wy * S + y - 3, s);
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N + 6; x++)
            for (int r = 0; r < 7; r++)
                d[y * (N + 6) + x] += weight[r] / sum * g[(y + r) * (N + 6) + x];
    std::vector<std::complex<double>> f(N * N);
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++)
            for (int r = 0; r < 7; r++)
                f[y * N + x] += weight[r] / sum * d[y * (N + 6) + x + r];
    for (int k = 0; hann && k < N * N; k++)
        f[k] *= pow(sin(M_PI * (k / N) / N) * sin(M_PI * (k % N) / N), 2);
    for (int y = 0; y < N; y++)
        fft(&f[y * N], N, 1);
    for (int x = 0; x < N; x++)
        fft(&f[x], N, N);
    for (int k = 0; k < N * N; k++)
        histogram[(int)floor(200 * log10(std::abs(f[k]) + 1)) + 1]++;
}

/* --- runs --- */

/* All kernels of a slide, AT_ONCE rows of windows at a time, as the backend does. */
static void run_slide(const struct slide &s, const struct version &v, bool masked, bool smooth)
{
    int64_t done = 0;
    for (int64_t wy = 0; wy < s.ny; wy += AT_ONCE) {
        const int64_t end_wy = std::min(wy + AT_ONCE, s.ny), rows = (end_wy - 1) * S + N;
        if (smooth) {
            struct smooth_args a = smooth_of(s, done, rows);
            a.folded = v.run != cufft_windows;
            smooth_rows(&a, 0);
            done = rows;
        }
        const struct fused_args f = fused_of(s, wy, end_wy, masked, v);
        if (v.run)
            v.run(&f, 0);
    }
    CHECK(cudaGetLastError());
}

static void clear(const struct slide &s)
{
    CHECK(cudaMemset(s.d_histogram, 0, (BINS + 2) * 8));
    CHECK(cudaMemset(s.d_windows, 0, s.nx * s.ny * 16));
    CHECK(cudaMemset(s.features.d_octaves, 0, FEATURES_OCTAVES * 8));
    CHECK(cudaMemset(s.features.d_rings, 0, s.nx * s.ny * FEATURES_OCTAVES * 4));
    CHECK(cudaMemset(s.features.d_spectra, 0, FEATURES_SAMPLES * (N / 2 + 1) * N * 4));
}

/* Median of RUNS times of a call, each after `before`, in ms. */
template <class A, class B> static float median_ms(const A &before, const B &call)
{
    cudaEvent_t a, b;
    std::vector<float> t(RUNS);
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    for (int r = 0; r < RUNS; r++) {
        before();
        CHECK(cudaEventRecord(a));
        call();
        CHECK(cudaEventRecord(b));
        CHECK(cudaEventSynchronize(b));
        CHECK(cudaEventElapsedTime(&t[r], a, b));
    }
    std::sort(t.begin(), t.end());
    return t[RUNS / 2];
}

static float timed(const struct slide &s, const struct version &v, bool smooth)
{
    return median_ms([&] { clear(s); }, [&] { run_slide(s, v, false, smooth); });
}

/* cuFFT alone, BATCH windows at a time. */
struct transforms {
    cufftHandle plan;
    float *d_windows;
    float2 *d_spectra;
};
static struct transforms u;

static void open_transforms()
{
    int dims[2] = {N, N};
    const size_t bytes = (size_t)BATCH * N * N * sizeof(float);
    FFT(cufftPlanMany(&u.plan, 2, dims, NULL, 1, N * N, NULL, 1, N * (N / 2 + 1), CUFFT_R2C,
                      BATCH));
    CHECK(cudaMalloc(&u.d_windows, bytes));
    CHECK(cudaMalloc(&u.d_spectra, (size_t)BATCH * N * (N / 2 + 1) * sizeof(float2)));
    CHECK(cudaMemset(u.d_windows, 0x3f, bytes));
}

static float cufft_alone(const struct slide &s)
{
    const auto all = [&] {
        for (int64_t k = 0; k < s.nx * s.ny; k += BATCH)
            FFT(cufftExecR2C(u.plan, u.d_windows, (cufftComplex *)u.d_spectra));
    };
    return median_ms([] {}, all);
}

static std::vector<unsigned long long> histogram_of(const struct slide &s)
{
    std::vector<unsigned long long> h(BINS + 2);
    CHECK(cudaMemcpy(h.data(), s.d_histogram, h.size() * 8, cudaMemcpyDeviceToHost));
    return h;
}

/* Share of mass in another bin than float64 has it, in %; sums of windows must be those of the
 * histogram. */
static double off(const struct slide &s, const struct version &v, const std::vector<double> &want)
{
    clear(s);
    run_slide(s, v, true, true);
    const std::vector<unsigned long long> h = histogram_of(s);
    std::vector<unsigned long long> w(s.nx * s.ny * 2);
    CHECK(cudaMemcpy(w.data(), s.d_windows, w.size() * 8, cudaMemcpyDeviceToHost));
    double moved = 0, all = 0;
    unsigned long long sum = 0, squares = 0, n = 0, wsum = 0, wsquares = 0, wn = 0;
    for (int k = 0; k < BINS + 2; k++) {
        moved += fabs((double)h[k] - want[k]);
        all += want[k];
        if (k > 0 && k <= BINS) {
            n += h[k];
            sum += h[k] * (k - 1);
            squares += h[k] * (k - 1) * (k - 1);
        }
    }
    for (size_t k = 0; k < w.size(); k += 2) {
        wn += w[k] >> COUNTS_SHIFT;
        wsum += w[k] & ((1ull << COUNTS_SHIFT) - 1);
        wsquares += w[k + 1] & ((1ull << COUNTS_GRAY_SHIFT) - 1);
    }
    if (n != wn || sum != wsum || squares != wsquares || n != (unsigned long long)all)
        printf("%s: WRONG SUMS: %llu %llu, %llu %llu, %llu %llu, of %.0f\n", v.name, n, wn, sum,
               wsum, squares, wsquares, all);
    return moved / 2 / all * 100;
}

/* Memory for features; about one window in forty is in the sample. */
static void add_features(struct slide *s)
{
    std::vector<uint8_t> sample(s->nx * s->ny);
    uint8_t *d_sample;
    for (int64_t k = 0; k < s->nx * s->ny; k++)
        sample[k] = features_hash(k % s->nx, k / s->nx) % 40 == 0;
    CHECK(cudaMalloc(&s->features.d_octaves, FEATURES_OCTAVES * 8));
    CHECK(cudaMalloc(&s->features.d_rings, sample.size() * FEATURES_OCTAVES * 4));
    s->features.rings = 4; /* as the maps of result.h need them */
    s->features.words = 1;
    s->features.slots = 0xf321f0f;
    CHECK(cudaMalloc(&s->features.d_spectra, FEATURES_SAMPLES * (N / 2 + 1) * N * 4));
    CHECK(cudaMalloc(&d_sample, sample.size()));
    CHECK(cudaMemcpy(d_sample, sample.data(), sample.size(), cudaMemcpyHostToDevice));
    s->features.d_sample = d_sample;
    s->features.spectrum = (N / 2 + 1) * N;
}

static struct slide make_slide(const std::vector<uint8_t> &rgb, int w, int h, int64_t width,
                               int64_t height, int channels)
{
    struct slide s = {};
    uint8_t *d_rgb;
    s.width = width;
    s.height = height;
    s.channels = channels;
    s.nx = (width - N) / S + 1;
    s.ny = (height - N) / S + 1;
    s.chunk_columns = (width + CHUNK - 1) / CHUNK;
    s.chunk_rows = (height + CHUNK - 1) / CHUNK;
    s.pitch = (width + 31) / 32 * 32;
    s.ring_rows = (AT_ONCE + 2) * S;
    const int64_t bytes = s.chunk_rows * s.chunk_columns * CHUNK * CHUNK * channels;
    CHECK(cudaMalloc(&d_rgb, rgb.size()));
    CHECK(cudaMemcpy(d_rgb, rgb.data(), rgb.size(), cudaMemcpyHostToDevice));
    CHECK(cudaMalloc(&s.d_chunks, bytes));
    lay<<<4096, 256>>>(s.d_chunks, d_rgb, w, h, s.chunk_columns, channels, bytes);
    CHECK(cudaMalloc(&s.d_smooth, s.ring_rows * s.pitch * 4));
    CHECK(cudaMalloc(&s.d_histogram, (BINS + 2) * 8));
    CHECK(cudaMalloc(&s.d_windows, s.nx * s.ny * 16));
    CHECK(cudaMalloc(&s.d_mask, s.nx * s.ny));
    add_features(&s);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(d_rgb));
    return s;
}

static void check_and_time(const std::vector<uint8_t> &rgb, int w, int h, int64_t width,
                           int64_t height, int channels)
{
    struct slide s = make_slide(rgb, w, h, width, height, channels);
    std::vector<uint8_t> mask(s.nx * s.ny);
    std::vector<double> want[2];
    want[0].resize(BINS + 2);
    want[1].resize(BINS + 2);
    for (int k = 0; k < 24; k++) {
        const int64_t i = k == 0   ? 0
                          : k == 1 ? s.nx - 1
                                   : (k * 7919 + 13) % s.nx,
                      j = k == 0   ? 0
                          : k == 1 ? s.ny - 1
                                   : (k * 104729 + 5) % s.ny;
        if (!mask[j * s.nx + i])
            for (int hann = 0; hann < 2; hann++)
                reference(rgb, w, h, s, i, j, hann, want[hann]);
        mask[j * s.nx + i] = 1;
    }
    CHECK(cudaMemcpy(s.d_mask, mask.data(), mask.size(), cudaMemcpyHostToDevice));
    printf("%s, %lld x %lld px, %lld windows; median of %d, ms\n", channels == 3 ? "RGB" : "gray",
           (long long)width, (long long)height, (long long)(s.nx * s.ny), RUNS);
    const float alone = cufft_alone(s);
    const float smooth = timed(s, {"", nothing, NULL, false}, true);
    printf("%-40s %8.2f\n%-40s %8.2f\n", "cuFFT alone, windows already gathered", alone,
           "gray and smoothing alone", smooth);
    printf("%-40s %8s %8s %10s %12s\n", "", "windows", "all", "of cuFFT", "mass off %");
    for (const struct version &v : versions) {
        CHECK(v.prepare());
        const double moved = off(s, v, want[v.hann]);
        const float all = timed(s, v, true), windows = timed(s, v, false);
        printf("%-40s %8.2f %8.2f %10.2f %12.4f\n", v.name, windows, all, all / alone, moved);
        fflush(stdout);
    }
    CHECK(cudaFree(s.d_chunks));
    CHECK(cudaFree(s.d_smooth));
    CHECK(cudaFree(s.d_windows));
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 6)
        return fprintf(stderr,
                       "usage: bench_kernels RGB WIDTH HEIGHT [SLIDE_WIDTH SLIDE_HEIGHT]\n"),
               2;
    const int w = atoi(argv[2]), h = atoi(argv[3]);
    const int64_t width = argc == 6 ? atoll(argv[4]) : 65000,
                  height = argc == 6 ? atoll(argv[5]) : 43000;
    std::vector<uint8_t> rgb((size_t)w * h * 3);
    FILE *f = fopen(argv[1], "rb");
    if (!f || fread(rgb.data(), 1, rgb.size(), f) != rgb.size())
        return fprintf(stderr, "bench_kernels: %s: cannot be read\n", argv[1]), 1;
    fclose(f);
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaDeviceGetAttribute(&shared_each, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0));
    CHECK(cudaDeviceGetAttribute(&shared_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    open_transforms();
    check_and_time(rgb, w, h, width, height, 3);
    check_and_time(rgb, w, h, width, height, 1);
    return 0;
}
