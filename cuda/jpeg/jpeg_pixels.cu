/*
 * jpeg_pixels.cu - from coefficients to pixels: one block per tile, row of MCUs by row of MCUs; see
 * jpeg.h, jpeg_dct.cuh and jpeg_colour.cuh.
 */
#include "cuda/jpeg/jpeg.h"

#include "cuda/jpeg/jpeg_colour.cuh"
#include "cuda/jpeg/jpeg_dct.cuh"

/* --- 4:4:4 and gray: every MCU is a block of 8 x 8 pixels --- */

struct shape {
    int rows_at_once, pitch; /* rows of MCUs; bytes of a row of pixels in shared memory */
};

static __host__ __device__ shape shape_of(const struct jpeg_geometry &g, int mcu_px)
{
    const int row = g.mcu_cols * g.mcu_blocks * BLOCK_WORDS * 4;
    shape s = {(int)COEFFICIENT_BYTES / row, (g.mcu_cols * mcu_px * 3 + 15) / 16 * 16};
    s.rows_at_once = s.rows_at_once < 1            ? 1
                     : s.rows_at_once < g.mcu_rows ? s.rows_at_once
                                                   : g.mcu_rows;
    while (s.pitch % 32 != 16) /* rows begin in different banks */
        s.pitch += 16;
    return s;
}

/* Writes two pixels of each of two blocks as R, G, B. */
__device__ __forceinline__ void put_pixels(uint8_t *a, uint8_t *b, uint32_t red, uint32_t green,
                                           uint32_t blue)
{
    const uint32_t first = __byte_perm(red, green, 0x6240), second = __byte_perm(blue, red, 0x7250),
                   third = __byte_perm(green, blue, 0x7351);
    uint16_t *p = (uint16_t *)a, *q = (uint16_t *)b;
    p[0] = (uint16_t)first;
    p[1] = (uint16_t)second;
    p[2] = (uint16_t)third;
    q[0] = (uint16_t)(first >> 16);
    q[1] = (uint16_t)(second >> 16);
    q[2] = (uint16_t)(third >> 16);
}

/* Copies rows of pixels from shared memory to the tile, whose rows have tile_bytes. */
__device__ __forceinline__ void copy_out(const uint8_t *from, int pitch, uint8_t *to,
                                         int tile_bytes, int row_bytes, int rows)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row_bytes % 16 == 0 && tile_bytes % 16 == 0 && (size_t)to % 16 == 0) {
        for (int y = warp; y < rows; y += THREADS / 32)
            for (int x = lane; x < row_bytes / 16; x += 32)
                __stcs((uint4 *)(to + (size_t)y * tile_bytes) + x,
                       ((const uint4 *)(from + y * pitch))[x]);
        return;
    }
    for (int y = warp; y < rows; y += THREADS / 32)
        for (int x = lane; x < row_bytes; x += 32)
            to[(size_t)y * tile_bytes + x] = from[y * pitch + x];
}

/* The same for n rows of MCUs of 8 px from row `row` on. */
__device__ __forceinline__ void copy_mcu_rows(const uint8_t *from, int pitch, uint8_t *tile,
                                              const struct jpeg_geometry &g, int row, int n)
{
    const int tile_bytes = g.width * 3, part_bytes = tile_bytes / g.parts;
    if (g.parts == 1) {
        copy_out(from, pitch, tile + (size_t)row * 8 * tile_bytes, tile_bytes, tile_bytes,
                 min(n * 8, g.height - row * 8));
        return;
    }
    for (int k = 0; k < n; k++) {
        const int y = (row + k) / g.parts * 8, part = (row + k) % g.parts;
        copy_out(from + k * 8 * pitch, pitch, tile + (size_t)y * tile_bytes + part * part_bytes,
                 tile_bytes, part_bytes, min(8, g.height - y));
    }
}

