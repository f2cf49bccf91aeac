/* result_write.c - writes results; see result_write.h. */
#include "common/result/result_write.h"

#include "common/base/cli.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/stop.h"
#include "common/hdf5/h5_attr.h"
#include "common/hdf5/h5_file.h"
#include "common/hdf5/h5_library.h"
#include "common/result/result.h"
#include "common/result/result_features.h"
#include "common/result/result_table.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MISSING_TEXT = 8192, SLIDE_LINKS = 32 };
enum { METADATA = 4096 }; /* bytes of a block; a slide has about 11,000 */

struct result_writer {
    struct result_params params;
    struct h5_file file;
    hid_t slides;               /* or -1 */
    struct result_table *table; /* or NULL */
    struct table_paths *paths;  /* of a table; or NULL */
    struct result_counts totals;
    int64_t slide_count, groups_missing, microseconds;
};

static struct result_writer *create(const char *path, const struct result_params *p, struct err *e)
{
    const struct h5_format format = {RESULT_FORMAT, RESULT_VERSION, "h5spec " WSI_VERSION,
                                     METADATA};
    struct result_writer *w = memory_need(1, sizeof *w);
    w->params = *p;
    w->slides = -1;
    w->file = (struct h5_file){.id = -1, .publish.fd = -1};
    w->totals.histogram = memory_need((size_t)p->bins, sizeof(uint64_t));
    if (!h5_file_create(&w->file, path, &format, e))
        return w;
    result_abort(w);
    return NULL;
}

/* A file to which something could not be added. */
static struct result_writer *failed(struct result_writer *w)
{
    w->file.failed = true;
    result_abort(w);
    return NULL;
}

static struct result_writer *create_slides(const char *path, const struct result_params *p,
                                           struct err *e)
{
    struct result_writer *w = create(path, p, e);
    if (!w || (w->slides = h5_create_group(w->file.id, "slides", 0, e)) >= 0)
        return w;
    return failed(w);
}

struct result_writer *result_create(const char *path, const struct result_params *p, struct err *e)
{
    h5_lock();
    struct result_writer *w = create_slides(path, p, e);
    h5_unlock();
    return w;
}

struct result_writer *result_create_table(const char *path, const struct result_params *p,
                                          int64_t most, struct err *e)
{
    struct result_writer *w = create(path, p, e);
    if (!w)
        return NULL;
    w->paths = table_paths_create(path);
    if ((w->table = result_table_create(w->file.id, p, most, e)))
        return w;
    return failed(w);
}

static int put_params(hid_t o, const struct result_params *p, struct err *e)
{
    const unsigned here = RESULT_HERE | RESULT_REGIONS;
    return h5_put_fields(o, result_params_fields, here & RESULT_SETS(p), p, e);
}

static int put_counts(hid_t o, const struct result_params *p, const struct result_counts *c,
                      struct err *e)
{
    const hsize_t dims[1] = {(hsize_t)p->bins};
    double mean, std;
    result_moments(p, c->histogram, &mean, &std);
    if (h5_put_fields(o, result_counts_fields, RESULT_SETS(p), c, e) ||
        h5_put_int(o, "samples", (int64_t)result_samples(p, c), e) ||
        h5_put_real(o, "mean_db", mean, e) || h5_put_real(o, "std_db", std, e) ||
        h5_write_array(o, "histogram", H5T_STD_U64LE, 1, dims, true, c->histogram, e))
        return -1;
    hid_t ds = h5_open_array(o, "histogram", H5T_NATIVE_UINT64, 1, dims, e);
    int r = ds < 0 ? -1 : h5_put_fields(ds, result_params_fields, RESULT_OF_HISTOGRAM, p, e);
    h5_close(ds);
    return r;
}

static hid_t stored_type(enum result_type type)
{
    return type == RESULT_FLOAT32 ? H5T_IEEE_F32LE
           : type == RESULT_INT16 ? H5T_STD_I16LE
                                  : H5T_STD_U8LE;
}

/* The meaning of stored numbers, for maps whose values are scaled. */
static int put_scale(hid_t o, const struct result_map_kind *kind, const hsize_t *dims,
                     struct err *e)
{
    if (kind->scale == 1)
        return 0;
    hid_t ds = h5_open_array(o, kind->name, stored_type(kind->type), 2, dims, e);
    const int r = ds < 0 ? -1 : h5_put_real(ds, "scale", kind->scale, e);
    h5_close(ds);
    return r;
}

/* Not compressed: that would take several times as long as everything else. */
static int put_maps(hid_t o, const struct result_slide *s, struct err *e)
{
    const hsize_t dims[2] = {(hsize_t)s->ny, (hsize_t)s->nx};
    for (int m = 0; m < RESULT_MAPS; m++) {
        const struct result_map_kind *kind = s->maps[m].kind;
        if (s->maps[m].absent)
            continue;
        if (stop_check(e) ||
            h5_write_array(o, kind->name, stored_type(kind->type), 2, dims, false,
                           s->maps[m].values, e) ||
            put_scale(o, kind, dims, e))
            return -1;
    }
    return 0;
}

