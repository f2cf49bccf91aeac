/*
 * test_unit - the parts that can be tried without a file: one line a test, as tests/check wants it.
 */
#include "common/cli.h"
#include "common/codec.h"
#include "common/gray.h"
#include "common/pipe.h"
#include "common/result.h"
#include "process/spectrum.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *broken; /* what went wrong in the test under way */

#define EXPECT(condition) do { if (!(condition) && !broken) broken = #condition; } while (0)

/* --- err, cli --- */

static void test_messages(void)
{
    struct err e = {""};
    EXPECT(err_set(&e, "%s: bad\nline", "a\x1b[31m") == -1);
    EXPECT(!strcmp(e.msg, "a?[31m: bad?line")); /* nothing that moves a cursor */
    err_add(&e, "b");
    EXPECT(!strcmp(e.msg, "b: a?[31m: bad?line"));
    EXPECT(err_set(NULL, "x") == -1);
    char longer[3000];
    memset(longer, 'x', sizeof longer);
    longer[2999] = 0;
    err_set(&e, "%s", longer);
    err_add(&e, "%s", longer);
    EXPECT(strlen(e.msg) == sizeof e.msg - 1);
}

static void test_numbers(void)
{
    struct err e;
    int64_t v = 0, w = 0;
    double x = 0;
    EXPECT(!cli_bytes("n", "256M", 0, INT64_MAX, &v, &e) && v == 256 << 20);
    EXPECT(!cli_bytes("n", "2GiB", 0, INT64_MAX, &v, &e) && v == INT64_C(2) << 30);
    EXPECT(!cli_bytes("n", "7kB", 0, INT64_MAX, &v, &e) && v == 7 << 10);
    EXPECT(!cli_bytes("n", "0", 0, 5, &v, &e) && v == 0);
    static const char *const bad[] = {"", "M", "-1", "1.5G", "1 G", "9223372036854775808", "8388608T",
                                      "1Q", "0x10", "1MM", "1Mi"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        EXPECT(cli_bytes("n", bad[k], 0, INT64_MAX, &v, &e));
    EXPECT(cli_bytes("n", "6", 0, 5, &v, &e) && strstr(e.msg, "n 6"));
    EXPECT(cli_int("n", "12x", 0, 99, &v, &e) && cli_int("n", "", 0, 99, &v, &e));
    EXPECT(!cli_real("n", "1e-3", 0, 1, &x, &e) && x == 1e-3);
    EXPECT(cli_real("n", "inf", 0, 1, &x, &e) && cli_real("n", "1,5", 0, 9, &x, &e));
    EXPECT(!cli_range("n", "3-17", &v, &w, &e) && v == 3 && w == 17);
    EXPECT(!cli_range("n", "4", &v, &w, &e) && v == 4 && w == 4);
    EXPECT(cli_range("n", "0-3", &v, &w, &e) && cli_range("n", "5-4", &v, &w, &e));
    EXPECT(cli_range("n", "1-", &v, &w, &e) && cli_range("n", "1-2-3", &v, &w, &e));
}

static void test_json_strings(void)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    cli_json_string(f, "a\"b\\c\n\x80\xc3\xa9\xed\xa0\x80");
    cli_json_number(f, NAN);
    fclose(f);
    EXPECT(!strcmp(text, "\"a\\\"b\\\\c\\u000a\\ufffd\xc3\xa9\\ufffd\\ufffd\\ufffd\"null"));
    free(text);
}

static void test_sizes_and_times(void)
{
    char b[32];
    EXPECT(!strcmp(cli_size(b, 1536), "1.5 KiB") && !strcmp(cli_size(b, 512), "512 B"));
    EXPECT(!strcmp(cli_time(b, 3.21), "3.21 s") && !strcmp(cli_time(b, 7500), "2 h 05 min"));
    EXPECT(!strcmp(cli_base_name("/a/b.svs"), "b.svs") && !strcmp(cli_base_name("b"), "b"));
}

/* --- pipe --- */

struct numbers {
    int64_t n, limit;    /* items */
    atomic_llong sunk;   /* the next that sink must get */
    int64_t fail_source, fail_work, fail_sink; /* number at which to fail, or -1 */
    int64_t drain;       /* number before which source asks for a drain, or -1 */
    int64_t after;       /* every item waits for the one so many before it */
    atomic_llong worked; /* items that are through work */
    atomic_int inside;   /* items between source and sink */
    int most_inside;
    int threads;         /* 0: any */
    bool wrong_order, drained_early, too_early, drain_seen;
    atomic_bool wrong_thread;
    /* of idle */
    bool opens;
    atomic_llong opened; /* items that source may make */
    pthread_t caller;
    bool wrong_caller;
    int64_t fail_idle;
};

