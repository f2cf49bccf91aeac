/*
 * smooth.cu - see smooth.h.
 *
 * A warp owns a strip of 128 columns and marches down; each lane owns four neighbouring columns.
 * The gray values that the vertical sums need stay in registers, so each pixel is loaded and
 * converted to gray once per strip. The horizontal sums get their neighbours from the next lanes,
 * so the lanes at both ends write nothing. Nothing goes through shared memory, and no warp waits
 * for another.
 *
 * Radii above 4 (sigma above 4/3 px) and chunks whose width is no multiple of 4 take the plain
 * kernel, which computes every pixel's sums anew.
 */
#include "cuda/smooth.h"

namespace
{

enum {
    QUAD = 4,
    LANES = 32,
    WARPS = 4,
    ROWS = 4,
    STRIP_ROWS = 64,
    MOST_RADIUS = QUAD,
    THREADS = 256
};

__device__ __forceinline__ int64_t clamped(int64_t v, int64_t end)
{
    return v < 0 ? 0 : v >= end ? end - 1 : v;
}

/* A row of the slide, going down. Beyond the slide it stays on the edge row. */
struct walker {
    const uint8_t *p; /* its first pixel */
    int64_t y;
    int in_chunk; /* row within the chunk */
};

/* Bytes from the first pixel of a row to that of column x. */
__device__ __forceinline__ int64_t column_offset(const struct smooth_args &a, int64_t x)
{
    return layout_column(&a.layout, clamped(x, a.width));
}

__device__ __forceinline__ struct walker walk_from(const struct smooth_args &a, int64_t y)
{
    const int64_t row = clamped(y, a.height);
    const struct smooth_slab &s = row < a.slab.row ? a.above : a.slab;
    const int64_t r = row - s.row;
    return {s.d_chunks + layout_row(&a.layout, r), y, (int)(r % a.layout.chunk_rows)};
}

__device__ __forceinline__ int64_t rows_end(const struct smooth_args &a)
{
    return a.end + a.radius < a.height ? a.end + a.radius : a.height;
}

__device__ __forceinline__ void step_down(struct walker *w, const struct smooth_args &a)
{
    const int pitch = a.layout.chunk_cols * a.layout.channels;
    if (++w->y <= 0 || w->y >= rows_end(a))
        return;
    if (w->y == a.slab.row) {
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

/* The columns of a lane: where they begin; whether those of all lanes are within the slide. */
struct columns {
    int64_t x, offset;
    bool all_inside;
};

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

/* The next N rows. They are loaded together if they are in one chunk and the strip is within the
 * slide. */
template <int N, int CHANNELS>
__device__ __forceinline__ void walk(struct walker *w, const struct smooth_args &a,
                                     const struct columns &c, float (*gray)[QUAD])
{
    if (N == 0)
        return;
    if (c.all_inside && w->y >= 0 && w->y + N <= rows_end(a) &&
        w->in_chunk + N <= a.layout.chunk_rows) {
        const int pitch = a.layout.chunk_cols * CHANNELS;
        unsigned words[N ? N : 1][CHANNELS];
#pragma unroll
        for (int k = 0; k < N; k++)
#pragma unroll
            for (int i = 0; i < CHANNELS; i++)
                words[k][i] = ((const unsigned *)(w->p + k * pitch + c.offset))[i];
#pragma unroll
        for (int k = 0; k < N; k++)
            gray_of_quad<CHANNELS>(words[k], gray[k]);
        w->p += (N - 1) * pitch;
        w->y += N - 1;
        w->in_chunk += N - 1;
        step_down(w, a);
    } else
#pragma unroll
        for (int k = 0; k < N; k++, step_down(w, a))
#pragma unroll
            for (int i = 0; i < QUAD; i++)
                gray[k][i] = gray_at<CHANNELS>(w->p + column_offset(a, c.x + i));
}

/* Vertical sums of the rows around v[RADIUS]. */
template <int RADIUS>
__device__ __forceinline__ void sum_down(const struct smooth_args &a, const float (*v)[QUAD],
                                         float *sum)
{
#pragma unroll
    for (int c = 0; c < QUAD; c++) {
        sum[c] = a.down[0] * v[RADIUS][c];
#pragma unroll
        for (int r = 1; r <= RADIUS; r++)
            sum[c] += a.down[r] * (v[RADIUS - r][c] + v[RADIUS + r][c]);
    }
}

template <int RADIUS>
__device__ __forceinline__ float4 sum_across(const struct smooth_args &a, const float *own)
{
    float v[QUAD + 2 * RADIUS], sum[QUAD];
#pragma unroll
    for (int k = 0; k < RADIUS; k++) {
        v[k] = __shfl_up_sync(~0u, own[QUAD - RADIUS + k], 1);
        v[RADIUS + QUAD + k] = __shfl_down_sync(~0u, own[k], 1);
    }
#pragma unroll
    for (int k = 0; k < QUAD; k++)
        v[RADIUS + k] = own[k];
#pragma unroll
    for (int k = 0; k < QUAD; k++) {
        sum[k] = a.across[0] * v[RADIUS + k];
#pragma unroll
        for (int r = 1; r <= RADIUS; r++)
            sum[k] += a.across[r] * (v[RADIUS + k - r] + v[RADIUS + k + r]);
    }
    return {sum[0], sum[1], sum[2], sum[3]};
}

/* Columns that a strip writes. */
__host__ __device__ constexpr int strip_columns(int radius)
{
    return radius ? QUAD * (LANES - 2) : QUAD * LANES;
}

template <int RADIUS, int CHANNELS>
__global__ void __launch_bounds__(WARPS *LANES)
    smooth_kernel(const __grid_constant__ struct smooth_args a)
{
    const int lane = (int)threadIdx.x % LANES, edge = RADIUS ? 1 : 0;
    const int64_t strip = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANES;
    const int64_t x = strip * strip_columns(RADIUS) + (lane - edge) * QUAD;
    const int64_t top = a.first + (int64_t)blockIdx.y * STRIP_ROWS;
    const int64_t end = top + STRIP_ROWS < a.end ? top + STRIP_ROWS : a.end;
    const struct columns c = {x, column_offset(a, x),
                              __all_sync(~0u, x >= 0 && x + QUAD <= a.width) != 0};
    const bool writes = lane >= edge && lane < LANES - edge && x < a.width;
    struct walker w = walk_from(a, top - RADIUS);
    int64_t out_row = top % a.ring_rows;
    float v[2 * RADIUS + ROWS][QUAD];
    walk<2 * RADIUS, CHANNELS>(&w, a, c, v);
    for (int64_t y = top; y < end; y += ROWS) {
        walk<ROWS, CHANNELS>(&w, a, c, v + 2 * RADIUS);
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            float down[QUAD];
            sum_down<RADIUS>(a, v + k, down);
            const float4 out = sum_across<RADIUS>(a, down);
            if (writes && y + k < end)
                __stcg((float4 *)(a.d_smooth + out_row * a.pitch + x), out);
            out_row = out_row + 1 < a.ring_rows ? out_row + 1 : 0;
        }
#pragma unroll
        for (int k = 0; k < 2 * RADIUS; k++)
#pragma unroll
            for (int i = 0; i < QUAD; i++)
                v[k][i] = v[k + ROWS][i];
    }
}

__device__ float down_at(const struct smooth_args &a, int64_t x, int64_t y)
{
    const int64_t column = column_offset(a, x);
    struct walker w = walk_from(a, y - a.radius);
    float sum = 0;
    for (int r = -a.radius; r <= a.radius; r++, step_down(&w, a))
        sum += a.down[r < 0 ? -r : r] *
               (a.layout.channels == 1 ? gray_at<1>(w.p + column) : gray_at<3>(w.p + column));
    return sum;
}

/* Any radius: vertical sums of the block's columns go to shared memory, then the horizontal sums.
 */
__global__ void __launch_bounds__(THREADS)
    smooth_plain_kernel(const __grid_constant__ struct smooth_args a)
{
    __shared__ float line[THREADS + 2 * SPECTRUM_MAX_RADIUS];
    const int64_t left = (int64_t)blockIdx.x * THREADS, y = a.first + blockIdx.y;
    for (int k = (int)threadIdx.x; k < THREADS + 2 * a.radius; k += THREADS)
        line[k] = down_at(a, left + k - a.radius, y);
    __syncthreads();
    float sum = 0;
    for (int r = -a.radius; r <= a.radius; r++)
        sum += a.across[r < 0 ? -r : r] * line[(int)threadIdx.x + a.radius + r];
    if (left + threadIdx.x < a.width)
        a.d_smooth[y % a.ring_rows * a.pitch + left + threadIdx.x] = sum;
}

unsigned blocks(int64_t n, int64_t each)
{
    return (unsigned)((n + each - 1) / each);
}

template <int RADIUS> void launch(const struct smooth_args *a, cudaStream_t stream)
{
    const dim3 grid(blocks(a->width, WARPS * strip_columns(RADIUS)),
                    blocks(a->end - a->first, STRIP_ROWS));
    if (a->layout.channels == 1)
        smooth_kernel<RADIUS, 1><<<grid, WARPS * LANES, 0, stream>>>(*a);
    else
        smooth_kernel<RADIUS, 3><<<grid, WARPS * LANES, 0, stream>>>(*a);
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
