/* cli.c - see cli.h. */
#include "common/base/cli.h"

#include "common/base/progress.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST_TEXT = 12288 }; /* bytes of a message: two paths of 4,096 bytes and more */

static const char *program_name = "wsi";

/* Libraries crash without a message where the stack, of the process or of a thread, is too small. */
static void check_stack(void)
{
    enum { NEEDED = 512 << 10 };
    struct rlimit most;
    if (getrlimit(RLIMIT_STACK, &most) || most.rlim_cur >= NEEDED)
        return;
    fprintf(stderr, "%s: the stack may have %ld KiB only; %d are needed: ulimit -s %d\n",
            program_name, (long)most.rlim_cur >> 10, NEEDED >> 10, NEEDED >> 10);
    _exit(EXIT_TROUBLE);
}

void cli_start(const char *program)
{
    int fd;
    program_name = program;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd > STDERR_FILENO)
        close(fd);
    signal(SIGXFSZ, SIG_IGN);
    check_stack();
}

int cli_finish(int status)
{
    struct err e;
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return status;
    if (errno)
        err_sys(&e, "cannot write to standard output");
    else
        err_set(&e, "cannot write to standard output; some of it is missing");
    cli_say("%s", e.msg);
    return status == EXIT_DONE ? EXIT_TROUBLE : status;
}

int cli_failed(const struct err *e)
{
    cli_say("%s", e->msg);
    return stop_signal() ? EXIT_STOPPED : err_is_trouble(e) ? EXIT_TROUBLE : EXIT_PART;
}

int cli_worst(int a, int b)
{
    static const int order[] = {EXIT_STOPPED, EXIT_TROUBLE, EXIT_PART, EXIT_DAMAGED};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        if (a == order[k] || b == order[k])
            return order[k];
    return EXIT_DONE;
}

/* --- messages --- */

static void say(const char *name, const char *fmt, va_list ap)
{
    char text[MOST_TEXT]; /* not allocated: there must be a message when memory is short */
    vsnprintf(text, sizeof text, fmt, ap);
    err_clean(text);
    progress_clear();
    fprintf(stderr, "%s: %s\n", name, text);
}

void cli_say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(program_name, fmt, ap);
    va_end(ap);
}

void cli_say_as(const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(name, fmt, ap);
    va_end(ap);
}

/* Spaces at the ends, the quotes of a table, and the separators of its empty cells are no part of a
 * path, unless a file has that name. */
static char *clean_line(char *line)
{
    char *from = line + strspn(line, " \t"), *to = from;
    if (access(line, F_OK) == 0)
        return line;
    if (*from == '"') {
        for (char *s = ++from; *s && (*s != '"' || *++s == '"'); s++)
            *to++ = *s;
        *to = 0;
        return to > from - 1 ? from - 1 : to;
    }
    for (size_t n = strlen(from); n > 0 && strchr(" \t,;", from[n - 1]); n--)
        from[n - 1] = 0;
    return from;
}

enum { MOST_LINE = 1 << 16 };

/* The bytes of the next line, with its end; or -1. MOST_LINE: there are more. */
static ssize_t next_line(FILE *f, char *line)
{
    ssize_t n = 0;
    for (int c = 0; n < MOST_LINE && c != '\n' && (c = getc_unlocked(f)) != EOF;)
        line[n++] = (char)c;
    line[n] = 0;
    return n > 0 ? n : -1;
}

int cli_list(const char *file, int (*add)(void *ctx, const char *path, struct err *e), void *ctx,
             struct err *e)
{
    ssize_t n;
    int r = 0;
    bool first = true;
    FILE *f = read_named(file);
    if (!f)
        return err_open(e, "%s: cannot read the list", file);
    char *line = malloc(MOST_LINE + 1);
    r = line ? 0 : err_memory(e);
    while (r == 0 && (n = next_line(f, line)) >= 0) {
        if (memchr(line, 0, (size_t)n))
            r = err_set(e, "%s: not a list of paths: it contains NUL bytes; save it as UTF-8",
                        file);
        else if (n == MOST_LINE)
            r = err_set(e, "%s: not a list of paths: a line has more than %d bytes", file,
                        MOST_LINE - 1);
        char *path = line;
        if (first && n >= 3 && !memcmp(line, "\xef\xbb\xbf", 3))
            path += 3;
        first = false;
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = 0;
        path = r == 0 ? clean_line(path) : path;
        if (r == 0 && *path && *path != '#')
            r = add(ctx, path, e);
    }
    if (r == 0 && ferror(f))
        r = stop_check(e) ? -1 : err_sys(e, "%s: cannot read the list", file);
    free(line);
    fclose(f);
    return r;
}

int64_t cli_peak_memory(void)
{
    struct rusage u;
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r"); /* getrusage also counts the time before exec */
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    if (kib <= 0 && !getrusage(RUSAGE_SELF, &u))
        kib = u.ru_maxrss;
    return (int64_t)kib * 1024;
}

void cli_print_text(FILE *f, const char *s)
{
    char text[MOST_TEXT];
    snprintf(text, sizeof text, "%s", s);
    err_clean(text);
    fputs(text, f);
}
