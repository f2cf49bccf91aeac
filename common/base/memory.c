/* memory.c - see memory.h. */
#include "common/base/memory.h"

#include "common/base/cli.h"
#include "common/base/publish.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_LIST = 8 }; /* elements of the shortest list, a power of two */

static void (*before_end)(void);

void memory_before_end(void (*f)(void))
{
    before_end = f;
}

void memory_end(void)
{
    void (*f)(void) = before_end;
    before_end = NULL;
    if (f)
        f();
    publish_abort_all();
    cli_say("%s", err_out_of_memory());
    _exit(EXIT_TROUBLE); /* other threads still use what exit() would take down */
}

void *memory_need(size_t n, size_t each)
{
    void *p = calloc(n ? n : 1, each);
    if (!p)
        memory_end();
    return p;
}

char *memory_copy_part(const char *text, size_t n)
{
    char *copy = strndup(text, n);
    if (!copy)
        memory_end();
    return copy;
}

char *memory_copy(const char *text)
{
    return memory_copy_part(text, strlen(text));
}

char *memory_print(const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    const int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        memory_end();
    return text;
}

FILE *memory_stream(char **text, size_t *bytes)
{
    FILE *f = open_memstream(text, bytes);
    if (!f)
        memory_end();
    return f;
}

void memory_stream_end(FILE *f)
{
    const bool bad = ferror(f);
    if (fclose(f) || bad)
        memory_end();
}

/* An element of a set: a text, NUL, and what it was added with. */
struct noted {
    const char *of;
    char text[];
};

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct noted *)a)->text, ((const struct noted *)b)->text);
}

const char *memory_note(void **set, const char *text, const char *of)
{
    const size_t n = strlen(text) + 1, m = strlen(of) + 1;
    struct noted *new = memory_need(1, sizeof *new + n + m);
    memcpy(new->text, text, n);
    new->of = memcpy(new->text + n, of, m);
    struct noted *const *first = tsearch(new, set, by_text);
    if (!first)
        memory_end();
    if (*first == new)
        return NULL;
    free(new);
    return (*first)->of;
}

static int against_text(const void *text, const void *b)
{
    return strcmp(text, ((const struct noted *)b)->text);
}

const char *memory_noted(void *const *set, const char *text)
{
    struct noted *const *found = tfind(text, set, against_text);
    return found ? (*found)->of : NULL;
}

void memory_forget(void **set)
{
    tdestroy(*set, free);
    *set = NULL;
}

void *memory_try(size_t n, size_t each, struct err *e)
{
    size_t bytes;
    const bool fits = !__builtin_mul_overflow(n, each, &bytes);
    void *p = malloc(!fits ? SIZE_MAX : bytes ? bytes : 1);
    if (!p)
        err_memory(e);
    return p;
}

void *memory_try_zero(size_t n, size_t each, struct err *e)
{
    void *p = calloc(n ? n : 1, each ? each : 1);
    if (!p)
        err_memory(e);
    return p;
}

void *memory_grow(void *list, int64_t n, size_t each)
{
    const size_t have = (size_t)n, most = SIZE_MAX / 2 / each;
    if (have != 0 && (have < LEAST_LIST || (have & (have - 1)) != 0))
        return list;
    void *more = have > most ? NULL : realloc(list, (have ? 2 * have : LEAST_LIST) * each);
    if (!more)
        memory_end();
    return more;
}
