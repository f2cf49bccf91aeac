/* info_csv.c - tables of results and stores; see info_forms.h. */
#include "process/commands/info_forms.h"

#include "common/base/csv.h"
#include "common/base/path.h"
#include "common/base/text.h"
#include "common/result/result.h"
#include "common/result/result_read.h"

#include <inttypes.h>
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

/* Empty for NaN. */
static void next_real(double value)
{
    putchar(',');
    csv_number(stdout, value);
}

/* Fields of regions are empty where there are none. */
static void put_fields(const struct result_params *p, const struct field *f, unsigned sets,
                       const void *from)
{
    fields_csv(f, sets, from);
    fields_csv(f, RESULT_REGIONS, p->roi ? from : NULL);
}

static void put_counts(const struct result_params *p, const struct result_counts *c)
{
    double mean, std;
    result_moments(p, c->histogram, &mean, &std);
    fields_csv(result_counts_fields, RESULT_OF_WINDOWS, c);
    next_real(mean);
    next_real(std);
}

static void put_groups_missing(const struct result_slide *s)
{
    char missing[256];
    result_missing_text(s->groups, s->group_count, missing, sizeof missing);
    next_text(missing);
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
    struct slide_numbers n = s->of_spectra;
    for (int k = 0; k < SLIDE_NUMBERS; k++)
        next_real(*slide_number_of(&n, k));
}

enum {
    REST_OF_COUNTS = RESULT_OF_RANGE | RESULT_OF_TOUCHING,
    REST_OF_SLIDE = RESULT_OF_SOURCE | RESULT_OF_GROUPS | RESULT_OF_MACHINE,
    PARAMETERS = RESULT_HERE | RESULT_OF_HISTOGRAM
};

/* The columns of put_features(). */
static void put_feature_columns(void)
{
    char name[32];
    for (int k = 0; k < FEATURES_OCTAVES; k++)
        printf(",octave_%d", FEATURES_OCTAVE(k));
    fputs(",slope", stdout);
    for (int m = 0; m < RESULT_MAPS; m++)
        for (int q = 0; result_map_kind(m)->quantiles && q < FEATURES_QUANTILES; q++)
            printf(",%s", result_quantile_name(name, sizeof name, m, q));
    for (int k = 0; k < SLIDE_NUMBERS; k++)
        printf(",%s", slide_number_list[k].name);
}

static void put_field_columns(const struct field *f, unsigned sets)
{
    fields_csv_head(f, sets);
    fields_csv_head(f, RESULT_REGIONS);
}

/* The columns that people use come first: the slide, its numbers, its resolution. */
static void put_result_columns(void)
{
    fputs("slide,input,windows,mean_db,std_db", stdout);
    put_feature_columns();
    fields_csv_head(result_slide_fields, RESULT_OF_ORIGIN);
    put_field_columns(result_counts_fields, REST_OF_COUNTS);
    put_field_columns(result_slide_fields, REST_OF_SLIDE);
    fputs(",groups_missing", stdout);
    put_field_columns(result_params_fields, PARAMETERS);
    puts(",creator");
}

int info_result_csv(const char *path, struct result *r, struct err *e)
{
    const struct result_params *p = result_params(r);
    for (int64_t k = 0; k < result_slides(r); k++) {
        struct result_slide s;
        if (result_load_parts(r, k, result_parts_in_file(r), &s, e))
            return -1;
        csv_text(stdout, s.name);
        next_text(path);
        put_counts(p, &s.counts);
        put_features(p, &s);
        fields_csv(result_slide_fields, RESULT_OF_ORIGIN, &s);
        put_fields(p, result_counts_fields, REST_OF_COUNTS, &s.counts);
        put_fields(p, result_slide_fields, REST_OF_SLIDE, &s);
        put_groups_missing(&s);
        put_fields(p, result_params_fields, PARAMETERS, p);
        next_text(result_creator(r));
        putchar('\n');
        result_slide_free(&s);
    }
    return 0;
}

/* --- stores --- */

static void put_store_columns(void)
{
    fputs("slide,input,bytes", stdout);
    fields_csv_head(store_fields, FIELD_ALL);
    puts(",codec,stored_bytes,codec_ratio,tiles,tissue_fraction,thumbnail,icc_profile,creator");
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
    const char *stem = path_stem(s->path, &n);
    snprintf(name, sizeof name, "%.*s", (int)n, stem);
    csv_text(stdout, name);
    next_text(s->path);
    next_int(s->file_bytes);
    fields_csv(store_fields, FIELD_ALL, s->info);
    next_text(s->info->codec->name);
    next_int(s->extras.stored_bytes);
    next_real(s->ratio);
    next_int(s->tiles);
    next_real(s->tissue);
    next_int(s->extras.thumbnail);
    next_int(s->extras.icc_profile);
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
