/*
 * stub.h - the CUDA runtime and cuFFT for machines without a GPU, linked with the objects that nvcc
 * makes. This header is shared by the files of the stub.
 *
 * Device memory is host memory whose size and device are remembered. Access to memory that does not
 * exist, is not page-locked or belongs to another device ends the program. The kernels are
 * replaced; they are known by their names. Smoothing puts the exact gray of three rows; a checksum
 * takes the place of transforming and counting a window. So a result shows whether every pixel was
 * in the right place at the right time.
 *
 *   WSI_STUB_DEVICES=N      number of devices (1)
 *   WSI_STUB_FAIL=K:CODE    the K-th call fails; with any code but 2 (out of memory) all later
 *                           calls for that device fail, too
 *   WSI_STUB_MEMORY=BYTES,  memory of device 0, 1, ...; those after the last one have as much as it
 *   WSI_STUB_ODD=WHAT,...   of device 0, 1, ...: "busy" (cannot be used), "old" (no kernel image),
 *                           "small" (little shared memory), "full" (little free memory)
 *   WSI_STUB_ORDER=SEED     work is queued and runs as late, or in between, as the seed decides and
 *                           CUDA allows (0: as late as possible); without it, at once
 *   WSI_STUB_QUICK=1        kernels look at no pixel, so that a run takes the time of the host
 *   WSI_STUB_REFUSE=N       JPEG tiles at every N-th place of a slab are left to the host
 *   WSI_STUB_GDS=WHAT       cuFile: "none" cannot be opened, "refuse" takes no file, "compat" reads
 *                           through the host, "broken" and "misused" fail at each file
 *   WSI_STUB_CUFFT=none     cuFFT is not found
 *   WSI_STUB_CALLS=FILE     at the end, as JSON: calls, the most page-locked bytes, objects that
 *                           were not released, kernels that ran, and for each call a number that
 *                           says where in the program it comes from
 */
#ifndef TESTS_STUB_H
#define TESTS_STUB_H

#include "cuda/crc.h"
#include "cuda/fused.h"
#include "cuda/jpeg/jpeg.h"
#include "cuda/smooth.h"
#include "cuda/windows.h"

#include <cufft.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MOST_DEVICES = 8,
    MOST_KERNELS = 64,
    MOST_PLANS = 64,
    MOST_RECORDS = 64, /* of an event that have not passed */
    MOST_SITES = 1 << 20,
    MOST_FRAMES = 64,
    SHARED_BYTES = 232448,
    SMALL_SHARED_BYTES = 96 << 10, /* too few for the fused kernel; some GPUs have 99 KiB */
    PLAIN_SHARED_BYTES = 49152
};
enum { POISON = 0x5a, POISON_BYTES = 1 << 22, PROBABLY = 8 };

enum what {
    COPY,
    SET,
    RECORD,
    WAIT,
    SMOOTH,
    STEPS,
    FUSED,
    GATHER,
    COUNT,
    STRIP,
    OWN_TABLES,
    HUFFMAN,
    SAMPLES,
    PIXELS,
    CRC,
    TRANSFORM,
    WHATS
};

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
        struct {
            void *to;
            const void *from;
            size_t bytes, rows, pitch; /* of a row; from one to the next */
            void *kept;
        } copy;
        struct {
            void *to;
            int value;
            size_t bytes;
        } set;
        struct {
            struct CUevent_st *event;
            long version;
        } event;
        struct smooth_args smooth;
        struct steps_args steps;
        struct fused_args fused;
        struct windows_args windows;
        struct jpeg_batch jpeg;
        struct crc_batch crc;
        struct {
            struct plan plan;
            const float *in;
            cufftComplex *out;
        } transform;
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
    struct CUstream_st *streams[MOST_RECORDS]; /* of the latest versions */
    struct CUevent_st *next;
};

struct kernel {
    const void *host;
    enum what what;
    int shared[MOST_DEVICES]; /* bytes that it was allowed to have */
};

struct stub_state {
    bool begun, queued, late, quick;
    int devices, fail_code;
    long calls, fail_at, run[WHATS];
    unsigned *sites;                                 /* of every call, if WSI_STUB_CALLS is set */
    size_t memory[MOST_DEVICES], used[MOST_DEVICES]; /* memory 0: unlimited */
    size_t locked, most_locked;         /* page-locked memory that the runtime has allocated */
    size_t registered, most_registered; /* page-locked memory of the program's own */
    cudaError_t lost[MOST_DEVICES];
    unsigned seed;
    struct block *blocks;
    struct CUstream_st *streams;
    struct CUevent_st *events;
    struct plan plans[MOST_PLANS];
    struct kernel kernels[MOST_KERNELS];
    int n_kernels;
};
extern struct stub_state stub;
extern _Thread_local int stub_device; /* that is set in this thread */
extern _Thread_local cudaError_t stub_last;

/* --- stub.c --- */

/* Ends the program: the backend has misused CUDA. */
__attribute__((noreturn, format(printf, 1, 2))) void stub_die(const char *fmt, ...);
void stub_check(bool good, const char *what);
/* Every call begins with stub_enter() and ends with one of the others. */
cudaError_t stub_enter(int device);
cudaError_t stub_leave(cudaError_t r);
cufftResult stub_leave_fft(cudaError_t r);
unsigned stub_random(void);

/* --- stub_cuda.c --- */

/* The memory must lie within one block of the device, or (-1) of page-locked memory. */
void stub_check_memory(const void *p, size_t bytes, int device, const char *what);
bool stub_is_locked(const void *p);
/* Of shared memory that a block of the device can have. */
size_t stub_shared_bytes(int device);

/* --- stub_streams.c --- */

/* Appends an operation to a stream. */
struct op *stub_queue(struct CUstream_st *s, enum what what);
/* The operation is complete: runs it unless work is queued. */
cudaError_t stub_queued(struct CUstream_st *s);
void stub_finish_stream(struct CUstream_st *s);
void stub_time_passes(void);

/* --- stub_kernels.c, stub_jpeg.c, stub_cufft.c --- */

void stub_run_kernel(const struct op *o, int device);
void stub_run_jpeg(const struct op *o, int device);
void stub_run_transform(const struct plan *p, const float *in, cufftComplex *out, int device);

#endif
