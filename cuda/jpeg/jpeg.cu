/*
 * jpeg.cu - the entropy decoding of JPEG tiles; see jpeg.h.
 *
 * What bounds it: one thread per tile is about 12 warps per SM for a whole slide, so the time is
 * that of the dependent steps of one thread: shift the window, look up, advance. The look-up tables
 * resolve two symbols at a time for that reason, and lie in shared memory.
 */
#include "cuda/jpeg/jpeg.h"

#include "cuda/jpeg/jpeg_bits.cuh"

enum { STRIP_WARPS = 8, FULL = 0xffffffff };

/* Threads of a block of the huffman kernel: few, so that blocks of short tiles end early; more
 * where the tables of a block are large. With many, the blocks of a batch are few, and their warps
 * hide each other's latency: then most multiprocessors are free for other kernels. */
enum { NARROW = 32, NARROW_PAIRS = 64, WIDE = 128 };

uint32_t jpeg_restarts(const struct jpeg_geometry *g)
{
    const uint32_t mcus = (uint32_t)(g->mcu_cols * g->mcu_rows),
                   interval = (uint32_t)g->restart_interval;
    return interval ? (mcus - 1) / interval : 0;
}

uint32_t jpeg_most_entries(const struct jpeg_geometry *g, uint32_t bytes)
{
    const uint32_t blocks = (uint32_t)(g->mcu_cols * g->mcu_rows * g->mcu_blocks);
    return (2 * bytes + (bytes < 4096 ? bytes : 4096) + blocks / 4 + 3) & ~1u;
}

/* --- strip --- */

/* What a warp knows of its tile's stream so far. */
struct strip_state {
    uint32_t written, seen; /* bytes that went out; restart markers */
    bool ended, unusual;
};

/* 32 bytes of the stream, one per thread: c, between `previous` and `next`. A byte goes out unless
 * it is a stuffed zero or part of a marker. */
__device__ __forceinline__ void strip_bytes(struct strip_state *s, bool inside, bool last,
                                            uint32_t c, uint32_t previous, uint32_t next,
                                            uint8_t *out, uint32_t *restarts, uint32_t n_restarts,
                                            int lane)
{
    const bool code = inside && previous == 0xff && c != 0;
    const bool restart = code && c >= 0xd0 && c <= 0xd7;
    const uint32_t stop = __ballot_sync(FULL, code && !restart);
    const uint32_t valid = stop ? (1u << (__ffs(stop) - 1)) - 1 : FULL;
    const bool kept =
        inside && (valid >> lane & 1) && !(c == 0xff && next != 0) && previous != 0xff;
    const uint32_t keep = __ballot_sync(FULL, kept), below = (1u << lane) - 1;
    const uint32_t marks = __ballot_sync(FULL, restart) & valid;
    if (kept)
        out[s->written + __popc(keep & below)] = (uint8_t)c;
    if (restart && (valid >> lane & 1)) {
        const uint32_t k = s->seen + __popc(marks & below);
        s->unusual |= k >= n_restarts || c != (0xd0 | (k & 7));
        if (k < n_restarts)
            restarts[k] = s->written + __popc(keep & below);
    }
    s->seen += __popc(marks);
    s->written += __popc(keep);
    s->ended |= stop != 0;
    s->unusual |= stop && lane == __ffs(stop) - 1 && (c != 0xd9 || !last); /* nothing behind EOI */
}

/* Does one of the bytes of a word equal 0xff? */
__device__ __forceinline__ bool has_ff(uint32_t w)
{
    return (~w - 0x01010101u) & w & 0x80808080u;
}

/*
 * One warp per tile, 128 bytes at a time, four per thread. Most of them hold no 0xff and are
 * copied; only the others are looked at byte by byte.
 */