template <int COMPONENTS, bool YCC>
__global__ void __launch_bounds__(THREADS) blocks_kernel(struct jpeg_batch b)
{
    extern __shared__ uint4 memory[];
    const struct jpeg_geometry g = b.geometry;
    const shape s = shape_of(g, 8);
    const int row_blocks = g.mcu_cols * COMPONENTS, warp = threadIdx.x / 32,
              lane = threadIdx.x % 32;
    const scratch m = {(uint32_t *)memory,
                       (uint32_t *)memory + s.rows_at_once * row_blocks * BLOCK_WORDS};
    uint8_t *pixels = (uint8_t *)(m.table + COMPONENTS * 64);
    const struct jpeg_tile tile = b.d_tiles[blockIdx.x];
    const uint32_t *rows = b.d_rows + (size_t)blockIdx.x * (g.mcu_rows + 1),
                   *entries = b.d_entries + tile.entries;
    uint8_t *out = b.d_pixels + (size_t)tile.place * g.width * g.height * 3;
    const fragments f = load_fragments(lane);
    if (b.d_status[tile.number] != JPEG_DECODED)
        return;
    for (int k = threadIdx.x; k < s.rows_at_once * row_blocks * BLOCK_WORDS / 4; k += THREADS)
        memory[k] = make_uint4(0, 0, 0, 0);
    fill_table<COMPONENTS>(b.d_set, m.table);
    __syncthreads();
    const int pairs = (g.mcu_cols + 1) / 2;
    bool good = true;
    int carry = 0; /* of the warp's component */
    const int quantiser = (int)(b.d_set->scatter[min(warp, 2)][0] >> 16);
    for (int row = 0; row < g.mcu_rows; row += s.rows_at_once) {
        const int n_rows = min(s.rows_at_once, g.mcu_rows - row);
        for (int k = 0; k < n_rows; k++)
            good &= scatter_row<COMPONENTS>(m, entries + rows[row + k],
                                            rows[row + k + 1] - rows[row + k], k * row_blocks);
        __syncthreads(); /* coefficients are complete, and the pixels before them are written */
        for (int k = 0; k < n_rows && warp < COMPONENTS; k++)
            good &=
                sum_dc<COMPONENTS, 1>(m, g, k * row_blocks, warp, row + k, quantiser, &carry, lane);
        __syncthreads();
        if (row + s.rows_at_once < g.mcu_rows)
            prefetch(entries, rows[row + n_rows],
                     rows[min(row + n_rows + s.rows_at_once, g.mcu_rows)]);
        /* a unit is two neighbouring MCUs of a row */
        int y = 0, pair = warp;
        for (;; pair += THREADS / 32) {
            while (pair >= pairs) {
                pair -= pairs;
                y++;
            }
            if (y >= n_rows)
                break;
            uint32_t *first =
                m.coefficients + (y * g.mcu_cols + 2 * pair) * COMPONENTS * BLOCK_WORDS;
            const int next = 2 * pair + 1 < g.mcu_cols ? COMPONENTS : 0;
            uint32_t a[3], b[3], c[3];
#pragma unroll
            for (int k = 0; k < COMPONENTS; k++) {
                a[k] = peek(first + k * BLOCK_WORDS, lane);
                b[k] = peek(first + (next + k) * BLOCK_WORDS, lane);
            }
            wipe(first, COMPONENTS + next, lane);
#pragma unroll
            for (int k = 0; k < COMPONENTS; k++)
                c[k] = rows_pass(f, columns_pass(f, a[k]), columns_pass(f, b[k]));
            if (COMPONENTS == 1)
                c[1] = c[2] = c[0];
            if (YCC)
                to_rgb4(c);
            uint8_t *to = pixels + (y * 8 + lane / 4) * s.pitch + pair * 48 + lane % 4 * 6;
            put_pixels(to, next ? to + 24 : to, c[0], c[1], c[2]);
        }
        __syncthreads();
        copy_mcu_rows(pixels, s.pitch, out, g, row, n_rows);
    }
    if (!good)
        b.d_status[tile.number] = JPEG_FOR_HOST;
}

/* --- 4:2:2 and 4:2:0: luma has 2 x 1 or 2 x 2 blocks per MCU --- */

/* Planes of one row of MCUs in shared memory; row 0 of each is the last one of the row of MCUs
 * before. */
struct planes {
    uint8_t *luma, *cb, *cr; /* [1 + 8 V][pitch], [1 + 8][pitch / 2] */
    int pitch;
};

/* One row of pixels from the planes: row y of the luma plane, chroma rows near and far. One warp.
 */
template <int V>
__device__ __forceinline__ void colour_row(const planes &p, const struct jpeg_geometry &g, int y,
                                           int near, int far, uint8_t *out, int lane)
{
    const uint8_t *luma = p.luma + y * p.pitch;
    const int half = p.pitch / 2, last = (g.width + 1) / 2 - 1;
    for (int from = 0; from <= last; from += 128) {
        const int x = from + 4 * lane, at = min(x, half - 4);
        int cb[8], cr[8];
        upsample<V>(p.cb + near * half, p.cb + far * half, at, last, lane, cb);
        upsample<V>(p.cr + near * half, p.cr + far * half, at, last, lane, cr);
        if (x > last)
            continue;
        const uint2 samples = *(const uint2 *)(luma + 2 * x);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            uint32_t rgb[3];
            const uint32_t s = k ? samples.y : samples.x;
            if (g.ycc)
                rgb_of(s, cb + 4 * k, cr + 4 * k, rgb);
            else {
                rgb[0] = s;
                rgb[1] = rgb[2] = 0;
                for (int j = 0; j < 4; j++) {
                    rgb[1] |= (uint32_t)(cb[4 * k + j] + 128) << 8 * j;
                    rgb[2] |= (uint32_t)(cr[4 * k + j] + 128) << 8 * j;
                }
            }
            put_four((uint32_t *)(out + 6 * x) + 3 * k, rgb);
        }
    }
}

