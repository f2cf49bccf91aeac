/*
 * stub_cuda - the CUDA runtime and cuFFT for machines without a GPU, linked with the objects that nvcc made.
 *
 * Device memory is the host's, with its size and device remembered: whatever touches memory that is not
 * there, not page-locked or of another device ends the program. The kernels are replaced, known by
 * their names: smoothing lays the exact gray of three rows, checksum() takes the place of transforming and
 * counting a window. So a result tells whether every pixel lay in the right place at the right time.
 *
 *   WSI_STUB_DEVICES=N      devices (1)
 *   WSI_STUB_FAIL=K:CODE    the K-th call fails; any code but 2 (out of memory) stays with the device
 *   WSI_STUB_MEMORY=BYTES   of each device
 *   WSI_STUB_ODD=WHAT,...   of device 0, 1, ...: "busy" (cannot be set), "old" (no kernel image), "small"
 *                           (little shared memory), "full" (little free memory); else an ordinary one
 *   WSI_STUB_ORDER=SEED     work is queued and runs as late, or in between, as the seed has it and CUDA
 *                           allows (0: as late as possible); else at once
 *   WSI_STUB_CALLS=FILE     at the end: calls, the most page-locked bytes, things not released, kernels run
 */
#include "cuda/fused.h"
#include "cuda/smooth.h"
#include "cuda/windows.h"

#include <cufft.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_DEVICES = 8, MOST_KERNELS = 64, MOST_PLANS = 64, SHARED_BYTES = 232448, PLAIN_SHARED_BYTES = 49152 };
enum { POISON = 0x5a, POISON_BYTES = 1 << 25, PROBABLY = 8 };

enum what { COPY, SET, RECORD, WAIT, SMOOTH, FUSED, GATHER, COUNT, TRANSFORM, WHATS };

struct block {
    unsigned char *p;
    size_t bytes;
    int device; /* -1: page-locked memory of the host */
    bool ours;  /* to be freed here */
    struct block *next;
};

struct plan {
    int device, window, batch;
    size_t work_bytes;
    void *d_work;
    struct CUstream_st *stream;
    bool used, made, manual;
};

struct op {
    enum what what;
    union {
        struct { void *to; const void *from; size_t bytes; void *kept; } copy;
        struct { void *to; int value; size_t bytes; } set;
        struct { struct CUevent_st *event; long version; } event;
        struct smooth_args smooth;
        struct fused_args fused;
        struct windows_args windows;
        struct { struct plan plan; const float *in; cufftComplex *out; } transform;
    };
    unsigned blocks;
    struct op *next;
};

struct CUstream_st {
    int device;
    bool destroyed;
    unsigned eagerness; /* of PROBABLY */
    struct op *head, **tail;
    struct CUstream_st *next;
};

struct CUevent_st {
    int device;
    bool timed, destroyed;
    long recorded, done; /* versions */
    double at;
    struct CUstream_st *stream;
    struct CUevent_st *next;
};

struct kernel {
    const void *host;
    enum what what;
    int shared[MOST_DEVICES]; /* bytes that it was allowed to have */
};

static struct {
    bool begun, queued, late;
    int devices, fail_code;
    long calls, fail_at, run[WHATS];
    size_t memory, used[MOST_DEVICES], locked, most_locked;
    cudaError_t lost[MOST_DEVICES];
    unsigned seed;
    struct block *blocks;
    struct CUstream_st *streams;
    struct CUevent_st *events;
    struct plan plans[MOST_PLANS];
    struct kernel kernels[MOST_KERNELS];
    int n_kernels;
} stub;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int current;
static _Thread_local cudaError_t last;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("stub_cuda: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    abort();
}

static void check(bool good, const char *what)
{
    if (!good)
        die("%s", what);
}

/* --- memory --- */

