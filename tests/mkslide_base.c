/* mkslide_base.c - errors, memory and text; see mkslide.h. */
#include "mkslide.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noreturn)) static void die_status(int status, const char *fmt, va_list ap)
{
    fputs("mkslide: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    exit(status);
}

void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    die_status(1, fmt, ap);
}

void die_usage(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    die_status(2, fmt, ap);
}

void *alloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        die("out of memory");
    return p;
}

char *text_make(const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        die("out of memory");
    va_end(ap);
    return text;
}

void mem_write(struct mem *m, const void *data, size_t n)
{
    if (m->pos + n > m->cap) {
        m->cap = 2 * (m->pos + n);
        m->data = realloc(m->data, m->cap);
        if (!m->data)
            die("out of memory");
    }
    if (n)
        memcpy(m->data + m->pos, data, n);
    m->pos += n;
    m->len = m->pos > m->len ? m->pos : m->len;
}

void mem_set(struct mem *m, const void *data, size_t n)
{
    m->pos = m->len = 0;
    mem_write(m, data, n);
}
