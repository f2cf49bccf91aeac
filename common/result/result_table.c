/* result_table.c - the slides of a result as a table; see result_table.h. */
#include "common/result/result_table.h"

#include "common/base/memory.h"
#include "common/codec/codec.h"
#include "common/result/result.h"
#include "common/result/result_features.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_COLUMNS = 112,
    FIRST_ROOM = 64, /* slides */
    LINKS = 120,     /* more than there are columns: they lie in the group's header */
    WIDEN = 8        /* bytes by which a column of texts grows */
};

/* --- histograms and sharpness: datasets [slides][numbers] ---
 *
 * Each row is packed alone, so that a table that is made again takes the rows of unchanged slides
 * over as they are stored.
 */

struct table_rows {
    const char *name;
    hid_t dataset; /* or -1 */
    hid_t group, type;
    int64_t numbers, n; /* of a row; rows that exist or were added */
    size_t bytes;       /* of a row */

    /* writing */
    struct codec_params p;
    struct codec_work *work;
    uint8_t *shuffled, *packed; /* [bytes] */
    int64_t room;               /* rows of the dataset; it grows if their number is not known */

    /* reading */
    struct h5_strips *strips;
    char *row;     /* [bytes] */
    int64_t row_k; /* the row in memory, or -1 */
};

static struct table_rows *new_rows(hid_t group, const char *name, hid_t type, int64_t numbers)
{
    struct table_rows *r = memory_need(1, sizeof *r);
    r->name = name;
    r->dataset = r->row_k = -1;
    r->group = group;
    r->type = type;
    r->numbers = numbers;
    r->bytes = (size_t)numbers * H5Tget_size(type);
    return r;
}

/* NULL is fine, as below. */
static void table_rows_close(struct table_rows *r)
{
    if (!r)
        return;
    h5_strips_close(r->strips);
    h5_close(r->dataset);
    codec_free(r->work);
    free(r->shuffled);
    free(r->packed);
    free(r->row);
    free(r);
}

/* After a failed write: see h5_exit.h. */
static void table_rows_forget(struct table_rows *r)
{
    if (r)
        r->dataset = -1;
    table_rows_close(r);
}

