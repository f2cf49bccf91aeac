/*
 * jpeg.cu - the entropy decoding of JPEG tiles; see jpeg.h.
 *
 * What bounds it: one thread per tile is about 12 warps per SM for a whole slide, so the time is
 * that of the dependent steps of one thread: shift the window, look up, advance. The look-up tables
 * resolve two symbols at a time for that reason, and lie in shared memory. Tables of each tile's
 * own are smaller and resolve one symbol at a time.
 */
#include "cuda/jpeg/jpeg.h"

#include "cuda/jpeg/jpeg_bits.cuh"

enum { STRIP_WARPS = 8, OWN_THREADS = 128, FULL = 0xffffffff };

/* Threads of a block of the huffman kernel: few, so that blocks of short tiles end early; more
 * where the tables of a block are large. With many, the blocks of a batch are few, and their warps
 * hide each other's latency: then most multiprocessors are free for other kernels. */
enum { NARROW = 32, NARROW_PAIRS = 64, WIDE = 128, OWN = 64, OWN_LITTLE = 32 };

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

/* The state of a warp in its tile's stream. */
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

/* --- tables of a tile's own --- */

/* Canonical codes (T.81, C.2) of a table with the counts c[1..16]. */
__device__ __forceinline__ void make_codes(const uint8_t *c, uint32_t *limit, int32_t *first)
{
    uint32_t code = 0, k = 0;
    for (int n = 1; n <= 16; n++) {
        first[n] = (int32_t)(k - code);
        code += c[n];
        k += c[n];
        limit[n] = code << (16 - n);
        code <<= 1;
    }
}

/* The symbol as an entry of jpeg_own.lookup; 0 if the kernels leave it to the host. */
__device__ __forceinline__ uint16_t own_entry(uint32_t symbol, uint32_t bits, bool ac)
{
    const uint32_t size = ac ? symbol & 15 : symbol, run = ac ? symbol >> 4 : 0;
    const bool unusual = size > (uint32_t)(ac ? JPEG_MOST_AC : JPEG_MOST_DC) ||
                         (ac && size == 0 && run != 0 && run != 15);
    return (uint16_t)(unusual ? 0 : symbol << 8 | bits);
}

/* One block per tile and table. */
__global__ void __launch_bounds__(OWN_THREADS) own_kernel(struct jpeg_batch b)
{
    __shared__ uint32_t limit[18];
    __shared__ int32_t first[18];
    const int t = blockIdx.x / (2 * b.pairs), table = blockIdx.x % (2 * b.pairs), pair = table / 2,
              ac = table % 2;
    const struct jpeg_tile tile = b.d_tiles[t];
    const uint8_t *dht = b.d_stored + tile.stored - tile.dht[pair][ac];
    struct jpeg_own *own = b.d_own + t;
    if (threadIdx.x == 0)
        make_codes(dht - 1, limit, first);
    __syncthreads();
    if (threadIdx.x > 0 && threadIdx.x <= 16) {
        own->limit[pair][ac][threadIdx.x] = limit[threadIdx.x];
        own->first[pair][ac][threadIdx.x] = first[threadIdx.x];
    }
    uint32_t symbols = 0;
    for (int n = 0; n < 16; n++)
        symbols += dht[n];
    for (uint32_t k = threadIdx.x; k < 256; k += OWN_THREADS)
        own->values[pair][ac][k] = k < symbols ? dht[16 + k] : 0;
    const int known = ac ? JPEG_OWN_AC : JPEG_OWN_DC;
    uint16_t *lookup = own->lookup[pair] + (ac ? 0 : 1 << JPEG_OWN_AC);
    for (uint32_t k = threadIdx.x; k < 1u << known; k += OWN_THREADS) {
        const uint32_t top16 = k << (16 - known);
        int bits = 1;
        while (bits <= known && top16 >= limit[bits])
            bits++;
        const int at = first[bits] + (int)(top16 >> (16 - bits));
        lookup[k] = bits > known ? 0 : own_entry(dht[16 + (at & 255)], bits, ac);
    }
}

