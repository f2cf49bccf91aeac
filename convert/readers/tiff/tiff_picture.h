/*
 * tiff_picture.h - a picture of a TIFF file as segments: strips, or tiles of any size.
 *
 * The segments are decoded row by row (rows.h) to RGB or gray, in the stored order: the tag
 * Orientation is recorded, not obeyed. Samples are bytes: gray, RGB, a palette, JPEG's YCbCr, with
 * alpha, other samples or without, together or in planes. The file is not trusted.
 */
#ifndef WSI_TIFF_PICTURE_H
#define WSI_TIFF_PICTURE_H

#include "convert/readers/picture/bands.h"
#include "convert/readers/tiff/tiff_file.h"
#include "convert/readers/tiff/tiff_rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the directory at an offset. 0; ROWS_OTHER: a kind that is not decoded, and e says which;
 * ROWS_DAMAGED; -1. tiff_picture_free *p in any case. */
int tiff_picture_read(struct tiff_picture *p, const struct slide_file *file, uint64_t at,
                      struct err *e);
void tiff_picture_free(struct tiff_picture *p);
/* The picture for bands_open(); *p must outlive the bands. */
struct bands_picture tiff_picture_bands(const struct tiff_picture *p);

/* The whole picture, [height][width][3] u8, to be free()d. NULL: damaged, or errno may pass. */
uint8_t *tiff_picture_rgb(const struct tiff_picture *p, struct err *e);

/* How the JPEG streams that were read contradict the photometric tag, and what was done; NULL: they
 * do not. */
const char *tiff_picture_contradiction(const struct tiff_picture *p);

#endif
