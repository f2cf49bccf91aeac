/*
 * utf8.h - the characters of a text: how long they are, and which must not be printed.
 */
#ifndef WSI_UTF8_H
#define WSI_UTF8_H

#include <stddef.h>

/* Bytes of the character that begins at `s`; 0: it is not UTF-8. 1 at the end of the text. */
size_t utf8_length(const char *s);

/* How many bytes the character at `s` has if it must not reach a terminal, else 0: control
 * characters (C0, DEL, and C1 as UTF-8 or as single bytes), and those that reorder the text around
 * them or end a line, such as U+202E. All programs' texts for people are judged here (text.h). */
size_t utf8_unsafe(const char *s);

#endif