void jpeg_strip(const struct jpeg_batch *b, cudaStream_t stream)
{
    const int blocks = (b->n + STRIP_WARPS - 1) / STRIP_WARPS;
    if (b->n <= 0)
        return;
    strip_kernel<<<blocks, STRIP_WARPS * 32, 0, stream>>>(*b, jpeg_restarts(&b->geometry));
    if (b->d_own)
        own_kernel<<<b->n * 2 * b->pairs, OWN_THREADS, 0, stream>>>(*b);
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
template <int THREADS> struct huffman_rings {
    uint32_t out[16][THREADS]; /* begins on a multiple of its size */
    uint4 ring[4][THREADS];
};

/* With the codes of the batch: what they resolve lies in shared memory, too. */
template <bool PAIRS, int THREADS> struct huffman_shared : huffman_rings<THREADS> {
    enum { ENTRIES = (PAIRS ? 2 : 1) << (JPEG_LOOKUP + 1) };
    uint64_t lookup[ENTRIES + 1]; /* the last one is the idle entry */
};

template <int THREADS> struct huffman_thread {
    enum { OUT_BYTES = 16 * THREADS * 4, OUT_STEP = THREADS * 4, RING_STEP = THREADS * 16 };
    uint32_t out, ring; /* addresses in shared memory, of the thread's first word */
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

/* An address in shared memory that the compiler keeps in a register instead of computing it each
 * time. */
static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    uint32_t a = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("mov.u32 %0, %0;" : "+r"(a));
    return a;
}

/* The codes of the batch. */
template <bool PAIRS_, int THREADS_> struct shared_codes : huffman_thread<THREADS_> {
    enum { IDLE = huffman_shared<PAIRS_, THREADS_>::ENTRIES, PAIRS = PAIRS_, THREADS = THREADS_ };
    typedef huffman_shared<PAIRS_, THREADS_> shared;
    uint32_t lookup; /* its address in shared memory */
    const struct jpeg_set *set;

    __device__ __forceinline__ void begin(shared *s, const struct jpeg_batch &b, int)
    {
        set = b.d_sets + b.d_tiles[0].set;
        const uint64_t *from = &set->lookup[0][0][0];
        for (int k = threadIdx.x; k < IDLE; k += THREADS)
            s->lookup[k] = from[k];
        if (threadIdx.x == 0)
            s->lookup[IDLE] = JPEG_IDLE;
        __syncthreads();
        lookup = shared_address(s->lookup);
    }
    __device__ __forceinline__ uint64_t entry(uint32_t k, uint32_t) const
    {
        uint32_t low, high;
        asm("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(lookup + k * 8));
        return low | (uint64_t)high << 32;
    }
};

/* The codes of each tile. Tables of neighbours begin in different banks. */
enum { OWN_WORDS = JPEG_PAIRS * JPEG_OWN_ENTRIES / 2, OWN_STEP = OWN_WORDS + 1 };

template <int THREADS> struct own_shared : huffman_rings<THREADS> {
    uint32_t lookup[THREADS][OWN_STEP];
};

template <int THREADS_> struct own_codes : huffman_thread<THREADS_> {
    enum { IDLE = JPEG_PAIRS << (JPEG_LOOKUP + 1), PAIRS = true, THREADS = THREADS_ };
    typedef own_shared<THREADS_> shared;
    uint32_t lookup; /* address in shared memory */
    const struct jpeg_own *set;

    /* A warp copies the tables of its threads. */
    __device__ __forceinline__ void begin(shared *s, const struct jpeg_batch &b, int tile)
    {
        const int lane = threadIdx.x % 32, first = threadIdx.x - lane;
        set = b.d_own + tile;
        lookup = shared_address(s->lookup[threadIdx.x]);
        for (int k = 0; k < 32; k++) {
            const int t = min((int)blockIdx.x * THREADS + first + k, b.n - 1);
            const uint32_t *from = (const uint32_t *)b.d_own[t].lookup;
            for (int w = lane; w < OWN_WORDS; w += 32)
                s->lookup[first + k][w] = from[w];
        }
        __syncwarp();
    }
    __device__ __forceinline__ uint64_t entry(uint32_t k, uint32_t top) const
    {
        const uint32_t ac = k >> JPEG_LOOKUP & 1, bits = k & ((1 << JPEG_LOOKUP) - 1);
        uint32_t at = ac ? bits >> (JPEG_LOOKUP - JPEG_OWN_AC)
                         : (1 << JPEG_OWN_AC) + (bits >> (JPEG_LOOKUP - JPEG_OWN_DC));
        at += k >> (JPEG_LOOKUP + 1) & 1 ? JPEG_OWN_ENTRIES : 0;
        uint16_t found;
        asm("ld.shared.u16 %0, [%1];" : "=h"(found) : "r"(lookup + at * 2));
        const uint64_t e = jpeg_own_entry(found, ac, top);
        return k == IDLE ? (uint64_t)JPEG_IDLE : e;
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

template <bool RESTARTS, class Codes>
__global__ void __launch_bounds__(Codes::THREADS)
    huffman_kernel(struct jpeg_batch b, uint32_t n_restarts)
{
    enum { PAIRS = Codes::PAIRS };
    extern __shared__ uint4 memory[];
    const uint32_t misplaced = (uint32_t)__cvta_generic_to_shared(memory) % Codes::OUT_BYTES;
    typename Codes::shared *shared =
        (typename Codes::shared *)((char *)memory +
                                   (Codes::OUT_BYTES - misplaced) % Codes::OUT_BYTES);
    const int t = blockIdx.x * Codes::THREADS + threadIdx.x, valid = min(t, b.n - 1);
    Codes m;
    const struct jpeg_tile tile = b.d_tiles[valid];
    const bool mine = t < b.n && b.d_status[tile.number] == JPEG_DECODED;
    const struct jpeg_work work = {(const uint32_t *)(b.d_stripped + tile.stripped),
                                   b.d_bytes[valid],
                                   b.d_entries + tile.entries,
                                   tile.most,
                                   b.d_rows + (size_t)valid * (b.geometry.mcu_rows + 1),
                                   b.d_restarts + (size_t)valid * n_restarts,
                                   n_restarts};
    m.begin(shared, b, valid);
    m.out = shared_address(&shared->out[0][threadIdx.x]);
    m.ring = shared_address(&shared->ring[0][threadIdx.x]);
    m.row_start = work.row_start;
    const uint32_t row_end = (uint32_t)(b.geometry.mcu_cols * b.geometry.mcu_blocks) << 6;
    struct jpeg_state state;
    uint32_t quads = 0, flushed = 0;
    if (!__any_sync(FULL, mine))
        return;
    for (; quads < 4; quads++)
        m.request(work.words, quads);
    requested();
    arrived<0>();
    jpeg_begin(&state, &b.geometry, b.d_sets[tile.set].pair_of, m);
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
            jpeg_rare<RESTARTS, PAIRS>(&state, &b.geometry, m.set, &work, row_end, m);
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

template <class Codes> static struct huffman instance(bool restarts)
{
    return {restarts ? huffman_kernel<true, Codes> : huffman_kernel<false, Codes>, Codes::THREADS,
            (int)(sizeof(typename Codes::shared) + Codes::OUT_BYTES)};
}

static struct huffman instance_of(const struct jpeg_batch *b, bool restarts)
{
    const bool pairs = b->pairs > 1;
    if (b->d_own) {
        const struct huffman large = instance<own_codes<OWN>>(restarts);
        return (size_t)large.bytes <= b->shared_bytes ? large
                                                      : instance<own_codes<OWN_LITTLE>>(restarts);
    }
    if (b->wide)
        return pairs ? instance<shared_codes<true, WIDE>>(restarts)
                     : instance<shared_codes<false, WIDE>>(restarts);
    return pairs ? instance<shared_codes<true, NARROW_PAIRS>>(restarts)
                 : instance<shared_codes<false, NARROW>>(restarts);
}

void jpeg_huffman(const struct jpeg_batch *b, cudaStream_t stream)
{
    const uint32_t n_restarts = jpeg_restarts(&b->geometry);
    const struct huffman h = instance_of(b, n_restarts > 0);
    const int blocks = (b->n + h.threads - 1) / h.threads;
    if (b->n <= 0)
        return;
    cudaFuncSetAttribute(h.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, h.bytes);
    h.kernel<<<blocks, h.threads, h.bytes, stream>>>(*b, n_restarts);
}
