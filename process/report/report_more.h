/*
 * report_more.h - maps of slides beside that of sharpness: the one that a reason asks for, and the
 * scores of another program.
 *
 * They are made when the reasons are known. The noise of the glass is level_db of the windows
 * without tissue. Scores come from the files of --scores: a folder with NAME.csv, NAME.npy or
 * NAME.h5 per slide, or one such file. Their first value is shown, as the mean of the patches over
 * each cell (score_map.h). A file that cannot be used is reported, and its slide has no such map.
 */
#ifndef WSI_REPORT_MORE_H
#define WSI_REPORT_MORE_H

#include "process/report/report_view.h"
#include "process/scores/score_file.h"

/* Ends of the colours of the noise of the glass, dB. */
enum { REPORT_NOISE_LOW = 10, REPORT_NOISE_HIGH = 50 };

struct report_scored {
    int64_t cell; /* px of level 0; 0: the slide has no scores */
    char name[SCORES_NAME];
};

/* Starts as {0}. */
struct report_more {
    struct report_scored *of; /* [slides], owned; NULL: no slide has scores */
    double low, high;         /* ends of the colours of scores, the same for all slides */
};

/* Adds the maps to the pictures of the view's slides. *bad is raised by the number of files that
 * cannot be used. */
int report_add_maps(const struct report_view *r, struct report_more *more, int64_t *bad,
                    struct err *e);
void report_more_free(struct report_more *m);

#endif
