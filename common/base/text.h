/*
 * text.h - names in any script, made safe to print and fitted into columns.
 */
#ifndef WSI_TEXT_H
#define WSI_TEXT_H

#include <stddef.h>

/*
 * A column is one cell of a terminal: wide characters (Chinese, Japanese, Korean) take two,
 * combining marks take none. The rules are those of the C.UTF-8 locale, whatever the user's
 * locale is. Any thread.
 */

/* Columns that `s` takes once it is printable (see text_fit). */
int text_columns(const char *s);

/* Copies `s` into out[size] as printable UTF-8: a control character (or one that changes the
 * direction of text) becomes '?', a byte that is not UTF-8 becomes U+FFFD. If `s` takes more than
 * `columns` columns, its middle is replaced by one "…". What does not fit into `size` bytes is
 * cut off between characters. 4 bytes per byte of `s` are always enough. Returns the columns of
 * `out`. */
int text_fit(char *out, size_t size, const char *s, int columns);

/* --- characters: how long they are, and which must not be printed --- */

/* Bytes of the character that begins at `s`; 0: it is not UTF-8. 1 at the end of the text. */
size_t utf8_length(const char *s);

/* How many bytes the character at `s` has if it must not reach a terminal, else 0: control
 * characters (C0, DEL, and C1 as UTF-8 or as single bytes), and those that reorder the text around
 * them or end a line, such as U+202E. All texts for people are judged here. */
size_t utf8_unsafe(const char *s);

#endif
