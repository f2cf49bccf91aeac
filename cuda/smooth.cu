/*
 * smooth.cu - see smooth.h.
 *
 * A warp owns a strip of 128 columns and marches down; each lane owns four neighbouring columns and
 * one column of the halo:
 *
 *   column  -4 .. -1     | 0 .. 3   4 .. 7  ...  124 .. 127 | 128 .. 131
 *   lane    0 .. 3 (mod 8) 0        1            31           4 .. 7 (mod 8)
 *
 * The bytes of the next rows are copied to shared memory in the background, sixteen at a time, so
 * that the device's memory is never waited for. The gray values that the vertical sums need stay in
 * registers, so each pixel is converted to gray once per strip. The horizontal sums get their
 * neighbours from the next lanes, at both ends from those of the halo. No warp waits for another.
 *
 * Radii above 4 (sigma above 4/3 px), chunks whose width is no multiple of 16, and the columns
 * behind the last whole strip take the plain kernel, which computes every pixel's sums anew, in the
 * same order.
 */
#include "cuda/smooth.h"

#include <algorithm>

namespace
{

enum {
    QUAD = 4,
    LANES = 32,
    WARPS = 4,
    RESIDENT = 6, /* blocks per multiprocessor: 80 registers per thread */
    PIECE = 16,   /* bytes that are copied at a time, and pixels that have whole pieces */
    STRIP = QUAD * LANES,
    STRIP_ROWS = 64,
    FOLD = STRIP / 2,
    MOST_RADIUS = QUAD,
    THREADS = 256,
    STEP_ROWS = 8, /* that a thread reads at a time */
    STEP_THREADS = 512,
    MOST_GRID_Y = 65535
};

__device__ __forceinline__ int clamped(int v, int64_t end)
{
    return v < 0 ? 0 : v >= (int)end ? (int)end - 1 : v;
}

/* Bytes from the first pixel of a row to that of column x. */
__device__ __forceinline__ int64_t column_offset(const struct smooth_args &a, int x)
{
    const unsigned inside = (unsigned)clamped(x, a.width), in_row = (unsigned)a.layout.chunk_cols,
                   column = inside / in_row;
    return column * layout_chunk_bytes(&a.layout) + (inside - column * in_row) * a.layout.channels;
}

/* A row of the slide, going down. Beyond the slide it stays on the edge row. */
struct walker {
    const uint8_t *p; /* its first pixel, or a place behind it */
    int y;            /* row of the slide */
    int plain;        /* so many rows follow it in its chunk */
};

/* offset: from the first pixel of a row to the place. */
__device__ __forceinline__ struct walker walk_from(const struct smooth_args &a, int y,
                                                   int64_t offset)
{
    const int row = clamped(y, a.height);
    const bool above = row < (int)a.slab.row;
    const struct smooth_slab &s = above ? a.above : a.slab;
    const unsigned in_slab = (unsigned)(row - (int)s.row), rows = (unsigned)a.layout.chunk_rows,
                   chunk_row = in_slab / rows, in_chunk = in_slab - chunk_row * rows;
    const int end = above ? (int)a.slab.row : (int)a.height;
    return {s.d_chunks + layout_chunk(&a.layout, chunk_row, 0) +
                (int64_t)in_chunk * (a.layout.chunk_cols * a.layout.channels) + offset,
            y, y < 0 ? 0 : min((int)(rows - in_chunk), end - row) - 1};
}

__device__ __forceinline__ void step_down(struct walker *w, const struct smooth_args &a,
                                          int64_t offset)
{
    if (w->plain > 0) {
        w->p += a.layout.chunk_cols * a.layout.channels;
        w->y++;
        w->plain--;
    } else
        *w = walk_from(a, w->y + 1, offset);
}

/* In the units that `down` expects: thousandths of gray for RGB, bytes for gray. */
template <int CHANNELS> __device__ __forceinline__ int gray_at(const uint8_t *p)
{
    return CHANNELS == 1 ? p[0] : 299 * p[0] + 587 * p[1] + 114 * p[2];
}

/* Weights of bytes, and 2^23 as a float, in whose low bits integers are summed up. */
const unsigned RED = 299, GREEN = 587, BLUE = 114, SUM_BEGINS = 0x4b000000;

/* Thousandths of gray, from the two high bytes of a word and the two low ones of another. The
 * weight of the lower byte of each is the lower half. */
__device__ __forceinline__ float gray_of(unsigned high_weights, unsigned high, unsigned low_weights,
                                         unsigned low)
{
    const unsigned sum = __dp2a_lo(low_weights, low, __dp2a_hi(high_weights, high, SUM_BEGINS));
    return __uint_as_float(sum) - 8388608.0f;
}

/* Of four neighbours from their bytes. */
template <int CHANNELS> __device__ __forceinline__ void gray_of_quad(const unsigned *w, float *gray)
{
    if (CHANNELS == 1) {
#pragma unroll
        for (int k = 0; k < QUAD; k++)
            gray[k] = (float)(w[0] >> 8 * k & 255);
        return;
    }
    const unsigned red = RED << 16, red_green = GREEN << 16 | RED, green_blue = BLUE << 16 | GREEN;
    gray[0] = gray_of(BLUE, w[0], red_green, w[0]);
    gray[1] = gray_of(red, w[0], green_blue, w[1]);
    gray[2] = gray_of(red_green, w[1], BLUE, w[2]);
    gray[3] = gray_of(green_blue, w[2], red, w[2]);
}

/* Gray of a lane's columns and, last, of its column of the halo. */
struct grays {
    float v[QUAD + 1];
};

/* A row of a strip in shared memory: the pieces of its pixels, one before and one behind. */
template <int CHANNELS> struct line {
    static const int PIECES = STRIP * CHANNELS / PIECE + 2;
    uint4 piece[PIECES];
};

/* The part of a row that a lane copies, and the place of its column of the halo. */
struct columns {
    int64_t piece; /* where its piece is; -1: it has none */
    int halo;      /* bytes behind the row's first one; edges are repeated */
};

template <int CHANNELS>
__device__ __forceinline__ struct columns columns_of(const struct smooth_args &a, int left)
{
    const int lane = (int)threadIdx.x % LANES, n = lane - 1 + CHANNELS;
    const int x = left + (n / CHANNELS - 1) * PIECE;
    const int halo = left + (lane & 4 ? STRIP - QUAD : -QUAD) + (lane & 7);
    const bool copies = lane < line<CHANNELS>::PIECES && x >= 0 && x < (int)a.width;
    return {copies ? column_offset(a, x) + n % CHANNELS * PIECE : -1,
            PIECE + CHANNELS * (clamped(halo, a.width) - left)};
}

/* Begins to copy a lane's piece in the background. */
__device__ __forceinline__ void copy_piece(uint4 *to, const uint8_t *from)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from)
                 : "memory");
}

