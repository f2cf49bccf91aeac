/*
 * report_reasons.h - the verdict on each slide, and the reasons in words.
 *
 * fail    the slide has no numbers or those of an older run, touches damaged tiles, or breaks a
 *         limit of --limits
 * review  a number is beyond what is usual (report_scores.h), a limit warns, or numbers are missing
 * not judged  none of its numbers could be compared, or its sharpness is not known, and no limit
 *         holds for it
 * pass    nothing of that
 */
#ifndef WSI_REPORT_REASONS_H
#define WSI_REPORT_REASONS_H

#include "process/report/words/report_view.h"

const char *report_verdict_name(enum report_verdict v);

struct report_reason {
    enum report_verdict verdict; /* REPORT_PASS: only a note */
    double strength;             /* how far beyond what is usual: above 1 */
    enum picture_kind picture;   /* the picture that shows it */
    bool unsharp;                /* it is that tissue is blurred or less sharp */
    double x, y;                 /* where, as parts of the slide's width and height; NAN: nowhere */
    char text[512];
};

/* Each number by itself, by a limit above and one below, and what a slide lacks. */
enum { REPORT_MOST_REASONS = 3 * REPORT_NUMBERS + 16 };
/* The reasons of slide k, the strongest first; returns their number. */
int report_reasons(const struct report_view *r, int64_t k,
                   struct report_reason reasons[REPORT_MOST_REASONS]);
/* The verdicts on all slides; the view's own are not used. To be free()d; NULL: out of memory. */
uint8_t *report_judge(const struct report_view *r);
/* The reason as the page may show it. */
const char *report_failure_reason(const struct report_view *r, int64_t failure);
/* "group, 0.25 um/px"; without the group, if there is only one. */
void report_pool_label(const struct report_view *r, int32_t pool, char *out, size_t size);

#endif
