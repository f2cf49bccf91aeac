/*
 * report_view.h - all that is known of a corpus, for those who write it down.
 */
#ifndef WSI_REPORT_VIEW_H
#define WSI_REPORT_VIEW_H

#include "process/report/verdict/report_kinds.h"
#include "process/report/verdict/report_limits.h"
#include "process/report/verdict/report_places.h"

/* What is left out of a page that is too large, each with what comes before it. Pictures go first;
 * see report_page.c. */
enum report_trim {
    REPORT_WHOLE,
    REPORT_LESS_TABLE, /* rows without a reason, of the table without JavaScript */
};

struct report_view {
    const struct report_setup *setup;
    const struct report_slides *slides;
    const struct report_failures *failures;
    const struct report_groups *groups;
    const struct report_names *names;
    const struct report_limits *limits;
    const struct report_scores *scores;
    const struct report_clusters *clusters;
    const struct report_places *places;
    const uint8_t *verdicts;    /* [slides], enum report_verdict */
    struct report_spool *spool; /* NULL: no pictures */
    enum report_trim trim;
};

#endif
