/*
 * batch.h - a run of wsi2h5: the loop over its slides.
 */
#ifndef WSI_BATCH_H
#define WSI_BATCH_H

#include "convert/arguments.h"

/* Converts the slides that the words and --list name. Returns the exit status. */
int batch_run(const struct arguments *o, int argc, char **argv, int first);

#endif
