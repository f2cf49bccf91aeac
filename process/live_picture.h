/*
 * live_picture.h - the map of a slide as far as it is computed.
 */
#ifndef WSI_LIVE_PICTURE_H
#define WSI_LIVE_PICTURE_H

#include "common/err.h"
#include "common/result.h"

#include <stdint.h>
#include <stdio.h>

/* What the picture shows: "focus_db", or "mean_db" if the result has no focus. */
const char *live_picture_feature(const struct result_slide *s);
/* Writes a PNG picture of all rows. Window rows from `rows` on are transparent; hatched: computed,
 * without a value. Maps of more than 1,024 columns or rows are reduced by a whole number; a row of
 * such a picture is drawn when all its window rows are final. */
int live_picture(FILE *f, const struct result_slide *s, int64_t rows, struct err *e);

#endif
