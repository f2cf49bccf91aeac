/* stub.c - the state of the stub, and what surrounds every call; see stub.h. */
#include "tests/stub.h"

#include <execinfo.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stub_state stub;
_Thread_local int stub_device;
_Thread_local cudaError_t stub_last;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void stub_die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("stub_cuda: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    abort();
}

void stub_check(bool good, const char *what)
{
    if (!good)
        stub_die("%s", what);
}

unsigned stub_random(void)
{
    stub.seed = stub.seed * 1664525u + 1013904223u;
    return stub.seed >> 16;
}

/* --- calls --- */

static long number_of(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static void read_memory(void)
{
    const char *text = getenv("WSI_STUB_MEMORY");
    char *end = NULL;
    for (int k = 0; text && k < MOST_DEVICES; k++) {
        stub.memory[k] = k > 0 && *text == 0 ? stub.memory[k - 1] : strtoull(text, &end, 10);
        text = *text ? end + (*end == ',') : text;
    }
}

static void begin(void)
{
    const char *fail = getenv("WSI_STUB_FAIL"), *colon = fail ? strchr(fail, ':') : NULL;
    stub.begun = true;
    stub.devices = (int)number_of("WSI_STUB_DEVICES", 1);
    stub_check(stub.devices >= 0 && stub.devices <= MOST_DEVICES, "WSI_STUB_DEVICES");
    stub.fail_at = number_of("WSI_STUB_FAIL", 0);
    stub.fail_code = colon ? atoi(colon + 1) : 0;
    read_memory();
    stub.quick = getenv("WSI_STUB_QUICK") != NULL;
    stub.queued = getenv("WSI_STUB_ORDER") != NULL;
    stub.seed = (unsigned)number_of("WSI_STUB_ORDER", 0);
    stub.late = stub.seed == 0;
    stub.sites = getenv("WSI_STUB_CALLS") ? calloc(MOST_SITES, sizeof *stub.sites) : NULL;
}

extern char __executable_start, etext; /* of the linker */

/* Where in the program a call comes from: a hash of the return addresses on the stack, alike in
 * every run. */
static unsigned site(void)
{
    void *frames[MOST_FRAMES];
    unsigned hash = 2166136261u;
    const int n = backtrace(frames, MOST_FRAMES);
    for (int k = 0; k < n; k++)
        if ((char *)frames[k] >= &__executable_start && (char *)frames[k] < &etext)
            hash = (hash ^ (unsigned)((char *)frames[k] - &__executable_start)) * 16777619u;
    return hash;
}

/* Every call comes through here, and leaves with stub_leave(). */
cudaError_t stub_enter(int device)
{
    pthread_mutex_lock(&lock);
    if (!stub.begun)
        begin();
    stub_time_passes();
    if (stub.sites && stub.calls < MOST_SITES)
        stub.sites[stub.calls] = site();
    if (++stub.calls == stub.fail_at) {
        if (stub.fail_code != cudaErrorMemoryAllocation)
            stub.lost[device] = (cudaError_t)stub.fail_code;
        return (cudaError_t)stub.fail_code;
    }
    return stub.lost[device];
}

cudaError_t stub_leave(cudaError_t r)
{
    if (r != cudaSuccess && r != cudaErrorNotReady)
        stub_last = r;
    pthread_mutex_unlock(&lock);
    return r;
}

cufftResult stub_leave_fft(cudaError_t r)
{
    pthread_mutex_unlock(&lock);
    return r == cudaSuccess                 ? CUFFT_SUCCESS
           : r == cudaErrorMemoryAllocation ? CUFFT_ALLOC_FAILED
                                            : CUFFT_EXEC_FAILED;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t r = stub_enter(stub_device);
    r = r ? r : stub_last;
    stub_last = cudaSuccess;
    pthread_mutex_unlock(&lock);
    return r;
}

/* --- the end --- */

static long not_released(void)
{
    long n = 0;
    for (const struct block *b = stub.blocks; b; b = b->next)
        n++;
    for (const struct CUstream_st *s = stub.streams; s; s = s->next)
        n += !s->destroyed;
    for (const struct CUevent_st *e = stub.events; e; e = e->next)
        n += !e->destroyed;
    for (int k = 0; k < MOST_PLANS; k++)
        n += stub.plans[k].used;
    return n;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("WSI_STUB_CALLS");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        return;
    fprintf(f,
            "{\"calls\": %ld, \"locked_bytes\": %zu, \"registered_bytes\": %zu, "
            "\"not_released\": %ld, \"smooth\": %ld, "
            "\"fused\": %ld, \"gather\": %ld, \"count\": %ld, \"pixels\": %ld, \"sites\": [",
            stub.calls, stub.most_locked, stub.most_registered, not_released(), stub.run[SMOOTH],
            stub.run[FUSED], stub.run[GATHER], stub.run[COUNT], stub.run[PIXELS]);
    for (long k = 0; stub.sites && k < stub.calls && k < MOST_SITES; k++)
        fprintf(f, "%s%u", k ? ", " : "", stub.sites[k]);
    fputs("]}\n", f);
    fclose(f);
    free(stub.sites);
}