__global__ void __launch_bounds__(STRIP_WARPS * 32)
    strip_kernel(struct jpeg_batch b, uint32_t n_restarts)
{
    const int t = blockIdx.x * STRIP_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (t >= b.n)
        return;
    const struct jpeg_tile tile = b.d_tiles[t];
    const uint8_t *in = b.d_stored + tile.stored;
    uint8_t *out = b.d_stripped + tile.stripped;
    uint32_t *restarts = b.d_restarts + (size_t)t * n_restarts;
    struct strip_state s = {0, 0, false, false};
    uint32_t before = 0;
    for (uint32_t at = 0; at < tile.bytes && !s.ended; at += 128) {
        const bool whole = at + 128 < tile.bytes;
        uint32_t w = 0;
        if (whole)
            w = in[at + 4 * lane] | in[at + 4 * lane + 1] << 8 | in[at + 4 * lane + 2] << 16 |
                (uint32_t)in[at + 4 * lane + 3] << 24;
        if (whole && before != 0xff && !__any_sync(FULL, has_ff(w))) {
            uint8_t *to = out + s.written + 4 * lane;
            to[0] = (uint8_t)w;
            to[1] = (uint8_t)(w >> 8);
            to[2] = (uint8_t)(w >> 16);
            to[3] = (uint8_t)(w >> 24);
            s.written += 128;
            before = __shfl_sync(FULL, w, 31) >> 24;
            continue;
        }
        for (uint32_t from = at; from < at + 128 && from < tile.bytes && !s.ended; from += 32) {
            const bool inside = from + lane < tile.bytes;
            const uint32_t c = inside ? in[from + lane] : 0,
                           next = from + lane + 1 < tile.bytes ? in[from + lane + 1] : 0xff;
            const uint32_t left = __shfl_up_sync(FULL, c, 1);
            strip_bytes(&s, inside, from + lane + 1 == tile.bytes, c, lane == 0 ? before : left,
                        next, out, restarts, n_restarts, lane);
            before = __shfl_sync(FULL, c, 31);
        }
    }
    const bool unusual = __any_sync(FULL, s.unusual) || !s.ended || s.seen != n_restarts;
    if (lane == 0) {
        b.d_bytes[t] = s.written;
        b.d_status[tile.number] = unusual ? JPEG_FOR_HOST : JPEG_DECODED;
    }
}

void jpeg_strip(const struct jpeg_batch *b, cudaStream_t stream)
{
    const int blocks = (b->n + STRIP_WARPS - 1) / STRIP_WARPS;
    if (b->n > 0)
        strip_kernel<<<blocks, STRIP_WARPS * 32, 0, stream>>>(*b, jpeg_restarts(&b->geometry));
}

/* --- huffman --- */

/*
 * A thread's memory beside its registers, all of it shared memory, so that a warp waits for no load
 * from device memory in a step:
 *
 *   ring    16 words of the stream, filled with copies of 16 bytes that run in the background
 *   out     the last 16 entries; four at a time leave for device memory
 *
 * The entries of a warp's threads lie side by side, so that they use different banks.
 */
template <bool PAIRS, int THREADS> struct huffman_shared {
    enum { ENTRIES = (PAIRS ? 2 : 1) << (JPEG_LOOKUP + 1) };
    uint32_t out[16][THREADS]; /* begins on a multiple of its size */
    uint4 ring[4][THREADS];
    uint64_t lookup[ENTRIES + 1]; /* the last one is the idle entry */
};

template <bool PAIRS, int THREADS> struct huffman_memory {
    enum { IDLE = huffman_shared<PAIRS, THREADS>::ENTRIES };
    enum { OUT_BYTES = 16 * THREADS * 4, OUT_STEP = THREADS * 4, RING_STEP = THREADS * 16 };
    uint32_t out, ring, lookup; /* addresses in shared memory; of the thread's first word */
    uint32_t *row_start;

    __device__ __forceinline__ uint32_t word(uint32_t k, bool wanted) const
    {
        uint32_t w = 0;
        asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p ld.shared.u32 %0, [%1];}"
                     : "+r"(w)
                     : "r"(ring + (k & 12) * (RING_STEP / 4) + (k & 3) * 4), "r"((uint32_t)wanted)
                     : "memory");
        return w;
    }
    __device__ __forceinline__ uint64_t entry(uint32_t k) const
    {
        uint32_t low, high;
        asm("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(lookup + k * 8));
        return low | (uint64_t)high << 32;
    }
    __device__ __forceinline__ uint32_t out_of(uint32_t n) const
    {
        return out | (n * OUT_STEP & (OUT_BYTES - 1));
    }
    __device__ __forceinline__ void put(uint32_t n, uint32_t e) const
    {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(out_of(n)), "r"(e) : "memory");
    }
    __device__ __forceinline__ uint32_t taken(uint32_t n) const
    {
        uint32_t e;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(e) : "r"(out_of(n)) : "memory");
        return e;
    }
    __device__ __forceinline__ void row(uint32_t k, uint32_t n) const
    {
        row_start[k] = n;
    }
    __device__ __forceinline__ void request(const uint32_t *words, uint32_t quad) const
    {
        asm volatile(
            "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(ring + (quad & 3) * RING_STEP),
            "l"(words + quad * 4)
            : "memory");
    }
    __device__ __forceinline__ void flush(uint32_t *to, uint32_t n) const
    {
        *(uint4 *)(to + n) = make_uint4(taken(n), taken(n + 1), taken(n + 2), taken(n + 3));
    }
};

template <int N> __device__ __forceinline__ void arrived()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ __forceinline__ void requested()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* An address in shared memory that the compiler keeps in a register instead of computing it each
 * time. */
static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    uint32_t a = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("mov.u32 %0, %0;" : "+r"(a));
    return a;
}

