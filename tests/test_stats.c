/*
 * test_stats - statistics of a corpus, escaping of hostile texts, writing and reading CSV tables.
 */
#include "common/base/csv.h"
#include "common/base/stats.h"
#include "process/draw/html.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- statistics --- */

static void test_quantiles_skip_missing_values(void)
{
    double v[] = {3, NAN, 1, 2, NAN, 4};
    EXPECT(stats_sort(v, 6) == 4 && v[0] == 1 && v[3] == 4 && isnan(v[4]) && isnan(v[5]));
    EXPECT(stats_quantile(v, 4, 0) == 1 && stats_quantile(v, 4, 1) == 4);
    EXPECT(stats_quantile(v, 4, 0.5) == 2.5 && stats_quantile(v, 4, 0.25) == 1.75);
    EXPECT(isnan(stats_quantile(v, 0, 0.5)));
}

static void test_angles(void)
{
    double v[] = {350, 10, NAN, 2, 358, 170}, work[6];
    EXPECT(stats_turn(1, 359) == 2 && stats_turn(359, 1) == -2 && isnan(stats_turn(NAN, 1)));
    stats_unwrap(v, 6, work);
    const struct stats_summary s = stats_summarise(v, 6, work);
    EXPECT(s.n == 5 && fabs(stats_turn(s.q50, 2)) < 1e-9 && fabs(s.mad - 8) < 1e-9);
    stats_unwrap(work, 0, work);
}

static void test_scores(void)
{
    double v[11], work[11];
    for (int k = 0; k < 11; k++)
        v[k] = k;
    v[10] = 1000; /* median 5, |x - 5|: 0 1 1 2 2 3 3 4 4 5 995, MAD 3 */
    struct stats_summary s = stats_summarise(v, 11, work);
    EXPECT(s.n == 11 && s.q50 == 5 && s.mad == 3);
    EXPECT(fabs(stats_z(&s, 1000) - 0.6745 * 995 / 3) < 1e-12);
    EXPECT(isnan(stats_z(&s, NAN)));
    s = stats_summarise(v, 9, work); /* fewer than ten */
    EXPECT(s.q50 == 4 && isnan(stats_z(&s, 100)));
    for (int k = 0; k < 11; k++)
        v[k] = k < 6 ? 7 : k; /* more than half are equal: MAD 0 */
    s = stats_summarise(v, 11, work);
    EXPECT(s.mad == 0 && isnan(stats_z(&s, 100)) && isnan(stats_z(&s, 7)));
}

