/*
 * input_files.h - the files that a command works on: words of the command line and lines of --list
 * files, with folders replaced by what they contain, and a task's share of them.
 */
#ifndef WSI_INPUT_FILES_H
#define WSI_INPUT_FILES_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct input_files {
    char **paths; /* each owned */
    int n;
    int failed;     /* inputs that input_files_expand() has reported and dropped */
    int trouble;    /* of these: of the machine (err.h) */
    char **folders; /* those that input_files_expand() has searched; each owned */
    int n_folders;
    struct input_files_problem *problems; /* what it has found there that is no file */
    int n_problems;
};

struct input_files_problem {
    char *path, *why; /* owned */
};

/* What folders are searched for: files with the ending .h5 that are stores, results or either, also
 * when they are damaged. For a report a folder may also have lists of failed slides only. */
enum input_files_kind { INPUT_STORES, INPUT_RESULTS, INPUT_BOTH, INPUT_REPORT };

/* Adds the n words of a command line. */
void input_files_add_words(struct input_files *l, char *const *words, int n);
/* Adds the lines of a file (cli_list) to a struct input_files; for rows of options. */
int input_files_add_file(void *list, const char *file, struct err *e);
/* Replaces each folder by the files in it, sorted by path. Reports and counts what is a
 * problem to folder_find(), and folders without such files. */
void input_files_expand(struct input_files *l, enum input_files_kind kind);
/* The exit status that the inputs that were dropped lead to. */
int input_files_status(const struct input_files *l);
/* Sizes of the files in bytes, added up: [k] is that of all files before file k, [n] that of all n.
 * Each file counts as one byte at least. To be free()d. */
double *input_files_sizes(const struct input_files *l);
/* Keeps share `task` of `tasks` (task_parse); it can be empty. */
void input_files_share(struct input_files *l, int64_t task, int64_t tasks);
/* Frees what the list owns and empties it. */
void input_files_free(struct input_files *l);

/* Fails, because -o WHAT was not given; with the remedy for the first input that is a slide, if one
 * is. */
int input_files_lacks_output(const struct input_files *l, const char *what, struct err *e);

/* Of a list without results: its first folder that has stores, or file, if all files are stores;
 * else NULL. */
const char *input_files_only_stores(const struct input_files *l);

/*
 * --- chosen slides ---
 *
 * Which slides of results a command works on: --slide NAME, or a pattern as fnmatch() takes it,
 * any number of times. Without any, all slides are chosen.
 */

struct choice {
    const char *const *patterns; /* [n], the caller's */
    int n;
    bool *found; /* [n]: the pattern has matched a slide; owned */
};

/* Appends a word of the command line, which is not copied, to *patterns [*n]. The caller frees the
 * array. */
void choice_add(const char ***patterns, int *n, const char *word);
void choice_begin(struct choice *c, const char *const *patterns, int n);
bool choice_has(struct choice *c, const char *name);
/* -1 if a pattern has matched no slide; the message names it. */
int choice_check(const struct choice *c, struct err *e);
void choice_end(struct choice *c);

#endif
