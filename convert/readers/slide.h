/*
 * slide.h - a slide as the converter sees it, and the table of formats.
 *
 * A format is a reader (frame/slide_reader.h) and a row of the table in slide.c: its name, the
 * endings of its files and what it needs. All else that depends on the format asks this table.
 * slide_open asks the readers in the order of the table; the first that recognises the file opens
 * it.
 */
#ifndef WSI_SLIDE_H
#define WSI_SLIDE_H

#include "common/base/err.h"
#include "convert/readers/frame/slide_file.h"
#include "convert/readers/frame/slide_reader.h"

#include <stdbool.h>
#include <stdint.h>

/* Opens a level of a slide with the first reader that recognises it. `file` must outlive it. NULL
 * with a message that names the file otherwise; then slide_may_pass(errno) says whether the error
 * may pass. */
struct slide *slide_open(const struct slide_file *file, int64_t level, int threads,
                         struct slide_info *info, struct err *e);
/* NULL is allowed. */
void slide_close(struct slide *s);
/* Does the file name end like a slide's? For folder searches. */
bool slide_has_name(const char *path);
/* Is it of a format whose slides are series of files in one folder, by its ending, or by its bytes
 * if it ends like none? */
bool slide_has_series(const char *path);
/* The series that such a file belongs to. False: it does not say, and errno is 0; or errno says why
 * it cannot be read. *is_other: the file is whole, but no part of a slide's pixels. */
enum { SLIDE_SERIES = 80 };
bool slide_series(const char *path, char series[SLIDE_SERIES], bool *is_other);
/* The ending of a file of a format of slides that is not read, of a packed slide or of a download
 * that is not finished: ".czi", ".svs.part". NULL: it has none of those. Points into the path. */
const char *slide_lost_ending(const char *path);
/* Does the name end like a plain picture's? */
bool slide_has_picture_name(const char *path);

#endif
