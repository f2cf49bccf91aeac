/*
 * regions.h - the part of a slide that is to be counted: polygons that people drew.
 *
 * Polygons are in level-0 pixels, from the slide's bounds (geojson.h). They are divided by the store's `downsample`; the
 * origin of every level is that of level 0. A pixel of the store lies inside if its centre does
 * (polygons.h). A window counts if at least min_roi of its pixels lie inside. These are whole
 * numbers, computed over the slide as a whole, so every split of the work finds the same windows.
 */
#ifndef WSI_REGIONS_H
#define WSI_REGIONS_H

#include "common/base/err.h"
#include "common/regions/geojson.h"
#include "common/regions/polygons.h"
#include "common/result/result.h"
#include "common/store/store.h"

#include <stdint.h>
#include <time.h>

struct regions_choice {
    const char *path; /* a GeoJSON file, or a folder with one per slide; NULL: no regions */
    struct geojson_classes classes;
    bool no_bounds; /* places count from the slide's corner, not from its bounds (geojson.h) */
};

/* Which regions they are. */
struct regions_version {
    uint32_t crc32;          /* of the polygons in level-0 pixels of the whole slide, however the
                              * file is written */
    struct timespec changed; /* the file's time */
};

/*
 * Reads the regions of a store, in pixels of the store. In a folder, the file is NAME.geojson or
 * NAME.json, where NAME is the store's name without .h5, else the slide's name, else the slide's
 * name without its ending. It is an error if all polygons lie outside of the slide. Messages name
 * the file. Free *p with polygons_free().
 */
int regions_load(const struct regions_choice *c, const char *store, const struct store_info *i,
                 struct polygons *p, struct regions_version *v, struct err *e);

/* inside [ny][nx] gets 1 for the windows of which enough lies inside, else 0. */
int regions_windows(const struct polygons *p, const struct result_params *params, int64_t nx,
                    int64_t ny, uint8_t *inside, struct err *e);

#endif
