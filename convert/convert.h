/*
 * convert.h - one slide to one store.
 *
 * Each thread reads a tile, turns it gray if requested, packs it and computes its checksum, all in
 * the buffers of its item. The calling thread, between tiles of its own, writes the chunks into the
 * file in order. Memory is a few tiles per thread, whatever the slide's size.
 */
#ifndef WSI_CONVERT_H
#define WSI_CONVERT_H

#include "common/base/err.h"
#include "common/store/store.h"
#include "convert/convert_options.h"

#include <stdbool.h>
#include <stdint.h>

enum convert_outcome {
    CONVERT_DONE,
    CONVERT_SKIPPED, /* a finished store of this slide with these options exists */
};

/* The image beside the store (store_image.h), if it was made of another store of this name. */
enum convert_image { CONVERT_IMAGE_NONE, CONVERT_IMAGE_REMOVED, CONVERT_IMAGE_OLD };

struct convert_report {
    enum convert_outcome outcome;
    struct store_info info; /* of the store */
    int64_t store_bytes;
    double seconds;
    char refusal[160]; /* what the decoder says of the first tile that it refused, or "" */
    char note[256];    /* what the user should know of the slide although nothing is wrong, or "" */
    enum convert_image image;
    bool was_stale;          /* replaced a store of the slide as it was before the slide changed */
    char other_options[160]; /* rejected for them alone: the store was made "with --gray"; or "" */
};

/* `progress` (may be NULL) is called on the calling thread with the fraction of tiles done and the
 * number of pixels of the whole level. On failure the message names the file, and an existing store
 * at `target` is kept. */
int convert_slide(const char *path, const char *target, const struct convert_options *o,
                  void (*progress)(void *ctx, double fraction, double pixels), void *ctx,
                  struct convert_report *report, struct err *e);

#endif
