/*
 * fuzz_text.c - texts that users, schedulers and slides provide: numbers, ranges, tasks, lists of
 * files, command lines, slide descriptions, properties, ICC profiles, names to print, polygons,
 * and PNG pictures that are masks. The first byte chooses; the rest is the text.
 */
#include "common/base/cli.h"
#include "common/base/json.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/progress.h"
#include "common/base/text.h"
#include "common/codec/codec.h"
#include "common/regions/geojson.h"
#include "convert/arguments.h"
#include "convert/privacy/identifiers.h"
#include "convert/readers/tiff/tiff_level.h"
#include "convert/tissue/tissue_mask.h"
#include "process/options/commands.h"
#include "process/options/options.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORDS = 32 };

static void numbers(const char *text)
{
    struct err e = {0};
    int64_t a, b;
    double x;
    enum progress_when when;
    if (number_bytes("bytes", text, 1, INT64_MAX, &a, &e) == 0)
        FUZZ_MUST(a >= 1);
    if (number_int("int", text, -5, 5, &a, &e) == 0)
        FUZZ_MUST(a >= -5 && a <= 5);
    if (number_real("real", text, -1e9, 1e9, &x, &e) == 0)
        FUZZ_MUST(x >= -1e9 && x <= 1e9);
    if (number_range("range", text, &a, &b, &e) == 0)
        FUZZ_MUST(a >= 1 && a <= b);
    if (task_parse(text, &a, &b, &e) == 0)
        FUZZ_MUST(a >= 1 && a <= b);
    progress_when("when", text, &when, &e);
}

static int add(void *ctx, const char *path, struct err *e)
{
    *(size_t *)ctx += strlen(path);
    FUZZ_MUST(path[0] && path[0] != '#' && !strchr(path, '\n'));
    return strlen(path) > 4000 ? err_set(e, "too long") : 0;
}

static void lists(const uint8_t *data, size_t n)
{
    char path[FUZZ_PATH];
    struct err e = {0};
    size_t bytes = 0;
    fuzz_file(data, n, path);
    cli_list(path, add, &bytes, &e);
    FUZZ_MUST(bytes <= n);
}

/* Splits a text at its newlines into argv[1] and so on. No word may lead out of the empty
 * folder. */
static int split(char *text, char *argv[MOST_WORDS])
{
    int argc = 1;
    argv[0] = (char *)"fuzz";
    for (char *word; argc < MOST_WORDS - 1 && (word = strsep(&text, "\n"));) {
        for (char *p = word; *p; p++)
            *p = *p == '/' ? '_' : *p;
        argv[argc++] = strcmp(word, "..") ? word : (char *)"x";
    }
    argv[argc] = NULL;
    return argc;
}

/* Commands that read their options themselves. No word names a file, so they end before their
 * work; what they say goes nowhere. */
static int own_command(size_t which, int argc, char **argv)
{
    static int (*const mains[])(int argc, char **argv) = {plot_main, compare_main,
#ifdef HAVE_PNG
                                                          map_main, report_main
#endif
    };
    return mains[which % (sizeof mains / sizeof *mains)](argc, argv);
}

static void command_line(uint8_t which, char *text)
{
    enum { OWN = 4 };
    static const struct command *const commands[] = {&options_run,    &options_merge,
                                                     &options_info,   &options_verify,
                                                     &options_lookup, &options_tune};
    const size_t n = sizeof commands / sizeof *commands;
    char *argv[MOST_WORDS];
    struct options o;
    struct arguments a;
    int first;
    const int argc = split(text, argv);
    which = (uint8_t)(which % (n + 1 + OWN));
    if (which < n) {
        options_parse(commands[which], argc, argv, &o);
        options_free(&o);
    } else if (which == n) {
        arguments_parse(argc, argv, &a, &first);
    } else {
        const int status = own_command(which - n - 1, argc, argv);
        FUZZ_MUST(status >= 0 && status <= EXIT_STOPPED);
    }
}

static int put(void *ctx, const char *key, const char *value)
{
    *(size_t *)ctx += identifiers_allow(key, value);
    return strlen(key) + strlen(value) > 100000;
}

static void description(const char *text)
{
    size_t allowed = 0;
    int64_t width, height;
    const double x = svs_description_number(text, "MPP");
    FUZZ_MUST(!svs_description_size(text, &width, &height) || (width > 0 && height > 0));
    FUZZ_MUST(isnan(x) || (x > 0 && isfinite(x)));
    svs_description_properties(text, put, &allowed);
}