/* Of exp(g x), x from -2 to 2, and of its mirror image. */
static void test_skewed_numbers_have_a_long_side(void)
{
    double v[401], work[401];
    for (int sign = -1; sign <= 1; sign += 2) {
        for (int k = 0; k < 401; k++)
            v[k] = sign * exp(0.5 * (k - 200) / 100.0);
        const struct stats_summary s = stats_summarise(v, 401, work);
        const double g = log((exp(0.75) - 1) / (1 - exp(-0.75))) / 1.1503; /* octiles: x = 1.5 */
        EXPECT(fabs(stats_limit(&s, sign > 0, 0) - expm1(3.5 * 1.15 * g) / (1.15 * g)) < 1e-9);
        EXPECT(stats_limit(&s, sign < 0, 0) == 3.5);
        EXPECT(stats_limit(&s, sign > 0, 100) == 3.5); /* no tail is longer than the floor's */
    }
    for (int k = 0; k < 401; k++) /* an eighth and more are far away: no tail, but defects */
        v[k] = k < 60 ? 1e5 : k;
    const struct stats_summary bad = stats_summarise(v, 401, work);
    EXPECT(stats_limit(&bad, 1, 0) == 3.5);
    for (int k = 0; k < 401; k++)
        v[k] = exp(0.1 * (k - 200) / 100.0); /* as good as symmetric */
    const struct stats_summary s = stats_summarise(v, 401, work), none = {.q50 = NAN};
    EXPECT(stats_limit(&s, 0, 0) == 3.5 && stats_limit(&s, 1, 0) == 3.5);
    EXPECT(stats_limit(&none, 0, 0) == 3.5);
    EXPECT(fabs(stats_by_chance(20) - 0.0025) < 2e-4 && fabs(stats_by_chance(300) - 6e-4) < 5e-5);
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static void test_median_of_functions(void)
{
    enum { MOST = 40, BINS = 37 }; /* not a multiple of STATS_BLOCK */
    float cdf[MOST][BINS], out[BINS], work[STATS_BLOCK * MOST], column[MOST];
    const float *rows[MOST];
    unsigned seed = 7;
    for (int k = 0; k < MOST; k++)
        for (int b = 0; b < BINS; b++) {
            seed = seed * 1103515245u + 12345u;
            cdf[k][b] = (float)(seed >> 20 & 63) / 64; /* many are equal */
            rows[k] = cdf[k];
        }
    for (int n = 1; n <= MOST; n++) {
        stats_median_cdf(rows, n, BINS, out, work);
        for (int b = 0; b < BINS; b++) {
            for (int k = 0; k < n; k++)
                column[k] = cdf[k][b];
            qsort(column, (size_t)n, sizeof *column, by_value);
            EXPECT(out[b] == (column[(n - 1) / 2] + column[n / 2]) / 2);
        }
    }
}

static void test_distance_of_histograms(void)
{
    const uint64_t a[] = {0, 10, 0, 0}, b[] = {0, 0, 0, 10}, none[] = {0, 0, 0, 0};
    float x[4], y[4];
    stats_cdf(a, 4, 0, 0, x);
    stats_cdf(b, 4, 0, 0, y);
    EXPECT(fabs(stats_w1(x, y, 4, 0.5) - 1) < 1e-7); /* all moves by two bins of 0.5 dB */
    stats_cdf(none, 4, 10, 0, x);                    /* below the range: as in the first bin */
    stats_cdf(none, 4, 0, 10, y);
    EXPECT(fabs(stats_w1(x, y, 4, 0.5) - 1.5) < 1e-7);
    stats_cdf(none, 4, 0, 0, x);
    EXPECT(x[0] == 0 && x[3] == 0);
}

/* --- escaping --- */

static char written[4096];

/* What a function writes for a text. */
static const char *put(void (*f)(FILE *, const char *), const char *s)
{
    FILE *m = fmemopen(written, sizeof written, "w");
    f(m, s);
    putc(0, m);
    fclose(m);
    return written;
}

static void test_hostile_texts(void)
{
    EXPECT(!strcmp(put(html_text, "<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;"));
    EXPECT(!strcmp(put(html_json, "</script>\"\\"), "\"\\u003c/script\\u003e\\\"\\\\\""));
    EXPECT(!strcmp(put(html_json, "a\nb\x1b"), "\"a?b?\""));
    EXPECT(!strcmp(put(html_text, "x\xe2\x80\xae"
                                  "y"),
                   "x?y")); /* right-to-left override */
    EXPECT(!strcmp(put(html_text, "\xff"), "\xef\xbf\xbd"));
    EXPECT(!strstr(put(html_json, "\xe2\x80\xa8\xe2\x80\xa9"), "\xe2\x80"));
}

static void test_csv_cells(void)
{
    static const char *const formulas[] = {"=1",   "+1",   "-5 dB", "@sum",
                                           "\t=1", "\r=1", "'=1",   "''@"};
    static const char *const plain[] = {"", "a=b", "'", "'; drop", "\"", ",", "''"};
    EXPECT(!strcmp(put(csv_text, "=1+\"2\""), "\"'=1+\"\"2\"\"\""));
    EXPECT(!strcmp(put(csv_text, "\xff\n"), "\"\xef\xbf\xbd?\"") &&
           !strcmp(put(csv_exact, "\xff"), "\"\xff\""));
    for (size_t k = 0; k < sizeof formulas / sizeof *formulas; k++) {
        char want[32], cell[32];
        snprintf(want, sizeof want, "\"'%s\"", formulas[k]);
        snprintf(cell, sizeof cell, "'%s", formulas[k]);
        EXPECT(!strcmp(put(csv_exact, formulas[k]), want));
        EXPECT(!strcmp(csv_original(cell), formulas[k]));
    }
    for (size_t k = 0; k < sizeof plain / sizeof *plain; k++) {
        EXPECT(put(csv_exact, plain[k])[1] != '\'' || plain[k][0] == '\'');
        EXPECT(!strcmp(csv_original(plain[k]), plain[k]));
    }
}

static void number(FILE *f, const char *s)
{
    csv_number(f, strtod(s, NULL));
}

static void test_csv_numbers(void)
{
    EXPECT(!strcmp(put(number, "-28.319000000000003"), "-28.319")); /* was printed in full */
    EXPECT(!strcmp(put(number, "160"), "160") && !strcmp(put(number, "0.1"), "0.1"));
    EXPECT(!strcmp(put(number, "nan"), "") && !strcmp(put(number, "inf"), ""));
}

static void test_base64(void)
{
    static const char *const want[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                       "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t n = 0; n <= 6; n++) { /* RFC 4648, section 10 */
        written[0] = 0;
        FILE *m = fmemopen(written, sizeof written, "w");
        html_base64(m, (const uint8_t *)"foobar", n);
        fclose(m);
        EXPECT(!strcmp(written, want[n]));
    }
}

/* --- tables --- */

/* Reads a table with these bytes. */
static int read_table(struct table *t, const char *bytes, size_t n, struct err *e)
{
    char path[] = "/tmp/wsi-table-XXXXXX";
    const int fd = mkstemp(path);
    EXPECT(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
    const int r = table_read(t, path, e);
    unlink(path);
    return r;
}

static void test_tables(void)
{
    static const char text[] = "\xef\xbb\xbfslide,site\r\n\"a, \"\"b\"\"\nc\",x\r\n\r\nd,\n\"\",y";
    struct table t;
    struct err e;
    EXPECT(!read_table(&t, text, sizeof text - 1, &e) && t.columns == 2 && t.rows == 3);
    EXPECT(table_column(&t, "site") == 1 && table_column(&t, "slide") == 0);
    EXPECT(table_column(&t, "none") == -1);
    EXPECT(!strcmp(table_cell(&t, 1, 0), "a, \"b\"\nc") && !strcmp(table_cell(&t, 1, 1), "x"));
    EXPECT(!strcmp(table_cell(&t, 2, 1), "") && !strcmp(table_cell(&t, 3, 1), "y"));
    EXPECT(t.lines[1] == 2 && t.lines[2] == 5);
    table_free(&t);
    EXPECT(!read_table(&t, "a\tb\n1,5\t2", 9, &e) && !strcmp(table_cell(&t, 1, 0), "1,5"));
    table_free(&t);
}

static void test_bad_tables(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "empty"},
        {"\n\n", "empty"},
        {"a,b\n1\n", "line 2: 1 fields, but the header has 2"},
        {"a,b\n1,2\n1,2,3\n", "line 3: 3 fields"},
        {"a,b\n\"x,2\n", "line 2: a quote is not closed"},
        {"a,b\n\"x\"y,2\n", "line 2: text after a closing quote"},
    };
    struct table t;
    struct err e;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        EXPECT(read_table(&t, cases[k].text, strlen(cases[k].text), &e));
        EXPECT(strstr(e.msg, cases[k].message));
        table_free(&t);
    }
    EXPECT(read_table(&t, "a\0b\n", 4, &e) && strstr(e.msg, "UTF-8"));
    table_free(&t);
    EXPECT(table_read(&t, "/nonexistent", &e) && strstr(e.msg, "/nonexistent"));
    table_free(&t);
}

int main(void)
{
    return UNIT_RUN("stats", UNIT(quantiles_skip_missing_values), UNIT(angles), UNIT(scores),
                    UNIT(skewed_numbers_have_a_long_side), UNIT(median_of_functions),
                    UNIT(distance_of_histograms), UNIT(hostile_texts), UNIT(csv_cells),
                    UNIT(csv_numbers), UNIT(base64), UNIT(tables), UNIT(bad_tables));
}
