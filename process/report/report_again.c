/* report_again.c - see report_again.h. */
#include "process/report/report_again.h"

#include <string.h>

/* The number of a slide in the open result. */
static int64_t find_slide(const struct result *r, const char *name, struct err *e)
{
    int64_t low = 0, high = result_slides(r);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(result_slide_name(r, middle), name);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return err_set(e, "slide %s is gone; run again", name);
}

int report_load_again(struct report_again *a, const struct report_slide *s, unsigned parts,
                      struct result_slide *out, struct err *e)
{
    const char *path = a->files[s->file];
    if (a->file != s->file + 1) {
        result_close(a->open);
        a->open = result_open(path, e);
        a->file = s->file + 1;
    }
    const int64_t k = a->open ? find_slide(a->open, s->name, e) : -1;
    if (k < 0)
        return a->open ? err_add(e, "%s", path) : -1;
    return result_load_parts(a->open, k, parts, out, e);
}

void report_again_end(struct report_again *a)
{
    result_close(a->open);
    a->open = NULL;
}
