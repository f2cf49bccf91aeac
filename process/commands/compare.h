/*
 * compare.h - h5spec compare: the same slides in two results, and what changed.
 */
#ifndef WSI_COMPARE_H
#define WSI_COMPARE_H

#include "common/base/command.h"

extern const struct command compare_options;
/* argv[0] is the word. Returns the exit status. */
int compare_main(int argc, char **argv);

#endif
