/*
 * map.h - `h5spec map`: maps of windows as pictures and as files for viewers.
 */
#ifndef WSI_MAP_H
#define WSI_MAP_H

#include "common/base/command.h"

/* The command line. map_main returns the program's exit status. */
extern const struct command map_options;
int map_main(int argc, char **argv);

#endif
