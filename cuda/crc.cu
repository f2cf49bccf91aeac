/* crc.cu - see crc.h. */
#include "cuda/crc.h"

#include "cuda/crc.cuh"

/* Of a block. JPEG tiles have about 10,000 bytes, chunks of pixels about 200,000. */
enum { THREADS = 64, WARP = 32 };

/* The bytes at p as words, which need not be aligned. */
__device__ __forceinline__ void copy_head(const uint8_t *p, uint32_t n, uint8_t *out)
{
    for (uint32_t k = threadIdx.x * 4; k < n; k += THREADS * 4) {
        uint32_t word = 0;
        for (uint32_t byte = 0; byte < 4 && k + byte < n; byte++)
            word |= (uint32_t)p[k + byte] << 8 * byte;
        *(uint32_t *)(out + k) = word;
    }
}

/* One block per chunk. */
__global__ void __launch_bounds__(THREADS) crc_kernel(struct crc_batch b)
{
    __shared__ uint32_t tables[CRC_TABLES * CRC_ENTRIES], powers[CRC_POWERS], sum;
    const struct crc_chunk chunk = b.chunks[blockIdx.x];
    const uint8_t *p = b.d_stored + chunk.at;
    for (uint32_t k = threadIdx.x; k < CRC_ENTRIES; k += THREADS)
        tables[k] = crc_entry(k);
    if (threadIdx.x < CRC_POWERS)
        powers[threadIdx.x] = b.powers[threadIdx.x];
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    for (uint32_t k = threadIdx.x; k < CRC_ENTRIES; k += THREADS)
        for (uint32_t j = 1; j < CRC_TABLES; j++)
            tables[j * CRC_ENTRIES + k] = crc_byte(tables, tables[(j - 1) * CRC_ENTRIES + k], 0);
    __syncthreads();
    uint32_t share = crc_share(tables, powers, p, chunk.bytes, threadIdx.x, THREADS);
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2)
        share ^= __shfl_xor_sync(0xffffffff, share, lanes);
    if (threadIdx.x % WARP == 0)
        atomicXor(&sum, share);
    __syncthreads();
    if (threadIdx.x == 0)
        b.crc32[blockIdx.x] = ~sum;
    if (b.heads)
        copy_head(p, chunk.bytes < CRC_HEAD ? chunk.bytes : CRC_HEAD,
                  b.heads + (size_t)blockIdx.x * CRC_HEAD);
}

void crc_chunks(struct crc_batch *b, cudaStream_t stream)
{
    crc_powers(b->powers, CRC_POWERS);
    crc_kernel<<<(unsigned)b->n, THREADS, 0, stream>>>(*b);
}
