/*
 * result_features.h - where a slide of a result comes from, and what format_version 2 adds to it,
 * as HDF5; for the other result*.c only.
 */
#ifndef WSI_RESULT_FEATURES_H
#define WSI_RESULT_FEATURES_H

#include "common/hdf5/h5.h"
#include "common/result/result.h"

/* The level of deflate of histograms, spectra and thumbnails. 0, not packed, before version 3:
 * older programs read no packed numbers. */
int result_packed(const struct result_params *p);

/* What is copied from the store. Older files of version 1 do not have it: `tiles` is then -1. */
int result_put_origin(hid_t o, const struct result_origin *from, struct err *e);
int result_get_origin(hid_t o, int64_t version, struct result_slide *s, struct err *e);

/* Writes everything else but the maps into the slide's group. */
int result_put_features(hid_t o, const struct result_params *p, const struct result_slide *s,
                        struct err *e);
/* Reads it. The slide is allocated with `parts`. */
int result_get_features(hid_t o, const struct result_params *p, unsigned parts,
                        struct result_slide *s, struct err *e);
/* Sets what versions lack to "unknown". */
void result_no_features(struct result_slide *s);
/* Are the numbers of a slide that is loaded completely consistent with each other? */
int result_check_features(hid_t o, const struct result_params *p, const struct result_slide *s,
                          struct err *e);
/* sum += s: parts of one slide. */
int result_add_features(const struct result_params *p, struct result_slide *sum,
                        const struct result_slide *s, struct err *e);

#endif
