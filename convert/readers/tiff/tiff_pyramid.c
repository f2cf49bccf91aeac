/* tiff_pyramid.c - see tiff_pyramid.h. */
#include "convert/readers/tiff/tiff_pyramid.h"

#include "common/base/memory.h"
#include "common/base/path.h"
#include "convert/readers/tiff/tiff_file.h"
#include "convert/readers/tiff/tiff_xml.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_PAGES = 1024, MOST_TEXT = 1 << 26, MOST_XMP = 1 << 20, MOST_LINES = 2048, SIDES = 2 };
enum {
    REDUCED = 1,
    MASK = 4,
    ASSOCIATED = 8
}; /* bits of NewSubfileType; Aperio's macro has 1 and 8 */

/* The facts about a directory. */
struct page {
    uint64_t at, subfile, photometric, samples;
    double side[SIDES], tile[SIDES]; /* px: width and height */
    double per_unit[SIDES], unit;    /* resolution, um per unit; NaN when it is not stated */
    double z;                        /* Aperio: the focal plane; NaN when it is not stated */
    bool is_tiled, is_associated;
    bool may_be_plain; /* a picture in strips: no reduced copy, label or macro */
    bool is_foreign;   /* NDPI has strips, too; in LSM only one page of a stack has a directory */
    long images;       /* that ImageJ counts in the description */
};

struct search {
    const struct tiff_file *t;
    struct tiff_xml xml;
    int image, others; /* OME: the slide in the XML; pictures that come with it, place unknown */
    struct page *pages;
    int n;
    struct tiff_pyramid *p;
};

/* --- directories --- */

static const char *find_word(const char *line, size_t n, const char *word)
{
    for (size_t k = strlen(word), at = 0; at + k <= n; at++)
        if (!strncasecmp(line + at, word, k))
            return line + at;
    return NULL;
}

/* "label 387x463", "Macro image", "the slide's label", "label|AppMag = 20": not "label-free
 * microscopy", and not a list of properties such as "Title = a label|Barcode = 12". */
static bool line_is_associated(const char *line, size_t n)
{
    static const char *const words[] = {"label", "macro", "overview", "barcode"};
    const char *bar = memchr(line, '|', n);
    n = bar ? (size_t)(bar - line) : n;
    for (size_t k = 0; k < sizeof words / sizeof *words && !memchr(line, '=', n); k++) {
        const char *at = find_word(line, n, words[k]), *end = line + n;
        if (!at || (at > line && isalpha((unsigned char)at[-1])))
            continue;
        const char *rest = at + strlen(words[k]);
        rest += strspn(rest, " _-");
        rest += rest + 5 <= end && !strncasecmp(rest, "image", 5) ? 5 : 0;
        while (rest < end && (!isalpha((unsigned char)*rest) || *rest == 'x'))
            rest++;
        if (rest >= end)
            return true;
    }
    return false;
}

/* The XML of QPTIFF has <ImageType>Label</ImageType>. */
static bool text_is_associated(const char *text)
{
    const char *type = *text == '<' ? strstr(text, "<ImageType>") : NULL;
    if (type)
        return !strncasecmp(type + 11, "label", 5) || !strncasecmp(type + 11, "macro", 5) ||
               !strncasecmp(type + 11, "overview", 8);
    if (*text == '<')
        return false;
    for (size_t n; *text; text += n + (text[n] != 0)) {
        n = strcspn(text, "\r\n");
        if (line_is_associated(text, n))
            return true;
    }
    return false;
}

bool tiff_pyramid_is_associated(const struct tiff_file *t, const struct tiff_directory *d)
{
    char text[MOST_LINES];
    tiff_file_text(t, d, TIFF_FILE_DESCRIPTION, text, sizeof text);
    return (tiff_file_value(t, d, TIFF_FILE_SUBFILE, 0) & (ASSOCIATED | MASK)) ||
           text_is_associated(text);
}

