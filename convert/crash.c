/* crash.c - see crash.h. */
#include "convert/crash.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define VARIABLE "WSI2H5_CRASHED"
enum { STATE = 256, MOST_CRASHES = 64, ENTRY = 24 };

static const size_t none = (size_t)-1;
static __thread size_t slide_now = (size_t)-1; /* of this thread, or none */
static volatile size_t slide_of_others = (size_t)-1;
static char **arguments;
/* "VARIABLE=state;slide:signal;..." for the environment of the next run */
static char note[sizeof VARIABLE + STATE + MOST_CRASHES * ENTRY];
static struct {
    size_t slide;
    int signal;
} crashes[MOST_CRASHES];
static int n_crashes;
static int failures = -1; /* a file in memory that survives exec: slide, 0, reason, 0, ... */
static int list = -1;     /* the same for crash_list() */

/* Appends a number; in a signal handler only few functions may be called. */
static void append(char *text, size_t v, char after)
{
    char digits[24];
    size_t n = 0, at = strlen(text);
    do
        digits[n++] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    while (n > 0)
        text[at++] = digits[--n];
    text[at++] = after;
    text[at] = 0;
}

static void on_crash(int number)
{
    extern char **environ;
    char **old = environ;
    const size_t slide = slide_now != none ? slide_now : slide_of_others;
    if (slide == none || n_crashes == MOST_CRASHES) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    append(note, slide, ':');
    append(note, (size_t)number, ';');
    while (*old && strncmp(*old, VARIABLE "=", sizeof VARIABLE) != 0)
        old++;
    if (*old) /* crash_begin() has made the entry */
        *old = note;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    execve("/proc/self/exe", arguments, environ);
    _exit(1);
}

/* Reads what a run that crashed has noted. */
static void take_over(const char *text, struct crash_state *s)
{
    int used = 0;
    if (sscanf(text,
               "%zu %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               " %lf %lf %lf %lf %d %d;%n",
               &s->next, &s->converted, &s->skipped, &s->damaged, &s->failed, &s->trouble,
               &s->source_bytes, &s->store_bytes, &s->pixels, &s->seconds, &failures, &list,
               &used) != 12 ||
        !used)
        return;
    for (text += used;
         n_crashes < MOST_CRASHES && sscanf(text, "%zu:%d;%n", &crashes[n_crashes].slide,
                                            &crashes[n_crashes].signal, &used) == 2;
         text += used)
        n_crashes++;
}

/* Does something else handle crashes: a sanitizer, or a tool that was loaded before? */
static bool is_handled(const int *numbers, size_t n)
{
    struct sigaction now;
    for (size_t k = 0; k < n; k++)
        if (sigaction(numbers[k], NULL, &now) || now.sa_flags & SA_SIGINFO ||
            now.sa_handler != SIG_DFL)
            return true;
    return false;
}

void crash_begin(char **argv, struct crash_state *s)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP};
    const char *before = getenv(VARIABLE);
    *s = (struct crash_state){0};
    if (is_handled(numbers, sizeof numbers / sizeof *numbers))
        return;
    if (before)
        take_over(before, s);
    arguments = argv;
    if (failures < 0)
        failures = memfd_create("failures", 0);
    if (list < 0)
        list = memfd_create("list", 0);
    crash_note(s);
    if (setenv(VARIABLE, "", 1)) /* an entry for the handler to replace */
        return;
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        signal(numbers[k], on_crash);
}

void crash_note(const struct crash_state *s)
{
    if (!arguments)
        return;
    snprintf(note, sizeof VARIABLE + STATE,
             VARIABLE "=%zu %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                      " %.0f %.0f %.0f %.3f %d %d;",
             s->next, s->converted, s->skipped, s->damaged, s->failed, s->trouble, s->source_bytes,
             s->store_bytes, s->pixels, s->seconds, failures, list);
    for (int k = 0; k < n_crashes; k++) {
        append(note, crashes[k].slide, ':');
        append(note, (size_t)crashes[k].signal, ';');
    }
}

void crash_failure(const char *slide, const char *reason)
{
    /* without memory for it the next run's list is shorter; messages and counts are not */
    if (failures >= 0)
        dprintf(failures, "%s%c%s%c", slide, 0, reason, 0);
}

void crash_failures(void (*put)(void *ctx, const char *slide, const char *reason), void *ctx)
{
    const off_t n = failures < 0 ? 0 : lseek(failures, 0, SEEK_END);
    if (n <= 0)
        return;
    char *text = memory_need((size_t)n + 2, 1);
    const size_t got = read_at(failures, 0, text, (size_t)n);
    memset(text + got, 0, 2);
    for (size_t at = 0; at < got;) {
        const char *slide = text + at, *reason = slide + strlen(slide) + 1;
        put(ctx, slide, reason);
        at = (size_t)(reason - text) + strlen(reason) + 1;
    }
    free(text);
}

int crash_list(void)
{
    return list;
}

void crash_slide(size_t number, bool others)
{
    slide_now = number;
    if (others)
        slide_of_others = number;
}

int crash_signal(size_t number)
{
    for (int k = 0; k < n_crashes; k++)
        if (crashes[k].slide == number)
            return crashes[k].signal;
    return 0;
}
