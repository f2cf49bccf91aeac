/* info.c - see info.h. */
#include "process/info.h"

#include "common/cli.h"
#include "common/result.h"
#include "common/store.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* --- a store --- */

static void store_text(const char *path, const struct store_info *i, double file_bytes)
{
    char size[32], source[32];
    const int64_t columns = store_chunk_columns(i);
    int64_t rows = 0;
    for (int64_t g = 0; g < i->group_count; g++)
        rows += store_group_chunk_rows(i, g);
    cli_print_text(stdout, path);
    printf(": patch store, complete, %s\n  slide    ", cli_size(size, file_bytes));
    cli_print_text(stdout, i->source_name);
    fputs(" (", stdout);
    cli_print_text(stdout, i->vendor);
    printf(", %s), read by ", cli_size(source, (double)i->source_bytes));
    cli_print_text(stdout, i->reader);
    puts("");
    printf("  pixels   %" PRId64 " x %" PRId64 ", %s, level %" PRId64 " (downsample %g)", i->width,
           i->height, i->channels == 3 ? "RGB" : "gray", i->level, i->downsample);
    if (!isnan(i->mpp_x))
        printf(", %g um/px", i->mpp_x * i->downsample);
    if (!isnan(i->objective_power))
        printf(", objective %gx", i->objective_power);
    printf("\n  layout   %" PRId64 " group%s of %" PRId64 " rows, stripes of %" PRId64 ", chunks %" PRId64
           " x %" PRId64 ", %s\n",
           i->group_count, i->group_count == 1 ? "" : "s", i->group_rows, i->stripe_rows, i->chunk_cols,
           i->chunk_rows, i->codec->name);
    printf("  tiles    %" PRId64 ": %" PRId64 " missing, %" PRId64 " damaged, %" PRId64
           " left out\n", rows * columns, i->tiles_missing, i->tiles_damaged, i->tiles_left_out);
}

static void json_int(const char *key, int64_t value)
{
    printf(", \"%s\": %" PRId64, key, value);
}

static void json_real(const char *key, double value)
{
    printf(", \"%s\": ", key);
    cli_json_number(stdout, value);
}

static void json_text(const char *key, const char *value)
{
    printf(", \"%s\": ", key);
    cli_json_string(stdout, value);
}

static void store_json(const char *path, const struct store_info *i, double file_bytes)
{
    printf("{\"format\": \"%s\"", STORE_FORMAT);
    json_text("file", path);
    json_int("bytes", (int64_t)file_bytes);
    json_text("source_name", i->source_name);
    json_int("source_bytes", i->source_bytes);
    json_text("quickhash", i->quickhash);
    json_text("vendor", i->vendor);
    json_text("reader", i->reader);
    json_text("codec", i->codec->name);
    json_int("level", i->level);
    json_real("downsample", i->downsample);
    json_int("width", i->width);
    json_int("height", i->height);
    json_int("channels", i->channels);
    json_real("mpp_x", i->mpp_x);
    json_real("mpp_y", i->mpp_y);
    json_real("objective_power", i->objective_power);
    json_int("chunk_rows", i->chunk_rows);
    json_int("chunk_cols", i->chunk_cols);
    json_int("stripe_rows", i->stripe_rows);
    json_int("group_rows", i->group_rows);
    json_int("group_count", i->group_count);
    json_int("tiles_missing", i->tiles_missing);
    json_int("tiles_damaged", i->tiles_damaged);
    json_int("tiles_left_out", i->tiles_left_out);
    puts("}");
}

static int print_store(const char *path, enum info_form form, struct err *e)
{
    struct stat st;
    struct store *s = store_open(path, e);
    if (!s)
        return -1;
    if (form == INFO_HISTOGRAM || form == INFO_CSV) {
        store_close(s);
        return err_set(e, "%s: is a store, which has no spectrum; give a result", path);
    }
    const double bytes = stat(path, &st) ? 0 : (double)st.st_size;
    if (form == INFO_JSON)
        store_json(path, store_info(s), bytes);
    else
        store_text(path, store_info(s), bytes);
    store_close(s);
    return 0;
}

/* --- a result --- */

static void moments_text(const struct result_params *p, const struct result_counts *c)
{
    double mean, std;
    result_moments(p, c->histogram, &mean, &std);
    if (isnan(mean))
        printf("%12" PRId64 "          -          -\n", c->windows);
    else
        printf("%12" PRId64 " %10.3f %10.3f\n", c->windows, mean, std);
}

static int result_text(const char *path, struct result *r, struct err *e)
{
    const struct result_params *p = result_params(r);
    cli_print_text(stdout, path);
    printf(": spectrum of %" PRId64 " slide%s, complete\n", result_slides(r),
           result_slides(r) == 1 ? "" : "s");
    printf("  window %" PRId64 ", stride %" PRId64 ", sigma %g, taper %s, %" PRId64
           " bins from %g to %g dB\n", p->window, p->stride, p->sigma, p->taper, p->bins, p->low_db,
           p->high_db);
    printf("  %-40s %12s %10s %10s\n", "slide", "windows", "mean dB", "std dB");
    for (int64_t k = 0; k < result_slides(r); k++) {
        struct result_slide s;
        char missing[64];
        if (result_load_slide(r, k, &s, e))
            return -1;
        fputs("  ", stdout);
        cli_print_text(stdout, s.name);
        printf("%*s ", (int)(strlen(s.name) < 40 ? 40 - strlen(s.name) : 0), "");
        moments_text(p, &s.counts);
        result_missing_text(s.groups, s.group_count, missing, sizeof missing);
        if (missing[0])
            printf("    without group %s of %" PRId64 "\n", missing, s.group_count);
        result_slide_free(&s);
    }
    printf("  %-40s ", "all");
    moments_text(p, result_totals(r));
    const struct result_counts *c = result_totals(r);
    if (c->underflow || c->overflow)
        printf("  outside the range: %" PRIu64 " below, %" PRIu64 " above\n", c->underflow,
               c->overflow);
    return 0;
}

