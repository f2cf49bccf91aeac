/* err.c - see err.h. */
#include "common/base/err.h"

#include "common/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
ERR_PRINTF(3, 0)
static int set(struct err *e, const char *follows, const char *fmt, va_list ap)
{
    if (!e)
        return -1;
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    const size_t n = strlen(e->msg);
    if (follows)
        snprintf(e->msg + n, sizeof e->msg - n, ": %s", follows);
    err_clean(e->msg);
    return -1;
}

int err_set(struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(e, NULL, fmt, ap);
    va_end(ap);
    return -1;
}

int err_sys(struct err *e, const char *fmt, ...)
{
    const char *text = strerror(errno);
    va_list ap;
    va_start(ap, fmt);
    set(e, text, fmt, ap);
    va_end(ap);
    return -1;
}

int err_add(struct err *e, const char *fmt, ...)
{
    const struct err old = e ? *e : (struct err){""};
    va_list ap;
    va_start(ap, fmt);
    set(e, old.msg, fmt, ap);
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

bool err_is_trouble(const struct err *e)
{
    static const int codes[] = {
        EIO,        ESTALE,    ENOSPC,    EDQUOT,    EROFS,        ENOMEM,      EMFILE,
        ENFILE,     ETIMEDOUT, EREMOTEIO, EHOSTDOWN, ENOTCONN,     ENODEV,      ENXIO,
        ECONNRESET, ESHUTDOWN, EAGAIN,    ENOLCK,    EHOSTUNREACH, ENETUNREACH, ECONNREFUSED};
    static const char *const words[] = {"out of memory",
                                        "no space left",
                                        "too little disk space",
                                        "changed while it was read",
                                        "(cuda:",
                                        "of the CUDA driver",
                                        "the disk is full",
                                        "temporary file for",
                                        "the temporary file is gone",
                                        "open for writing",
                                        "cannot be opened now"};
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++)
        if (strstr(e->msg, strerror(codes[k])))
            return true;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (strstr(e->msg, words[k]))
            return true;
    return false;
}
