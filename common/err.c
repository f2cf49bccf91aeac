/* err.c - see err.h. */
#include "common/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Control characters of a hostile file name or property must not reach a terminal or a JSON line. */
static void clean(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 32 || *s == 127)
            *s = '?';
}

int err_set(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    clean(e->msg);
    return -1;
}

int err_sys(struct err *e, const char *fmt, ...)
{
    int code = errno;
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", strerror(code));
    clean(e->msg);
    return -1;
}

int err_add(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -1;
    struct err old = *e;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", old.msg);
    clean(e->msg);
    return -1;
}
