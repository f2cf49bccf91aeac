/* html.c - see html.h. */
#include "process/draw/html.h"

#include "common/base/json.h"
#include "common/base/text.h"
#include "page_files.h" /* made by the Makefile: each file's bytes, and its SHA-256 in hex */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

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

/* --- what pages share --- */

static void put_hash(FILE *f, const char *hex)
{
    uint8_t bytes[32];
    for (int k = 0; k < 32; k++) {
        const int high = hex[2 * k], low = hex[2 * k + 1];
        bytes[k] = (uint8_t)((high > '9' ? high - 'a' + 10 : high - '0') << 4 |
                             (low > '9' ? low - 'a' + 10 : low - '0'));
    }
    fputs("'sha256-", f);
    html_base64(f, bytes, sizeof bytes);
    putc('\'', f);
}

void page_begin(FILE *f, enum page_kind kind, const char *title)
{
    const bool live = kind == PAGE_LIVE;
    fputs(live ? PAGE_LIVE_HEAD : PAGE_REPORT_HEAD, f);
    fputs("<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "base-uri 'none'; form-action 'none'; img-src data:",
          f);
    fputs(live ? " file:; style-src " : "; style-src ", f);
    put_hash(f, page_css_sha256);
    fputs("; script-src ", f);
    put_hash(f, live ? live_js_sha256 : page_js_sha256);
    fputs(live ? " file:\">\n" : "\">\n", f);
    fputs("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"referrer\" content=\"no-referrer\">\n<title>",
          f);
    html_text(f, title);
    fputs("</title>\n<style>", f);
    fwrite(page_css, 1, sizeof page_css, f);
    fputs("</style>\n</head>\n<body>\n", f);
}

void page_script(FILE *f, enum page_kind kind)
{
    fputs("<script>", f);
    if (kind == PAGE_LIVE)
        fwrite(live_js, 1, sizeof live_js, f);
    else
        fwrite(page_js, 1, sizeof page_js, f);
    fputs("</script>\n", f);
}