/* Must lie within one block of the device, or (-1) of page-locked memory. */
static void check_memory(const void *p, size_t bytes, int device, const char *what)
{
    const unsigned char *at = p;
    for (const struct block *b = stub.blocks; b; b = b->next)
        if (at >= b->p && at < b->p + b->bytes) {
            if (b->device == device && bytes <= b->bytes - (size_t)(at - b->p))
                return;
            die("%s: %zu bytes at %zu of a block of %zu on device %d, used by %d", what, bytes, (size_t)(at - b->p), b->bytes,
                b->device, device);
        }
    die("%s: no such memory", what);
}

static bool is_locked(const void *p)
{
    for (const struct block *b = stub.blocks; b; b = b->next)
        if (b->device == -1 && (const unsigned char *)p >= b->p && (const unsigned char *)p < b->p + b->bytes)
            return true;
    return false;
}

static void add_block(void *p, size_t bytes, int device, bool ours)
{
    struct block *b = malloc(sizeof *b);
    check(b != NULL, "no memory for the stub itself");
    *b = (struct block){p, bytes, device, ours, stub.blocks};
    stub.blocks = b;
}

static void *new_block(size_t bytes, int device)
{
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!p)
        return NULL;
    memset(p, POISON, bytes < POISON_BYTES ? bytes : POISON_BYTES);
    add_block(p, bytes, device, true);
    return p;
}

/* host: page-locked memory; ours: allocated here. */
static void remove_block(const void *p, bool host, bool ours)
{
    for (struct block **b = &stub.blocks; *b; b = &(*b)->next)
        if ((*b)->p == p && ((*b)->device == -1) == host && (*b)->ours == ours) {
            struct block *gone = *b;
            *b = gone->next;
            if (!host)
                stub.used[gone->device] -= gone->bytes;
            else if (ours)
                stub.locked -= gone->bytes;
            if (ours)
                free(gone->p);
            free(gone);
            return;
        }
    die("released what was not there");
}

/* --- kernels --- */

/* Gray of row y, clamped, as the slabs have it. */
static void gray_row(const struct smooth_args *a, int64_t y, int device, float *out)
{
    const int64_t row = y < 0 ? 0 : y >= a->height ? a->height - 1 : y;
    const struct smooth_slab *s = row < a->slab.row ? &a->above : &a->slab;
    const int64_t r = row - s->row, pitch = (int64_t)a->layout.chunk_cols * a->layout.channels, chunk = a->layout.chunk_rows * pitch;
    check(r >= 0 && r < s->rows, "smoothing wants a row that is in no slab");
    check(s == &a->slab || r >= s->rows - 2 * a->radius, "smoothing wants too high a row of the slab above");
    for (int64_t col = 0; col < a->layout.columns; col++) {
        const uint8_t *p = s->d_chunks + (r / a->layout.chunk_rows * a->layout.columns + col) * chunk + r % a->layout.chunk_rows * pitch;
        const int64_t left = a->width - col * a->layout.chunk_cols, n = left < a->layout.chunk_cols ? left : a->layout.chunk_cols;
        check_memory(p, (size_t)pitch, device, "pixels to smooth");
        for (int64_t x = 0; x < n; x++, p += a->layout.channels)
            out[col * a->layout.chunk_cols + x] = (float)(a->layout.channels == 3 ? 299 * p[0] + 587 * p[1] + 114 * p[2] : p[0]);
    }
}

/* Instead of the smoothed row y: gray of row y + 2 gray of y - radius + 3 gray of y + radius, exact. */
static void run_smooth(const struct smooth_args *a, int device)
{
    float weights = a->down[0], *rows = malloc(3 * (size_t)(a->width + a->layout.chunk_cols) * sizeof *rows);
    check(rows && a->pitch >= a->width && a->pitch % 4 == 0 && a->above.rows > 0, "smoothing: arguments");
    float *up = rows + a->width + a->layout.chunk_cols, *down = up + a->width + a->layout.chunk_cols;
    for (int k = 1; k <= a->radius; k++)
        weights += 2 * a->down[k];
    weights *= a->layout.channels == 3 ? 1000.0f : 1.0f;
    check(weights > 0.9999f && weights < 1.0001f, "smoothing: the weights are not of the scale of gray");
    for (int64_t y = a->first; y < a->end; y++) {
        float *out = a->d_smooth + y % a->ring_rows * a->pitch;
        gray_row(a, y, device, rows);
        gray_row(a, y - a->radius, device, up);
        gray_row(a, y + a->radius, device, down);
        check_memory(out, (size_t)a->pitch * sizeof *out, device, "ring of smoothed rows");
        for (int64_t x = 0; x < a->width; x++)
            out[x] = rows[x] + 2 * up[x] + 3 * down[x];
    }
    free(rows);
}

