/*
 * smooth.cu - see smooth.h.
 *
 * A warp owns a strip of 128 columns and marches down; each lane owns four neighbouring columns and
 * one column of the halo:
 *
 *   column  -4 .. -1     | 0 .. 3   4 .. 7  ...  124 .. 127 | 128 .. 131
 *   lane    0 .. 3 (mod 8) 0        1            31           4 .. 7 (mod 8)
 *
 * The gray values that the vertical sums need stay in registers, so each pixel is loaded and
 * converted to gray once per strip. The horizontal sums get their neighbours from the next lanes,
 * at both ends from those of the halo. Nothing goes through shared memory, and no warp waits for
 * another.
 *
 * Radii above 4 (sigma above 4/3 px) and chunks whose width is no multiple of 4 take the plain
 * kernel, which computes every pixel's sums anew, in the same order.
 */
#include "cuda/smooth.h"

namespace
{

enum {
    QUAD = 4,
    LANES = 32,
    WARPS = 4,
    RESIDENT = 6, /* blocks per multiprocessor: 80 registers per thread */
    ROWS = 4,     /* that are loaded at a time */
    STRIP = QUAD * LANES,
    STRIP_ROWS = 64,
    FOLD = STRIP / 2,
    MOST_RADIUS = QUAD,
    THREADS = 256
};

__device__ __forceinline__ int clamped(int v, int64_t end)
{
    return v < 0 ? 0 : v >= (int)end ? (int)end - 1 : v;
}

/* A row of the slide, going down. Beyond the slide it stays on the edge row. */
struct walker {
    const uint8_t *p; /* its first pixel */
    int y, in_chunk;  /* row of the slide, and within the chunk */
};

/* Bytes from the first pixel of a row to that of column x. */
__device__ __forceinline__ int64_t column_offset(const struct smooth_args &a, int x)
{
    return layout_column(&a.layout, clamped(x, a.width));
}

__device__ __forceinline__ struct walker walk_from(const struct smooth_args &a, int y)
{
    const int64_t row = clamped(y, a.height);
    const struct smooth_slab &s = row < a.slab.row ? a.above : a.slab;
    const int64_t r = row - s.row;
    return {s.d_chunks + layout_row(&a.layout, r), y, (int)(r % a.layout.chunk_rows)};
}

__device__ __forceinline__ int rows_end(const struct smooth_args &a)
{
    return min((int)a.end + a.radius, (int)a.height);
}

__device__ __forceinline__ void step_down(struct walker *w, const struct smooth_args &a)
{
    const int pitch = a.layout.chunk_cols * a.layout.channels;
    if (++w->y <= 0 || w->y >= rows_end(a))
        return;
    if (w->y == (int)a.slab.row) {
        w->p = a.slab.d_chunks;
        w->in_chunk = 0;
    } else if (++w->in_chunk == a.layout.chunk_rows) {
        w->p += layout_chunk(&a.layout, 1, 0) - (int64_t)(a.layout.chunk_rows - 1) * pitch;
        w->in_chunk = 0;
    } else
        w->p += pitch;
}

/* In the units that `down` expects: thousandths of gray for RGB, bytes for gray. */
template <int CHANNELS> __device__ __forceinline__ float gray_at(const uint8_t *p)
{
    return CHANNELS == 1 ? (float)p[0] : (float)(299 * p[0] + 587 * p[1] + 114 * p[2]);
}

/* The same for the lowest three bytes; R is the lowest. */
__device__ __forceinline__ float gray_of(unsigned rgb)
{
    return (float)__dp2a_lo(587u << 16 | 299u, rgb, __dp2a_hi(114u, rgb, 0u));
}

/* The columns of a lane: where they begin; whether those of all lanes are within the slide; and
 * where its column of the halo is. */
struct columns {
    int64_t offset, halo;
    int x;
    bool all_inside;
};

__device__ __forceinline__ struct columns columns_of(const struct smooth_args &a, int left)
{
    const int lane = (int)threadIdx.x % LANES;
    const int x = left + lane * QUAD;
    return {column_offset(a, x),
            column_offset(a, left + (lane & 4 ? STRIP - QUAD : -QUAD) + (lane & 7)), x,
            __all_sync(~0u, x + QUAD <= (int)a.width) != 0};
}

/* Gray of four neighbours from their bytes. */
template <int CHANNELS> __device__ __forceinline__ void gray_of_quad(const unsigned *w, float *gray)
{
    if (CHANNELS == 1) {
#pragma unroll
        for (int k = 0; k < QUAD; k++)
            gray[k] = (float)(w[0] >> 8 * k & 255);
    } else {
        gray[0] = gray_of(w[0]);
        gray[1] = gray_of(__byte_perm(w[0], w[1], 0x7543));
        gray[2] = gray_of(__byte_perm(w[1], w[2], 0x7432));
        gray[3] = gray_of(w[2] >> 8);
    }
}

/* Gray of a lane's columns and, last, of its column of the halo. */
struct grays {
    float v[QUAD + 1];
};

/* The next N rows. They are loaded together if they are in one chunk and the strip is within the
 * slide. */
template <int N, int CHANNELS>
__device__ __forceinline__ void walk(struct walker *w, const struct smooth_args &a,
                                     const struct columns &c, struct grays *gray)
{
    if (c.all_inside && w->y >= 0 && w->y + N <= rows_end(a) &&
        w->in_chunk + N <= a.layout.chunk_rows) {
        const int pitch = a.layout.chunk_cols * CHANNELS;
        unsigned words[N][CHANNELS];
#pragma unroll
        for (int k = 0; k < N; k++) {
#pragma unroll
            for (int i = 0; i < CHANNELS; i++)
                words[k][i] = ((const unsigned *)(w->p + k * pitch + c.offset))[i];
            gray[k].v[QUAD] = gray_at<CHANNELS>(w->p + k * pitch + c.halo);
        }
#pragma unroll
        for (int k = 0; k < N; k++)
            gray_of_quad<CHANNELS>(words[k], gray[k].v);
        w->p += (N - 1) * pitch;
        w->y += N - 1;
        w->in_chunk += N - 1;
        step_down(w, a);
    } else
#pragma unroll
        for (int k = 0; k < N; k++, step_down(w, a)) {
#pragma unroll
            for (int i = 0; i < QUAD; i++)
                gray[k].v[i] = gray_at<CHANNELS>(w->p + column_offset(a, c.x + i));
            gray[k].v[QUAD] = gray_at<CHANNELS>(w->p + c.halo);
        }
}

/* Vertical sum of a column, whose rows from v[0] on are around row RADIUS. */
template <int RADIUS>
__device__ __forceinline__ float sum_down(const struct smooth_args &a, const struct grays *v,
                                          int column)
{
    float sum = a.down[RADIUS] * v[0].v[column];
#pragma unroll
    for (int r = 1; r <= 2 * RADIUS; r++)
        sum = fmaf(a.down[r < RADIUS ? RADIUS - r : r - RADIUS], v[r].v[column], sum);
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

template <int RADIUS, int CHANNELS, bool FOLDED>
__global__ void __launch_bounds__(WARPS *LANES, RESIDENT)
    smooth_kernel(const __grid_constant__ struct smooth_args a)
{
    const int left = ((int)blockIdx.x * WARPS + (int)threadIdx.x / LANES) * STRIP;
    const int top = (int)a.first + (int)blockIdx.y * STRIP_ROWS;
    const int end = min(top + STRIP_ROWS, (int)a.end);
    const struct columns c = columns_of(a, left);
    const bool writes = FOLDED ? left + STRIP <= a.width : c.x < a.width;
    const float sign = threadIdx.x & LANES / 2 ? -1.0f : 1.0f;
    struct walker w = walk_from(a, top - RADIUS);
    int out_row = top % (int)a.ring_rows;
    struct grays gray[2 * RADIUS + ROWS];
    if (RADIUS)
        walk<RADIUS ? 2 * RADIUS : 1, CHANNELS>(&w, a, c, gray);
    for (int y = top; y < end; y += ROWS) {
        walk<ROWS, CHANNELS>(&w, a, c, gray + 2 * RADIUS);
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            float down[QUAD + 1], out[QUAD];
#pragma unroll
            for (int i = 0; i <= QUAD; i++)
                down[i] = sum_down<RADIUS>(a, gray + k, i);
            sum_across<RADIUS>(a, down, out);
            if (FOLDED)
#pragma unroll
                for (int i = 0; i < QUAD; i++)
                    out[i] = fmaf(sign, out[i], __shfl_xor_sync(~0u, out[i], LANES / 2));
            if (writes && y + k < end)
                __stcg((float4 *)(a.d_smooth + out_row * a.pitch + c.x),
                       float4{out[0], out[1], out[2], out[3]});
            out_row = out_row + 1 < (int)a.ring_rows ? out_row + 1 : 0;
        }
#pragma unroll
        for (int k = 0; k < 2 * RADIUS; k++)
            gray[k] = gray[k + ROWS];
    }
}

__device__ float down_at(const struct smooth_args &a, int x, int y)
{
    const int64_t column = column_offset(a, x);
    struct walker w = walk_from(a, y - a.radius);
    float sum = 0;
    for (int r = -a.radius; r <= a.radius; r++, step_down(&w, a))
        sum += a.down[r < 0 ? -r : r] *
               (a.layout.channels == 1 ? gray_at<1>(w.p + column) : gray_at<3>(w.p + column));
    return sum;
}

/* What is stored in column `left + threadIdx.x` of a row of THREADS smoothed columns. */
__device__ float folded_at(const float *row)
{
    const int x = (int)threadIdx.x;
    return x & FOLD ? row[x - FOLD] - row[x] : row[x] + row[x + FOLD];
}

/* Any radius: vertical sums of the block's columns go to shared memory, then the horizontal sums.
 */
__global__ void __launch_bounds__(THREADS)
    smooth_plain_kernel(const __grid_constant__ struct smooth_args a)
{
    __shared__ float line[THREADS + 2 * SPECTRUM_MAX_RADIUS], smooth[THREADS];
    const int64_t left = (int64_t)blockIdx.x * THREADS, y = a.first + blockIdx.y;
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

unsigned blocks(int64_t n, int64_t each)
{
    return (unsigned)((n + each - 1) / each);
}

template <int RADIUS, bool FOLDED> void launch(const struct smooth_args *a, cudaStream_t stream)
{
    const dim3 grid(blocks(a->width, WARPS * STRIP), blocks(a->end - a->first, STRIP_ROWS));
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

} // namespace

cudaError_t smooth_check(void)
{
    struct cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, (const void *)smooth_plain_kernel);
}

void smooth_rows(const struct smooth_args *a, cudaStream_t stream)
{
    switch (a->layout.chunk_cols % QUAD ? -1 : a->radius) {
    case 0: launch<0>(a, stream); return;
    case 1: launch<1>(a, stream); return;
    case 2: launch<2>(a, stream); return;
    case 3: launch<3>(a, stream); return;
    case MOST_RADIUS: launch<MOST_RADIUS>(a, stream); return;
    default:
        smooth_plain_kernel<<<dim3(blocks(a->width, THREADS), (unsigned)(a->end - a->first)),
                              THREADS, 0, stream>>>(*a);
    }
}
