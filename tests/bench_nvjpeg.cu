/*
 * bench_nvjpeg - how fast nvJPEG decodes the tiles of a jpeg store, with its fastest back ends.
 *
 *   bench_nvjpeg STORE.h5 TILES [BATCH]
 *
 * The tiles of the store's first group are repeated, in batches of 4,000. Prints a line per back
 * end: seconds for all tiles, the median of three, or that it is not available. Each tile of a
 * batch has memory of its own for its pixels, interleaved RGB. They are not compared.
 */
extern "C" {
#include "common/base/err.h"
#include "common/store/store_read.h"
}

#include <nvjpeg.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace
{

enum { RUNS = 3 };

struct tiles {
    std::vector<std::vector<unsigned char>> streams; /* of the store */
    size_t n, batch;
    int64_t rows, cols;
};

[[noreturn]] void fail(const char *what)
{
    fprintf(stderr, "bench_nvjpeg: %s\n", what);
    exit(1);
}

/* All chunks of the store's first group. */
tiles load(const char *path, size_t n, size_t batch)
{
    struct err e = {};
    struct store *s = store_open(path, &e);
    if (!s)
        fail(e.msg);
    const struct store_info *i = store_info(s);
    tiles t = {{}, n, batch, i->chunk_rows, i->chunk_cols};
    std::vector<struct store_chunk> list(
        (size_t)(store_group_chunk_rows(i, 0) * store_chunk_columns(i)));
    if (store_map_group(s, 0, list.data(), &e))
        fail(e.msg);
    for (const struct store_chunk &c : list) {
        t.streams.emplace_back(c.bytes);
        if (store_read(s, c.offset, t.streams.back().data(), c.bytes, &e))
            fail(e.msg);
    }
    store_close(s);
    return t;
}

/* Decodes all tiles, batch by batch. False if the back end cannot. */
bool decode(nvjpegHandle_t handle, nvjpegJpegState_t state, const tiles &t,
            std::vector<nvjpegImage_t> &out)
{
    std::vector<const unsigned char *> data(t.batch);
    std::vector<size_t> bytes(t.batch);
    for (size_t first = 0; first < t.n; first += t.batch) {
        for (size_t k = 0; k < t.batch; k++) {
            const auto &one = t.streams[(first + k) % t.streams.size()];
            data[k] = one.data();
            bytes[k] = one.size();
        }
        if (nvjpegDecodeBatched(handle, state, data.data(), bytes.data(), out.data(), 0) !=
            NVJPEG_STATUS_SUCCESS)
            return false;
    }
    return cudaDeviceSynchronize() == cudaSuccess;
}

void bench(const char *name, nvjpegBackend_t backend, const tiles &t,
           std::vector<nvjpegImage_t> &out)
{
    nvjpegHandle_t handle;
    nvjpegJpegState_t state;
    double seconds[RUNS];
    if (nvjpegCreateEx(backend, NULL, NULL, 0, &handle) != NVJPEG_STATUS_SUCCESS ||
        nvjpegJpegStateCreate(handle, &state) != NVJPEG_STATUS_SUCCESS ||
        nvjpegDecodeBatchedInitialize(handle, state, (int)t.batch, 1, NVJPEG_OUTPUT_RGBI) !=
            NVJPEG_STATUS_SUCCESS) {
        printf("nvJPEG, %s: not available\n", name);
        return;
    }
    bool works = true;
    for (double &s : seconds) {
        const auto begun = std::chrono::steady_clock::now();
        works = works && decode(handle, state, t, out);
        s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    }
    std::sort(seconds, seconds + RUNS);
    if (works)
        printf("nvJPEG, %s: %zu tiles in %.3f s\n", name, t.n, seconds[RUNS / 2]);
    else
        printf("nvJPEG, %s: cannot decode them\n", name);
    fflush(stdout);
    nvjpegJpegStateDestroy(state);
    nvjpegDestroy(handle);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 3 || atol(argv[2]) < 1)
        fail("usage: bench_nvjpeg STORE.h5 TILES [BATCH]");
    const tiles t = load(argv[1], (size_t)atol(argv[2]), argc > 3 ? (size_t)atol(argv[3]) : 4000);
    std::vector<nvjpegImage_t> out(t.batch);
    for (nvjpegImage_t &one : out) {
        one = {};
        one.pitch[0] = (size_t)t.cols * 3;
        if (cudaMalloc((void **)&one.channel[0], (size_t)(t.rows * t.cols) * 3) != cudaSuccess)
            fail("not enough memory of the device");
    }
    bench("hardware", NVJPEG_BACKEND_HARDWARE, t, out);
    bench("GPU hybrid", NVJPEG_BACKEND_GPU_HYBRID, t, out);
    return 0;
}
