/*
 * verify.h - reads every chunk of a store and checks all that can be checked.
 */
#ifndef WSI_VERIFY_H
#define WSI_VERIFY_H

#include "common/err.h"

#include <stdint.h>

struct verify_report {
    int64_t chunks, bytes;              /* stored, and looked at */
    int64_t bad;                        /* with a wrong checksum, or that cannot be unpacked */
    int64_t missing, damaged, left_out; /* tiles of the slide, as the store's status tables say */
    struct err first;                   /* the first bad one */
};

/* Checks attributes, groups, tables, and each chunk's CRC and packing. 0 also when chunks are bad:
 * see report->bad; -1 when the store cannot be gone through. */
int verify_store(const char *path, int threads, struct verify_report *report, struct err *e);

#endif
