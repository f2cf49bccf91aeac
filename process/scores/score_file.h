/*
 * score_file.h - scores of patches, as other programs write them: one row per patch with its place
 * (x, y: upper left corner, and size, in px of level 0) and one value or more. Rows may have any
 * order, patches may overlap or leave gaps.
 *
 *   CSV    a header line names the columns: x, y, size (or x_px, y_px, size_px, as h5spec map
 *          writes them), each other column is a value. An empty field, nan and none are no value.
 *          Lines that begin with # are skipped; "#end" ends the table.
 *   npy    a 2-D array with the columns x, y, size, value ..., or a structured array, whose fields
 *          are named as the columns of a CSV table
 *   HDF5   `coords` (N x 2), and datasets of N values or N x k values; the attributes of coords
 *          that TRIDENT and CLAM write give the size
 *
 * The file is hostile until checked. Rows are read one by one: memory does not depend on their
 * number. HDF5 is copied to a temporary file first (h5_child.h).
 */
#ifndef WSI_SCORE_FILE_H
#define WSI_SCORE_FILE_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SCORES_MOST = 16, SCORES_NAME = 40 }; /* values of a patch; bytes of a value's name */
#define SCORES_MOST_PX 2147483647            /* of |x|, |y| and of the size of a slide */
#define SCORES_MOST_SIZE 32768               /* px of a patch */
#define SCORES_MOST_VALUE 1e9

struct score_options {
    char *const *names; /* [n_names] values that are wanted; none: all */
    int n_names;
    int64_t patch; /* px; used where the file does not say the size; 0: it must */
    int64_t limit; /* bytes of a CSV file to read; -1: all */
};

struct score_patch {
    int64_t x, y, size;
    double value[SCORES_MOST]; /* NaN: none */
    int64_t number;            /* of its line or row in the file, from 1 */
};

enum score_next { SCORE_PATCH, SCORE_BAD, SCORE_END, SCORE_FAILED };

struct score_file;
/* NULL on failure. The messages of all functions name the file. */
struct score_file *score_file_open(const char *path, const struct score_options *o, struct err *e);
void score_file_close(struct score_file *f); /* NULL is fine */
/* How many values a patch has, and the name of one: at most SCORES_NAME - 1 letters, digits and
 * any of "_.-+", each name once. */
int score_file_values(const struct score_file *f);
const char *score_file_name(const struct score_file *f, int value);
/* The next row. SCORE_BAD: it cannot be used, `e` says why, and the next may be asked for;
 * SCORE_FAILED: reading failed. */
enum score_next score_file_next(struct score_file *f, struct score_patch *p, struct err *e);
/* Puts file and line before a message about a row; returns SCORE_BAD. */
enum score_next score_file_blame(const struct score_file *f, const struct score_patch *p,
                                 struct err *e);
/* Goes back to the first row. */
int score_file_rewind(struct score_file *f, struct err *e);
/* Can the file be read while it grows? */
bool score_file_grows(const char *path);

/* --- for readers of formats --- */

enum { SCORES_X, SCORES_Y, SCORES_SIZE, SCORES_VALUE }; /* of columns: VALUE and above */
enum { SCORES_COLUMNS = 256 };                          /* of a file, at most */

/* Columns of a file, and what each is. */
struct score_columns {
    int n;
    int8_t
        role[SCORES_COLUMNS]; /* SCORES_X ..., SCORES_VALUE + number of the value; -1: not used */
    int n_values;
    char name[SCORES_MOST][SCORES_NAME];
    bool has_size;
};
/* Sets the columns from the names of a header. */
int score_columns_set(struct score_columns *c, char *const *names, int n,
                      const struct score_options *o, struct err *e);

/* open() may complete `o` with what the file says. */
struct score_reader {
    void *(*open)(const char *path, struct score_options *o, struct score_columns *c,
                  struct err *e);
    enum score_next (*next)(void *f, double *row, int64_t *number, struct err *e);
    int (*rewind)(void *f, struct err *e);
    void (*close)(void *f);
};
extern const struct score_reader score_csv, score_npy, score_h5;

#endif
