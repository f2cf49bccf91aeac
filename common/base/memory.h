/*
 * memory.h - memory, and what happens without it. Any thread; all memory is for free().
 *
 * What is small (structs, names, lists) is needed: without it the program ends. The temporary files
 * of its outputs are removed (publish.h), "out of memory" is printed, and the exit status is
 * EXIT_TROUBLE. So callers have no path for it.
 *
 * What grows with a slide or with a number from a file (slabs, pixels, maps, tables of chunks) is
 * tried: without it this slide fails, and the next one may be smaller.
 *
 * Not in HDF5's plug-ins: a library does not end the program of someone else.
 */
#ifndef WSI_MEMORY_H
#define WSI_MEMORY_H

#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called once before the program ends without memory; it allocates nothing. NULL: nothing is. */
void memory_before_end(void (*f)(void));

/* --- needed --- */

/* n elements of `each` bytes, all zero. */
void *memory_need(size_t n, size_t each);
/* A copy of a text, or of the first n bytes of one. */
char *memory_copy(const char *text);
char *memory_copy_part(const char *text, size_t n);
/* A stream into a text, which appears with memory_stream_end(). *bytes: of the text. */
FILE *memory_stream(char **text, size_t *bytes);
void memory_stream_end(FILE *f);
/* The text that printf would print. */
char *memory_print(const char *fmt, ...) ERR_PRINTF(1, 2);
/*
 * Makes room for element n of a list that has the elements 0 .. n - 1, and returns the list, which
 * may have moved. The list begins as NULL and only this function enlarges it: it has room for the
 * next power of two elements, so its room need not be kept anywhere. New elements are not set.
 */
void *memory_grow(void *list, int64_t n, size_t each);

/* A set of texts begins as NULL. Adds a text to it, with another one, `of`; both are copied. NULL:
 * the text is new; else the `of` with which it was added. */
const char *memory_note(void **set, const char *text, const char *of);
/* The `of` with which the text was added; NULL: it was not. */
const char *memory_noted(void *const *set, const char *text);
/* Frees a set, which is empty then. */
void memory_forget(void **set);

/* Ends the program as above. */
void memory_end(void) __attribute__((noreturn));

/* --- tried: NULL with a message --- */

/* n elements of `each` bytes; their values are not set. */
void *memory_try(size_t n, size_t each, struct err *e);
/* The same, all zero. */
void *memory_try_zero(size_t n, size_t each, struct err *e);

#ifdef __cplusplus
}
#endif
#endif
