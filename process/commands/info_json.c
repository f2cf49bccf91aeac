/* info_json.c - the form for programs; see info_json.h. */
#include "process/commands/info_json.h"

#include "common/base/json.h"
#include "common/result/result_read.h"

#include <inttypes.h>
#include <stdio.h>

static void put_int(const char *key, int64_t value)
{
    printf(", \"%s\": %" PRId64, key, value);
}

static void put_count(const char *key, uint64_t value)
{
    printf(", \"%s\": %" PRIu64, key, value);
}

static void put_bool(const char *key, bool value)
{
    printf(", \"%s\": %s", key, value ? "true" : "false");
}

static void put_real(const char *key, double value)
{
    printf(", \"%s\": ", key);
    json_write_number(stdout, value);
}

static void put_text(const char *key, const char *value)
{
    printf(", \"%s\": ", key);
    json_write_string(stdout, value);
}

static void put_head(const char *format, const char *path, int64_t version, const char *creator)
{
    printf("{\"format\": \"%s\"", format);
    put_text("file", path);
    put_int("format_version", version);
    put_text("creator", creator);
}

/* --- a store --- */

static void put_slide(const struct store_info *i)
{
    put_text("source_name", i->source_name);
    put_int("source_bytes", i->source_bytes);
    put_text("source_problem", i->source_problem);
    put_text("quickhash", i->quickhash);
    put_text("vendor", i->vendor);
    put_text("reader", i->reader);
    put_bool("identifiers", i->identifiers);
    put_int("level", i->level);
    put_real("downsample", i->downsample);
    put_int("width", i->width);
    put_int("height", i->height);
    put_int("channels", i->channels);
    put_real("mpp_x", i->mpp_x);
    put_real("mpp_y", i->mpp_y);
    put_real("objective_power", i->objective_power);
}

static void put_layout(const struct info_store *s)
{
    const struct store_info *i = s->info;
    put_int("chunk_rows", i->chunk_rows);
    put_int("chunk_cols", i->chunk_cols);
    put_int("stripe_rows", i->stripe_rows);
    put_int("group_rows", i->group_rows);
    put_int("group_count", i->group_count);
    put_text("codec", i->codec->name);
    if (i->codec_reason[0])
        put_text("codec_reason", i->codec_reason);
    if (i->colour_conflict[0])
        put_text("colour_conflict", i->colour_conflict);
    if (i->jpeg_quality) {
        put_int("jpeg_quality", i->jpeg_quality);
        put_text("jpeg_subsampling", i->jpeg_subsampling);
        put_real("jpeg_twice", i->jpeg_twice);
    }
    put_int("stored_bytes", s->extras.stored_bytes);
    put_real("codec_ratio", s->ratio);
    put_int("tiles", s->tiles);
    put_int("tiles_missing", i->tiles_missing);
    put_int("tiles_damaged", i->tiles_damaged);
    put_int("tiles_left_out", i->tiles_left_out);
}

static void put_sources(const struct info_store *s)
{
    printf(", \"sources\": [");
    for (int64_t k = 0; k < s->n_sources; k++) {
        printf("%s{\"name\": ", k ? ", " : "");
        json_write_string(stdout, s->sources[k].name);
        put_int("bytes", s->sources[k].bytes);
        put_int("mtime_ns", s->sources[k].mtime_ns);
        put_int("index_crc32", s->sources[k].index_crc32);
        putchar('}');
    }
    putchar(']');
}

void info_store_json(const struct info_store *s)
{
    put_head(STORE_FORMAT, s->path, s->extras.version, s->extras.creator);
    put_int("bytes", s->file_bytes);
    put_slide(s->info);
    put_layout(s);
    put_bool("tissue_only", s->info->tissue_only);
    put_real("tissue_fraction", s->tissue);
    put_text("tissue_rule", s->info->tissue_rule);
    put_text("tissue_missing", s->info->tissue_missing);
    put_text("tissue_doubt", s->info->tissue_doubt);
    put_bool("thumbnail", s->extras.thumbnail);
    put_bool("icc_profile", s->extras.icc_profile);
    put_sources(s);
    puts("}");
}

/* --- a result --- */

static void put_parameters(const struct result_params *p)
{
    put_int("window", p->window);
    put_int("stride", p->stride);
    put_real("sigma", p->sigma);
    put_int("radius", p->radius);
    put_text("taper", p->taper);
    put_real("offset", p->offset);
    put_int("bins", p->bins);
    put_real("low_db", p->low_db);
    put_real("high_db", p->high_db);
    put_bool("tissue_only", p->tissue_only);
    put_real("min_tissue", p->min_tissue);
    put_bool("skip_damaged", p->skip_damaged);
    put_bool("roi", p->roi);
    if (p->roi) {
        put_real("min_roi", p->min_roi);
        put_text("roi_class", p->roi_class);
    }
    put_text("features", p->features);
}

