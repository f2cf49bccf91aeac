/*
 * stop.h - stopping on a signal: the handler sets a flag, which loops check.
 */
#ifndef WSI_STOP_H
#define WSI_STOP_H

#include "common/base/err.h"

/* From here on SIGINT, SIGTERM and what schedulers send before they kill (SIGHUP, SIGUSR1,
 * SIGUSR2, SIGXCPU) set the flag. Another SIGINT or SIGTERM more than two seconds later ends
 * the process. Signals that the parent ignores stay ignored. SIGPIPE is ignored, so that a
 * write fails instead. */
void stop_catch_signals(void);
/* The signals do again what they did before. One thread. */
void stop_release_signals(void);
/* The signal that asked the process to stop, or 0. Any thread. */
int stop_signal(void);
/* -1 with "stopped by signal ..." set if a signal asked the process to stop, else 0. Loops over
 * items that take time begin with it. Any thread. */
int stop_check(struct err *e);

/* Calls of libraries that may take long and cannot be asked to stop lie between these two. If such
 * a call goes on 1.5 s after the signal, the process ends there, with EXIT_STOPPED: unfinished
 * files have no final name, and the next run removes them. Any thread. */
void stop_library_begin(void);
void stop_library_end(void);

#endif
