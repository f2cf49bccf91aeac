/*
 * plan.h - before a slide is converted: the codec of its store, and whether a store exists.
 */
#ifndef WSI_PLAN_H
#define WSI_PLAN_H

#include "common/base/err.h"
#include "common/store/store.h"
#include "convert/convert_options.h"
#include "convert/readers/slide.h"
#include "convert/readers/sources.h"

#include <stdbool.h>
#include <sys/stat.h>

/* Fills *i with the store that the options make of the slide at `path`. */
int plan_store(const char *path, const struct stat *source, const struct slide_info *s,
               const struct convert_options *o, struct store_info *i, struct err *e);

/* Makes it a store of the default codec instead of jpeg, because of `reason`. -1: --strict-codec.
 */
int plan_fall_back(struct store_info *i, const struct convert_options *o, const char *reason,
                   struct err *e);

enum plan_verdict {
    PLAN_MAKE,   /* nothing that counts exists */
    PLAN_REMAKE, /* a store of the slide as it was before it changed */
    PLAN_SKIP,   /* the finished store exists; *old describes it */
};

/* Compares `target` with the store that is to be made of `sources`. With --codec keep a store of
 * codec deflate is as good as one of kept tiles. -1: what exists must not be replaced; if it is a
 * store of the slide made with other options, *how says with which. */
int plan_judge(const char *path, const char *target, const struct store_info *new,
               const struct sources *sources, const struct convert_options *o,
               struct store_info *old, struct err *how, struct err *e);

/* Is the file at `target` a store of this slide as it is now, whatever its options? By name, size
 * and time of the slide's file. */
bool plan_has_store(const char *path, const char *target);
/* Is it a store of another slide, by name and folder of its file? */
bool plan_has_others_store(const char *path, const char *target);

#endif
