/*
 * map_output.h - the files of one slide, format by format.
 */
#ifndef WSI_MAP_OUTPUT_H
#define WSI_MAP_OUTPUT_H

#include "process/map/map_setup.h"
#include "process/map/map_source.h"

/* Writes the features maps[n] of a slide in all formats that are wanted. Pictures show one feature
 * each. */
int map_output(const struct map_setup *setup, const struct map_slide *m, const int *maps, int n,
               struct map_done *done, struct err *e);

#endif
