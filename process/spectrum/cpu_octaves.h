/*
 * cpu_octaves.h - sums of classes over octaves of frequency, from blocks of frequencies (lanes.h).
 *
 * A row of a block is one horizontal frequency with LANES vertical ones. Most rows lie within one
 * octave and are added up as they are; of the others a mask takes the lanes that belong to the
 * octave. So no value needs a look-up of its own.
 *
 * The corners of the spectrum, the last octave, are a fifth of the values. They are not added up:
 * their sum is that of all values less those of the others and of the few below octave 0. These few
 * take the place of the corners here.
 */
#ifndef WSI_CPU_OCTAVES_H
#define WSI_CPU_OCTAVES_H

#include "common/base/err.h"
#include "common/result/features.h"
#include "process/spectrum/lanes.h"

#include <stdint.h>

enum { CPU_BELOW = FEATURES_OCTAVES - 1 }; /* in the place of the corners: f < 1/128 */

/* A row of which some lanes belong to an octave: all bits of mask[lane] are set for these. */
struct cpu_part {
    _Alignas(16) uint32_t mask[LANES];
    int place;
};

struct cpu_octaves {
    int window;
    /* Both lists are sorted by block, then octave. */
    int *rows; /* places of the rows that lie within one octave */
    struct cpu_part *parts;
    struct cpu_ends {
        int rows, parts;
    } (*ends)[FEATURES_OCTAVES]; /* [blocks]: where an octave's rows and parts end */
    int8_t *octaves;             /* [blocks][window][LANES], by place; FEATURES_NONE: corners */
};

void cpu_octaves_create(struct cpu_octaves *c, const struct lanes_plan *plan);
void cpu_octaves_free(struct cpu_octaves *c);

/* Adds the classes of a block, [window][LANES], over each octave, or CPU_BELOW, to sums. */
void cpu_octaves_add(const struct cpu_octaves *c, int block, const uint32_t *classes,
                     uint64_t sums[FEATURES_OCTAVES]);
/* The same `times` times for the first lane alone. */
void cpu_octaves_add_first(const struct cpu_octaves *c, int block, const uint32_t *classes,
                           int times, uint64_t sums[FEATURES_OCTAVES]);

#endif