/* Of n x n px of the ring: each value times a weight of its place. */
static uint64_t checksum(const float *d_smooth, int64_t ring_rows, int64_t pitch, int64_t top, int64_t left, int n, int device)
{
    uint64_t sum = 0;
    check(left + n <= pitch, "a window beyond the ring's pitch");
    for (int y = 0; y < n; y++) {
        const float *row = d_smooth + (top + y) % ring_rows * pitch + left;
        check_memory(row, (size_t)n * sizeof *row, device, "a window's row");
        for (int x = 0; x < n; x++)
            sum += (uint64_t)row[x] * (unsigned)(1 + (7 * y + 13 * x) % 256);
    }
    return sum;
}

/* All values of a window fall into the bin that its checksum says. */
static void add_window(const struct counts_sums *s, const struct counts_bins *b, uint64_t sum, int n, int64_t window, int device)
{
    const unsigned long long bin = sum % (unsigned)b->bins, samples = (unsigned long long)n * (unsigned)n;
    unsigned long long *out = s->d_windows + 2 * window;
    check_memory(s->d_histogram, (size_t)(b->bins + 2) * sizeof *out, device, "histogram");
    check_memory(out, 2 * sizeof *out, device, "sums of a window");
    s->d_histogram[bin + 1] += samples;
    out[0] += samples << COUNTS_SHIFT | samples * bin;
    out[1] += samples * bin * bin;
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
        check_memory(wanted, 1, device, "which windows are wanted");
    return !wanted || *wanted;
}

static void run_fused(const struct fused_args *a, int device)
{
    const int64_t nx = a->windows.nx;
    check(a->ring_rows % FUSED_STRIDE == 0 && a->pitch % 4 == 0, "fused: the ring");
    for (int64_t k = a->windows.first_wy * nx; k < a->windows.end_wy * nx; k++)
        if (is_wanted(&a->windows, k, device))
            add_window(&a->sums, &a->bins,
                       checksum(a->d_smooth, a->ring_rows, a->pitch, k / nx * FUSED_STRIDE, k % nx * FUSED_STRIDE, FUSED_WINDOW, device),
                       FUSED_WINDOW, in_band(&a->windows, k), device);
}

/* The checksum goes where the window's pixels begin, TRANSFORM carries it to its spectrum, COUNT reads it there. */
static void run_windows(const struct windows_args *a, enum what what, unsigned blocks, int device)
{
    const int64_t n = a->window, half = n * (n / 2 + 1), nx = a->windows.nx;
    check(blocks == (uint64_t)a->n, "windows: blocks");
    for (int64_t i = 0; i < a->n; i++) {
        const int64_t k = a->windows.first_wy * nx + a->first + i;
        uint64_t sum;
        if (!is_wanted(&a->windows, k, device))
            continue;
        if (what == GATHER) {
            sum = checksum(a->d_smooth, a->ring_rows, a->pitch, k / nx * a->stride, k % nx * a->stride, a->window, device);
            check_memory(a->d_gathered + i * n * n, (size_t)(n * n) * sizeof *a->d_gathered, device, "gathered windows");
            check_memory(a->d_mean + i, sizeof *a->d_mean, device, "means of windows");
            memcpy(a->d_gathered + i * n * n, &sum, sizeof sum);
        } else {
            check_memory(a->d_spectra + i * half, (size_t)half * sizeof *a->d_spectra, device, "spectra");
            memcpy(&sum, a->d_spectra + i * half, sizeof sum);
            const int64_t at = in_band(&a->windows, k);
            a->sums.d_windows[2 * at] = a->sums.d_windows[2 * at + 1] = 0; /* as the kernel: stored, not added */
            add_window(&a->sums, &a->bins, sum, a->window, at, device);
        }
    }
    if (a->d_taper)
        check_memory(a->d_taper, (size_t)n * sizeof *a->d_taper, device, "taper");
}

