/*
 * report_reread.h - slides that are read a second time, when it is known what of them is needed.
 */
#ifndef WSI_REPORT_REREAD_H
#define WSI_REPORT_REREAD_H

#include "process/report/numbers/report_pictures.h"
#include "process/report/numbers/report_slides.h"

/* The parts of a result that the pictures of a slide need. */
enum {
    REPORT_PARTS_OF_PICTURES =
        RESULT_WITH_THUMBNAIL | RESULT_WITH_MAP(RESULT_FOCUS) | RESULT_WITH_MAP(RESULT_TISSUE)
};

/* Starts with the first two only: the results of the report, and what all have in common. */
struct report_reread {
    char *const *files;
    const struct result_params *params;
    struct result *open; /* result number `file`, counted from 1; 0: none */
    int64_t file;
};

/* Opens the result of a slide, if it is not open yet. -1 also if it is another one now: what has
 * been kept of its slides was sized by the first. */
int report_reread_open(struct report_reread *a, const struct report_slide *s, struct err *e);
/* Loads parts of a slide (result_load_parts); *out is to be freed with result_slide_free(). -1 if
 * the slide cannot be read any more. */
int report_reread_load(struct report_reread *a, const struct report_slide *s, unsigned parts,
                       struct result_slide *out, struct err *e);
/* Makes the pictures of a slide that has none, and moves them into the spool. 1: it cannot be read
 * any more, as a message says; -1: failed. */
int report_reread_pictures(struct report_reread *a, struct report_slide *s,
                           struct report_spool *spool, struct err *e);
void report_reread_end(struct report_reread *a);

#endif
