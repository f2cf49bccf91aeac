/* filled.c - see filled.h. */
#include "process/engine/filled.h"

#include "common/base/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)RESULT_MISSING == (int)STORE_MISSING &&
                   (int)RESULT_DAMAGED == (int)STORE_DAMAGED &&
                   (int)RESULT_LEFT_OUT == (int)STORE_LEFT_OUT,
               "a status is an index of result_counts.touching");

static bool any_filled(const struct filled *f)
{
    const int64_t n = f->rows * store_chunk_columns(f->info);
    for (int64_t k = 0; k < n; k++)
        if (f->list[k].status != STORE_WHOLE)
            return true;
    return false;
}

/* The chunks, first .. last, that hold `window` pixels from `at` on and what smoothing reads around
 * them. `size`: pixels of the slide in this direction; `each`: of a chunk. */
static void chunks_of(const struct result_params *p, int64_t at, int64_t size, int64_t each,
                      int64_t *first, int64_t *last)
{
    const int64_t low = at - p->radius, high = at + p->window - 1 + p->radius;
    *first = (low < 0 ? 0 : low) / each;
    *last = (high < size ? high : size - 1) / each;
}

/* Bits 1 << status of the chunks in each column that window row wy needs. */
static void merge_rows(const struct filled *f, int64_t wy, uint8_t *columns)
{
    const int64_t n = store_chunk_columns(f->info);
    int64_t first, last;
    chunks_of(f->params, wy * f->params->stride, f->info->height, f->info->chunk_rows, &first,
              &last);
    memset(columns, 0, (size_t)n);
    for (int64_t r = first; r <= last; r++)
        for (int64_t c = 0; c < n; c++)
            columns[c] |= (uint8_t)(1 << f->list[(r - f->first_row) * n + c].status);
}

static unsigned merge_columns(const struct filled *f, int64_t wx, const uint8_t *columns)
{
    unsigned bits = 0;
    int64_t first, last;
    chunks_of(f->params, wx * f->params->stride, f->info->width, f->info->chunk_cols, &first,
              &last);
    for (int64_t c = first; c <= last; c++)
        bits |= columns[c];
    return bits;
}

static uint8_t flags_of(unsigned bits)
{
    return (uint8_t)((bits >> STORE_MISSING & 1 ? RESULT_FLAG_MISSING : 0) |
                     (bits >> STORE_DAMAGED & 1 ? RESULT_FLAG_DAMAGED : 0) |
                     (bits >> STORE_LEFT_OUT & 1 ? RESULT_FLAG_LEFT_OUT : 0));
}

static void count_row(const struct filled *f, int64_t wy, const uint8_t *columns, uint8_t *wanted,
                      struct result_counts *counts)
{
    for (int64_t wx = 0; wx < f->nx; wx++) {
        const unsigned bits = merge_columns(f, wx, columns);
        f->flags[wy * f->nx + wx] |= flags_of(bits);
        if (wanted && !wanted[wy * f->nx + wx])
            continue;
        if (f->params->skip_damaged && bits >> STORE_DAMAGED & 1) {
            wanted[wy * f->nx + wx] = 0;
            counts->touching[RESULT_SKIPPED]++;
            continue;
        }
        for (int k = RESULT_MISSING; k <= RESULT_LEFT_OUT; k++)
            counts->touching[k] += bits >> k & 1;
    }
}

void filled_count(const struct filled *f, uint8_t *wanted, struct result_counts *counts)
{
    if (!any_filled(f))
        return;
    uint8_t *columns = memory_need((size_t)store_chunk_columns(f->info), 1);
    for (int64_t wy = f->first_wy; wy < f->end_wy; wy++) {
        merge_rows(f, wy, columns);
        count_row(f, wy, columns, wanted, counts);
    }
    free(columns);
}
