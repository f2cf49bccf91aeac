/*
 * run.h - h5spec run: from stores to results.
 */
#ifndef WSI_RUN_H
#define WSI_RUN_H

#include "process/options/options.h"

/* Returns the exit status. */
int run_main(struct options *o);

#endif
