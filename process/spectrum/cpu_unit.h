/*
 * cpu_unit.h - the CPU backend's share of work for one thread: a block of window columns, over a
 * few of the window rows that a slab completes.
 */
#ifndef WSI_CPU_UNIT_H
#define WSI_CPU_UNIT_H

#include "common/base/err.h"
#include "common/result/features.h"
#include "process/spectrum/lanes.h"
#include "process/spectrum/spectrum.h"

#include <stdint.h>

/*
 * --- sums over octaves ---
 *
 * Sums of classes over octaves of frequency, from blocks of frequencies (lanes.h).
 *
 * A row of a block is one horizontal frequency with LANES vertical ones. Most rows lie within one
 * octave and are added up as they are; of the others a mask takes the lanes that belong to the
 * octave. So no value needs a look-up of its own.
 *
 * The corners of the spectrum, the last octave, are a fifth of the values. They are not added up:
 * their sum is that of all values less those of the others and of the few below octave 0. These
 * few take the place of the corners here.
 */

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

/* --- a unit --- */

/* Counters that neighbouring values use in turn, and bits of a float below a cell of `cells`. */
enum { CPU_COUNTERS = 4, CPU_CELL_SHIFT = 17 };

/* A squared magnitude, later the class that it was counted in. */
union cpu_value {
    float power;
    uint32_t class; /* before counting: the bits of power */
};

/* Scratch memory of one thread. */
struct scratch {
    const float **rows; /* the pixel rows of the unit, `radius` more above and below */
    float *across;      /* [rows + 2 radius][LANES_STRIP]: smoothed along the rows */
    float *strip;       /* [LANES_STRIP / LANES][strip_rows][LANES]: smoothed */
    size_t strip_rows;
    float *columns;          /* for lanes->columns */
    float *ring;             /* [rows of windows][blocks][ring][2][LANES] */
    float *mean;             /* [rows of windows][ring]: taken off the columns */
    double (*low)[2];        /* [window]: one row of frequencies */
    float *data;             /* [window][2][LANES]: one block of rows of frequencies */
    union cpu_value *values; /* [window][LANES]: of one block */
    uint32_t *inner;         /* [COUNTERS][bins + 2]: classes of the rows that count twice */
    uint32_t *edge;          /* [bins + 2]: of the two that count once */
    /* Sums of classes, clamped to the histogram, over the places of struct cpu_octaves. */
    uint64_t twice[FEATURES_OCTAVES]; /* of the rows that count twice */
    uint64_t once[FEATURES_OCTAVES];  /* of the two that count once, one less the other */
    uint32_t *bins;      /* [window][window / 2 + 1]: bin numbers of a window of the sample */
    const float **lines; /* [window]: the rows of a window's steps, */
    int32_t *steps;      /* [2][window]: and the steps */
};

struct spectrum {
    struct result_params params;
    struct spectrum_classes classes;
    uint32_t *cells; /* NULL: use classes */
    double weights[SPECTRUM_MAX_RADIUS + 1];
    float *taper;
    double taper_dft[2];
    double (*circle)[2]; /* [window]: exp(-2 pi i k / window) */
    const struct lanes *lanes;
    struct lanes_plan plan;
    struct lanes_real real;
    struct cpu_octaves octaves;
    bool inside;   /* no pixels lead to a value outside the bins */
    int64_t ring;  /* columns */
    int64_t rows;  /* rows of windows of a unit, at most */
    int64_t block; /* columns of windows of a unit */
    float *buffers;
    size_t buffer_bytes;
    struct scratch *scratch; /* [threads]; made when a thread computes first */
    int threads;
};

/* Windows wx .. end_wx - 1 of rows wy .. end_wy - 1. */
struct unit {
    const struct spectrum_band *band;
    int64_t wx, end_wx, wy, end_wy;
};

/* The memory of buffer number k. */
static inline float *cpu_buffer_of(const struct spectrum *b, int k)
{
    return b->buffers + (size_t)k * (b->buffer_bytes / sizeof(float));
}

/* Of the ring of one row of windows. */
static inline size_t cpu_ring_floats(const struct spectrum *b)
{
    return (size_t)lanes_blocks((int)b->params.window) * (size_t)b->ring * 2 * LANES;
}

static inline int64_t cpu_clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* Computes the unit and adds to *counts. The buffers hold all rows that it needs. */
void cpu_unit_compute(const struct spectrum *b, const struct unit *u, struct scratch *w,
                      struct result_counts *counts);

#endif
