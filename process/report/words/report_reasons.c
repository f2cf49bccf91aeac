/* report_reasons.c - see report_reasons.h. */
#include "process/report/words/report_reasons.h"

#include "common/base/cli.h"
#include "common/base/csv.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/store/store.h"
#include "process/report/numbers/report_rules.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Strengths of reasons that are no numbers: after those that are. */
#define OF_FAILURE 2e6
#define OF_LIMIT 1e6
#define OF_NOTE 0.0
/* Added to that of a number that names the cause. */
#define OF_CAUSE 1e3
/* Before them: what is of another kind has causes that are none. */
#define OF_KIND 5e5

const char *report_verdict_name(enum report_verdict v)
{
    static const char *const names[] = {"pass", "not judged", "review", "fail"};
    return names[v];
}

void report_pool_label(const struct report_view *r, int32_t pool, char *out, size_t size)
{
    const struct report_pool *p = &r->scores->pool[pool];
    if (r->groups->n == 1)
        snprintf(out, size, "%s", p->resolution);
    else
        snprintf(out, size, "%s, %s", r->names->group[p->group], p->resolution);
}

#define HIDDEN "not shown, because it may contain names; see the key"

const char *report_failure_reason(const struct report_view *r, int64_t failure)
{
    const struct report_failure *x = &r->failures->failure[failure];
    return r->setup->key ? HIDDEN : report_bare_reason(x->name, x->reason);
}

/* --- a list of reasons --- */

struct list {
    struct report_reason *reason;
    int n;
};

static struct report_reason *say(struct list *l, enum report_verdict verdict, double strength,
                                 const char *fmt, ...) ERR_PRINTF(4, 5);
static struct report_reason *say(struct list *l, enum report_verdict verdict, double strength,
                                 const char *fmt, ...)
{
    assert(l->n < REPORT_MOST_REASONS);
    struct report_reason *x = &l->reason[l->n++];
    va_list ap;
    *x = (struct report_reason){.verdict = verdict, .strength = strength, .x = NAN, .y = NAN};
    va_start(ap, fmt);
    vsnprintf(x->text, sizeof x->text, fmt, ap);
    va_end(ap);
    return x;
}

static int stronger_first(const void *a, const void *b)
{
    const struct report_reason *x = a, *y = b;
    if (x->verdict != y->verdict)
        return x->verdict > y->verdict ? -1 : 1;
    return x->strength > y->strength ? -1 : x->strength < y->strength;
}

/* --- numbers --- */

/* Is number m beyond what is usual? Not if it tells two kinds of slides apart. */
static double flag_of(const struct report_view *r, int64_t k, int m)
{
    const double excess = report_excess(r->slides, r->scores, k, m);
    return excess > 1 && !report_separates_kinds(r->clusters, r->scores->of[k].pool, m) ? excess
                                                                                        : 0;
}

static void set_place(const struct report_view *r, int64_t k, enum report_place_of what,
                      struct report_reason *x)
{
    x->x = r->places->of[k][what].x;
    x->y = r->places->of[k][what].y;
}

/* "-33.1 dB", "12 %": as many digits as a reader uses. */
static const char *shown(char out[64], int m, double value)
{
    const struct report_metric *x = report_metric(m);
    const double percent = round(100 * value);
    if (!report_is_share(m))
        snprintf(out, 64, "%.*f%s", x->digits, value, x->unit);
    else if (value > 0 && percent < 1)
        snprintf(out, 64, "less than 1 %%");
    else if (value < 1 && percent > 99)
        snprintf(out, 64, "more than 99 %%");
    else
        snprintf(out, 64, "%.0f %%", percent);
    return out;
}

/* "noise of the glass 0.80 levels, usually 0.25" */
static const char *shown_usually(const struct report_view *r, int64_t k, int m, char out[256])
{
    const double usually = r->scores->pool[r->scores->of[k].pool].summary[m].q50;
    char own[64], others[64];
    snprintf(out, 256, "%s %s, usually %s", report_metric(m)->title,
             shown(own, m, report_value(r->slides, r->scores, k, m)), shown(others, m, usually));
    return out;
}

/* How many times as dense as usual the stain of a slide is, if that is a flag; 1. */
static double density_of(const struct report_view *r, int64_t k)
{
    const double usual = r->scores->pool[r->scores->of[k].pool].summary[REPORT_STAIN].q50;
    return flag_of(r, k, REPORT_STAIN) > 0 ? r->slides->slide[k].metric[REPORT_STAIN] / usual : 1;
}

/* Does an unusual value of the number mean that tissue is less sharp? */
static bool is_of_tissue_sharpness(int m)
{
    return m == REPORT_FOCUS_P50 || m == REPORT_SHARP_P50 || m == REPORT_SHARP_P05 ||
           m == REPORT_PIECES;
}

