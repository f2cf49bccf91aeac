/* info.c - see info.h: reads stores and results, and chooses the form. */
#include "process/commands/info.h"

#include "common/result/result_read.h"
#include "process/commands/info_csv.h"
#include "process/commands/info_json.h"
#include "process/commands/info_text.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

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
    int r = -1;
    struct store *s = store_open(path, e);
    if (!s)
        return -1;
    if (form == INFO_HISTOGRAM || form == INFO_CSV)
        err_set(e, "%s: is a store, which has no spectrum; name a result", path);
    else if (!read_store(s, &info, e))
        r = 0;
    if (r == 0 && form == INFO_JSON)
        info_store_json(&info);
    else if (r == 0)
        info_store_text(&info);
    free(info.sources);
    store_close(s);
    return r;
}

/* --- a result --- */

static int print_result(const char *path, enum info_form form, bool several, struct err *e)
{
    int r = 0;
    struct result *result = result_open(path, e);
    if (!result)
        return -1;
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

void info_begin(enum info_form form, int n)
{
    if (form == INFO_CSV)
        info_csv_head();
    if (form == INFO_HISTOGRAM)
        info_histogram_head(n > 1);
}

int info_print(const char *path, enum info_form form, int n, struct err *e)
{
    return result_is(path) ? print_result(path, form, n > 1, e) : print_store(path, form, e);
}
