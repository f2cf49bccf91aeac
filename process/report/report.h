/*
 * report.h - `h5spec report`: one HTML page about a corpus, from its results.
 *
 * report_write() goes through these steps. Each takes values and makes one:
 *
 *   results --- report_load ---> slides, failures, spool of pictures
 *   limits  --- report_limits -> limits
 *               report_groups -> groups     which group a slide belongs to: a table, a property
 *               report_names --> names      what slides, groups and failures are called on the page
 *               report_scores -> scores     pools, robust z, W1, verdicts
 *
 * A view (report_view.h) holds all of them. The page reads it (report_page, with report_data for
 * page.js), and so do the tables (report_tables: --csv, --multiqc,
 * --anonymous). report_reasons says in words why to look at a slide.
 *
 * A pool is a group's slides of one resolution. Slides are compared within their pool only.
 * 4 bytes per bin and slide go to a temporary file, not to memory (report_slides.h).
 */
#ifndef WSI_REPORT_H
#define WSI_REPORT_H
#include "common/base/err.h"
#include "process/report/numbers/report_setup.h"

#include <stdbool.h>
#include <stdint.h>

/* Writes the page and what else is asked for. *bad gets the number of inputs that could not be
 * used (the page lists them), *trouble whether the machine was why for one of them, verdicts[] how
 * many slides have each; inputs without numbers fail. *ended: the program in Python (report_python.h)
 * has failed with this exit status, and said why; else 0. */
int report_write(const struct report_setup *setup, int64_t *bad, bool *trouble,
                 int64_t verdicts[REPORT_VERDICTS], int *ended, struct err *e);

/*
 * What a report of some results calls blurred, for other commands.
 */

struct report_blur;
/* Reads all slides of the results. Those that cannot be read are left out, without a message. */
struct report_blur *report_blur_open(char *const *files, int n_files, struct err *e);
/* dB of focus_db below which tissue of this slide is blurred: that of its pool. NaN: not known, as
 * of a pool of few slides. */
double report_blur_below(const struct report_blur *b, const char *slide);
void report_blur_close(struct report_blur *b); /* NULL is fine */

#endif
