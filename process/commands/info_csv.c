/* info_csv.c - tables of results and stores; see info_csv.h. */
#include "process/commands/info_csv.h"

#include "common/base/csv.h"
#include "common/base/path.h"
#include "common/base/text.h"
#include "common/result/result_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Fits any name of a file or a slide, made printable. */
enum { TEXT_BYTES = 1 << 16 };

/* --- CSV --- */

static void next_text(const char *s)
{
    putchar(',');
    csv_text(stdout, s);
}

static void next_int(int64_t value)
{
    printf(",%" PRId64, value);
}

/* Empty where there is none. */
static void next_count(int64_t value)
{
    if (value >= 0)
        next_int(value);
    else
        putchar(',');
}

/* Empty for NaN. */
static void next_real(double value)
{
    putchar(',');
    csv_number(stdout, value);
}

static void put_counts(const struct result_params *p, const struct result_counts *c)
{
    double mean, std;
    result_moments(p, c->histogram, &mean, &std);
    next_int(c->windows);
    next_real(mean);
    next_real(std);
}

static void put_rest_of_counts(const struct result_params *p, const struct result_counts *c)
{
    printf(",%" PRIu64 ",%" PRIu64, c->underflow, c->overflow);
    for (int k = RESULT_MISSING; k < RESULT_TOUCHING; k++)
        next_int(c->touching[k]);
    next_count(p->roi ? c->outside : -1);
}

static void put_source(const struct result_slide *s)
{
    char missing[256];
    result_missing_text(s->groups, s->group_count, missing, sizeof missing);
    next_int(s->width);
    next_int(s->height);
    next_int(s->level);
    next_text(missing);
    next_text(s->source_name);
    next_real(s->seconds);
    next_text(s->quickhash);
    next_int(s->source_gray);
    next_text(s->backend);
    next_text(s->device);
    next_text(s->kernel);
    next_text(s->io);
    next_int(s->tiles_on_host);
}

static void put_origin(const struct result_origin *o)
{
    next_real(o->mpp_x);
    next_real(o->mpp_y);
    next_real(o->downsample);
    next_real(o->objective_power);
    next_text(o->vendor);
    next_real(o->tissue_fraction);
    next_int(o->tiles);
    next_int(o->tiles_missing);
    next_int(o->tiles_damaged);
    next_int(o->tiles_left_out);
    next_count(o->jpeg_quality > 0 ? o->jpeg_quality : -1);
    next_text(o->jpeg_subsampling);
    next_real(o->jpeg_twice);
    for (int k = 0; k < GLASS_NUMBERS; k++)
        next_real(o->glass[k]);
}

/* The levels of the octaves from the coarsest to the finest: octave_7 is 1/128 <= f < 1/64. */
static void put_features(const struct result_params *p, const struct result_slide *s)
{
    double profile[FEATURES_OCTAVES];
    result_profile(p, &s->counts, profile);
    for (int k = 0; k < FEATURES_OCTAVES; k++)
        next_real(profile[k]);
    next_real(features_slope(profile));
    for (int m = 0; m < RESULT_MAPS; m++)
        for (int q = 0; result_map_kind(m)->quantiles && q < FEATURES_QUANTILES; q++)
            next_real(s->quantiles[m][q]);
    struct spectrum_numbers n = s->of_spectra;
    for (int k = 0; k < SPECTRUM_NUMBERS; k++)
        next_real(*spectrum_number_of(&n, k));
}

static const char origin_columns[] =
    ",mpp_x,mpp_y,downsample,objective_power,vendor,tissue_fraction,tiles,tiles_missing,"
    "tiles_damaged,tiles_left_out,jpeg_quality,jpeg_subsampling,jpeg_twice";
static const char source_columns[] =
    ",width,height,level,groups_missing,source_name,seconds,quickhash,source_gray,backend,device,"
    "kernel,io,tiles_on_host";

/* Those of put_features(). */
static void put_feature_columns(void)
{
    char name[32];
    for (int k = 0; k < FEATURES_OCTAVES; k++)
        printf(",octave_%d", FEATURES_OCTAVE(k));
    fputs(",slope", stdout);
    for (int m = 0; m < RESULT_MAPS; m++)
        for (int q = 0; result_map_kind(m)->quantiles && q < FEATURES_QUANTILES; q++)
            printf(",%s", result_quantile_name(name, sizeof name, m, q));
    for (int k = 0; k < SPECTRUM_NUMBERS; k++)
        printf(",%s", spectrum_number_list[k].name);
}