/* "tissue less sharp than in the others (sharpness, typical -33.1 dB, usually -27.0 dB)" */
static void say_z(const struct report_view *r, int64_t k, int m, double excess, struct list *l)
{
    const struct report_metric *x = report_metric(m);
    const struct report_score *s = &r->scores->of[k];
    const double usually = r->scores->pool[s->pool].summary[m].q50;
    const double value = report_value(r->slides, r->scores, k, m);
    char words[128], numbers[256];
    const char *side = s->z[m] < 0 ? x->low : x->high;
    const char *text = side ? side : "unlike the others"; /* beyond a limit of its own */
    if (m == REPORT_STAIN && density_of(r, k) >= RULE_DENSE)
        text = "%s times as dense as the stain of the others: black tiles, or pen";
    const char *place = x->ratio ? strstr(text, "%s") : NULL;
    if (place)
        snprintf(words, sizeof words, "%.*s%.2g%s", (int)(place - text), text, value / usually,
                 place + 2);
    else
        snprintf(words, sizeof words, "%s", text);
    struct report_reason *reason =
        say(l, REPORT_REVIEW, excess, "%s (%s)", words, shown_usually(r, k, m, numbers));
    reason->picture = x->picture;
    reason->unsharp = s->z[m] < 0 && is_of_tissue_sharpness(m);
    if (s->z[m] < 0 && m == REPORT_FOCUS_P50)
        set_place(r, k, REPORT_PLACE_DULL, reason);
    else if (m == REPORT_HUE)
        set_place(r, k, REPORT_PLACE_HUE, reason);
    else if (m == REPORT_STAIN)
        set_place(r, k, REPORT_PLACE_DENSE, reason);
}

static void say_blur(const struct report_view *r, int64_t k, double excess, struct list *l)
{
    const struct report_place *p = &r->places->of[k][REPORT_PLACE_BLURRED];
    const double share = r->scores->of[k].blurred;
    const bool where = share < 0.5 && p->where;
    char part[64];
    struct report_reason *x =
        say(l, REPORT_REVIEW, excess, "tissue blurred%s%s, %s of it%s", where ? " " : "",
            where ? p->where : "", shown(part, REPORT_BLURRED, share),
            share < 0.5 ? "" : ": out of focus, or enlarged by a wrong um per px");
    x->picture = PICTURE_OF_MAP;
    x->unsharp = true;
    set_place(r, k, REPORT_PLACE_BLURRED, x);
}

/* Of an angle in degrees, 0 along the rows. */
static const char *direction_words(double deg)
{
    return deg < 22.5 || deg >= 157.5 ? "along the rows"
           : deg < 67.5               ? "obliquely, from the upper left to the lower right"
           : deg < 112.5              ? "along the columns"
                                      : "obliquely, from the lower left to the upper right";
}

/* Do the borders of an earlier JPEG's blocks show, beside those of this one? */
static bool has_earlier_grid(const struct report_slide *s)
{
    return s->glass[GLASS_GRID] > RULE_EARLIER_GRID;
}

/* What helps against a cause in the scanner. A file that was compressed before is not the
 * scanner's own: what happened to it comes first. */
static const char *scanner_remedy(const struct report_slide *s, const char *remedy)
{
    return has_earlier_grid(s) || s->metric[REPORT_TWICE] > STORE_TWICE
               ? "the file was compressed before, so look at the scanner's own file first"
               : remedy;
}

/* Codecs work on blocks of 8, 16 and 32 px and on tiles: what is periodic or ends there is
 * compression. */
static bool is_of_blocks(double period_px)
{
    const double blocks = period_px / RULE_BLOCK;
    return round(blocks) >= 1 && fabs(blocks - round(blocks)) < RULE_BLOCK_OFF * blocks;
}

#define OF_TILES "tiles of the file's compression show in the picture"

/* Results of an earlier version do not know which seams are of tiles. Many do not have the size of
 * these: most are 240 or a multiple of 128 px. */
static bool is_of_tiles(double edge_px, int64_t tile_px)
{
    const int64_t next = (int64_t)edge_px + 1;
    const bool ends = tile_px > 0 ? next % tile_px == 0 : next % 128 == 0 || next % 240 == 0;
    return edge_px > 0 && ends;
}

/* The pattern of lines, with its period. */
static void say_lines(const struct report_slide *s, double excess, struct list *l)
{
    char um[32] = "";
    if (is_of_blocks(s->of_spectra.lines_period_px)) {
        say(l, REPORT_PASS, OF_NOTE, "compressed in blocks of %.0f px, which show in the picture",
            s->of_spectra.lines_period_px);
        return;
    }
    if (s->um > 0)
        snprintf(um, sizeof um, " (%.2g um)", s->of_spectra.lines_period_px * s->um);
    say(l, REPORT_REVIEW, excess + OF_CAUSE,
        "a pattern of lines every %.3g px%s, %s, %.1f dB above its surroundings: resized by "
        "software, line camera or stage of the scanner, or cracks; %s",
        s->of_spectra.lines_period_px, um, direction_words(s->of_spectra.lines_deg),
        s->metric[REPORT_LINES],
        scanner_remedy(s, "send the scanner to service if other slides of its own have it"));
}