struct number_item {
    int64_t number, after;
};

static int number_source(void *ctx, void *slot, int64_t number, int64_t *after, struct err *e)
{
    struct numbers *c = ctx;
    struct number_item *it = slot;
    if (number == c->drain && !c->drain_seen) {
        c->drain_seen = true;
        return PIPE_DRAIN;
    }
    if (number == c->drain && c->sunk != number)
        c->drained_early = true;
    if (number == c->n)
        return PIPE_END;
    if (c->opens && number >= c->opened)
        return PIPE_WAIT;
    if (number == c->fail_source)
        return err_set(e, "source failed");
    *it = (struct number_item){number, c->after && number >= c->after ? number - c->after + 1 : 0};
    *after = it->after;
    int now = ++c->inside;
    if (now > c->most_inside)
        c->most_inside = now;
    return PIPE_ITEM;
}

static int number_work(void *ctx, void *slot, int thread, struct err *e)
{
    struct numbers *c = ctx;
    struct number_item *it = slot;
    if (thread < 0 || (c->threads && thread >= c->threads))
        c->wrong_thread = true;
    if (it->number == c->fail_work)
        return err_set(e, "work failed");
    if (c->worked < it->after)
        c->too_early = true;
    struct timespec t = {.tv_nsec = it->number * 7919 % 50 * 1000};
    nanosleep(&t, NULL);
    c->worked++;
    return 0;
}

static int number_sink(void *ctx, void *slot, struct err *e)
{
    struct numbers *c = ctx;
    struct number_item *it = slot;
    if (it->number != c->sunk)
        c->wrong_order = true;
    if (it->number == c->fail_sink)
        return err_set(e, "sink failed");
    c->sunk++;
    c->inside--;
    return 0;
}

/* Opens a few ahead. */
static bool number_due(void *ctx)
{
    const struct numbers *c = ctx;
    return c->opens && c->opened < c->n && c->opened - c->sunk <= 5;
}

static int number_idle(void *ctx, struct err *e)
{
    struct numbers *c = ctx;
    if (!pthread_equal(pthread_self(), c->caller) || !number_due(c))
        c->wrong_caller = true;
    if (c->opened >= c->fail_idle)
        return err_set(e, "idle failed");
    c->opened += 2;
    return 0;
}

static const struct pipe_ops number_ops[] = {
    {.source = number_source, .work = number_work, .sink = number_sink},
    {.source = number_source, .work = number_work, .sink = number_sink, .light = true},
    {.source = number_source, .work = number_work, .sink = number_sink, .due = number_due, .idle = number_idle},
    {.source = number_source, .work = number_work, .sink = number_sink, .due = number_due, .idle = number_idle,
     .light = true},
};
enum { KINDS = sizeof number_ops / sizeof *number_ops };

typedef int run_fn(const struct pipe_ops *ops, void *ctx, void *items, size_t item_bytes, int depth,
                   int threads, struct err *e);
static run_fn *const runs[] = {pipe_run, pipe_run_shared};
enum { RUNS = sizeof runs / sizeof *runs };

static struct numbers new_numbers(int64_t n)
{
    return (struct numbers){.n = n, .fail_source = -1, .fail_work = -1, .fail_sink = -1, .drain = -1, .fail_idle = INT64_MAX,
                            .caller = pthread_self()};
}

static void check_order_and_bound(run_fn *run, const struct pipe_ops *ops)
{
    for (int threads = 1; threads <= 9; threads += 4)
        for (int depth = 1; depth <= 11; depth += 5) {
            struct number_item items[11];
            struct numbers c = new_numbers(500);
            struct err e = {""};
            c.threads = threads;
            c.opens = ops->idle;
            EXPECT(!run(ops, &c, items, sizeof *items, depth, threads, &e));
            EXPECT(c.sunk == 500 && c.worked == 500 && !c.wrong_order && !c.wrong_thread && !c.wrong_caller);
            EXPECT(c.most_inside <= depth);
        }
    struct number_item item;
    struct numbers none = new_numbers(0);
    EXPECT(!run(ops, &none, &item, sizeof item, 1, 3, NULL) && none.sunk == 0);
}

static void test_pipe_keeps_order_and_bound(void)
{
    for (int k = 0; k < RUNS * KINDS; k++)
        check_order_and_bound(runs[k % RUNS], &number_ops[k / RUNS]);
}

