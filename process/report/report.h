/*
 * report.h - `h5spec report`: one HTML page about a corpus, from its results.
 *
 * report_write() goes through these steps. Each takes values and makes one:
 *
 *   results --- report_load ---> slides, failures, spool of pictures
 *   limits  --- report_limits -> limits
 *               report_groups -> groups     which group a slide belongs to: a table, a pattern, a
 *                                           property
 *               report_names --> names      what slides, groups and failures are called on the page
 *               report_scores -> scores     pools, robust z, W1, verdicts
 *
 * A view (report_view.h) holds all of them. The page reads it (report_page, with report_data for
 * page.js), and so do the tables (report_tables: --csv, --multiqc,
 * --key). report_reasons says in words why to look at a slide.
 *
 * A pool is a group's slides of one resolution. Slides are compared within their pool only.
 * The memory of a report is about 4 bytes per bin and slide.
 */
#ifndef WSI_REPORT_H
#define WSI_REPORT_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* From the best to the worst; see report_view.h. */
enum report_verdict { REPORT_PASS, REPORT_NOT_JUDGED, REPORT_REVIEW, REPORT_FAIL, REPORT_VERDICTS };
enum report_pictures { REPORT_AUTO, REPORT_ALL, REPORT_MAPS, REPORT_NONE };

struct report_setup {
    const char *output, *title;
    char *const *files; /* results */
    int n_files;
    char *const *folders; /* searched for results: their lists of failed slides are shown */
    int n_folders;
    char *const *words; /* [n_words], the command line behind `h5spec report` */
    int n_words;
    const char *meta, *group, *group_regex, *limits, *failed, *accepted; /* NULL: not given */
    const char *csv, *multiqc, *key;
    bool number_names; /* names are replaced by numbers; `key` is where they are written */
    enum report_pictures pictures;
    int64_t max_size; /* bytes of the page */
    int threads;
};

/* Writes the page and what else is asked for. *bad gets the number of inputs that could not be
 * used (the page lists them), *trouble whether the machine was why for one of them, verdicts[] how
 * many slides have each; inputs without numbers fail. */
int report_write(const struct report_setup *setup, int64_t *bad, bool *trouble,
                 int64_t verdicts[REPORT_VERDICTS], struct err *e);

#endif
