/*
 * shim.c - makes system calls of a program fail, stops it at one of them, or records them; to be
 * loaded by LD_PRELOAD.
 *
 * Environment:
 *   TORTURE_CALLS    names of calls, separated by commas: write,pwrite,fsync ...
 *   TORTURE_UNDER    only calls on files below this folder are counted (unset: all)
 *   TORTURE_AT       the number of the call that is hit, from 1 (unset: none)
 *   TORTURE_FOREVER  1: that call and all later ones; with EINTR the next 1,000 calls, as a signal
 *                    that interrupts for ever does not exist
 *   TORTURE_DO       what happens: an errno number; "short" (half of the bytes, at least one);
 *                    "kill" (SIGKILL before the call), "crash" (SIGSEGV before it)
 *                    (to the process whose call it is; "kill" also to the one it was forked from)
 *   TORTURE_COUNT    file that receives the number of counted calls when the program exits
 *   TORTURE_TRACE    file that receives every call that changes a file or a folder below
 *                    TORTURE_UNDER: a line "OP PATH OFFSET LENGTH [PATH2]" and, for writes, the
 *                    bytes
 *
 * The variants with 64 in their name count as the same call; "create" is every open for writing.
 */
#define _GNU_SOURCE
#include "server.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long *counted; /* of all processes that the program forks */
static long at;
static int forever, error_number, shortens, kills, trace_fd = -1;
static const char *calls, *under, *count_file;
static pid_t owner;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f)
        abort();
    return f;
}

