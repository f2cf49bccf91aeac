/*
 * test_unit - modules that need no file: messages, numbers, codecs, gray, histogram classes, the
 * sample of windows.
 */
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/codec/codec.h"
#include "common/regions/polygons.h"
#include "common/result/features.h"
#include "common/result/result.h"
#include "common/store/gray.h"
#include "process/spectrum/spectrum.h"
#include "tests/unit.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- err, cli --- */

static void test_what_is_to_blame(void)
{
    struct err e = {0}, other = {0};
    err_set(&e, "%s: no valid TIFF", "out of memory, no space left, (cuda:0)");
    EXPECT(!err_is_trouble(&e) && e.kind == ERR_INPUT); /* words decide nothing */
    static const int trouble[] = {EIO, ESTALE, ENOSPC, ENOMEM, EINTR, EBUSY, EXDEV, ENOSYS, EMFILE};
    for (size_t k = 0; k < sizeof trouble / sizeof *trouble; k++) {
        errno = trouble[k];
        err_sys(&e, "cannot read");
        err_add(&e, "a.svs");
        EXPECT(err_is_trouble(&e));
    }
    errno = ENOENT;
    err_sys(&e, "cannot open");
    EXPECT(!err_is_trouble(&e) && e.kind == ERR_ABSENT);
    err_memory(&e);
    EXPECT(err_copy(&other, &e) == -1 && other.kind == ERR_MEMORY);
    err_set(&other, "%s: %s", "x", e.msg); /* a new error */
    EXPECT(other.kind == ERR_INPUT);
}

static void test_messages(void)
{
    struct err e = {0};
    EXPECT(err_set(&e, "%s: bad\nline", "a\x1b[31m") == -1);
    EXPECT(!strcmp(e.msg, "a?[31m: bad?line")); /* nothing that moves a cursor */
    err_add(&e, "b");
    EXPECT(!strcmp(e.msg, "b: a?[31m: bad?line"));
    EXPECT(err_set(NULL, "x") == -1);
    err_set(&e, "%s",
            "a\xe2\x80\xae"
            "b\xe2\x81\xa6\xd8\x9c\xc2\x85\x9f\xe2\x80\xa8.");
    EXPECT(!strcmp(e.msg, "a?b?????.")); /* nothing that reorders text or ends a line */
    err_set(&e, "%s", "\xc3\xa9 \xe2\x80\xa6 \xe6\x9f\x93 \xf0\x9f\x94\xac \xe9");
    EXPECT(!strcmp(e.msg, "\xc3\xa9 \xe2\x80\xa6 \xe6\x9f\x93 \xf0\x9f\x94\xac \xe9"));
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
    EXPECT(!number_bytes("n", "256M", 0, INT64_MAX, &v, &e) && v == 256 << 20);
    EXPECT(!number_bytes("n", "2GiB", 0, INT64_MAX, &v, &e) && v == INT64_C(2) << 30);
    EXPECT(!number_bytes("n", "7kB", 0, INT64_MAX, &v, &e) && v == 7 << 10);
    EXPECT(!number_bytes("n", "0", 0, 5, &v, &e) && v == 0);
    static const char *const bad[] = {
        "",         "M",  "-1",   "1.5G", "1 G", "9223372036854775808",
        "8388608T", "1Q", "0x10", "1MM",  "1Mi"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        EXPECT(number_bytes("n", bad[k], 0, INT64_MAX, &v, &e));
    EXPECT(number_bytes("n", "6", 0, 5, &v, &e) && strstr(e.msg, "n 6"));
    EXPECT(number_int("n", "12x", 0, 99, &v, &e) && number_int("n", "", 0, 99, &v, &e));
    EXPECT(!number_real("n", "1e-3", 0, 1, &x, &e) && x == 1e-3);
    EXPECT(number_real("n", "inf", 0, 1, &x, &e) && number_real("n", "1,5", 0, 9, &x, &e));
    EXPECT(!number_range("n", "3-17", &v, &w, &e) && v == 3 && w == 17);
    EXPECT(!number_range("n", "4", &v, &w, &e) && v == 4 && w == 4);
    EXPECT(number_range("n", "0-3", &v, &w, &e) && number_range("n", "5-4", &v, &w, &e));
    EXPECT(number_range("n", "1-", &v, &w, &e) && number_range("n", "1-2-3", &v, &w, &e));
}

static void test_json_strings(void)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    json_write_string(f, "a\"b\\c\n\x80\xc3\xa9\xed\xa0\x80\xc2\x85\xe2\x80\xae");
    json_write_number(f, NAN);
    fclose(f);
    EXPECT(!strcmp(text,
                   "\"a\\\"b\\\\c\\u000a\\udc80\xc3\xa9\\udced\\udca0\\udc80\\u0085\\u202e\"null"));
    free(text);
}

