/* result_read.c - reads results and trusts nothing in them; see result_read.h. */
#include "common/result/result_read.h"

#include "common/base/clock.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/codec/codec.h"
#include "common/hdf5/h5_attr.h"
#include "common/hdf5/h5_file.h"
#include "common/result/result.h"
#include "common/result/result_features.h"
#include "common/result/result_table.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct h5_format format = {RESULT_FORMAT, RESULT_VERSION, "", 0};

bool result_is(const char *path)
{
    const enum h5_kind kind = h5_look(path, &format, NULL);
    return kind != H5_OTHER && kind != H5_UNREADABLE && kind != H5_ERROR;
}

bool result_is_foreign(const char *path)
{
    return h5_look(path, &format, NULL) == H5_OTHER;
}

int result_check_target(const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : err_sys(e, "%s", path);
    if (S_ISDIR(st.st_mode))
        return err_set(e, "%s: is a folder; name a file", path);
    switch (h5_look(path, &format, e)) {
    case H5_WHOLE:
    case H5_UNFINISHED: return 0;
    case H5_UNKNOWN: return err_add(e, "not overwritten (name another file)");
    case H5_ERROR: return -1;
    case H5_UNREADABLE:
    case H5_OTHER: break;
    }
    return err_set(e, "%s: already exists and is not a result; not overwritten: name another file",
                   path);
}

static int get_params(hid_t file, struct result_params *p, struct err *e)
{
    if (h5_get_fields(file, result_params_fields, RESULT_HERE, p, e) ||
        (p->roi && h5_get_fields(file, result_params_fields, RESULT_REGIONS, p, e)))
        return -1;
    hsize_t dims[1] = {(hsize_t)p->bins};
    hid_t ds = h5_open_array(file, "histogram", H5T_NATIVE_UINT64, 1, dims, e);
    int r = ds < 0 ? -1 : h5_get_fields(ds, result_params_fields, RESULT_OF_HISTOGRAM, p, e);
    h5_close(ds);
    return r ? r : result_check_params(p, e);
}

static int check_moments(hid_t o, const struct result_params *p, const struct result_counts *c,
                         struct err *e)
{
    double mean, std;
    int64_t samples;
    if (h5_get_real(o, "mean_db", &mean, e) || h5_get_real(o, "std_db", &std, e) ||
        h5_get_int(o, "samples", 0, INT64_MAX, &samples, e))
        return -1;
    return result_check_moments(p, c, mean, std, samples, e);
}

static int get_counts(hid_t o, const struct result_params *p, struct result_counts *c,
                      struct err *e)
{
    const hsize_t dims[1] = {(hsize_t)p->bins};
    if (h5_get_fields(o, result_counts_fields, RESULT_SETS(p), c, e) ||
        result_check_touching(c, e) ||
        h5_read_array(o, "histogram", H5T_NATIVE_UINT64, 1, dims, c->histogram, e))
        return -1;
    return result_check_sum(p, c, e) || check_moments(o, p, c, e) ? -1 : 0;
}

struct result {
    char *path;
    char creator[64];
    struct result_params params;
    struct result_counts totals;
    hid_t file, slides;
    int64_t count;
    char **names;               /* [count], sorted */
    struct result_table *table; /* or NULL */
    struct result *other;       /* of a table: the result that was read last, or NULL */
};

/* Called for each link of /slides. */
static herr_t collect_name(hid_t group, const char *name, const H5L_info_t *info, void *arg)
{
    struct result *r = arg;
    (void)group;
    (void)info;
    r->names = memory_grow(r->names, r->count, sizeof *r->names);
    r->names[r->count++] = memory_copy(name);
    return 0;
}

/* Called for a table instead of iterating over /slides. */
static int list_rows(struct result *r, int64_t slides, struct err *e)
{
    if (!(r->table = result_table_open(r->file, &r->params, slides, e)))
        return -1;
    r->names = memory_need((size_t)slides + 1, sizeof *r->names);
    for (; r->count < slides; r->count++)
        r->names[r->count] = result_table_name(r->table, r->count);
    return 0;
}

static int list_slides(struct result *r, int64_t slides, struct err *e)
{
    if ((r->slides = h5_open_group(r->file, "slides", e)) < 0)
        return -1;
    return H5Literate(r->slides, H5_INDEX_NAME, H5_ITER_INC, NULL, collect_name, r) < 0 ||
                   r->count != slides
               ? err_set(e, "its list of slides is damaged")
               : 0;
}

