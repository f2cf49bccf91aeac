/*
 * arguments.h - the command line of wsi2h5.
 */
#ifndef WSI_ARGUMENTS_H
#define WSI_ARGUMENTS_H

#include "common/base/err.h"
#include "common/base/progress.h"
#include "convert/convert.h"

#include <stdbool.h>
#include <stdint.h>

struct arguments {
    struct convert_options convert;
    bool group_bytes_given; /* --group-bytes is on the command line */
    bool level_given;
    const char *output, *list;
    int64_t task, tasks; /* our share of the list */
    int64_t slides;      /* at once; 0: as many as cores */
    bool keep_tree, accept_damage;
    const char *key; /* --anonymous: file for the names of slides; NULL: they are not anonymous */
    bool json, print_inputs, quiet;
    enum progress_when progress;
};

/* Reads the command line. Returns -1 to go on, with the slides in argv[*first] .. argv[argc - 1],
 * or the exit status. */
int arguments_parse(int argc, char **argv, struct arguments *o, int *first);
/* Reports a usage error; returns its exit status. */
int arguments_usage_error(const struct err *e);

#endif
