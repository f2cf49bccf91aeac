/*
 * map_files.h - the files of `h5spec map`: their names and kinds.
 *
 * A slide's name comes from a result and may be anything. In file names only characters are kept
 * that are harmless on every system: "FOLDER/SLIDE.focus_db.png". A name that was changed or cut
 * gets "~" and the CRC-32 of the original, so that names of two slides stay different.
 */
#ifndef WSI_MAP_FILES_H
#define WSI_MAP_FILES_H

#include "common/base/err.h"
#include "common/base/text_file.h"

enum map_format { MAP_PNG, MAP_OVERLAY, MAP_GEOJSON, MAP_CSV, MAP_TIFF, MAP_FORMATS };

/* The format of this name; -1 if there is none. */
int map_format_find(const char *name);
/* The format of a file of this name, by its ending; -1: none, so it names a folder. */
int map_format_of_file(const char *path);

/* FOLDER/SLIDE.FEATURE.png, to be free()d; NULL when out of memory. `feature` NULL: without. */
char *map_file_name(const char *folder, const char *slide, const char *feature, enum map_format f);

/* Begins a file. Fails if `path` exists and is not a file of this format that this program wrote.
 */
int map_file_begin(struct text_file *t, const char *path, enum map_format format, struct err *e);

/* How files that this program writes begin; each is replaced only by its like. */
#define MAP_GEOJSON_HEAD "{\"type\":\"FeatureCollection\",\"generator\":\"h5spec"
#define MAP_CSV_HEAD "i,j,x_px,y_px,size_px"
#define MAP_TIFF_SOFTWARE "h5spec"

#endif
