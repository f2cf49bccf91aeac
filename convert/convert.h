/*
 * convert.h - one slide to one store.
 *
 * Each thread reads a tile, turns it gray if asked, packs it and takes its checksum, all in buffers
 * of its item; the calling thread, between tiles of its own, puts the chunks into the file in order. Memory
 * is a few tiles a thread, whatever the slide's size.
 */
#ifndef WSI_CONVERT_H
#define WSI_CONVERT_H

#include "common/codec.h"
#include "common/err.h"
#include "common/store.h"

#include <stdbool.h>
#include <stdint.h>

struct convert_options {
    const struct codec *codec;
    bool gray;
    int64_t level;
    int64_t group_bytes; /* of pixels, uncompressed, in a group */
    int64_t stripe_rows; /* rounded to whole chunk rows; at least one */
    int threads;
    bool force;            /* replaces whatever store stands there */
    bool keep_identifiers; /* of the properties */
    bool tissue_only;      /* chunks without tissue are left out */
    bool no_tissue;        /* no map of the tissue */
    bool refuse_damage;    /* a missing or damaged tile fails the slide */
};

enum convert_outcome {
    CONVERT_DONE,
    CONVERT_SKIPPED, /* a finished store of this slide, made with these options, stands there */
};

struct convert_report {
    enum convert_outcome outcome;
    struct store_info info; /* of the store */
    int64_t store_bytes;
    double seconds;
    bool was_stale;         /* a store of the slide as it was before stood there, and was replaced */
};

/* `progress` (may be NULL) is called on the calling thread with the fraction of tiles done. On failure
 * the message names the file, and what stood at `target` before still stands there. */
int convert_slide(const char *path, const char *target, const struct convert_options *o,
                  void (*progress)(void *ctx, double fraction), void *ctx,
                  struct convert_report *report, struct err *e);

#endif
