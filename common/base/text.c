/* text.c - see text.h. */
#include "common/base/text.h"

#include <locale.h>
#include <stdatomic.h>
#include <string.h>
#include <wchar.h>

/* One character: the bytes to print and the columns they take. */
struct piece {
    char bytes[8];
    size_t n;
    int columns;
};

static void piece_set(struct piece *p, const char *bytes, size_t n, int columns)
{
    memcpy(p->bytes, bytes, n);
    p->n = n;
    p->columns = columns;
}

/* Takes the first character of `s`; returns how many bytes of `s` it is. */
static size_t piece_next(struct piece *p, const char *s)
{
    mbstate_t state = {0};
    wchar_t c;
    const size_t n = mbrtowc(&c, s, strlen(s), &state);
    if (n == 0 || n > 6) { /* not UTF-8 */
        piece_set(p, "\xef\xbf\xbd", 3, 1);
        return 1;
    }
    const int columns = wcwidth(c);
    if (columns < 0 || utf8_unsafe(s))
        piece_set(p, "?", 1, 1);
    else
        piece_set(p, s, n, columns);
    return n;
}

/* Making a locale maps its files: one serves all threads until the program ends. 0: the system has
 * none. */
static locale_t utf8_locale(void)
{
    static _Atomic(locale_t) kept;
    locale_t other = (locale_t)0, made = kept;
    if (made)
        return made;
    made = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!made || atomic_compare_exchange_strong(&kept, &other, made))
        return made;
    freelocale(made); /* another thread was faster */
    return other;
}

static locale_t utf8_begin(void)
{
    const locale_t utf8 = utf8_locale();
    return utf8 ? uselocale(utf8) : (locale_t)0;
}

static void utf8_end(locale_t before)
{
    if (before)
        uselocale(before);
}

static int columns_of(const char *s)
{
    int columns = 0;
    for (struct piece p; *s; columns += p.columns)
        s += piece_next(&p, s);
    return columns;
}

int text_columns(const char *s)
{
    const locale_t before = utf8_begin();
    const int columns = columns_of(s);
    utf8_end(before);
    return columns;
}

/* Appends a piece if it fits; returns its columns. */
static int append(char *out, size_t size, size_t *used, const struct piece *p)
{
    if (*used + p->n >= size)
        return 0;
    memcpy(out + *used, p->bytes, p->n);
    *used += p->n;
    return p->columns;
}

int text_fit(char *out, size_t size, const char *s, int columns)
{
    static const struct piece dots = {"\xe2\x80\xa6", 3, 1};
    const locale_t before = utf8_begin();
    const int total = columns_of(s);
    const int head = total <= columns ? total : columns / 2;
    const int tail = total <= columns ? 0 : columns - 1 - head;
    size_t used = 0;
    int at = 0, printed = 0, cut = 0;
    for (struct piece p; *s; at += p.columns) {
        s += piece_next(&p, s);
        if (at + p.columns <= head || at >= total - tail)
            printed += append(out, size, &used, &p);
        else if (!cut++)
            printed += append(out, size, &used, &dots);
    }
    if (size)
        out[used] = 0;
    utf8_end(before);
    return printed;
}

size_t utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    const size_t n = s[0] < 0x80                   ? 1
                     : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                     : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                     : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                   : 0;
    for (size_t k = 1; k < n; k++)
        if ((s[k] & 0xc0) != 0x80)
            return 0;
    /* longer than necessary, halves of UTF-16, beyond U+10FFFF */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
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

size_t utf8_unsafe(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    switch (utf8_length(text)) {
    case 0: return *s < 0xa0 || *s == 0xc2; /* other single bytes are letters of Latin-1 */
    case 1: return *s && (*s < 32 || *s == 127);
    case 2: return (*s == 0xc2 && s[1] < 0xa0) || (*s == 0xd8 && s[1] == 0x9c) ? 2 : 0;
    case 3: return is_direction(s) ? 3 : 0;
    default: return 0;
    }
}
