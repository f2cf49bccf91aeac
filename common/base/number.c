/* number.c - see number.h. */
#include "common/base/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads decimal digits; leaves *text after them. -1 when there are none or they overflow. */
int number_digits(const char **text, int64_t *out)
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
    if (number_digits(&s, &v))
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
    if (number_digits(&s, &v) || *s)
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
    if (number_digits(&s, first))
        goto bad;
    *last = *first;
    if (*s == '-' && (s++, number_digits(&s, last)))
        goto bad;
    if (*s || *first < 1 || *last < *first)
        goto bad;
    return 0;
bad:
    return err_set(e, "%s %s: not a range such as 1-4 or 3, counted from 1", what, text);
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

/* A whole number from the environment, or `otherwise` (Grid Engine sets "undefined"). */
static int64_t environment(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    int64_t v;
    return text && !number_digits(&text, &v) && !*text ? v : otherwise;
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

int task_parse(const char *text, int64_t *task, int64_t *tasks, struct err *e)
{
    static const char *const slurm[4] = {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN",
                                         "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP"};
    static const char *const sge[4] = {"SGE_TASK_ID", "SGE_TASK_FIRST", "SGE_TASK_LAST",
                                       "SGE_TASK_STEPSIZE"};
    const char *s = text;
    if (!strcmp(text, "auto")) {
        const int found = array_task(slurm, task, tasks);
        if (found < 0) /* --array=3,7: which share of how many was meant? */
            return err_set(
                e, "--task auto: the tasks of this array are not evenly spaced; give --task "
                   "I/N with the N of the whole array");
        if (found || array_task(sge, task, tasks))
            return 0;
        return err_set(e, "--task auto: not inside an array job of Slurm or Grid Engine");
    }
    if (number_digits(&s, task) || *s++ != '/' || number_digits(&s, tasks) || *s || *task < 1 ||
        *task > *tasks)
        return err_set(e, "--task %s: not a share such as 3/10, or auto", text);
    return 0;
}
