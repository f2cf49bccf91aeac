/*
 * map_write.h - the files of `h5spec map`: their names and kinds, and what writes them.
 *
 * A slide's name comes from a result and may be anything. In file names only characters are kept
 * that are harmless on every system: "FOLDER/SLIDE.focus_db.png". A name that was changed or cut
 * gets "~" and the CRC-32 of the original, so that names of two slides stay different.
 */
#ifndef WSI_MAP_WRITE_H
#define WSI_MAP_WRITE_H
#include "common/base/err.h"
#include "common/base/publish.h"
#include "process/map/map_formats.h"
#include "process/map/map_source.h"

/* The format of this name; -1 if there is none. */
int map_format_find(const char *name);
/* The format of a file of this name, by its ending; -1: none, so it names a folder. */
int map_format_of_file(const char *path);

/*
 * The files of one slide, format by format.
 */

/* Has GeoJSON count from the bounds of the slide (x, y), level-0 px, and says so; 0, 0: no bounds. */
void map_set_bounds(const struct map_setup *o, struct map_slide *m, int64_t x, int64_t y);
/* Writes the features maps[n] of a slide in all formats that are wanted. Pictures show one feature
 * each. */
int map_output(const struct map_setup *setup, const struct map_slide *m, const int *maps, int n,
               struct map_done *done, struct err *e);

/*
 * `h5spec map --scores`: the scores of another program as maps of one slide.
 *
 * The slide is that of a store or a result, if one is given. A result with several slides has the
 * slide of the name that --slide gives, or of the name of the file of scores.
 *
 * --follow waits while the file grows. It is complete when it has a line "#end", or when
 * nothing was appended for that many seconds. With --partial the maps are written again and again
 * meanwhile, marked as partial; else once. Either way the last maps are those that a run without
 * --follow makes of the whole file.
 */

/* Writes the maps. -1: nothing was written, or it was stopped by a signal. */
int map_scores_write(const struct map_setup *setup, struct map_done *done, struct err *e);

/* Writes the maps of all chosen slides, in the order of the files. What fails is reported, and the
 * next slide follows. -1: stopped by a signal, or nothing could be begun. */
int map_write(const struct map_setup *setup, struct map_done *done, struct err *e);

/* -1 unless exactly one slide is chosen: one file holds one. */
int map_is_one_slide(const struct map_setup *setup, struct err *e);

#endif
