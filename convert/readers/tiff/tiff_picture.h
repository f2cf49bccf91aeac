/*
 * tiff_picture.h - a picture of a TIFF file in segments: strips, or tiles of any size.
 *
 * It keeps the stored order: the tag Orientation is recorded, not obeyed. Samples are bytes: gray,
 * RGB, a palette, CMYK, JPEG's YCbCr, with alpha, other samples or without, together or in planes.
 * The file is not trusted.
 */
#ifndef WSI_TIFF_PICTURE_H
#define WSI_TIFF_PICTURE_H

#include "convert/readers/picture/picture.h"

/* Opens the picture of the directory at an offset; nothing is decoded yet. 0; PICTURE_OTHER: a kind
 * that is not decoded, and e says which; PICTURE_DAMAGED; -1. Free *f in any case. */
int tiff_picture_open(struct picture_form *f, const struct slide_file *file, uint64_t at,
                      struct err *e);
/* The same for a mask of one sample: its px are bytes of *px pixels each, 1 or 8. */
int tiff_picture_open_mask(struct picture_form *f, const struct slide_file *file, uint64_t at,
                           int *px, struct err *e);

#endif
