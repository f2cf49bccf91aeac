/* fuzz.c - see fuzz.h. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_fail(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

int fuzz_file(const uint8_t *data, size_t n, char path[FUZZ_PATH])
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_MUST(fd >= 0);
    for (size_t done = 0; done < n;) {
        const ssize_t written = write(fd, data + done, n - done);
        FUZZ_MUST(written > 0);
        done += (size_t)written;
    }
    snprintf(path, FUZZ_PATH, "/proc/self/fd/%d", fd);
    return fd;
}
