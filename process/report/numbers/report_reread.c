/* report_reread.c - reads slides a second time; see report_reread.h. */
#include "process/report/numbers/report_reread.h"

#include "common/base/cli.h"
#include "common/result/result_read.h"

static int changed(const struct report_reread *a, const struct report_slide *s, struct err *e)
{
    return err_blame(e, ERR_TROUBLE, "%s: changed while it was read; run again", a->files[s->file]);
}

int report_reread_open(struct report_reread *a, const struct report_slide *s, struct err *e)
{
    if (a->file != s->file + 1) {
        result_close(a->open);
        a->open = result_open(a->files[s->file], e);
        a->file = a->open ? s->file + 1 : 0;
    }
    if (!a->open)
        return -1;
    const struct result_params *p = result_params(a->open);
    if (p->bins == a->params->bins && p->window == a->params->window &&
        p->stride == a->params->stride)
        return 0;
    return changed(a, s, e);
}

int report_reread_load(struct report_reread *a, const struct report_slide *s, unsigned parts,
                       struct result_slide *out, struct err *e)
{
    if (report_reread_open(a, s, e))
        return -1;
    const int64_t k = result_find_slide(a->open, s->name);
    if (k < 0)
        return err_set(e, "%s: slide %s is gone; run again", a->files[s->file], s->name);
    if (result_load_parts(a->open, k, parts, out, e))
        return -1;
    if (out->nx == s->nx && out->ny == s->ny)
        return 0;
    result_slide_free(out);
    return changed(a, s, e);
}

int report_reread_pictures(struct report_reread *a, struct report_slide *s,
                           struct report_spool *spool, struct err *e)
{
    struct result_slide loaded;
    struct err why = {0};
    if (report_reread_open(a, s, &why) ||
        report_reread_load(a, s, REPORT_PARTS_OF_PICTURES, &loaded, &why)) {
        cli_say("%s; it gets no pictures", why.msg);
        return 1;
    }
    const int bad = report_pictures_make(spool, &loaded, &s->pictures, e) ||
                    report_pictures_keep(spool, s->pictures, e);
    result_slide_free(&loaded);
    return bad ? -1 : 0;
}

void report_reread_end(struct report_reread *a)
{
    result_close(a->open);
    a->open = NULL;
}
