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

#endif
