/* report_gap.c - slides beyond a gap in several numbers together; see report_gap.h. */
#include "process/report/verdict/report_gap.h"

#include "common/base/memory.h"
#include "process/report/numbers/report_rules.h"
#include "process/report/verdict/report_kinds.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 3, STAINS = 2, NUMBERS = STAINS + 4 + STEPS, DENSITY = 0, HUE = 1 };

/* The numbers, and by how much slides of one kind differ in them: about the median absolute
 * deviation of groups of real pictures (tests/FIGURES.md). */
static const struct number {
    int metric; /* -1: a step between octaves of the spectrum */
    const char *name;
    double scale;
} numbers[NUMBERS] = {
    {REPORT_STAIN, NULL, 0.25},   /* natural logarithm of the optical density */
    {REPORT_HUE, NULL, 12},       /* degrees */
    {REPORT_SHARP_P50, NULL, 1},  /* dB */
    {REPORT_FINE_P50, NULL, 0.8}, /* dB */
    {REPORT_FOCUS_P50, NULL, 2},  /* dB */
    {REPORT_SLOPE, NULL, 0.1},    /* no unit */
    {-1, "coarse detail", 0.8},   /* dB */
    {-1, "middle detail", 1},     /* dB */
    {-1, "fine detail", 0.8},     /* dB */
};

struct point {
    int64_t slide;
    double v[NUMBERS];
    const double *scale; /* [NUMBERS]: of the pool */
    double nearest;      /* distance to the nearest other point */
    double line;         /* length of the line that joins it to the points before it */
    int64_t parent;      /* the point at the other end of that line */
    int64_t beyond;      /* points that are joined through it, itself included */
    bool in;
};

static double difference(int number, double a, double b)
{
    return number == HUE ? stats_turn(a, b) : a - b;
}

/* The distance over numbers first .. end - 1. */
static double apart(const struct point *a, const struct point *b, int first, int end)
{
    double sum = 0;
    for (int j = first; j < end; j++) {
        const double d = difference(j, a->v[j], b->v[j]) / a->scale[j];
        sum += d * d;
    }
    return sqrt(sum / (end - first));
}

static double number_of(const struct report_slides *s, const struct report_scores *scores,
                        int64_t slide, int number)
{
    const int step = number - (NUMBERS - STEPS);
    const double *octaves = s->slide[slide].octaves;
    if (step >= 0)
        return octaves[step + 1] - octaves[step];
    const double value = report_value(s, scores, slide, numbers[number].metric);
    return number == DENSITY ? log(value) : value;
}

static const char *name_of(int number)
{
    return numbers[number].name ? numbers[number].name
                                : report_metric(numbers[number].metric)->title;
}

/* Points of the slides that have all numbers; returns how many. */
static int64_t make_points(const struct report_slides *s, const struct report_scores *scores,
                           const int64_t *slide, int64_t n, struct point *p)
{
    int64_t m = 0;
    for (int64_t k = 0; k < n; k++) {
        bool known = true;
        for (int j = 0; j < NUMBERS; j++) {
            p[m].v[j] = number_of(s, scores, slide[k], j);
            known &= isfinite(p[m].v[j]);
        }
        p[m].slide = slide[k];
        p[m].nearest = p[m].line = INFINITY;
        m += known;
    }
    return m;
}

/* Copies a number of all points to v[2 n], of which the second half is work memory. Angles are
 * unwrapped about their median, so the result does not depend on the first point. */
static void take(const struct point *p, int64_t n, int number, double *v)
{
    for (int64_t k = 0; k < n; k++)
        v[k] = p[k].v[number];
    if (number == HUE)
        stats_unwrap(v, n, v + n);
}

static double median(double *v, int64_t n)
{
    return stats_quantile(v, stats_sort(v, n), 0.5);
}

/* scale[NUMBERS]: the usual difference within one kind of slides. In a pool that varies more: three
 * quarters of its robust standard deviation, so that no number outweighs all others. */
static void set_scales(struct point *p, int64_t n, double *scale)
{
    double *v = memory_need(2 * (size_t)n, sizeof *v);
    for (int j = 0; j < NUMBERS; j++) {
        take(p, n, j, v);
        const double middle = median(v, n);
        for (int64_t k = 0; k < n; k++)
            v[k] = fabs(v[k] - middle);
        scale[j] = fmax(numbers[j].scale, RULE_OWN_SCALE * median(v, n) / 0.6745);
    }
    for (int64_t k = 0; k < n; k++)
        p[k].scale = scale;
    free(v);
}

/* Puts the points in the order in which the tree grows from the first, with their lines (Prim,
 * 1957). Every pair is measured once. */
static void grow_tree(struct point *p, int64_t n)
{
    for (int64_t k = 1; k < n; k++) {
        int64_t next = k;
        for (int64_t j = k; j < n; j++) {
            const double d = apart(&p[k - 1], &p[j], 0, NUMBERS);
            p[k - 1].nearest = fmin(p[k - 1].nearest, d);
            p[j].nearest = fmin(p[j].nearest, d);
            if (d < p[j].line) {
                p[j].line = d;
                p[j].parent = k - 1;
            }
            if (p[j].line < p[next].line)
                next = j;
        }
        const struct point taken = p[next];
        p[next] = p[k];
        p[k] = taken;
    }
    for (int64_t k = 0; k < n; k++)
        p[k].beyond = 1;
    for (int64_t k = n - 1; k > 0; k--)
        p[p[k].parent].beyond += p[k].beyond;
}

