/*
 * number.h - numbers, sizes and shares: read from texts of the user, and printed.
 */
#ifndef WSI_NUMBER_H
#define WSI_NUMBER_H

#include "common/base/err.h"

#include <stdint.h>

/* --- from texts: -1 with a message about a bad value; `what` names its option in it --- */

/* A size in bytes, in [low, high]: decimal digits and at most one of K, M, G, T (powers of 1,024),
 * which "B" or "iB" may follow. "256M" is 268435456. */
int number_bytes(const char *what, const char *text, int64_t low, int64_t high, int64_t *out,
                 struct err *e);
/* A decimal whole number in [low, high]. */
int number_int(const char *what, const char *text, int64_t low, int64_t high, int64_t *out,
               struct err *e);
/* A finite number in [low, high], with a decimal point whatever the locale is. */
int number_real(const char *what, const char *text, double low, double high, double *out,
                struct err *e);
/* "LOW:HIGH", both as number_real takes them. */
int number_span(const char *what, const char *text, double least, double most, double *low,
                double *high, struct err *e);
/* "A-B" or "A", from 1, A <= B. */
int number_range(const char *what, const char *text, int64_t *first, int64_t *last, struct err *e);

/* The digits at *text, which is left after them. -1 if there are none or they overflow. */
int number_digits(const char **text, int64_t *out);

/* --- to texts --- */

/* "1.5 GiB", "312 KiB" into buf; returns buf. */
const char *number_size(char buf[32], double bytes);
/* The shortest decimal text that reads back as exactly x ("0.1", not "0.10000000000000001"), in
 * buf. Returns buf. */
const char *number_text(char buf[32], double x);

/* --- the share of a list that a task of an array job computes --- */

/* Reads the value of --task: "I/N", I from 1 to N, or "auto", which takes it from an array job of
 * Slurm (SLURM_ARRAY_TASK_ID, _MIN, _MAX, _STEP, _COUNT) or Grid Engine (SGE_TASK_ID, _FIRST,
 * _LAST, _STEPSIZE). Share I consists of the elements I, I + N, I + 2 N ... "auto" rejects an array
 * with gaps, such as the failed tasks of an earlier one, because N would not be the same. */
int task_parse(const char *text, int64_t *task, int64_t *tasks, struct err *e);

#endif