/* "... |OffsetZ = 2.0|..." of Aperio */
static double offset_z(const char *text)
{
    const char *at = strncmp(text, "Aperio", 6) ? NULL : strstr(text, "OffsetZ");
    const char *value = at ? at + strcspn(at, "=|") : "";
    char *end;
    const double z = *value == '=' ? strtod(value + 1, &end) : NAN;
    return z;
}

/* Marks what may be the slide although it lies in strips. */
static void describe_plain(const struct tiff_file *t, const struct tiff_directory *d, char *text,
                           struct page *g)
{
    enum { LSM = 34412, BEGINNING = 511 };
    text[BEGINNING] = 0;
    const char *n = strncmp(text, "ImageJ=", 7) ? NULL : strstr(text, "\nimages=");
    g->images = n ? strtol(n + 8, NULL, 10) : 1;
    g->may_be_plain =
        g->side[0] > 0 && g->side[1] > 0 && !(g->subfile & REDUCED) && !g->is_associated;
    g->is_foreign =
        tiff_directory_tag(d, TIFF_FILE_NDPI) || tiff_directory_tag(d, LSM) || t->is_wide;
}

static struct page describe(const struct tiff_file *t, const struct tiff_directory *d)
{
    char text[MOST_LINES];
    tiff_file_text(t, d, TIFF_FILE_DESCRIPTION, text, sizeof text);
    struct page g = {.at = d->at,
                     .subfile = tiff_file_value(t, d, TIFF_FILE_SUBFILE, 0),
                     .photometric = tiff_file_photometric(t, d),
                     .samples = tiff_file_value(t, d, TIFF_FILE_SAMPLES, 1),
                     .unit = tiff_file_unit(t, d)};
    for (int k = 0; k < SIDES; k++) {
        const uint64_t px = tiff_file_value(t, d, (uint16_t)(TIFF_FILE_WIDTH + k), 0);
        g.side[k] = px <= INT32_MAX ? (double)px : 0;
        g.tile[k] = (double)tiff_file_value(t, d, (uint16_t)(TIFF_FILE_TILE_WIDTH + k), 0);
        g.per_unit[k] = tiff_file_real(t, d, (uint16_t)(TIFF_FILE_RESOLUTION + k));
    }
    g.is_tiled = g.side[0] > 0 && g.side[1] > 0 && tiff_directory_tag(d, TIFF_FILE_TILE_WIDTH);
    g.is_associated = tiff_pyramid_is_associated(t, d);
    g.z = offset_z(text);
    describe_plain(t, d, text, &g);
    return g;
}

static bool has_page(const struct search *s, uint64_t at)
{
    for (int k = 0; k < s->n; k++)
        if (s->pages[k].at == at)
            return true;
    return false;
}

/* All directories of the file's list. */
static void list_pages(struct search *s)
{
    const struct tiff_directory *d;
    uint64_t at = s->t->first;
    while (s->n < MOST_PAGES && at && !has_page(s, at) && (d = tiff_file_directory(s->t, at))) {
        s->pages = memory_grow(s->pages, s->n, sizeof *s->pages);
        s->pages[s->n++] = describe(s->t, d);
        at = d->next;
    }
    s->p->is_cut = at && s->n < MOST_PAGES && !has_page(s, at);
    s->p->is_crowded = s->p->is_cut && tiff_file_is_crowded(s->t);
}

/* --- sizes and scales --- */

static double area(const struct page *g)
{
    return g->side[0] * g->side[1];
}

/* Can a picture be the other one at 1 : `factor`, but for padding up to whole tiles? */
static bool fits(const struct page *g, const struct page *base, double factor)
{
    for (int k = 0; k < SIDES; k++) {
        const double px = base->side[k] / factor;
        if (px > g->side[k] + 2 || px <= g->side[k] - fmax(g->tile[k], 2))
            return false;
    }
    return true;
}

