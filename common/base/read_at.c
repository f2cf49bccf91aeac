/* read_at.c - see read_at.h. */
#include "common/base/read_at.h"

#include <errno.h>
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
