/* report_curves.c - see report_curves.h. */
#include "process/report/report_curves.h"

#include "common/base/temporary.h"
#include "common/result/result_numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { MOST_ROWS = 4096 }; /* read before pages are dropped */

struct report_curves {
    FILE *f;
    size_t cdf_bytes, row_bytes;
    int64_t n;
    int64_t reads; /* since pages were dropped */
    char *map;     /* NULL: not mapped */
};

static const char file_name[] = "histograms";

struct report_curves *report_curves_create(int64_t bins, struct err *e)
{
    struct report_curves *c = calloc(1, sizeof *c);
    if (!c)
        err_set(e, "out of memory");
    if (!c || !(c->f = temporary_open(file_name, e))) {
        free(c);
        return NULL;
    }
    c->cdf_bytes = (size_t)bins * sizeof(float);
    c->row_bytes = c->cdf_bytes + RESULT_SHARP_BINS * sizeof(uint32_t);
    return c;
}

int report_curves_add(struct report_curves *c, const float *cdf, const uint32_t *sharp, int64_t *at,
                      struct err *e)
{
    const size_t rest = c->row_bytes - c->cdf_bytes;
    if (fwrite(cdf, 1, c->cdf_bytes, c->f) != c->cdf_bytes || fwrite(sharp, 1, rest, c->f) != rest)
        return temporary_failed(file_name, e);
    *at = c->n++;
    return 0;
}

int report_curves_map(struct report_curves *c, struct err *e)
{
    if (fflush(c->f))
        return temporary_failed(file_name, e);
    if (c->n == 0)
        return 0;
    void *map = mmap(NULL, (size_t)c->n * c->row_bytes, PROT_READ, MAP_SHARED, fileno(c->f), 0);
    if (map == MAP_FAILED)
        return err_sys(e, "the temporary file for histograms cannot be read");
    c->map = map;
    return 0;
}

static const char *row(struct report_curves *c, int64_t at)
{
    if (c->reads++ == MOST_ROWS) {
        madvise(c->map, (size_t)c->n * c->row_bytes, MADV_DONTNEED);
        c->reads = 0;
    }
    return c->map + (size_t)at * c->row_bytes;
}

const float *report_curves_cdf(struct report_curves *c, int64_t at)
{
    return (const float *)(const void *)row(c, at);
}

const uint32_t *report_curves_sharp(struct report_curves *c, int64_t at)
{
    return (const uint32_t *)(const void *)(row(c, at) + c->cdf_bytes);
}

void report_curves_free(struct report_curves *c)
{
    if (!c)
        return;
    if (c->map)
        munmap(c->map, (size_t)c->n * c->row_bytes);
    fclose(c->f);
    free(c);
}