/* By the resolution tags; NaN when they do not say, or contradict the sizes. */
static double stated_factor(const struct page *g, const struct page *base)
{
    const double f = (base->per_unit[0] / g->per_unit[0] + base->per_unit[1] / g->per_unit[1]) / 2;
    if ((g->unit != base->unit && !(isnan(g->unit) && isnan(base->unit))) || !(f > 1) ||
        !fits(g, base, f))
        return NAN;
    return fabs(f / round(f) - 1) < 0.005 ? round(f) : f;
}

static double factor_of(const struct page *g, const struct page *base)
{
    const double f = stated_factor(g, base);
    return f > 1 ? f : (base->side[0] / g->side[0] + base->side[1] / g->side[1]) / 2;
}

/* May a directory that is marked as reduced be a level? Its proportions are the slide's, but for
 * padding up to whole tiles. */
static bool has_proportions(const struct page *g, const struct page *base)
{
    double low[SIDES], high[SIDES];
    for (int k = 0; k < SIDES; k++) {
        const double padding = g->tile[k] > 0 && fmod(g->side[k], g->tile[k]) < 1 ? g->tile[k] : 2;
        low[k] = base->side[k] / (g->side[k] + 2);
        high[k] = g->side[k] > padding ? base->side[k] / (g->side[k] - padding) : INFINITY;
    }
    return g->side[0] < base->side[0] && low[0] <= high[1] && low[1] <= high[0];
}

/* What a photometric tag means for the pixels: a level may be JPEG (YCbCr) where the slide is not. */
static uint64_t colours_of(const struct page *g)
{
    enum { WHITE_IS_ZERO, GRAY, RGB, YCBCR = 6 };
    return g->photometric == WHITE_IS_ZERO ? GRAY : g->photometric == YCBCR ? RGB : g->photometric;
}

/* Is a directory without that mark a level? It is the slide at a whole factor. */
static bool is_copy(const struct page *g, const struct page *base)
{
    const double f = round(base->side[0] / g->side[0]), stated = stated_factor(g, base);
    if (colours_of(g) != colours_of(base) || g->samples != base->samples)
        return false;
    return (stated > 1 && stated == round(stated)) ||
           (f >= 2 && fabs(base->side[0] / f - g->side[0]) <= 1.5 &&
            fabs(base->side[1] / f - g->side[1]) <= 1.5);
}

/* Is it a picture of its own, rather than a smaller copy? */
static bool is_other(const struct page *g, const struct page *base)
{
    const double w = g->side[0] / base->side[0], h = g->side[1] / base->side[1];
    return w >= 1 || fabs(w - h) * fmin(base->side[0], base->side[1]) > 2;
}

/* --- the slide --- */

/* May it be the slide or a level? Aperio's and Philips' levels are in tiles, and their other
 * pictures are not. */
static bool is_candidate(const struct search *s, const struct page *g)
{
    const bool has_size = g->side[0] > 0 && g->side[1] > 0;
    return (g->is_tiled || (has_size && s->p->kind > TIFF_PHILIPS)) && !g->is_associated;
}

static bool is_level(const struct search *s, const struct page *g, const struct page *base);

/* OME: the directory that the XML states, or else the one of its size. It has all channels: what is
 * spread over several directories is no picture in colour. 1 or -1. */
