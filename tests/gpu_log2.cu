/*
 * gpu_log2 - what cuda/fused.cu relies on and PTX does not promise: lg2.approx of x >= 1 is never
 * negative. A negative one would count outside the histogram in shared memory. Tries every float
 * that |F| + 1 can be, on each device.
 *
 *   gpu_log2      prints one line per device; exit status 1 if any value is wrong, 77 without a
 * device
 */
#include "cuda/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

namespace
{

const float MOST = 2.7e8f;         /* above 256 gray levels x 1024^2 px + 1 */
const float MOST_FUSED = 16777216; /* 256 gray levels x 256^2 px + 1 */

/* The contract's histogram: 1600 bins of 0.1 dB. */
struct bins {
    float slope;
    int n;
};

__device__ float log2_of(float x)
{
    float octave;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(octave) : "f"(x));
    return octave;
}

/* wrong[0]: values that are negative or no number; wrong[1]: values outside the bins. */
__global__ void try_all(unsigned first, unsigned end, struct bins b, unsigned long long *wrong)
{
    for (unsigned k = first + blockIdx.x * blockDim.x + threadIdx.x; k < end;
         k += gridDim.x * blockDim.x) {
        const float x = __uint_as_float(k), octave = log2_of(x);
        if (!(octave >= 0))
            atomicAdd(&wrong[0], 1ull);
        if (x <= MOST_FUSED && !(floorf(octave * b.slope) < (float)b.n))
            atomicAdd(&wrong[1], 1ull);
    }
}

unsigned bits_of(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

int try_device(struct check_device *d, struct err *e)
{
    const struct bins b = {(float)(200 * log10(2.0)), 1600};
    unsigned long long wrong[2], *d_wrong;
    cudaDeviceProp p;
    if (CU(d, cudaGetDeviceProperties(&p, d->number), e) || CU(d, cudaSetDevice(d->number), e) ||
        CU(d, cudaMalloc((void **)&d_wrong, sizeof wrong), e) ||
        CU(d, cudaMemset(d_wrong, 0, sizeof wrong), e))
        return -1;
    try_all<<<1024, 256>>>(bits_of(1), bits_of(MOST), b, d_wrong);
    if (CU(d, cudaGetLastError(), e) ||
        CU(d, cudaMemcpy(wrong, d_wrong, sizeof wrong, cudaMemcpyDeviceToHost), e) ||
        CU(d, cudaFree(d_wrong), e))
        return -1;
    printf("cuda:%d %s: %u values, %llu negative, %llu outside the bins\n", d->number, p.name,
           bits_of(MOST) - bits_of(1), wrong[0], wrong[1]);
    return wrong[0] + wrong[1] == 0 ? 0 : err_set(e, "lg2.approx is not what fused.cu relies on");
}

} // namespace

int main()
{
    int n = 0, bad = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        puts("no CUDA device");
        return 77;
    }
    for (int k = 0; k < n; k++) {
        struct check_device d = {};
        d.number = k;
        snprintf(d.name, sizeof d.name, "a CUDA device");
        struct err e = {};
        if (try_device(&d, &e)) {
            fprintf(stderr, "gpu_log2: %s\n", e.msg);
            bad = 1;
        }
    }
    return bad;
}
