/*
 * reach.c - records which functions a program enters: gcc's hook for -finstrument-functions.
 *
 * If WSI_REACH names a folder, the file in it with the name of the program has a byte for each 16
 * bytes of code, 1 where a function begins that was entered. All processes of one test share it.
 * tests/mutate links this into programs from which it learns which tests can see which function.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAP_BYTES ((size_t)1 << 20)

extern const char begin_of_program[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

static unsigned char *map;

__attribute__((constructor)) static void open_map(void)
{
    const char *folder = getenv("WSI_REACH");
    char path[PATH_MAX];
    Dl_info self;
    if (!folder || !dladdr(begin_of_program, &self))
        return;
    const char *slash = strrchr(self.dli_fname, '/');
    snprintf(path, sizeof path, "%s/%s", folder, slash ? slash + 1 : self.dli_fname);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    fchmod(fd, 0666); /* some tests run a program as another user */
    void *p = MAP_FAILED;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN); /* others with a limit on file sizes */
    const int made = ftruncate(fd, MAP_BYTES);
    signal(SIGXFSZ, before);
    if (made == 0)
        p = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    map = p == MAP_FAILED ? NULL : p;
}

void __cyg_profile_func_enter(void *function, void *caller)
{
    const size_t k = (size_t)((const char *)function - begin_of_program) / 16;
    (void)caller;
    if (map && k < MAP_BYTES && !map[k])
        map[k] = 1;
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
}
