/*
 * lanes.h - transforms of 16 columns or 16 rows at once, one per lane of the processor's vectors.
 *
 * Data are float [n][2][LANES]: for every value the real parts of all lanes, then the imaginary
 * parts. Nothing is shuffled within a transform, so a lane's result depends on that lane alone.
 *
 * The same code is compiled for several kinds of vectors (lanes_body.h). All give the same floats
 * bit for bit, because the operations and their order are the same and none is contracted.
 */
#ifndef WSI_LANES_H
#define WSI_LANES_H

#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { LANES = 16, LANES_STRIP = 64, LANES_ALIGN = 64 };

/* A transform of n complex values, a power of two from 4. */
struct lanes_plan {
    int n;
    float *twiddles; /* for each pass of radix 4 but the last, for each j: w^j, w^2j, w^3j */
    int *place;      /* [n]: the index of frequency k after the transform */
};

void lanes_plan_create(struct lanes_plan *p, int n);
void lanes_plan_free(struct lanes_plan *p);

/* A transform of n real values through one of n / 2 complex values. */
struct lanes_real {
    int n;
    struct lanes_plan half;
    float *twiddles;    /* [n / 4 + 1][2]: exp(-2 pi i k / n) */
    const float *taper; /* [n] or NULL; the caller's */
};

void lanes_real_create(struct lanes_real *r, int n, const float *taper);
void lanes_real_free(struct lanes_real *r);

/* Floats of the scratch memory of `columns`. lanes_blocks: blocks of LANES frequencies that hold
 * 0 .. n / 2. */
static inline size_t lanes_real_work(int n)
{
    return ((size_t)n / 2 + (size_t)n / 2 + LANES) * 2 * LANES;
}

static inline int lanes_blocks(int n)
{
    return n / 2 / LANES + 1;
}

/* n values in a ring of `length`, the first at `at`. They are multiplied by taper[n] unless it is
 * NULL. */
struct lanes_ring {
    const float *values; /* [length][2][LANES] */
    int at, length;
    const float *taper;
};

struct lanes {
    const char *name;
    /* out[k / LANES * step + k % LANES] = weights[0] rows[radius][k] + sum over t of
     * weights[t] (rows[radius - t][k] + rows[radius + t][k]), for k < LANES_STRIP. */
    void (*smooth)(const float *const *rows, const float *weights, int radius, float *out,
                   size_t step);
    /*
     * Transforms LANES columns of real values, in [n][LANES]. Before that it subtracts a number
     * close to each column's mean, which goes to mean[LANES], and applies the taper; so the mean is
     * missing in frequency 0 and, with Hann's taper, in 1. Part p (0 real, 1 imaginary) of
     * frequency f of column c goes to out[f / LANES * block_floats + c * 2 * LANES + p * LANES + f
     * % LANES]. `work` is lanes_real_work() floats, zeroed before its first use.
     */
    void (*columns)(const struct lanes_real *r, const float *in, float *work, float *mean,
                    float *out, size_t block_floats);
    /* Transforms the values of a ring in at least their first `lanes` lanes. power[place[k]][LANES]
     * is the squared magnitude of frequency k. data [n][2][LANES] is scratch memory; it may be the
     * ring itself. */
    void (*power)(const struct lanes_plan *p, const struct lanes_ring *ring, int lanes, float *data,
                  float *power);
    /* The steps of features.h over n x n px: down[k] from rows[k] to rows[k + 1], without their
     * first column; across[k] from column k to k + 1, without the first row. Pixels are whole
     * numbers up to 255,000, n is at most 254. */
    void (*steps)(const float *const *rows, int n, int32_t *down, int32_t *across);
};

/* The variants that this processor can run, the simplest first; NULL after the last. */
const struct lanes *lanes_variant(int k);
/* The last of them. */
const struct lanes *lanes_best(void);

#endif