static int bound_page(struct search *s, const struct page **base, struct err *e)
{
    const struct tiff_xml_image *i = &s->xml.images[s->image];
    const struct page *same = NULL;
    for (int k = 0; k < s->n; k++)
        if (!same && is_candidate(s, &s->pages[k]) && s->pages[k].side[0] == (double)i->width &&
            s->pages[k].side[1] == (double)i->height)
            same = &s->pages[k];
    if (i->directory >= s->n)
        return err_set(e, "its OME-XML says that the slide is directory %" PRId64 ", but it has %d",
                       i->directory, s->n);
    const struct page *g = &s->pages[i->directory < 0 ? 0 : i->directory];
    if (i->directory < 0 && same)
        g = same;
    if (g->is_associated)
        return err_set(e, "its OME-XML takes a label or macro for the slide");
    if (i->width > 0 && i->height > 0 &&
        (g->side[0] != (double)i->width || g->side[1] != (double)i->height))
        return err_set(e,
                       "its OME-XML says that the slide of %" PRId64 " x %" PRId64
                       " px is directory %d, which has %.0f x %.0f px",
                       i->width, i->height, (int)(g - s->pages), g->side[0], g->side[1]);
    if ((uint64_t)i->c > g->samples)
        return err_set(e,
                       "an OME-TIFF with %" PRId64
                       " channels, of which its directory %d has %" PRIu64
                       "; write the one that matters to a file of its own first",
                       i->c, (int)(g - s->pages), g->samples);
    *base = g;
    return 1;
}

/* Those directories that the XML calls label, macro, overview or thumbnail. */
static void mark_associated(struct search *s)
{
    const bool whole = tiff_xml_is_associated(s->xml.images[s->image].name, false);
    for (int k = 0; k < s->xml.n_images; k++) {
        const struct tiff_xml_image *i = &s->xml.images[k];
        if (k == s->image || i->directory < 0 || i->directory >= s->n ||
            !tiff_xml_is_associated(i->name, whole))
            continue;
        s->pages[i->directory].is_associated = true;
        s->others--;
    }
}

/* The slide: the largest picture in tiles, of Aperio and Philips the first one; or a larger one in
 * strips of which that is a level, or which comes first. 1, 0: there is none, -1. */
static int find_base(struct search *s, const struct page **base, struct err *e)
{
    const struct page *tiled = NULL, *strips = NULL, *first = &s->pages[0];
    bool has_tiles = false, is_foreign = false;
    if (s->p->kind == TIFF_OME) {
        mark_associated(s);
        return bound_page(s, base, e);
    }
    for (int k = 0; k < s->n; k++) {
        const struct page *g = &s->pages[k];
        has_tiles |= g->is_tiled && !(g->subfile & MASK);
        is_foreign |= g->is_foreign;
        if (g->is_tiled && is_candidate(s, g) &&
            (!tiled || (s->p->kind == TIFF_GENERIC && area(g) > area(tiled))))
            tiled = g;
        if (!g->is_tiled && g->may_be_plain && (!strips || area(g) > area(strips)))
            strips = g;
    }
    strips = is_foreign ? NULL : strips;
    if (!tiled && !strips && has_tiles)
        return err_set(e, "its only picture in tiles is a label or macro; convert the file of the "
                          "slide");
    const bool in_tiles =
        tiled && (first->is_tiled || first->is_associated || area(first) < area(tiled));
    const bool larger = strips && (!tiled || area(strips) > area(tiled));
    *base = larger && (!in_tiles || is_level(s, tiled, strips)) ? strips : in_tiles ? tiled : NULL;
    return *base != NULL;
}

/* --- levels --- */

/* Notes a level, before the narrower ones if `sorted`. */
static void add_level(struct tiff_pyramid *p, const struct page *g, const struct page *base,
                      bool sorted)
{
    const double d = g == base ? 1 : factor_of(g, base);
    if (p->levels == TIFF_LEVELS)
        return;
    int64_t k = p->levels++;
    for (; sorted && k > 1 && p->downsamples[k - 1] > d; k--) {
        p->downsamples[k] = p->downsamples[k - 1];
        p->at[k] = p->at[k - 1];
    }
    p->downsamples[k] = d;
    p->at[k] = g->at;
}

/* Aperio: does a directory belong to another focal plane than level 0? Of one size the first
 * counts, among those that do not state another plane. */
static bool is_other_plane(const struct search *s, const struct page *g, const struct page *base)
{
    for (const struct page *k = s->pages; k < g; k++)
        if (is_candidate(s, k) && k->side[0] == g->side[0] && k->side[1] == g->side[1] &&
            !(fabs(k->z - base->z) > 0))
            return true;
    return fabs(g->z - base->z) > 0;
}