template <bool RESTARTS, bool PAIRS, int THREADS>
__global__ void __launch_bounds__(THREADS) huffman_kernel(struct jpeg_batch b, uint32_t n_restarts)
{
    typedef huffman_memory<PAIRS, THREADS> thread_memory;
    extern __shared__ uint4 memory[];
    const uint32_t misplaced =
        (uint32_t)__cvta_generic_to_shared(memory) % thread_memory::OUT_BYTES;
    huffman_shared<PAIRS, THREADS> *shared =
        (huffman_shared<PAIRS, THREADS> *)((char *)memory + (thread_memory::OUT_BYTES - misplaced) %
                                                                thread_memory::OUT_BYTES);
    const uint64_t *from = &b.d_set->lookup[0][0][0];
    for (int k = threadIdx.x; k < thread_memory::IDLE; k += THREADS)
        shared->lookup[k] = from[k];
    if (threadIdx.x == 0)
        shared->lookup[thread_memory::IDLE] = JPEG_IDLE;
    __syncthreads();
    const int t = blockIdx.x * THREADS + threadIdx.x, valid = min(t, b.n - 1);
    const struct jpeg_tile tile = b.d_tiles[valid];
    const bool mine = t < b.n && b.d_status[tile.number] == JPEG_DECODED;
    const struct jpeg_work work = {(const uint32_t *)(b.d_stripped + tile.stripped),
                                   b.d_bytes[valid],
                                   b.d_entries + tile.entries,
                                   tile.most,
                                   b.d_rows + (size_t)valid * (b.geometry.mcu_rows + 1),
                                   b.d_restarts + (size_t)valid * n_restarts,
                                   n_restarts};
    thread_memory m = {shared_address(&shared->out[0][threadIdx.x]),
                       shared_address(&shared->ring[0][threadIdx.x]),
                       shared_address(shared->lookup), work.row_start};
    const uint32_t row_end = (uint32_t)(b.geometry.mcu_cols * b.geometry.mcu_blocks) << 6;
    struct jpeg_state state;
    uint32_t quads = 0, flushed = 0;
    if (!__any_sync(FULL, mine))
        return;
    for (; quads < 4; quads++)
        m.request(work.words, quads);
    requested();
    arrived<0>();
    jpeg_begin(&state, &b.geometry, b.d_set->pair_of, m);
    if (!mine)
        jpeg_stop(&state, m);
    /* Four steps use at most four words. A quad that is requested before some four steps has
     * arrived before the next four but one: then at least five words behind `next` are there. */
    while (__any_sync(FULL, state.active)) {
        if (state.active && quads * 4 + 4 <= state.next + 16)
            m.request(work.words, quads++);
        requested();
        arrived<2>();
#pragma unroll
        for (int k = 0; k < 4; k++)
            jpeg_step<RESTARTS, PAIRS>(&state, &b.geometry, &work, row_end, m);
        if (state.waits)
            jpeg_rare<RESTARTS, PAIRS>(&state, &b.geometry, b.d_set, &work, row_end, m);
        jpeg_check(&state, &work, m);
#pragma unroll
        for (int k = 0; k < 2; k++)
            if (state.n - flushed >= 4) {
                m.flush(work.entries, flushed);
                flushed += 4;
            }
    }
    if (!mine)
        return;
    m.flush(work.entries, flushed);
    if (state.unusual)
        b.d_status[tile.number] = JPEG_FOR_HOST;
}

/* One instance of the kernel; shared memory of a block, with room to begin it on a multiple of its
 * first array. */
struct huffman {
    void (*kernel)(struct jpeg_batch, uint32_t);
    int threads, bytes;
};

template <bool RESTARTS, bool PAIRS, int THREADS> static struct huffman instance()
{
    return {
        huffman_kernel<RESTARTS, PAIRS, THREADS>, THREADS,
        (int)(sizeof(huffman_shared<PAIRS, THREADS>) + huffman_memory<PAIRS, THREADS>::OUT_BYTES)};
}

/* k: bit 0 restart markers, bit 1 two pairs of tables, bit 2 wide. */
static struct huffman instance_of(int k)
{
    switch (k) {
    case 0: return instance<false, false, NARROW>();
    case 1: return instance<true, false, NARROW>();
    case 2: return instance<false, true, NARROW_PAIRS>();
    case 3: return instance<true, true, NARROW_PAIRS>();
    case 4: return instance<false, false, WIDE>();
    case 5: return instance<true, false, WIDE>();
    case 6: return instance<false, true, WIDE>();
    default: return instance<true, true, WIDE>();
    }
}

void jpeg_huffman(const struct jpeg_batch *b, cudaStream_t stream)
{
    const uint32_t n_restarts = jpeg_restarts(&b->geometry);
    const struct huffman h = instance_of((n_restarts > 0) | (b->pairs > 1) << 1 | b->wide << 2);
    const int blocks = (b->n + h.threads - 1) / h.threads;
    if (b->n <= 0)
        return;
    cudaFuncSetAttribute(h.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, h.bytes);
    h.kernel<<<blocks, h.threads, h.bytes, stream>>>(*b, n_restarts);
}