static void put_parameters(const struct result *r)
{
    const struct result_params *p = result_params(r);
    next_int(p->window);
    next_int(p->stride);
    next_real(p->sigma);
    next_int(p->radius);
    next_text(p->taper);
    next_real(p->offset);
    next_int(p->bins);
    next_real(p->low_db);
    next_real(p->high_db);
    next_int(p->tissue_only);
    next_real(p->min_tissue);
    next_int(p->skip_damaged);
    next_int(p->roi);
    next_real(p->roi ? p->min_roi : NAN);
    next_text(p->roi_class);
    next_text(result_creator(r));
    putchar('\n');
}

static const char parameter_columns[] =
    ",window,stride,sigma,radius,taper,offset,bins,low_db,high_db,tissue_only,min_tissue,"
    "skip_damaged,roi,min_roi,roi_class,creator";

/* What people use comes first: the slide, its numbers, its resolution. */
static void put_result_columns(void)
{
    fputs("slide,input,windows,mean_db,std_db", stdout);
    put_feature_columns();
    fputs(origin_columns, stdout);
    for (int k = 0; k < GLASS_NUMBERS; k++)
        printf(",%s", glass_list[k].name);
    fputs(",underflow,overflow", stdout);
    for (int k = RESULT_MISSING; k < RESULT_TOUCHING; k++)
        printf(",%s", result_touching_name(k));
    fputs(",windows_outside", stdout);
    fputs(source_columns, stdout);
    puts(parameter_columns);
}

int info_result_csv(const char *path, struct result *r, struct err *e)
{
    const struct result_params *p = result_params(r);
    for (int64_t k = 0; k < result_slides(r); k++) {
        struct result_slide s;
        if (result_load_parts(r, k, result_parts_here(r), &s, e))
            return -1;
        csv_text(stdout, s.name);
        next_text(path);
        put_counts(p, &s.counts);
        put_features(p, &s);
        put_origin(&s.origin);
        put_rest_of_counts(p, &s.counts);
        put_source(&s);
        put_parameters(r);
        result_slide_free(&s);
    }
    return 0;
}

/* --- stores --- */

static void next_fact(const struct info_fact *x)
{
    switch (x->kind) {
    case INFO_FACT_TEXT: next_text(x->text); break;
    case INFO_FACT_REAL: next_real(x->real); break;
    case INFO_FACT_INT:
    case INFO_FACT_TRUTH: next_int(x->integer); break;
    }
}

static void put_store_columns(void)
{
    static const struct codec no_codec = {.name = ""};
    static const struct store_info none = {.codec = &no_codec};
    struct info_fact facts[INFO_FACTS];
    const int n = info_store_facts(&(struct info_store){.info = &none}, facts);
    fputs("slide,input", stdout);
    for (int k = 0; k < n; k++)
        printf(",%s", facts[k].name);
    puts(",creator");
}

void info_csv_head(bool stores)
{
    if (stores)
        put_store_columns();
    else
        put_result_columns();
}

/* A slide has its store's name in results. */
void info_store_csv(const struct info_store *s)
{
    size_t n;
    char name[TEXT_BYTES];
    struct info_fact facts[INFO_FACTS];
    const int n_facts = info_store_facts(s, facts);
    const char *stem = path_stem(s->path, &n);
    snprintf(name, sizeof name, "%.*s", (int)n, stem);
    csv_text(stdout, name);
    next_text(s->path);
    for (int k = 0; k < n_facts; k++)
        next_fact(&facts[k]);
    next_text(s->extras.creator);
    putchar('\n');
}

/* --- a histogram --- */

void info_histogram_head(bool several)
{
    printf("%slow_db\thigh_db\tcount\n", several ? "input\t" : "");
}

void info_result_histogram(const char *path, bool several, const struct result *r)
{
    char name[TEXT_BYTES];
    const struct result_params *p = result_params(r);
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    text_fit(name, sizeof name, path, TEXT_BYTES);
    for (int64_t k = 0; k < p->bins; k++) {
        if (several)
            printf("%s\t", name);
        printf("%.6g\t%.6g\t%" PRIu64 "\n", p->low_db + width * (double)k,
               p->low_db + width * (double)(k + 1), result_totals(r)->histogram[k]);
    }
}
