/* html.c - see html.h. */
#include "process/draw/html.h"

#include "common/base/json.h"
#include "common/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 1 << 16 }; /* bytes of a text once it is printable */

static const char *printable(char out[MOST_TEXT], const char *s)
{
    text_fit(out, MOST_TEXT, s, MOST_TEXT);
    return out;
}

void html_text(FILE *f, const char *s)
{
    char text[MOST_TEXT];
    for (s = printable(text, s); *s; s++)
        switch (*s) {
        case '&': fputs("&amp;", f); break;
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '"': fputs("&quot;", f); break;
        case '\'': fputs("&#39;", f); break;
        default: putc(*s, f);
        }
}

void html_json(FILE *f, const char *s)
{
    char text[MOST_TEXT];
    json_write_escaped(f, printable(text, s), "<>&");
}

void html_number(FILE *f, double x, int digits)
{
    if (isfinite(x))
        fprintf(f, "%.*g", digits, x);
    else
        fputs("null", f);
}

void html_base64(FILE *f, const uint8_t *bytes, size_t n)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t k = 0; k < n; k += 3) {
        const uint32_t have = (uint32_t)(n - k < 3 ? n - k : 3);
        const uint32_t x = (uint32_t)bytes[k] << 16 | (have > 1 ? (uint32_t)bytes[k + 1] << 8 : 0) |
                           (have > 2 ? bytes[k + 2] : 0);
        const char out[4] = {set[x >> 18], set[x >> 12 & 63], have > 1 ? set[x >> 6 & 63] : '=',
                             have > 2 ? set[x & 63] : '='};
        fwrite(out, 1, 4, f);
    }
}
