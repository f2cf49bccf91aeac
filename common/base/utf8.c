/* utf8.c - see utf8.h. */
#include "common/base/utf8.h"

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
