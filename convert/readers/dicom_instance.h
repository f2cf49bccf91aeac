/*
 * dicom_instance.h - what one DICOM file says of its picture.
 *
 * Of a whole-slide image, one file holds one level, or its label, its overview or its thumbnail.
 * Nothing that identifies a person, a time or an operator is read.
 */
#ifndef WSI_DICOM_INSTANCE_H
#define WSI_DICOM_INSTANCE_H

#include "common/base/err.h"
#include "convert/readers/dicom_file.h"

#include <stdbool.h>
#include <stdint.h>

enum { DICOM_WORD = 17, DICOM_TYPE = 80 }; /* a code string has at most 16 characters */

/* Where a value lies in the file. */
struct dicom_place {
    uint64_t at, bytes;
};

struct dicom_instance {
    char syntax[DICOM_UID], sop_class[DICOM_UID], sop[DICOM_UID], series[DICOM_UID];
    char type[DICOM_TYPE];           /* ImageType: four words, separated by \ */
    char photometric[DICOM_WORD];    /* "RGB", "YBR_FULL_422" ... */
    char organization[DICOM_WORD];   /* "TILED_FULL", "TILED_SPARSE", or "" */
    char label_in_image[DICOM_WORD]; /* "YES", "NO", or "" */
    /* numbers are -1 when the file does not state them */
    int64_t width, height; /* of the whole picture, px */
    int64_t cols, rows;    /* of a frame, px */
    int64_t frames, samples, planar, bits_allocated, bits_stored;
    int64_t focal_planes, optical_paths;
    double spacing[2];                  /* mm between rows, and between columns; NaN when unknown */
    double volume_width;                /* mm, NaN when unknown */
    double objective_power;             /* NaN when unknown */
    char concatenation[DICOM_UID];      /* of the files of one level; "": it is one file */
    int64_t first_frame, parts;         /* of the file in the concatenation; its files */
    char pyramid[DICOM_UID];            /* "" when the file does not state it */
    char optical_path[DICOM_WORD];      /* identifies it in the series */
    double z;                           /* of the focal plane, um; NaN when unknown */
    uint64_t bytes;                     /* of the file */
    struct dicom_place icc;             /* 0 bytes: there is none */
    struct dicom_place frame_positions; /* of each frame: the sequence of items */
    struct dicom_place extended_offsets, extended_lengths; /* 0 bytes: there are none */
    struct dicom_place pixels; /* bytes is DICOM_UNDEFINED if they are encapsulated */
};

/* A file of a level. */
struct dicom_part {
    const struct slide_file *file;
    struct dicom_instance instance;
};

/* 1: *i is filled. 0: not a DICOM file. -1: it is damaged, or cannot be read now: errno. */
int dicom_instance_read(struct dicom_instance *i, const struct slide_file *file, struct err *e);

/* The word of ImageType with this number, from 0, into out[DICOM_WORD]; "" when it is absent. */
void dicom_instance_type(const struct dicom_instance *i, int number, char *out);
bool dicom_instance_is_slide(const struct dicom_instance *i);
bool dicom_instance_is_level(const struct dicom_instance *i);
/* A picture of the tissue without the label. */
bool dicom_instance_is_thumbnail(const struct dicom_instance *i);
/* Why the tiles cannot be read directly, in a few words; NULL: they can. */
const char *dicom_instance_obstacle(const struct dicom_instance *i);
/* -1: its frames are several pictures of the tissue, such as focal planes; e says which. */
int dicom_instance_check_single(const struct dicom_instance *i, struct err *e);
bool dicom_instance_is_j2k(const struct dicom_instance *i);
/* Are its pixels one sample, 0 = black? */
bool dicom_instance_is_gray(const struct dicom_instance *i);
/* Are its frames not compressed? */
bool dicom_instance_is_native(const struct dicom_instance *i);
/* "JPEG 2000", or the UID of the transfer syntax. */
const char *dicom_instance_syntax(const struct dicom_instance *i);
/* um per pixel; NaN when unknown. */
void dicom_instance_mpp(const struct dicom_instance *i, double *x, double *y);

#endif