/* Bit 0 of NewSubfileType marks a level, but in Aperio's files a label: there a level with that mark
 * is the slide at a whole factor, too. */
static bool is_level(const struct search *s, const struct page *g, const struct page *base)
{
    const bool is_marked = g->subfile & REDUCED;
    if (g == base || !is_candidate(s, g))
        return false;
    switch (s->p->kind) {
    case TIFF_APERIO:
        return !is_other_plane(s, g, base) &&
               (is_marked ? is_copy(g, base) : has_proportions(g, base));
    case TIFF_PHILIPS: return is_marked && has_proportions(g, base);
    default: return is_marked ? has_proportions(g, base) : is_copy(g, base);
    }
}

/* Is a page in strips another picture than a smaller copy or a thumbnail of the slide? */
static bool is_other_picture(const struct page *g, const struct page *base)
{
    const double x = g->side[0] / base->side[0], y = g->side[1] / base->side[1];
    const bool copy = fabs(x - y) * base->side[0] < 2 * base->side[0] / 100;
    return x * y > 0.9 || (x * y > 0.25 && !copy);
}

/* Levels in the tag 330 of level 0. */
static void list_subs(struct search *s, const struct page *base)
{
    const struct tiff_directory *d = tiff_file_directory(s->t, base->at), *sub;
    uint64_t at[TIFF_LEVELS - 1];
    const struct tiff_tag *tag = d ? tiff_directory_tag(d, TIFF_FILE_SUBS) : NULL;
    const size_t n = !tag ? 0 : tag->count < TIFF_LEVELS - 1 ? (size_t)tag->count : TIFF_LEVELS - 1;
    const bool found = tag && tiff_file_values(s->t, tag, 0, n, at);
    for (size_t k = 0; found && k < n && (sub = tiff_file_directory(s->t, at[k])); k++) {
        const struct page g = describe(s->t, sub);
        if (at[k] != base->at && is_level(s, &g, base))
            add_level(s->p, &g, base, true);
    }
}

static int list_levels(struct search *s, const struct page *base, struct err *e)
{
    const bool sorted = s->p->kind > TIFF_PHILIPS;
    int pictures = 1;
    add_level(s->p, base, base, sorted);
    for (int k = 0; k < s->n; k++) {
        const struct page *g = &s->pages[k];
        if (is_level(s, g, base))
            add_level(s->p, g, base, sorted);
        else if (g == base || (g->subfile & REDUCED))
            continue;
        else if (base->is_tiled) /* beside tiles a picture in strips is a label or thumbnail */
            pictures += g->is_tiled && is_candidate(s, g) && is_other(g, base);
        else
            pictures += g->may_be_plain && is_candidate(s, g) && is_other_picture(g, base);
    }
    for (int k = 0; k < s->n && s->p->kind == TIFF_APERIO; k++)
        s->p->planes += is_candidate(s, &s->pages[k]) && s->pages[k].side[0] == base->side[0] &&
                        s->pages[k].side[1] == base->side[1];
    if (s->p->levels == 1 && sorted)
        list_subs(s, base);
    if (pictures >= 2 + s->others && (sorted || !base->is_tiled))
        return err_set(e,
                       "a TIFF file with %d%s pictures that are not levels of one pyramid (planes, "
                       "channels, time points or series); write the one that matters to a file of "
                       "its own first",
                       pictures, s->n == MOST_PAGES ? " or more" : "");
    return 0;
}

/* A slide in strips whose file may hold more than its list of directories tells. */
static int check_list(const struct search *s, struct err *e)
{
    if (s->p->is_crowded)
        return err_set(e, "its directories have more than %d tags, or one of them more than %d",
                       TIFF_MOST_KEPT, TIFF_MOST_TAGS);
    if (s->p->is_cut)
        return err_set(e, "damaged: a directory is not in the file; copy the slide again");
    if (s->pages[0].images > 1)
        return err_set(e,
                       "an ImageJ stack of %ld images; write the one that matters to a file of its "
                       "own first",
                       s->pages[0].images);
    return 0;
}

