/*
 * where.c - reports in which library a program crashed (LD_PRELOAD): a line "crashed in FILE" on
 * stderr, then the signal takes its usual effect. So a crash of ours can be told from one of a
 * library's. With TORTURE_CALLER, a crash or abort() inside the C library is followed by a line
 * "called from FILE" about the one that had called it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static int report(const char *what, const Dl_info *where)
{
    char line[512];
    const int n = snprintf(line, sizeof line, "%s %s (%s)\n", what,
                           where->dli_fname ? where->dli_fname : "?",
                           where->dli_sname ? where->dli_sname : "?");
    return write(2, line, (size_t)n) == n;
}

static int is_libc(const Dl_info *where)
{
    return where->dli_fname && (strstr(where->dli_fname, "/libc.so") ||
                                strstr(where->dli_fname, "/ld-linux"));
}

/* The first frame behind `at` that is not the C library's. */
static void report_caller(void *at)
{
    void *frames[64];
    Dl_info where;
    int k = 0;
    const int n = backtrace(frames, 64);
    while (k < n && frames[k] != at)
        k++;
    for (; k < n; k++)
        if (dladdr(frames[k], &where) && !is_libc(&where)) {
            report("called from", &where);
            return;
        }
}

static void crashed(int number, siginfo_t *info, void *context)
{
    Dl_info where = {0};
    void *at = NULL;
    (void)info;
#if defined(__x86_64__)
    at = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    at = (void *)((ucontext_t *)context)->uc_mcontext.pc;
#else
    (void)context;
#endif
    dladdr(at, &where);
    if (report("crashed in", &where))
        signal(number, SIG_DFL);
    if (is_libc(&where) && getenv("TORTURE_CALLER"))
        report_caller(at);
    raise(number);
}

__attribute__((constructor)) static void begin(void)
{
    static char stack[65536];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action;
    void *frame[1];
    memset(&action, 0, sizeof action);
    backtrace(frame, 1); /* loads what it needs now: later there may be no memory */
    action.sa_sigaction = crashed;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND;
    sigaltstack(&other, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGABRT, &action, NULL);
    sigaction(SIGTRAP, &action, NULL); /* how GLib ends a program */
}
