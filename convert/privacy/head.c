/* head.c - see head.h. */
#include "convert/privacy/head.h"

#include "common/base/memory.h"

#include "convert/privacy/identifiers.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KEY = 1000, MOST_VALUE = 60000 }; /* HDF5 takes no attribute of 64 KiB and more */

/* --- reading --- */

/* Adds a problem to those in *all. */
static void note(struct err *all, const struct err *one)
{
    const struct err before = *all;
    err_set(all, "%s%s%s", before.msg, before.msg[0] ? "; " : "", one->msg);
}

static int read_icc(struct head *h, struct slide *s, bool identifiers, struct err *damage,
                    struct err *e)
{
    struct err why = {""};
    const int r = s->reader->icc(s, &h->icc, &h->icc_bytes, &why);
    if (r == SLIDE_DAMAGED)
        note(damage, &why);
    if (r == -1)
        return err_set(e, "%s", why.msg);
    if (r > 0 && !identifiers && !identifiers_blank_icc(h->icc, h->icc_bytes)) {
        free(h->icc);
        h->icc = NULL;
    }
    return 0;
}

static int read_thumbnail(struct head *h, struct slide *s, bool keep, struct err *damage,
                          struct err *e)
{
    struct err why = {""};
    const int kept =
        keep && s->reader->thumbnail_jpeg ? s->reader->thumbnail_jpeg(s, &h->strips, e) : 0;
    if (kept)
        return kept < 0 ? -1 : 0;
    const int r = s->reader->thumbnail(s, &h->thumbnail, &h->width, &h->height, &why);
    if (r == SLIDE_DAMAGED)
        note(damage, &why);
    return r == -1 ? err_set(e, "%s", why.msg) : 0;
}

int head_read(struct head *h, struct slide *s, const struct slide_info *i, bool identifiers,
              bool keep, struct err *damage, struct err *e)
{
    *h = (struct head){0};
    if (read_icc(h, s, identifiers, damage, e))
        return -1;
    return i->has_thumbnail ? read_thumbnail(h, s, keep, damage, e) : 0;
}

void head_free(struct head *h)
{
    free(h->thumbnail);
    jpeg_strips_free(&h->strips);
    free(h->icc);
    *h = (struct head){0};
}

/* --- writing --- */

struct property_ctx {
    struct store_writer *writer;
    bool identifiers;
    struct err *e;
};

static int put_property(void *ctx, const char *key, const char *value)
{
    const struct property_ctx *p = ctx;
    if (strlen(key) > MOST_KEY || (!p->identifiers && !identifiers_allow(key, value)))
        return 0;
    if (strlen(value) <= MOST_VALUE)
        return store_put_property(p->writer, key, value, p->e);
    char *cut = memory_copy_part(value, MOST_VALUE);
    const int r = store_put_property(p->writer, key, cut, p->e);
    free(cut);
    return r;
}

int head_put(const struct head *h, struct slide *s, bool identifiers, int threads,
             struct store_writer *w, struct err *e)
{
    struct property_ctx ctx = {w, identifiers, e};
    if (s->reader->properties(s, put_property, &ctx) ||
        (h->icc && store_put_icc(w, h->icc, h->icc_bytes, e)))
        return -1;
    if (h->strips.n > 0)
        return store_put_kept_thumbnail(w, &h->strips, e);
    return h->thumbnail ? store_put_thumbnail(w, h->thumbnail, h->width, h->height, threads, e) : 0;
}
