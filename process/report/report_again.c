/* report_again.c - see report_again.h. */
#include "process/report/report_again.h"

#include "common/result/result_read.h"

int report_load_again(struct report_again *a, const struct report_slide *s, unsigned parts,
                      struct result_slide *out, struct err *e)
{
    const char *path = a->files[s->file];
    if (a->file != s->file + 1) {
        result_close(a->open);
        a->open = result_open(path, e);
        a->file = s->file + 1;
    }
    const int64_t k = a->open ? result_find_slide(a->open, s->name) : -1;
    if (k < 0)
        return a->open ? err_set(e, "%s: slide %s is gone; run again", path, s->name) : -1;
    return result_load_parts(a->open, k, parts, out, e);
}

void report_again_end(struct report_again *a)
{
    result_close(a->open);
    a->open = NULL;
}