static void test_sizes_and_times(void)
{
    char b[32];
    EXPECT(!strcmp(number_size(b, 1536), "1.5 KiB") && !strcmp(number_size(b, 512), "512 B"));
    EXPECT(!strcmp(clock_text(b, 3.21), "3.21 s") && !strcmp(clock_text(b, 7500), "2 h 05 min"));
    char text[] = "/a/b: bad, as /a/b is; /a/c: not /x/a/b";
    path_drop_folder(text, "/a/b");
    EXPECT(!strcmp(text, "b: bad, as b is; /a/c: not /xb"));
    path_drop_folder(text, "b");
    EXPECT(!strcmp(text, "b: bad, as b is; /a/c: not /xb"));
    char near[] = "/a/b,/a/b";
    path_drop_folder(near, "/a/b");
    EXPECT(!strcmp(near, "b,b"));
    EXPECT(!strcmp(path_base_name("/a/b.svs"), "b.svs") && !strcmp(path_base_name("b"), "b"));
}

/* --- codec, gray --- */

static void test_codec(void)
{
    struct err e = {0};
    enum { N = 100000 };
    unsigned char *in = malloc(N), *out = malloc(N), *back = malloc(N);
    const struct codec_params p = {codec_find("deflate"), 250, 400, 1},
                              shorter = {p.codec, N - 1, 1, 1};
    struct codec_work *w = codec_create();
    size_t n = 0;
    EXPECT(codec_find("nonsense") == NULL && w);
    for (int k = 0; k < N; k++)
        in[k] = (unsigned char)(k / 100);
    EXPECT(!codec_encode(w, &p, in, out, &n, &e) && n > 0 && n < N);
    EXPECT(!codec_decode(w, &p, out, n, back) && !memcmp(in, back, N));
    EXPECT(codec_decode(w, &p, out, n - 1, back) && codec_decode(w, &shorter, out, n, back));
    out[n / 2] ^= 0x40;
    EXPECT(codec_decode(w, &p, out, n, back));
    unsigned state = 1;
    for (int k = 0; k < N; k++)
        in[k] = (unsigned char)((state = state * 1664525u + 1013904223u) >> 24);
    EXPECT(!codec_encode(w, &p, in, out, &n, &e) && n == 0); /* does not get smaller: stored raw */
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
    for (size_t n = 0; n < 40; n++) { /* exact sizes, so that sanitizers detect an overrun */
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

/* Against the definition in double, for squared magnitudes from 0 to beyond the largest. */
static void check_classes(double low, double high, int64_t bins)
{
    struct result_params p = spectrum_defaults();
    struct spectrum_classes c;
    p.low_db = low;
    p.high_db = high;
    p.bins = bins;
    spectrum_classes_create(&c, &p);
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
        /* log10 and sqrt may round across an edge, the table may not */
        EXPECT(fabs((double)spectrum_class(&c, s) - want) < 0.5 ||
               fabs(at - round(at)) < 1e-9 * (double)bins + 1e-7);
    }
    for (int64_t k = 0; k <= bins && !broken; k += bins > 4000 ? 97 : 1) { /* at the edges */
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
    const struct spectrum_window w = {.n = 4, .sum = 500, .squares = 3 * 10000 + 40000};
    spectrum_window_moments(&p, &w, &m, &s);
    EXPECT(fabsf(m - 12.55f) < 1e-5f && fabsf(s - sqrtf(18.75f)) < 1e-5f);
    spectrum_window_moments(&p, &(struct spectrum_window){0}, &m, &s);
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
    struct err e = {0};
    EXPECT(!result_check_params(&p, &e) && !result_same_params(&p, &q, &e));
    EXPECT(result_windows_along(65000, &p) == 506 && result_windows_along(43000, &p) == 334);
    EXPECT(result_windows_along(255, &p) == 0 && result_windows_along(256, &p) == 1);
    EXPECT(spectrum_radius(1) == 3 && spectrum_radius(0) == 0 && spectrum_radius(10) == 30);
    q.sigma = 2;
    EXPECT(result_same_params(&p, &q, &e) && !strcmp(e.msg, "sigma is 1 and 2"));
    double w[SPECTRUM_MAX_RADIUS + 1], sum;
    spectrum_gauss(&p, w);
    sum = w[0] + 2 * (w[1] + w[2] + w[3]);
    EXPECT(fabs(sum - 1) < 1e-15 && fabs(w[1] / w[0] - exp(-0.5)) < 1e-15);
    for (int hann = 0; hann < 2; hann++) { /* bins 0 and 1 of the taper's DFT, by definition */
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

/* --- polygons --- */

enum { ACROSS = 61, DOWN = 47 };

/* A ring of n vertices, some outside of the image, some on the centres of pixels. */
static void add_ring(struct polygons *p, int n)
{
    double v[300][2];
    for (int k = 0; k < n; k++)
        for (int d = 0; d < 2; d++)
            v[k][d] = (double)(random() % 1000) * (k % 3 ? 0.08 : 0.5) - 5;
    for (int k = 0; k < n; k++)
        polygons_add_edge(p, v[k], v[(k + 1) % n]);
}

/* The definition: an odd number of edges of one polygon lies at or left of the centre. */
static bool is_inside(const struct polygons *p, double x, double y)
{
    for (int64_t polygon = 0; polygon < p->count; polygon++) {
        int crossed = 0;
        for (const struct polygons_edge *e = p->edges; e < p->edges + p->n; e++)
            if (e->polygon == polygon && e->y0 <= y && y < e->y1)
                crossed += e->x0 + (y - e->y0) / (e->y1 - e->y0) * (e->x1 - e->x0) <= x;
        if (crossed % 2)
            return true;
    }
    return false;
}

static int wrong_pixels(const struct polygons *p)
{
    struct err e = {0};
    int wrong = 0;
    struct polygons_rows *rows = polygons_open(p, ACROSS, DOWN, &e);
    EXPECT(rows != NULL);
    for (int64_t y = 0; y < DOWN; y++) {
        int64_t n, k = 0;
        const struct polygons_span *s = polygons_row(rows, y, &n);
        for (int64_t i = 0; i < n; i++)
            wrong += s[i].first >= s[i].end || (i > 0 && s[i].first <= s[i - 1].end);
        for (int64_t x = 0; x < ACROSS; x++) {
            k += k < n && x >= s[k].end;
            wrong += (k < n && x >= s[k].first) != is_inside(p, (double)x + 0.5, (double)y + 0.5);
        }
    }
    polygons_close(rows);
    return wrong;
}

static void test_polygons(void)
{
    static const int sizes[][4] = {{0},        {3},           {4, 5},       {300},
                                   {100, 200}, {7, 30, 3, 3}, {299, 3, 290}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct polygons p = POLYGONS_NONE;
        for (int ring = 0; ring < 4 && sizes[k][ring]; ring++) {
            p.count += ring != 1; /* the second ring is a hole of the first */
            add_ring(&p, sizes[k][ring]);
        }
        EXPECT(wrong_pixels(&p) == 0);
        polygons_free(&p);
    }
}

/* The work is bounded, and the message names the bound. */
static void test_too_complex_polygons(void)
{
    struct polygons p = POLYGONS_NONE;
    struct err e = {0};
    p.count = 1;
    const double a[2] = {0, 0}, b[2] = {9, 2e9};
    for (int k = 0; k < 2; k++)
        polygons_add_edge(&p, a, b);
    EXPECT(!polygons_open(&p, 10, 2000000000, &e));
    EXPECT(strstr(e.msg, "its 2 edges cross 4000000000 rows of pixels, and at most 2147483648 are "
                         "possible; simplify the polygons"));
    polygons_free(&p);
}

/* As many windows as features.h says lie below a threshold. */
static void test_sample_of_windows(void)
{
    static const int64_t sides[] = {15, 17, 40, 90, 200, 300, 400, 500};
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++) {
        const int64_t n = sides[s] * sides[s], most = FEATURES_MOST_TISSUE;
        const int64_t share = n / 16 > FEATURES_LEAST ? n / 16 : FEATURES_LEAST;
        int64_t thresholds[FEATURES_SAMPLES], below = 0;
        features_thresholds(NULL, NULL, sides[s], sides[s], thresholds);
        for (int64_t k = 0; k < n; k++)
            below += features_hash(k % sides[s], k / sides[s]) < thresholds[FEATURES_TISSUE];
        EXPECT(below == (n < share ? n : share < most ? share : most));
    }
}

int main(void)
{
    return UNIT_RUN("unit", UNIT(what_is_to_blame), UNIT(messages), UNIT(numbers),
                    UNIT(json_strings), UNIT(sizes_and_times), UNIT(codec), UNIT(gray),
                    UNIT(classes), UNIT(moments), UNIT(missing_groups), UNIT(parameters),
                    UNIT(polygons), UNIT(too_complex_polygons), UNIT(sample_of_windows));
}
