/*
 * alloc.c - makes the k-th allocation of a program fail, once or from then on (LD_PRELOAD).
 *
 * TORTURE_AT, TORTURE_FOREVER and TORTURE_COUNT as in shim.c. Allocations before main() are not
 * counted, as the loader and the libraries' own set-up make them. With TORTURE_CALLER, a line
 * "failed in FILE" on stderr names whose allocation was the first to fail. TORTURE_SITES=FILE
 * receives one number per allocation, which says where in the program it comes from: a hash of the
 * return addresses on the stack that lie in the program itself, not in its libraries.
 */
#define _GNU_SOURCE
#include "server.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_int begun;
static long at;
static int forever;
static const char *count_file, *sites_file;

enum { MOST_SITES = 1 << 20, MOST_FRAMES = 128 };
/* of all processes that the program forks */
static struct shared {
    atomic_long counted;
    unsigned sites[MOST_SITES];
} * all;
static struct {
    uintptr_t begin, end;
} program;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static void report(void *caller)
{
    Dl_info where = {0};
    char line[512];
    dladdr(caller, &where);
    const int n =
        snprintf(line, sizeof line, "failed in %s\n", where.dli_fname ? where.dli_fname : "?");
    if (write(2, line, (size_t)n) != n)
        abort();
}

/* The program is the first object; its code and data are in one piece. */
static int find_program(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    program.begin = program.end = info->dlpi_addr;
    for (int k = 0; k < info->dlpi_phnum; k++)
        if (info->dlpi_phdr[k].p_type == PT_LOAD)
            program.end = info->dlpi_addr + info->dlpi_phdr[k].p_vaddr + info->dlpi_phdr[k].p_memsz;
    return 1;
}

static unsigned site(void)
{
    void *frames[MOST_FRAMES];
    unsigned hash = 2166136261u;
    const int n = backtrace(frames, MOST_FRAMES);
    for (int k = 0; k < n; k++) {
        const uintptr_t at_ = (uintptr_t)frames[k];
        if (at_ >= program.begin && at_ < program.end)
            hash = (hash ^ (unsigned)(at_ - program.begin)) * 16777619u;
    }
    return hash;
}

static int fails(void *caller)
{
    if (!atomic_load_explicit(&begun, memory_order_relaxed))
        return 0;
    const long k = atomic_fetch_add(&all->counted, 1) + 1;
    if (sites_file && k <= MOST_SITES)
        all->sites[k - 1] = site();
    if (at == 0 || (forever ? k < at : k != at))
        return 0;
    if (k == at && getenv("TORTURE_CALLER"))
        report(caller);
    errno = ENOMEM;
    return 1;
}

#define FAILS() fails(__builtin_return_address(0))

void *malloc(size_t n)
{
    return FAILS() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return FAILS() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return FAILS() ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    return FAILS() ? NULL : __libc_memalign(align, n);
}

void *memalign(size_t align, size_t n)
{
    return FAILS() ? NULL : __libc_memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    void *p = FAILS() ? NULL : __libc_memalign(align, n);
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}

static void write_sites(void)
{
    FILE *f = fopen(sites_file, "w");
    for (long k = 0; f && k < all->counted && k < MOST_SITES; k++)
        fprintf(f, "%u\n", all->sites[k]);
    if (!f || fclose(f) != 0)
        abort();
}

static void end(void)
{
    char text[32];
    atomic_store(&begun, 0);
    if (sites_file)
        write_sites();
    if (!count_file)
        return;
    const int fd = open(count_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&all->counted));
    if (fd >= 0 && write(fd, text, (size_t)n) == n)
        close(fd);
}

void server_begin(void)
{
    const char *number = getenv("TORTURE_AT");
    at = number ? atol(number) : 0;
    forever = getenv("TORTURE_FOREVER") != NULL;
    count_file = getenv("TORTURE_COUNT");
    sites_file = getenv("TORTURE_SITES");
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        abort();
    if (sites_file) {
        dl_iterate_phdr(find_program, NULL);
        site(); /* loads what backtrace() needs */
    }
    atexit(end);
    atomic_store(&begun, 1);
}
