/*
 * convert_options.h - the options of a conversion.
 */
#ifndef WSI_CONVERT_OPTIONS_H
#define WSI_CONVERT_OPTIONS_H

#include "common/codec/codec.h"
#include "convert/tissue/tissue.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct convert_options {
    const struct codec *codec; /* jpeg: where the tiles can be kept, else deflate */
    bool keep;                 /* --codec keep: existing stores of codec deflate count, too */
    bool strict_codec;         /* reject a slide that cannot have this codec */
    bool gray;
    int64_t level;
    double mpp;          /* um/px: takes the level that has it; 0: `level` */
    double mpp_override; /* um per level-0 px, instead of what the slide states; 0: none */
    int64_t group_bytes; /* of uncompressed pixels in a group */
    int64_t stripe_rows; /* rounded to whole chunk rows; at least one */
    int threads;         /* at most */
    const atomic_int *threads_now; /* how many of these may be busy now; NULL: all */
    bool force;                    /* replace an existing store */
    bool keep_identifiers;         /* store identifying properties, too */
    const char *name;              /* stored instead of the file's name; NULL: the file's name */
    bool tissue_only;              /* omit chunks without tissue */
    struct tissue_rule tissue;
    bool no_bounds; /* GeoJSON counts from the slide's corner; else as QuPath's (geojson.h) */
    const char *tissue_mask; /* a map from outside (tissue_mask.h); NULL: none */
    bool refuse_damage;      /* reject a slide with a damaged tile */
};

/* How many threads may be busy now. */
static inline int convert_threads(const struct convert_options *o)
{
    const int now = o->threads_now ? atomic_load(o->threads_now) : o->threads;
    return now < 1 ? 1 : now < o->threads ? now : o->threads;
}

#endif
