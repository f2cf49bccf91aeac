/* cli.c - see cli.h. */
#include "common/base/cli.h"

#include "common/base/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TEXT = 12288 }; /* bytes of a message: two paths of 4,096 bytes and more */

static const char *program_name = "wsi";

void cli_start(const char *program)
{
    int fd;
    program_name = program;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd > STDERR_FILENO)
        close(fd);
    signal(SIGXFSZ, SIG_IGN);
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
    return status == EXIT_DONE ? EXIT_PART : status;
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

/* --- numbers --- */

/* Reads decimal digits; leaves *text after them. -1 when there are none or they overflow. */
static int digits(const char **text, int64_t *out)
{
    const char *s = *text;
    int64_t v = 0;
    if (*s < '0' || *s > '9')
        return -1;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s - '0', &v))
            return -1;
    *text = s;
    *out = v;
    return 0;
}

int number_bytes(const char *what, const char *text, int64_t low, int64_t high, int64_t *out,
              struct err *e)
{
    static const char units[] = "KMGT";
    const char *s = text;
    int64_t v;
    if (digits(&s, &v))
        goto bad;
    const char *unit = *s & ~32 ? strchr(units, *s & ~32) : NULL;
    if (unit) {
        if (__builtin_mul_overflow(v, (int64_t)1 << (10 * (unit - units + 1)), &v))
            goto bad;
        s += strcmp(s + 1, "iB") && strcmp(s + 1, "B") ? 1 : strlen(s);
    }
    if (*s)
        goto bad;
    if (v < low || v > high) {
        char least[32], most[32];
        return err_set(e, "%s %s: must be between %s and %s", what, text,
                       number_size(least, (double)low), number_size(most, (double)high));
    }
    *out = v;
    return 0;
bad:
    return err_set(e, "%s %s: not a size such as 1048576, 256M or 2G", what, text);
}

int number_int(const char *what, const char *text, int64_t low, int64_t high, int64_t *out,
            struct err *e)
{
    const char *s = text;
    int64_t v;
    if (digits(&s, &v) || *s)
        return err_set(e, "%s %s: not a whole number", what, text);
    if (v < low || v > high)
        return err_set(e, "%s %s: must be between %lld and %lld", what, text, (long long)low,
                       (long long)high);
    *out = v;
    return 0;
}

int number_real(const char *what, const char *text, double low, double high, double *out,
             struct err *e)
{
    char *end;
    double v = strtod(text, &end); /* the programs never call setlocale: the point is a point */
    if (end == text || *end || !isfinite(v))
        return err_set(e, "%s %s: not a number", what, text);
    if (v < low || v > high)
        return err_set(e, "%s %s: must be between %g and %g", what, text, low, high);
    *out = v;
    return 0;
}

int number_span(const char *what, const char *text, double least, double most, double *low,
             double *high, struct err *e)
{
    char first[64];
    const size_t n = strcspn(text, ":");
    if (!text[n] || n >= sizeof first)
        return err_set(e, "%s %s: not LOW:HIGH", what, text);
    memcpy(first, text, n);
    first[n] = 0;
    return number_real(what, first, least, most, low, e) ||
                   number_real(what, text + n + 1, least, most, high, e)
               ? -1
               : 0;
}

int number_range(const char *what, const char *text, int64_t *first, int64_t *last, struct err *e)
{
    const char *s = text;
    if (digits(&s, first))
        goto bad;
    *last = *first;
    if (*s == '-' && (s++, digits(&s, last)))
        goto bad;
    if (*s || *first < 1 || *last < *first)
        goto bad;
    return 0;
bad:
    return err_set(e, "%s %s: not a range such as 1-4 or 3, counted from 1", what, text);
}

int progress_when(const char *what, const char *text, enum progress_when *out, struct err *e)
{
    if (!strcmp(text, "auto"))
        *out = PROGRESS_AUTO;
    else if (!strcmp(text, "yes"))
        *out = PROGRESS_YES;
    else if (!strcmp(text, "no"))
        *out = PROGRESS_NO;
    else
        return err_set(e, "%s %s: must be auto, yes or no", what, text);
    return 0;
}

/* A whole number from the environment, or `otherwise` (Grid Engine sets "undefined"). */
static int64_t environment(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    int64_t v;
    return text && !digits(&text, &v) && !*text ? v : otherwise;
}

/* The task of an array job from its four variables: 1, 0 when they are not set, or -1 when the
 * array has gaps. */
static int array_task(const char *const names[4], int64_t *task, int64_t *tasks)
{
    const int64_t id = environment(names[0], -1), first = environment(names[1], id);
    const int64_t last = environment(names[2], id), step = environment(names[3], 1);
    if (id < 0 || step < 1 || first < 0 || last < first || id < first || id > last ||
        (id - first) % step)
        return 0;
    *task = (id - first) / step + 1;
    *tasks = (last - first) / step + 1;
    return environment("SLURM_ARRAY_TASK_COUNT", *tasks) == *tasks ? 1 : -1;
}

