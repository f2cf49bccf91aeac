/*
 * jpeg_pixels.cu - from coefficients to pixels: one block per tile, row of MCUs by row of MCUs; see
 * jpeg.h and jpeg_dct.cuh.
 */
#include "cuda/jpeg/jpeg.h"
#include "cuda/jpeg/jpeg_dct.cuh"

/* --- 4:4:4 and gray: every MCU is a block of 8 x 8 pixels --- */

struct shape {
    int rows_at_once, pitch; /* rows of MCUs; bytes of a row of pixels in shared memory */
};

static __host__ __device__ shape shape_of(const struct jpeg_geometry &g, int mcu_px)
{
    const int row = g.mcu_cols * g.mcu_blocks * BLOCK_WORDS * 4;
    shape s = {(int)COEFFICIENT_BYTES / row,
               (g.mcu_cols * mcu_px * jpeg_channels(&g) + 15) / 16 * 16};
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

/* A block's samples into a plane, two pixels per thread; the second block only if it is another. */
__device__ __forceinline__ void put_samples(uint8_t *a, uint8_t *b, int pitch, uint32_t samples,
                                            int lane)
{
    const int at = lane / 4 * pitch + lane % 4 * 2;
    *(uint16_t *)(a + at) = (uint16_t)samples;
    *(uint16_t *)(b + at) = (uint16_t)(samples >> 16);
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
    const int tile_bytes = g.width * jpeg_channels(&g), part_bytes = tile_bytes / g.parts;
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
    uint8_t *out = b.d_pixels + (size_t)tile.place * g.width * g.height * jpeg_channels(&g);
    const fragments f = load_fragments(lane);
    if (b.d_status[tile.number] != JPEG_DECODED)
        return;
    for (int k = threadIdx.x; k < s.rows_at_once * row_blocks * BLOCK_WORDS / 4; k += THREADS)
        memory[k] = make_uint4(0, 0, 0, 0);
    fill_table<COMPONENTS>(b.d_sets + tile.set, m.table);
    __syncthreads();
    const int pairs = (g.mcu_cols + 1) / 2;
    bool good = true;
    int carry = 0; /* of the warp's component */
    const int quantiser = (int)(b.d_sets[tile.set].scatter[min(warp, 2)][0] >> 16);
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
            uint8_t *to = pixels + y * 8 * s.pitch + pair * 16 * COMPONENTS;
            if (COMPONENTS == 1) {
                put_samples(to, next ? to + 8 : to, s.pitch, c[0], lane);
                continue;
            }
            if (YCC)
                to_rgb4(c);
            to += lane / 4 * s.pitch + lane % 4 * 6;
            put_pixels(to, next ? to + 24 : to, c[0], c[1], c[2]);
        }
        __syncthreads();
        copy_mcu_rows(pixels, s.pitch, out, g, row, n_rows);
    }
    if (!good)
        b.d_status[tile.number] = JPEG_FOR_HOST;
}

/* --- 4:2:2 and 4:2:0: luma has 2 x 1 or 2 x 2 blocks per MCU --- */

/* Planes of samples. In shared memory: of one row of MCUs; row 0 of each plane is the last one of
 * the row of MCUs before. */
struct planes {
    uint8_t *luma, *cb, *cr; /* [1 + 8 V][pitch], [1 + 8][pitch / 2] */
    int pitch;
};

/* Rows of the planes that make a row of pixels. */
struct plane_rows {
    const uint8_t *luma;
    const uint8_t *cb[2],
        *cr[2]; /* the row that the pixels lie in, and the next one on their side */
};

/* 256 pixels of a row, from the chroma sample `from` on, of a plane with `half` samples per row.
 * One warp. */
template <int V>
__device__ __forceinline__ void colour_pixels(const plane_rows &r, const struct jpeg_geometry &g,
                                              int half, int from, uint8_t *out, int lane)
{
    const int last = (g.width + 1) / 2 - 1, x = from + 4 * lane, at = min(x, half - 4);
    int cb[8], cr[8];
    upsample<V>(r.cb[0], r.cb[1], at, last, lane, cb);
    upsample<V>(r.cr[0], r.cr[1], at, last, lane, cr);
    if (x > last)
        return;
    const uint2 samples = *(const uint2 *)(r.luma + 2 * x);
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
        put_four((uint32_t *)(out + 24 * lane) + 3 * k, rgb);
    }
}

/* One row of pixels from the planes: row y of the luma plane, chroma rows near and far. One warp.
 */