static void run_transform(const struct plan *p, const float *in, cufftComplex *out, int device)
{
    const size_t pixels = (size_t)p->window * (size_t)p->window, half = (size_t)p->window * (size_t)(p->window / 2 + 1);
    check_memory(in, (size_t)p->batch * pixels * sizeof *in, device, "cuFFT: input");
    check_memory(out, (size_t)p->batch * half * sizeof *out, device, "cuFFT: output");
    check_memory(p->d_work, p->work_bytes, device, "cuFFT: work area");
    for (size_t k = 0; k < (size_t)p->batch; k++)
        memcpy(out + k * half, in + k * pixels, sizeof(uint64_t));
}

/* --- streams --- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void run_copy(const struct op *o, int device)
{
    const void *from = o->copy.kept ? o->copy.kept : o->copy.from;
    check_memory(o->copy.to, o->copy.bytes, is_locked(o->copy.to) ? -1 : device, "copy to");
    if (!o->copy.kept)
        check_memory(from, o->copy.bytes, is_locked(from) ? -1 : device, "copy from");
    memcpy(o->copy.to, from, o->copy.bytes);
    free(o->copy.kept);
}

static void run_op(const struct op *o, int device)
{
    stub.run[o->what]++;
    switch (o->what) {
    case COPY: run_copy(o, device); return;
    case SET:
        check_memory(o->set.to, o->set.bytes, device, "set");
        memset(o->set.to, o->set.value, o->set.bytes);
        return;
    case RECORD:
        o->event.event->at = now();
        o->event.event->done = o->event.version;
        return;
    case SMOOTH: run_smooth(&o->smooth, device); return;
    case FUSED: run_fused(&o->fused, device); return;
    case GATHER:
    case COUNT: run_windows(&o->windows, o->what, o->blocks, device); return;
    case TRANSFORM: run_transform(&o->transform.plan, o->transform.in, o->transform.out, device); return;
    default: return;
    }
}

/* Runs the stream's next operation, unless it must wait. */
static bool step(struct CUstream_st *s)
{
    struct op *o = s->head;
    if (!o || (o->what == WAIT && o->event.event->done < o->event.version))
        return false;
    if (stub.lost[s->device] && o->what == COPY)
        free(o->copy.kept);
    if (!stub.lost[s->device])
        run_op(o, s->device);
    if (!(s->head = o->next))
        s->tail = &s->head;
    free(o);
    return true;
}

static void finish_event(const struct CUevent_st *e, long version);

static void finish_stream(struct CUstream_st *s)
{
    while (s->head)
        if (!step(s))
            finish_event(s->head->event.event, s->head->event.version);
}

static void finish_event(const struct CUevent_st *e, long version)
{
    while (e->done < version)
        if (!step(e->stream)) {
            check(e->stream->head != NULL, "waits for an event that never comes");
            finish_event(e->stream->head->event.event, e->stream->head->event.version);
        }
}

static unsigned random_number(void)
{
    stub.seed = stub.seed * 1664525u + 1013904223u;
    return stub.seed >> 16;
}

/* What a GPU does while the host goes on. */
static void time_passes(void)
{
    for (struct CUstream_st *s = stub.streams; s && stub.queued; s = s->next)
        while (random_number() % PROBABLY < s->eagerness && step(s))
            ;
}

static struct op *queue(struct CUstream_st *s, enum what what)
{
    struct op *o = calloc(1, sizeof *o);
    check(o != NULL, "no memory for the stub itself");
    check(!s->destroyed, "a stream that is no more");
    o->what = what;
    *s->tail = o;
    s->tail = &o->next;
    return o;
}

static cudaError_t queued(struct CUstream_st *s)
{
    if (!stub.queued)
        finish_stream(s);
    return cudaSuccess;
}

