/*
 * report_setup.h - the settings of a report. See report.h.
 */
#ifndef WSI_REPORT_SETUP_H
#define WSI_REPORT_SETUP_H

#include <stdbool.h>
#include <stdint.h>

/* From the best to the worst; see report_reasons.h. */
enum report_verdict { REPORT_PASS, REPORT_NOT_JUDGED, REPORT_REVIEW, REPORT_FAIL, REPORT_VERDICTS };

struct report_setup {
    const char *output, *title;
    char *const *files; /* results */
    int n_files;
    char *const *folders; /* searched for results: their lists of failed slides are shown */
    int n_folders;
    char *const *words; /* [n_words], the command line behind `h5spec report` */
    int n_words;
    const char *meta, *group, *limits, *failed, *accepted; /* NULL: not given */
    const char *csv, *multiqc;
    const char *key;  /* names are replaced by numbers, and written to this file; NULL: they stay */
    bool quiet;       /* errors only */
    bool no_bounds;   /* places for QuPath count from the slide's corner (geojson.h) */
    bool silent;      /* inputs that cannot be used are not reported */
    int64_t max_size; /* bytes of the page; 0: no pictures, and no limit */
    int threads;
};

#endif
