/*
 * live_picture.h - the map of a slide as far as it is computed.
 */
#ifndef WSI_LIVE_PICTURE_H
#define WSI_LIVE_PICTURE_H

#include "common/base/err.h"
#include "common/result/result.h"

#include <stdint.h>
#include <stdio.h>

/* Writes a PNG picture of all rows of map RESULT_FOCUS or RESULT_MEAN. Window rows from `rows` on
 * are transparent, and so, by another entry of the palette, is what has no value. Maps of more than
 * 1,024 columns or rows are reduced by a whole number; their rows are drawn when all window rows in
 * them are final. */
int live_picture(FILE *f, const struct result_slide *s, int map, int64_t rows, struct err *e);

#endif
