/*
 * same_resolution.h - are slides comparable? The rule of run, merge, report, compare and corpus.
 *
 * Frequencies are in cycles per pixel, so slides of different resolution are not pooled unless the
 * user asks for it. Two resolutions are the same if their um per stored pixel differ by at most
 * 10 % of the smaller one.
 *
 * run and merge look at the slides of a result in the order of their names. Each is compared with
 * the first one that states its resolution. A slide that does not state it, or before which none
 * does, is compared by the downsample of its level with the first slide that states that. What is
 * not known does not differ.
 *
 * A report knows all slides: it puts them in sets, in which any two have the same resolution. A set
 * that is too wide is cut at its widest gap, so slides of one scanner stay together.
 */
#ifndef WSI_SAME_RESOLUTION_H
#define WSI_SAME_RESOLUTION_H

#include "common/base/err.h"
#include "common/result/result.h"

#include <stdbool.h>
#include <stdint.h>

enum { SAME_RESOLUTION_NAME = 4096 };

/* The resolution that slides are compared with. Zero it before use. */
struct same_resolution {
    /* names of the first slides that state them, "" so far */
    char with_downsample[SAME_RESOLUTION_NAME], with_mpp[SAME_RESOLUTION_NAME];
    double downsample, mpp; /* of these; mpp is um per stored pixel */
    int64_t others;         /* slides of another resolution */
};

/* -1 if the slide's resolution is another one: it is counted, and the message says what differs and
 * what to do, but does not name the slide. `um` and `downsample`: of the slide. */
int same_resolution_check(struct same_resolution *r, const char *name, double um, double downsample,
                          struct err *e);

/* Divides n slides, in the order of their names, into sets, which get a file each: set[k] of slide
 * k, from 0. The first slide that is in no set yet and those of its resolution are the next
 * one. If there are several sets, slides that do not state their um are apart from those that do.
 * Returns how many sets there are. */
int same_resolution_divide(const double *um, const double *downsample, int64_t n, int *set);

/* um per stored pixel, or NaN. */
double same_resolution_um(const struct result_origin *o);
/* Do two such values, or two downsamples, differ? What is NaN does not. */
bool same_resolution_differ(double a, double b);
/* Puts n sorted values, all above 0, in sets: set[k] is the number of that of value k, from
 * `first` on, and does not decrease. Returns the number after the last one. */
int64_t same_resolution_sets(const double *sorted, int64_t n, int64_t first, int64_t *set);

#endif
