/* verify_command.h - the command `h5spec verify`. */
#ifndef WSI_VERIFY_COMMAND_H
#define WSI_VERIFY_COMMAND_H

#include "process/options.h"

/* Verifies stores and results, and prints one line per file. Returns the exit status: 1 if any file
 * is damaged or cannot be read. */
int verify_main(struct options *o);

#endif