/* Ends a group: the copies since the last call. */
__device__ __forceinline__ void end_group(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most N groups of this thread are on their way. */
template <int N> __device__ __forceinline__ void wait_groups(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

template <int CHANNELS>
__device__ __forceinline__ struct grays grays_of(const struct line<CHANNELS> &row, int halo)
{
    const unsigned *words = (const unsigned *)&row,
                   *w = words + QUAD + CHANNELS * ((int)threadIdx.x % LANES);
    unsigned quad[CHANNELS];
    struct grays g;
#pragma unroll
    for (int k = 0; k < CHANNELS; k++)
        quad[k] = w[k];
    gray_of_quad<CHANNELS>(quad, g.v);
    if (CHANNELS == 1)
        g.v[QUAD] = (float)((const uint8_t *)&row)[halo];
    else {
        const unsigned rgb = __funnelshift_r(words[halo / 4], words[(halo + 2) / 4], halo % 4 * 8);
        g.v[QUAD] = gray_of(BLUE, rgb, GREEN << 16 | RED, rgb);
    }
    return g;
}

/* Vertical sum of a column. gray: its rows in a ring, of which row `last` is the newest. */
template <int RADIUS>
__device__ __forceinline__ float sum_down(const struct smooth_args &a, const struct grays *gray,
                                          int last, int column)
{
    const int taps = 2 * RADIUS + 1;
    float sum = a.down[RADIUS] * gray[(last + 1) % taps].v[column];
#pragma unroll
    for (int r = 1; r < taps; r++)
        sum = fmaf(a.down[r < RADIUS ? RADIUS - r : r - RADIUS],
                   gray[(last + 1 + r) % taps].v[column], sum);
    return sum;
}

/* Horizontal sums of a lane's columns. down: their vertical sums and, last, that of its column of
 * the halo. */
template <int RADIUS>
__device__ __forceinline__ void sum_across(const struct smooth_args &a, const float *down,
                                           float *sum)
{
    const int lane = (int)threadIdx.x % LANES;
    float v[QUAD + 2 * RADIUS];
#pragma unroll
    for (int k = 0; k < RADIUS; k++) {
        const float halo = __shfl_sync(~0u, down[QUAD], k + (lane ? QUAD : QUAD - RADIUS));
        const float before = __shfl_up_sync(~0u, down[QUAD - RADIUS + k], 1),
                    behind = __shfl_down_sync(~0u, down[k], 1);
        v[k] = lane == 0 ? halo : before;
        v[RADIUS + QUAD + k] = lane == LANES - 1 ? halo : behind;
    }
#pragma unroll
    for (int k = 0; k < QUAD; k++)
        v[RADIUS + k] = down[k];
#pragma unroll
    for (int k = 0; k < QUAD; k++) {
        sum[k] = a.across[RADIUS] * v[k];
#pragma unroll
        for (int r = 1; r <= 2 * RADIUS; r++)
            sum[k] = fmaf(a.across[r < RADIUS ? RADIUS - r : r - RADIUS], v[k + r], sum[k]);
    }
}

/* Smoothed values of a lane's columns in the row whose last row of gray is `last`. */
template <int RADIUS, bool FOLDED>
__device__ __forceinline__ float4 smooth_quad(const struct smooth_args &a, const struct grays *gray,
                                              int last)
{
    const float sign = threadIdx.x & LANES / 2 ? -1.0f : 1.0f;
    float down[QUAD + 1], out[QUAD];
#pragma unroll
    for (int i = 0; i <= QUAD; i++)
        down[i] = sum_down<RADIUS>(a, gray, last, i);
    sum_across<RADIUS>(a, down, out);
    if (FOLDED)
#pragma unroll
        for (int i = 0; i < QUAD; i++)
            out[i] = fmaf(sign, out[i], __shfl_xor_sync(~0u, out[i], LANES / 2));
    return {out[0], out[1], out[2], out[3]};
}

/* Rows of bytes that a warp has in shared memory: those of a sum, as the place of each is known
 * then, but at least six. */
template <int RADIUS> __host__ __device__ constexpr int lines_of()
{
    return RADIUS < 2 ? 6 : 2 * RADIUS + 1;
}

/* The rows of a strip on their way to shared memory. Row r has line r mod lines_of(). */
template <int RADIUS, int CHANNELS> struct flow {
    struct line<CHANNELS> *lines;
    struct columns columns;
    struct walker next; /* the row to copy next, */
    int rows;           /* and how many are left to copy */

    /* Waits for the row of a line, begins to copy the one that takes the place of the row before,
     * and returns gray. */
    __device__ __forceinline__ struct grays take(const struct smooth_args &a, int line)
    {
        const int n = lines_of<RADIUS>();
        wait_groups<n - 2>();
        __syncwarp();
        copy(a, (line + n - 1) % n);
        return grays_of<CHANNELS>(lines[line], columns.halo);
    }

    __device__ __forceinline__ void copy(const struct smooth_args &a, int line)
    {
        if (rows > 0) {
            if (columns.piece >= 0)
                copy_piece(&lines[line].piece[threadIdx.x % LANES], next.p);
            step_down(&next, a, columns.piece);
            rows--;
        }
        end_group();
    }
};

template <int RADIUS, int CHANNELS, bool FOLDED>
__global__ void __launch_bounds__(WARPS *LANES, RESIDENT)
    smooth_kernel(const __grid_constant__ struct smooth_args a)
{
    const int LINES = lines_of<RADIUS>(), TAPS = 2 * RADIUS + 1;
    __shared__ struct line<CHANNELS> lines[WARPS][LINES];
    const int warp = (int)threadIdx.x / LANES,
              left = a.begin + ((int)blockIdx.x * WARPS + warp) * STRIP,
              top = (int)a.first + (int)blockIdx.y * STRIP_ROWS;
    if (left + STRIP > (int)a.width)
        return;
    const int rows = min(STRIP_ROWS, (int)a.end - top);
    const struct columns c = columns_of<CHANNELS>(a, left);
    struct flow<RADIUS, CHANNELS> f = {
        lines[warp], c, walk_from(a, top - RADIUS, c.piece), rows + 2 * RADIUS
    };
    struct grays gray[TAPS];
#pragma unroll
    for (int k = 0; k < LINES - 1; k++)
        f.copy(a, k);
#pragma unroll
    for (int k = 0; k < 2 * RADIUS; k++)
        gray[k] = f.take(a, k % LINES);
    int left_in_ring = (int)a.ring_rows - top % (int)a.ring_rows;
    float *out =
        a.d_smooth + top % (int)a.ring_rows * a.pitch + left + (int)threadIdx.x % LANES * QUAD;
    for (int first = 0; first < rows; first += LINES)
#pragma unroll
        for (int k = 0; k < LINES; k++) {
            if (first + k >= rows)
                return;
            gray[(k + 2 * RADIUS) % TAPS] = f.take(a, (k + 2 * RADIUS) % LINES);
            __stcg((float4 *)out, smooth_quad<RADIUS, FOLDED>(a, gray, (k + 2 * RADIUS) % TAPS));
            out += a.pitch;
            if (--left_in_ring == 0)
                out -= a.ring_rows * a.pitch;
        }
}

__device__ float down_at(const struct smooth_args &a, int x, int y)
{
    const int64_t column = column_offset(a, x);
    struct walker w = walk_from(a, y - a.radius, column);
    float sum = 0;
    for (int r = -a.radius; r <= a.radius; r++, step_down(&w, a, column))
        sum += a.down[r < 0 ? -r : r] *
               (float)(a.layout.channels == 1 ? gray_at<1>(w.p) : gray_at<3>(w.p));
    return sum;
}

/* What is stored in column `left + threadIdx.x` of a row of THREADS smoothed columns. */
__device__ float folded_at(const float *row)
{
    const int x = (int)threadIdx.x;
    return x & FOLD ? row[x - FOLD] - row[x] : row[x] + row[x + FOLD];
}

/* Any radius: vertical sums of the block's columns go to shared memory, then the horizontal sums.
 * begin: the first column. */
__global__ void __launch_bounds__(THREADS)
    smooth_plain_kernel(const __grid_constant__ struct smooth_args a, int begin)
{
    __shared__ float line[THREADS + 2 * SPECTRUM_MAX_RADIUS], smooth[THREADS];
    const int64_t left = begin + (int64_t)blockIdx.y * THREADS, y = a.first + blockIdx.x;
    for (int k = (int)threadIdx.x; k < THREADS + 2 * a.radius; k += THREADS)
        line[k] = down_at(a, (int)left + k - a.radius, (int)y);
    __syncthreads();
    float sum = 0;
    for (int r = -a.radius; r <= a.radius; r++)
        sum += a.across[r < 0 ? -r : r] * line[(int)threadIdx.x + a.radius + r];
    if (a.folded) {
        smooth[threadIdx.x] = sum;
        __syncthreads();
        sum = folded_at(smooth);
    }
    const int64_t last =
        a.folded ? left + (threadIdx.x / STRIP + 1) * STRIP - 1 : left + threadIdx.x;
    if (last < a.width)
        a.d_smooth[y % a.ring_rows * a.pitch + left + threadIdx.x] = sum;
}

/* --- steps --- */

/* The number of the greatest of n steps. For a whole warp. */
__device__ unsigned greatest(const unsigned *steps, int n)
{
    unsigned most = 0, at = (unsigned)n;
    for (int k = (int)threadIdx.x % LANES; k < n; k += LANES)
        if (at == (unsigned)n || steps[k] > most) {
            most = steps[k];
            at = (unsigned)k;
        }
    const unsigned all = __reduce_max_sync(~0u, most);
    return all ? __reduce_min_sync(~0u, most == all ? at : (unsigned)n)
               : (unsigned)FEATURES_NO_STEP;
}

/* A warp's part of the steps of a window whose pixels begin at (left, top): STEP_ROWS rows from
 * step `first` on. Its lanes have neighbouring columns, and take turns until all have been. */
template <int CHANNELS>
__device__ __forceinline__ void add_columns(const struct steps_args &s, int left, int top,
                                            int first, unsigned *down, unsigned *across)
{
    const struct smooth_args &a = s.pixels;
    const int lane = (int)threadIdx.x % LANES, end = min(first + STEP_ROWS, s.steps);
    for (int k = lane; k - lane < s.steps; k += LANES) {
        const int x = left + min(k, s.steps - 1);
        const int64_t before = column_offset(a, x), here = column_offset(a, x + 1);
        struct walker w = walk_from(a, top + first, 0);
        int above = gray_at<CHANNELS>(w.p + here);
        unsigned sum = 0;
        for (int r = first; r < end; r++) {
            step_down(&w, a, 0);
            const int gray = gray_at<CHANNELS>(w.p + here);
            const unsigned step = k < s.steps ? (unsigned)abs(gray - above) : 0;
            sum += (unsigned)abs(gray - gray_at<CHANNELS>(w.p + before));
            const unsigned row = __reduce_add_sync(~0u, step);
            if (lane == 0)
                down[r] += row;
            above = gray;
        }
        if (k < s.steps)
            atomicAdd(&across[k], sum);
    }
}

/* The same of STRIP columns, of which each lane has four that lie in whole words. The words of all
 * rows are read before any is used, so that the memory is waited for once. Floats are exact. */
template <int CHANNELS>
__device__ __forceinline__ void add_strip(const struct steps_args &s, int left, int top, int first,
                                          unsigned *down, unsigned *across)
{
    const struct smooth_args &a = s.pixels;
    const int lane = (int)threadIdx.x % LANES;
    const int64_t here = column_offset(a, left + 1 + QUAD * lane);
    unsigned words[STEP_ROWS + 1][CHANNELS];
    struct walker w = walk_from(a, top + first, here);
#pragma unroll
    for (int r = 0; r <= STEP_ROWS; r++, step_down(&w, a, here))
        for (int k = 0; k < CHANNELS; k++)
            words[r][k] = ((const unsigned *)w.p)[k];
    /* lane r: of row r, in the column before the strip */
    const float edge = (float)gray_at<CHANNELS>(
        walk_from(a, top + first + min(lane, (int)STEP_ROWS), column_offset(a, left)).p);
    float above[QUAD], sums[QUAD] = {};
    gray_of_quad<CHANNELS>(words[0], above);
#pragma unroll
    for (int r = 1; r <= STEP_ROWS; r++) {
        float gray[QUAD], row = 0;
        gray_of_quad<CHANNELS>(words[r], gray);
        const float last = __shfl_up_sync(~0u, gray[QUAD - 1], 1), own = __shfl_sync(~0u, edge, r);
#pragma unroll
        for (int i = 0; i < QUAD; i++) {
            sums[i] += fabsf(gray[i] - (i ? gray[i - 1] : lane ? last : own));
            row += fabsf(gray[i] - above[i]);
            above[i] = gray[i];
        }
        const unsigned sum = __reduce_add_sync(~0u, (unsigned)row);
        if (lane == 0)
            down[first + r - 1] = sum;
    }
    for (int i = 0; i < QUAD; i++)
        atomicAdd(&across[QUAD * lane + i], (unsigned)sums[i]);
}

/* A block per window; most windows are not looked at. STRIPS: has_strips(). */
template <int CHANNELS, bool STRIPS>
__global__ void __launch_bounds__(STEP_THREADS)
    steps_kernel(const __grid_constant__ struct steps_args s)
{
    __shared__ unsigned down[FEATURES_MOST_STEPS], across[FEATURES_MOST_STEPS];
    const int64_t wy = s.windows.first_wy + blockIdx.y, wx = blockIdx.x,
                  window = (wy - s.windows.band_wy) * s.windows.nx + wx;
    if (!(s.d_sample[window] & FEATURES_STEPPED) ||
        (s.windows.d_wanted && !s.windows.d_wanted[window]))
        return;
    const int skip = s.window - 1 - s.steps, left = (int)wx * s.stride + skip,
              top = (int)wy * s.stride + skip;
    for (int k = (int)threadIdx.x; k < s.steps; k += STEP_THREADS)
        down[k] = across[k] = 0;
    __syncthreads();
    for (int k = (int)threadIdx.x / LANES * STEP_ROWS; k < s.steps;
         k += STEP_THREADS / LANES * STEP_ROWS)
        if (STRIPS)
            add_strip<CHANNELS>(s, left, top, k, down, across);
        else
            add_columns<CHANNELS>(s, left, top, k, down, across);
    __syncthreads();
    if (threadIdx.x >= LANES)
        return;
    const unsigned row = greatest(down, s.steps), column = greatest(across, s.steps);
    if (threadIdx.x == 0)
        s.d_steps[window] = (uint16_t)(row << COUNTS_STEP_SHIFT | column);
}

unsigned blocks(int64_t n, int64_t each)
{
    return (unsigned)((n + each - 1) / each);
}

template <int RADIUS, bool FOLDED> void launch(const struct smooth_args *a, cudaStream_t stream)
{
    const dim3 grid(blocks((a->width - a->begin) / STRIP, WARPS),
                    blocks(a->end - a->first, STRIP_ROWS));
    if (a->layout.channels == 1)
        smooth_kernel<RADIUS, 1, FOLDED><<<grid, WARPS * LANES, 0, stream>>>(*a);
    else
        smooth_kernel<RADIUS, 3, FOLDED><<<grid, WARPS * LANES, 0, stream>>>(*a);
}

template <int RADIUS> void launch(const struct smooth_args *a, cudaStream_t stream)
{
    if (a->folded)
        launch<RADIUS, true>(a, stream);
    else
        launch<RADIUS, false>(a, stream);
}

/* Whole strips. Returns the first column that is left. */
int64_t launch_strips(const struct smooth_args *a, cudaStream_t stream)
{
    const int64_t strips = (a->width - a->begin) / STRIP;
    if (a->layout.chunk_cols % PIECE || a->radius > MOST_RADIUS || strips <= 0)
        return a->begin;
    switch (a->radius) {
    case 0: launch<0>(a, stream); break;
    case 1: launch<1>(a, stream); break;
    case 2: launch<2>(a, stream); break;
    case 3: launch<3>(a, stream); break;
    default: launch<MOST_RADIUS>(a, stream);
    }
    return a->begin + strips * STRIP;
}

} // namespace

cudaError_t smooth_check(void)
{
    struct cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, (const void *)smooth_plain_kernel);
}

