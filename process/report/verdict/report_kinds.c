/* report_kinds.c - splits the slides of a pool in two kinds; see report_kinds.h. */
#include "process/report/verdict/report_kinds.h"

#include "common/base/memory.h"
#include "process/report/numbers/report_rules.h"
#include "process/report/verdict/report_gap.h"

#include <math.h>
#include <stdlib.h>

enum { METRICS = 7, NUMBERS = METRICS + RESULT_SPECTRUM_OCTAVES - 1, FIRST_OF_PAIRS = 3 };
enum { DIRECTIONS = 18 };

/* The separation that is needed from so many slides on: one that one kind of slides reaches in at
 * most 1 of 200 groups, for numbers that are normal, uniform, or log-normal with a sigma of 0.5 or
 * 0.8. tests/test_clusters.c simulates it. */
static const struct needed {
    int64_t slides;
    double one, pair; /* of a number, of a pair */
} needed[] = {{REPORT_LEAST_OF_TWO, 6.8, 7.6},
              {30, 6.5, 7.3},
              {40, 6.4, 7.0},
              {60, 5.9, 6.3},
              {100, 5.4, 5.7},
              {200, 4.6, 4.6},
              {300, 4.4, 4.4}};

static double separation_needed(int64_t slides, bool pair)
{
    size_t k = sizeof needed / sizeof *needed - 1;
    while (k > 0 && needed[k].slides > slides)
        k--;
    return pair ? needed[k].pair : needed[k].one;
}

/* Numbers that say how a slide was made, more than what is on it. Pairs are of those from
 * FIRST_OF_PAIRS on. The last two say how sharp it is, too. */
static const int metrics[METRICS] = {REPORT_STAIN, REPORT_HUE,      REPORT_QUALITY,  REPORT_SLOPE,
                                     REPORT_GLASS, REPORT_FINE_P50, REPORT_FOCUS_P50};
static const char *const steps[RESULT_SPECTRUM_OCTAVES - 1] = {
    "balance of coarse and middle detail", "balance of middle and fine detail",
    "balance of fine and finest detail"};

static const char *name_of(int number)
{
    return number < METRICS ? report_metric(metrics[number])->title : steps[number - METRICS];
}

/* The slides of a pool. */
struct pool {
    const struct report_slides *slides;
    const struct report_scores *scores;
    int32_t pool;
    double *v[NUMBERS]; /* [n]: numbers of the slides, less their median, over their MAD */
    int64_t *slide;     /* [n] */
    int64_t n;
    double *x, *work; /* [n]: what is split; the same, sorted */
};

/* Where n sorted values are split best. */
struct split {
    double separation, above;
    int64_t low, n;
};

static struct split split_sorted(const double *v, int64_t n)
{
    struct split best = {.n = n};
    double most = 0; /* at the best cut, in common standard deviations */
    const int64_t least =
        n > RULE_KIND_SHARE * RULE_LEAST_KIND ? n / RULE_KIND_SHARE : RULE_LEAST_KIND;
    double sum = 0, square = 0, low = 0, low_square = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += v[k] - v[0];
        square += (v[k] - v[0]) * (v[k] - v[0]);
    }
    for (int64_t k = 1; k <= n - least; k++) {
        const double x = v[k - 1] - v[0];
        low += x;
        low_square += x * x;
        if (k < least || !(v[k] > v[k - 1]))
            continue;
        const double a = low / (double)k, b = (sum - low) / (double)(n - k);
        const double below = fmax(0, low_square - (double)k * a * a);
        const double above = fmax(0, square - low_square - (double)(n - k) * b * b);
        const double common = (b - a) / sqrt((below + above) / (double)n + 1e-18);
        const double wider = fmax(below / (double)(k - 1), above / (double)(n - k - 1));
        if (common <= most)
            continue;
        most = common;
        best = (struct split){(b - a) / sqrt(wider + 1e-18), (v[k - 1] + v[k]) / 2, k, n};
    }
    return best;
}

static struct split split_values(struct pool *p)
{
    for (int64_t k = 0; k < p->n; k++)
        p->work[k] = p->x[k];
    const int64_t n = stats_sort(p->work, p->n);
    const struct split none = {0};
    return n < REPORT_LEAST_OF_TWO ? none : split_sorted(p->work, n);
}

/* Takes the split of p->x for the pool, if it is the best so far. Separations are compared as parts
 * of what is needed. */
static void consider(struct pool *p, int number, int second, double *best, uint8_t *other,
                     struct report_cluster *c)
{
    const struct split s = split_values(p);
    const double part = s.separation / separation_needed(s.n, second >= 0);
    if (part <= *best)
        return;
    const bool high = s.n - s.low <= s.low;
    *best = part;
    *c =
        (struct report_cluster){.number = name_of(number),
                                .second = second < 0 ? NULL : name_of(second),
                                .metric = second < 0 && number < METRICS - 2 ? metrics[number] : -1,
                                .separation = s.separation,
                                .n = s.n,
                                .others = high ? s.n - s.low : s.low};
    const uint8_t above = 2 * s.low == s.n ? KIND_HALF : high ? KIND_SMALLER : KIND_USUAL;
    const uint8_t below = 2 * s.low == s.n ? KIND_OTHER_HALF : high ? KIND_USUAL : KIND_SMALLER;
    for (int64_t k = 0; k < p->n; k++) /* NaN is of neither */
        other[p->slide[k]] = p->x[k] > s.above ? above : p->x[k] < s.above ? below : KIND_USUAL;
}