/* A block's samples into a plane, two pixels per thread; the second block only if it is another. */
__device__ __forceinline__ void put_samples(uint8_t *a, uint8_t *b, int pitch, uint32_t samples,
                                            int lane)
{
    const int at = lane / 4 * pitch + lane % 4 * 2;
    *(uint16_t *)(a + at) = (uint16_t)samples;
    *(uint16_t *)(b + at) = (uint16_t)(samples >> 16);
}

/* The samples of one row of MCUs, into rows 1 .. of the planes. A unit is two blocks that share a
 * pass. */
template <int V>
__device__ __forceinline__ void samples_of_row(const scratch &m, const fragments &f,
                                               const planes &p, int mcu_cols, int warp, int lane)
{
    constexpr int BLOCKS = 2 * V + 2, UNITS = V + 1;
    for (int unit = warp; unit < mcu_cols * UNITS; unit += THREADS / 32) {
        const int mcu = unit / UNITS, k = unit % UNITS;
        uint32_t *first = m.coefficients + (mcu * BLOCKS + 2 * k) * BLOCK_WORDS;
        const uint32_t a = peek(first, lane), b = peek(first + BLOCK_WORDS, lane);
        wipe(first, 2, lane);
        const uint32_t samples = rows_pass(f, columns_pass(f, a), columns_pass(f, b));
        if (k < V) {
            uint8_t *at = p.luma + (1 + 8 * k) * p.pitch + mcu * 16;
            put_samples(at, at + 8, p.pitch, samples, lane);
        } else
            put_samples(p.cb + p.pitch / 2 + mcu * 8, p.cr + p.pitch / 2 + mcu * 8, p.pitch / 2,
                        samples, lane);
    }
}

/* Keeps the last row of each plane as row 0 for the next row of MCUs. */
template <int V> __device__ __forceinline__ void keep_last(const planes &p)
{
    for (int x = threadIdx.x; x < p.pitch / 4; x += THREADS)
        ((uint32_t *)p.luma)[x] = ((uint32_t *)(p.luma + 8 * V * p.pitch))[x];
    for (int x = threadIdx.x; x < p.pitch / 8; x += THREADS) {
        ((uint32_t *)p.cb)[x] = ((uint32_t *)(p.cb + 4 * p.pitch))[x];
        ((uint32_t *)p.cr)[x] = ((uint32_t *)(p.cr + 4 * p.pitch))[x];
    }
}

/* Bytes of the planes of a row of MCUs. */
static __host__ __device__ int planes_bytes(const struct jpeg_geometry &g, int v)
{
    return g.mcu_cols * 16 * (1 + 8 * v) + 2 * g.mcu_cols * 8 * 9;
}

/*
 * With 4:2:0 the last row of pixels of a row of MCUs needs the chroma of the next one, so pixels
 * come one row late: rows 16 r - 1 .. 16 r + 14 with row r of MCUs, and the tile's last row at the
 * end.
 */
