/*
 * cli.h - what both programs' command lines share: start and end, messages, lists of paths.
 *
 * Data goes to stdout, messages to stderr. Progress (progress.h) goes to stderr if that is a
 * terminal or if the user asks for it.
 */
#ifndef WSI_CLI_H
#define WSI_CLI_H

#include "common/base/err.h"
#include "common/base/exit_status.h"
#include "common/base/version.h"

#include <stdint.h>
#include <stdio.h>

/* Comes first in main(). Opens /dev/null for each closed descriptor from 0 to 2; otherwise an
 * output file could become descriptor 2 and receive messages. Ignores SIGXFSZ, so that a limit
 * on file sizes is reported as EFBIG. Ends the program if its stack is limited to too little. `program` is the name in messages. */
void cli_start(const char *program);

/* Comes last in main(), with the exit status. Flushes stdout; if that fails (the disk is full),
 * reports it and returns EXIT_TROUBLE instead of EXIT_DONE. */
int cli_finish(int status);

/* Prints an error that ends a command; returns its exit status: EXIT_STOPPED after a signal, else
 * EXIT_TROUBLE or EXIT_PART. */
int cli_failed(const struct err *e);
/* Of the statuses of two inputs, that of both: trouble, then bad input, then damage. */
int cli_worst(int a, int b);

/* Prints one line on stderr, "PROGRAM: text". Control characters become '?' (err_clean), because
 * names of files could otherwise move a terminal's cursor. All messages of both programs go through
 * here. Allocates nothing. */
void cli_say(const char *fmt, ...) ERR_PRINTF(1, 2);
/* The same with another name before the colon. */
void cli_say_as(const char *name, const char *fmt, ...) ERR_PRINTF(2, 3);

/* Calls add() for each path of a --list file, one per line; "-" is stdin. A byte order mark, CRLF,
 * quotes, and spaces, commas and semicolons at the ends are dropped. Empty lines and lines
 * that begin with # are skipped. A file with NUL bytes (UTF-16) is an error. Ends with the first -1
 * of add(). */
int cli_list(const char *file, int (*add)(void *ctx, const char *path, struct err *e), void *ctx,
             struct err *e);

/* Peak resident memory of this process in bytes. */
int64_t cli_peak_memory(void);

/* Prints s on a terminal, as err_clean() makes it. */
void cli_print_text(FILE *f, const char *s);

#endif