static void check_dependencies_and_drain(run_fn *run, const struct pipe_ops *ops, int threads)
{
    struct number_item items[8];
    struct numbers c = new_numbers(400);
    c.after = 3;
    c.opens = ops->idle;
    EXPECT(!run(ops, &c, items, sizeof *items, 8, threads, NULL));
    EXPECT(c.sunk == 400 && !c.too_early);
    c = new_numbers(400);
    c.drain = 100;
    c.opens = ops->idle;
    EXPECT(!run(ops, &c, items, sizeof *items, 8, threads, NULL));
    EXPECT(c.sunk == 400 && c.drain_seen && !c.drained_early);
    c = new_numbers(50);
    c.drain = 0; /* nothing to wait for */
    EXPECT(!run(ops, &c, items, sizeof *items, 8, threads, NULL) && c.sunk == 50);
}

static void test_pipe_dependencies_and_drain(void)
{
    for (int k = 0; k < RUNS * KINDS; k++)
        for (int threads = 1; threads <= 4; threads++)
            check_dependencies_and_drain(runs[k % RUNS], &number_ops[k / RUNS], threads);
}

static void check_failures(run_fn *run, const struct pipe_ops *ops, int what, int64_t at, int threads)
{
    static const char *const words[] = {"source failed", "work failed", "sink failed", "idle failed"};
    struct number_item items[6];
    struct numbers c = new_numbers(60);
    struct err e = {""};
    *(what == 0 ? &c.fail_source : what == 1 ? &c.fail_work : what == 2 ? &c.fail_sink : &c.fail_idle) = at;
    c.opens = ops->idle;
    EXPECT(run(ops, &c, items, sizeof *items, 6, threads, &e) == -1);
    EXPECT(!strcmp(e.msg, words[what]));
    EXPECT(c.sunk <= at + (what == 3) && !c.wrong_order); /* idle opens two at a time */
}

static void test_pipe_failures(void)
{
    for (int k = 0; k < RUNS * KINDS; k++)
        for (int what = 0; what < (number_ops[k / RUNS].idle ? 4 : 3); what++)
            for (int64_t at = 0; at < 60; at += 29)
                for (int threads = 1; threads <= 5; threads += 2)
                    check_failures(runs[k % RUNS], &number_ops[k / RUNS], what, at, threads);
}

static int late_source(void *ctx, void *slot, int64_t number, int64_t *after, struct err *e)
{
    (void)ctx, (void)after, (void)e;
    *(int64_t *)slot = number;
    return number < 2 ? PIPE_ITEM : PIPE_END;
}

static int late_sink(void *ctx, void *slot, struct err *e)
{
    (void)ctx, (void)slot, (void)e;
    return 0;
}

static int here_work(void *ctx, void *slot, int thread, struct err *e)
{
    (void)slot, (void)e;
    return !pthread_equal(pthread_self(), *(pthread_t *)ctx) || thread != 0 ? err_set(e, "elsewhere") : 0;
}

/* The last of the threads is the calling one; of one thread it is the only one. */
static void test_pipe_run_shared_works_on_the_calling_thread(void)
{
    static const struct pipe_ops ops = {.source = late_source, .work = here_work, .sink = late_sink};
    pthread_t self = pthread_self();
    int64_t items[4];
    struct err e = {""};
    EXPECT(!pipe_run_shared(&ops, &self, items, sizeof *items, 4, 1, &e));
    EXPECT(pipe_run(&ops, &self, items, sizeof *items, 4, 1, &e) == -1 && !strcmp(e.msg, "elsewhere"));
}

static int late_work(void *ctx, void *slot, int thread, struct err *e)
{
    const int64_t number = *(int64_t *)slot;
    (void)ctx, (void)thread;
    nanosleep(&(struct timespec){.tv_nsec = number ? 20000000 : 200000000}, NULL);
    return err_set(e, number ? "first" : "second");
}

/* Of two failures the message is that of the first in time. */
static void test_pipe_first_failure(void)
{
    static const struct pipe_ops ops = {.source = late_source, .work = late_work, .sink = late_sink};
    int64_t items[4];
    struct err e = {""};
    EXPECT(pipe_run(&ops, NULL, items, sizeof *items, 4, 2, &e) == -1 && !strcmp(e.msg, "first"));
}

/* --- codec, gray --- */

