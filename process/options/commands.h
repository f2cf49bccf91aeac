/*
 * commands.h - the commands of h5spec. All return the exit status.
 */
#ifndef WSI_COMMANDS_H
#define WSI_COMMANDS_H
#include "common/base/command.h"
#include "process/options/options.h"

int run_main(struct options *o);    /* from stores to results */
int info_main(struct options *o);   /* what stores and results contain */
int verify_main(struct options *o); /* are stores and results undamaged? */
int merge_main(struct options *o);  /* results added up into one file */
int lookup_main(struct options *o); /* the groups of all stores, numbered for array jobs */
int tune_main(struct options *o);   /* which size of groups is read fastest on this machine */

/* --- those with options of their own; argv[0] is the word --- */

/* The same slides in two results, and what changed. */
extern const struct command compare_options;
int compare_main(int argc, char **argv);

/* Results as a picture. */
extern const struct command plot_options;
int plot_main(int argc, char **argv);

/* Maps of windows as pictures and as files for viewers; not without libpng. */
extern const struct command map_options;
int map_main(int argc, char **argv);

/* One HTML page about a corpus; not without libpng. */
extern const struct command report_options;
int report_main(int argc, char **argv);

#endif