static void json_counts(const struct result_params *p, const struct result_counts *c)
{
    double mean, std;
    result_moments(p, c->histogram, &mean, &std);
    json_int("windows", c->windows);
    json_int("underflow", (int64_t)c->underflow);
    json_int("overflow", (int64_t)c->overflow);
    json_real("mean_db", mean);
    json_real("std_db", std);
}

static void json_slide(const struct result_params *p, const struct result_slide *s)
{
    char missing[256];
    result_missing_text(s->groups, s->group_count, missing, sizeof missing);
    printf("{\"slide\": ");
    cli_json_string(stdout, s->name);
    json_counts(p, &s->counts);
    json_text("source_name", s->source_name);
    json_text("quickhash", s->quickhash);
    json_int("level", s->level);
    json_int("width", s->width);
    json_int("height", s->height);
    json_int("group_count", s->group_count);
    json_text("groups_missing", missing);
    json_text("backend", s->backend);
    json_text("device", s->device);
    json_text("kernel", s->kernel);
    json_text("io", s->io);
    json_real("seconds", s->seconds);
    for (int k = 0; k < RESULT_STAGES; k++) {
        char name[32];
        snprintf(name, sizeof name, "%s_seconds", result_stage_name(k));
        json_real(name, s->stages[k]);
    }
    printf("}");
}

static int result_json(const char *path, struct result *r, struct err *e)
{
    const struct result_params *p = result_params(r);
    printf("{\"format\": \"%s\"", RESULT_FORMAT);
    json_text("file", path);
    json_int("window", p->window);
    json_int("stride", p->stride);
    json_real("sigma", p->sigma);
    json_text("taper", p->taper);
    json_int("bins", p->bins);
    json_real("low_db", p->low_db);
    json_real("high_db", p->high_db);
    json_counts(p, result_totals(r));
    printf(", \"slides\": [");
    for (int64_t k = 0; k < result_slides(r); k++) {
        struct result_slide s;
        if (result_load_slide(r, k, &s, e)) {
            puts("]}");
            return -1;
        }
        fputs(k ? ", " : "", stdout);
        json_slide(p, &s);
        result_slide_free(&s);
    }
    puts("]}");
    return 0;
}

/* --- a result as a table --- */

static void csv_text(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if (*s == '"')
            putchar('"');
        putchar(*s);
    }
    putchar('"');
}

static void csv_counts(const struct result_params *p, const struct result_counts *c)
{
    double mean, std;
    result_moments(p, c->histogram, &mean, &std);
    printf(",%" PRId64, c->windows);
    if (isnan(mean))
        printf(",,");
    else
        printf(",%.17g,%.17g", mean, std);
    printf(",%" PRIu64 ",%" PRIu64, c->underflow, c->overflow);
}

void info_csv_head(void)
{
    puts("file,kind,slide,windows,mean_db,std_db,underflow,overflow,width,height,level,groups_missing,"
         "source_name,seconds");
}

static int result_csv(const char *path, struct result *r, struct err *e)
{
    for (int64_t k = 0; k < result_slides(r); k++) {
        struct result_slide s;
        char missing[256];
        if (result_load_slide(r, k, &s, e))
            return -1;
        result_missing_text(s.groups, s.group_count, missing, sizeof missing);
        csv_text(path);
        fputs(",slide,", stdout);
        csv_text(s.name);
        csv_counts(result_params(r), &s.counts);
        printf(",%" PRId64 ",%" PRId64 ",%" PRId64 ",\"%s\",", s.width, s.height, s.level, missing);
        csv_text(s.source_name);
        printf(",%.6f\n", s.seconds);
        result_slide_free(&s);
    }
    csv_text(path);
    fputs(",corpus,", stdout);
    csv_counts(result_params(r), result_totals(r));
    puts(",,,,,,");
    return 0;
}

static int result_bins(struct result *r)
{
    const struct result_params *p = result_params(r);
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    puts("low_db\thigh_db\tcount");
    for (int64_t k = 0; k < p->bins; k++)
        printf("%.6g\t%.6g\t%" PRIu64 "\n", p->low_db + width * (double)k,
               p->low_db + width * (double)(k + 1), result_totals(r)->histogram[k]);
    return 0;
}

static int print_result(const char *path, enum info_form form, struct err *e)
{
    struct result *r = result_open(path, e);
    if (!r)
        return -1;
    int bad = form == INFO_JSON        ? result_json(path, r, e)
              : form == INFO_CSV       ? result_csv(path, r, e)
              : form == INFO_HISTOGRAM ? result_bins(r)
                                       : result_text(path, r, e);
    result_close(r);
    return bad;
}

int info_print(const char *path, enum info_form form, struct err *e)
{
    return result_is(path) ? print_result(path, form, e) : print_store(path, form, e);
}
