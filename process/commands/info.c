/*
 * info.c - what a store or a result contains, on stdout: for people, for programs, for tables. This
 * file reads stores and results, and chooses the form.
 */
#include "common/base/cli.h"
#include "common/result/result_read.h"
#include "process/commands/info_forms.h"
#include "process/options/commands.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

enum info_form {
    INFO_TEXT,      /* for people: names are shortened, control characters become '?' */
    INFO_JSON,      /* one object per line; names are exact */
    INFO_CSV,       /* a row per slide of results, or per store. UTF-8: names are made printable
                       as for people, but not shortened */
    INFO_HISTOGRAM, /* results only: one row per bin, columns separated by tabs */
};

/* --- a store --- */

static int64_t count_tiles(const struct store_info *i)
{
    int64_t rows = 0;
    for (int64_t g = 0; g < i->group_count; g++)
        rows += store_group_chunk_rows(i, g);
    return rows * store_chunk_columns(i);
}

static int read_tissue(struct store *s, double *fraction, struct err *e)
{
    struct store_tissue t = {0};
    const int found = store_read_tissue(s, &t, e);
    *fraction = found > 0 ? t.fraction : NAN;
    free(t.mask);
    return found < 0 ? -1 : 0;
}

static int read_store(struct store *s, struct info_store *out, struct err *e)
{
    struct stat st;
    const struct store_info *i = store_info(s);
    *out = (struct info_store){.path = store_path(s), .info = i, .tiles = count_tiles(i)};
    if (store_read_extras(s, &out->extras, e) || read_tissue(s, &out->tissue, e))
        return -1;
    if ((out->n_sources = store_read_sources(out->path, &out->sources, e)) < 0)
        return -1;
    if (stat(out->path, &st))
        return err_sys(e, "%s", out->path);
    out->file_bytes = st.st_size;
    const double pixels = (double)(out->tiles - i->tiles_left_out) * (double)store_chunk_bytes(i);
    out->ratio = out->extras.stored_bytes > 0 ? pixels / (double)out->extras.stored_bytes : NAN;
    return 0;
}

static int print_store(const char *path, enum info_form form, struct err *e)
{
    struct info_store info = {0};
    struct store *s = store_open(path, e);
    int bad = s ? read_store(s, &info, e) : -1;
    if (!bad && form == INFO_HISTOGRAM)
        bad = err_set(e, "%s: is a store, which has no spectrum; name a result", path);
    else if (!bad && form == INFO_JSON)
        info_store_json(&info);
    else if (!bad && form == INFO_CSV)
        info_store_csv(&info);
    else if (!bad)
        info_store_text(&info);
    free(info.sources);
    store_close(s);
    return bad;
}

/* --- a result --- */

/* *changed: rows of a table are of older results; all the same they are what the file has. */
static int print_result(const char *path, enum info_form form, bool several, bool *changed,
                        struct err *e)
{
    int r = 0;
    struct err line;
    struct result *result = result_open(path, e);
    if (!result)
        return -1;
    bool *rows = result_find_changed(result, &line);
    *changed = rows != NULL;
    free(rows);
    if (*line.msg)
        cli_say("%s", line.msg);
    switch (form) {
    case INFO_JSON: r = info_result_json(path, result, e); break;
    case INFO_CSV: r = info_result_csv(path, result, e); break;
    case INFO_HISTOGRAM: info_result_histogram(path, several, result); break;
    case INFO_TEXT: r = info_result_text(path, result, e); break;
    }
    result_close(result);
    return r;
}

/* --- both --- */

/* Is the table one of stores? The first file that is a store or a result says so. */
static bool is_of_stores(char *const *paths, int n)
{
    for (int k = 0; k < n; k++)
        if (result_is(paths[k]) || store_is(paths[k]))
            return !result_is(paths[k]);
    return false;
}

static int print_one(const char *path, enum info_form form, bool stores, bool several,
                     bool *changed, struct err *e)
{
    const bool result = result_is(path);
    if (form == INFO_CSV && (stores ? result : store_is(path)))
        return err_set(e, "%s: is a %s, but the table is of %s; name them in a call of their own",
                       path, result ? "result" : "store", stores ? "stores" : "results");
    return result ? print_result(path, form, several, changed, e) : print_store(path, form, e);
}

int info_main(struct options *o)
{
    const enum info_form form = o->histogram ? INFO_HISTOGRAM
                                : o->json    ? INFO_JSON
                                : o->csv     ? INFO_CSV
                                             : INFO_TEXT;
    const int n = o->files.n;
    const bool stores = form == INFO_CSV && is_of_stores(o->files.paths, n);
    int status = EXIT_DONE;
    if (form == INFO_CSV)
        info_csv_head(stores);
    if (form == INFO_HISTOGRAM)
        info_histogram_head(n > 1);
    for (int k = 0; k < n; k++) {
        struct err e = {0};
        bool changed = false;
        const int bad = print_one(o->files.paths[k], form, stores, n > 1, &changed, &e);
        if (bad || changed)
            fflush(stdout);
        status = cli_worst(status, bad ? cli_failed(&e) : changed ? EXIT_PART : EXIT_DONE);
    }
    return status;
}