/* 1: it is a table. A table that another program has added beside the slides does not count. */
static int is_table(hid_t file, struct err *e)
{
    const int slides = h5_has_link(file, "slides", e);
    return slides ? slides < 0 ? -1 : 0 : h5_has_link(file, "table", e);
}

struct result *result_open(const char *path, struct err *e)
{
    int64_t slide_count;
    int table;
    struct result *r = memory_need(1, sizeof *r);
    r->path = memory_copy(path);
    r->slides = -1;
    r->file = h5_open(path, &format, e);
    if (r->file < 0)
        goto fail;
    if (h5_get_text(r->file, "creator", r->creator, sizeof r->creator, NULL))
        r->creator[0] = 0;
    table = is_table(r->file, e);
    if (table < 0 || get_params(r->file, &r->params, e))
        goto unsound;
    r->totals.histogram = memory_need((size_t)r->params.bins, sizeof(uint64_t));
    if (get_counts(r->file, &r->params, &r->totals, e) ||
        h5_get_int(r->file, "slide_count", 0, INT32_MAX, &slide_count, e) ||
        (table ? list_rows(r, slide_count, e) : list_slides(r, slide_count, e)))
        goto unsound;
    return r;
unsound:
    if (!h5_is_newer(r->file, path, &format, e))
        err_add(e, "%s: not a valid result", path);
fail:
    result_close(r);
    return NULL;
}

void result_close(struct result *r)
{
    if (!r)
        return;
    result_close(r->other);
    result_table_close(r->table);
    h5_close(r->slides);
    if (r->file >= 0)
        H5Fclose(r->file);
    for (int64_t k = 0; k < r->count; k++)
        free(r->names[k]);
    free(r->names);
    free(r->totals.histogram);
    free(r->path);
    free(r);
}

const struct result_params *result_params(const struct result *r)
{
    return &r->params;
}

const char *result_creator(const struct result *r)
{
    return r->creator;
}

const struct result_counts *result_totals(const struct result *r)
{
    return &r->totals;
}

int64_t result_slides(const struct result *r)
{
    return r->count;
}

const char *result_slide_name(const struct result *r, int64_t k)
{
    return r->names[k];
}

/* Before a number that ends at n: its begin; n: there is no number as a part has it. */
static size_t before_number(const char *text, size_t n)
{
    size_t k = n;
    while (k > 0 && text[k - 1] >= '0' && text[k - 1] <= '9')
        k--;
    return text[k] == '0' ? n : k;
}

size_t result_part_of(const char *stem, size_t n)
{
    const size_t last = before_number(stem, n);
    if (last == n || last < 1 || stem[last - 1] != '-')
        return 0;
    const size_t first = before_number(stem, last - 1);
    return first == last - 1 || first < 1 || stem[first - 1] != '.' ? 0 : first - 1;
}

bool result_has_own_name(const struct result *r, const char *path)
{
    size_t n;
    const char *stem = path_stem(path, &n);
    const char *slide = result_slides(r) == 1 ? result_slide_name(r, 0) : "";
    const size_t m = strlen(slide);
    return m > 0 && (m == n || m == result_part_of(stem, n)) && !memcmp(stem, slide, m);
}

