/*
 * options.h - the options of the commands of h5spec: one table per command (common/base/command.h).
 *
 * A new command adds its table here, or in a file of its own, and one line in h5spec.c.
 */
#ifndef WSI_OPTIONS_H
#define WSI_OPTIONS_H

#include "common/base/command.h"
#include "common/base/progress.h"
#include "common/result/result.h"
#include "process/engine/regions.h"
#include "process/engine/stream.h"
#include "process/options/input_files.h"

#include <stdbool.h>
#include <stdint.h>

/* The words of --duplicates, in their order. */
enum options_duplicates { DUPLICATES_SKIP, DUPLICATES_COUNT, DUPLICATES_FAIL };

struct options {
    const struct command *command;
    struct input_files files; /* inputs; owned */
    const char *output;
    char *const *words; /* the inputs as they were named; 0 if --list names some */
    int n_words;
    const char *live;              /* folder of the live page, or NULL */
    const char *device;            /* the word */
    struct spectrum_choice choice; /* what it means */
    struct result_params params;
    int64_t first_group, last_group; /* counted from 1; 0, 0: all */
    int threads;
    int64_t memory;
    enum stream_io io;
    int64_t task, tasks; /* this task's share of the inputs; 0, 0: all */
    bool by_group;       /* shares are of the groups of all inputs */
    enum progress_when progress;
    enum options_duplicates duplicates;
    bool json, histogram, csv, quick, partial, force, quiet, mix_mpp;
    bool table;                    /* merge: of any number of slides */
    bool extends;                  /* merge: the output, a table, is named as an input */
    bool min_tissue;               /* --min-tissue was given */
    bool min_roi;                  /* --min-roi was given */
    struct regions_choice regions; /* its list of names is owned */
    bool accept_damage;            /* status 0 although tiles are damaged */
    bool reject_damaged;           /* --on-damage fail */
};

extern const struct command options_run, options_merge, options_info, options_verify,
    options_lookup, options_tune;

/* Rows that several tables have: `files` of ARGUMENTS is a struct input_files, `quiet` a bool. */
/* clang-format off */
#define OPTIONS_LIST(section)                                                                      \
    {section, 0, "list", "FILE", "read more inputs from FILE, one per line; - reads standard "     \
     "input", COMMAND_SET(files, input_files_add_file)}
#define OPTIONS_QUIET {NULL, 'q', "quiet", NULL, "print errors only", COMMAND_FLAG(quiet)}
/* clang-format on */
/* The members of a struct command that all commands have; the file defines ARGUMENTS. */
#define OPTIONS_COMMAND(word_, rows, set_defaults)                                                 \
    .program = "h5spec", .word = word_, .options = rows, .bytes = sizeof(ARGUMENTS),               \
    .defaults = set_defaults, .version = options_version

/* Reads a command line, checks it and searches the folders among the inputs. Returns -1 to go on,
 * or the exit status. Either way the caller calls options_free(). */
int options_parse(const struct command *c, int argc, char **argv, struct options *o);
void options_free(struct options *o);
/* Prints the answer to --version. */
void options_version(void);

#endif
