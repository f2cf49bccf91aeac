/*
 * server.c - runs a program many times with its libraries loaded once; see server.h.
 */
#define _GNU_SOURCE
#include "server.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads a line without its end; 0 at the end of the input. The system call itself: a shim may
 * have replaced read(). */
static int read_line(int fd, char *line, size_t size)
{
    size_t n = 0;
    while (n + 1 < size && syscall(SYS_read, fd, line + n, 1) == 1 && line[n] != '\n')
        n++;
    const int whole = n + 1 < size && line[n] == '\n';
    line[n] = 0;
    return whole;
}

static void reply(int fd, int number)
{
    char text[32];
    const int n = snprintf(text, sizeof text, "%d\n", number);
    if (syscall(SYS_write, fd, text, n) != n)
        _exit(1);
}

/* The child: applies the settings of a line. */
static void set_up(char *line)
{
    for (char *p = strtok(line, "\t"); p; p = strtok(NULL, "\t"))
        putenv(p);
    const char *err = getenv("TORTURE_ERR");
    const int fd =
        err ? (int)syscall(SYS_openat, AT_FDCWD, err, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (fd >= 0 && fd != 2) {
        dup2(fd, 2);
        syscall(SYS_close, fd);
    }
    unsetenv("TORTURE_SERVER");
}

/* Returns in the children only. */
static void serve(const char *descriptors)
{
    static char line[65536]; /* the child's environment points into it */
    int in, out, status;
    if (sscanf(descriptors, "%d,%d", &in, &out) != 2)
        _exit(1);
    while (read_line(in, line, sizeof line)) {
        const pid_t child = fork();
        if (child == 0) {
            syscall(SYS_close, in);
            syscall(SYS_close, out);
            set_up(line);
            return;
        }
        reply(out, child);
        if (child < 0 || waitpid(child, &status, 0) != child)
            _exit(1);
        reply(out, status);
    }
    _exit(0);
}

static int (*main_of_program)(int, char **, char **);

/* Behind the program's constructors: what they allocate (that of CUDA does) is in no count. */
static int main_behind_server(int argc, char **argv, char **environment)
{
    const char *descriptors = getenv("TORTURE_SERVER");
    if (descriptors)
        serve(descriptors);
    server_begin();
    return main_of_program(argc, argv, environment);
}

int __libc_start_main(int (*main_)(int, char **, char **), int argc, char **argv,
                      void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
                      void *stack_end)
{
    __typeof__(&__libc_start_main) next = (__typeof__(next))dlsym(RTLD_NEXT, "__libc_start_main");
    main_of_program = main_;
    return next(main_behind_server, argc, argv, init, fini, rtld_fini, stack_end);
}