/* The dataset [rows][numbers], of which `most` rows can exist; 0: any number. */
static int create_dataset(struct table_rows *r, int64_t most, struct err *e)
{
    r->room = most > 0 ? most : FIRST_ROOM;
    const hsize_t dims[2] = {(hsize_t)r->room, (hsize_t)r->numbers};
    const hsize_t any[2] = {H5S_UNLIMITED, (hsize_t)r->numbers};
    const hsize_t chunk[2] = {1, (hsize_t)r->numbers};
    hid_t dcpl = h5_creation(H5P_DATASET_CREATE);
    dcpl = h5_list(dcpl, H5Pset_chunk(dcpl, 2, chunk) < 0 || H5Pset_shuffle(dcpl) < 0 ||
                             H5Pset_deflate(dcpl, r->p.codec->level) < 0);
    hid_t space = H5Screate_simple(2, dims, most > 0 ? NULL : any);
    r->dataset = H5Dcreate2(r->group, r->name, r->type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(dcpl);
    return r->dataset < 0 ? h5_write_failed(e, r->name) : 0;
}

/* For writing rows 0, 1, 2 ... `type` is that of the file, little-endian; at most `most` rows
 * follow. */
static struct table_rows *table_rows_create(hid_t group, const char *name, hid_t type, int64_t most,
                                            int64_t numbers, struct err *e)
{
    struct table_rows *r = new_rows(group, name, type, numbers);
    r->p = (struct codec_params){
        .codec = codec_find("deflate"), .rows = 1, .cols = 1, .channels = (int64_t)r->bytes};
    r->work = codec_create();
    r->shuffled = memory_try(r->bytes, 1, e);
    r->packed = memory_try(r->bytes, 1, e);
    if (r->shuffled && r->packed && !create_dataset(r, most, e))
        return r;
    table_rows_close(r);
    return NULL;
}

static int put_stored(struct table_rows *r, const void *bytes, size_t n, uint32_t mask,
                      struct err *e)
{
    const hsize_t at[2] = {(hsize_t)r->n++, 0};
    if (r->n > r->room) {
        const hsize_t more[2] = {2 * (hsize_t)r->room, (hsize_t)r->numbers};
        if (H5Dset_extent(r->dataset, more) < 0)
            return h5_write_failed(e, r->name);
        r->room *= 2;
    }
    return H5Dwrite_chunk(r->dataset, H5P_DEFAULT, mask, at, n, bytes) < 0
               ? h5_write_failed(e, r->name)
               : 0;
}

/* HDF5 could pack rows, too, but would store them in an order that depends on its cache. */
static int table_rows_put(struct table_rows *r, const void *values, struct err *e)
{
    enum { NOT_DEFLATED = 1 << 1 };
    size_t n = 0;
    h5_shuffle(values, (size_t)r->numbers, r->bytes / (size_t)r->numbers, r->shuffled);
    if (codec_encode(r->work, &r->p, r->shuffled, r->packed, &n, e))
        return -1;
    return n > 0 ? put_stored(r, r->packed, n, 0, e)
                 : put_stored(r, r->shuffled, r->bytes, NOT_DEFLATED, e);
}

/* Row k of another dataset. */
static int table_rows_copy(struct table_rows *r, struct table_rows *from, int64_t k, struct err *e)
{
    const void *bytes;
    size_t n;
    uint32_t mask;
    return h5_strips_stored(from->strips, k, &bytes, &n, &mask, e)
               ? -1
               : put_stored(r, bytes, n, mask, e);
}

/* The dataset gets the rows that were put, and no more. */
static int table_rows_finish(struct table_rows *r, struct err *e)
{
    const hsize_t dims[2] = {(hsize_t)r->n, (hsize_t)r->numbers};
    if (H5Dset_extent(r->dataset, dims) < 0)
        return h5_write_failed(e, r->name);
    const bool bad = H5Dclose(r->dataset) < 0;
    r->dataset = -1;
    return bad ? h5_write_failed(e, r->name) : 0;
}

static struct table_rows *table_rows_open(hid_t group, const char *name, hid_t type, int64_t slides,
                                          int64_t numbers, struct err *e)
{
    const hsize_t dims[2] = {(hsize_t)slides, (hsize_t)numbers};
    struct table_rows *r = new_rows(group, name, type, numbers);
    r->n = slides;
    r->dataset = h5_open_array(group, name, type, 2, dims, e);
    if (r->dataset < 0 || !(r->strips = h5_strips_open(r->dataset, name, type, 2, dims, e)))
        goto fail;
    if (h5_strips_rows(r->strips) != 1 || !h5_strips_are_shuffled(r->strips))
        err_set(e, "%s: another program has rewritten it; merge again", name);
    else if ((r->row = memory_try(r->bytes, 1, e)))
        return r;
fail:
    table_rows_close(r);
    return NULL;
}

static int read_row(struct table_rows *r, int64_t k, struct err *e)
{
    if (r->row_k == k)
        return 0;
    r->row_k = -1;
    if (h5_strips_read(r->strips, k, r->row, e))
        return err_is_trouble(e)
                   ? -1
                   : err_set(e,
                             "%s is damaged (it cannot be read); delete the table and merge again",
                             r->name);
    r->row_k = k;
    return 0;
}

/* `crc` is the row's CRC-32. */
static int table_rows_get(struct table_rows *r, int64_t k, int64_t crc, void *values, struct err *e)
{
    if (read_row(r, k, e))
        return -1;
    memcpy(values, r->row, r->bytes);
    return codec_crc32(values, r->bytes) == crc
               ? 0
               : err_set(e, "%s is damaged (CRC mismatch); delete the table and merge again",
                         r->name);
}

/* --- columns --- */

/* REALS and NUMBERS may be NaN: not known. NUMBERS are those of slide_numbers.h and
 * report_numbers.h: a table that an earlier version made may lack some, and then they are NaN.
 * LACKED: how many of these were missing in the file that the row was taken from; the column exists
 * only if a row lacks one. */
enum kind { INTS, REALS, KNOWN_REALS, NUMBERS, LACKED, FLAG, TEXT };

struct column {
    char name[40];
    enum kind kind;
    bool later;       /* tables of earlier versions lack it: then it is 0, NaN or "" */
    void *field;      /* in the table's row */
    size_t n;         /* numbers per slide; TEXT: bytes of the field, with a NUL */
    double low, high; /* of numbers */
    size_t bytes;     /* of a slide in `values` */
    char *values;     /* [room][bytes]; owned */
};

struct result_table {
    struct result_params params;
    struct result_row row; /* the one in hand */
    struct column columns[MOST_COLUMNS];
    int n_columns, path_column, stamp_columns; /* the numbers of some */
    int64_t slides, room, columns_missing;
    hid_t group; /* or -1 */
    struct table_rows *histograms, *sharpness;
};

static bool is_real(const struct column *c)
{
    return c->kind == REALS || c->kind == KNOWN_REALS || c->kind == NUMBERS;
}

static void add(struct result_table *t, const char *name, enum kind kind, void *field, size_t n,
                double low, double high)
{
    assert(t->n_columns < MOST_COLUMNS);
    struct column *c = &t->columns[t->n_columns++];
    *c = (struct column){
        .kind = kind, .field = field, .n = n, .low = low, .high = high, .bytes = n * 8};
    snprintf(c->name, sizeof c->name, "%s", name);
    if (kind == TEXT)
        c->bytes = WIDEN;
}

/* A column for each attribute of a struct in the table's row. */
static void add_fields(struct result_table *t, const struct field *f, void *of)
{
    static const enum kind kinds[] = {
        [FIELD_INT] = INTS, [FIELD_FLAG] = FLAG, [FIELD_BYTE] = FLAG, [FIELD_TEXT] = TEXT};
    for (; f->name; f++) {
        if (!(f->set & RESULT_SETS(&t->params)))
            continue;
        const bool known = !f->optional;
        const enum kind kind = f->kind == FIELD_REAL ? known ? KNOWN_REALS : REALS : kinds[f->kind];
        add(t, f->name, kind, (char *)of + f->at, f->kind == FIELD_TEXT ? f->bytes : 1,
            f->kind == FIELD_INT && !known ? 0 : f->low, kind == FLAG ? 1 : f->high);
        t->columns[t->n_columns - 1].later = f->set & RESULT_LATER;
    }
}

static void list_names(struct result_table *t)
{
    struct result_row *r = &t->row;
    add(t, "name", TEXT, r->slide.name, sizeof r->slide.name, 0, 0);
    t->path_column = t->n_columns;
    add(t, "result", TEXT, r->result, sizeof r->result, 0, 0);
}

static const double most_int = (double)INT64_MAX, most_windows = (double)(INT64_MAX >> 20);

static void list_counts(struct result_table *t)
{
    add_fields(t, result_counts_fields, &t->row.slide.counts);
    add(t, "mean_db", REALS, &t->row.mean, 1, -INFINITY, INFINITY);
    add(t, "std_db", REALS, &t->row.std, 1, -INFINITY, INFINITY);
    add(t, "histogram_crc32", INTS, &t->row.histogram_crc32, 1, 0, UINT32_MAX);
}

static void list_features(struct result_table *t)
{
    struct result_slide *s = &t->row.slide;
    char name[40];
    for (int m = 0; m < RESULT_MAPS; m++)
        for (int q = 0; result_has_quantiles(m) && q < FEATURES_QUANTILES; q++)
            add(t, result_quantile_name(name, sizeof name, m, q), REALS, &s->quantiles[m][q], 1,
                -INFINITY, INFINITY);
    for (int k = 0; k < SLIDE_NUMBERS; k++)
        add(t, slide_number_list[k].name, NUMBERS, slide_number_of(&s->of_spectra, k), 1,
            slide_number_list[k].low, slide_number_list[k].high);
    add(t, "profile_sums", INTS, s->counts.octaves, FEATURES_OCTAVES, 0, most_int);
    for (int k = 0; k < FEATURES_SAMPLES; k++) {
        snprintf(name, sizeof name, "%s_windows", result_spectrum_name(k));
        add(t, name, INTS, &s->spectra[k].windows, 1, 0, most_windows);
        snprintf(name, sizeof name, "%s_threshold", result_spectrum_name(k));
        add(t, name, INTS, &s->spectra[k].threshold, 1, 0, most_int);
    }
}

/* Numbers that follow from the rest of the slide, and size and time of its result. */
static void list_numbers(struct result_table *t)
{
    struct report_numbers *n = &t->row.numbers;
    struct result_stamp *s = &t->row.stamp;
    for (int k = 0; k < REPORT_NUMBER_KINDS; k++) {
        const struct report_number *x = &report_number_list[k];
        add(t, x->name, NUMBERS, report_number_of(n, k), x->n, x->low, x->high);
    }
    add(t, "sharpness_crc32", INTS, &t->row.sharpness_crc32, 1, 0, UINT32_MAX);
    t->stamp_columns = t->n_columns;
    add(t, "result_bytes", INTS, &s->bytes, 1, 0, most_int);
    add(t, "result_mtime_ns", INTS, &s->mtime_ns, 1, -most_int, most_int);
    add(t, "result_slides", INTS, &s->slides, 1, 1, INT32_MAX);
    add(t, "numbers_missing", LACKED, &t->row.slide.numbers_missing, 1, 0, MOST_COLUMNS);
}

static struct result_table *new_table(const struct result_params *p)
{
    struct result_table *t = memory_need(1, sizeof *t);
    t->params = *p;
    t->group = -1;
    list_names(t);
    add_fields(t, result_slide_fields, &t->row.slide);
    list_counts(t);
    list_features(t);
    list_numbers(t);
    return t;
}

void result_table_close(struct result_table *t)
{
    if (!t)
        return;
    table_rows_close(t->histograms);
    table_rows_close(t->sharpness);
    h5_close(t->group);
    for (int k = 0; k < t->n_columns; k++)
        free(t->columns[k].values);
    free(t);
}

void result_table_forget(struct result_table *t)
{
    if (!t)
        return;
    table_rows_forget(t->histograms);
    table_rows_forget(t->sharpness);
    t->histograms = t->sharpness = NULL;
    t->group = -1;
    result_table_close(t);
}

/* --- writing --- */

static const char group_name[] = "table", histograms_name[] = "histograms",
                  sharpness_name[] = "sharpness";

struct result_table *result_table_create(hid_t file, const struct result_params *p, int64_t most,
                                         struct err *e)
{
    struct result_table *t = new_table(p);
    if ((t->group = h5_create_group(file, group_name, LINKS, e)) >= 0 &&
        (t->histograms =
             table_rows_create(t->group, histograms_name, H5T_STD_U64LE, most, p->bins, e)) &&
        (t->sharpness = table_rows_create(t->group, sharpness_name, H5T_STD_U32LE, most,
                                          RESULT_SHARP_BINS, e)))
        return t;
    result_table_close(t);
    return NULL;
}

/* Room for one more slide in each column. */
static int grow(struct result_table *t, struct err *e)
{
    if (t->slides < t->room)
        return 0;
    t->room = 2 * t->room + FIRST_ROOM;
    for (int k = 0; k < t->n_columns; k++) {
        struct column *c = &t->columns[k];
        char *more = realloc(c->values, (size_t)t->room * c->bytes);
        if (!more)
            return err_memory(e);
        c->values = more;
    }
    return 0;
}

/* Makes the texts of a column wide enough for n bytes. */
static int widen(const struct result_table *t, struct column *c, size_t n, struct err *e)
{
    const size_t bytes = (n + WIDEN - 1) / WIDEN * WIDEN;
    if (bytes <= c->bytes)
        return 0;
    char *wide = memory_try_zero((size_t)t->room, bytes, e);
    if (!wide)
        return -1;
    for (int64_t k = 0; k < t->slides; k++)
        memcpy(wide + (size_t)k * bytes, c->values + (size_t)k * c->bytes, c->bytes);
    free(c->values);
    c->values = wide;
    c->bytes = bytes;
    return 0;
}

static int put_field(struct result_table *t, struct column *c, struct err *e)
{
    const size_t n = c->kind == TEXT ? strlen(c->field) : 0;
    if (c->kind == TEXT && widen(t, c, n, e))
        return -1;
    char *to = c->values + (size_t)t->slides * c->bytes;
    const int64_t flag = c->kind == FLAG && *(const bool *)c->field;
    memset(to, 0, c->bytes);
    if (c->kind == FLAG)
        memcpy(to, &flag, sizeof flag);
    else
        memcpy(to, c->field, c->kind == TEXT ? n : c->bytes);
    return 0;
}

/* Puts the row in hand into the columns. */
static int put_row(struct result_table *t, const char *result, struct err *e)
{
    snprintf(t->row.result, sizeof t->row.result, "%s", result);
    if (t->slides == RESULT_MOST_ROWS)
        return err_set(e, "a table has at most %d slides", RESULT_MOST_ROWS);
    if (grow(t, e))
        return -1;
    for (int k = 0; k < t->n_columns; k++)
        if (put_field(t, &t->columns[k], e))
            return -1;
    t->slides++;
    return 0;
}

int result_table_add(struct result_table *t, const struct result_slide *s,
                     const struct report_numbers *n, const char *result,
                     const struct result_stamp *stamp, struct err *e)
{
    const size_t bytes = (size_t)t->params.bins * sizeof *s->counts.histogram;
    struct result_row *r = &t->row;
    r->slide = *s;
    r->stamp = *stamp;
    r->numbers = *n;
    result_moments(&t->params, s->counts.histogram, &r->mean, &r->std);
    r->histogram_crc32 = codec_crc32(s->counts.histogram, bytes);
    r->sharpness_crc32 = codec_crc32(r->numbers.sharp, sizeof r->numbers.sharp);
    return put_row(t, result, e) || table_rows_put(t->histograms, s->counts.histogram, e) ||
                   table_rows_put(t->sharpness, r->numbers.sharp, e)
               ? -1
               : 0;
}

int result_table_copy(struct result_table *t, struct result_table *from, int64_t k,
                      const char *result, const struct result_row **row, struct err *e)
{
    *row = &t->row;
    return result_table_load(from, k, NULL, &t->row, e) || put_row(t, result, e) ||
                   table_rows_copy(t->histograms, from->histograms, k, e) ||
                   table_rows_copy(t->sharpness, from->sharpness, k, e)
               ? -1
               : 0;
}

/* Is it the column of missing numbers, and no row lacks any? */
static bool is_needless(const struct result_table *t, const struct column *c)
{
    for (size_t k = 0; c->kind == LACKED && k < (size_t)t->slides * c->bytes; k++)
        if (c->values[k])
            return false;
    return c->kind == LACKED;
}

int result_table_finish(struct result_table *t, struct err *e)
{
    for (int k = 0; k < t->n_columns; k++) {
        const struct column *c = &t->columns[k];
        if (is_needless(t, c))
            continue;
        const hsize_t dims[2] = {(hsize_t)t->slides, (hsize_t)c->n};
        const hid_t type = is_real(c) ? H5T_IEEE_F64LE : H5T_STD_I64LE;
        const int bad = c->kind == TEXT
                            ? h5_write_texts(t->group, c->name, dims[0], c->bytes, c->values, e)
                            : h5_write_array(t->group, c->name, type, c->n > 1 ? 2 : 1, dims, true,
                                             c->values, e);
        if (bad)
            return -1;
    }
    if (table_rows_finish(t->histograms, e) || table_rows_finish(t->sharpness, e))
        return -1;
    const bool bad = H5Gclose(t->group) < 0;
    t->group = -1;
    return bad ? h5_write_failed(e, group_name) : 0;
}

/* --- reading --- */

/* A column that the table lacks. */
static void blank_column(struct result_table *t, const struct column *c)
{
    if (c->kind == TEXT) {
        memset(c->values, 0, (size_t)t->slides * c->bytes);
        return;
    }
    const double none = is_real(c) ? NAN : 0; /* 0 has the bits of the whole number */
    for (size_t k = 0; k < (size_t)t->slides * c->n; k++)
        memcpy(c->values + 8 * k, &none, 8);
    t->columns_missing += c->kind == NUMBERS;
}

static int read_column(struct result_table *t, struct column *c, struct err *e)
{
    const hsize_t dims[2] = {(hsize_t)t->slides, (hsize_t)c->n};
    const bool may_lack = c->kind == NUMBERS || c->kind == LACKED || c->later;
    const int has = may_lack ? h5_has_link(t->group, c->name, e) : 1;
    if (c->kind == TEXT && has > 0) {
        c->bytes = (c->n + WIDEN - 2) / WIDEN * WIDEN; /* at most, as widen() has it */
        c->values = h5_read_texts(t->group, c->name, dims[0], &c->bytes, e);
        return c->values ? 0 : -1;
    }
    if (!(c->values = memory_try((size_t)t->slides * c->bytes + 1, 1, e)))
        return -1;
    if (has == 0)
        blank_column(t, c);
    return has <= 0
               ? has
               : h5_read_array(t->group, c->name, is_real(c) ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64,
                               c->n > 1 ? 2 : 1, dims, c->values, e);
}

static int open_rows(struct result_table *t, struct err *e)
{
    t->histograms =
        table_rows_open(t->group, histograms_name, H5T_NATIVE_UINT64, t->slides, t->params.bins, e);
    if (t->histograms)
        t->sharpness = table_rows_open(t->group, sharpness_name, H5T_NATIVE_UINT32, t->slides,
                                       RESULT_SHARP_BINS, e);
    return t->sharpness ? 0 : -1;
}

static int get_text(const struct column *c, int64_t k, char *out, struct err *e)
{
    const char *text = c->values + (size_t)k * c->bytes;
    const size_t n = strnlen(text, c->bytes);
    if (n >= c->n)
        return err_set(e, "its %s is longer than %zu bytes", c->name, c->n - 1);
    memcpy(out, text, n);
    out[n] = 0;
    return 0;
}

/* Names of slides ascend, so that each occurs once. */
static int check_names(const struct result_table *t, struct err *e)
{
    const struct column *c = &t->columns[0];
    char name[sizeof t->row.slide.name], last[sizeof name] = "";
    for (int64_t k = 0; k < t->slides; k++) {
        if (get_text(c, k, name, e))
            return -1;
        if (strcmp(last, name) >= 0)
            return err_set(e, "its list of slides is damaged");
        memcpy(last, name, sizeof last);
    }
    return 0;
}

struct result_table *result_table_open(hid_t file, const struct result_params *p, int64_t slides,
                                       struct err *e)
{
    if (slides < 1 || slides > RESULT_MOST_ROWS) {
        err_set(e, "a table has 1 to %d slides", RESULT_MOST_ROWS);
        return NULL;
    }
    struct result_table *t = new_table(p);
    t->slides = t->room = slides;
    int bad = (t->group = h5_open_group(file, group_name, e)) < 0;
    for (int k = 0; k < t->n_columns && !bad; k++)
        bad = read_column(t, &t->columns[k], e);
    if (!bad && !open_rows(t, e) && !check_names(t, e))
        return t;
    result_table_close(t);
    return NULL;
}

char *result_table_name(const struct result_table *t, int64_t k)
{
    const struct column *c = &t->columns[0];
    return memory_copy_part(c->values + (size_t)k * c->bytes, c->bytes);
}

static int get_numbers(const struct column *c, int64_t k, struct err *e)
{
    const char *from = c->values + (size_t)k * c->bytes;
    for (size_t i = 0; i < c->n; i++) {
        int64_t whole = 0;
        double real = 0;
        memcpy(&whole, from + 8 * i, 8);
        memcpy(&real, from + 8 * i, 8);
        const double x = is_real(c) ? real : (double)whole;
        if (!(x >= c->low && x <= c->high) && !(is_real(c) && c->kind != KNOWN_REALS && isnan(x)))
            return err_set(e, "its %s is out of range", c->name);
    }
    if (c->kind == FLAG)
        *(bool *)c->field = from[0];
    else
        memcpy(c->field, from, c->bytes);
    return 0;
}

/* Do the numbers of a row agree with each other? */
static int check_row(const struct result_table *t, struct err *e)
{
    const struct result_params *p = &t->params;
    const struct result_row *r = &t->row;
    const struct result_slide *s = &r->slide;
    const struct result_counts *c = &s->counts;
    if (result_check_touching(c, e))
        return -1;
    if (s->nx * s->ny < c->windows)
        return err_set(e, "its number of windows is out of range");
    for (int k = 0; k < FEATURES_SAMPLES; k++)
        if (s->spectra[k].windows > c->windows)
            return err_set(e, "the windows of its spectra are out of range");
    if (result_check_tiles(s, e))
        return -1;
    return result_check_numbers(p, s, e);
}

int result_table_load(struct result_table *t, int64_t k, uint64_t *histogram,
                      struct result_row *row, struct err *e)
{
    struct result_slide *s = &t->row.slide;
    for (int i = 0; i < t->n_columns; i++) {
        const struct column *c = &t->columns[i];
        if (c->kind == TEXT ? get_text(c, k, c->field, e) : get_numbers(c, k, e))
            return -1;
    }
    s->numbers_missing += t->columns_missing;
    s->nx = result_windows_along(s->width, &t->params);
    s->ny = result_windows_along(s->height, &t->params);
    s->counts.histogram = histogram;
    if (check_row(t, e))
        return -1;
    if (histogram && (table_rows_get(t->histograms, k, t->row.histogram_crc32, histogram, e) ||
                      result_check_sum(&t->params, &s->counts, e) ||
                      result_check_moments(&t->params, &s->counts, t->row.mean, t->row.std,
                                           (int64_t)result_samples(&t->params, &s->counts), e)))
        return -1;
    *row = t->row;
    return 0;
}

int result_table_load_sharpness(struct result_table *t, int64_t k, struct report_numbers *n,
                                struct err *e)
{
    int64_t sum = 0;
    if (table_rows_get(t->sharpness, k, t->row.sharpness_crc32, n->sharp, e))
        return -1;
    for (int b = 0; b < RESULT_SHARP_BINS; b++)
        sum += n->sharp[b];
    return sum <= t->row.slide.counts.windows ? 0 : err_set(e, "its sharpness is out of range");
}

void result_table_source(const struct result_table *t, int64_t k, char path[RESULT_ROW_PATH],
                         struct result_stamp *stamp)
{
    struct err e;
    int64_t *const fields[] = {&stamp->bytes, &stamp->mtime_ns, &stamp->slides};
    if (get_text(&t->columns[t->path_column], k, path, &e))
        path[0] = 0;
    for (int i = 0; i < 3; i++)
        memcpy(fields[i], t->columns[t->stamp_columns + i].values + (size_t)k * 8, 8);
}