/* How OpenSlide numbers the levels: it takes the first directory for one, and does not know labels,
 * levels without the mark, and tag 330. */
static void find_seen(struct search *s)
{
    struct tiff_pyramid *p = s->p;
    const struct page *seen[TIFF_LEVELS] = {NULL};
    const bool all = p->kind == TIFF_APERIO;
    for (int k = 0; k < s->n && p->n_seen < TIFF_LEVELS; k++) {
        const struct page *g = &s->pages[k];
        if (k == 0 && !g->is_tiled)
            break;
        if (!g->is_tiled || !(all || k == 0 || (g->subfile & REDUCED)))
            continue;
        int64_t at = p->n_seen++;
        for (; p->kind > TIFF_PHILIPS && at > 0 && seen[at - 1]->side[0] < g->side[0]; at--)
            seen[at] = seen[at - 1];
        seen[at] = g;
    }
    for (int64_t k = 0; k < p->levels; k++) {
        p->seen[k] = -1;
        for (int64_t j = 0; j < p->n_seen; j++)
            p->seen[k] = seen[j]->at == p->at[k] ? j : p->seen[k];
    }
}

/* --- um per pixel --- */

/* The positive number behind "MPP = ", or behind "mpp_x: " for one side; NaN without. */
static double number_of_mpp(const char *text, char side)
{
    for (const char *at = text; (at = strcasestr(at, "mpp")); at++) {
        const char *v = at + 3, *axis = v + (*v == '_' || *v == '-');
        if (tolower((unsigned char)*axis) == side)
            v = axis + 1;
        v += strspn(v, " \"'");
        if ((at > text && isalnum((unsigned char)at[-1])) || (*v != '=' && *v != ':'))
            continue;
        char number[32], *end;
        v += 1 + strspn(v + 1, " \"'");
        size_t n = strspn(v, "0123456789.,eE+-");
        if (n >= sizeof number || (isalnum((unsigned char)v[n]) && strncmp(v + n, "um", 2) != 0))
            continue;
        for (; n > 0 && (v[n - 1] == ',' || v[n - 1] == '.'); n--)
            ; /* the comma of a list */
        for (size_t k = 0; k < n; k++)
            number[k] = v[k] == ',' ? '.' : v[k];
        number[n] = 0;
        const double mpp = strtod(number, &end);
        if (n > 0 && !*end && isfinite(mpp) && mpp > 0)
            return mpp;
    }
    return NAN;
}

/* um per ImageJ's unit of length: "unit=micron" in its description; NaN without, or of another
 * unit. *stated: there is one, which is no pixel. */
static double imagej_unit(const char *text, bool *stated)
{
    const char *at = strstr(text, "ImageJ=") == text ? strstr(text, "\nunit=") : NULL;
    const size_t n = at ? strcspn(at + 6, "\r\n") : 0;
    char unit[32] = "";
    if (n > 0 && n < sizeof unit)
        snprintf(unit, sizeof unit, "%.*s", (int)n, at + 6);
    *stated = n > 0 && strncasecmp(unit, "pixel", 5) != 0;
    if (!strncasecmp(unit, "micron", 6) || !strcmp(unit, "\\u00B5m"))
        return 1;
    return !strncasecmp(unit, "inch", 4) ? 25400 : *stated ? tiff_xml_um(unit) : NAN;
}

/*
 * The places that state um per px, of which the first that does counts: OME-XML, Philips' XML,
 * "MPP" in a description of any vendor, ImageJ's unit, the tags of resolution. slide_check_mpp()
 * judges what they state, as in every format.
 */
