/*
 * verify_command.h - h5spec verify: are stores and results undamaged?
 */
#ifndef WSI_VERIFY_COMMAND_H
#define WSI_VERIFY_COMMAND_H

#include "process/options/options.h"

/* Returns the exit status. */
int verify_main(struct options *o);

#endif
