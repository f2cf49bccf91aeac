/* report_again.c - see report_again.h. */
#include "process/report/report_again.h"

#include "common/result/result_read.h"

int report_open_again(struct report_again *a, const struct report_slide *s, struct err *e)
{
    if (a->file != s->file + 1) {
        result_close(a->open);
        a->open = result_open(a->files[s->file], e);
        a->file = a->open ? s->file + 1 : 0;
    }
    return a->open ? 0 : -1;
}

int report_load_again(struct report_again *a, const struct report_slide *s, unsigned parts,
                      struct result_slide *out, struct err *e)
{
    if (report_open_again(a, s, e))
        return -1;
    const int64_t k = result_find_slide(a->open, s->name);
    return k < 0 ? err_set(e, "%s: slide %s is gone; run again", a->files[s->file], s->name)
                 : result_load_parts(a->open, k, parts, out, e);
}

void report_again_end(struct report_again *a)
{
    result_close(a->open);
    a->open = NULL;
}
