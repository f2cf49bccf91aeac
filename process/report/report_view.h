/*
 * report_view.h - all that is known of a corpus, for those who write it down.
 */
#ifndef WSI_REPORT_VIEW_H
#define WSI_REPORT_VIEW_H

#include "process/report/report_groups.h"
#include "process/report/report_scores.h"
#include "process/report/report_setup.h"

/*
 * The thresholds of --limits.
 */

enum { REPORT_EVERY_GROUP = -1, REPORT_NO_GROUP = -2 };

struct report_limit {
    int metric;        /* 0 .. REPORT_NUMBERS - 1 */
    bool above;        /* values above are bad */
    double warn, fail; /* NAN: none */
    char *group_name;  /* "": all; owned */
    int32_t group;     /* number, or one of the two above */
    int64_t line;      /* of the file */
};

/* Starts as {0}. */
struct report_limits {
    int64_t n;
    struct report_limit *limit; /* [n], owned */
};

/* Reads the file; NULL: no limits. */
int report_limits_read(const char *path, struct report_limits *l, struct err *e);
/* Finds the groups of limits, once they are known. Reports limits that no slide can break. */
int report_limits_place(const char *path, const struct report_slides *s,
                        const struct report_groups *g, struct report_limits *l, struct err *e);
/* Does a limit hold for a slide of this group, and is x beyond a threshold of it? An angle is above
 * a threshold if the shorter turn from there to it is upwards. */
bool report_limit_holds(const struct report_limit *l, int32_t group);
bool report_limit_breaks(const struct report_limit *l, double x, double threshold);
void report_limits_free(struct report_limits *l);

/*
 * Where on a slide a reason shows: its blurred, least sharp and damaged windows, and stain that is
 * unlike that of the others.
 *
 * The maps of slides with such a reason are read again, because what is blurred is known only when
 * all slides are.
 */

struct report_place {
    double x, y;       /* of the slide's width and height; NAN: none */
    const char *where; /* "in the lower left", "in many places"; NULL: none */
};

/* Amid the blurred windows; the least sharp tissue; amid the windows that touch damaged tiles; the
 * tissue of the strangest colour; the densest. */
enum report_place_of {
    REPORT_PLACE_BLURRED,
    REPORT_PLACE_DULL,
    REPORT_PLACE_DAMAGED,
    REPORT_PLACE_HUE,
    REPORT_PLACE_DENSE,
    REPORT_PLACES
};

/* Starts as {0}. */
struct report_places {
    struct report_place (*of)[REPORT_PLACES]; /* [slides], owned */
};

/* *bad grows by the slides whose result cannot be read again; they have no places. -1: out of
 * memory or the like. */
int report_find_places(const struct report_setup *o, const struct report_slides *s,
                       const struct report_scores *scores, struct report_places *out, int64_t *bad,
                       struct err *e);
void report_places_free(struct report_places *p);

/* What is left out of a page that is too large, each with what comes before it. Pictures go first;
 * see report_page.c. */
enum report_lean {
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
    enum report_lean lean;
};

/*
 * The verdict on each slide, and the reasons in words.
 *
 * fail    the slide has no numbers or those of an older run, touches damaged tiles, or breaks a
 *         limit of --limits
 * review  a number is beyond what is usual (report_scores.h), a limit warns, or numbers are missing
 * not judged  none of its numbers could be compared, and no limit holds for it
 * pass    nothing of that
 */

const char *report_verdict_name(enum report_verdict v);

struct report_reason {
    enum report_verdict verdict; /* REPORT_PASS: only a note */
    double strength;             /* how far beyond what is usual: above 1 */
    enum report_look look;       /* the picture that shows it */
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