int task_parse(const char *what, const char *text, int64_t *task, int64_t *tasks, struct err *e)
{
    static const char *const slurm[4] = {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN",
                                         "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP"};
    static const char *const sge[4] = {"SGE_TASK_ID", "SGE_TASK_FIRST", "SGE_TASK_LAST",
                                       "SGE_TASK_STEPSIZE"};
    const char *s = text;
    if (!strcmp(text, "auto")) {
        const int found = array_task(slurm, task, tasks);
        if (found < 0) /* --array=3,7: which share of how many was meant? */
            return err_set(e,
                           "%s auto: the tasks of this array are not evenly spaced; give "
                           "%s I/N with the N of the whole array",
                           what, what);
        if (found || array_task(sge, task, tasks))
            return 0;
        return err_set(e, "%s auto: not inside an array job of Slurm or Grid Engine", what);
    }
    if (digits(&s, task) || *s++ != '/' || digits(&s, tasks) || *s || *task < 1 || *task > *tasks)
        return err_set(e, "%s %s: not a share such as 3/10, or auto", what, text);
    return 0;
}

int cli_list(const char *file, int (*add)(void *ctx, const char *path, struct err *e), void *ctx,
             struct err *e)
{
    char *line = NULL;
    size_t size = 0;
    int r = 0;
    const bool is_stdin = !strcmp(file, "-");
    FILE *f = is_stdin ? stdin : fopen(file, "r");
    if (!f)
        return err_sys(e, "%s: cannot read the list", file);
    for (ssize_t n; r == 0 && (n = getline(&line, &size, f)) >= 0;) {
        if (memchr(line, 0, (size_t)n))
            r = err_set(e, "%s: not a list of paths: it contains NUL bytes; save it as UTF-8",
                        file);
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = 0;
        if (r == 0 && n > 0 && line[0] != '#')
            r = add(ctx, line, e);
    }
    if (r == 0 && (ferror(f) || !feof(f))) /* without memory, getline() ends before the end */
        r = err_sys(e, "%s: cannot read the list", file);
    free(line);
    if (!is_stdin)
        fclose(f);
    return r;
}

/* --- time, sizes, names --- */

double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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

const char *number_size(char buf[32], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int i = 0;
    while (bytes >= 1024 && i < 5) {
        bytes /= 1024;
        i++;
    }
    snprintf(buf, 32, bytes < 10 && i > 0 ? "%.1f %s" : "%.0f %s", bytes, units[i]);
    return buf;
}

const char *clock_text(char buf[32], double seconds)
{
    if (!(seconds >= 0 && seconds < 1e9))
        seconds = 0;
    long s = lround(seconds);
    if (seconds < 99.95)
        snprintf(buf, 32, seconds < 10 ? "%.2f s" : "%.1f s", seconds);
    else if (s < 3600)
        snprintf(buf, 32, "%ld min %02ld s", s / 60, s % 60);
    else
        snprintf(buf, 32, "%ld h %02ld min", s / 3600, s % 3600 / 60);
    return buf;
}

const char *path_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void path_drop_folder(char *message, const char *path)
{
    const size_t folder = (size_t)(path_base_name(path) - path), n = strlen(path);
    for (char *at = message; folder > 0 && (at = strstr(at, path)) != NULL; at += n - folder)
        memmove(at, at + folder, strlen(at + folder) + 1);
}

const char *path_stem(const char *path, size_t *n)
{
    const char *base = path_base_name(path);
    *n = strlen(base);
    if (*n > 3 && !strcmp(base + *n - 3, ".h5"))
        *n -= 3;
    return base;
}

/* --- JSON --- */

/* Length of the valid UTF-8 sequence at s, or 0. */
static int utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    int n = s[0] >= 0xc2 && s[0] < 0xe0   ? 2
            : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
            : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                          : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

void cli_print_text(FILE *f, const char *s)
{
    char text[MOST_TEXT];
    snprintf(text, sizeof text, "%s", s);
    err_clean(text);
    fputs(text, f);
}

/* The character of a valid sequence of at most three bytes. */
static unsigned code_of(const unsigned char *s, int n)
{
    return n == 1   ? s[0]
           : n == 2 ? (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu)
                    : (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
}

void json_write_string(FILE *f, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    fputc('"', f);
    while (*s) {
        int n = utf8_length(s);
        if (n == 0)
            fputs("\\ufffd", f);
        else if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if (err_unsafe((const char *)s))
            fprintf(f, "\\u%04x", code_of(s, n));
        else
            fwrite(s, 1, (size_t)n, f);
        s += n ? n : 1;
    }
    fputc('"', f);
}

const char *number_text(char buf[32], double x)
{
    const bool plain = fabs(x) >= 1e-4 && fabs(x) < 1e15; /* 160, not 1.6e+02 */
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, 32, "%.*g", digits, x);
        if (strtod(buf, NULL) == x && !(plain && strchr(buf, 'e')))
            break;
    }
    return buf;
}

void json_write_number(FILE *f, double x)
{
    char buf[32];
    fputs(isfinite(x) ? number_text(buf, x) : "null", f);
}
