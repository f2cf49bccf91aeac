/*
 * slide_file.h - a file of a slide, opened once.
 *
 * The path of a slide can lead to another file at any time, and an open can fail once. So a slide's
 * file is opened once, and all readers and checks read from that descriptor, at offsets. Libraries
 * that open the path themselves are followed by slide_file_confirm(). Any thread.
 */
#ifndef WSI_SLIDE_FILE_H
#define WSI_SLIDE_FILE_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct slide_file {
    char *path;     /* owned; for messages, and for libraries */
    int fd;         /* for read_at() only: nobody moves its position */
    struct stat st; /* as it was opened */
    uint64_t bytes; /* its size then */
};

/* NULL with a message that names the file, and errno: it cannot be opened, or is no regular file.
 */
struct slide_file *slide_file_open(const char *path, struct err *e);
/* NULL is allowed. */
void slide_file_close(const struct slide_file *f);

/* Does the path still lead to this file, and is it as it was opened? -1: it has changed, or nobody
 * can tell, and errno may pass. */
#define SLIDE_FILE_CHANGED "changed while it was read; run again"
int slide_file_confirm(const struct slide_file *f, struct err *e);

/*
 * --- damage ---
 *
 * Damage of a slide, and errors that may pass.
 */

/*
 * The file holds something that cannot be read, and e says what. This is damage of the slide. In
 * contrast -1 is an error that may pass: no memory, no descriptors, a failing disk. An error that
 * passes must never be recorded as damage.
 */
enum { SLIDE_DAMAGED = -2 };

/* Is this errno of a failed call an error that may pass, rather than damage? Set errno to 0 before
 * the call: OpenSlide and libtiff do not report the cause. */
bool slide_may_pass(int code);

#endif
