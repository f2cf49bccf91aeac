/* info_json.c - the form for programs; see info_json.h. */
#include "process/commands/info_json.h"

#include "common/base/json.h"
#include "common/result/result_read.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* clang-format off */
#define TEXT(name, value) {name, INFO_FACT_TEXT, .text = (value)}
#define TEXT_OR_NONE(name, value) {name, INFO_FACT_TEXT, !*(value), .text = (value)}
#define INT(name, value) {name, INFO_FACT_INT, .integer = (value)}
#define REAL(name, value) {name, INFO_FACT_REAL, .real = (value)}
#define TRUTH(name, value) {name, INFO_FACT_TRUTH, .integer = (value)}
/* clang-format on */

int info_store_facts(const struct info_store *s, struct info_fact out[INFO_FACTS])
{
    const struct store_info *i = s->info;
    const bool no_jpeg = !i->jpeg_quality;
    const double quality = no_jpeg ? NAN : (double)i->jpeg_quality;
    const struct info_fact facts[] = {
        INT("bytes", s->file_bytes),
        TEXT("source_name", i->source_name),
        INT("source_bytes", i->source_bytes),
        TEXT("source_problem", i->source_problem),
        TEXT("quickhash", i->quickhash),
        TEXT("vendor", i->vendor),
        TEXT("reader", i->reader),
        TEXT_OR_NONE("library", i->library),
        TRUTH("identifiers", i->identifiers),
        INT("level", i->level),
        REAL("downsample", i->downsample),
        INT("width", i->width),
        INT("height", i->height),
        INT("channels", i->channels),
        REAL("mpp_x", i->mpp_x),
        REAL("mpp_y", i->mpp_y),
        REAL("objective_power", i->objective_power),
        INT("chunk_rows", i->chunk_rows),
        INT("chunk_cols", i->chunk_cols),
        INT("stripe_rows", i->stripe_rows),
        INT("group_rows", i->group_rows),
        INT("group_count", i->group_count),
        TEXT("codec", i->codec->name),
        TEXT_OR_NONE("codec_reason", i->codec_reason),
        TEXT_OR_NONE("colour_conflict", i->colour_conflict),
        {"jpeg_quality", INFO_FACT_REAL, no_jpeg, .real = quality},
        {"jpeg_subsampling", INFO_FACT_TEXT, no_jpeg, .text = i->jpeg_subsampling},
        {"jpeg_twice", INFO_FACT_REAL, no_jpeg, .real = i->jpeg_twice},
        INT("stored_bytes", s->extras.stored_bytes),
        REAL("codec_ratio", s->ratio),
        INT("tiles", s->tiles),
        INT("tiles_missing", i->tiles_missing),
        INT("tiles_damaged", i->tiles_damaged),
        INT("tiles_left_out", i->tiles_left_out),
        TRUTH("tissue_only", i->tissue_only),
        REAL("tissue_fraction", s->tissue),
        TEXT("tissue_rule", i->tissue_rule),
        TEXT("tissue_missing", i->tissue_missing),
        TEXT("tissue_doubt", i->tissue_doubt),
        TRUTH("thumbnail", s->extras.thumbnail),
        TRUTH("icc_profile", s->extras.icc_profile),
    };
    int n = sizeof facts / sizeof *facts;
    static_assert(sizeof facts / sizeof *facts + GLASS_NUMBERS <= INFO_FACTS, "raise INFO_FACTS");
    memcpy(out, facts, sizeof facts);
    for (int k = 0; k < GLASS_NUMBERS; k++)
        out[n++] = (struct info_fact)REAL(glass_list[k].name, i->glass[k]);
    return n;
}

static void put_fact(const struct info_fact *x)
{
    switch (x->kind) {
    case INFO_FACT_TEXT: json_text(x->name, x->text); break;
    case INFO_FACT_INT: json_int(x->name, x->integer); break;
    case INFO_FACT_REAL: json_real(x->name, x->real); break;
    case INFO_FACT_TRUTH: json_bool(x->name, x->integer); break;
    }
}

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
    struct info_fact facts[INFO_FACTS];
    const int n = info_store_facts(s, facts);
    put_head(s->path, "store", STORE_FORMAT, STORE_VERSION, s->extras.creator);
    for (int k = 0; k < n; k++)
        if (!facts[k].lacks)
            put_fact(&facts[k]);
    put_sources(s);
    puts("}");
}

/* --- a result --- */

