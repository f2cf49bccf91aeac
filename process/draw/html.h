/*
 * html.h - texts and bytes of any origin, written into pages and scripts.
 *
 * Texts come from files and are hostile. Each is made printable first (text_fit): control
 * characters and those that change the direction of text become '?', invalid UTF-8 U+FFFD.
 * Errors show as ferror(f).
 */
#ifndef WSI_HTML_H
#define WSI_HTML_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* As text or as the value of an attribute in double quotes: & < > " ' become entities. */
void html_text(FILE *f, const char *s);
/* As a JSON string with its quotes. < > & and the separators U+2028 and U+2029 are escaped, so it
 * may lie within a script element. */
void html_json(FILE *f, const char *s);
/* A number with at most `digits` significant digits; null for NaN and infinities. */
void html_number(FILE *f, double x, int digits);
/* Base64 with padding, without line breaks. */
void html_base64(FILE *f, const uint8_t *bytes, size_t n);

/*
 * --- what pages share ---
 *
 * The parts that pages share: head, content security policy, style and script.
 *
 * The Makefile embeds page.css and page.js, which are beside this file, and process/run/live.js. A
 * page allows exactly these by their SHA-256, and pictures as data: URIs; it loads nothing else.
 */

/* The first bytes of reports, by which the program recognises its own. */
#define PAGE_REPORT_HEAD "<!DOCTYPE html>\n<!-- h5spec report -->\n"
#define PAGE_LIVE_HEAD "<!DOCTYPE html>\n<!-- h5spec live -->\n"

enum page_kind { PAGE_REPORT, PAGE_LIVE };

/* Everything up to <body>. */
void page_begin(FILE *f, enum page_kind kind, const char *title);
/* The script, and the end of the page. `f` may get more before it, nothing after it. */
void page_script(FILE *f, enum page_kind kind);

#endif
