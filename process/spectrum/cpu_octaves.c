/* cpu_octaves.c - see cpu_octaves.h. */
#include "process/spectrum/cpu_octaves.h"

#include "common/base/memory.h"

#include <stdlib.h>

/* --- the lists --- */

void cpu_octaves_free(struct cpu_octaves *c)
{
    free(c->octaves);
    free(c->rows);
    free(c->parts);
    free(c->ends);
    *c = (struct cpu_octaves){0};
}

/* Where a frequency is added up, or FEATURES_NONE. */
static int8_t place_of(int n, int v, int u)
{
    const int octave = features_octave(n, v, u);
    if (v > n / 2 || octave == FEATURES_OCTAVES - 1)
        return FEATURES_NONE;
    return (int8_t)(octave == FEATURES_NONE ? CPU_BELOW : octave);
}

static void find_octaves(struct cpu_octaves *c, const struct lanes_plan *plan)
{
    const int n = plan->n;
    for (int v = 0; v < lanes_blocks(n) * LANES; v++)
        for (int u = 0; u < n; u++) {
            const int at = v / LANES * n + plan->place[u];
            c->octaves[at * LANES + v % LANES] = place_of(n, v, u <= n / 2 ? u : u - n);
        }
}

/* The lanes of a row that belong to the octave; returns how many. */
static int mask_of(const int8_t *octaves, int octave, uint32_t mask[LANES])
{
    int lanes = 0;
    for (int l = 0; l < LANES; l++) {
        mask[l] = octaves[l] == octave ? UINT32_MAX : 0;
        lanes += octaves[l] == octave;
    }
    return lanes;
}

/* Appends the rows of an octave to the lists, or only counts them while there are no lists. */
static void list_octave(struct cpu_octaves *c, int block, int octave, struct cpu_ends *end)
{
    const int8_t *octaves = c->octaves + block * c->window * LANES;
    for (int place = 0; place < c->window; place++) {
        struct cpu_part part = {.place = place};
        const int lanes = mask_of(octaves + place * LANES, octave, part.mask);
        if (lanes == LANES && c->rows)
            c->rows[end->rows] = place;
        if (lanes > 0 && lanes < LANES && c->parts)
            c->parts[end->parts] = part;
        end->rows += lanes == LANES;
        end->parts += lanes > 0 && lanes < LANES;
    }
}

static struct cpu_ends list_all(struct cpu_octaves *c)
{
    struct cpu_ends end = {0, 0};
    for (int b = 0; b < lanes_blocks(c->window); b++)
        for (int octave = 0; octave < FEATURES_OCTAVES; octave++) {
            list_octave(c, b, octave, &end);
            c->ends[b][octave] = end;
        }
    return end;
}

void cpu_octaves_create(struct cpu_octaves *c, const struct lanes_plan *plan)
{
    const size_t blocks = (size_t)lanes_blocks(plan->n);
    *c = (struct cpu_octaves){.window = plan->n};
    c->octaves = memory_need(blocks, (size_t)plan->n * LANES);
    c->ends = memory_need(blocks, sizeof *c->ends);
    find_octaves(c, plan);
    const struct cpu_ends all = list_all(c);
    c->rows = memory_need((size_t)all.rows, sizeof *c->rows);
    c->parts = aligned_alloc(16, (size_t)all.parts * sizeof *c->parts);
    if (!c->parts)
        memory_end();
    list_all(c);
}

/* --- sums --- */

/* Four times four lanes, which every processor of the architecture adds at once. */
typedef uint32_t quad __attribute__((vector_size(16), may_alias));

static uint64_t sum_octave(const struct cpu_octaves *c, struct cpu_ends from, struct cpu_ends end,
                           const uint32_t *classes)
{
    quad s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    for (const int *row = c->rows + from.rows; row < c->rows + end.rows; row++) {
        const quad *p = (const quad *)(classes + *row * LANES);
        s0 += p[0], s1 += p[1], s2 += p[2], s3 += p[3];
    }
    for (const struct cpu_part *k = c->parts + from.parts; k < c->parts + end.parts; k++) {
        const quad *p = (const quad *)(classes + k->place * LANES), *m = (const quad *)k->mask;
        s0 += p[0] & m[0], s1 += p[1] & m[1], s2 += p[2] & m[2], s3 += p[3] & m[3];
    }
    s0 += s1 + s2 + s3;
    return (uint64_t)s0[0] + s0[1] + s0[2] + s0[3];
}

void cpu_octaves_add(const struct cpu_octaves *c, int block, const uint32_t *classes,
                     uint64_t sums[FEATURES_OCTAVES])
{
    struct cpu_ends from = {0, 0};
    if (block > 0)
        from = c->ends[block - 1][FEATURES_OCTAVES - 1];
    for (int o = 0; o < FEATURES_OCTAVES; from = c->ends[block][o++])
        sums[o] += sum_octave(c, from, c->ends[block][o], classes);
}

void cpu_octaves_add_first(const struct cpu_octaves *c, int block, const uint32_t *classes,
                           int times, uint64_t sums[FEATURES_OCTAVES])
{
    const int8_t *octaves = c->octaves + block * c->window * LANES;
    for (int k = 0; k < c->window * LANES; k += LANES)
        if (octaves[k] != FEATURES_NONE)
            sums[octaves[k]] += (uint64_t)(times * (int64_t)classes[k]);
}