void server_begin(void)
{
    const char *what = getenv("TORTURE_DO"), *number = getenv("TORTURE_AT");
    const char *trace = getenv("TORTURE_TRACE");
    calls = getenv("TORTURE_CALLS");
    under = getenv("TORTURE_UNDER");
    count_file = getenv("TORTURE_COUNT");
    forever = getenv("TORTURE_FOREVER") != NULL;
    at = number ? atol(number) : 0;
    shortens = what && !strcmp(what, "short");
    kills = what && !strcmp(what, "kill") ? SIGKILL : what && !strcmp(what, "crash") ? SIGSEGV : 0;
    error_number = what ? atoi(what) : 0;
    owner = getpid();
    counted =
        mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counted == MAP_FAILED)
        abort();
    if (trace)
        trace_fd = REAL(open)(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

__attribute__((destructor)) static void end(void)
{
    char text[32];
    if (!count_file || getpid() != owner)
        return;
    const int fd = REAL(open)(count_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int n = snprintf(text, sizeof text, "%ld\n", atomic_load(counted));
    if (fd >= 0 && REAL(write)(fd, text, (size_t)n) == n)
        REAL(close)(fd);
}

/* Is `name` among TORTURE_CALLS? */
static int is_chosen(const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = calls; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (!strncmp(p, name, n) && (p[n] == ',' || p[n] == 0))
            return 1;
    return 0;
}

static int is_below(const char *path)
{
    return !under || (path && !strncmp(path, under, strlen(under)));
}

/* The path of a descriptor; "" when it has none. */
static const char *path_of(int fd, char buf[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const int before = errno;
    const ssize_t n = readlink(link, buf, PATH_MAX - 1);
    errno = before;
    buf[n > 0 ? n : 0] = 0;
    return buf;
}

/* Counts the call. 1: it is to be hit (errno is set); kills the process where that is wanted. */
static int hit(const char *name, const char *path)
{
    if (!calls || !counted || !is_chosen(name) || !is_below(path))
        return 0;
    const long k = atomic_fetch_add(counted, 1) + 1;
    const long most = forever ? (error_number == EINTR ? at + 999 : LONG_MAX) : at;
    if (at == 0 || k < at || k > most)
        return 0;
    if (kills == SIGKILL && getpid() != owner)
        kill(owner, SIGKILL);
    if (kills)
        raise(kills);
    errno = error_number;
    return 1;
}

static int hit_fd(const char *name, int fd)
{
    char buf[PATH_MAX];
    return calls ? hit(name, under ? path_of(fd, buf) : NULL) : 0;
}

static void trace(const char *op, const char *path, long long offset, size_t n, const void *data,
                  const char *path2)
{
    char line[3 * PATH_MAX];
    if (trace_fd < 0 || !is_below(path))
        return;
    const int before = errno;
    const int m = snprintf(line, sizeof line, "%s\t%s\t%lld\t%zu\t%s\n", op, path, offset, n,
                           path2 ? path2 : "");
    const struct iovec parts[] = {{line, (size_t)m}, {(void *)data, data ? n : 0}};
    const ssize_t all = (ssize_t)((size_t)m + parts[1].iov_len);
    if (writev(trace_fd, parts, 2) != all) /* one record of one process at a time */
        abort();
    errno = before;
}

static void trace_fd_call(const char *op, int fd, long long offset, size_t n, const void *data)
{
    char buf[PATH_MAX];
    if (trace_fd >= 0)
        trace(op, path_of(fd, buf), offset, n, data, NULL);
}

/* --- calls --- */

static int open_any(const char *name, int dir, const char *path, int flags, mode_t mode)
{
    if (hit(name, path) || ((flags & (O_CREAT | O_ACCMODE)) && hit("create", path)))
        return -1;
    const int fd = REAL(openat)(dir, path, flags, mode);
    if (fd >= 0 && (flags & O_CREAT))
        trace("create", path, 0, (flags & O_TRUNC) != 0, NULL, NULL);
    return fd;
}

#define OPEN_MODE(last)                                                                            \
    mode_t mode = 0;                                                                               \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                           \
        va_list list;                                                                              \
        va_start(list, last);                                                                      \
        mode = va_arg(list, mode_t);                                                               \
        va_end(list);                                                                              \
    }

int open(const char *path, int flags, ...)
{
    OPEN_MODE(flags)
    return open_any("open", AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    OPEN_MODE(flags)
    return open_any("open", AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    OPEN_MODE(flags)
    return open_any("open", dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
    OPEN_MODE(flags)
    return open_any("open", dir, path, flags | O_LARGEFILE, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    return hit("open", path) ? NULL : REAL(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    return hit("open", path) ? NULL : REAL(fopen64)(path, mode);
}

int close(int fd)
{
    if (hit_fd("close", fd)) {
        const int e = errno; /* as Linux does it: the descriptor is closed all the same */
        REAL(close)(fd);
        errno = e;
        return -1;
    }
    return REAL(close)(fd);
}

static size_t some_of(size_t n)
{
    return n > 1 ? n / 2 : n;
}

ssize_t read(int fd, void *out, size_t n)
{
    if (hit_fd("read", fd))
        return shortens ? REAL(read)(fd, out, some_of(n)) : -1;
    return REAL(read)(fd, out, n);
}

ssize_t pread(int fd, void *out, size_t n, off_t offset)
{
    if (hit_fd("read", fd))
        return shortens ? REAL(pread)(fd, out, some_of(n), offset) : -1;
    return REAL(pread)(fd, out, n, offset);
}

ssize_t pread64(int fd, void *out, size_t n, off64_t offset)
{
    return pread(fd, out, n, offset);
}

ssize_t write(int fd, const void *in, size_t n)
{
    if (hit_fd("write", fd)) {
        if (!shortens)
            return -1;
        n = some_of(n);
    }
    const off_t offset = trace_fd >= 0 ? lseek(fd, 0, SEEK_CUR) : 0;
    const ssize_t done = REAL(write)(fd, in, n);
    if (done > 0)
        trace_fd_call("write", fd, offset, (size_t)done, in);
    return done;
}

ssize_t pwrite(int fd, const void *in, size_t n, off_t offset)
{
    if (hit_fd("write", fd)) {
        if (!shortens)
            return -1;
        n = some_of(n);
    }
    const ssize_t done = REAL(pwrite)(fd, in, n, offset);
    if (done > 0)
        trace_fd_call("write", fd, offset, (size_t)done, in);
    return done;
}

ssize_t pwrite64(int fd, const void *in, size_t n, off64_t offset)
{
    return pwrite(fd, in, n, offset);
}

int ftruncate(int fd, off_t length)
{
    if (hit_fd("ftruncate", fd))
        return -1;
    const int r = REAL(ftruncate)(fd, length);
    if (r == 0)
        trace_fd_call("truncate", fd, length, 0, NULL);
    return r;
}

int ftruncate64(int fd, off64_t length)
{
    return ftruncate(fd, length);
}

int fsync(int fd)
{
    if (hit_fd("fsync", fd))
        return -1;
    const int r = REAL(fsync)(fd);
    if (r == 0)
        trace_fd_call("fsync", fd, 0, 0, NULL);
    return r;
}

int fdatasync(int fd)
{
    if (hit_fd("fsync", fd))
        return -1;
    const int r = REAL(fdatasync)(fd);
    if (r == 0)
        trace_fd_call("fsync", fd, 0, 0, NULL);
    return r;
}

int flock(int fd, int what)
{
    return hit_fd("flock", fd) ? -1 : REAL(flock)(fd, what);
}

int fstat(int fd, struct stat *s)
{
    return hit_fd("fstat", fd) ? -1 : REAL(fstat)(fd, s);
}

int fstat64(int fd, struct stat64 *s)
{
    return hit_fd("fstat", fd) ? -1 : REAL(fstat64)(fd, s);
}

int stat(const char *path, struct stat *s)
{
    return hit("stat", path) ? -1 : REAL(stat)(path, s);
}

char *realpath(const char *path, char *out)
{
    return hit("realpath", path) ? NULL : REAL(realpath)(path, out);
}

int rename(const char *from, const char *to)
{
    if (hit("rename", to))
        return -1;
    const int r = REAL(rename)(from, to);
    if (r == 0)
        trace("rename", from, 0, 0, NULL, to);
    return r;
}

int unlink(const char *path)
{
    if (hit("unlink", path))
        return -1;
    const int r = REAL(unlink)(path);
    if (r == 0)
        trace("unlink", path, 0, 0, NULL, NULL);
    return r;
}

int mkdir(const char *path, mode_t mode)
{
    return hit("mkdir", path) ? -1 : REAL(mkdir)(path, mode);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    if (hit("pthread_create", under))
        return errno;
    return REAL(pthread_create)(thread, attr, start, arg);
}