/* "4 rows of pixels, the clearest at y = 799 px", or nothing. Places are px of level 0, as on maps
 * and on the page. Returns its place as a part of the size, or the middle. */
static double seams_of(double seams, const char *what, char axis, double px,
                       const struct report_slide *s, int64_t size, char out[96])
{
    *out = 0;
    if (!(seams > 0))
        return 0.5;
    snprintf(out, 96, "%.0f %s%s of pixels, the clearest at %c = %.0f px", seams, what,
             seams > 1 ? "s" : "", axis,
             floor((px + 1) * s->downsample) - 1); /* the last px before it */
    return px / (double)size;
}

static void say_seams(const struct report_slide *s, double excess, struct list *l)
{
    const struct slide_numbers *n = &s->of_spectra;
    char rows[96], columns[96];
    if (isnan(n->tile_seam_rows + n->tile_seam_columns) &&
        (is_of_tiles(n->seam_y_px, s->tile_rows) || !(n->seam_rows > 0)) &&
        (is_of_tiles(n->seam_x_px, s->tile_cols) || !(n->seam_columns > 0))) {
        say(l, REPORT_PASS, OF_NOTE, OF_TILES);
        return;
    }
    const double y = seams_of(n->seam_rows, "row", 'y', n->seam_y_px, s, s->height, rows);
    const double x = seams_of(n->seam_columns, "column", 'x', n->seam_x_px, s, s->width, columns);
    struct report_reason *reason =
        say(l, REPORT_REVIEW, excess + OF_CAUSE,
            "straight edges through the tissue along %s%s%s: seams of stitched fields, cracks or "
            "lost tiles; %s",
            rows, *rows && *columns ? ", and " : "", columns, scanner_remedy(s, "scan it again"));
    reason->picture = PICTURE_OF_SLIDE;
    reason->x = x;
    reason->y = y;
}

static void say_motion(const struct report_view *r, int64_t k, double excess, struct list *l)
{
    const struct report_slide *s = &r->slides->slide[k];
    const struct report_pool *p = &r->scores->pool[r->scores->of[k].pool];
    say(l, REPORT_REVIEW, excess + OF_CAUSE,
        "motion or a colour fringe: detail is weaker %s than across (%.1f dB, usually %.1f): the "
        "stage shook or the slide moved; %s",
        direction_words(s->of_spectra.direction_deg), s->metric[REPORT_DIRECTION],
        p->summary[REPORT_DIRECTION].q50, scanner_remedy(s, "scan it again"));
}

static void say_glass_lines(const struct report_slide *s, double excess, struct list *l)
{
    char own[64];
    say(l, REPORT_REVIEW, excess + OF_CAUSE,
        "lines along the %s on the glass: %s (%s of the glass)",
        s->glass[GLASS_ROWS] > s->glass[GLASS_COLUMNS] ? "rows" : "columns",
        isnan(s->glass[GLASS_GRID]) /* of an earlier version */
            ? "an earlier compression on another grid, or the scanner; convert and run it again "
              "with --force, which tells these apart"
            : scanner_remedy(s, "line camera or stage of the scanner; send the scanner to service "
                                "if other slides of its own have them"),
        shown(own, REPORT_GLASS_LINES, s->metric[REPORT_GLASS_LINES]))
        ->picture = PICTURE_OF_SLIDE;
}

/* The glass is not as even as that of the others, and not because of lines. */
static void say_glass(const struct report_view *r, int64_t k, double excess, struct list *l)
{
    char numbers[256];
    if (flag_of(r, k, REPORT_GLASS_LINES) > 0)
        return;
    say(l, REPORT_REVIEW, excess + OF_CAUSE, "%s (%s)",
        has_earlier_grid(&r->slides->slide[k])
            ? "the glass is less even than that of the others: compressed before, on another grid"
        : r->slides->slide[k].glass[GLASS_GRAIN] >= RULE_GRAIN
            ? "the glass is noisier than that of the others: sensor, too little light, or oblique "
              "lines"
            : "the glass is less even than that of the others: shading of fields, or coarse noise",
        shown_usually(r, k, REPORT_GLASS, numbers))
        ->picture = PICTURE_OF_SLIDE;
}

