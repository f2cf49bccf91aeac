/*
 * json.h - texts and numbers as JSON.
 */
#ifndef WSI_JSON_H
#define WSI_JSON_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Prints s as a JSON string with its quotes. A byte that is not UTF-8 becomes half a pair of
 * UTF-16, 0xe9 "\udce9": Python's os.fsencode() makes the same byte of it again. */
void json_write_string(FILE *f, const char *s);
/* The same; the characters of `also`, all ASCII, are escaped, too. */
void json_write_escaped(FILE *f, const char *s, const char *also);
/* Prints x as a JSON number; null for NaN and infinities. */
void json_write_number(FILE *f, double x);

/* --- an object on standard output --- */

/* {"key": "value" */
void json_begin(const char *key, const char *value);
/* , "key": value */
void json_text(const char *key, const char *value);
void json_int(const char *key, int64_t value);
void json_count(const char *key, uint64_t value);
void json_bool(const char *key, bool value);
void json_real(const char *key, double value);

/* Why an input failed: , "message": "...", "cause": "trouble" (of the machine: err.h) or "input",
 * and where it is known "detail": "memory", "disk" or "absent" (a file is not there, or may not be
 * read) */
void json_failure(const struct err *why);
/* Ends the line of JSON about an input and flushes it:
 *     , "host": "n3", "time": "2026-11-23T20:05:01Z"}
 * The host is the scheduler's name of the node, if there is one. */
void json_end_line(FILE *f);

#endif
