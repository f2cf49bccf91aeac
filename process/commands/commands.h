/*
 * commands.h - the commands of h5spec that have one file each. All return the exit status.
 */
#ifndef WSI_COMMANDS_H
#define WSI_COMMANDS_H

#include "common/base/command.h"
#include "process/options/options.h"

int info_main(struct options *o);   /* what stores and results contain */
int verify_main(struct options *o); /* are stores and results undamaged? */
int merge_main(struct options *o);  /* results added up into one file */
int lookup_main(struct options *o); /* the groups of all stores, numbered for array jobs */
int tune_main(struct options *o);   /* which size of groups is read fastest on this machine */

/* The same slides in two results, and what changed. argv[0] is the word. */
extern const struct command compare_options;
int compare_main(int argc, char **argv);

#endif