/* Detail of 4 px is lost, that of 7 px is not: no lens does that. */
static bool say_enlarged(const struct report_view *r, int64_t k, struct list *l)
{
    const struct report_pool *p = &r->scores->pool[r->scores->of[k].pool];
    const struct stats_summary *fine = &p->summary[REPORT_DETAIL_4];
    const double *own = r->slides->slide[k].metric;
    const double lost = fine->q50 - own[REPORT_DETAIL_4];
    const double lost_7 = p->summary[REPORT_DETAIL_7].q50 - own[REPORT_DETAIL_7];
    const double z = 0.6745 * lost / fmax(fine->mad, RULE_ENLARGED_MAD);
    if (fine->n < STATS_LEAST ||
        !(z > RULE_ENLARGED_Z && lost > RULE_ENLARGED_DB && lost_7 < RULE_ENLARGED_PART * lost))
        return false;
    say(l, REPORT_REVIEW, z / RULE_ENLARGED_Z + OF_CAUSE,
        "enlarged by software, or the wrong um per px is stated: detail of 4 px is %.1f dB weaker "
        "than in the others, that of 7 px only %.1f",
        lost, lost_7);
    return true;
}

/* Is most of the tissue less sharp than that of the others? */
static bool is_weak(const struct report_view *r, int64_t k)
{
    const double *z = r->scores->of[k].z;
    return (z[REPORT_SHARP_P50] < 0 && flag_of(r, k, REPORT_SHARP_P50) > 0) ||
           (z[REPORT_FOCUS_P50] < 0 && flag_of(r, k, REPORT_FOCUS_P50) > 0);
}

/* Does a dense stain make what is dark? No stain is 2.5 times as dense: that is black. */
static bool is_dense(const struct report_view *r, int64_t k)
{
    return density_of(r, k) > 1 && density_of(r, k) < RULE_DENSE;
}

/* Numbers of sharpness, from the one that says most to the one that says least. */
static const int sharpness[] = {REPORT_FOCUS_P50, REPORT_SHARP_P50, REPORT_SHARP_P05, REPORT_FALL,
                                REPORT_FINE_P50};
enum { SHARPNESS = sizeof sharpness / sizeof *sharpness };

static bool is_sharpness(int m)
{
    for (int k = 0; k < SHARPNESS; k++)
        if (sharpness[k] == m)
            return true;
    return false;
}

/* Does number m say of slide k that it is not sharp? */
static bool is_of_blur(const struct report_view *r, int64_t k, int m)
{
    return m == REPORT_BLURRED || (is_sharpness(m) && r->scores->of[k].z[m] < 0);
}

/* The number that says how the sharpness of slide k differs from that of the others, as a fact is
 * said once: the share of blurred tissue if only a part is blurred or all of it; else of the
 * numbers of one side the first. -1: none. */
static int sharpness_said(const struct report_view *r, int64_t k)
{
    const bool blurred = flag_of(r, k, REPORT_BLURRED) > 0;
    if (blurred && (!is_weak(r, k) || r->scores->of[k].blurred >= 0.5))
        return REPORT_BLURRED;
    for (int low = 1; low >= 0; low--)
        for (int i = 0; i < SHARPNESS; i++)
            if ((r->scores->of[k].z[sharpness[i]] < 0) == low && flag_of(r, k, sharpness[i]) > 0)
                return sharpness[i];
    return -1;
}

static bool is_blurred(const struct report_view *r, int64_t k)
{
    for (int m = 0; m < REPORT_METRICS; m++)
        if (is_of_blur(r, k, m) && flag_of(r, k, m) > 0)
            return true;
    return false;
}

/* Is an angle in degrees neither along the rows nor along the columns? */
static bool is_oblique(double deg)
{
    const double off = fmod(deg, 90);
    return off >= 22.5 && off < 67.5;
}

/* Motion takes detail away in one direction, and not much more than that in all others. Cells that
 * lie one way do not: only a difference of RULE_MOTION_ALONE dB is motion where detail is not lost
 * as well. Stages move along rows and columns, cells lie in any direction: obliquely, twice that is
 * needed, and the loss. */
static bool is_directed(const struct report_view *r, int64_t k)
{
    const double least = report_metric(REPORT_DIRECTION)->least;
    const struct stats_summary *usual = r->scores->pool[r->scores->of[k].pool].summary;
    const double *own = r->slides->slide[k].metric;
    const double lost_4 = usual[REPORT_DETAIL_4].q50 - own[REPORT_DETAIL_4];
    const double lost_7 = usual[REPORT_DETAIL_7].q50 - own[REPORT_DETAIL_7];
    const double directed = own[REPORT_DIRECTION] - usual[REPORT_DIRECTION].q50;
    if (is_oblique(r->slides->slide[k].of_spectra.direction_deg) &&
        (lost_4 < RULE_MOTION_LOST || directed < 2 * RULE_MOTION_ALONE))
        return false;
    return lost_4 >= 0 && (lost_4 >= RULE_MOTION_LOST || directed >= RULE_MOTION_ALONE) &&
           directed >= fmax(least, RULE_MOTION_PART * (lost_4 + lost_7) / 2);
}

/* Where tissue is blurred, a z above STATS_FLAG says why, however skewed the number is. */
static double motion_of(const struct report_view *r, int64_t k)
{
    const double flag = flag_of(r, k, REPORT_DIRECTION);
    const double z = r->scores->of[k].z[REPORT_DIRECTION] / STATS_FLAG;
    if (!is_directed(r, k))
        return 0;
    return flag == 0 && z > 1 && is_blurred(r, k) ? z : flag;
}