/* --- calls --- */

static long number_of(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static void begin(void)
{
    const char *fail = getenv("WSI_STUB_FAIL"), *colon = fail ? strchr(fail, ':') : NULL;
    stub.begun = true;
    stub.devices = (int)number_of("WSI_STUB_DEVICES", 1);
    check(stub.devices >= 0 && stub.devices <= MOST_DEVICES, "WSI_STUB_DEVICES");
    stub.fail_at = number_of("WSI_STUB_FAIL", 0);
    stub.fail_code = colon ? atoi(colon + 1) : 0;
    stub.memory = (size_t)number_of("WSI_STUB_MEMORY", 0);
    stub.queued = getenv("WSI_STUB_ORDER") != NULL;
    stub.seed = (unsigned)number_of("WSI_STUB_ORDER", 0);
    stub.late = stub.seed == 0;
}

/* Every call comes through here, and leaves with leave(). */
static cudaError_t enter(int device)
{
    pthread_mutex_lock(&lock);
    if (!stub.begun)
        begin();
    time_passes();
    if (++stub.calls == stub.fail_at) {
        if (stub.fail_code != cudaErrorMemoryAllocation)
            stub.lost[device] = (cudaError_t)stub.fail_code;
        return (cudaError_t)stub.fail_code;
    }
    return stub.lost[device];
}

static cudaError_t leave(cudaError_t r)
{
    if (r != cudaSuccess && r != cudaErrorNotReady)
        last = r;
    pthread_mutex_unlock(&lock);
    return r;
}

static cufftResult leave_fft(cudaError_t r)
{
    pthread_mutex_unlock(&lock);
    return r == cudaSuccess ? CUFFT_SUCCESS : r == cudaErrorMemoryAllocation ? CUFFT_ALLOC_FAILED : CUFFT_EXEC_FAILED;
}

/* --- the runtime: devices and errors --- */

cudaError_t cudaGetDeviceCount(int *n)
{
    cudaError_t r = enter(current);
    *n = r ? 0 : stub.devices;
    return leave(r ? r : *n ? cudaSuccess : cudaErrorNoDevice);
}

/* Is this the device's word in WSI_STUB_ODD? */
static bool is_odd(int device, const char *what)
{
    const char *word = getenv("WSI_STUB_ODD");
    for (int k = 0; word && k < device; k++)
        word = (word = strchr(word, ',')) ? word + 1 : NULL;
    return word && strcspn(word, ",") == strlen(what) && !strncmp(word, what, strlen(what));
}

cudaError_t cudaSetDevice(int device)
{
    check(device >= 0 && device < MOST_DEVICES, "cudaSetDevice");
    cudaError_t r = enter(device);
    if (!r && is_odd(device, "busy"))
        r = cudaErrorDevicesUnavailable;
    if (!r)
        current = device;
    return leave(r);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    cudaError_t r = enter(device);
    memset(p, 0, sizeof *p);
    const bool small = is_odd(device, "small"), old = is_odd(device, "old");
    snprintf(p->name, sizeof p->name, "%sStub", small ? "Small " : old ? "Old " : "");
    p->sharedMemPerBlockOptin = small ? PLAIN_SHARED_BYTES : SHARED_BYTES;
    p->major = old ? 3 : 9;
    return leave(r);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all)
{
    cudaError_t r = enter(current);
    *all = stub.memory ? stub.memory : (size_t)64 << 30;
    *free_bytes = is_odd(current, "full") ? 100 << 20 : *all - stub.used[current];
    return leave(r);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *host)
{
    cudaError_t r = enter(current);
    (void)host;
    memset(a, 0, sizeof *a);
    if (!r && is_odd(current, "old"))
        r = cudaErrorNoKernelImageForDevice;
    return leave(r);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t r = enter(current);
    r = r ? r : last;
    last = cudaSuccess;
    pthread_mutex_unlock(&lock);
    return r;
}

const char *cudaGetErrorString(cudaError_t code)
{
    switch ((int)code) {
    case 2: return "out of memory";
    case 100: return "no CUDA-capable device is detected";
    case 700: return "an illegal memory access was encountered";
    case 719: return "unspecified launch failure";
    case 46: return "CUDA-capable device(s) is/are busy or unavailable";
    case 209: return "no kernel image is available for execution on the device";
    default: return "another error";
    }
}

/* --- the runtime: memory --- */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    cudaError_t r = enter(current);
    if (!r && stub.memory && stub.used[current] + bytes > stub.memory)
        r = cudaErrorMemoryAllocation;
    if (!r && !(*p = new_block(bytes, current)))
        r = cudaErrorMemoryAllocation;
    if (!r)
        stub.used[current] += bytes;
    return leave(r);
}

