/*
 * inputs.h - from the command line's SLIDE words to a list of slides and their stores.
 */
#ifndef WSI_INPUTS_H
#define WSI_INPUTS_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
    char *path;           /* of the slide; owned */
    size_t below;         /* path + below is its path below the folder that was given */
    char *target;         /* path of its store; owned; NULL until it is known (--anonymous) */
    size_t target_number; /* inputs with one target have one, below n_targets */
    bool is_found;        /* by the search of a folder */
    bool shared;          /* an earlier input has the same target */
    bool alone;           /* no other input has the same target */
    char *problem; /* why it cannot be converted, with its path; NULL: no reason is known; owned */
    enum err_kind problem_kind;
};

/* A file or folder that a search passed over. */
struct input_skip {
    char *path, *why; /* owned */
};

/* Files that a search left out although they are slides: of a format that is not read, packed,
 * downloads that were broken off, or pictures beside slides. */
struct input_loss {
    char *ending;    /* ".czi"; owned */
    bool is_picture; /* which a folder without slides would give */
    size_t n;
};

struct inputs {
    struct input *list;
    size_t n;
    size_t n_targets; /* what inputs_assign() numbered; inputs_share() keeps it */
    struct input_skip *skipped;
    size_t n_skipped;
    struct input_loss *lost; /* by ending; what is said once per run */
    size_t n_lost;
};

/* Adds a slide or, for a folder, every slide below it, sorted by path. A word that leads
 * to no slide becomes an input with a problem. */
void inputs_add(struct inputs *in, const char *word);
/* Adds the paths of a file (cli_list). */
int inputs_add_list(struct inputs *in, const char *file, struct err *e);
/*
 * Sets the target of every input: `output` itself if it is a .h5 file, else NAME.h5 in that folder;
 * with `keep_tree` in the same subfolder as below the given folder. A path that occurs twice is
 * dropped once, and of the files of a DICOM series in one folder the largest is kept. Of the inputs
 * with one target the first that can be read gets it (inputs_clash). Output NULL: the targets are
 * not known yet, and only repeated paths and files of a series are dropped.
 */
void inputs_assign(struct inputs *in, const char *output, bool keep_tree);
/* Says that the store of `i` would overwrite that of `first`; -1. */
int inputs_clash(const struct input *i, const struct input *first, struct err *e);
/* Keeps share `task` of `tasks` (task_parse); inputs with one target are in one share. Call it
 * after inputs_assign. */
void inputs_share(struct inputs *in, int64_t task, int64_t tasks);
/* "6 files of formats of slides that are not read, ... (.czi 4, .svs.part 2)" into text. False:
 * none was left out. */
bool inputs_name_lost(const struct inputs *in, char *text, size_t size);
/* Does -o name a file rather than a folder? */
bool inputs_is_file(const char *output);
void inputs_free(struct inputs *in);

#endif