/* An enlarged picture has darker nuclei and may have no glass, and a bubble has a dark rim. */
static bool names_cause(const struct report_view *r, int64_t k, int m)
{
    if (m == REPORT_GRAY_LOW)
        return !is_blurred(r, k) || density_of(r, k) >= RULE_DENSE;
    if (m == REPORT_GRAY_HIGH)
        return !is_weak(r, k);
    return report_metric(m)->specific;
}

/* Is all of the slide darker than the others? */
static bool is_underexposed(const struct report_view *r, int64_t k)
{
    const int bright[] = {REPORT_GRAY_HIGH, REPORT_GLASS_GRAY};
    for (int i = 0; i < 2; i++)
        if (r->scores->of[k].z[bright[i]] < 0 && flag_of(r, k, bright[i]) > 0)
            return true;
    return false;
}

/* Numbers that a step of the light changes, too. */
static bool is_of_light(int m)
{
    return m == REPORT_GLASS_RANGE || m == REPORT_GLASS_GRAY || m == REPORT_TISSUE;
}

/* Does another number name the cause of what the finest detail is like? */
static bool has_cause(const struct report_view *r, int64_t k)
{
    for (int m = 0; m < REPORT_METRICS; m++)
        if (flag_of(r, k, m) > 0 && !is_sharpness(m) && m != REPORT_BLURRED && m != REPORT_TISSUE)
            return true;
    return false;
}

static void say_gray(const struct report_view *r, int64_t k, double excess, struct list *l)
{
    const double *v = r->slides->slide[k].metric;
    const bool black = v[REPORT_GRAY_LOW] < RULE_BLACK;
    char own[64];
    if (flag_of(r, k, REPORT_COLOURLESS) > 0)
        return;
    say(l, REPORT_REVIEW, excess + OF_CAUSE, "areas without any colour, %s of the slide, %s",
        shown(own, REPORT_GRAY, v[REPORT_GRAY]),
        black ? "black: lost tiles or a black pen; if it is no pen, compare the file with the "
                "scanner's own, and scan it again"
              : "gray: lost tiles, dust or a bubble; compare the file with the scanner's own, or "
                "clean the slide and scan it again")
        ->picture = PICTURE_OF_SLIDE;
}

static void say_ink(const struct report_view *r, int64_t k, double excess, struct list *l)
{
    char own[64];
    say(l, REPORT_REVIEW, excess + OF_CAUSE,
        "areas in a colour that the stain does not have, %s of the slide: pen, ink, dirt or "
        "pigment",
        shown(own, REPORT_INK, r->slides->slide[k].metric[REPORT_INK]))
        ->picture = PICTURE_OF_SLIDE;
}

/* All channels of the glass change alike with the exposure. */
static void say_light(const struct report_slide *s, double excess, struct list *l)
{
    const double *step = s->light.step, sum = step[0] + step[1] + step[2];
    const double high = fmax(step[0], fmax(step[1], step[2]));
    const double low = fmin(step[0], fmin(step[1], step[2]));
    const bool across = isnan(s->light.at[0]);
    const bool tint = high - low > s->metric[REPORT_LIGHT] / 2;
    struct report_reason *x =
        say(l, REPORT_REVIEW, excess + OF_CAUSE,
            "the glass is %s on the %s by %.0f levels: the %s changed during the scan; %s",
            tint      ? "of another colour"
            : sum > 0 ? "brighter"
                      : "darker",
            across ? "lower part" : "right", s->metric[REPORT_LIGHT],
            tint ? "white balance" : "exposure", scanner_remedy(s, "scan it again"));
    x->picture = PICTURE_OF_SLIDE;
    x->x = across ? 0.5 : s->light.at[0];
    x->y = across ? s->light.at[1] : 0.5;
}

static void say_colourless(const struct report_view *r, int64_t k, double excess, struct list *l)
{
    say(l, REPORT_REVIEW, excess + OF_CAUSE,
        "tissue without colour: a gray picture, or black tiles (%.0f %% of the tissue)",
        100 * r->slides->slide[k].metric[REPORT_COLOURLESS])
        ->picture = PICTURE_OF_SLIDE;
}

static void say_dark_place(const struct report_view *r, int64_t k, double excess, struct list *l)
{
    const bool black = r->slides->slide[k].metric[REPORT_GRAY] >= RULE_LEAST_BLACK;
    char numbers[256];
    say(l, REPORT_REVIEW, excess + (names_cause(r, k, REPORT_GRAY_LOW) ? OF_CAUSE : 0),
        "an area is far darker than anything on the others, %s; look at it (%s)",
        black ? "and black: lost tiles or a black pen"
              : "and coloured: a pen, or dense stain as in a fold",
        shown_usually(r, k, REPORT_GRAY_LOW, numbers))
        ->picture = PICTURE_OF_SLIDE;
}

