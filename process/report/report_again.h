/*
 * report_again.h - slides that are read a second time, when it is known what of them is needed.
 */
#ifndef WSI_REPORT_AGAIN_H
#define WSI_REPORT_AGAIN_H

#include "process/report/report_slides.h"

/* Starts with `files` only, the results of the report. */
struct report_again {
    char *const *files;
    struct result *open; /* result number `file`, counted from 1; 0: none */
    int64_t file;
};

/* Opens the result of a slide, if it is not open yet. */
int report_open_again(struct report_again *a, const struct report_slide *s, struct err *e);
/* Loads parts of a slide (result_load_parts); *out is to be freed with result_slide_free(). -1 if
 * the slide cannot be read any more. */
int report_load_again(struct report_again *a, const struct report_slide *s, unsigned parts,
                      struct result_slide *out, struct err *e);
void report_again_end(struct report_again *a);

#endif