static void test_codec(void)
{
    struct err e = {""};
    enum { N = 100000 };
    unsigned char *in = malloc(N), *out = malloc(N), *back = malloc(N);
    struct codec_work *w = codec_create(codec_find("deflate"), &e);
    EXPECT(codec_find("nonsense") == NULL && w);
    for (int k = 0; k < N; k++)
        in[k] = (unsigned char)(k / 100);
    size_t n = codec_encode(w, in, N, out);
    EXPECT(n > 0 && n < N && !codec_decode(w, out, n, back, N) && !memcmp(in, back, N));
    EXPECT(codec_decode(w, out, n - 1, back, N) && codec_decode(w, out, n, back, N - 1));
    out[n / 2] ^= 0x40;
    EXPECT(codec_decode(w, out, n, back, N));
    unsigned state = 1;
    for (int k = 0; k < N; k++)
        in[k] = (unsigned char)((state = state * 1664525u + 1013904223u) >> 24);
    EXPECT(codec_encode(w, in, N, out) == 0); /* does not get smaller: stored as it is */
    EXPECT(!codec_decode(w, in, N, back, N) && !memcmp(in, back, N));
    EXPECT(codec_crc32("123456789", 9) == 0xcbf43926u); /* the check value of CRC-32/ISO-HDLC */
    codec_free(w);
    codec_free(NULL);
    free(in);
    free(out);
    free(back);
}

static void test_gray(void)
{
    const uint8_t rgb[] = {255, 255, 255, 0, 0, 0, 10, 20, 30, 255, 0, 0, 0, 0, 255};
    float f[5];
    uint8_t b[5];
    gray_from_rgb(rgb, f, 5);
    gray_bytes_from_rgb(rgb, b, 5);
    EXPECT(f[0] == 255000 && f[1] == 0 && f[2] == 18150 && f[3] == 76245 && f[4] == 29070);
    EXPECT(b[0] == 255 && b[1] == 0 && b[2] == 18 && b[3] == 76 && b[4] == 29);
    for (size_t n = 0; n < 40; n++) { /* areas of the very size, so that sanitizers see a step beyond */
        uint8_t *in = malloc(n ? 3 * n : 1);
        float *out = malloc((n + 1) * sizeof(float));
        for (size_t k = 0; k < 3 * n; k++)
            in[k] = (uint8_t)(n * 37 + k * 101);
        out[n] = -1;
        gray_from_rgb(in, out, n);
        for (size_t k = 0; k < n; k++)
            EXPECT(out[k] == (float)(299 * in[3 * k] + 587 * in[3 * k + 1] + 114 * in[3 * k + 2]));
        EXPECT(out[n] == -1);
        free(in);
        free(out);
    }
}

/* --- spectrum, result --- */

/* Against the definition in double, for squared magnitudes from nothing to more than can be. */
static void check_classes(double low, double high, int64_t bins)
{
    struct result_params p = spectrum_defaults();
    struct spectrum_classes c;
    struct err e;
    p.low_db = low;
    p.high_db = high;
    p.bins = bins;
    EXPECT(!spectrum_classes_create(&c, &p, &e));
    uint32_t state = 7;
    for (int k = 0; k < 400000 && !broken; k++) {
        state = state * 1664525u + 1013904223u;
        uint32_t bits = state % 0x5a000000u;
        float s;
        memcpy(&s, &bits, sizeof s);
        if (k < 4)
            s = k == 0 ? 0 : k == 1 ? 1e-45f : k == 2 ? 2.8e14f : 3e38f;
        EXPECT(spectrum_class(&c, INFINITY) == bins + 1);
        const double at = (20 * log10(sqrt((double)s) + 1) - low) * (double)bins / (high - low);
        const double want = at < 0 ? 0 : at >= (double)bins ? (double)bins + 1 : floor(at) + 1;
        /* log10 and sqrt may round across an edge; the table may not be off by more */
        EXPECT(fabs((double)spectrum_class(&c, s) - want) < 0.5 || fabs(at - round(at)) < 1e-9 * (double)bins + 1e-7);
    }
    for (int64_t k = 0; k <= bins && !broken; k += bins > 4000 ? 97 : 1) { /* at every edge itself */
        const float edge = c.edges[k];
        if (edge <= 0 || !isfinite(edge))
            continue;
        EXPECT(spectrum_class(&c, edge) >= k + 1 && spectrum_class(&c, nextafterf(edge, 0)) <= k);
    }
    spectrum_classes_free(&c);
}

static void test_classes(void)
{
    check_classes(0, 160, 1600);
    check_classes(0, 160, 1);
    check_classes(-20, 60, 65536);
    check_classes(30, 30.5, 20000);
    check_classes(-500, -1, 10);
    check_classes(0, 1000, 333);
    check_classes(79.99, 80, 65536);
}

