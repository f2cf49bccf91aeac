/* report_album.c - see report_album.h. */
#include "process/report/report_album.h"

#include "process/draw/colours.h"
#include "process/draw/html.h"
#include "process/draw/page.h"
#include "process/report/report_more.h"
#include "process/report/report_reasons.h"
#include "process/report/report_spectra.h"

#include <inttypes.h>

enum { PER_BLOCK = 64 }; /* slides per script element */

/* Which slides get pictures, and of which size. */
struct choice {
    int size; /* 0 .. TRIED - 1; -1: none */
    bool all; /* of all slides, not only of those to look at */
    bool all_spectra;
    int64_t spectra; /* bytes that spectra may take */
};

enum { SPECTRA_BYTES = 40000 }; /* about what the two spectra of a slide take */

static int64_t total_bytes(const struct report_view *r, struct choice c)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < r->slides->n; k++) {
        const struct report_picture *p = r->slides->slide[k].pictures;
        if (p && (c.all || r->verdicts[k] >= REPORT_REVIEW))
            sum += report_pictures_bytes(p, c.size);
    }
    return sum;
}

static struct choice choose(const struct report_view *r, int64_t room)
{
    const bool whatever = r->setup->pictures == REPORT_ALL;
    struct choice c = {.size = 0, .all = true, .all_spectra = true, .spectra = INT64_MAX};
    bool fits = whatever;
    for (int all = !report_spool_is_late(r->spool); all >= 0 && !fits; all--)
        for (int size = 0; size < report_spool_sizes(r->spool) && !fits; size++) {
            c.size = size;
            c.all = all;
            fits = total_bytes(r, c) <= room;
        }
    if (!fits)
        return (struct choice){.size = -1};
    if (!whatever) {
        c.spectra = room - total_bytes(r, c);
        c.all_spectra = c.all && c.spectra / SPECTRA_BYTES >= r->slides->n;
    }
    return c;
}

/* The noise's and the scores' ends of the colours; of each slide with scores [cell, name]. */
static void put_more(FILE *f, const struct report_view *r)
{
    const struct report_more *m = r->more;
    bool any = false;
    fprintf(f, ",\"noise\":[%d,%d],\"scores\":[%.9g,%.9g],\"scored\":{", REPORT_NOISE_LOW,
            REPORT_NOISE_HIGH, m->low, m->high);
    for (int64_t k = 0; m->of && k < r->slides->n; k++) {
        if (!m->of[k].cell)
            continue;
        fprintf(f, "%s\"%" PRId64 "\":[%" PRId64 ",", any ? "," : "", k, m->of[k].cell);
        html_json(f, m->of[k].name);
        putc(']', f);
        any = true;
    }
    putc('}', f);
}

static void put_head(FILE *f, const struct report_view *r, struct choice c)
{
    const struct result_map_kind *focus = result_map_kind(RESULT_FOCUS),
                                 *mean = result_map_kind(RESULT_MEAN);
    fprintf(f,
            "<script type=\"application/json\" id=\"pictures\">{\"per\":%d,"
            "\"features\":[\"focus_db\",\"mean_db\"],\"low\":[%g,%g],\"high\":[%g,%g],"
            "\"spectrumLow\":%d,\"spectrumHigh\":%d,\"colours\":\"",
            PER_BLOCK, focus->low, mean->low, focus->high, mean->high, REPORT_SPECTRUM_LOW,
            REPORT_SPECTRUM_HIGH);
    uint32_t palette[COLOURS_PALETTE];
    colours_palette(palette, 255);
    for (int k = 0; k < COLOURS_MAP; k++)
        fprintf(f, "%06" PRIx32, palette[k] >> 8);
    fputs("\",\"note\":\"", f);
    if (c.size < 0)
        fputs("No pictures fit into --max-size.", f);
    else if (!c.all)
        fputs("Pictures of slides that pass are left out: they do not fit into --max-size.", f);
    putc('"', f);
    put_more(f, r);
    fputs("}</script>\n", f);
}

/* A line: "MAP THUMB TISSUE GLASS". Spectra go as far as their bytes do. */
static int put_slide(const struct report_view *r, int64_t k, FILE *f, struct choice *c,
                     struct report_again *again, struct err *e)
{
    const struct report_slide *s = &r->slides->slide[k];
    const bool flagged = r->verdicts[k] >= REPORT_REVIEW;
    if (!s->pictures || (!c->all && !flagged))
        return 0;
    if (report_pictures_put(r->spool, s->pictures, c->size, f, e))
        return -1;
    if ((!c->all_spectra && !flagged) || c->spectra < SPECTRA_BYTES)
        return 0;
    const int64_t before = ftello(f);
    const int bad = report_spectra_write(again, s, f, e);
    c->spectra -= ftello(f) - before;
    return bad;
}

static int put_blocks(const struct report_view *r, FILE *f, struct choice c, struct err *e)
{
    struct report_again again = {.files = r->setup->files};
    int bad = 0;
    for (int64_t k = 0; k < r->slides->n && !bad; k++) {
        if (k % PER_BLOCK == 0)
            fprintf(f, "%s<script type=\"text/plain\" id=\"p%" PRId64 "\">", k ? "</script>\n" : "",
                    k / PER_BLOCK);
        bad = put_slide(r, k, f, &c, &again, e);
        putc('\n', f);
    }
    fputs(r->slides->n ? "</script>\n" : "", f);
    report_again_end(&again);
    return bad;
}

int report_album_write(const struct report_view *r, FILE *f, struct err *e)
{
    const int64_t others = 50000 + 2 * r->slides->n; /* bytes of script and elements */
    const struct choice c = choose(r, r->setup->max_size - ftello(f) - others);
    put_head(f, r, c);
    page_script(f, PAGE_REPORT);
    return c.size < 0 ? 0 : put_blocks(r, f, c, e);
}