void smooth_rows(const struct smooth_args *a, cudaStream_t stream)
{
    const int64_t begin = launch_strips(a, stream), most = (int64_t)MOST_GRID_Y * THREADS;
    const int64_t end = a->folded && begin > a->begin ? begin : a->width;
    for (int64_t at = begin; at < end; at += most) {
        const dim3 grid((unsigned)(a->end - a->first), blocks(std::min(end - at, most), THREADS));
        smooth_plain_kernel<<<grid, THREADS, 0, stream>>>(*a, (int)at);
    }
}

/* Are all windows' columns a strip of whole words? */
static bool has_strips(const struct steps_args *a)
{
    return a->steps == STRIP && a->stride % QUAD == 0 && a->window % QUAD == 0 &&
           a->pixels.layout.chunk_cols % QUAD == 0;
}

template <bool STRIPS> static void launch_steps(const struct steps_args *a, cudaStream_t stream)
{
    const dim3 grid((unsigned)a->windows.nx, (unsigned)(a->windows.end_wy - a->windows.first_wy));
    if (a->pixels.layout.channels == 1)
        steps_kernel<1, STRIPS><<<grid, STEP_THREADS, 0, stream>>>(*a);
    else
        steps_kernel<3, STRIPS><<<grid, STEP_THREADS, 0, stream>>>(*a);
}

void smooth_steps(const struct steps_args *a, cudaStream_t stream)
{
    if (has_strips(a))
        launch_steps<true>(a, stream);
    else
        launch_steps<false>(a, stream);
}