static void test_moments(void)
{
    struct result_params p = spectrum_defaults();
    uint64_t *h = calloc((size_t)p.bins, sizeof *h);
    double mean, std;
    float m, s;
    result_moments(&p, h, &mean, &std);
    EXPECT(isnan(mean) && isnan(std));
    h[100] = 3;
    h[200] = 1;
    result_moments(&p, h, &mean, &std);
    EXPECT(fabs(mean - 12.55) < 1e-12 && fabs(std - sqrt(18.75)) < 1e-12);
    spectrum_window_moments(&p, 4, 500, 3 * 10000 + 40000, &m, &s);
    EXPECT(fabsf(m - 12.55f) < 1e-5f && fabsf(s - sqrtf(18.75f)) < 1e-5f);
    spectrum_window_moments(&p, 0, 0, 0, &m, &s);
    EXPECT(isnan(m) && isnan(s));
    for (int64_t k = 0; k < p.bins; k++) /* a corpus: no cancellation */
        h[k] = UINT64_C(1) << 50;
    result_moments(&p, h, &mean, &std);
    EXPECT(fabs(mean - 80) < 1e-9 && fabs(std - 0.1 * sqrt((1600.0 * 1600 - 1) / 12)) < 1e-9);
    free(h);
}

static void test_missing_groups(void)
{
    char text[64];
    const uint8_t groups[] = {1, 0, 0, 1, 1, 0};
    result_missing_text(groups, 6, text, sizeof text);
    EXPECT(!strcmp(text, "2-3,6"));
    result_missing_text(groups, 1, text, sizeof text);
    EXPECT(!strcmp(text, ""));
    uint8_t every_other[1000];
    for (int k = 0; k < 1000; k++)
        every_other[k] = k % 2 == 0;
    result_missing_text(every_other, 1000, text, sizeof text);
    EXPECT(strlen(text) < sizeof text && !strcmp(text + strlen(text) - 3, "..."));
}

static void test_parameters(void)
{
    struct result_params p = spectrum_defaults(), q = p;
    struct err e = {""};
    EXPECT(!result_check_params(&p, &e) && !result_same_params(&p, &q, &e));
    EXPECT(spectrum_windows(65000, &p) == 506 && spectrum_windows(43000, &p) == 334);
    EXPECT(spectrum_windows(255, &p) == 0 && spectrum_windows(256, &p) == 1);
    EXPECT(spectrum_radius(1) == 3 && spectrum_radius(0) == 0 && spectrum_radius(10) == 30);
    q.sigma = 2;
    EXPECT(result_same_params(&p, &q, &e) && !strcmp(e.msg, "sigma is 1 and 2"));
    double w[SPECTRUM_MAX_RADIUS + 1], sum;
    spectrum_gauss(&p, w);
    sum = w[0] + 2 * (w[1] + w[2] + w[3]);
    EXPECT(fabs(sum - 1) < 1e-15 && fabs(w[1] / w[0] - exp(-0.5)) < 1e-15);
    for (int hann = 0; hann < 2; hann++) { /* bins 0 and 1 of the taper's DFT, from the definition */
        float taper[256];
        double dft[2], re[2] = {0, 0};
        strcpy(p.taper, hann ? "hann" : "rectangular");
        spectrum_taper(&p, taper, dft);
        for (int k = 0; k < 256; k++) {
            re[0] += (double)taper[k];
            re[1] += (double)taper[k] * cos(2 * M_PI * k / 256);
        }
        EXPECT(fabs(re[0] - dft[0]) < 1e-3 && fabs(re[1] - dft[1]) < 1e-3);
    }
}

int main(void)
{
    static const struct { const char *name; void (*run)(void); } tests[] = {
        {"messages", test_messages}, {"numbers", test_numbers}, {"json_strings", test_json_strings},
        {"sizes_and_times", test_sizes_and_times},
        {"pipe_keeps_order_and_bound", test_pipe_keeps_order_and_bound},
        {"pipe_dependencies_and_drain", test_pipe_dependencies_and_drain},
        {"pipe_failures", test_pipe_failures},
        {"pipe_first_failure", test_pipe_first_failure},
        {"pipe_run_shared_works_on_the_calling_thread", test_pipe_run_shared_works_on_the_calling_thread},
        {"codec", test_codec}, {"gray", test_gray},
        {"classes", test_classes}, {"moments", test_moments},
        {"missing_groups", test_missing_groups}, {"parameters", test_parameters}};
    int failed = 0;
    for (size_t k = 0; k < sizeof tests / sizeof *tests; k++) {
        broken = NULL;
        tests[k].run();
        printf(broken ? "not ok unit.%s: %s\n" : "ok unit.%s\n", tests[k].name, broken);
        failed += broken != NULL;
    }
    return failed > 0;
}
