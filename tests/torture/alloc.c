/*
 * alloc.c - makes the k-th allocation of a program fail, once or from then on (LD_PRELOAD).
 *
 * TORTURE_AT, TORTURE_FOREVER and TORTURE_COUNT as in shim.c. Allocations before main() are not
 * counted, as the loader and the libraries' own set-up make them. With TORTURE_CALLER, a line
 * "failed in FILE" on stderr names whose allocation was the first to fail.
 */
#define _GNU_SOURCE
#include "server.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long counted;
static atomic_int begun;
static long at;
static int forever;
static const char *count_file;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static void report(void *caller)
{
    Dl_info where = {0};
    char line[512];
    dladdr(caller, &where);
    const int n = snprintf(line, sizeof line, "failed in %s\n",
                           where.dli_fname ? where.dli_fname : "?");
    if (write(2, line, (size_t)n) != n)
        abort();
}

static int fails(void *caller)
{
    if (!atomic_load_explicit(&begun, memory_order_relaxed))
        return 0;
    const long k = atomic_fetch_add(&counted, 1) + 1;
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

static void end(void)
{
    char text[32];
    atomic_store(&begun, 0);
    if (!count_file)
        return;
    const int fd = open(count_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&counted));
    if (fd >= 0 && write(fd, text, (size_t)n) == n)
        close(fd);
}

void server_begin(void)
{
    const char *number = getenv("TORTURE_AT");
    at = number ? atol(number) : 0;
    forever = getenv("TORTURE_FOREVER") != NULL;
    count_file = getenv("TORTURE_COUNT");
    atexit(end);
    atomic_store(&begun, 1);
}
