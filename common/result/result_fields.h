/*
 * result_fields.h - the attributes of results: one row each, from which writing, reading,
 * comparing, `h5spec info` and the columns of tables follow. To add one, add a member to the struct
 * in result.h and a row in result_fields.c.
 */
#ifndef WSI_RESULT_FIELDS_H
#define WSI_RESULT_FIELDS_H

#include "common/base/field.h"

/* The sets of rows. */
enum {
    RESULT_HERE = 1,          /* of the object itself */
    RESULT_REGIONS = 2,       /* of results of regions alone */
    RESULT_OF_HISTOGRAM = 4,  /* attributes of the histogram */
    RESULT_OF_WINDOWS = 8,    /* windows */
    RESULT_OF_RANGE = 16,     /* underflow, overflow */
    RESULT_OF_TOUCHING = 32,  /* by enum result_touching */
    RESULT_OF_SOURCE = 64,    /* which slide it is */
    RESULT_OF_GROUPS = 128,   /* how its store is cut */
    RESULT_OF_ORIGIN = 256,   /* struct result_origin */
    RESULT_OF_MACHINE = 512,  /* what computed it, and for how long */
    RESULT_OF_CHECKSUM = 1024 /* data_crc32 */
};
/* The sets of a result with these parameters. */
#define RESULT_SETS(p) ((p)->roi ? FIELD_ALL : ~(unsigned)RESULT_REGIONS)

extern const struct field result_params_fields[]; /* of struct result_params */
extern const struct field result_counts_fields[]; /* of struct result_counts */
extern const struct field result_slide_fields[];  /* of struct result_slide */

#endif
