/*
 * fused_counts.cuh - the end of the fused kernel (fused.cu): from a complex value to a bin, the
 * sums of a window, and how the windows are cut in pieces.
 */
#ifndef WSI_FUSED_COUNTS_CUH
#define WSI_FUSED_COUNTS_CUH

#include "cuda/dft.h"
#include "cuda/fused.h"
#include "cuda/fused_rows.cuh"

namespace
{

/* bits of 1.5 * 2^23: adding it rounds a float to an integer in the low bits */
enum { MAGIC = 0x4b400000 };

/* What a thread has counted, modulo 2^32. Without CLAMP `sum` and `squares` are of MAGIC + bin, and
 * `samples` is not used. */
struct tally {
    unsigned samples, sum, squares; /* in bins; their bin numbers */
};

/* The weights of the values of a window that a thread counts: 2 for 16 values of 2 columns, or 1
 * for those of columns 0 and 128. */
enum { WEIGHTS = 64 };

/* Shared memory is addressed by 32 bits. */
__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

/* Bin k of a histogram is at k + 1, and that of MAGIC + k at the same place, as 4 MAGIC wraps
 * around. */
__device__ __forceinline__ unsigned histogram_address(const unsigned *histogram)
{
    return shared_address(histogram) + 4 - ((unsigned)MAGIC << 2);
}

__device__ __forceinline__ void add(unsigned address, unsigned n)
{
    asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(address), "r"(n));
}

/* The nearest bin of a value whose magnitude is half that of z, plus MAGIC. Without CLAMP it relies
 * on lg2.approx(x) >= 0 for x >= 1, which tests/gpu_log2.cu checks. */
template <bool CLAMP> __device__ __forceinline__ int bin_of(const struct counts_bins &b, c32 z)
{
    float magnitude, octave;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(magnitude) : "f"(fmaf(z.x, z.x, z.y * z.y)));
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(octave) : "f"(fmaf(magnitude, 0.5f, b.offset)));
    const int bin = __float_as_int(
        __fmaf_rd(CLAMP ? octave + b.start : octave, b.slope, __int_as_float(MAGIC)));
    return CLAMP ? min(max(bin, MAGIC - 1), MAGIC + b.bins) : bin;
}

/* Adds what bin_of() returned to the tally, and returns the nearest bin. */
template <bool CLAMP>
__device__ __forceinline__ int tally_add(const struct counts_bins &b, int bin, struct tally *t)
{
    int nearest;
    if (CLAMP) {
        bin -= MAGIC;
        const bool inside = (unsigned)bin < (unsigned)b.bins;
        nearest = min(max(bin, 0), b.bins - 1);
        bin = inside ? bin : 0;
        t->samples += inside;
    } else
        nearest = bin & 0xffff;
    t->sum += (unsigned)bin;
    t->squares += (unsigned)bin * (unsigned)bin;
    return nearest;
}

/* Counts a value and returns the nearest bin. */
template <unsigned WEIGHT, bool CLAMP>
__device__ __forceinline__ int count(unsigned histogram, const struct counts_bins &b, c32 z,
                                     struct tally *t)
{
    const int bin = bin_of<CLAMP>(b, z);
    add(histogram + ((unsigned)bin << 2), WEIGHT);
    return tally_add<CLAMP>(b, bin, t);
}

/* Sum over the warp. */
__device__ __forceinline__ unsigned long long warp_sum(unsigned v)
{
    return ((unsigned long long)__reduce_add_sync(~0u, v >> 8) << 8) +
           __reduce_add_sync(~0u, v & 0xff);
}

/* Adds values of a weight. */
__device__ __forceinline__ void tally_weigh(struct tally *t, unsigned weight,
                                            const struct tally &of)
{
    t->samples += weight * of.samples;
    t->sum += weight * of.sum;
    t->squares += weight * of.squares;
}

template <bool CLAMP>
__device__ __forceinline__ void tally_put(const struct tally &t, struct window_sums *to)
{
    const int lane = (int)threadIdx.x & 31;
    if (CLAMP)
        atomicAdd(&to->samples[lane], t.samples);
    atomicAdd(&to->sum[lane], t.sum);
    atomicAdd(&to->squares[lane], t.squares);
}

