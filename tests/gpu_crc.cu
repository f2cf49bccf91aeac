/*
 * gpu_crc - the CRC-32 that the device computes of chunks (cuda/crc.h), against codec_crc32().
 *
 *   gpu_crc          the kernel; exit status 77 without a GPU
 *   gpu_crc host     its arithmetic, on the host
 *
 * Chunks of 1 to 300,000 bytes begin at any byte. The exit status is 1 if one CRC or one head is
 * wrong.
 */
#include "cuda/crc.cuh"
#include "cuda/crc.h"
#include "tests/gpu_call.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" uint32_t codec_crc32(const void *data, size_t n);

enum { CHUNKS = 400, MOST = 300000 };

/* Every small size, then larger ones. */
static uint32_t size_of(int k)
{
    return k < 200 ? (uint32_t)k + 1 : (uint32_t)(rand() % (k < 300 ? 20000 : MOST) + 1);
}

static std::vector<crc_chunk> make_chunks(size_t *all)
{
    std::vector<crc_chunk> chunks;
    *all = 0;
    for (int k = 0; k < CHUNKS; k++) {
        *all += (size_t)rand() % 7;
        chunks.push_back({*all, size_of(k)});
        *all += chunks.back().bytes;
    }
    return chunks;
}

static uint32_t on_host(const uint8_t *p, uint32_t n, uint32_t threads)
{
    static uint32_t tables[CRC_TABLES * CRC_ENTRIES], powers[CRC_POWERS];
    uint32_t sum = 0;
    for (uint32_t k = 0; k < CRC_ENTRIES; k++)
        tables[k] = crc_entry(k);
    for (uint32_t k = CRC_ENTRIES; k < CRC_TABLES * CRC_ENTRIES; k++)
        tables[k] = crc_byte(tables, tables[k - CRC_ENTRIES], 0);
    crc_powers(powers, CRC_POWERS);
    for (uint32_t t = 0; t < threads; t++)
        sum ^= crc_share(tables, powers, p, n, t, threads);
    return ~sum;
}

static int check_host(const std::vector<uint8_t> &bytes, const std::vector<crc_chunk> &chunks)
{
    int wrong = 0;
    for (const crc_chunk &c : chunks)
        for (uint32_t threads : {1u, 3u, 64u})
            wrong += on_host(&bytes[c.at], c.bytes, threads) != codec_crc32(&bytes[c.at], c.bytes);
    return wrong;
}

static int check_device(const std::vector<uint8_t> &bytes, const std::vector<crc_chunk> &chunks)
{
    crc_batch b = {};
    uint8_t *d_stored;
    crc_chunk *locked;
    int wrong = 0;
    CHECK(cudaMalloc((void **)&d_stored, bytes.size()));
    CHECK(cudaMallocHost((void **)&locked, CHUNKS * sizeof *locked));
    CHECK(cudaMallocHost((void **)&b.crc32, CHUNKS * sizeof *b.crc32));
    CHECK(cudaMallocHost((void **)&b.heads, CHUNKS * CRC_HEAD));
    CHECK(cudaMemcpy(d_stored, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    std::copy(chunks.begin(), chunks.end(), locked);
    b.d_stored = d_stored;
    b.chunks = locked;
    b.n = CHUNKS;
    crc_chunks(&b, 0);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    for (int k = 0; k < CHUNKS; k++) {
        const uint8_t *p = &bytes[chunks[k].at];
        wrong += b.crc32[k] != codec_crc32(p, chunks[k].bytes) ||
                 memcmp(b.heads + (size_t)k * CRC_HEAD, p,
                        std::min(chunks[k].bytes, (uint32_t)CRC_HEAD));
    }
    return wrong;
}

int main(int argc, char **argv)
{
    const bool host = argc > 1 && !strcmp(argv[1], "host");
    int devices = 0;
    size_t all;
    if (!host && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
        puts("no GPU");
        return 77;
    }
    const std::vector<crc_chunk> chunks = make_chunks(&all);
    std::vector<uint8_t> bytes(all);
    for (uint8_t &b : bytes)
        b = (uint8_t)(rand() >> 7);
    const int wrong = host ? check_host(bytes, chunks) : check_device(bytes, chunks);
    printf("%d chunks, %d wrong\n", CHUNKS, wrong);
    return wrong > 0;
}
