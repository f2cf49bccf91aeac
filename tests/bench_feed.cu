/*
 * bench_feed - the limit of feeding several devices: a file's bytes go from the page cache through
 * a CRC-32 to devices, and nothing else happens.
 *
 *   bench_feed FILE DEVICES THREADS STAGING_KIB
 *
 * Each thread has two page-locked staging buffers: it fills one while the other is copied. The
 * devices take turns. Prints seconds, the median of five.
 */
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" uint32_t codec_crc32(const void *data, size_t n);

namespace
{

enum { STAGING = 2, RUNS = 5, PLACES = 64 };

void check(cudaError_t r, const char *call)
{
    if (r == cudaSuccess)
        return;
    fprintf(stderr, "bench_feed: %s: %s\n", call, cudaGetErrorString(r));
    exit(1);
}
#define CHECK(call) check((call), #call)

struct device {
    unsigned char *d_memory; /* [PLACES][bytes of a staging buffer] */
    cudaStream_t stream;
};

struct staging {
    unsigned char *memory;
    std::vector<cudaEvent_t> copied; /* [devices] */
    int device;                      /* to which it was sent last, or -1 */
};

struct feed {
    int file;
    size_t bytes, staging_bytes;
    std::vector<device> devices;
    std::atomic<size_t> next;
    std::atomic<uint32_t> crc;
};

void open_device(feed &f, int number)
{
    device d;
    CHECK(cudaSetDevice(number));
    CHECK(cudaMalloc((void **)&d.d_memory, PLACES * f.staging_bytes));
    CHECK(cudaStreamCreateWithFlags(&d.stream, cudaStreamNonBlocking));
    f.devices.push_back(d);
}

std::vector<staging> make_staging(const feed &f, int n)
{
    const size_t page = 2 << 20, all = ((size_t)n * f.staging_bytes + page - 1) / page * page;
    unsigned char *memory = (unsigned char *)aligned_alloc(page, all);
    std::vector<staging> buffers((size_t)n);
    if (!memory) {
        fprintf(stderr, "bench_feed: out of memory\n");
        exit(1);
    }
    CHECK(cudaHostRegister(memory, all, cudaHostRegisterPortable));
    for (int k = 0; k < n; k++) {
        buffers[(size_t)k].memory = memory + (size_t)k * f.staging_bytes;
        for (size_t d = 0; d < f.devices.size(); d++) {
            cudaEvent_t e;
            CHECK(cudaSetDevice((int)d));
            CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
            buffers[(size_t)k].copied.push_back(e);
        }
    }
    return buffers;
}

void send(feed &f, staging &p, size_t number, size_t n)
{
    p.device = (int)(number % f.devices.size());
    const device &d = f.devices[(size_t)p.device];
    CHECK(cudaSetDevice(p.device));
    CHECK(cudaMemcpyAsync(d.d_memory + number / f.devices.size() % PLACES * f.staging_bytes,
                          p.memory, n, cudaMemcpyHostToDevice, d.stream));
    CHECK(cudaEventRecord(p.copied[(size_t)p.device], d.stream));
}

void work(feed &f, staging *buffers)
{
    for (size_t k = 0, number; (number = f.next++) * f.staging_bytes < f.bytes; k++) {
        staging &p = buffers[k % STAGING];
        const size_t at = number * f.staging_bytes, n = std::min(f.staging_bytes, f.bytes - at);
        if (p.device >= 0)
            CHECK(cudaEventSynchronize(p.copied[(size_t)p.device]));
        if (pread(f.file, p.memory, n, (off_t)at) != (ssize_t)n)
            exit(1);
        f.crc ^= codec_crc32(p.memory, n);
        send(f, p, number, n);
    }
}

double once(feed &f, std::vector<staging> &buffers, int threads)
{
    std::vector<std::thread> all;
    const auto begun = std::chrono::steady_clock::now();
    f.next = 0;
    for (staging &p : buffers)
        p.device = -1;
    for (int t = 0; t < threads; t++)
        all.emplace_back(work, std::ref(f), &buffers[(size_t)t * STAGING]);
    for (std::thread &t : all)
        t.join();
    for (size_t d = 0; d < f.devices.size(); d++) {
        CHECK(cudaSetDevice((int)d));
        CHECK(cudaDeviceSynchronize());
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

} // namespace

int main(int argc, char **argv)
{
    struct stat st;
    feed f;
    double seconds[RUNS];
    const int devices = argc == 5 ? atoi(argv[2]) : 0, threads = argc == 5 ? atoi(argv[3]) : 0;
    if (devices < 1 || threads < 1 || atoi(argv[4]) < 1 || (f.file = open(argv[1], O_RDONLY)) < 0 ||
        fstat(f.file, &st)) {
        fprintf(stderr, "usage: bench_feed FILE DEVICES THREADS STAGING_KIB\n");
        return 2;
    }
    f.bytes = (size_t)st.st_size;
    f.staging_bytes = (size_t)atoi(argv[4]) << 10;
    f.crc = 0;
    for (int d = 0; d < devices; d++)
        open_device(f, d);
    std::vector<staging> buffers = make_staging(f, threads * STAGING);
    for (double &s : seconds)
        s = once(f, buffers, threads);
    std::sort(seconds, seconds + RUNS);
    printf("%.3f\n", seconds[RUNS / 2]);
    return 0;
}
