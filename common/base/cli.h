/*
 * cli.h - what both programs' command lines share: start and end, messages, numbers, lists, JSON.
 *
 * Data goes to stdout, messages to stderr. Progress (progress.h) goes to stderr if that is a
 * terminal or if the user asks for it.
 */
#ifndef WSI_CLI_H
#define WSI_CLI_H

#include "common/base/err.h"
#include "common/base/version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit status of both programs. */
enum {
    EXIT_DONE = 0,    /* everything is done */
    EXIT_PART = 1,    /* some input failed, the rest is done */
    EXIT_USAGE = 2,   /* wrong usage; nothing was begun */
    EXIT_STOPPED = 3, /* stopped by a signal; no unfinished file remains */
};

/* Comes first in main(). Opens /dev/null for each closed descriptor from 0 to 2; otherwise an
 * output file could become descriptor 2 and receive messages. Ignores SIGXFSZ, so that a limit
 * on file sizes is reported as EFBIG. `program` is the name in messages. */
void cli_start(const char *program);

/* Comes last in main(), with the exit status. Flushes stdout; if that fails (the disk is full),
 * reports it and returns EXIT_PART instead of EXIT_DONE. */
int cli_finish(int status);

/* Prints one line on stderr, "PROGRAM: text". Control characters become '?' (err_clean), because
 * names of files could otherwise move a terminal's cursor. All messages of both programs go through
 * here. Allocates nothing. */
void cli_say(const char *fmt, ...) ERR_PRINTF(1, 2);
/* The same with another name before the colon. */
void cli_say_as(const char *name, const char *fmt, ...) ERR_PRINTF(2, 3);

/* The parsers below return -1 with a message about a bad value; `what` names its option in it. */

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

/* The share of a list that this task computes: "I/N", I from 1 to N, or "auto", which takes it
 * from an array job of Slurm (SLURM_ARRAY_TASK_ID, _MIN, _MAX, _STEP, _COUNT) or Grid Engine
 * (SGE_TASK_ID, _FIRST, _LAST, _STEPSIZE). Share I consists of the elements I, I + N, I + 2 N
 * ... "auto" rejects an array with gaps, such as the failed tasks of an earlier one, because N
 * would not be the same. */
int task_parse(const char *what, const char *text, int64_t *task, int64_t *tasks, struct err *e);

/* Calls add() for each path of a --list file, one per line; "-" is stdin. Empty lines and lines
 * that begin with # are skipped. A file with NUL bytes (UTF-16) is an error. Ends with the first -1
 * of add(). */
int cli_list(const char *file, int (*add)(void *ctx, const char *path, struct err *e), void *ctx,
             struct err *e);

/* Seconds on a clock that never goes backwards. */
double clock_now(void);
/* Peak resident memory of this process in bytes. */
int64_t cli_peak_memory(void);
/* "1.5 GiB", "312 KiB" into buf; returns buf. */
const char *number_size(char buf[32], double bytes);
/* "2 h 05 min", "3.2 s" into buf; returns buf. */
const char *clock_text(char buf[32], double seconds);

/* The part of a path after the last slash. Points into path. */
const char *path_base_name(const char *path);
/* Replaces each mention of `path` in a message by its base name: pages must not show folders. */
void path_drop_folder(char *message, const char *path);
/* The name of a slide: the base name of its store without ".h5". Points into path; *n gets its
 * length. */
const char *path_stem(const char *path, size_t *n);

enum progress_when { PROGRESS_AUTO, PROGRESS_YES, PROGRESS_NO };
/* "auto", "yes", "no". */
int progress_when(const char *what, const char *text, enum progress_when *out, struct err *e);

/* Prints s on a terminal, as err_clean() makes it. */
void cli_print_text(FILE *f, const char *s);
/* Prints s as a JSON string with its quotes (bytes that are not UTF-8 become U+FFFD). */
void json_write_string(FILE *f, const char *s);
/* The shortest decimal text that reads back as exactly x ("0.1", not "0.10000000000000001"), in
 * buf. Returns buf. */
const char *number_text(char buf[32], double x);
/* Prints x as a JSON number; null for NaN and infinities. */
void json_write_number(FILE *f, double x);

#endif
