/*
 * slide_metadata.h - what OpenSlide knows of a slide as a whole: quickhash, levels, scale,
 * properties, thumbnail. Every reader uses it, so stores say the same whichever reader made them.
 *
 * It has its own OpenSlide handle. OpenSlide's errors are sticky: after a failed call the handle is
 * closed and opened again. One thread at a time.
 */
#ifndef WSI_SLIDE_METADATA_H
#define WSI_SLIDE_METADATA_H

#include "common/base/err.h"
#include "convert/readers/frame/slide_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slide_metadata;

/* Is OpenSlide in this build? Without it slide_metadata_open returns 0. */
bool slide_metadata_available(void);

/* 1: *m is open and *info describes the level. 0: OpenSlide does not know the format.
 * SLIDE_DAMAGED: it rejects the file. -1: the file cannot be read now, the path leads to another
 * file, or the slide does not have the level. `file` must outlive *m. */
int slide_metadata_open(struct slide_metadata **m, const struct slide_file *file, int64_t level,
                        struct slide_info *info, struct err *e);
/* Opens the slide once more and compares. OpenSlide leaves out what a call that fails keeps it from
 * reading, and does not report it: levels, so that the quickhash is another one, or a format. -1:
 * the two differ, so neither can be trusted; errno may pass. */
int slide_metadata_confirm(const struct slide_metadata *m, struct err *e);
/* NULL is allowed. */
void slide_metadata_close(struct slide_metadata *m);

/* For tables of readers, as the functions of the same names in struct slide_reader. The slide has
 * metadata. */
int slide_metadata_properties(struct slide *s,
                              int (*put)(void *ctx, const char *key, const char *value), void *ctx);
int slide_metadata_thumbnail(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height,
                             struct err *e);
int slide_metadata_icc(struct slide *s, uint8_t **profile, size_t *bytes, struct err *e);

/* "OpenSlide 3.4.1" */
const char *slide_metadata_library(void);
/* n pixels of premultiplied ARGB over the background: exact for opaque and for empty pixels. */
void slide_compose(const uint32_t *argb, size_t n, const uint8_t background[3], uint8_t *rgb);

#endif
