/*
 * where.c - reports in which library a program crashed (LD_PRELOAD): a line "crashed in FILE" on
 * stderr, then the signal takes its usual effect. So a crash of ours can be told from one of a
 * library's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static void crashed(int number, siginfo_t *info, void *context)
{
    Dl_info where = {0};
    char line[512];
    (void)info;
#if defined(__x86_64__)
    dladdr((void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP], &where);
#elif defined(__aarch64__)
    dladdr((void *)((ucontext_t *)context)->uc_mcontext.pc, &where);
#else
    (void)context;
#endif
    const int n = snprintf(line, sizeof line, "crashed in %s (%s)\n",
                           where.dli_fname ? where.dli_fname : "?",
                           where.dli_sname ? where.dli_sname : "?");
    if (write(2, line, (size_t)n) == n)
        signal(number, SIG_DFL);
    raise(number);
}

__attribute__((constructor)) static void begin(void)
{
    static char stack[65536];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = crashed;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND;
    sigaltstack(&other, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGABRT, &action, NULL);
}
