/*
 * run.h - h5spec run: from stores to results.
 */
#ifndef WSI_RUN_H
#define WSI_RUN_H

int command_run(int argc, char **argv);

#endif