cudaError_t cudaFree(void *p)
{
    cudaError_t r = enter(current);
    for (struct CUstream_st *s = stub.streams; s && !r && p; s = s->next)
        if (s->device == current)
            finish_stream(s);
    if (!r && p)
        remove_block(p, false, true);
    return leave(r);
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    cudaError_t r = enter(current);
    if (!r && !(*p = new_block(bytes, -1)))
        r = cudaErrorMemoryAllocation;
    if (!r)
        stub.locked += bytes;
    stub.most_locked = stub.locked > stub.most_locked ? stub.locked : stub.most_locked;
    return leave(r);
}

cudaError_t cudaFreeHost(void *p)
{
    cudaError_t r = enter(current);
    if (!r && p)
        remove_block(p, true, true);
    return leave(r);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    cudaError_t r = enter(current);
    (void)flags;
    if (!r)
        add_block(p, bytes, -1, false);
    return leave(r);
}

cudaError_t cudaHostUnregister(void *p)
{
    cudaError_t r = enter(current);
    if (!r)
        remove_block(p, true, false);
    return leave(r);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t r = enter(current);
    check(kind == cudaMemcpyHostToDevice, "a copy that the stub does not know");
    if (!r) {
        check_memory(to, bytes, current, "copy to");
        memcpy(to, from, bytes);
    }
    return leave(r);
}

/* Memory that is not page-locked is read before the call returns. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s)
{
    cudaError_t r = enter(s->device);
    check(s->device == current, "a copy while another device is set");
    if (r)
        return leave(r);
    struct op *o = queue(s, COPY);
    o->copy.to = to;
    o->copy.from = from;
    o->copy.bytes = bytes;
    if (kind == cudaMemcpyHostToDevice && !is_locked(from)) {
        o->copy.kept = malloc(bytes + 1);
        check(o->copy.kept != NULL, "no memory for the stub itself");
        memcpy(o->copy.kept, from, bytes);
    } else if (kind == cudaMemcpyDeviceToHost)
        check_memory(to, bytes, -1, "copy to the host");
    return leave(queued(s));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s)
{
    cudaError_t r = enter(s->device);
    if (r)
        return leave(r);
    struct op *o = queue(s, SET);
    o->set.to = to;
    o->set.value = value;
    o->set.bytes = bytes;
    return leave(queued(s));
}

/* --- the runtime: streams and events --- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    cudaError_t r = enter(current);
    check(flags == cudaStreamNonBlocking, "a stream that waits for others");
    if (r)
        return leave(r);
    struct CUstream_st *s = *out = calloc(1, sizeof *s);
    check(s != NULL, "no memory for the stub itself");
    s->device = current;
    s->eagerness = stub.late ? 0 : (const unsigned[]){0, 1, PROBABLY - 1, PROBABLY}[random_number() % 4];
    s->tail = &s->head;
    s->next = stub.streams;
    stub.streams = s;
    return leave(r);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaError_t r = enter(s->device);
    if (!r) {
        finish_stream(s);
        s->destroyed = true;
    }
    return leave(r);
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    cudaError_t r = enter(s->device);
    if (!r)
        finish_stream(s);
    return leave(r);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    cudaError_t r = enter(s->device);
    (void)flags;
    if (r)
        return leave(r);
    struct op *o = queue(s, WAIT);
    o->event.event = e;
    o->event.version = e->recorded;
    return leave(queued(s));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    cudaError_t r = enter(current);
    if (r)
        return leave(r);
    struct CUevent_st *e = *out = calloc(1, sizeof *e);
    check(e != NULL, "no memory for the stub itself");
    e->device = current;
    e->timed = !(flags & cudaEventDisableTiming);
    e->next = stub.events;
    stub.events = e;
    return leave(r);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    cudaError_t r = enter(e->device);
    e->destroyed |= !r;
    return leave(r);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    cudaError_t r = enter(s->device);
    check(e->device == s->device && !e->destroyed, "an event of another device, or none");
    if (r)
        return leave(r);
    struct op *o = queue(s, RECORD);
    o->event.event = e;
    o->event.version = ++e->recorded;
    e->stream = s;
    return leave(queued(s));
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    cudaError_t r = enter(e->device);
    if (!r)
        finish_event(e, e->recorded);
    return leave(r);
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    cudaError_t r = enter(e->device);
    if (!r && e->done < e->recorded)
        r = cudaErrorNotReady;
    return leave(r);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    cudaError_t r = enter(a->device);
    if (!r && !(a->timed && b->timed && a->recorded && b->recorded))
        r = cudaErrorInvalidResourceHandle;
    if (!r && (a->done < a->recorded || b->done < b->recorded))
        r = cudaErrorNotReady;
    *ms = r ? 0 : (float)(b->at - a->at);
    return leave(r);
}

/* --- the runtime: kernels --- */

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid, void *bid,
                            void *block, void *grid, int *warp);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, cudaStream_t *stream);