static void put_counts(const struct result_params *p, const struct result_counts *c)
{
    double mean, std;
    result_moments(p, c->histogram, &mean, &std);
    put_int("windows", c->windows);
    put_count("samples", result_samples(p, c));
    put_count("underflow", c->underflow);
    put_count("overflow", c->overflow);
    put_real("mean_db", mean);
    put_real("std_db", std);
    for (int k = RESULT_MISSING; k < RESULT_TOUCHING; k++)
        if (c->touching[k] >= 0)
            put_int(result_touching_name(k), c->touching[k]);
    if (p->roi)
        put_int("windows_outside", c->outside);
}

static void put_source(const struct result_slide *s)
{
    char missing[256];
    result_missing_text(s->groups, s->group_count, missing, sizeof missing);
    put_text("source_name", s->source_name);
    put_int("source_bytes", s->source_bytes);
    put_bool("source_gray", s->source_gray);
    put_text("quickhash", s->quickhash);
    put_int("level", s->level);
    put_int("width", s->width);
    put_int("height", s->height);
    put_int("windows_x", s->nx);
    put_int("windows_y", s->ny);
    put_int("group_rows", s->group_rows);
    put_int("group_count", s->group_count);
    put_text("groups_missing", missing);
}

static void put_origin(const struct result_origin *o)
{
    put_real("mpp_x", o->mpp_x);
    put_real("mpp_y", o->mpp_y);
    put_real("downsample", o->downsample);
    put_real("objective_power", o->objective_power);
    put_text("vendor", o->vendor);
    put_real("tissue_fraction", o->tissue_fraction);
    put_int("tiles", o->tiles);
    put_int("tiles_missing", o->tiles_missing);
    put_int("tiles_damaged", o->tiles_damaged);
    put_int("tiles_left_out", o->tiles_left_out);
    if (o->jpeg_quality > 0) {
        put_int("jpeg_quality", o->jpeg_quality);
        put_text("jpeg_subsampling", o->jpeg_subsampling);
        put_real("jpeg_twice", o->jpeg_twice);
    }
}

static void put_features(const struct result_params *p, const struct result_slide *s)
{
    char name[32];
    double profile[FEATURES_OCTAVES];
    result_profile(p, &s->counts, profile);
    printf(", \"profile\": [");
    for (int k = 0; k < result_octaves(p); k++) {
        fputs(k ? ", " : "", stdout);
        json_write_number(stdout, profile[k]);
    }
    putchar(']');
    put_real("slope", features_slope(profile));
    for (int m = 0; m < RESULT_MAPS; m++)
        for (int q = 0; result_has_quantiles(p, m) && q < FEATURES_QUANTILES; q++)
            put_real(result_quantile_name(name, sizeof name, m, q), s->quantiles[m][q]);
    if (result_has_glass(p))
        put_real("glass_p03", s->glass_p03);
    put_int("spectrum_tissue_windows", s->spectra[FEATURES_TISSUE].windows);
    put_int("spectrum_glass_windows", s->spectra[FEATURES_GLASS].windows);
}

static void put_result_slide(const struct result_params *p, const struct result_slide *s)
{
    printf("{\"slide\": ");
    json_write_string(stdout, s->name);
    put_counts(p, &s->counts);
    put_source(s);
    if (s->origin.tiles >= 0)
        put_origin(&s->origin);
    if (result_is_spectral(p))
        put_features(p, s);
    if (p->roi)
        put_int("roi_crc32", s->roi_crc32);
    put_text("backend", s->backend);
    put_text("device", s->device);
    put_text("kernel", s->kernel);
    put_text("io", s->io);
    if (s->tiles_on_host >= 0)
        put_int("tiles_on_host", s->tiles_on_host);
    put_real("seconds", s->seconds);
    for (int k = 0; k < RESULT_STAGES; k++) {
        char name[32];
        put_real(result_stage_attribute(name, sizeof name, k), s->stages[k]);
    }
    printf("}");
}

int info_result_json(const char *path, struct result *r, struct err *e)
{
    const struct result_params *p = result_params(r);
    int bad = 0;
    put_head(RESULT_FORMAT, path, result_version(r), result_creator(r));
    put_int("slide_count", result_slides(r));
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
