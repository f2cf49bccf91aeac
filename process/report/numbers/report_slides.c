/* report_slides.c - see report_slides.h. */
#include "process/report/numbers/report_slides.h"

#include "common/base/memory.h"
#include "common/base/publish.h"
#include "common/result/report_numbers.h"
#include "common/result/result_read.h"
#include "process/report/numbers/report_pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const float *report_cdf(const struct report_slides *s, int64_t k)
{
    const int64_t at = s->slide[k].curves;
    return at < 0 ? NULL : report_curves_cdf(s->curves, at);
}

const uint32_t *report_sharp(const struct report_slides *s, int64_t k)
{
    const int64_t at = s->slide[k].curves;
    return at < 0 ? NULL : report_curves_sharp(s->curves, at);
}

void report_slides_add(struct report_slides *s, const struct report_slide *row)
{
    s->slide = memory_grow(s->slide, s->n, sizeof *s->slide);
    s->slide[s->n++] = *row;
}

void report_slides_add_creator(struct report_slides *s, const char *creator)
{
    for (int k = 0; k < s->n_creators; k++)
        if (!strcmp(s->creators[k], creator))
            return;
    s->creators = memory_grow(s->creators, s->n_creators, sizeof *s->creators);
    s->creators[s->n_creators++] = memory_copy(creator);
}

static int by_name(const void *a, const void *b)
{
    const struct report_slide *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : x->file < y->file ? -1 : x->file > y->file;
}

void report_slides_sort(struct report_slides *s)
{
    if (s->n > 0)
        qsort(s->slide, (size_t)s->n, sizeof *s->slide, by_name);
}

static int compare_name(const void *name, const void *slide)
{
    return strcmp(name, ((const struct report_slide *)slide)->name);
}

static int64_t find_exactly(const struct report_slides *s, const char *name)
{
    const struct report_slide *found =
        s->n ? bsearch(name, s->slide, (size_t)s->n, sizeof *s->slide, compare_name) : NULL;
    return found ? found - s->slide : -1;
}

int64_t report_find_slide(const struct report_slides *s, const char *name)
{
    const int64_t k = find_exactly(s, name);
    const char *dot = strrchr(name, '.');
    char stem[256];
    if (k >= 0 || !dot || dot == name || (size_t)(dot - name) >= sizeof stem)
        return k;
    snprintf(stem, sizeof stem, "%.*s", (int)(dot - name), name);
    return find_exactly(s, stem);
}

void report_slide_free(struct report_slide *s)
{
    free(s->name);
    free(s->vendor);
    free(s->failed);
    report_pictures_free(s->pictures);
}

void report_slides_free(struct report_slides *s)
{
    for (int64_t k = 0; k < s->n; k++)
        report_slide_free(&s->slide[k]);
    for (int k = 0; k < s->n_creators; k++)
        free(s->creators[k]);
    free(s->slide);
    free(s->creators);
    report_curves_free(s->curves);
}

void report_failures_add(struct report_failures *f, const char *name, const char *path,
                         const char *reason)
{
    f->failure = memory_grow(f->failure, f->n, sizeof *f->failure);
    f->failure[f->n++] = (struct report_failure){
        .name = memory_copy(name), .path = memory_copy(path), .reason = memory_copy(reason)};
}

void report_failure_free(struct report_failure *f)
{
    free(f->name);
    free(f->path);
    free(f->reason);
}

void report_failures_free(struct report_failures *f)
{
    for (int64_t k = 0; k < f->n; k++)
        report_failure_free(&f->failure[k]);
    for (int64_t k = 0; k < f->n_copies; k++)
        report_failure_free(&f->copy[k]);
    free(f->failure);
    free(f->copy);
    free(f->left_out);
}

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
    struct report_curves *c = memory_need(1, sizeof *c);
    if (!(c->f = temporary_open(file_name, e))) {
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
