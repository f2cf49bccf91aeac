/*
 * verify.h - reads a whole store and checks everything that can be checked.
 */
#ifndef WSI_VERIFY_H
#define WSI_VERIFY_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct verify_options {
    int threads;
    bool quick; /* CRCs only: nothing is unpacked */
    /* The fraction of the store that has been read, on the calling thread. NULL: not wanted. */
    void (*progress)(void *ctx, double fraction);
    void *ctx;
};

struct verify_report {
    int64_t chunks, bytes;              /* stored, and read */
    int64_t bad;                        /* chunks with a wrong CRC, or that do not unpack */
    int64_t missing, damaged, left_out; /* tiles of the slide, by status */
    struct err first;                   /* describes the first bad chunk; names the file */
};

/*
 * Checks attributes, groups and tables, and the CRC and the packing of every chunk. Returns 0 even
 * if chunks are bad: see report->bad. -1 if the store cannot be read to its end, or contradicts
 * itself; the message names the file.
 */
int verify_store(const char *path, const struct verify_options *o, struct verify_report *report,
                 struct err *e);

#endif
