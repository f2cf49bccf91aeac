/*
 * test_clusters - when a report says that slides are of two kinds: hardly ever of slides of one
 * kind, however skewed their numbers are, and always where two heaps are far apart. How many flags
 * good slides get by chance. And which slides are of one resolution.
 */
#include "common/result/same_resolution.h"
#include "process/report/verdict/report_gap.h"
#include "process/report/verdict/report_kinds.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers that say how a slide was made. Fall and finest detail of the spectrum, glass and the
 * octaves are combined in pairs. */
static const int numbers[] = {REPORT_STAIN, REPORT_HUE,      REPORT_QUALITY,
                              REPORT_SLOPE, REPORT_FINE_P50, REPORT_FOCUS_P50};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

/* One comparison group of at most MOST slides. */
enum { MOST = 300 };
static struct report_slide members[MOST];
static struct report_score scores_of[MOST];
static struct report_pool pool;
static struct report_slides group = {.slide = members};
static const struct report_scores scores = {.n_pools = 1, .pool = &pool, .of = scores_of};

static void begin_group(int64_t n)
{
    memset(members, 0, sizeof members);
    pool = (struct report_pool){.n = n};
    group.n = n;
}

static uint64_t state;

static double uniform(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t x = state;
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return ((double)(x >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static double skewed(void)
{
    return exp(0.5 * normal());
}

static double very_skewed(void)
{
    return exp(0.8 * normal());
}

/* Slides of one kind, but for the first `others`, one number of which is `away` more. */
static void fill(double (*draw)(void), int64_t others, double away)
{
    for (int64_t k = 0; k < group.n; k++) {
        struct report_slide *x = &members[k];
        for (int j = 0; j < NUMBERS; j++)
            x->metric[numbers[j]] = draw();
        x->metric[REPORT_GLASS] = draw();
        for (int j = 0; j < RESULT_SPECTRUM_OCTAVES; j++)
            x->octaves[j] = draw() + (j ? x->octaves[j - 1] : 0);
        x->metric[REPORT_HUE] += k < others ? away : 0;
    }
}

/* How many of the pools of n slides are said to be of two kinds, and how many of those with exactly
 * the right ones. */
struct said {
    int two, right;
};

static struct said say_kinds(int pools, int64_t n, double (*draw)(void), int64_t others,
                             double away)
{
    struct said said = {0};
    begin_group(n);
    for (int m = 0; m < REPORT_METRICS; m++) { /* no number is unusual by itself */
        pool.usual[m][0] = pool.usual[m][1] = 1;
        pool.most[m] = NAN;
    }
    for (int p = 0; p < pools; p++) {
        struct report_clusters c = {0};
        bool right = true;
        fill(draw, others, away);
        report_find_clusters(&group, &scores, &c);
        for (int64_t k = 0; k < n; k++)
            right &= c.other[k] == (k < others);
        said.two += c.of[0].number != NULL;
        said.right += c.of[0].number && right;
        report_clusters_free(&c);
    }
    return said;
}

/* tests/FIGURES.md has a summary: TIER=all simulates 1,000 pools each. */
static void test_one_kind_is_not_called_two(void)
{
    static double (*const draw[])(void) = {normal, skewed, very_skewed, uniform};
    static const char *const name[] = {"normal", "log-normal 0.5", "log-normal 0.8", "uniform"};
    static const int slides[] = {20, 25, 30, 40, 60, 100, 300};
    const char *tier = getenv("TIER");
    const bool all = tier && !strcmp(tier, "all");
    state = 8;
    for (size_t d = 0; d < sizeof draw / sizeof *draw; d++) {
        printf("# two kinds, %s:", name[d]);
        for (size_t k = 0; k < sizeof slides / sizeof *slides; k++) {
            const int pools = all ? 1000 : slides[k] > 60 ? 100 : 300;
            const int two = say_kinds(pools, slides[k], draw[d], 0, 0).two;
            printf(" %.1f %% of %d;", 100.0 * two / pools, slides[k]);
            EXPECT(two * 100 <= pools);
        }
        printf("\n");
    }
}

static void test_two_kinds_are_found(void)
{
    static const struct {
        int64_t slides, others;
        double away; /* standard deviations */
    } cases[] = {{20, 5, 14}, {40, 10, 11}, {60, 10, 9}, {100, 15, 8}, {300, 50, 7}};
    state = 2;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const int pools = 20;
        const struct said said =
            say_kinds(pools, cases[k].slides, normal, cases[k].others, cases[k].away);
        printf("# %d of %d slides %g away: %d of %d\n", (int)cases[k].others, (int)cases[k].slides,
               cases[k].away, said.right, pools);
        EXPECT(said.right >= pools - 1);
    }
}

/* n slides of one tissue, as far apart as pictures of one data set; the first `others` have `stain`
 * times the usual spread in their stain and `detail` times in their detail. */
static void fill_gap(int64_t others, double stain, double detail)
{
    for (int64_t k = 0; k < group.n; k++) {
        struct report_slide *x = &members[k];
        const double a = k < others ? stain : 0, b = k < others ? detail : 0;
        x->metric[REPORT_STAIN] = 0.3 * exp(0.25 * (normal() + a));
        x->metric[REPORT_HUE] = fmod(357 + 12 * (normal() + a), 360);
        x->metric[REPORT_SHARP_P50] = -20 + normal() + b;
        x->metric[REPORT_FINE_P50] = -22 + 0.8 * (normal() + b);
        x->metric[REPORT_FOCUS_P50] = -33 + 2 * (normal() + b);
        x->metric[REPORT_SLOPE] = 1.8 + 0.1 * (normal() + b);
        x->octaves[0] = 90 + normal();
        for (int j = 1; j < RESULT_SPECTRUM_OCTAVES; j++)
            x->octaves[j] = x->octaves[j - 1] - 10 + 0.8 * (normal() + b);
    }
}

/* How often the first `others` of n slides, and only these, are said to be a second kind or, each
 * by itself, unlike all others. *wrong: how often anything else is said. */
static int say_gap(int pools, int64_t n, int64_t others, double stain, double detail, int *wrong)
{
    int right = 0;
    begin_group(n);
    *wrong = 0;
    for (int p = 0; p < pools; p++) {
        uint8_t other[MOST] = {0};
        double lone[MOST] = {0};
        int64_t number[MOST];
        bool exact = others > 0, any = false;
        for (int64_t k = 0; k < n; k++)
            number[k] = k;
        fill_gap(others, stain, detail);
        report_find_gap(&group, &scores, number, n, other, lone);
        for (int64_t k = 0; k < n; k++) {
            exact &= (other[k] || lone[k] > 0) == (k < others);
            any |= other[k] || lone[k] > 0;
        }
        right += exact;
        *wrong += any && !exact;
    }
    return right;
}

static void test_a_gap_separates_kinds_that_no_number_separates(void)
{
    int wrong;
    state = 4;
    EXPECT(say_gap(100, 12, 0, 0, 0, &wrong) == 0 && wrong == 0);
    EXPECT(say_gap(50, 60, 0, 0, 0, &wrong) == 0 && wrong == 0);
    EXPECT(say_gap(20, 12, 4, 5, 5, &wrong) >= 19 && wrong == 0);
    EXPECT(say_gap(20, 60, 20, 5, 5, &wrong) >= 19 && wrong == 0);
    EXPECT(say_gap(20, 60, 1, 6, 6, &wrong) >= 19 && wrong == 0);
    EXPECT(say_gap(20, 60, 1, 0, 7, &wrong) == 0 && wrong == 0); /* blurred, of the same stain */
    EXPECT(say_gap(20, 60, 1, 9, 0, &wrong) == 0 && wrong == 0); /* ink, as sharp as the others */
}

/* A slide of the hue on the other side of the circle comes first or last. */
static void test_a_gap_does_not_depend_on_the_order_of_slides(void)
{
    enum { N = 20 };
    begin_group(N);
    state = 4;
    for (int draw = 0; draw < 30; draw++) {
        double lone[2][N] = {0};
        fill_gap(1, 0, 5);
        members[0].metric[REPORT_HUE] = 177;
        for (int last = 0; last < 2; last++) {
            uint8_t other[N] = {0};
            int64_t number[N];
            for (int64_t k = 0; k < N; k++)
                number[k] = last ? N - 1 - k : k;
            report_find_gap(&group, &scores, number, N, other, lone[last]);
        }
        EXPECT(memcmp(lone[0], lone[1], sizeof lone[0]) == 0);
    }
}

/* Two heaps, three to seven. */
static double two_peaks(void)
{
    return normal() + (uniform() < 0.3 ? 6 : 0);
}

/* The sum of four exponential numbers. */
static double gamma_4(void)
{
    return -log(uniform() * uniform() * uniform() * uniform());
}

/* Student's t with three degrees of freedom. */
static double heavy(void)
{
    const double a = normal(), b = normal(), c = normal();
    return normal() / sqrt((a * a + b * b + c * c) / 3);
}

/* Flags per number and pool of n slides, of numbers that have no limit of their own and differ by
 * far more than what matters; with `skewed` only of those whose limit follows the group's skew. */
static double count_flags(int pools, int64_t n, double (*draw)(void), bool skewed)
{
    int32_t all_in_one[MOST] = {0};
    const struct report_groups g = {.n = 1, .of = all_in_one};
    int64_t flags = 0, numbers_seen = 0;
    begin_group(n);
    for (int p = 0; p < pools; p++) {
        struct report_scores found = {0};
        struct err e = {0};
        for (int64_t k = 0; k < n; k++) {
            members[k].um = 0.5;
            members[k].curves = -1;
            for (int m = 0; m < REPORT_METRICS; m++)
                members[k].metric[m] =
                    report_metric(m)->most > 0 || report_metric(m)->least_value > 0 ? NAN
                                                                                    : 1e3 * draw();
        }
        EXPECT(!report_score(&group, &g, NULL, &found, &e));
        for (int m = 0; m < REPORT_METRICS; m++) {
            const struct report_metric *x = report_metric(m);
            if (!x->low || !x->high || x->ratio || x->times > 0 || x->angle ||
                (skewed && !x->skewed))
                continue;
            numbers_seen++;
            for (int64_t k = 0; k < n; k++)
                flags += report_excess(&group, &found, k, m) > 1;
        }
        report_scores_free(&found);
    }
    return (double)flags / (double)numbers_seen;
}

/* tests/FIGURES.md has a summary. Heavy tails on both sides look like defects: only shown, and only
 * by TIER=all. */
static void test_good_slides_are_not_flagged(void)
{
    static double (*const draw[])(void) = {normal, gamma_4, skewed, very_skewed, two_peaks, heavy};
    static const char *const name[] = {"normal",         "gamma 4",   "log-normal 0.5",
                                       "log-normal 0.8", "two peaks", "t, 3 degrees"};
    static const int slides[] = {20, 40, 60, 100, 300};
    const char *tier = getenv("TIER");
    const bool all = tier && !strcmp(tier, "all");
    state = 3;
    for (size_t d = 0; d < sizeof draw / sizeof *draw - !all; d++) {
        printf("# flags per number and group, %s:", name[d]);
        for (size_t k = 0; k < sizeof slides / sizeof *slides; k++) {
            const double flags = count_flags(all ? 2000 : 200, slides[k], draw[d],
                                             draw[d] != normal && draw[d] != heavy);
            printf(" %.2f of %d;", flags, slides[k]);
            EXPECT(draw[d] == heavy || flags <= (all ? 0.25 : 0.3)); /* few groups vary */
        }
        printf("\n");
    }
}

/* The sets of n sorted values, as digits. */
static const char *sets_of(const double *values, int64_t n)
{
    static char text[64];
    int64_t set[32];
    same_resolution_sets(values, n, 0, set);
    for (int64_t k = 0; k < n; k++)
        text[k] = (char)('0' + set[k]);
    text[n] = 0;
    return text;
}

static void test_sets_of_one_resolution(void)
{
    static const double edge[] = {0.4949, 0.4951, 0.4999, 0.5001};
    static const double scanners[] = {0.1213, 0.2465, 0.2527, 0.2528, 0.455, 0.499, 0.505, 1};
    static const double chain[] = {0.25, 0.27, 0.272, 0.30}; /* cut between 0.272 and 0.30 */
    static const double far[] = {1e-300, 1, INFINITY, INFINITY};
    EXPECT(!strcmp(sets_of(edge, 4), "0000"));
    EXPECT(!strcmp(sets_of(scanners, 8), "01112334"));
    EXPECT(!strcmp(sets_of(chain, 4), "0001"));
    EXPECT(!strcmp(sets_of(far, 4), "0122"));
    EXPECT(!strcmp(sets_of(chain, 1), "0") && !strcmp(sets_of(chain, 0), ""));
    EXPECT(!same_resolution_differ(0.25, 0.2749) && same_resolution_differ(0.25, 0.2751));
    EXPECT(!same_resolution_differ(NAN, 0.25) && !same_resolution_differ(0.25, NAN));
}

int main(void)
{
    return UNIT_RUN("clusters", UNIT(one_kind_is_not_called_two), UNIT(two_kinds_are_found),
                    UNIT(a_gap_separates_kinds_that_no_number_separates),
                    UNIT(a_gap_does_not_depend_on_the_order_of_slides),
                    UNIT(good_slides_are_not_flagged), UNIT(sets_of_one_resolution));
}
