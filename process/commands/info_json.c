/* info_json.c - the form for programs; see info_forms.h. */
#include "process/commands/info_forms.h"

#include "common/base/json.h"
#include "common/result/result.h"
#include "common/result/result_read.h"

#include <stdio.h>

static void put_head(const char *path, const char *kind, const char *format, int64_t version,
                     const char *creator)
{
    json_begin("input", path);
    json_text("kind", kind);
    json_text("format", format);
    json_int("format_version", version);
    json_text("creator", creator);
}

/* --- a store --- */

static void put_sources(const struct info_store *s)
{
    printf(", \"sources\": [");
    for (int64_t k = 0; k < s->n_sources; k++) {
        fputs(k ? ", " : "", stdout);
        json_begin("name", s->sources[k].name);
        json_int("bytes", s->sources[k].bytes);
        json_int("mtime_ns", s->sources[k].mtime_ns);
        json_int("index_crc32", s->sources[k].index_crc32);
        putchar('}');
    }
    putchar(']');
}

void info_store_json(const struct info_store *s)
{
    put_head(s->path, "store", STORE_FORMAT, STORE_VERSION, s->extras.creator);
    json_int("bytes", s->file_bytes);
    fields_json(store_fields, FIELD_ALL, s->info);
    json_text("codec", s->info->codec->name);
    json_int("stored_bytes", s->extras.stored_bytes);
    json_real("codec_ratio", s->ratio);
    json_int("tiles", s->tiles);
    json_real("tissue_fraction", s->tissue);
    json_bool("thumbnail", s->extras.thumbnail);
    json_bool("icc_profile", s->extras.icc_profile);
    put_sources(s);
    puts("}");
}

/* --- a result --- */

static void put_counts(const struct result_params *p, const struct result_counts *c)
{
    double mean, std;
    result_moments(p, c->histogram, &mean, &std);
    fields_json(result_counts_fields, RESULT_OF_WINDOWS, c);
    json_count("samples", result_samples(p, c));
    fields_json(result_counts_fields, RESULT_OF_RANGE, c);
    json_real("mean_db", mean);
    json_real("std_db", std);
    fields_json(result_counts_fields, (RESULT_OF_TOUCHING | RESULT_REGIONS) & RESULT_SETS(p), c);
}

static void put_source(const struct result_slide *s)
{
    char missing[256];
    result_missing_text(s->groups, s->group_count, missing, sizeof missing);
    fields_json(result_slide_fields, RESULT_OF_SOURCE, s);
    json_int("windows_x", s->nx);
    json_int("windows_y", s->ny);
    fields_json(result_slide_fields, RESULT_OF_GROUPS, s);
    json_text("groups_missing", missing);
}

static void put_features(const struct result_params *p, const struct result_slide *s)
{
    char name[32];
    double profile[FEATURES_OCTAVES];
    result_profile(p, &s->counts, profile);
    printf(", \"profile\": [");
    for (int k = 0; k < FEATURES_OCTAVES; k++) {
        fputs(k ? ", " : "", stdout);
        json_write_number(stdout, profile[k]);
    }
    putchar(']');
    json_real("slope", features_slope(profile));
    for (int m = 0; m < RESULT_MAPS; m++)
        for (int q = 0; result_has_quantiles(m) && q < FEATURES_QUANTILES; q++)
            json_real(result_quantile_name(name, sizeof name, m, q), s->quantiles[m][q]);
    struct slide_numbers n = s->of_spectra;
    for (int k = 0; k < SLIDE_NUMBERS; k++)
        json_real(slide_number_list[k].name, *slide_number_of(&n, k));
    if (s->numbers_missing)
        json_int("numbers_missing", s->numbers_missing);
    json_int("spectrum_tissue_windows", s->spectra[FEATURES_TISSUE].windows);
    json_int("spectrum_glass_windows", s->spectra[FEATURES_GLASS].windows);
}

static void put_result_slide(const struct result_params *p, const struct result_slide *s)
{
    json_begin("slide", s->name);
    put_counts(p, &s->counts);
    put_source(s);
    fields_json(result_slide_fields, RESULT_OF_ORIGIN, s);
    put_features(p, s);
    fields_json(result_slide_fields, (RESULT_OF_MACHINE | RESULT_REGIONS) & RESULT_SETS(p), s);
    printf("}");
}

int info_result_json(const char *path, struct result *r, struct err *e)
{
    const struct result_params *p = result_params(r);
    int bad = 0;
    put_head(path, "result", RESULT_FORMAT, RESULT_VERSION, result_creator(r));
    json_int("slide_count", result_slides(r));
    fields_json(result_params_fields, RESULT_SETS(p), p);
    put_counts(p, result_totals(r));
    printf(", \"slides\": [");
    for (int64_t k = 0; k < result_slides(r) && !bad; k++) {
        struct result_slide s;
        bad = result_load_parts(r, k, result_parts_in_file(r), &s, e);
        if (bad)
            break;
        fputs(k ? ", " : "", stdout);
        put_result_slide(p, &s);
        result_slide_free(&s);
    }
    puts("]}");
    return bad;
}