static void find(struct pool *p, uint8_t *other, struct report_cluster *c)
{
    double best = 1;
    for (int a = 0; a < NUMBERS; a++) {
        for (int64_t k = 0; k < p->n; k++)
            p->x[k] = p->v[a][k];
        consider(p, a, -1, &best, other, c);
    }
    for (int a = FIRST_OF_PAIRS; a < NUMBERS; a++)
        for (int b = a + 1; b < NUMBERS; b++)
            for (int d = 1; d < DIRECTIONS; d++) {
                const double angle = M_PI * d / DIRECTIONS, x = cos(angle), y = sin(angle);
                if (2 * d == DIRECTIONS)
                    continue;
                for (int64_t k = 0; k < p->n; k++)
                    p->x[k] = x * p->v[a][k] + y * p->v[b][k];
                consider(p, a, b, &best, other, c);
            }
}

static double number_of(const struct pool *p, int64_t slide, int number)
{
    const struct report_slide *s = &p->slides->slide[slide];
    if (number >= METRICS)
        return s->octaves[number - METRICS + 1] - s->octaves[number - METRICS];
    return report_value(p->slides, p->scores, slide, metrics[number]);
}

static void fill(struct pool *p)
{
    p->n = 0;
    for (int64_t k = 0; k < p->slides->n; k++)
        if (p->scores->of[k].pool == p->pool)
            p->slide[p->n++] = k;
    for (int a = 0; a < NUMBERS; a++) {
        for (int64_t k = 0; k < p->n; k++)
            p->v[a][k] = number_of(p, p->slide[k], a);
        if (a < METRICS && report_metric(metrics[a])->angle)
            stats_unwrap(p->v[a], p->n, p->work);
        for (int64_t k = 0; k < p->n; k++)
            p->x[k] = p->v[a][k];
        const struct stats_summary s = stats_summarise(p->x, p->n, p->work);
        for (int64_t k = 0; k < p->n; k++)
            p->v[a][k] = s.mad > 0 ? (p->v[a][k] - s.q50) / s.mad : NAN;
    }
}

/* Is the smaller kind, or one half, that of the blurred slides? */
static bool is_blur(const struct pool *p, const uint8_t *other, int64_t others)
{
    static const int sharpness[] = {REPORT_FOCUS_P50, REPORT_SHARP_P50, REPORT_BLURRED,
                                    REPORT_FALL};
    int64_t flagged[REPORT_KINDS] = {0};
    for (int64_t k = 0; k < p->n; k++) {
        bool flag = false;
        for (size_t m = 0; m < sizeof sharpness / sizeof *sharpness; m++)
            flag |= report_excess(p->slides, p->scores, p->slide[k], sharpness[m]) > 1;
        flagged[other[p->slide[k]]] += flag;
    }
    for (int kind = KIND_SMALLER; kind < REPORT_KINDS; kind++)
        if (4 * flagged[kind] >= 3 * others)
            return true;
    return false;
}

static void unmark(const struct pool *p, uint8_t *other)
{
    for (int64_t k = 0; k < p->n; k++)
        other[p->slide[k]] = 0;
}

/* Two kinds by one or two numbers, if the pool has enough slides; else by a gap. */
static void find_in_pool(struct pool *p, struct report_clusters *out)
{
    struct report_cluster *c = &out->of[p->pool];
    uint8_t *other = memory_need((size_t)p->slides->n + 1, 1);
    const struct report_gap gap =
        report_find_gap(p->slides, p->scores, p->slide, p->n, other, out->lone);
    if (p->n >= REPORT_LEAST_OF_TWO)
        find(p, out->other, c);
    if (c->number && is_blur(p, out->other, c->others)) {
        *c = (struct report_cluster){0};
        unmark(p, out->other);
    }
    if (!c->number && gap.ratio > 0 && (gap.stain || !is_blur(p, other, gap.others))) {
        *c = (struct report_cluster){.number = gap.number,
                                     .second = gap.second,
                                     .metric = -1,
                                     .separation = gap.ratio,
                                     .n = p->n,
                                     .others = gap.others};
        for (int64_t k = 0; k < p->n; k++)
            out->other[p->slide[k]] = other[p->slide[k]];
    }
    free(other);
}

void report_find_clusters(const struct report_slides *s, const struct report_scores *scores,
                          struct report_clusters *out)
{
    const size_t n = (size_t)s->n + 1;
    double *room = memory_need((NUMBERS + 2) * n, sizeof *room);
    struct pool p = {.slides = s, .scores = scores, .slide = memory_need(n, sizeof *p.slide)};
    out->of = memory_need((size_t)scores->n_pools, sizeof *out->of);
    out->other = memory_need(n, 1);
    out->lone = memory_need(n, sizeof *out->lone);
    for (int a = 0; a < NUMBERS; a++)
        p.v[a] = room + (size_t)a * n;
    p.x = room + NUMBERS * n;
    p.work = p.x + n;
    for (p.pool = 0; p.pool < scores->n_pools; p.pool++) {
        fill(&p);
        find_in_pool(&p, out);
    }
    free(room);
    free(p.slide);
}

bool report_separates_kinds(const struct report_clusters *c, int32_t pool, int metric)
{
    const struct report_cluster *x = &c->of[pool];
    return x->number && x->metric == metric;
}

void report_clusters_free(struct report_clusters *c)
{
    free(c->of);
    free(c->other);
    free(c->lone);
}
