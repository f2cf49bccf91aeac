/*
 * merge_command.h - h5spec merge: results added up into one file.
 */
#ifndef WSI_MERGE_COMMAND_H
#define WSI_MERGE_COMMAND_H

#include "process/options/options.h"

/* Returns the exit status. */
int merge_main(struct options *o);

#endif
