/*
 * report_limits.h - the thresholds of --limits.
 */
#ifndef WSI_REPORT_LIMITS_H
#define WSI_REPORT_LIMITS_H

#include "process/report/verdict/report_groups.h"

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

#endif
