/* fuzz.c - see fuzz.h. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int fuzz_accepted;

void fuzz_fail(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

static char file[FUZZ_PATH];
static char folder[FUZZ_PATH]; /* of a series; "" until there was one */
enum { MOST_FILES = 6 };

static void name_in_folder(char path[FUZZ_PATH], int k)
{
    snprintf(path, FUZZ_PATH, "%.40s/%d.dcm", folder, k);
}

static void drop_files(void)
{
    char path[FUZZ_PATH];
    unlink(file);
    for (int k = 0; k < MOST_FILES && *folder; k++) {
        name_in_folder(path, k);
        unlink(path);
    }
    if (*folder)
        rmdir(folder);
}

/* A crash leaves the files. */
static void name_files(void)
{
    snprintf(file, sizeof file, "%s/fuzz-%d", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm",
             (int)getpid());
    atexit(drop_files);
}

static void write_file(const char *path, const uint8_t *data, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_MUST(fd >= 0);
    for (size_t done = 0; done < n;) {
        const ssize_t written = write(fd, data + done, n - done);
        FUZZ_MUST(written > 0);
        done += (size_t)written;
    }
    close(fd);
}

void fuzz_file(const uint8_t *data, size_t n, char path[FUZZ_PATH])
{
    if (!*file)
        name_files();
    write_file(file, data, n);
    memcpy(path, file, sizeof file);
}

static void make_folder(void)
{
    if (!*file)
        name_files();
    if (*folder)
        return;
    snprintf(folder, sizeof folder, "%.40s.d", file);
    FUZZ_MUST(mkdir(folder, 0700) == 0);
}

void fuzz_files(const uint8_t *data, size_t n, char path[FUZZ_PATH])
{
    const size_t mark = strlen(FUZZ_SERIES);
    if (n < mark || memcmp(data, FUZZ_SERIES, mark) != 0) {
        fuzz_file(data, n, path);
        return;
    }
    make_folder();
    size_t at = mark;
    for (int k = 0; k < MOST_FILES; k++) {
        uint32_t length = 0;
        char one[FUZZ_PATH];
        name_in_folder(one, k);
        unlink(one);
        if (n - at < 4)
            continue;
        for (size_t b = 0; b < 4; b++)
            length |= (uint32_t)data[at + b] << (8 * b);
        at += 4;
        const size_t bytes = length < n - at ? length : n - at;
        write_file(one, data + at, bytes);
        at += bytes;
    }
    name_in_folder(path, 0);
}