static void take_mpp(const struct search *s, const struct page *base)
{
    struct tiff_pyramid *p = s->p;
    bool has_unit;
    char own[MOST_LINES];
    const struct tiff_directory *d = tiff_file_directory(s->t, base->at);
    const char *text = base == s->pages ? p->description : own;
    own[0] = 0;
    if (d)
        tiff_file_text(s->t, d, TIFF_FILE_DESCRIPTION, own, sizeof own);
    text = *text == '<' ? "" : text;
    const double length = imagej_unit(text, &has_unit), tags = has_unit ? NAN : base->unit;
    const double *x = s->xml.spacing_x, *y = s->xml.spacing_y;
    const bool is_philips = p->kind == TIFF_PHILIPS && s->xml.n_levels > 0;
    const struct tiff_xml_image *ome = p->kind == TIFF_OME ? &s->xml.images[s->image] : NULL;
    const double stated[][SIDES] = {
        {ome ? ome->mpp_x : NAN, ome ? ome->mpp_y : NAN},
        {is_philips ? 1000 * x[0] : NAN, is_philips ? 1000 * y[0] : NAN},
        {number_of_mpp(text, 'x'), number_of_mpp(text, 'y')},
        {length / base->per_unit[0], length / base->per_unit[1]},
        {tags / base->per_unit[0], tags / base->per_unit[1]}};
    for (size_t k = 0; k < sizeof stated / sizeof *stated; k++) {
        p->mpp_x = p->mpp_x > 0 ? p->mpp_x : stated[k][0];
        p->mpp_y = p->mpp_y > 0 ? p->mpp_y : stated[k][1];
    }
    if (!(p->mpp_x > 0 || p->mpp_y > 0) && base->per_unit[0] > 0 && base->per_unit[0] != 1)
        p->unitless = base->per_unit[0];
    for (int64_t k = 0; is_philips && s->xml.n_levels == p->levels && k < p->levels; k++)
        p->downsamples[k] = round((x[k] / x[0] + y[k] / y[0]) / 2);
}

/* --- the file --- */

/* Scanners whose files only OpenSlide puts together. */
static const char *foreign_scanner(const struct tiff_file *t, const struct tiff_directory *d,
                                   const char *description, const char *software)
{
    const struct tiff_tag *xmp = tiff_directory_tag(d, TIFF_FILE_XMP);
    if (strstr(description, "www.leica-microsystems.com/scn"))
        return "Leica SCN";
    if (!strncmp(software, "MedScan", 7))
        return "Trestle";
    char *text = xmp ? tiff_file_bytes(t, xmp, MOST_XMP) : NULL;
    const char *found =
        text && memmem(text, tiff_tag_bytes(xmp), "iScan", 5) ? "Ventana BIF" : NULL;
    free(text);
    return found;
}

/* The first directory: whose file it is. 1, 0 or -1. */
static int read_first(struct search *s, const struct tiff_directory *d, const char *path,
                      struct err *e)
{
    struct tiff_pyramid *p = s->p;
    char software[32];
    const struct tiff_tag *tag = tiff_directory_tag(d, TIFF_FILE_DESCRIPTION);
    p->description = tag ? tiff_file_bytes(s->t, tag, MOST_TEXT) : NULL;
    p->description = p->description ? p->description : memory_copy(""); /* not in the file */
    tiff_file_text(s->t, d, TIFF_FILE_SOFTWARE, software, sizeof software);
    const char *scanner = foreign_scanner(s->t, d, p->description, software);
    if (!strncmp(p->description, "Aperio", 6))
        p->kind = TIFF_APERIO;
    else if (scanner)
        return err_set(e, "its format is %s", scanner), 0;
    else if (tiff_xml_read(&s->xml, p->description, path_base_name(path), e))
        return -1;
    else if (s->xml.kind == TIFF_XML_PHILIPS && !strncmp(software, "Philips", 7))
        p->kind = TIFF_PHILIPS;
    else
        p->kind = s->xml.kind == TIFF_XML_OME && s->xml.n_images > 0 ? TIFF_OME : TIFF_GENERIC;
    return p->kind == TIFF_OME && tiff_xml_slide(&s->xml, &s->image, &s->others, e) ? -1 : 1;
}