/* Which groups of the store are in the result. */
static int put_groups(hid_t o, const struct result_slide *s, struct err *e)
{
    const hsize_t n[1] = {(hsize_t)s->group_count};
    char missing[MISSING_TEXT];
    int64_t first = 0, last = s->group_count;
    while (first < s->group_count - 1 && !s->groups[first])
        first++;
    while (last > first + 1 && !s->groups[last - 1])
        last--;
    result_missing_text(s->groups, s->group_count, missing, sizeof missing);
    return h5_put_int(o, "group_first", first + 1, e) || h5_put_int(o, "group_last", last, e) ||
           h5_put_text(o, "groups_missing", missing, e) ||
           h5_write_array(o, "groups_done", H5T_STD_U8LE, 1, n, true, s->groups, e);
}

/* The attributes, with times in whole microseconds. */
static int put_fields(hid_t o, const struct result_params *p, const struct result_slide *s,
                      struct err *e)
{
    struct result_slide rounded = *s;
    rounded.seconds = result_seconds(s->seconds, 0);
    for (int k = 0; k < RESULT_STAGES; k++)
        rounded.stages[k] = result_seconds(s->stages[k], 0);
    rounded.data_crc32 = result_data_crc(p, s);
    return h5_put_fields(o, result_slide_fields, RESULT_SETS(p), &rounded, e);
}

static int put_slide(struct result_writer *w, hid_t o, const struct result_slide *s, struct err *e)
{
    const struct result_params *p = &w->params;
    return put_params(o, p, e) || put_counts(o, p, &s->counts, e) || put_fields(o, p, s, e) ||
                   put_groups(o, s, e) || put_maps(o, s, e) || result_put_features(o, p, s, e)
               ? -1
               : 0;
}

/* What the file has of all slides; `bins` of the histogram are added. Rows have all groups. */
static void count_slide(struct result_writer *w, const struct result_slide *s, int64_t bins)
{
    result_add_counts(&w->totals, &s->counts, bins);
    w->slide_count++;
    if (__builtin_add_overflow(w->microseconds, llround(s->seconds * 1e6), &w->microseconds))
        w->microseconds = INT64_MAX;
    for (int64_t k = 0; k < s->group_count && !w->table; k++)
        w->groups_missing += !s->groups[k];
}

static int put_row(struct result_writer *w, const struct result_slide *s,
                   const struct report_numbers *n, const char *result,
                   const struct result_stamp *stamp, struct err *e)
{
    char path[RESULT_ROW_PATH];
    if (table_paths_find(w->paths, result, path, sizeof path, e))
        return -1;
    w->file.failed = result_table_add(w->table, s, n, path, stamp, e);
    return w->file.failed ? -1 : 0;
}

int result_put_row(struct result_writer *w, const struct result_slide *s,
                   const struct report_numbers *n, const char *result,
                   const struct result_stamp *stamp, struct err *e)
{
    h5_lock();
    const int bad = put_row(w, s, n, result, stamp, e);
    h5_unlock();
    if (!bad)
        count_slide(w, s, w->params.bins);
    return bad;
}

int result_copy_row(struct result_writer *w, struct result_table *from, int64_t k,
                    const char *result, struct err *e)
{
    const struct result_row *row;
    h5_lock();
    w->file.failed = result_table_copy(w->table, from, k, result, &row, e);
    h5_unlock();
    if (w->file.failed)
        return -1;
    count_slide(w, &row->slide, 0);
    return 0;
}

void result_add_histogram(struct result_writer *w, const uint64_t *histogram)
{
    for (int64_t k = 0; k < w->params.bins; k++)
        w->totals.histogram[k] += histogram[k];
}

static int put(struct result_writer *w, const struct result_slide *s, struct err *e)
{
    hid_t o = h5_create_group(w->slides, s->name, SLIDE_LINKS, e);
    int r = o < 0 ? -1 : put_slide(w, o, s, e);
    if (r == 0)
        r = h5_seal_texts(o, e);
    if (o >= 0 && H5Gclose(o) < 0 && r == 0)
        r = h5_write_failed(e, "a slide");
    return r;
}

int result_put_slide(struct result_writer *w, const struct result_slide *s, struct err *e)
{
    assert(!w->file.failed);
    h5_lock();
    w->file.failed = put(w, s, e);
    h5_unlock();
    if (w->file.failed)
        return -1;
    count_slide(w, s, w->params.bins);
    return 0;
}

