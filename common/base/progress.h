/*
 * progress.h - one line of progress on stderr about a list of files.
 *
 *     slide 3 of 17: TCGA-A1-A0SB-01Z…8F2D9B0B9A5D 45 %, 412 MP/s, 2 min 05 s left in total
 *
 * On a terminal the line is redrawn in place, at most five times per second, and fits the
 * terminal's width. Elsewhere it is printed as a line of its own every ten seconds. cli_say()
 * takes the line away before it prints a message. There is one progress per process; only the
 * thread that began it may call these functions. Before progress_begin() they do nothing.
 */
#ifndef WSI_PROGRESS_H
#define WSI_PROGRESS_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum progress_when { PROGRESS_AUTO, PROGRESS_YES, PROGRESS_NO };
/* Reads "auto", "yes" or "no". */
int progress_when(const char *what, const char *text, enum progress_when *out, struct err *e);

/* `what` names an item ("slide"), `unit` the rate ("MP/s"); both must outlive the progress.
 * `items` is their number. */
void progress_begin(enum progress_when when, const char *what, int64_t items, const char *unit);
/* Is anything shown? If not, callers need not follow their progress. */
bool progress_is_on(void);
/* Item k, from 0, is being worked on. All items together are 1: `before` is the share of those that
 * come before it, `share` its own. The time left is computed from these shares. */
void progress_item(int64_t k, const char *name, double before, double share);
/* Shows that `fraction` of the item is done, and `amount` of all items since progress_begin(), in
 * units of the rate times seconds; 0: the rate is not shown. */
void progress_show(double fraction, double amount);
/* Takes the line away until the next progress_show(). */
void progress_clear(void);
/* Takes the line away for good. */
void progress_end(void);

#endif
