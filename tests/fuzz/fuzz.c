/* fuzz.c - see fuzz.h. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fuzz_accepted;

void fuzz_fail(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

static char file[FUZZ_PATH];

static void drop_file(void)
{
    unlink(file);
}

/* A crash leaves the file. */
static void name_file(void)
{
    snprintf(file, sizeof file, "%s/fuzz-%d", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm",
             (int)getpid());
    atexit(drop_file);
}

void fuzz_file(const uint8_t *data, size_t n, char path[FUZZ_PATH])
{
    if (!*file)
        name_file();
    const int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_MUST(fd >= 0);
    for (size_t done = 0; done < n;) {
        const ssize_t written = write(fd, data + done, n - done);
        FUZZ_MUST(written > 0);
        done += (size_t)written;
    }
    close(fd);
    memcpy(path, file, sizeof file);
}
