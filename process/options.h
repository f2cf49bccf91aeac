/*
 * options.h - what the commands of h5spec are asked to do.
 */
#ifndef WSI_OPTIONS_H
#define WSI_OPTIONS_H

#include "common/cli.h"
#include "common/result.h"
#include "process/list.h"
#include "process/stream.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

struct options {
    const char *output;
    const char *device;
    struct result_params params;
    int64_t first_group, last_group;
    int64_t threads, memory;
    enum stream_io io;
    int64_t task, tasks; /* our share of the inputs */
    bool json, histogram, csv, partial, force, quiet;
    enum cli_when progress;
    char **inputs;
    int n_inputs;
};

extern struct list files; /* what o.inputs points to */

extern const struct option run_options[], merge_options[], info_options[], verify_options[],
    tune_options[], lookup_options[];

void say(const char *message);
int usage_error(const struct err *e);
/* Returns -1 to go on, or the exit status. */
int parse(int argc, char **argv, const char *letters, const struct option *table,
          struct options *o);

#endif
