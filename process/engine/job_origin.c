/* job_origin.c - see job_origin.h. */
#include "process/engine/job_origin.h"

#include "common/base/memory.h"
#include "common/store/store.h"
#include "process/draw/shrink.h"

#include <stdlib.h>
#include <string.h>

/* Shrinks a picture to fit RESULT_MOST_THUMBNAIL. */
static int shrink(const struct store_picture *from, struct result_picture *to, struct err *e)
{
    const int64_t longer = from->width > from->height ? from->width : from->height;
    const int64_t most = longer < RESULT_MOST_THUMBNAIL ? longer : RESULT_MOST_THUMBNAIL;
    to->width = from->width * most / longer > 0 ? from->width * most / longer : 1;
    to->height = from->height * most / longer > 0 ? from->height * most / longer : 1;
    if (!(to->rgb = memory_try((size_t)(to->width * to->height), 3, e)))
        return -1;
    shrink_rgb(from->rgb, from->width, from->height, to->rgb, to->width, to->height);
    return 0;
}

static int copy_thumbnail(struct job *j, struct err *e)
{
    struct store_picture from;
    const int found = store_read_thumbnail(j->store, &from, e);
    if (found <= 0)
        return found;
    const int bad = shrink(&from, &j->result.thumbnail, e);
    free(from.rgb);
    return bad ? err_add(e, "%s", j->path) : 0;
}

static void copy_attributes(const struct store_info *i, struct result_origin *o)
{
    o->mpp_x = i->mpp_x;
    o->mpp_y = i->mpp_y;
    o->downsample = i->downsample;
    o->objective_power = i->objective_power;
    o->tiles = (i->height + i->chunk_rows - 1) / i->chunk_rows * store_chunk_columns(i);
    o->tiles_missing = i->tiles_missing;
    o->tiles_damaged = i->tiles_damaged;
    o->tiles_left_out = i->tiles_left_out;
    memcpy(o->vendor, i->vendor, sizeof o->vendor);
    o->jpeg_quality = i->jpeg_quality;
    o->jpeg_twice = i->jpeg_twice;
    memcpy(o->glass, i->glass, sizeof o->glass);
    memcpy(o->jpeg_subsampling, i->jpeg_subsampling, sizeof o->jpeg_subsampling);
}

int job_describe_origin(struct job *j, struct err *e)
{
    struct result_slide *r = &j->result;
    int64_t thresholds[FEATURES_SAMPLES];
    copy_attributes(store_info(j->store), &r->origin);
    if (features_thresholds(j->tissue, j->inside, r->nx, r->ny, thresholds))
        return err_set(e, "%s: out of memory", j->path);
    for (int k = 0; k < FEATURES_SAMPLES; k++)
        r->spectra[k].threshold = thresholds[k];
    return copy_thumbnail(j, e);
}
