/*
 * result_read.h - reading results, plain ones and tables.
 *
 * Threads: only one call into this module at a time. Threads besides the first hold h5_lock().
 */
#ifndef WSI_RESULT_READ_H
#define WSI_RESULT_READ_H

#include "common/result/report_numbers.h"
#include "common/result/result.h"

/* Does the file say that it is a result? It may be unfinished or damaged. */
bool result_is(const char *path);
/* Can the file be read, and does it say that it is something else? What cannot be read is not
 * foreign: it may be a damaged result. */
bool result_is_foreign(const char *path);

struct result *result_open(const char *path, struct err *e);
const struct result_params *result_params(const struct result *r);
const char *result_creator(const struct result *r); /* "h5spec 1.0.0" */
/* Counts over the whole file. */
const struct result_counts *result_totals(const struct result *r);
int64_t result_slides(const struct result *r);
const char *result_slide_name(const struct result *r, int64_t k); /* sorted by name */

/* Names of results: NAME.h5 of a slide, and NAME.A-B.h5 of its groups A to B. result_part_of: the
 * length of NAME if a name without its ending is that of a part, else 0. result_has_own_name: is
 * this the result of one slide, or of some of its groups, under the slide's name? */
size_t result_part_of(const char *stem, size_t n);
bool result_has_own_name(const struct result *r, const char *path);
/* May `path` be replaced by a result of the slides that has() knows? Yes if it is no result that
 * can be read, or one of such slides only. The message names the file and a slide that would be
 * lost. */
int result_check_replaced(const char *path, bool (*has)(const void *ctx, const char *slide),
                          const void *ctx, struct err *e);
/* The number of the slide of this name; -1 if there is none. */
int64_t result_find_slide(const struct result *r, const char *name);
/* The file that has the maps of slide k. */
int result_slide_path(struct result *r, int64_t k, char *path, size_t size, struct err *e);
/* Loads and checks slide k; free with result_slide_free(). */
int result_load_slide(struct result *r, int64_t k, struct result_slide *s, struct err *e);
/* Loads attributes, counts with the histogram, groups, and of the rest what `parts` names: it is
 * faster where only some parts are needed. Parts that are not loaded are NULL. Each dataset has a
 * checksum of its own, which is checked; only result_load_slide() checks data_crc32. */
int result_load_parts(struct result *r, int64_t k, unsigned parts, struct result_slide *s,
                      struct err *e);
/* Reads the resolution of slide k alone, into mpp_x, mpp_y and downsample. */
int result_read_scale(struct result *r, int64_t k, struct result_origin *o, struct err *e);
/* The numbers of slide k, if the file itself has them, because it is a table. 1: *n has them; 0:
 * they follow from report_numbers_parts(); -1: failed. */
int result_read_numbers(struct result *r, int64_t k, struct report_numbers *n, struct err *e);
/*
 * Are the rows of a table still right? One stat per row; a result of another size or time is opened,
 * because a copy with the same data is right. Returns [slides], to be free()d: whether the result
 * of slide k has changed, so that the row must not be used. Of a result that is gone the row is all
 * there is. NULL: no row has changed. *line gets one line about rows that have changed or whose
 * results are gone, if any.
 */
bool *result_find_changed(struct result *r, struct err *line);
/* -1: the error about a row that must not be used. */
int result_refuse_changed(struct result *r, int64_t k, struct err *e);
/* The parts in the file itself: all, or none of a table. */
unsigned result_parts_in_file(const struct result *r);
void result_close(struct result *r);

/* --- reading a map by rows, for maps of any height in little memory --- */

struct result_rows;
/* Opens map `map` (enum result_map_number) of slide k, whose attributes are in `s`, and checks its
 * checksum. NULL on failure. r must outlive it. */
struct result_rows *result_open_rows(struct result *r, int64_t k, int map,
                                     const struct result_slide *s, struct err *e);
size_t result_rows_bytes(const struct result_rows *m); /* of a row */
/* values [n][nx] of the kind's type: rows first to first + n - 1. */
int result_read_rows(struct result_rows *m, int64_t first, int64_t n, void *values, struct err *e);
void result_close_rows(struct result_rows *m); /* NULL is fine */

/* Reads everything in a result, and what a table refers to, and checks every number: texts,
 * histograms, maps, the sums of the slides against the totals, mean and std against the histograms.
 * The message names the file. */
int result_check(const char *path, struct err *e);

/* May a result be written to this path? Yes if no file or a result exists there, even a damaged
 * one. */
int result_check_target(const char *path, struct err *e);

#endif