/* What a lane has, which becomes 0. */
__device__ __forceinline__ unsigned take(unsigned *sums)
{
    const int lane = (int)threadIdx.x & 31;
    const unsigned v = sums[lane];
    sums[lane] = 0;
    return v;
}

/* The tallies of a block to a window's sums. MAGIC^2 is a multiple of 2^32. */
template <bool CLAMP>
__device__ __forceinline__ void add_tally(struct window_sums *s, unsigned long long *sums)
{
    unsigned sum = take(s->sum), squares = take(s->squares);
    if (!CLAMP) {
        sum -= THREADS / 32 * WEIGHTS * (unsigned)MAGIC;
        squares -= 2 * (unsigned)MAGIC * sum;
    }
    const unsigned long long samples =
        CLAMP ? __reduce_add_sync(~0u, take(s->samples)) : THREADS * WEIGHTS;
    const unsigned long long all = __reduce_add_sync(~0u, sum), all_squares = warp_sum(squares);
    if ((threadIdx.x & 31) == 0) {
        atomicAdd(&sums[0], samples << COUNTS_SHIFT | all);
        atomicAdd(&sums[1], all_squares + ((unsigned long long)s->gray << COUNTS_GRAY_SHIFT));
    }
}

/* The spectrum that a window is added to, or NULL. */
__device__ __forceinline__ unsigned *spectrum_of(const struct counts_features &f, unsigned sample)
{
    return sample ? f.d_spectra + (sample - 1) * f.spectrum : NULL;
}

/* How the windows are cut. A column has windows below each other at FUSED_STRIDE, so at half of it
 * there are two of them at each wx. The first `whole` columns are a piece each for every kind of
 * blocks, the others are cut in `parts`, so that all multiprocessors end at about the same time. */
struct fused_cut {
    int whole, parts;
};

/* n windows from (wy, wx) down, at FUSED_STRIDE. */
struct fused_piece {
    int wx, wy, n;
};

__host__ __device__ __forceinline__ int fused_columns(const struct counts_windows &w, int steps)
{
    return (int)w.nx * steps;
}

/* Windows of the longest column. */
__host__ __device__ __forceinline__ int fused_most(const struct counts_windows &w, int steps)
{
    return ((int)(w.end_wy - w.first_wy) + steps - 1) / steps;
}

__device__ __forceinline__ struct fused_piece
fused_piece_of(const struct counts_windows &w, int steps, struct fused_cut cut, int number)
{
    const int rest = fused_columns(w, steps) - cut.whole, most = fused_most(w, steps);
    int column = number, first = 0, end = most;
    if (number >= cut.whole) {
        const int r = number - cut.whole, part = r / rest;
        column = cut.whole + r - part * rest;
        first = most * part / cut.parts;
        end = most * (part + 1) / cut.parts;
    }
    const int down = column / (int)w.nx, wy = (int)w.first_wy + down,
              all = ((int)w.end_wy - wy + steps - 1) / steps;
    return {column - down * (int)w.nx, wy + first * steps, min(end, all) - first};
}

/* columns: of n windows each; at_once: columns that are computed at a time. A piece takes as long
 * as its windows and one third of a window: the half that it begins with. It has at most 32
 * windows, so that a block's sums over octaves fit 32 bits. */
inline struct fused_cut fused_cut_of(int columns, int n, int at_once)
{
    at_once = at_once > 1 ? at_once : 1;
    const int most = 32, least_parts = (n + most - 1) / most;
    struct fused_cut best = {n <= most ? columns - columns % at_once : 0, least_parts};
    const int rest = columns - best.whole;
    double least = 1e30;
    for (int parts = least_parts; rest > 0 && parts <= n; parts++) {
        const int rounds = (rest * parts + at_once - 1) / at_once;
        const double time = rounds * ((n + parts - 1) / parts + 1.0 / 3);
        if (time < least) {
            least = time;
            best.parts = parts;
        }
    }
    return best;
}

inline unsigned fused_pieces(int columns, struct fused_cut cut)
{
    return (unsigned)(cut.whole + (columns - cut.whole) * cut.parts);
}

} // namespace

#endif