cudaError_t __cudaGetKernel(struct kernel **kernel, const void *host);
cudaError_t __cudaLaunchKernel(struct kernel *k, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s);

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

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid, void *bid,
                            void *block, void *grid, int *warp)
{
    static const struct { const char *word; enum what what; } words[] = {
        {"smooth_kernel", SMOOTH}, {"smooth_plain_kernel", SMOOTH}, {"fused_kernel", FUSED}, {"gather_kernel", GATHER},
        {"count_kernel", COUNT}};
    (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (strstr(name, words[k].word)) {
            check(stub.n_kernels < MOST_KERNELS, "too many kernels");
            stub.kernels[stub.n_kernels++] = (struct kernel){.host = host, .what = words[k].what};
            return;
        }
    die("a kernel that the stub does not know: %s", name);
}

static struct kernel *kernel_of(const void *host)
{
    for (int k = 0; k < stub.n_kernels; k++)
        if (stub.kernels[k].host == host)
            return &stub.kernels[k];
    die("a kernel that was not registered");
}

cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute what, int value)
{
    cudaError_t r = enter(current);
    check(what == cudaFuncAttributeMaxDynamicSharedMemorySize && value <= SHARED_BYTES, "an attribute of a kernel");
    if (!r)
        kernel_of(host)->shared[current] = value;
    return leave(r);
}

static _Thread_local struct { dim3 grid, block; size_t shared; cudaStream_t stream; } configuration;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    configuration.grid = grid;
    configuration.block = block;
    configuration.shared = shared;
    configuration.stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, cudaStream_t *stream)
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

static cudaError_t launch(const struct kernel *k, dim3 grid, void **args, size_t shared, cudaStream_t s)
{
    static const size_t bytes[WHATS] = {[SMOOTH] = sizeof(struct smooth_args), [FUSED] = sizeof(struct fused_args),
                                        [GATHER] = sizeof(struct windows_args), [COUNT] = sizeof(struct windows_args)};
    cudaError_t r = enter(s->device);
    check(s->device == current, "a kernel while another device is set");
    if (!r && (shared > PLAIN_SHARED_BYTES && (int)shared > k->shared[current]))
        r = cudaErrorInvalidValue;
    if (!r && (grid.x == 0 || grid.y == 0 || grid.y > 65535))
        r = cudaErrorInvalidConfiguration;
    if (r)
        return leave(r);
    struct op *o = queue(s, k->what);
    memcpy((char *)o + offsetof(struct op, smooth), args[0], bytes[k->what]); /* where all of the union begins */
    o->blocks = grid.x;
    return leave(queued(s));
}