/* The directory that masks another: one of its size that is marked as a mask. 0: none. */
static uint64_t mask_of(const struct search *s, uint64_t at)
{
    const struct page *of = NULL;
    for (int k = 0; k < s->n; k++)
        of = s->pages[k].at == at ? &s->pages[k] : of;
    for (int k = 0; of && k < s->n; k++) {
        const struct page *g = &s->pages[k];
        if ((g->subfile & MASK) && !memcmp(g->side, of->side, sizeof g->side))
            return g->at;
    }
    return 0;
}

static int read_pages(struct search *s, struct err *e)
{
    const struct page *base = NULL;
    list_pages(s);
    const int r = find_base(s, &base, e);
    if (r <= 0)
        return r;
    if (list_levels(s, base, e) || (!base->is_tiled && s->p->kind != TIFF_OME && check_list(s, e)))
        return -1;
    find_seen(s);
    for (int64_t k = 0; k < s->p->levels && s->p->kind > TIFF_PHILIPS; k++)
        s->p->masks[k] = mask_of(s, s->p->at[k]);
    take_mpp(s, base);
    s->p->in_strips = !base->is_tiled;
    return base->is_tiled;
}

bool tiff_pyramid_is_aperio(const struct slide_file *file)
{
    const struct tiff_file *t = tiff_file_of(file);
    const struct tiff_directory *d = t ? tiff_file_directory(t, t->first) : NULL;
    char text[8] = "";
    if (d)
        tiff_file_text(t, d, TIFF_FILE_DESCRIPTION, text, sizeof text);
    return !strncmp(text, "Aperio", 6);
}

/* --- once per file --- */

/* The slide that was found, or why none was. */
struct found {
    struct tiff_pyramid pyramid;
    int result, code; /* code: errno of a failed read, or 0 */
    struct err why;
};

static void release(void *what)
{
    struct found *f = what;
    free(f->pyramid.description);
    free(f);
}

static struct found *search_file(const struct slide_file *file)
{
    struct found *f = memory_need(1, sizeof *f);
    struct search *s = memory_need(1, sizeof *s);
    f->pyramid = (struct tiff_pyramid){.mpp_x = NAN, .mpp_y = NAN, .unitless = NAN};
    s->p = &f->pyramid;
    s->t = tiff_file_of(file);
    const struct tiff_directory *d = s->t ? tiff_file_directory(s->t, s->t->first) : NULL;
    f->result = d ? read_first(s, d, file->path, &f->why) : 0;
    if (f->result > 0)
        f->result = read_pages(s, &f->why);
    free(s->pages);
    free(s);
    return f;
}

int tiff_pyramid_of(const struct tiff_pyramid **p, const struct slide_file *file, struct err *e)
{
    struct found *f = slide_file_kept(file, release);
    if (!f) {
        errno = 0;
        f = search_file(file);
        f->code = slide_may_pass(errno) ? errno : 0;
        slide_file_keep(file, f, release);
    }
    *p = &f->pyramid;
    if (f->code) {
        errno = f->code;
        return err_sys(e, "cannot read its directories");
    }
    if (f->why.msg[0])
        err_copy(e, &f->why);
    return f->result;
}

int tiff_pyramid_strips(const struct tiff_pyramid **p, const struct slide_file *file, struct err *e)
{
    const int r = tiff_pyramid_of(p, file, e);
    return r == 0 ? (*p)->in_strips : r < 0 ? -1 : 0;
}

int tiff_pyramid_check(const struct tiff_pyramid **p, const struct slide_file *file, struct err *e)
{
    const int r = tiff_pyramid_of(p, file, e);
    if (r <= 0 || (*p)->seen[0] == 0)
        return r;
    return err_set(e,
                   "its slide is not its first picture, and OpenSlide reads only that; write the "
                   "slide to a file of its own first");
}