static void say_dark(const struct report_view *r, int64_t k, double excess, struct list *l)
{
    say(l, REPORT_REVIEW, excess + OF_CAUSE,
        "dark glass: lamp or exposure; calibrate the white (brightness of the glass %.0f of 255)",
        r->slides->slide[k].metric[REPORT_GLASS_GRAY])
        ->picture = PICTURE_OF_SLIDE;
}

/* What a slide of another kind differs in: its sharpness, its stain and what follows from it. */
static bool is_of_kind(int m)
{
    return is_sharpness(m) || m == REPORT_BLURRED || m == REPORT_PIECES || m == REPORT_HUE ||
           m == REPORT_STAIN || m == REPORT_DIRECTION || m == REPORT_GRAY_LOW ||
           m == REPORT_GRAY_HIGH;
}

/* Is slide k alone with its stain and its detail, and is no other cause known? Dark nuclei and a
 * brown stain count as gray and as ink among slides without them. */
static bool is_alone(const struct report_view *r, int64_t k)
{
    if (r->scores->of[k].accepted || r->slides->slide[k].metric[REPORT_GRAY] > RULE_GRAY_OF_STAIN)
        return false;
    for (int m = 0; m < REPORT_METRICS; m++)
        if (!is_of_kind(m) && m != REPORT_GRAY && m != REPORT_INK && names_cause(r, k, m) &&
            flag_of(r, k, m) > 0)
            return false;
    return r->clusters->lone[k] > 0;
}

static void say_alone(const struct report_view *r, int64_t k, struct list *l)
{
    char hue[256], sharp[256];
    say(l, REPORT_REVIEW, r->clusters->lone[k] + OF_KIND,
        "unlike all other slides in stain and detail together: another stain, tissue or "
        "magnification? Judge it apart (%s; %s)",
        shown_usually(r, k, REPORT_HUE, hue), shown_usually(r, k, REPORT_SHARP_P50, sharp))
        ->picture = PICTURE_OF_SLIDE;
}

/* Does another reason of the slide say what number m would say? `said`: the number that stands for
 * its sharpness. */
static bool is_implied(const struct report_view *r, int64_t k, int m, bool alone, int said)
{
    switch (m) {
    case REPORT_GRAY_LOW:
        if (is_dense(r, k) || flag_of(r, k, REPORT_GRAY) > 0 || is_underexposed(r, k))
            return true;
        break;
    case REPORT_INK:
        if (flag_of(r, k, REPORT_GRAY) > 0)
            return true;
        break;
    case REPORT_FINE_P50:
    case REPORT_FALL:
        if (has_cause(r, k))
            return true;
        break;
    }
    return (alone && is_of_kind(m)) || (is_of_light(m) && flag_of(r, k, REPORT_LIGHT) > 0) ||
           ((m == REPORT_BLURRED || is_sharpness(m)) && m != said);
}

static void say_numbers(const struct report_view *r, int64_t k, struct list *l)
{
    const bool alone = is_alone(r, k);
    /* what has a cause is not called blurred */
    const bool explained = (!alone && say_enlarged(r, k, l)) || motion_of(r, k) > 0;
    const int said = sharpness_said(r, k);
    if (alone)
        say_alone(r, k, l);
    for (int m = 0; m < REPORT_METRICS; m++) {
        const double excess = m == REPORT_DIRECTION ? motion_of(r, k) : flag_of(r, k, m);
        if (!(excess > 0) || is_implied(r, k, m, alone, said) || (explained && is_of_blur(r, k, m)))
            continue;
        if (m == REPORT_BLURRED)
            say_blur(r, k, excess, l);
        else if (m == REPORT_GRAY)
            say_gray(r, k, excess, l);
        else if (m == REPORT_INK)
            say_ink(r, k, excess, l);
        else if (m == REPORT_LIGHT)
            say_light(&r->slides->slide[k], excess, l);
        else if (m == REPORT_COLOURLESS)
            say_colourless(r, k, excess, l);
        else if (m == REPORT_GRAY_LOW)
            say_dark_place(r, k, excess, l);
        else if (m == REPORT_GLASS_GRAY && isnan(r->scores->of[k].z[m]))
            say_dark(r, k, excess, l);
        else if (m == REPORT_TWICE)
            say(l, REPORT_REVIEW, excess,
                "compressed twice: fine detail may be lost (signs of it: %.2f of 1)",
                r->slides->slide[k].metric[m])
                ->picture = PICTURE_OF_SLIDE;
        else if (m == REPORT_GLASS_LINES)
            say_glass_lines(&r->slides->slide[k], excess, l);
        else if (m == REPORT_LINES)
            say_lines(&r->slides->slide[k], excess, l);
        else if (m == REPORT_SEAMS)
            say_seams(&r->slides->slide[k], excess, l);
        else if (m == REPORT_DIRECTION)
            say_motion(r, k, excess, l);
        else if (m == REPORT_GLASS && r->scores->of[k].z[m] > 0)
            say_glass(r, k, excess, l);
        else
            say_z(r, k, m, excess + (names_cause(r, k, m) ? OF_CAUSE : 0), l);
    }
}

