/*
 * slide_bytes.h - a slide as a file in memory, by which one process hands it to another that was
 * forked after slide_bytes_create().
 */
#ifndef WSI_SLIDE_BYTES_H
#define WSI_SLIDE_BYTES_H

#include "common/base/err.h"
#include "common/result/result.h"

#include <stddef.h>

/* An empty file, which close() removes. -1 on failure. */
int slide_bytes_create(struct err *e);
/* Replaces what the file holds. Nobody has it mapped. */
int slide_bytes_put(int fd, const struct result_params *p, const struct result_slide *s,
                    struct err *e);

struct slide_bytes {
    struct result_slide slide; /* points into the map; read only */
    void *map;
    size_t bytes;
};

/* Until slide_bytes_drop(), the file stays as it is. */
int slide_bytes_take(int fd, const struct result_params *p, struct slide_bytes *b, struct err *e);
void slide_bytes_drop(struct slide_bytes *b);

#endif
