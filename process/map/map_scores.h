/*
 * map_scores.h - `h5spec map --scores`: the scores of another program as maps of one slide.
 *
 * The slide is that of a store or a result, if one is given. A result with several slides has the
 * slide of the name that --slide gives, or of the name of the file of scores.
 *
 * --follow waits while the file grows. It is complete when it has a line "#end" or the number of
 * patches that is expected, or when nothing was appended for some time. With --partial the maps
 * are written again and again meanwhile, marked as partial; else once. Either way the last maps are
 * those that a run without --follow makes of the whole file.
 */
#ifndef WSI_MAP_SCORES_H
#define WSI_MAP_SCORES_H

#include "process/map/map_setup.h"

/* Writes the maps. -1: nothing was written, or it was stopped by a signal. */
int map_scores_write(const struct map_setup *setup, struct map_done *done, struct err *e);

#endif
