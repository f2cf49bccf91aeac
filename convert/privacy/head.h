/*
 * head.h - what a store holds besides its tiles: properties, thumbnail, ICC profile.
 */
#ifndef WSI_HEAD_H
#define WSI_HEAD_H

#include "common/base/err.h"
#include "common/store/store.h"
#include "convert/readers/slide.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct head {
    uint8_t *thumbnail; /* [height][width][3]; NULL without; owned */
    int64_t width, height;
    struct jpeg_strips strips; /* the thumbnail as it is in the slide, instead; owned */
    uint8_t *icc;              /* NULL without; owned */
    size_t icc_bytes;
};

/* Reads thumbnail and profile; identifying texts are blanked unless `identifiers`. With `keep` the
 * thumbnail stays as it is in the slide, if that is possible. What is damaged is left out, and
 * *damage says so ("" for nothing). -1: it cannot be read now. head_free it always. */
int head_read(struct head *h, struct slide *s, const struct slide_info *i, bool identifiers,
              bool keep, struct err *damage, struct err *e);
/* Writes all of it, and the properties of s. */
int head_put(const struct head *h, struct slide *s, bool identifiers, int threads,
             struct store_writer *w, struct err *e);
void head_free(struct head *h);

#endif
