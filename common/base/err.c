/* err.c - see err.h. */
#include "common/base/err.h"

#include "common/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

void err_clean(char *text)
{
    char *out = text;
    while (*text) {
        const size_t bad = utf8_unsafe(text), n = utf8_length(text);
        if (bad)
            *out++ = '?';
        else
            for (size_t k = 0; k < (n ? n : 1); k++)
                *out++ = text[k];
        text += bad ? bad : n ? n : 1;
    }
    *out = 0;
}

/* Sets the message; `follows` comes after ": " unless it is NULL. */
ERR_PRINTF(4, 0)
static int set(struct err *e, enum err_kind kind, const char *follows, const char *fmt, va_list ap)
{
    if (!e)
        return -1;
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    const size_t n = strlen(e->msg);
    if (follows)
        snprintf(e->msg + n, sizeof e->msg - n, ": %s", follows);
    err_clean(e->msg);
    e->kind = kind;
    return -1;
}

int err_set(struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(e, ERR_INPUT, NULL, fmt, ap);
    va_end(ap);
    return -1;
}

int err_sys(struct err *e, const char *fmt, ...)
{
    const int code = errno;
    va_list ap;
    va_start(ap, fmt);
    set(e, err_kind_of(code), strerror(code), fmt, ap);
    va_end(ap);
    return -1;
}

int err_spare_input(struct err *e)
{
    if (e && e->kind < ERR_TROUBLE)
        e->kind = ERR_TROUBLE;
    return -1;
}

int err_write(struct err *e, const char *fmt, ...)
{
    const int code = errno;
    char why[128];
    va_list ap;
    snprintf(why, sizeof why, "%s%s", strerror(code),
             code == EFBIG ? " (the limit of file sizes: ulimit -f)" : "");
    va_start(ap, fmt);
    set(e, err_kind_of(code), why, fmt, ap);
    va_end(ap);
    return err_spare_input(e);
}

int err_open(struct err *e, const char *fmt, ...)
{
    const bool none = errno == ENXIO || errno == ENODEV;
    const int code = errno;
    va_list ap;
    va_start(ap, fmt);
    set(e, none ? ERR_INPUT : err_kind_of(code), none ? "not a regular file" : strerror(code), fmt,
        ap);
    va_end(ap);
    return -1;
}

int err_blame(struct err *e, enum err_kind kind, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(e, kind, NULL, fmt, ap);
    va_end(ap);
    return -1;
}

const char *err_out_of_memory(void)
{
    struct rlimit most;
    return getrlimit(RLIMIT_AS, &most) || most.rlim_cur == RLIM_INFINITY
               ? "out of memory"
               : "out of memory (the limit of this process: ulimit -v)";
}

int err_memory(struct err *e)
{
    return err_blame(e, ERR_MEMORY, "%s", err_out_of_memory());
}

int err_copy(struct err *e, const struct err *from)
{
    if (e && e != from)
        *e = *from;
    return -1;
}

int err_add(struct err *e, const char *fmt, ...)
{
    const struct err old = e ? *e : (struct err){"", ERR_INPUT};
    va_list ap;
    va_start(ap, fmt);
    set(e, old.kind, old.msg, fmt, ap);
    va_end(ap);
    return -1;
}

static void append(struct err *e, const char *text, size_t n)
{
    const size_t used = strlen(e->msg);
    snprintf(e->msg + used, sizeof e->msg - used, "%.*s", (int)n, text);
}

void err_replace(struct err *e, const char *what, const char *by)
{
    const struct err old = *e;
    const size_t n = strlen(what);
    const char *from = old.msg;
    e->msg[0] = 0;
    for (const char *at; n && (at = strstr(from, what)); from = at + n) {
        append(e, from, (size_t)(at - from));
        append(e, by, strlen(by));
    }
    append(e, from, strlen(from));
}

enum err_kind err_kind_of(int code)
{
    switch (code) {
    case ENOENT:
    case ENOTDIR:
    case EACCES: return ERR_ABSENT;
    case ENOMEM: return ERR_MEMORY;
    case ENOSPC:
    case EDQUOT: return ERR_DISK;
    case EIO:
    case ESTALE:
    case EROFS:
    case EMFILE:
    case ENFILE:
    case EINTR:
    case EAGAIN:
    case EBUSY:
    case ETXTBSY:
    case EXDEV: /* of rename() within a folder */
    case ENOSYS:
    case ENOLCK:
    case ENODEV:
    case ENXIO:
    case ETIMEDOUT:
    case EREMOTEIO:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENOTCONN:
    case ECONNREFUSED:
    case ECONNRESET:
    case ESHUTDOWN: return ERR_TROUBLE;
    default: return ERR_INPUT;
    }
}

bool err_is_trouble(const struct err *e)
{
    return e->kind >= ERR_TROUBLE;
}