static int finish_file(struct result_writer *w, struct err *e)
{
    const hid_t f = w->file.id;
    if (put_params(f, &w->params, e) || put_counts(f, &w->params, &w->totals, e) ||
        h5_put_int(f, "slide_count", w->slide_count, e) ||
        h5_put_int(f, "groups_missing", w->groups_missing, e) ||
        h5_put_real(f, "seconds", (double)w->microseconds / 1e6, e))
        return -1;
    if (w->table)
        return result_table_finish(w->table, e);
    const bool bad = H5Gclose(w->slides) < 0;
    w->slides = -1;
    return bad ? h5_write_failed(e, "the slides") : 0;
}

int result_commit(struct result_writer *w, struct err *e)
{
    h5_lock();
    int r = finish_file(w, e);
    h5_unlock();
    if (r)
        w->file.failed = true;
    else
        r = h5_file_commit(&w->file, NULL, e);
    result_abort(w);
    return r;
}

int result_commit_as(struct result_writer *w, const char *path, struct err *e)
{
    if (w->file.failed) {
        result_abort(w);
        return err_set(e, "an earlier write failed");
    }
    publish_rename(&w->file.publish, path);
    return result_commit(w, e);
}

void result_abort(struct result_writer *w)
{
    if (!w)
        return;
    h5_lock();
    if (w->file.failed)
        result_table_forget(w->table);
    else
        result_table_close(w->table);
    h5_unlock();
    h5_file_abort(&w->file);
    table_paths_free(w->paths);
    free(w->totals.histogram);
    free(w);
}

/* --- paths in tables --- */

struct table_paths {
    char *folders[2];       /* of the table, as it is named and as it is; end in a slash; owned */
    char *last, *last_from; /* a folder of results, as it was named, and seen from it; owned */
};

/* The folder of a file as it is named, from the root and with a slash at the end; to be free()d.
 * NULL if it has none. */
static char *named_folder(const char *path)
{
    char here[PATH_MAX] = "";
    const char *base = path_base_name(path);
    if (*path != '/' && !getcwd(here, sizeof here))
        return NULL;
    char *folder =
        memory_print("%s%s%.*s", here, *path == '/' ? "" : "/", (int)(base - path), path);
    /* The parts "." and empty ones say nothing. */
    char *to = folder;
    for (const char *at = folder; *at;) {
        const size_t n = strcspn(at + 1, "/");
        if (n > 0 && !(n == 1 && at[1] == '.')) {
            memmove(to, at, n + 1);
            to += n + 1;
        }
        at += n + 1;
    }
    strcpy(to, "/");
    return folder;
}

/* The same with links and ".." followed. */
static char *real_folder(const char *path)
{
    char *named = named_folder(path), *real = named ? realpath(named, NULL) : NULL;
    char *folder = real ? memory_print("%s%s", real, real[1] ? "/" : "") : NULL;
    free(named);
    free(real);
    return folder;
}

struct table_paths *table_paths_create(const char *table)
{
    struct table_paths *p = memory_need(1, sizeof *p);
    p->folders[0] = named_folder(table);
    p->folders[1] = real_folder(table);
    return p;
}

/* A folder seen from another one, which is the same or above it; NULL: it is not. */
static const char *seen_from(const char *folder, const char *other)
{
    const size_t n = folder ? strlen(folder) : 0;
    return n > 0 && other && !strncmp(folder, other, n) && !strstr(other + n - 1, "/../")
               ? other + n
               : NULL;
}

/* Many results are in one folder: what was found for the last one holds for the next. */
static const char *find_folder(struct table_paths *p, const char *result)
{
    const size_t n = (size_t)(path_base_name(result) - result);
    if (p->last && strlen(p->last) == n && !strncmp(p->last, result, n))
        return p->last_from;
    free(p->last);
    free(p->last_from);
    p->last_from = NULL;
    for (int k = 0; k < 2 && !p->last_from; k++) {
        char *folder = k == 0 ? named_folder(result) : real_folder(result);
        const char *seen = seen_from(p->folders[k], folder);
        p->last_from = seen ? memory_copy(seen) : NULL;
        free(folder);
    }
    p->last = memory_copy_part(result, n);
    return p->last_from;
}

int table_paths_find(struct table_paths *p, const char *result, char *out, size_t size,
                     struct err *e)
{
    const char *folder = find_folder(p, result);
    return folder && (size_t)snprintf(out, size, "%s%s", folder, path_base_name(result)) < size
               ? 0
               : err_set(e,
                         "%s: is not below the folder of the table, which refers to it; write "
                         "the table beside the folder of its results",
                         result);
}

void table_paths_free(struct table_paths *p)
{
    if (!p)
        return;
    free(p->folders[0]);
    free(p->folders[1]);
    free(p->last);
    free(p->last_from);
    free(p);
}
