/* info_text.c - the form for people; see info_forms.h. */
#include "common/base/memory.h"
#include "process/commands/info_forms.h"

#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/number.h"
#include "common/base/text.h"
#include "common/hdf5/h5_library.h"
#include "common/result/result_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_COLUMNS = 20, MOST_COLUMNS = 64 }; /* of the names in the table */

/* Prints text of any origin in exactly this many columns. */
static void print_fitted(const char *text, int columns)
{
    char out[4096];
    const int used = text_fit(out, sizeof out, text, columns);
    printf("%s%*s", out, columns - used, "");
}

static void print_name(const char *text)
{
    char out[4096];
    text_fit(out, sizeof out, text, (int)sizeof out);
    fputs(out, stdout);
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* "  label    ", where the lines of a file's description begin. */
static void label(const char *name)
{
    printf("  %-10s ", name);
}

static void print_creator(const char *creator, int64_t version)
{
    printf(", format %" PRId64, version);
    if (creator[0])
        fputs(", made by ", stdout);
    print_name(creator);
    putchar('\n');
}

/* --- a store --- */

static void print_slide(const struct store_info *i)
{
    char size[32];
    label("slide");
    print_name(i->source_name);
    fputs(" (", stdout);
    print_name(i->vendor);
    printf(", %s), read by ", number_size(size, (double)i->source_bytes));
    print_name(i->reader);
    if (i->library[0]) {
        fputs(" (", stdout);
        print_name(i->library);
        putchar(')');
    }
    putchar('\n');
    if (i->interpolated[0]) {
        label("interpolated");
        print_name(i->interpolated);
        putchar('\n');
    }
    if (i->source_problem[0]) {
        label("problem");
        print_name(i->source_problem);
        putchar('\n');
    }
    if (i->jpeg_quality) {
        label("tiles");
        printf("JPEG of quality %" PRId64 ", ", i->jpeg_quality);
        print_name(i->jpeg_subsampling);
        if (!isnan(i->jpeg_twice))
            printf(", earlier compression: %s (%.2f)",
                   i->jpeg_twice > STORE_TWICE ? "probable" : "none found", i->jpeg_twice);
        putchar('\n');
    }
    if (i->colour_conflict[0]) {
        label("colours");
        print_name(i->colour_conflict);
        putchar('\n');
    }
}

static void print_pixels(const struct store_info *i)
{
    label("pixels");
    printf("%" PRId64 " x %" PRId64 ", %s, level %" PRId64 " (downsample %g)", i->width, i->height,
           i->channels == 3 ? "RGB" : "8-bit gray", i->level, i->downsample);
    if (isnan(i->mpp_x))
        fputs(", size of a pixel unknown", stdout);
    else
        printf(", %g x %g um/px", i->mpp_x * i->downsample, i->mpp_y * i->downsample);
    if (!isnan(i->objective_power))
        printf(", objective %gx", i->objective_power);
    putchar('\n');
}

/* How another program shows pixels. Codecs lz4 and zstd need plug-ins of others. */
static void print_plugin(const struct info_store *s)
{
    char *command;
    const int64_t size[] = {s->info->height, s->info->width, s->info->channels};
    const bool found = h5_plugin_command(s->info->codec, s->path, size, &command);
    if (!found && !s->info->codec->keeps)
        return;
    label(command ? "shown by" : "plug-in");
    print_name(command ? command : h5_plugin_missing(s->info->codec));
    putchar('\n');
    free(command);
}

static void print_layout(const struct info_store *s)
{
    char stored[32];
    const struct store_info *i = s->info;
    label("layout");
    printf("%" PRId64 " group%s of %" PRId64 " rows, stripes of %" PRId64 " rows, ", i->group_count,
           plural(i->group_count), i->group_rows, i->stripe_rows);
    printf("chunks of %" PRId64 " x %" PRId64 " px\n", i->chunk_cols, i->chunk_rows);
    label("codec");
    printf("%s, %s", i->codec->name, number_size(stored, (double)s->extras.stored_bytes));
    if (fabs(s->ratio - 1) < 0.005)
        fputs(", as large as the pixels", stdout);
    else if (!isnan(s->ratio))
        printf(", %.2f times smaller than the pixels", s->ratio);
    if (i->codec_reason[0]) {
        fputs("; ", stdout);
        cli_print_text(stdout, i->codec_reason);
    }
    putchar('\n');
    print_plugin(s);
}

static void print_reason(const char *before, const char *text)
{
    fputs(before, stdout);
    print_name(text);
}

static void print_tissue(const struct info_store *s)
{
    label("tissue");
    if (!isnan(s->tissue))
        printf("%.1f %% of the slide", 100 * s->tissue);
    else if (s->info->tissue_missing[0])
        print_reason("no map: ", s->info->tissue_missing);
    else
        fputs("not detected", stdout);
    if (s->info->tissue_rule[0])
        print_reason("; by ", s->info->tissue_rule);
    if (s->info->tissue_doubt[0])
        print_reason("; doubtful: the map shows ", s->info->tissue_doubt);
    puts(s->info->tissue_only ? "; tiles without tissue are left out" : "");
}

void info_store_text(const struct info_store *s)
{
    char size[32];
    const struct store_info *i = s->info;
    print_name(s->path);
    printf(": patch store, complete, %s", number_size(size, (double)s->file_bytes));
    print_creator(s->extras.creator, STORE_VERSION);
    print_slide(i);
    print_pixels(i);
    print_layout(s);
    label("tiles");
    printf("%" PRId64 ": %" PRId64 " missing, %" PRId64 " damaged, %" PRId64 " left out\n",
           s->tiles, i->tiles_missing, i->tiles_damaged, i->tiles_left_out);
    print_tissue(s);
    label("extras");
    printf("%s, %s, %s\n", s->extras.thumbnail ? "thumbnail" : "no thumbnail",
           s->extras.icc_profile ? "ICC profile" : "no ICC profile",
           i->identifiers ? "identifying properties kept" : "no identifying properties");
}

/* --- a result --- */

/* Which windows count. */
static void print_counted(const struct result_params *p)
{
    if (p->tissue_only)
        printf("windows with at least %g %% tissue%s", 100 * p->min_tissue, p->roi ? " and" : "");
    else
        fputs(p->roi ? "windows with" : "all windows", stdout);
    if (p->roi)
        printf(" at least %g %% of their area inside regions%s", 100 * p->min_roi,
               *p->roi_class ? " of class " : "");
    print_name(p->roi_class);
    puts(p->skip_damaged ? ", except those that touch damaged tiles" : "");
}

static void print_parameters(const struct result_params *p)
{
    label("windows");
    printf("%" PRId64 " x %" PRId64 " px, stride %" PRId64 " px, %s taper\n", p->window, p->window,
           p->stride, p->taper);
    label("counted");
    print_counted(p);
    label("smoothing");
    if (p->sigma > 0)
        printf("sigma %g px, radius %" PRId64 " px\n", p->sigma, p->radius);
    else
        puts("none");
    label("histogram");
    printf("%" PRId64 " bins from %g to %g dB of 20 log10(|F| + %g)\n", p->bins, p->low_db,
           p->high_db, p->offset);
}

static void print_numbers(const struct result_params *p, const struct result_counts *c)
{
    double mean, std;
    result_moments(p, c->histogram, &mean, &std);
    if (isnan(mean))
        printf(" %12" PRId64 "          -          -\n", c->windows);
    else
        printf(" %12" PRId64 " %10.3f %10.3f\n", c->windows, mean, std);
}

/* Columns of the names: what the longest needs, within limits. */
static int name_columns(const struct result *r)
{
    int most = LEAST_COLUMNS;
    for (int64_t k = 0; k < result_slides(r); k++) {
        const int columns = text_columns(result_slide_name(r, k));
        most = columns > most ? columns : most;
    }
    return most < MOST_COLUMNS ? most : MOST_COLUMNS;
}

/* The devices, and the number of slides computed on each. */
struct origin {
    char backend[32], device[128], kernel[32], io[16];
    int64_t slides, gray, on_host;
    double seconds;
};

struct origins {
    struct origin *list; /* [n], owned */
    int64_t n;
};

static void add_origin(struct origins *o, const struct result_slide *s)
{
    int64_t k = 0;
    while (k < o->n &&
           (strcmp(o->list[k].backend, s->backend) || strcmp(o->list[k].device, s->device) ||
            strcmp(o->list[k].kernel, s->kernel) || strcmp(o->list[k].io, s->io)))
        k++;
    if (k == o->n) {
        o->list = memory_grow(o->list, o->n, sizeof *o->list);
        o->list[o->n] = (struct origin){0};
        memcpy(o->list[k].backend, s->backend, sizeof s->backend);
        memcpy(o->list[k].device, s->device, sizeof s->device);
        memcpy(o->list[k].kernel, s->kernel, sizeof s->kernel);
        memcpy(o->list[k].io, s->io, sizeof s->io);
        o->n++;
    }
    o->list[k].slides++;
    o->list[k].gray += s->source_gray;
    o->list[k].on_host += s->tiles_on_host > 0 ? s->tiles_on_host : 0;
    o->list[k].seconds += s->seconds;
}

static void print_origins(const struct origins *o)
{
    char time[32];
    for (int64_t k = 0; k < o->n; k++) {
        const struct origin *one = &o->list[k];
        label(k ? "" : "computed");
        printf("%" PRId64 " slide%s on ", one->slides, plural(one->slides));
        print_name(one->backend);
        fputs(" (", stdout);
        print_name(one->device);
        fputs("), kernel ", stdout);
        print_name(one->kernel);
        fputs(", reading ", stdout);
        print_name(one->io);
        printf(", %s", clock_text(time, one->seconds));
        if (one->gray > 0)
            printf("; %" PRId64 " from 8-bit gray", one->gray);
        if (one->on_host > 0)
            printf("; %" PRId64 " tile%s left to the host's JPEG decoder", one->on_host,
                   plural(one->on_host));
        putchar('\n');
    }
}

static int print_rows(struct result *r, int columns, struct origins *o, struct err *e)
{
    for (int64_t k = 0; k < result_slides(r); k++) {
        struct result_slide s;
        char missing[64];
        if (result_load_parts(r, k, result_parts_in_file(r), &s, e))
            return -1;
        fputs("  ", stdout);
        print_fitted(s.name, columns);
        print_numbers(result_params(r), &s.counts);
        result_missing_text(s.groups, s.group_count, missing, sizeof missing);
        if (missing[0])
            printf("    without group %s of %" PRId64 "\n", missing, s.group_count);
        if (s.numbers_missing)
            printf("    without %" PRId64 " number%s that an earlier version did not compute; "
                   "h5spec run --force computes them\n",
                   s.numbers_missing, plural(s.numbers_missing));
        add_origin(o, &s);
        result_slide_free(&s);
    }
    return 0;
}

/* Windows over pixels that the slides do not have. */
static void print_touching(const struct result_counts *c)
{
    static const char *const texts[RESULT_TOUCHING] = {
        "", "touch tiles missing in the slide", "touch damaged tiles", "touch left-out tiles",
        "that touch damaged tiles are not counted"};
    for (int k = RESULT_MISSING; k < RESULT_TOUCHING; k++)
        if (c->touching[k] > 0)
            printf("  %" PRId64 " windows %s\n", c->touching[k], texts[k]);
}

static void print_total(const struct result *r, int columns)
{
    const struct result_counts *c = result_totals(r);
    fputs("  ", stdout);
    print_fitted("all", columns);
    print_numbers(result_params(r), c);
    if (c->underflow || c->overflow)
        printf("  outside the range: %" PRIu64 " below, %" PRIu64 " above\n", c->underflow,
               c->overflow);
    if (result_params(r)->roi)
        printf("  %" PRId64 " windows outside of the regions\n", c->outside);
    print_touching(c);
}

int info_result_text(const char *path, struct result *r, struct err *e)
{
    struct origins o = {0};
    const int columns = name_columns(r);
    print_name(path);
    printf(": spectrum of %" PRId64 " slide%s, complete", result_slides(r),
           plural(result_slides(r)));
    print_creator(result_creator(r), RESULT_VERSION);
    print_parameters(result_params(r));
    printf("  %-*s %12s %10s %10s\n", columns, "slide", "windows", "mean dB", "std dB");
    const int bad = print_rows(r, columns, &o, e);
    if (!bad) {
        print_total(r, columns);
        print_origins(&o);
    }
    free(o.list);
    return bad;
}
