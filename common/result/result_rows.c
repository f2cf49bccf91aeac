/* result_rows.c - maps of results, read row by row; see result.h. */
#include "common/result/result_rows.h"

#include "common/codec/codec.h"
#include "common/result/result_features.h"

#include <stdlib.h>
#include <string.h>

enum { CHECKED_BYTES = 1 << 20 }; /* read in one go for the checksum */

struct result_rows {
    const struct result_map_kind *kind;
    hid_t dataset;
    int64_t nx, ny;
    char *all; /* the whole map if it lies in chunks, as older versions stored it; owned */
};

size_t result_rows_bytes(const struct result_rows *m)
{
    return (size_t)m->nx * result_type_bytes(m->kind->type);
}

int result_read_rows(struct result_rows *m, int64_t first, int64_t n, void *values, struct err *e)
{
    if (m->all) {
        const size_t row = result_rows_bytes(m);
        memcpy(values, m->all + (size_t)first * row, (size_t)n * row);
        return 0;
    }
    const hsize_t start[2] = {(hsize_t)first, 0}, count[2] = {(hsize_t)n, (hsize_t)m->nx};
    hid_t file = H5Dget_space(m->dataset), memory = H5Screate_simple(2, count, NULL);
    int bad = 0;
    if (file < 0 || memory < 0 ||
        H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
        H5Dread(m->dataset, result_native_type(m->kind->type), memory, file, H5P_DEFAULT, values) <
            0)
        bad = h5_error(e, "cannot read %s", m->kind->name);
    if (memory >= 0)
        H5Sclose(memory);
    if (file >= 0)
        H5Sclose(file);
    return bad;
}

/* Only contiguous values are read row by row. */
static int read_chunks(struct result_rows *m, const hsize_t *dims, struct err *e)
{
    if (h5_is_contiguous(m->dataset))
        return 0;
    if (!(m->all = malloc((size_t)m->ny * result_rows_bytes(m))))
        return err_set(e, "out of memory");
    return h5_read_values(m->dataset, m->kind->name, result_native_type(m->kind->type), 2, dims,
                          m->all, e);
}

/* Reads n rows into `values`. What is wrong with their values is put into *why. */
static int check_rows(struct result_rows *m, const struct result_params *p, int64_t first,
                      int64_t n, void *values, uint32_t *crc, struct err *why, struct err *e)
{
    const struct result_map map = {m->kind, values};
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
    struct err why = {""};
    const int has = h5_has(m->dataset, "crc32", e);
    if (has < 0 || (has && h5_get_int(m->dataset, "crc32", 0, UINT32_MAX, &want, e)))
        return -1;
    step = step < m->ny ? step : m->ny;
    void *values = malloc((size_t)step * result_rows_bytes(m));
    if (!values)
        return err_set(e, "out of memory");
    for (int64_t j = 0; j < m->ny && !bad; j += step)
        bad = check_rows(m, p, j, step < m->ny - j ? step : m->ny - j, values, &crc, &why, e);
    free(values);
    if (!bad && has && crc != want)
        bad = err_set(e, "%s is damaged (CRC mismatch); make the file again", m->kind->name);
    if (!bad && *why.msg)
        bad = err_set(e, "%s", why.msg);
    return bad;
}

struct result_rows *result_open_rows(const struct result *r, int64_t k, int map,
                                     const struct result_slide *s, struct err *e)
{
    const hsize_t dims[2] = {(hsize_t)s->ny, (hsize_t)s->nx};
    struct result_rows *m = calloc(1, sizeof *m);
    if (!m) {
        err_set(e, "out of memory");
        return NULL;
    }
    *m = (struct result_rows){result_map_kind(map), -1, s->nx, s->ny, NULL};
    hid_t o = result_open_slide(r, k, e);
    if (o >= 0)
        m->dataset = h5_open_array(o, m->kind->name, result_native_type(m->kind->type), 2, dims, e);
    if (o >= 0)
        H5Gclose(o);
    const bool empty = s->nx < 1 || s->ny < 1;
    if (m->dataset >= 0 &&
        (empty || (!read_chunks(m, dims, e) && !check_map(m, result_params(r), e))))
        return m;
    err_add(e, "slide %s", result_slide_name(r, k));
    result_close_rows(m);
    return NULL;
}

void result_close_rows(struct result_rows *m)
{
    if (m && m->dataset >= 0)
        H5Dclose(m->dataset);
    if (m)
        free(m->all);
    free(m);
}
