/*
 * result_features.h - where a slide of a result comes from, and its features, as HDF5; for the
 * other result*.c only.
 */
#ifndef WSI_RESULT_FEATURES_H
#define WSI_RESULT_FEATURES_H

#include "common/hdf5/h5.h"
#include "common/result/result.h"

const char *result_spectrum_name(int sample); /* of the dataset */

enum { RESULT_MOST_GROUPS = 1 << 24 };
#define RESULT_MOST_TILES (INT64_MAX >> 8)

/* The numbers of an origin, with their names. */
struct result_real {
    const char *name;
    double *value;
    double low, high; /* or NaN: not known, and absent from a slide's attributes */
};
struct result_count {
    const char *name;
    int64_t *value; /* at most RESULT_MOST_TILES */
};
enum { RESULT_REALS = 6 + GLASS_NUMBERS, RESULT_COUNTS = 4 };
void result_list_reals(struct result_origin *o, struct result_real reals[RESULT_REALS]);
void result_list_counts(struct result_origin *o, struct result_count counts[RESULT_COUNTS]);

/* What is copied from the store. */
int result_put_origin(hid_t o, const struct result_origin *from, struct err *e);
int result_get_origin(hid_t o, struct result_slide *s, struct err *e);

/* Writes everything else but the maps into the slide's group. */
int result_put_features(hid_t o, const struct result_params *p, const struct result_slide *s,
                        struct err *e);
/* Reads it. The slide is allocated with `parts`. */
int result_get_features(hid_t o, const struct result_params *p, unsigned parts,
                        struct result_slide *s, struct err *e);
/* Are the numbers in their ranges? A tile has at least one
 * pixel and one status. */
int result_check_numbers(const struct result_params *p, const struct result_slide *s,
                         struct err *e);
int result_check_tiles(const struct result_slide *s, struct err *e);
/* Do they follow from the histogram? */
int result_check_moments(const struct result_params *p, const struct result_counts *c, double mean,
                         double std, int64_t samples, struct err *e);
/* Sets what can be absent to "unknown". */
void result_no_features(struct result_slide *s);
/* Are the numbers of a slide that is loaded completely consistent with each other? */
int result_check_features(hid_t o, const struct result_params *p, const struct result_slide *s,
                          struct err *e);
/* sum += s: parts of one slide. */
int result_add_features(const struct result_params *p, struct result_slide *sum,
                        const struct result_slide *s, struct err *e);

#endif