cudaError_t __cudaLaunchKernel(struct kernel *k, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s)
{
    (void)block;
    return launch(k, grid, args, shared, s);
}

/* As CUDA 12 has it. */
cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s)
{
    (void)block;
    return launch(kernel_of(host), grid, args, shared, s);
}

/* --- cuFFT --- */

static struct plan *plan_of(cufftHandle h)
{
    check(h >= 0 && h < MOST_PLANS && stub.plans[h].used, "cuFFT: no such plan");
    return &stub.plans[h];
}

cufftResult cufftCreate(cufftHandle *h)
{
    cudaError_t r = enter(current);
    for (*h = 0; *h < MOST_PLANS && stub.plans[*h].used; ++*h)
        ;
    check(*h < MOST_PLANS, "cuFFT: too many plans");
    if (!r)
        stub.plans[*h] = (struct plan){.device = current, .used = true};
    return leave_fft(r);
}

cufftResult cufftDestroy(cufftHandle h)
{
    cudaError_t r = enter(current);
    plan_of(h)->used = r != cudaSuccess;
    return leave_fft(r);
}

cufftResult cufftSetAutoAllocation(cufftHandle h, int automatic)
{
    cudaError_t r = enter(current);
    plan_of(h)->manual = !automatic;
    return leave_fft(r);
}

cufftResult cufftMakePlanMany(cufftHandle h, int rank, int *n, int *inembed, int istride, int idist, int *onembed, int ostride,
                              int odist, cufftType type, int batch, size_t *work_bytes)
{
    cudaError_t r = enter(current);
    struct plan *p = plan_of(h);
    check(rank == 2 && n[0] == n[1] && !inembed && !onembed && istride == 1 && ostride == 1 && type == CUFFT_R2C && batch > 0 &&
              idist == n[0] * n[0] && odist == n[0] * (n[0] / 2 + 1) && p->manual, "cuFFT: the plan");
    p->window = n[0];
    p->batch = batch;
    p->made = true;
    *work_bytes = p->work_bytes = 64 * (size_t)batch;
    return leave_fft(r);
}

cufftResult cufftSetWorkArea(cufftHandle h, void *d_work)
{
    cudaError_t r = enter(current);
    plan_of(h)->d_work = d_work;
    return leave_fft(r);
}

cufftResult cufftSetStream(cufftHandle h, cudaStream_t s)
{
    cudaError_t r = enter(current);
    plan_of(h)->stream = s;
    return leave_fft(r);
}

cufftResult cufftExecR2C(cufftHandle h, cufftReal *in, cufftComplex *out)
{
    cudaError_t r = enter(current);
    const struct plan *p = plan_of(h);
    check(p->made && p->stream && p->d_work && p->device == current, "cuFFT: the plan is not ready");
    if (r)
        return leave_fft(r);
    struct op *o = queue(p->stream, TRANSFORM);
    o->transform.plan = *p;
    o->transform.in = in;
    o->transform.out = out;
    return leave_fft(queued(p->stream));
}

/* --- the end --- */

static long not_released(void)
{
    long n = 0;
    for (const struct block *b = stub.blocks; b; b = b->next)
        n++;
    for (const struct CUstream_st *s = stub.streams; s; s = s->next)
        n += !s->destroyed;
    for (const struct CUevent_st *e = stub.events; e; e = e->next)
        n += !e->destroyed;
    for (int k = 0; k < MOST_PLANS; k++)
        n += stub.plans[k].used;
    return n;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("WSI_STUB_CALLS");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        return;
    fprintf(f, "{\"calls\": %ld, \"locked_bytes\": %zu, \"not_released\": %ld, \"smooth\": %ld, \"fused\": %ld, \"gather\": %ld, \"count\": %ld}\n", stub.calls, stub.most_locked,
            not_released(), stub.run[SMOOTH], stub.run[FUSED], stub.run[GATHER], stub.run[COUNT]);
    fclose(f);
}
