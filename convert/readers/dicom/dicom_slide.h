/*
 * dicom_slide.h - the files of one DICOM slide: its levels and its thumbnail.
 *
 * They share a SeriesInstanceUID and lie in one folder. Any of them opens the
 * slide. A series of several pyramids, focal planes or optical paths is no slide. The label and the
 * overview, which shows the label, are never read beyond their headers.
 */
#ifndef WSI_DICOM_SLIDE_H
#define WSI_DICOM_SLIDE_H

#include "common/base/err.h"
#include "convert/readers/dicom/dicom_file.h"
#include "convert/readers/frame/slide_reader.h"

#include <stdbool.h>
#include <stdint.h>

/* A level in one file, or in several (a concatenation). */
struct dicom_level {
    struct dicom_part *parts; /* [n], owned, in the order of their frames; all of one kind */
    int n;
};

struct dicom_slide {
    const struct slide_file *given;          /* of slide_open: not owned, unlike the others */
    struct dicom_level levels[SLIDE_LEVELS]; /* from the largest to the smallest */
    int64_t n;
    struct dicom_level thumbnail; /* no parts when there is none */
};

/* 1: *s is filled; dicom_slide_free it. 0: no DICOM slide, or one that is split in a way that this
 * does not read; e says why. -1: a file of it is damaged, or cannot be read now: errno. */
int dicom_slide_find(struct dicom_slide *s, const struct slide_file *file, struct err *e);
void dicom_slide_free(struct dicom_slide *s);

/* The header of the first file of a level. */
const struct dicom_instance *dicom_slide_instance(const struct dicom_level *l);
/* Against level 0. */
double dicom_slide_downsample(const struct dicom_slide *s, int64_t level);
/* Does the folder lack level 0? A level 0 is never resampled. */
bool dicom_slide_lacks_base(const struct dicom_slide *s);

#endif
