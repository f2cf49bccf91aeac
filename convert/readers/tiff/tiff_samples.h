/*
 * tiff_samples.h - what a directory of a TIFF file states of its pixels, and where they lie: for
 * tiles (tiff_level.h) and for strips (tiff_picture.h) alike.
 */
#ifndef WSI_TIFF_SAMPLES_H
#define WSI_TIFF_SAMPLES_H

#include "common/base/err.h"
#include "convert/readers/frame/tile_file.h"
#include "convert/readers/picture/picture.h"
#include "convert/readers/tiff/tiff_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIFF_MOST_SAMPLES = 16 }; /* of a pixel; with more it is no picture */

/* A directory that is read. */
struct tiff_reading {
    const struct tiff_file *t;
    const struct tiff_directory *d;
};

/* The first value of a tag; tiff_small: 0 above 65,535. */
uint64_t tiff_value(const struct tiff_reading *r, uint16_t tag, uint64_t otherwise);
int tiff_small(const struct tiff_reading *r, uint16_t tag, int otherwise);

/* Of the numbers for JPEG 2000, Aperio's 33003 states the colours. In other files all are alike,
 * and the photometric tag states them. */
int tiff_compression(const struct tiff_reading *r, bool is_aperio);
/* The palette as 8 bits, as libtiff reads it: [256][3] u8, R, G, B, to be free()d. NULL: there is
 * none. */
uint8_t *tiff_palette(const struct tiff_reading *r);
/* The tables of JPEG streams, to be free()d. NULL: there are none in the file. */
uint8_t *tiff_tables(const struct tiff_reading *r, size_t *bytes);
/* Which of so many samples, of which the first are colours, is alpha; 0: none. */
int tiff_alpha(const struct tiff_reading *r, int colours, int samples, bool *is_multiplied);

/* Where the n strips or tiles of a directory lie, to be free()d. Files that state no counts of
 * bytes are read up to the next segment, or to the end. 0, PICTURE_DAMAGED or -1. */
int tiff_places(const struct tiff_reading *r, bool strips, int64_t n, struct tile_place **places,
                struct err *e);

/* Samples beside the colours that are neither alpha nor can be left out (`leave`) are channels:
 * -1. */
int tiff_check_channels(int colours, int samples, bool has_alpha, bool leave, struct err *e);

/* One line about a resolution of so many px per unit, if that is a number: the unit is unknown. */
void tiff_note_unitless(double px, struct slide_info *i);
/* One line about n samples per pixel that are not stored; "" for none. */
void tiff_note_left_out(int n, char *note, size_t size);

#endif
