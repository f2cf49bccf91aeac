/*
 * result_features.h - the features of a slide, as HDF5; for the other result*.c only.
 */
#ifndef WSI_RESULT_FEATURES_H
#define WSI_RESULT_FEATURES_H

#include "common/hdf5/h5.h"
#include "common/result/result.h"

const char *result_spectrum_name(int sample); /* of the dataset */

/* Writes everything but maps and attributes that have rows (result.h) into the slide's
 * group. */
int result_put_features(hid_t o, const struct result_params *p, const struct result_slide *s,
                        struct err *e);
/* Reads it. The slide is allocated with `parts`. */
int result_get_features(hid_t o, const struct result_params *p, unsigned parts,
                        struct result_slide *s, struct err *e);
/* Are the numbers in their ranges? A tile has at least one pixel and one status, and only windows
 * that count can touch it. */
int result_check_numbers(const struct result_params *p, const struct result_slide *s,
                         struct err *e);
int result_check_touching(const struct result_counts *c, struct err *e);
int result_check_tiles(const struct result_slide *s, struct err *e);
/* Do they follow from the histogram? */
int result_check_moments(const struct result_params *p, const struct result_counts *c, double mean,
                         double std, int64_t samples, struct err *e);
/* Are the numbers of a slide that is loaded completely consistent with each other? */
int result_check_features(hid_t o, const struct result_params *p, const struct result_slide *s,
                          struct err *e);
/* sum += s: parts of one slide. */
int result_add_features(const struct result_params *p, struct result_slide *sum,
                        const struct result_slide *s, struct err *e);

#endif
