/*
 * inputs.h - from the command line's SLIDE words to a list of slides and their stores.
 */
#ifndef WSI_INPUTS_H
#define WSI_INPUTS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
    char *path;     /* of the slide; owned */
    char *target;   /* of its store; owned */
    char *problem;  /* why it cannot be converted; NULL when nothing is known yet; owned */
};

struct inputs {
    struct input *list;
    size_t n;
};

/* Adds a slide, or, for a folder, every file below it whose name ends like a slide's, sorted. A word
 * that leads to no slide becomes an input with a problem. -1 only when out of memory. */
int inputs_add(struct inputs *in, const char *word, struct err *e);
/* Adds the paths of a file, one a line; empty lines and lines that begin with # are left out. */
int inputs_add_list(struct inputs *in, const char *file, struct err *e);
/* Gives every input its target: `output` itself if it is a .h5 file, else NAME.h5 in that folder. A
 * path that came before is dropped; an input whose target another has already becomes a problem. */
int inputs_assign(struct inputs *in, const char *output, struct err *e);
/* Keeps share `task` of `tasks` (cli_task). After inputs_assign: what clashes does so in every share. */
void inputs_share(struct inputs *in, int64_t task, int64_t tasks);
/* Does -o name a file rather than a folder? */
bool inputs_is_file(const char *output);
void inputs_free(struct inputs *in);

#endif