/* The third quartile of the distances to the nearest other point. */
static double usual_distance(const struct point *p, int64_t n)
{
    double *v = memory_need((size_t)n, sizeof *v);
    for (int64_t k = 0; k < n; k++)
        v[k] = p[k].nearest;
    const int64_t known = stats_sort(v, n);
    const double q = stats_quantile(v, known, 0.75);
    free(v);
    return fmax(q, RULE_LEAST_USUAL);
}

/* Marks the smaller part that the line of point `at` cuts off. */
static void mark_part(struct point *p, int64_t n, int64_t at)
{
    const bool inside = 2 * p[at].beyond <= n;
    for (int64_t k = 0; k < n; k++)
        p[k].in = k == at || (k > at && p[k].parent >= at && p[p[k].parent].in);
    for (int64_t k = 0; k < n; k++)
        p[k].in = p[k].in == inside;
}

/* Do all slides outside of the marked part differ from this one in stain and in detail? A blurred
 * slide has the stain of the others, and one with ink has their detail. */
static bool is_alone(const struct point *p, int64_t n, const struct point *x, double usual)
{
    for (int64_t k = 0; k < n; k++)
        if (!p[k].in && (apart(x, &p[k], 0, STAINS) < RULE_GAP_OF_STAIN * usual ||
                         apart(x, &p[k], STAINS, NUMBERS) < RULE_GAP_OF_DETAIL * usual))
            return false;
    return true;
}

static double median_difference(const struct point *p, int64_t n, int number, double *v)
{
    double middle[2], *all = v + n;
    take(p, n, number, all);
    for (int in = 0; in < 2; in++) {
        int64_t m = 0;
        for (int64_t k = 0; k < n; k++)
            if (p[k].in == (in == 1))
                v[m++] = all[k];
        middle[in] = median(v, m);
    }
    return fabs(difference(number, middle[1], middle[0])) / p->scale[number];
}

/* The number of first .. end - 1 in which the parts differ most, if by its scale; NULL. */
static const char *name_most(const struct point *p, int64_t n, int first, int end)
{
    double *v = memory_need(3 * (size_t)n, sizeof *v), most = 1;
    const char *name = NULL;
    for (int j = first; j < end; j++) {
        const double d = median_difference(p, n, j, v);
        if (d > most) {
            most = d;
            name = name_of(j);
        }
    }
    free(v);
    return name;
}

static void take_lone(const struct point *p, int64_t n, double usual, double ratio, double *lone)
{
    for (int64_t k = 0; k < n; k++)
        if (p[k].in && is_alone(p, n, &p[k], usual))
            lone[p[k].slide] = fmax(lone[p[k].slide], ratio);
}

/* Names the numbers in which the marked part differs. */
static void name_gap(const struct point *p, int64_t n, struct report_gap *gap)
{
    const char *stain = name_most(p, n, 0, STAINS), *detail = name_most(p, n, STAINS, NUMBERS);
    gap->stain = stain != NULL;
    gap->number = stain ? stain : detail ? detail : "several numbers together";
    gap->second = stain ? detail : NULL;
}

/* The widest gap before a second kind: its point, 0 if there is none. Slides that are alone are
 * noted on the way. */
static int64_t search(struct point *p, int64_t n, struct report_gap *gap, double *lone)
{
    const int64_t least =
        n / RULE_KIND_SHARE > RULE_LEAST_BEYOND ? n / RULE_KIND_SHARE : RULE_LEAST_BEYOND;
    const double usual = usual_distance(p, n);
    int64_t widest = 0;
    for (int64_t k = 1; k < n; k++) {
        const double ratio = p[k].line / usual;
        const int64_t part = 2 * p[k].beyond <= n ? p[k].beyond : n - p[k].beyond;
        if (part >= least && ratio > fmax(RULE_GAP_OF_KIND, gap->ratio)) {
            gap->ratio = ratio;
            gap->others = part;
            widest = k;
        } else if (part < least && ratio > RULE_GAP_OF_ONE) {
            mark_part(p, n, k);
            take_lone(p, n, usual, ratio, lone);
        }
    }
    return widest;
}

struct report_gap report_find_gap(const struct report_slides *s, const struct report_scores *scores,
                                  const int64_t *slide, int64_t n_slides, uint8_t *other,
                                  double *lone)
{
    struct report_gap gap = {0};
    double scale[NUMBERS];
    struct point *p = memory_need((size_t)n_slides + 1, sizeof *p);
    const int64_t n = make_points(s, scores, slide, n_slides, p);
    if (n >= GAP_LEAST && n <= GAP_MOST) {
        set_scales(p, n, scale);
        grow_tree(p, n);
        const int64_t widest = search(p, n, &gap, lone);
        if (widest > 0) {
            mark_part(p, n, widest);
            name_gap(p, n, &gap);
        }
        for (int64_t k = 0; k < n && widest > 0; k++)
            other[p[k].slide] = 2 * gap.others == n ? (p[k].in ? KIND_HALF : KIND_OTHER_HALF)
                                : p[k].in           ? KIND_SMALLER
                                                    : KIND_USUAL;
    }
    free(p);
    return gap;
}
