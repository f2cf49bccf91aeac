/*
 * map.h - `h5spec map`: maps of windows as pictures and as files for viewers.
 */
#ifndef WSI_MAP_H
#define WSI_MAP_H

#include "common/base/command.h"
#include "common/base/err.h"
#include "process/map/map_setup.h"

/* Writes the maps of all chosen slides, in the order of the files. What fails is reported, and the
 * next slide follows. -1: stopped by a signal, or nothing could be begun. */
int map_write(const struct map_setup *setup, struct map_done *done, struct err *e);

/* -1 unless exactly one slide is chosen: one file holds one. */
int map_is_one_slide(const struct map_setup *setup, struct err *e);

/* The command line. map_main returns the program's exit status. */
extern const struct command map_options;
int map_main(int argc, char **argv);

#endif