template <int V> __global__ void __launch_bounds__(THREADS) planes_kernel(struct jpeg_batch b)
{
    extern __shared__ uint4 memory[];
    constexpr int BLOCKS = 2 * V + 2, ROWS = 8 * V;
    const struct jpeg_geometry g = b.geometry;
    const shape s = shape_of(g, 16);
    const int row_blocks = g.mcu_cols * BLOCKS, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const scratch m = {(uint32_t *)memory, (uint32_t *)memory + row_blocks * BLOCK_WORDS};
    uint8_t *at = (uint8_t *)(m.table + BLOCKS * 64);
    planes p;
    p.pitch = g.mcu_cols * 16;
    p.luma = at;
    p.cb = p.luma + (1 + ROWS) * p.pitch;
    p.cr = p.cb + 9 * p.pitch / 2;
    uint8_t *pixels = p.cr + 9 * p.pitch / 2;
    const struct jpeg_tile tile = b.d_tiles[blockIdx.x];
    const uint32_t *rows = b.d_rows + (size_t)blockIdx.x * (g.mcu_rows + 1),
                   *entries = b.d_entries + tile.entries;
    uint8_t *out = b.d_pixels + (size_t)tile.place * g.width * g.height * 3;
    const int chroma_rows = (g.height + V - 1) / V;
    const fragments f = load_fragments(lane);
    if (b.d_status[tile.number] != JPEG_DECODED)
        return;
    for (int k = threadIdx.x; k < row_blocks * BLOCK_WORDS / 4; k += THREADS)
        memory[k] = make_uint4(0, 0, 0, 0);
    fill_table<BLOCKS>(b.d_set, m.table);
    __syncthreads();
    bool good = true;
    int carry = 0; /* of the warp's component */
    const int quantiser = (int)(b.d_set->scatter[min(warp, 2)][0] >> 16);
    for (int row = 0; row < g.mcu_rows; row++) {
        good &= scatter_row<BLOCKS>(m, entries + rows[row], rows[row + 1] - rows[row], 0);
        __syncthreads();
        if (warp == 0)
            good &= sum_dc<BLOCKS, 2 * V>(m, g, 0, 0, row, quantiser, &carry, lane);
        else if (warp < 3)
            good &= sum_dc<BLOCKS, 1>(m, g, 0, 2 * V + warp - 1, row, quantiser, &carry, lane);
        __syncthreads();
        if (row + 1 < g.mcu_rows)
            prefetch(entries, rows[row + 1], rows[row + 2]);
        samples_of_row<V>(m, f, p, g.mcu_cols, warp, lane);
        __syncthreads();
        /* rows of pixels that are complete: relative to this row of MCUs */
        const int from = V == 2 && row > 0 ? -1 : 0, end = row * ROWS + ROWS;
        const int to = end >= g.height ? g.height - row * ROWS : V == 2 ? ROWS - 1 : ROWS;
        for (int y = from + warp; y < to; y += THREADS / 32) {
            const int c = (y + ROWS) / V -
                          8; /* row of chroma, relative to this row of MCUs; -1: the one kept */
            int far = V == 1 ? c : y & 1 ? c + 1 : c - 1;
            far = max(far, -row * 8);
            far = min(far, chroma_rows - 1 - row * 8);
            colour_row<V>(p, g, y + 1, c + 1, far + 1, pixels + (y - from) * s.pitch, lane);
        }
        __syncthreads();
        copy_out(pixels, s.pitch, out + (size_t)(row * ROWS + from) * g.width * 3, g.width * 3,
                 g.width * 3, to - from);
        keep_last<V>(p);
        /* the next samples are written behind a barrier, the next pixels behind two */
    }
    if (!good)
        b.d_status[tile.number] = JPEG_FOR_HOST;
}

/* --- launches --- */

static const size_t MOST_SHARED = 160 << 10;

typedef void (*kernel)(struct jpeg_batch);

static kernel kernel_of(const struct jpeg_geometry *g)
{
    switch (g->sampling) {
    case JPEG_GRAY: return blocks_kernel<1, false>;
    case JPEG_444: return g->ycc ? blocks_kernel<3, true> : blocks_kernel<3, false>;
    case JPEG_422: return planes_kernel<1>;
    default: return planes_kernel<2>;
    }
}

static size_t shared_bytes(const struct jpeg_geometry *g)
{
    const int block = BLOCK_WORDS * 4;
    if (g->sampling <= JPEG_444) {
        const shape s = shape_of(*g, 8);
        const int components = g->sampling == JPEG_GRAY ? 1 : 3;
        return (size_t)(s.rows_at_once * g->mcu_cols * components * block + components * 256 +
                        s.rows_at_once * 8 * s.pitch);
    }
    const int v = g->sampling == JPEG_420 ? 2 : 1;
    return (size_t)((g->mcu_cols * block + 256) * (2 * v + 2) + planes_bytes(*g, v) +
                    (8 * v + 1) * shape_of(*g, 16).pitch);
}

static size_t most_shared(size_t of_block)
{
    return of_block < MOST_SHARED ? of_block : MOST_SHARED;
}

bool jpeg_pixels_fit(const struct jpeg_geometry *g, size_t of_block)
{
    return shared_bytes(g) <= most_shared(of_block);
}

cudaError_t jpeg_prepare(size_t of_block)
{
    static const kernel all[] = {blocks_kernel<1, false>, blocks_kernel<3, true>,
                                 blocks_kernel<3, false>, planes_kernel<1>, planes_kernel<2>};
    const int most = (int)most_shared(of_block);
    cudaError_t r = cudaSuccess;
    for (size_t k = 0; k < sizeof all / sizeof *all && r == cudaSuccess; k++)
        r = cudaFuncSetAttribute(all[k], cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    return r;
}

void jpeg_pixels(const struct jpeg_batch *b, cudaStream_t stream)
{
    if (b->n > 0)
        kernel_of(&b->geometry)<<<b->n, THREADS, shared_bytes(&b->geometry), stream>>>(*b);
}
