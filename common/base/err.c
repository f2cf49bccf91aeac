/* err.c - see err.h. */
#include "common/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Length of the UTF-8 sequence at s, or 0. */
static size_t sequence(const unsigned char *s)
{
    const size_t n = s[0] < 0x80                   ? 1
                     : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                     : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                     : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                   : 0;
    for (size_t k = 1; k < n; k++)
        if ((s[k] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* U+2028 to U+202E, U+200E, U+200F; U+2066 to U+2069: the marks that reorder text, and separators
 * of lines. */
static int is_direction(const unsigned char *s)
{
    return s[0] == 0xe2 &&
           ((s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae))) ||
            (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9));
}

size_t err_unsafe(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    const size_t n = sequence(s);
    switch (n) {
    case 0: return *s < 0xa0 || *s == 0xc2; /* other single bytes are letters of Latin-1 */
    case 1: return *s && (*s < 32 || *s == 127);
    case 2: return (*s == 0xc2 && s[1] < 0xa0) || (*s == 0xd8 && s[1] == 0x9c) ? 2 : 0;
    case 3: return is_direction(s) ? 3 : 0;
    default: return 0;
    }
}

void err_clean(char *text)
{
    char *out = text;
    while (*text) {
        const size_t bad = err_unsafe(text), n = sequence((unsigned char *)text);
        if (bad)
            *out++ = '?';
        else
            for (size_t k = 0; k < (n ? n : 1); k++)
                *out++ = text[k];
        text += bad ? bad : n ? n : 1;
    }
    *out = 0;
}

int err_set(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    err_clean(e->msg);
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
    err_clean(e->msg);
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
    err_clean(e->msg);
    return -1;
}

bool err_is_trouble(const struct err *e)
{
    static const int codes[] = {
        EIO,        ESTALE,    ENOSPC,    EDQUOT,    EROFS,        ENOMEM,      EMFILE,
        ENFILE,     ETIMEDOUT, EREMOTEIO, EHOSTDOWN, ENOTCONN,     ENODEV,      ENXIO,
        ECONNRESET, ESHUTDOWN, EAGAIN,    ENOLCK,    EHOSTUNREACH, ENETUNREACH, ECONNREFUSED};
    static const char *const words[] = {"out of memory", "no space left", "too little disk space",
                                        "(cuda:"};
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++)
        if (strstr(e->msg, strerror(codes[k])))
            return true;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (strstr(e->msg, words[k]))
            return true;
    return false;
}
