/*
 * cpu_octaves.h - which values of a block of frequencies (lanes.h) belong to which octave, in the
 * order in which the CPU backend sums them up.
 *
 * A row of a block is one horizontal frequency with LANES vertical ones. Most rows lie within one
 * octave; so rows are sorted by octave, and the sum over them needs no look-up per value.
 */
#ifndef WSI_CPU_OCTAVES_H
#define WSI_CPU_OCTAVES_H

#include "common/err.h"
#include "common/features.h"
#include "process/lanes.h"

/* Octaves, then frequencies that belong to none. */
enum { CPU_RINGS = FEATURES_OCTAVES + 1 };

struct cpu_octaves {
    int window;
    /* [blocks][window]: the places of rows, by ring; rows with several rings last. */
    int *rows;
    int (*ends)[CPU_RINGS]; /* [blocks]: where the rows of each ring end */
    uint8_t *rings;         /* [blocks][window][LANES]: of the value at each place */
};

int cpu_octaves_create(struct cpu_octaves *c, const struct lanes_plan *plan, struct err *e);
void cpu_octaves_free(struct cpu_octaves *c);

#endif