/* Colour data stays, texts are blanked; a second time changes nothing. */
static void profile(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(2 * n + 1);
    FUZZ_MUST(copy);
    memcpy(copy, data, n);
    if (identifiers_blank_icc(copy, n)) {
        memcpy(copy + n, copy, n);
        FUZZ_MUST(identifiers_blank_icc(copy + n, n) && !memcmp(copy, copy + n, n));
    }
    free(copy);
}

static void printed(const char *text)
{
    char out[64], number[32];
    size_t n;
    const int columns = text_fit(out, sizeof out, text, 20);
    FUZZ_MUST(columns <= 20 && columns == text_columns(out) && strlen(out) < sizeof out);
    const char *stem = path_stem(text, &n);
    FUZZ_MUST(n <= strlen(stem));
    cli_print_text(stdout, text);
    json_write_string(stdout, text);
    double x = 0;
    memcpy(&x, text, strlen(text) < sizeof x ? strlen(text) : sizeof x);
    if (isfinite(x))
        FUZZ_MUST(strtod(number_text(number, x), NULL) == x);
}

/* Spans of a row are ascending, disjoint and within the image. */
static void check_row(struct polygons_rows *rows, int64_t y, int64_t width)
{
    int64_t n, end = -1;
    const struct polygons_span *spans = polygons_row(rows, y, &n);
    for (int64_t k = 0; k < n; k++) {
        FUZZ_MUST(spans[k].first > end && spans[k].first < spans[k].end);
        FUZZ_MUST(spans[k].first >= 0 && spans[k].end <= width);
        end = spans[k].end;
    }
}

static void regions(uint8_t which, const uint8_t *data, size_t n)
{
    const char *names[] = {"Tumor", ""};
    const struct geojson_classes classes = {names, which % 3};
    char path[FUZZ_PATH];
    struct err e = {0};
    struct polygons p;
    fuzz_file(data, n, path);
    if (geojson_read(path, &classes, &p, &e)) {
        FUZZ_MUST(e.msg[0]);
        return;
    }
    polygons_shrink(&p, 1 + which / 8);
    struct polygons_rows *rows = polygons_open(&p, 300, 200, &e);
    FUZZ_MUST(rows);
    for (int64_t y = 0; y < 200; y++)
        check_row(rows, y, 300);
    polygons_close(rows);
    polygons_free(&p);
}

/* Gives each chunk of a PNG file the checksum of its bytes; libpng reads no chunk without. */
static void repair_png(uint8_t *data, size_t n)
{
    enum { SIGNATURE = 8, AROUND = 12 }; /* bytes; of a chunk: length, name and checksum */
    for (size_t at = SIGNATURE; at + AROUND <= n;) {
        const uint8_t *p = data + at;
        const size_t length = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        if (length > n - at - AROUND)
            return;
        const uint32_t sum = codec_crc32(p + 4, length + 4);
        for (size_t k = 0; k < 4; k++)
            data[at + 8 + length + k] = (uint8_t)(sum >> (24 - 8 * k));
        at += AROUND + length;
    }
}

static void mask(const uint8_t *data, size_t n)
{
    enum { WIDTH = 300, HEIGHT = 200, CELL = 32, CELLS = 10 * 7 };
    char path[FUZZ_PATH];
    uint8_t cells[CELLS];
    struct err e = {0};
    uint8_t *copy = malloc(n + 1);
    FUZZ_MUST(copy);
    memcpy(copy, data, n);
    repair_png(copy, n);
    fuzz_file(copy, n, path);
    free(copy);
    if (png_mask_read(path, WIDTH, HEIGHT, CELL, cells, &e))
        FUZZ_MUST(e.msg[0]);
    else
        for (int k = 0; k < CELLS; k++)
            FUZZ_MUST(cells[k] <= 1);
}

/* The inputs name files, and the messages are many: an empty folder, and nothing printed. */
static void prepare(void)
{
    static char folder[] = "/tmp/fuzz-XXXXXX";
    static int done;
    if (done++)
        return;
    FUZZ_MUST(mkdtemp(folder) && !chdir(folder) && !rmdir(folder));
    FUZZ_MUST(freopen("/dev/null", "r", stdin) && freopen("/dev/null", "w", stdout));
    cli_start("fuzz");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    prepare();
    char *text = n > 0 ? strndup((const char *)data + 1, n - 1) : NULL;
    if (!text)
        return 0;
    switch (data[0] % 8) {
    case 0: numbers(text); break;
    case 1: lists(data + 1, n - 1); break;
    case 2: description(text); break;
    case 3: profile(data + 1, n - 1); break;
    case 4: printed(text); break;
    case 5: regions(data[0] / 8, data + 1, n - 1); break;
    case 6: mask(data + 1, n - 1); break;
    default: command_line(data[0] / 8, text);
    }
    free(text);
    fuzz_accepted++;
    return 0;
}
