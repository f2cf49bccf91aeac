/*
 * result_features.h - what format_version 2 adds to a slide of a result, as HDF5; for the other
 * result*.c only.
 */
#ifndef WSI_RESULT_FEATURES_H
#define WSI_RESULT_FEATURES_H

#include "common/hdf5/h5.h"
#include "common/result/result.h"

#define RESULT_ALL_PARTS (~0u)

/* As result_slide_alloc(), but of maps and spectra only those among `parts`. */
int result_slide_alloc_parts(struct result_slide *s, const struct result_params *p, unsigned parts,
                             struct err *e);

/* Writes everything but the maps into the slide's group. */
int result_put_features(hid_t o, const struct result_params *p, const struct result_slide *s,
                        struct err *e);
/* Reads it. The slide is allocated with `parts`. */
int result_get_features(hid_t o, const struct result_params *p, unsigned parts,
                        struct result_slide *s, struct err *e);
/* Sets what version 1 lacks to "unknown". */
void result_no_features(struct result_slide *s);
/* Are the numbers of a slide that is loaded completely consistent with each other? */
int result_check_features(hid_t o, const struct result_params *p, const struct result_slide *s,
                          struct err *e);
/* sum += s: parts of one slide. */
int result_add_features(const struct result_params *p, struct result_slide *sum,
                        const struct result_slide *s, struct err *e);

#endif