int64_t result_find_slide(const struct result *r, const char *name)
{
    int64_t low = 0, high = r->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(r->names[middle], name);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

unsigned result_parts_in_file(const struct result *r)
{
    return r->table ? 0 : RESULT_ALL_PARTS;
}

static hid_t open_slide(const struct result *r, int64_t k, struct err *e)
{
    return h5_open_group(r->slides, r->names[k], e);
}

static hid_t native_type(enum result_type type)
{
    return type == RESULT_FLOAT32 ? H5T_NATIVE_FLOAT
           : type == RESULT_INT16 ? H5T_NATIVE_INT16
                                  : H5T_NATIVE_UINT8;
}

/* A map that the file lacks, because an earlier version made it, is absent: data_crc32 and the seal
 * show what another program has removed. */
static int get_maps(hid_t o, const struct result *r, struct result_slide *s, struct err *e)
{
    const hsize_t dims[2] = {(hsize_t)s->ny, (hsize_t)s->nx};
    for (int m = 0; m < RESULT_MAPS; m++) {
        struct result_map *map = &s->maps[m];
        const int has = h5_has_link(o, map->kind->name, e);
        if (has < 0)
            return -1;
        map->absent = !has;
        for (int q = 0; map->absent && q < FEATURES_QUANTILES; q++)
            s->quantiles[m][q] = NAN;
        if (!map->values || map->absent)
            continue;
        if (h5_read_array(o, map->kind->name, native_type(map->kind->type), 2, dims, map->values,
                          e) ||
            result_check_values(&r->params, map, s->nx * s->ny, e))
            return -1;
    }
    return 0;
}

static int get_slide(hid_t o, const struct result *r, unsigned parts, struct result_slide *s,
                     struct err *e)
{
    const struct result_params *p = &r->params;
    if (h5_check_seal(o, e) || h5_get_fields(o, result_slide_fields, RESULT_SETS(p), s, e) ||
        result_check_tiles(s, e))
        return -1;
    s->nx = result_windows_along(s->width, p);
    s->ny = result_windows_along(s->height, p);
    const hsize_t groups[1] = {(hsize_t)s->group_count};
    if (result_slide_alloc_parts(s, p, parts, e) || get_counts(o, p, &s->counts, e) ||
        h5_read_array(o, "groups_done", H5T_NATIVE_UINT8, 1, groups, s->groups, e) ||
        get_maps(o, r, s, e))
        return -1;
    return result_get_features(o, p, parts, s, e);
}

/* For a slide with all its parts. A map that it lacks may be what another program has removed. */
static int check_data_crc(const struct result_params *p, const struct result_slide *s,
                          struct err *e)
{
    const char *lacks = NULL;
    if (result_data_crc(p, s) == (uint32_t)s->data_crc32)
        return 0;
    for (int m = 0; m < RESULT_MAPS && !lacks; m++)
        lacks = s->maps[m].absent ? s->maps[m].kind->name : NULL;
    return err_set(e, "it is damaged (data_crc32 does not match%s%s); " ERR_MAKE_AGAIN,
                   lacks ? ", and it lacks " : "", lacks ? lacks : "");
}

/* --- slides of a table --- */

/* Below the folder of the table: not from the root, and never up. */
static bool is_below(const char *path)
{
    if (!*path || *path == '/')
        return false;
    for (const char *at = path; at; at = strchr(at, '/'), at = at ? at + 1 : NULL)
        if (!strncmp(at, "..", 2) && (at[2] == '/' || !at[2]))
            return false;
    return true;
}

int result_slide_path(struct result *r, int64_t k, char *path, size_t size, struct err *e)
{
    struct result_row row;
    const char *base = path_base_name(r->path);
    if (!r->table)
        return (size_t)snprintf(path, size, "%s", r->path) < size
                   ? 0
                   : err_set(e, "%s: the path is too long", r->path);
    if (result_table_load(r->table, k, NULL, &row, e))
        return -1;
    if (!is_below(row.result))
        return err_set(e,
                       "its result \"%s\" is not below the table's folder: "
                       "rejected",
                       row.result);
    return (size_t)snprintf(path, size, "%.*s%s", (int)(base - r->path), r->path, row.result) < size
               ? 0
               : err_set(e, "the path of its result is too long");
}

#define MADE_AGAIN "%s: has been made again since the table was written; merge again"

/* Is a slide of `other` the one that a row describes? */
static int check_other(const struct result *other, const struct result_slide *s,
                       const struct result_slide *row, struct err *e)
{
    return s->data_crc32 == row->data_crc32 && !strcmp(s->quickhash, row->quickhash) &&
                   s->nx == row->nx && s->ny == row->ny
               ? 0
               : err_set(e, MADE_AGAIN, other->path);
}

/* Opens the result that has the maps of slide k, or takes `open` if that is it; *i gets the slide's
 * number there. Closes `open` otherwise. NULL on failure. */
static struct result *open_other(struct result *r, int64_t k, struct result *open, int64_t *i,
                                 struct err *e)
{
    char path[PATH_MAX];
    if (result_slide_path(r, k, path, sizeof path, e))
        goto fail;
    if (!open || strcmp(open->path, path)) {
        result_close(open);
        if (!(open = result_open(path, e))) {
            err_add(e, "its maps are missing");
            return NULL;
        }
    }
    if (open->table) {
        err_set(e, "%s: is a table, too; its maps must be in a result", path);
        goto fail;
    }
    if ((*i = result_find_slide(open, r->names[k])) < 0) {
        err_set(e, "%s: does not have this slide; merge again", path);
        goto fail;
    }
    if (!result_same_params(&r->params, &open->params, NULL))
        return open;
    err_set(e, "%s: has other parameters than the table; merge again", path);
fail:
    result_close(open);
    return NULL;
}

static int load_row(struct result *r, int64_t k, unsigned parts, struct result_slide *s,
                    struct err *e)
{
    struct result_row row;
    int64_t i;
    *s = (struct result_slide){.group_count = 1};
    if (result_slide_alloc_parts(s, &r->params, 0, e))
        return -1;
    uint64_t *histogram = s->counts.histogram;
    if (result_table_load(r->table, k, histogram, &row, e))
        goto fail;
    uint8_t *groups = memory_need((size_t)row.slide.group_count, 1);
    free(s->groups);
    memset(groups, 1, (size_t)row.slide.group_count);
    row.slide.groups = groups;
    memcpy(row.slide.maps, s->maps, sizeof s->maps);
    *s = row.slide;
    if (!parts)
        return 0;
    if (!(r->other = open_other(r, k, r->other, &i, e)))
        goto fail;
    result_slide_free(s);
    if (result_load_parts(r->other, i, parts, s, e))
        return -1;
    if (!check_other(r->other, s, &row.slide, e))
        return 0;
fail:
    result_slide_free(s);
    return -1;
}

int result_load_parts(struct result *r, int64_t k, unsigned parts, struct result_slide *s,
                      struct err *e)
{
    *s = (struct result_slide){0};
    if (r->table)
        return load_row(r, k, parts, s, e) ? err_add(e, "%s: slide %s", r->path, r->names[k]) : 0;
    snprintf(s->name, sizeof s->name, "%s", r->names[k]);
    hid_t o = h5_open_group(r->slides, r->names[k], e);
    int bad = o < 0 || get_slide(o, r, parts, s, e) ||
              (parts == RESULT_ALL_PARTS && check_data_crc(&r->params, s, e));
    h5_close(o);
    if (!bad)
        return 0;
    result_slide_free(s);
    return h5_is_newer(r->file, r->path, &format, e)
               ? -1
               : err_add(e, "%s: slide %s", r->path, r->names[k]);
}

int result_load_slide(struct result *r, int64_t k, struct result_slide *s, struct err *e)
{
    return result_load_parts(r, k, RESULT_ALL_PARTS, s, e);
}

int result_read_scale(struct result *r, int64_t k, struct result_origin *o, struct err *e)
{
    struct result_row row = {0};
    int bad;
    if (r->table)
        bad = result_table_load(r->table, k, NULL, &row, e);
    else {
        const hid_t slide = open_slide(r, k, e);
        bad =
            slide < 0 || h5_get_fields(slide, result_slide_fields, RESULT_OF_SCALE, &row.slide, e);
        h5_close(slide);
    }
    *o = row.slide.origin;
    return bad ? err_add(e, "%s: slide %s", r->path, r->names[k]) : 0;
}

int result_read_numbers(struct result *r, int64_t k, struct report_numbers *n, struct err *e)
{
    struct result_row row;
    if (!r->table)
        return 0;
    if (result_table_load(r->table, k, NULL, &row, e) ||
        result_table_load_sharpness(r->table, k, &row.numbers, e)) {
        err_add(e, "%s: slide %s", r->path, r->names[k]);
        return -1;
    }
    *n = row.numbers;
    return 1;
}

/* Has the result of a row other data than when the row was written? `row` has only columns. */
static bool has_changed(struct result *r, int64_t k, const struct result_row *row)
{
    int64_t i;
    struct err e = {0};
    struct result_slide s;
    if (!(r->other = open_other(r, k, r->other, &i, &e)) ||
        result_load_parts(r->other, i, 0, &s, &e))
        return true;
    const bool same = !check_other(r->other, &s, &row->slide, &e);
    result_slide_free(&s);
    return !same;
}

bool *result_find_changed(struct result *r, struct err *line)
{
    bool *changed = NULL;
    int64_t n_changed = 0, n_gone = 0;
    char path[PATH_MAX], first[PATH_MAX] = "";
    *line = (struct err){0};
    for (int64_t k = 0; r->table && k < r->count; k++) {
        struct stat st;
        struct err e = {0};
        struct result_row row;
        if (result_table_load(r->table, k, NULL, &row, &e) ||
            result_slide_path(r, k, path, sizeof path, &e))
            continue; /* whoever reads the row says so */
        const bool gone = stat(path, &st) != 0;
        if (!gone &&
            ((st.st_size == row.stamp.bytes && clock_ns(&st.st_mtim) == row.stamp.mtime_ns) ||
             !has_changed(r, k, &row)))
            continue;
        if (n_changed + n_gone == 0)
            snprintf(first, sizeof first, "%s", path);
        if (!changed && !gone)
            changed = memory_need((size_t)r->count, sizeof *changed);
        if (!gone)
            changed[k] = true;
        n_changed += !gone;
        n_gone += gone;
    }
    if (n_changed + n_gone > 0)
        err_set(line,
                "%s: results have changed since the table was written (%" PRId64 " of %" PRId64
                ") or are gone (%" PRId64 "); the first is %s; merge again",
                r->path, n_changed, r->count, n_gone, first);
    return changed;
}

int result_refuse_changed(struct result *r, int64_t k, struct err *e)
{
    char path[PATH_MAX];
    if (!result_slide_path(r, k, path, sizeof path, e))
        err_set(e, MADE_AGAIN, path);
    return err_add(e, "%s: slide %s", r->path, r->names[k]);
}

struct result_table *result_table_of(const struct result *r)
{
    return r->table;
}

/* --- everything --- */

/* Are n numbers of a row, one column, those of the result? *lacking counts the columns that have
 * none where the result has one. */
static bool same_numbers(const double *want, const double *have, int n, int64_t *lacking)
{
    bool lacks = false;
    for (int k = 0; k < n; k++) {
        if (!isnan(have[k]) && !(fabs(want[k] - have[k]) <= 1e-6 * (1 + fabs(want[k]))))
            return false;
        lacks |= isnan(have[k]) && !isnan(want[k]);
    }
    *lacking += lacks;
    return true;
}

/* The numbers that follow from the spectra. */
static bool same_slide_numbers(struct slide_numbers want, struct slide_numbers have,
                               int64_t *lacking)
{
    bool same = true;
    for (int k = 0; k < SLIDE_NUMBERS; k++)
        same &= same_numbers(slide_number_of(&want, k), slide_number_of(&have, k), 1, lacking);
    return same;
}

static bool same_report_numbers(struct report_numbers *want, struct report_numbers *have,
                                int64_t *lacking)
{
    bool same = !memcmp(have->sharp, want->sharp, sizeof want->sharp);
    for (int k = 0; k < REPORT_NUMBER_KINDS; k++)
        same &= same_numbers(report_number_of(want, k), report_number_of(have, k),
                             (int)report_number_list[k].n, lacking);
    return same;
}

/* Do the numbers of a row, if it has them, follow from the slide? No more may be absent than the
 * row is known to lack. */
static int check_numbers(struct result *r, int64_t k, const struct result_slide *s,
                         const struct result_slide *row, struct err *e)
{
    struct report_numbers have, want;
    int64_t lacking = 0;
    const int has = result_read_numbers(r, k, &have, e);
    if (has <= 0)
        return has;
    report_numbers_find(&r->params, s, &want);
    return same_slide_numbers(s->of_spectra, row->of_spectra, &lacking) &&
                   same_report_numbers(&want, &have, &lacking) && lacking <= row->numbers_missing
               ? 0
               : err_set(e, "the numbers in the table are not those of its result; delete the "
                            "table and merge again");
}

/* Does the row of a table have what the slide, which was read from a result, has? */
static int check_row(struct result *r, int64_t k, const struct result_slide *s, struct err *e)
{
    struct result_slide row;
    if (!r->table)
        return 0;
    if (result_load_parts(r, k, 0, &row, e))
        return -1;
    const bool same = row.counts.windows == s->counts.windows &&
                      row.counts.underflow == s->counts.underflow &&
                      !memcmp(row.counts.octaves, s->counts.octaves, sizeof s->counts.octaves) &&
                      !memcmp(row.counts.histogram, s->counts.histogram,
                              (size_t)r->params.bins * sizeof *s->counts.histogram);
    result_slide_free(&row);
    return same ? check_numbers(r, k, s, &row, e)
                : err_set(e, "the row of the table is not that of its result");
}

/* Only contiguous values are read row by row. */
static int check_layout(hid_t dataset, int map, struct err *e)
{
    return h5_is_contiguous(dataset)
               ? 0
               : err_set(e, "%s: another program has rewritten it; " ERR_MAKE_AGAIN,
                         result_map_kind(map)->name);
}

static int check_maps(hid_t o, const struct result_slide *s, struct err *e)
{
    int bad = 0;
    for (int m = 0; m < RESULT_MAPS && !bad; m++) {
        if (s->maps[m].absent)
            continue;
        hid_t ds = h5_open_dataset(o, result_map_kind(m)->name, e);
        bad = ds < 0 || check_layout(ds, m, e);
        h5_close(ds);
    }
    return bad;
}

static int add_slide(struct result *r, int64_t k, struct result_counts *sum, struct err *e)
{
    struct result_slide s;
    hid_t o = -1;
    if (result_load_slide(r, k, &s, e))
        return -1;
    result_add_counts(sum, &s.counts, r->params.bins);
    int bad = check_row(r, k, &s, e) ||
              (o = r->table ? open_slide(r->other, result_find_slide(r->other, s.name), e)
                            : open_slide(r, k, e)) < 0 ||
              check_maps(o, &s, e) || result_check_features(o, &r->params, &s, e);
    if (bad)
        err_add(e, "%s: slide %s", r->path, r->names[k]);
    h5_close(o);
    result_slide_free(&s);
    return bad ? -1 : 0;
}

static int check_totals(const struct result *r, const struct result_counts *sum, struct err *e)
{
    const struct result_counts *t = &r->totals;
    if (sum->windows != t->windows || sum->underflow != t->underflow ||
        sum->overflow != t->overflow || sum->outside != t->outside ||
        memcmp(sum->touching, t->touching, sizeof sum->touching) ||
        memcmp(sum->histogram, t->histogram, (size_t)r->params.bins * sizeof *t->histogram))
        return err_set(e, "%s: the totals are not the sum of the slides; " ERR_MAKE_AGAIN, r->path);
    return 0;
}

int result_check(const char *path, struct err *e)
{
    struct result_counts sum = {0};
    struct result *r = result_open(path, e);
    if (!r)
        return -1;
    int bad = 0;
    sum.histogram = memory_need((size_t)r->params.bins, sizeof *sum.histogram);
    for (int64_t k = 0; k < r->count && !bad; k++)
        bad = add_slide(r, k, &sum, e);
    bad = bad || check_totals(r, &sum, e);
    free(sum.histogram);
    result_close(r);
    return bad ? -1 : 0;
}

/* --- a map row by row --- */

enum { CHECKED_BYTES = 1 << 20 }; /* read in one go for the checksum */

struct result_rows {
    const struct result_map_kind *kind;
    hid_t dataset;
    int64_t nx, ny;
    struct result *of; /* of a slide of a table: the result that has the map; owned */
};

size_t result_rows_bytes(const struct result_rows *m)
{
    return (size_t)m->nx * result_type_bytes(m->kind->type);
}

int result_read_rows(struct result_rows *m, int64_t first, int64_t n, void *values, struct err *e)
{
    const hsize_t start[2] = {(hsize_t)first, 0}, count[2] = {(hsize_t)n, (hsize_t)m->nx};
    hid_t file = H5Dget_space(m->dataset), memory = H5Screate_simple(2, count, NULL);
    int bad = 0;
    if (file < 0 || memory < 0 ||
        H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
        H5Dread(m->dataset, native_type(m->kind->type), memory, file, H5P_DEFAULT, values) < 0)
        bad = h5_error(e, "cannot read %s", m->kind->name);
    h5_close(memory);
    h5_close(file);
    return bad;
}

/* Reads n rows into `values`. What is wrong with their values is put into *why. */
static int check_rows(struct result_rows *m, const struct result_params *p, int64_t first,
                      int64_t n, void *values, uint32_t *crc, struct err *why, struct err *e)
{
    const struct result_map map = {m->kind, values, false};
    if (result_read_rows(m, first, n, values, e))
        return -1;
    *crc = codec_crc32_more(*crc, values, (size_t)n * result_rows_bytes(m));
    if (!*why->msg)
        result_check_values(p, &map, n * m->nx, why);
    return 0;
}

/* One pass over the map, with memory that does not depend on its height. */
static int check_map(struct result_rows *m, const struct result_params *p, struct err *e)
{
    int64_t want = 0, step = CHECKED_BYTES / (int64_t)result_rows_bytes(m) + 1;
    uint32_t crc = 0;
    int bad = 0;
    struct err why = {0};
    if (h5_get_int(m->dataset, "crc32", 0, UINT32_MAX, &want, e))
        return err_add(e, "%s", m->kind->name);
    step = step < m->ny ? step : m->ny;
    void *values = memory_try((size_t)step, result_rows_bytes(m), e);
    if (!values)
        return -1;
    for (int64_t j = 0; j < m->ny && !bad; j += step)
        bad = check_rows(m, p, j, step < m->ny - j ? step : m->ny - j, values, &crc, &why, e);
    free(values);
    if (!bad && crc != want)
        bad = err_set(e, "%s is damaged (CRC mismatch); " ERR_MAKE_AGAIN, m->kind->name);
    if (!bad && *why.msg)
        bad = err_copy(e, &why);
    return bad;
}

/* The result that has the maps of slide k of a table, for the rows of a map alone: `r` may take
 * another one meanwhile. */
static struct result *open_rows_of(struct result *r, int64_t k, const struct result_slide *row,
                                   int64_t *i, struct err *e)
{
    struct result_slide s;
    struct result *of = open_other(r, k, NULL, i, e);
    if (!of)
        return NULL;
    int bad = result_load_parts(of, *i, 0, &s, e);
    if (!bad) {
        bad = check_other(of, &s, row, e);
        result_slide_free(&s);
    }
    if (!bad)
        return of;
    result_close(of);
    return NULL;
}

struct result_rows *result_open_rows(struct result *r, int64_t k, int map,
                                     const struct result_slide *s, struct err *e)
{
    const hsize_t dims[2] = {(hsize_t)s->ny, (hsize_t)s->nx};
    struct result_rows *m = memory_need(1, sizeof *m);
    *m = (struct result_rows){result_map_kind(map), -1, s->nx, s->ny, NULL};
    int64_t i = k;
    if (r->table)
        m->of = open_rows_of(r, k, s, &i, e);
    hid_t o = r->table && !m->of ? -1 : open_slide(m->of ? m->of : r, i, e);
    const int has = o < 0 ? -1 : h5_has_link(o, m->kind->name, e);
    if (has == 0)
        err_set(e,
                "has no %s: an earlier version made the result; compute it again (h5spec run "
                "--force)",
                m->kind->name);
    if (has > 0)
        m->dataset = h5_open_array(o, m->kind->name, native_type(m->kind->type), 2, dims, e);
    h5_close(o);
    const bool empty = s->nx < 1 || s->ny < 1;
    if (m->dataset >= 0 &&
        (empty || (!check_layout(m->dataset, map, e) && !check_map(m, result_params(r), e))))
        return m;
    err_add(e, "slide %s", result_slide_name(r, k));
    result_close_rows(m);
    return NULL;
}

void result_close_rows(struct result_rows *m)
{
    if (!m)
        return;
    h5_close(m->dataset);
    result_close(m->of);
    free(m);
}

int result_check_replaced(const char *path, bool (*has)(const void *ctx, const char *slide),
                          const void *ctx, struct err *e)
{
    struct stat st;
    struct result *old = stat(path, &st) ? NULL : result_open(path, NULL);
    int64_t lost = 0, first = -1;
    for (int64_t k = 0; old && k < result_slides(old); k++) {
        const bool is_lost = !has(ctx, result_slide_name(old, k));
        first = is_lost && first < 0 ? k : first;
        lost += is_lost;
    }
    if (lost == 1)
        err_set(e, "%s: exists and has slide %s, which is not among the inputs", path,
                result_slide_name(old, first));
    else if (lost > 1)
        err_set(e,
                "%s: exists and has %" PRId64 " slides that are not among the inputs, such as %s",
                path, lost, result_slide_name(old, first));
    result_close(old);
    return lost ? -1 : 0;
}