/* --- limits --- */

/* A limit that a number breaks, and which of its thresholds. */
struct broken {
    const struct report_limit *limit; /* NULL: none */
    bool fail;
    double threshold;
};

/* Of all limits on one side of a number that hold for slide k, the one that matters most: one that
 * fails before one that warns, and the farthest of these. */
static struct broken find_broken(const struct report_view *r, int64_t k, int metric, bool above)
{
    const double value = report_value(r->slides, r->scores, k, metric);
    struct broken most = {NULL, false, NAN};
    for (const struct report_limit *x = r->limits->limit; x < r->limits->limit + r->limits->n;
         x++) {
        const bool fail = report_limit_breaks(x, value, x->fail);
        const double threshold = fail ? x->fail : x->warn;
        if (x->metric != metric || x->above != above || !report_limit_holds(x, r->groups->of[k]) ||
            !report_limit_breaks(x, value, threshold) || (most.fail && !fail))
            continue;
        if (!most.limit || (fail && !most.fail) ||
            report_limit_breaks(x, threshold, most.threshold))
            most = (struct broken){x, fail, threshold};
    }
    return most;
}

static void say_limits_of(const struct report_view *r, int64_t k, int metric, struct list *l)
{
    const double value = report_value(r->slides, r->scores, k, metric);
    const struct report_metric *m = report_metric(metric);
    char own[64];
    for (int above = 0; above < 2; above++) {
        const struct broken b = find_broken(r, k, metric, above);
        if (b.limit)
            say(l, b.fail ? REPORT_FAIL : REPORT_REVIEW, OF_LIMIT, "%s is %s, %s the limit of %g%s",
                m->title, shown(own, metric, value), above ? "above" : "below",
                b.threshold * (report_is_share(metric) ? 100 : 1), m->unit)
                ->picture = m->picture;
    }
    for (int64_t n = 0; n < r->limits->n && isnan(value); n++)
        if (r->limits->limit[n].metric == metric &&
            report_limit_holds(&r->limits->limit[n], r->groups->of[k])) {
            say(l, REPORT_REVIEW, OF_LIMIT, "%s is not known, and has a limit", m->title);
            return;
        }
}

static void say_limits(const struct report_view *r, int64_t k, struct list *l)
{
    for (int metric = 0; metric < REPORT_NUMBERS; metric++)
        say_limits_of(r, k, metric, l);
}

/* --- what a slide lacks --- */

static void say_empty(const struct report_view *r, const struct report_slide *s, struct list *l)
{
    const struct result_params *p = &r->slides->params;
    if (s->nx * s->ny == 0)
        say(l, REPORT_REVIEW, OF_LIMIT,
            "too small to measure: %" PRId64 " x %" PRId64
            " px, and one measured place needs %" PRId64 " px",
            s->width, s->height, p->window);
    else if (s->windows == 0)
        say(l, REPORT_REVIEW, OF_LIMIT, "%s",
            s->groups_missing ? "no numbers: no place of the parts at hand was measured"
            : p->roi          ? "no numbers: no place inside the regions was measured"
            : p->tissue_only  ? "no numbers: no place has enough tissue"
                              : "no numbers: no place was measured");
}

static void say_damage(const struct report_view *r, int64_t k, struct list *l)
{
    const struct report_slide *s = &r->slides->slide[k];
    const struct report_place *p = &r->places->of[k][REPORT_PLACE_DAMAGED];
    if (s->damaged > 0) {
        struct report_reason *x =
            say(l, REPORT_FAIL, OF_LIMIT,
                "damaged%s%s: %" PRId64 " of %" PRId64 " places touch tiles that cannot be read",
                p->where ? " " : "", p->where ? p->where : "", s->damaged, s->nx * s->ny);
        x->picture = PICTURE_OF_MAP;
        set_place(r, k, REPORT_PLACE_DAMAGED, x);
    } else if (s->damaged_tiles > 0) {
        say(l, REPORT_FAIL, OF_LIMIT, "damaged: %" PRId64 " tile%s cannot be read",
            s->damaged_tiles, s->damaged_tiles == 1 ? "" : "s");
    }
}

static bool has_limit(const struct report_view *r, int64_t k)
{
    for (int64_t n = 0; n < r->limits->n; n++)
        if (report_limit_holds(&r->limits->limit[n], r->groups->of[k]))
            return true;
    return false;
}

/* Does the tissue map decide something for slide k and not for its group? A map without glass does
 * where glass is usual and much of the others, one without tissue where tissue is usual. */
