/*
 * compare_command.h - h5spec compare: the command line, and what it prints.
 */
#ifndef WSI_COMPARE_COMMAND_H
#define WSI_COMPARE_COMMAND_H

#include "common/base/command.h"

extern const struct command compare_options;
/* argv[0] is the word. Returns the exit status. */
int compare_main(int argc, char **argv);

#endif
