/* cpu_octaves.c - see cpu_octaves.h. */
#include "process/cpu_octaves.h"

#include <stdbool.h>
#include <stdlib.h>

void cpu_octaves_free(struct cpu_octaves *c)
{
    free(c->rows);
    free(c->ends);
    free(c->rings);
    *c = (struct cpu_octaves){0};
}

static uint8_t ring_of(int n, int v, int u)
{
    const int octave = v > n / 2 ? FEATURES_NONE : features_octave(n, v, u <= n / 2 ? u : u - n);
    return (uint8_t)(octave == FEATURES_NONE ? FEATURES_OCTAVES : octave);
}

static bool is_uniform(const uint8_t *ring)
{
    for (int l = 1; l < LANES; l++)
        if (ring[l] != ring[0])
            return false;
    return true;
}

/* Appends the rows that lie in one ring, or those that lie in several: ring CPU_RINGS. */
static int list_rows(int n, const uint8_t *rings, int ring, int *rows, int used)
{
    for (int place = 0; place < n; place++) {
        const uint8_t *row = rings + place * LANES;
        if ((is_uniform(row) ? row[0] : CPU_RINGS) == ring)
            rows[used++] = place;
    }
    return used;
}

int cpu_octaves_create(struct cpu_octaves *c, const struct lanes_plan *plan, struct err *e)
{
    const int n = plan->n, blocks = lanes_blocks(n);
    *c = (struct cpu_octaves){.window = n};
    c->rows = malloc((size_t)(blocks * n) * sizeof *c->rows);
    c->ends = malloc((size_t)blocks * sizeof *c->ends);
    c->rings = malloc((size_t)(blocks * n) * LANES);
    if (!c->rows || !c->ends || !c->rings) {
        cpu_octaves_free(c);
        return err_set(e, "out of memory");
    }
    for (int b = 0; b < blocks; b++) {
        uint8_t *rings = c->rings + b * n * LANES;
        int used = 0;
        for (int u = 0; u < n; u++)
            for (int l = 0; l < LANES; l++)
                rings[plan->place[u] * LANES + l] = ring_of(n, b * LANES + l, u);
        for (int ring = 0; ring <= CPU_RINGS; ring++) {
            used = list_rows(n, rings, ring, c->rows + b * n, used);
            if (ring < CPU_RINGS)
                c->ends[b][ring] = used;
        }
    }
    return 0;
}