static bool decides_alone(const struct report_view *r, int64_t k)
{
    const struct stats_summary *s = &r->scores->pool[r->scores->of[k].pool].summary[REPORT_TISSUE];
    const double own = r->slides->slide[k].metric[REPORT_TISSUE];
    char shows[64];
    if (own > 0.5)
        return s->n >= STATS_LEAST && s->q75 < RULE_USUAL_GLASS;
    return s->n < STATS_LEAST || !store_doubts_tissue(s->q50, shows, sizeof shows);
}

/* The result is older than a run that failed. */
static void say_failed(const struct report_view *r, const struct report_slide *s, struct list *l)
{
    if (s->failed)
        say(l, REPORT_FAIL, OF_FAILURE, "its numbers are of an older run; the last one failed: %s",
            r->setup->key ? HIDDEN : s->failed);
}

static void say_notes(const struct report_view *r, int64_t k, struct list *l)
{
    const struct report_slide *s = &r->slides->slide[k];
    char shows[64];
    say_failed(r, s, l);
    say_empty(r, s, l);
    say_damage(r, k, l);
    if (s->groups_missing > 0)
        say(l, REPORT_REVIEW, OF_LIMIT, "incomplete: %" PRId64 " of %" PRId64 " parts are missing",
            s->groups_missing, s->groups);
    if (store_doubts_tissue(s->metric[REPORT_TISSUE], shows, sizeof shows))
        say(l, decides_alone(r, k) ? REPORT_REVIEW : REPORT_PASS, OF_NOTE,
            "the tissue map shows %s and may be wrong", shows)
            ->picture = PICTURE_OF_SLIDE;
    if (isnan(s->metric[REPORT_TISSUE]))
        say(l, REPORT_PASS, OF_NOTE, "there is no tissue map: sharpness is that of all places");
    if (s->of_spectra.tile_seam_rows + s->of_spectra.tile_seam_columns >
        report_metric(REPORT_SEAMS)->most)
        say(l, REPORT_PASS, OF_NOTE, OF_TILES)->picture = PICTURE_OF_SLIDE;
    if (has_earlier_grid(s))
        say(l, REPORT_PASS, OF_NOTE,
            "compressed before, on another grid of blocks: cut out of a JPEG slide, or tiled anew")
            ->picture = PICTURE_OF_SLIDE;
    if (!s->brightfield)
        say(l, REPORT_PASS, OF_NOTE,
            "no bright background (fluorescence?): stain, ink, light and glass are not judged");
    if (s->windows > 0 && isnan(s->metric[REPORT_FOCUS_P50])) {
        const bool known = !isnan(r->scores->of[k].z[REPORT_PIECES]);
        say(l, known || has_limit(r, k) ? REPORT_PASS : REPORT_NOT_JUDGED, OF_NOTE,
            "sharpness is %s: no place is half tissue",
            known ? "that of small pieces" : "not known");
    }
}

/* --- what a slide needs before it is judged --- */

static bool is_judged(const struct report_view *r, int64_t k)
{
    for (int m = 0; m < REPORT_METRICS; m++)
        if (!isnan(r->scores->of[k].z[m]))
            return true;
    return has_limit(r, k) || !isnan(r->scores->of[k].blurred);
}

static void say_not_judged(const struct report_view *r, int64_t k, struct list *l)
{
    const struct report_pool *q = &r->scores->pool[r->scores->of[k].pool];
    const int64_t lacks = STATS_LEAST - (q->accepted > 0 ? q->accepted : q->counted);
    for (int i = 0; i < l->n; i++)
        if (l->reason[i].verdict > REPORT_NOT_JUDGED)
            return;
    if (is_judged(r, k))
        return;
    if (lacks > 0)
        say(l, REPORT_NOT_JUDGED, OF_LIMIT, "%" PRId64 " more %sslide%s of this %s %s needed",
            lacks, q->accepted > 0 ? "accepted " : "", lacks == 1 ? "" : "s",
            r->groups->n > 1 ? "group and resolution" : "resolution", lacks == 1 ? "is" : "are");
    else
        say(l, REPORT_NOT_JUDGED, OF_LIMIT, "none of its numbers could be compared");
}

/* --- all --- */

int report_reasons(const struct report_view *r, int64_t k,
                   struct report_reason reasons[REPORT_MOST_REASONS])
{
    struct list l = {reasons, 0};
    say_limits(r, k, &l);
    say_numbers(r, k, &l);
    say_notes(r, k, &l);
    say_not_judged(r, k, &l);
    qsort(reasons, (size_t)l.n, sizeof *reasons, stronger_first);
    return l.n;
}

uint8_t *report_judge(const struct report_view *r)
{
    struct report_reason reasons[REPORT_MOST_REASONS];
    uint8_t *verdicts = calloc((size_t)r->slides->n + 1, 1);
    for (int64_t k = 0; verdicts && k < r->slides->n; k++)
        if (report_reasons(r, k, reasons) > 0)
            verdicts[k] = (uint8_t)reasons[0].verdict;
    return verdicts;
}
