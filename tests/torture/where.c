/*
 * where.c - reports in which library a program crashed (LD_PRELOAD): a line "crashed in FILE" on
 * stderr, then the signal takes its usual effect. So a crash of ours can be told from one of a
 * library's. With TORTURE_CALLER, a crash or abort() inside the C library is followed by a line
 * "called from FILE" about the one that had called it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static void report(const char *what, const Dl_info *where)
{
    char line[512];
    const int n =
        snprintf(line, sizeof line, "%s %s (%s)\n", what, where->dli_fname ? where->dli_fname : "?",
                 where->dli_sname ? where->dli_sname : "?");
    if (write(2, line, (size_t)n) != n)
        _exit(1);
}

static int is_libc(const Dl_info *where)
{
    return where->dli_fname &&
           (strstr(where->dli_fname, "/libc.so") || strstr(where->dli_fname, "/ld-linux"));
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

/* One thread reports; others wait for its end. A crash of the report itself ends the program. */
static void enter(int number)
{
    static atomic_int reporter;
    int nobody = 0;
    const int self = gettid();
    if (atomic_compare_exchange_strong(&reporter, &nobody, self))
        return;
    while (nobody != self)
        pause();
    signal(number, SIG_DFL);
    raise(number);
}

static void crashed(int number, siginfo_t *info, void *context)
{
    Dl_info where = {0};
    void *at = NULL;
    (void)info;
    enter(number);
#if defined(__x86_64__)
    at = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    at = (void *)((ucontext_t *)context)->uc_mcontext.pc;
#else
    (void)context;
#endif
    dladdr(at, &where);
    report("crashed in", &where);
    if (is_libc(&where) && getenv("TORTURE_CALLER"))
        report_caller(at);
    signal(number, SIG_DFL);
    raise(number);
}

enum { STACK_BYTES = 65536 };

struct start {
    void *(*run)(void *);
    void *arg;
};

/* A thread whose stack has overflowed needs another one, too. It lies behind the arguments. */
static void *run_with_stack(void *arg)
{
    const struct start start = *(struct start *)arg;
    const stack_t other = {.ss_sp = (struct start *)arg + 1, .ss_size = STACK_BYTES};
    sigaltstack(&other, NULL);
    return start.run(start.arg); /* the memory is left to the end of the program */
}

/* Without malloc(), which may be made to fail. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    __typeof__(&pthread_create) next = (__typeof__(next))dlsym(RTLD_NEXT, "pthread_create");
    struct start *start = mmap(NULL, sizeof *start + STACK_BYTES, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return errno;
    *start = (struct start){run, arg};
    return next(thread, attr, run_with_stack, start);
}

__attribute__((constructor)) static void begin(void)
{
    static char stack[STACK_BYTES];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action;
    void *frame[1];
    memset(&action, 0, sizeof action);
    backtrace(frame, 1); /* loads what it needs now: later there may be no memory */
    action.sa_sigaction = crashed;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaltstack(&other, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGABRT, &action, NULL);
    sigaction(SIGTRAP, &action, NULL); /* how GLib ends a program */
}
