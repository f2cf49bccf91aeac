/* csv.c - see csv.h. */
#include "common/base/csv.h"

#include "common/base/text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { MOST_TEXT = 1 << 16 }; /* bytes of a text once it is printable */

/* Does a formula begin here, perhaps after apostrophes? */
static bool is_formula(const char *s)
{
    s += strspn(s, "'");
    return *s && strchr("=+-@\t\r\n", *s);
}

void csv_exact(FILE *f, const char *s)
{
    fputs(is_formula(s) ? "\"'" : "\"", f);
    for (; *s; s++) {
        if (*s == '"')
            putc('"', f);
        putc(*s, f);
    }
    putc('"', f);
}

void csv_text(FILE *f, const char *s)
{
    char text[MOST_TEXT];
    text_fit(text, sizeof text, s, MOST_TEXT);
    csv_exact(f, text);
}

void csv_number(FILE *f, double x)
{
    if (isfinite(x))
        fprintf(f, "%.10g", x);
}

const char *csv_original(const char *cell)
{
    return *cell == '\'' && is_formula(cell) ? cell + 1 : cell;
}
