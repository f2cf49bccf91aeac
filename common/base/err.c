/* err.c - see err.h. */
#include "common/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Length of the UTF-8 sequence of a printable character at s, or 0. */
static int printable(const unsigned char *s)
{
    if (s[0] < 0x80)
        return s[0] >= 32 && s[0] != 127;
    const int n = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                  : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    for (int k = 1; k < n; k++)
        if ((s[k] & 0xc0) != 0x80)
            return 0;
    return s[0] == 0xc2 && s[1] < 0xa0 ? 0 : n;
}

void err_clean(char *text)
{
    for (unsigned char *s = (unsigned char *)text; *s;) {
        const int n = printable(s);
        if (n == 0 && (*s < 0xa0 || *s == 0xc2)) /* other single bytes are letters of Latin-1 */
            *s = '?';
        s += n ? n : 1;
    }
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