static void put_parameters(const struct result_params *p)
{
    json_int("window", p->window);
    json_int("stride", p->stride);
    json_real("sigma", p->sigma);
    json_int("radius", p->radius);
    json_text("taper", p->taper);
    json_real("offset", p->offset);
    json_int("bins", p->bins);
    json_real("low_db", p->low_db);
    json_real("high_db", p->high_db);
    json_bool("tissue_only", p->tissue_only);
    json_real("min_tissue", p->min_tissue);
    json_bool("skip_damaged", p->skip_damaged);
    json_bool("roi", p->roi);
    if (p->roi) {
        json_real("min_roi", p->min_roi);
        json_text("roi_class", p->roi_class);
    }
}

static void put_counts(const struct result_params *p, const struct result_counts *c)
{
    double mean, std;
    result_moments(p, c->histogram, &mean, &std);
    json_int("windows", c->windows);
    json_count("samples", result_samples(p, c));
    json_count("underflow", c->underflow);
    json_count("overflow", c->overflow);
    json_real("mean_db", mean);
    json_real("std_db", std);
    for (int k = RESULT_MISSING; k < RESULT_TOUCHING; k++)
        json_int(result_touching_name(k), c->touching[k]);
    if (p->roi)
        json_int("windows_outside", c->outside);
}

static void put_source(const struct result_slide *s)
{
    char missing[256];
    result_missing_text(s->groups, s->group_count, missing, sizeof missing);
    json_text("source_name", s->source_name);
    json_int("source_bytes", s->source_bytes);
    json_bool("source_gray", s->source_gray);
    json_text("quickhash", s->quickhash);
    json_int("level", s->level);
    json_int("width", s->width);
    json_int("height", s->height);
    json_int("windows_x", s->nx);
    json_int("windows_y", s->ny);
    json_int("group_rows", s->group_rows);
    json_int("group_count", s->group_count);
    json_text("groups_missing", missing);
}

static void put_origin(const struct result_origin *o)
{
    json_real("mpp_x", o->mpp_x);
    json_real("mpp_y", o->mpp_y);
    json_real("downsample", o->downsample);
    json_real("objective_power", o->objective_power);
    json_text("vendor", o->vendor);
    json_real("tissue_fraction", o->tissue_fraction);
    json_int("tiles", o->tiles);
    json_int("tiles_missing", o->tiles_missing);
    json_int("tiles_damaged", o->tiles_damaged);
    json_int("tiles_left_out", o->tiles_left_out);
    if (o->jpeg_quality > 0) {
        json_int("jpeg_quality", o->jpeg_quality);
        json_text("jpeg_subsampling", o->jpeg_subsampling);
        json_real("jpeg_twice", o->jpeg_twice);
    }
    for (int k = 0; k < GLASS_NUMBERS; k++)
        json_real(glass_list[k].name, o->glass[k]);
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
    struct spectrum_numbers n = s->of_spectra;
    for (int k = 0; k < SPECTRUM_NUMBERS; k++)
        json_real(spectrum_number_list[k].name, *spectrum_number_of(&n, k));
    json_int("spectrum_tissue_windows", s->spectra[FEATURES_TISSUE].windows);
    json_int("spectrum_glass_windows", s->spectra[FEATURES_GLASS].windows);
}

static void put_result_slide(const struct result_params *p, const struct result_slide *s)
{
    json_begin("slide", s->name);
    put_counts(p, &s->counts);
    put_source(s);
    put_origin(&s->origin);
    put_features(p, s);
    if (p->roi)
        json_int("roi_crc32", s->roi_crc32);
    json_text("backend", s->backend);
    json_text("device", s->device);
    json_text("kernel", s->kernel);
    json_text("io", s->io);
    json_int("tiles_on_host", s->tiles_on_host);
    json_real("seconds", s->seconds);
    for (int k = 0; k < RESULT_STAGES; k++) {
        char name[32];
        json_real(result_stage_attribute(name, sizeof name, k), s->stages[k]);
    }
    printf("}");
}

int info_result_json(const char *path, struct result *r, struct err *e)
{
    const struct result_params *p = result_params(r);
    int bad = 0;
    put_head(path, "result", RESULT_FORMAT, RESULT_VERSION, result_creator(r));
    json_int("slide_count", result_slides(r));
    put_parameters(p);
    put_counts(p, result_totals(r));
    printf(", \"slides\": [");
    for (int64_t k = 0; k < result_slides(r) && !bad; k++) {
        struct result_slide s;
        bad = result_load_parts(r, k, result_parts_here(r), &s, e);
        if (bad)
            break;
        fputs(k ? ", " : "", stdout);
        put_result_slide(p, &s);
        result_slide_free(&s);
    }
    puts("]}");
    return bad;
}
