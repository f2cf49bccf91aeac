/* read_at.c - see read_at.h. */
#include "common/base/read_at.h"

#include "common/base/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

size_t read_at_least(int fd, uint64_t at, void *out, size_t least, size_t most)
{
    size_t have = 0;
    while (have < least) {
        const ssize_t got = pread(fd, (char *)out + have, most - have, (off_t)(at + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = 0;
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have;
}

size_t read_at(int fd, uint64_t at, void *out, size_t n)
{
    return read_at_least(fd, at, out, n, n);
}

int write_whole(int fd, const void *bytes, size_t n)
{
    for (const char *at = bytes; n > 0;) {
        const ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        at += done;
        n -= (size_t)done;
    }
    return 0;
}

int write_at(int fd, uint64_t at, const void *bytes, size_t n)
{
    for (size_t have = 0; have < n;) {
        const ssize_t done = pwrite(fd, (const char *)bytes + have, n - have, (off_t)(at + have));
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        have += (size_t)done;
    }
    return 0;
}

/* --- streams --- */

enum { STEP_MS = 100 }; /* between two looks for a signal */

/* The descriptor is the cookie itself. Waits until there are bytes, or no writer any more. A signal
 * may come just before poll(). */
static ssize_t wait_and_read(void *cookie, char *out, size_t n)
{
    struct pollfd p = {.fd = (int)(intptr_t)cookie, .events = POLLIN};
    errno = EINTR;
    while (!stop_signal()) {
        const int ready = poll(&p, 1, STEP_MS);
        const ssize_t got = ready > 0 ? read(p.fd, out, n) : ready;
        if (got < 0 ? errno != EINTR && errno != EAGAIN : ready > 0)
            return got;
        errno = EINTR;
    }
    return -1;
}

static int close_stream(void *cookie)
{
    const int fd = (int)(intptr_t)cookie;
    return fd == STDIN_FILENO ? 0 : close(fd);
}

FILE *read_named(const char *path)
{
    static const cookie_io_functions_t calls = {.read = wait_and_read, .close = close_stream};
    const int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : STDIN_FILENO;
    FILE *f = fd < 0 ? NULL : fopencookie((void *)(intptr_t)fd, "r", calls);
    if (fd >= 0 && !f)
        close_stream((void *)(intptr_t)fd);
    return f;
}