template <int V>
__device__ __forceinline__ void colour_row(const planes &p, const struct jpeg_geometry &g, int y,
                                           int near, int far, uint8_t *out, int lane)
{
    const int half = p.pitch / 2, last = (g.width + 1) / 2 - 1;
    const plane_rows r = {p.luma + y * p.pitch,
                          {p.cb + near * half, p.cb + far * half},
                          {p.cr + near * half, p.cr + far * half}};
    for (int from = 0; from <= last; from += 128)
        colour_pixels<V>(r, g, half, from, out + 6 * from, lane);
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
    fill_table<BLOCKS>(b.d_sets + tile.set, m.table);
    __syncthreads();
    bool good = true;
    int carry = 0; /* of the warp's component */
    const int quantiser = (int)(b.d_sets[tile.set].scatter[min(warp, 2)][0] >> 16);
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

/* --- tiles that are cut into runs: first all samples, then all pixels --- */

/* A tile's planes in the device's memory. V: rows of luma blocks in an MCU; 0: all components have
 * the size of the luma, or there is luma alone. */
template <int V>
static __host__ __device__ struct planes planes_of(const struct jpeg_geometry &g, uint8_t *first)
{
    const size_t pitch = (size_t)g.across * (V ? 16 : 8),
                 rows = (size_t)(g.mcu_cols * g.mcu_rows / g.across) * 8 * (V ? V : 1);
    const size_t luma = pitch * rows, chroma = V ? luma / 2 / V : luma;
    return {first, first + luma, first + luma + chroma, (int)pitch};
}

/* Where the samples of block k of an MCU go; *pitch of their plane. */
template <int BLOCKS>
__device__ __forceinline__ uint8_t *block_place(const struct jpeg_geometry &g, const planes &p,
                                                int mcu, int k, int *pitch)
{
    constexpr int V = BLOCKS == 6 ? 2 : BLOCKS == 4 ? 1 : 0, LUMA = V ? 2 * V : 1;
    const int x = mcu % g.across, y = mcu / g.across;
    const size_t at = (size_t)y * 8 * (p.pitch / (V ? 2 : 1)) + x * 8;
    if (k >= LUMA) {
        *pitch = p.pitch / (V ? 2 : 1);
        return (k == LUMA ? p.cb : p.cr) + at;
    }
    *pitch = p.pitch;
    return V ? p.luma + (size_t)(y * V + k / 2) * 8 * p.pitch + x * 16 + k % 2 * 8 : p.luma + at;
}

/* The blocks of one run, two at a time. */
template <int BLOCKS>
__device__ __forceinline__ void samples_of_run(const scratch &m, const fragments &f,
                                               const struct jpeg_geometry &g, const planes &p,
                                               int first_mcu, int warp, int lane)
{
    const int blocks = g.mcu_cols * BLOCKS;
    for (int a = 2 * warp; a < blocks; a += 2 * THREADS / 32) {
        const int b = min(a + 1, blocks - 1);
        uint32_t *first = m.coefficients + a * BLOCK_WORDS;
        const uint32_t low = peek(first, lane), high = peek(first + (b - a) * BLOCK_WORDS, lane);
        wipe(first, b - a + 1, lane);
        const uint32_t samples = rows_pass(f, columns_pass(f, low), columns_pass(f, high));
        int pitch;
        uint8_t *to = block_place<BLOCKS>(g, p, first_mcu + a / BLOCKS, a % BLOCKS, &pitch);
        *(uint16_t *)(to + (size_t)(lane / 4) * pitch + lane % 4 * 2) = (uint16_t)samples;
        to = block_place<BLOCKS>(g, p, first_mcu + b / BLOCKS, b % BLOCKS, &pitch);
        *(uint16_t *)(to + (size_t)(lane / 4) * pitch + lane % 4 * 2) =
            (uint16_t)(b > a ? samples >> 16 : samples);
    }
}

template <int BLOCKS> __global__ void __launch_bounds__(THREADS) samples_kernel(struct jpeg_batch b)
{
    extern __shared__ uint4 memory[];
    constexpr int V = BLOCKS == 6 ? 2 : BLOCKS == 4 ? 1 : 0, LUMA = V ? 2 * V : 1;
    const struct jpeg_geometry g = b.geometry;
    const int run_blocks = g.mcu_cols * BLOCKS, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const scratch m = {(uint32_t *)memory, (uint32_t *)memory + run_blocks * BLOCK_WORDS};
    const struct jpeg_tile tile = b.d_tiles[blockIdx.x];
    const planes p = planes_of<V>(g, b.d_planes + blockIdx.x * jpeg_planes_bytes(&g));
    const uint32_t *runs = b.d_rows + (size_t)blockIdx.x * (g.mcu_rows + 1),
                   *entries = b.d_entries + tile.entries;
    const fragments f = load_fragments(lane);
    if (b.d_status[tile.number] != JPEG_DECODED)
        return;
    for (int k = threadIdx.x; k < run_blocks * BLOCK_WORDS / 4; k += THREADS)
        memory[k] = make_uint4(0, 0, 0, 0);
    fill_table<BLOCKS>(b.d_sets + tile.set, m.table);
    __syncthreads();
    bool good = true;
    int carry = 0; /* of the warp's component */
    const int quantiser = (int)(b.d_sets[tile.set].scatter[min(warp, 2)][0] >> 16);
    for (int run = 0; run < g.mcu_rows; run++) {
        good &= scatter_row<BLOCKS>(m, entries + runs[run], runs[run + 1] - runs[run], 0);
        __syncthreads();
        if (warp == 0)
            good &= sum_dc<BLOCKS, LUMA>(m, g, 0, 0, run, quantiser, &carry, lane);
        else if (warp < 3 && BLOCKS > 1)
            good &= sum_dc<BLOCKS, 1>(m, g, 0, LUMA + warp - 1, run, quantiser, &carry, lane);
        __syncthreads();
        if (run + 1 < g.mcu_rows)
            prefetch(entries, runs[run + 1], runs[run + 2]);
        samples_of_run<BLOCKS>(m, f, g, p, run * g.mcu_cols, warp, lane);
        __syncthreads();
    }
    if (!good)
        b.d_status[tile.number] = JPEG_FOR_HOST;
}

/* Up to 256 pixels of row y from x on, to shared memory. */
template <int V>
__device__ __forceinline__ void whole_pixels(const planes &p, const struct jpeg_geometry &g, int x,
                                             int y, uint8_t *out, int lane)
{
    if (V == 0) { /* components of one size */
        for (int k = 4 * lane; k < 256 && x + k < p.pitch; k += 128) {
            const size_t at = (size_t)y * p.pitch + x + k;
            uint32_t c[3] = {*(const uint32_t *)(p.luma + at), *(const uint32_t *)(p.cb + at),
                             *(const uint32_t *)(p.cr + at)};
            if (g.ycc)
                to_rgb4(c);
            put_four((uint32_t *)(out + 3 * k), c);
        }
        return;
    }
    constexpr int DOWN = V ? V : 1;
    const int half = p.pitch / 2, rows = (g.height + DOWN - 1) / DOWN, near = y / DOWN;
    const int far = V == 1 ? near : max(0, min(y & 1 ? near + 1 : near - 1, rows - 1));
    const plane_rows r = {p.luma + (size_t)y * p.pitch,
                          {p.cb + (size_t)near * half, p.cb + (size_t)far * half},
                          {p.cr + (size_t)near * half, p.cr + (size_t)far * half}};
    colour_pixels<DOWN>(r, g, half, x / 2, out, lane);
}

/* One warp per row; a block has some rows of one tile. */
template <int V, int CHANNELS>
__global__ void __launch_bounds__(THREADS) colours_kernel(struct jpeg_batch b)
{
    __shared__ uint4 memory[THREADS / 32][48];
    const struct jpeg_geometry g = b.geometry;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const struct jpeg_tile tile = b.d_tiles[blockIdx.x];
    const planes p = planes_of<V>(g, b.d_planes + blockIdx.x * jpeg_planes_bytes(&g));
    uint8_t *tile_out = b.d_pixels + (size_t)tile.place * g.width * g.height * CHANNELS,
            *staged = (uint8_t *)memory[warp];
    if (b.d_status[tile.number] != JPEG_DECODED)
        return;
    for (int y = blockIdx.y * (THREADS / 32) + warp; y < g.height; y += gridDim.y * (THREADS / 32))
        for (int x = 0; x < g.width; x += 256) {
            const int bytes = min(256, g.width - x) * CHANNELS;
            uint8_t *out = tile_out + ((size_t)y * g.width + x) * CHANNELS;
            if (CHANNELS == 3)
                whole_pixels<V>(p, g, x, y, staged, lane);
            __syncwarp();
            const uint8_t *from = CHANNELS == 3 ? staged : p.luma + (size_t)y * p.pitch + x;
            for (int k = lane; k < bytes; k += 32)
                out[k] = from[k];
            __syncwarp();
        }
}

/* --- launches --- */

static const size_t MOST_SHARED = 160 << 10;
enum { MOST_ROWS = 4096 }; /* blocks for the rows of a tile */

typedef void (*kernel)(struct jpeg_batch);

static kernel kernel_of(const struct jpeg_geometry *g)
{
    const bool runs = g->parts == 0;
    switch (g->sampling) {
    case JPEG_GRAY: return runs ? samples_kernel<1> : blocks_kernel<1, false>;
    case JPEG_444:
        return runs ? samples_kernel<3> : g->ycc ? blocks_kernel<3, true> : blocks_kernel<3, false>;
    case JPEG_422: return runs ? samples_kernel<4> : planes_kernel<1>;
    default: return runs ? samples_kernel<6> : planes_kernel<2>;
    }
}

/* The second step for runs. */
static kernel colours_of(const struct jpeg_geometry *g)
{
    switch (g->sampling) {
    case JPEG_GRAY: return colours_kernel<0, 1>;
    case JPEG_444: return colours_kernel<0, 3>;
    case JPEG_422: return colours_kernel<1, 3>;
    default: return colours_kernel<2, 3>;
    }
}

static size_t shared_bytes(const struct jpeg_geometry *g)
{
    const int block = BLOCK_WORDS * 4;
    if (g->parts == 0)
        return (size_t)((g->mcu_cols * block + 256) * g->mcu_blocks);
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
    const struct jpeg_geometry *g = &b->geometry;
    if (b->n <= 0)
        return;
    kernel_of(g)<<<b->n, THREADS, shared_bytes(g), stream>>>(*b);
    if (g->parts == 0) {
        const int rows = (g->height + THREADS / 32 - 1) / (THREADS / 32);
        colours_of(g)<<<dim3(b->n, min(rows, MOST_ROWS)), THREADS, 0, stream>>>(*b);
    }
}
