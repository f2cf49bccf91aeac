/* table_rows.c - see table_rows.h. */
#include "common/result/table_rows.h"

#include "common/codec/codec.h"

#include <stdlib.h>
#include <string.h>

struct table_rows {
    const char *name;
    hid_t dataset; /* or -1 */
    hid_t group, type;
    int64_t numbers, n; /* of a row; rows: that are there, or were put */
    size_t bytes;       /* of a row */

    /* writing */
    struct codec_params p;
    struct codec_work *work;
    uint8_t *shuffled, *packed; /* [bytes] */

    /* reading */
    struct h5_strips *strips;
    char *row;     /* [bytes] */
    int64_t row_k; /* the row in memory, or -1 */
};

static struct table_rows *new_rows(hid_t group, const char *name, hid_t type, int64_t numbers,
                                   struct err *e)
{
    struct table_rows *r = calloc(1, sizeof *r);
    if (!r) {
        err_set(e, "out of memory");
        return NULL;
    }
    r->name = name;
    r->dataset = r->row_k = -1;
    r->group = group;
    r->type = type;
    r->numbers = numbers;
    r->bytes = (size_t)numbers * H5Tget_size(type);
    return r;
}

void table_rows_close(struct table_rows *r)
{
    if (!r)
        return;
    h5_strips_close(r->strips);
    if (r->dataset >= 0)
        H5Dclose(r->dataset);
    codec_free(r->work);
    free(r->shuffled);
    free(r->packed);
    free(r->row);
    free(r);
}

void table_rows_forget(struct table_rows *r)
{
    if (r)
        r->dataset = -1;
    table_rows_close(r);
}

/* --- writing --- */

/* The dataset [rows][numbers], of which `most` rows can exist. */
static int create_dataset(struct table_rows *r, int64_t most, struct err *e)
{
    const hsize_t dims[2] = {(hsize_t)most, (hsize_t)r->numbers};
    const hsize_t chunk[2] = {1, (hsize_t)r->numbers};
    hid_t dcpl = h5_creation(H5P_DATASET_CREATE);
    dcpl = h5_list(dcpl, H5Pset_chunk(dcpl, 2, chunk) < 0 || H5Pset_shuffle(dcpl) < 0 ||
                             H5Pset_deflate(dcpl, r->p.codec->level) < 0);
    hid_t space = H5Screate_simple(2, dims, NULL);
    r->dataset = H5Dcreate2(r->group, r->name, r->type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(dcpl);
    return r->dataset < 0 ? h5_write_failed(e, r->name) : 0;
}

struct table_rows *table_rows_create(hid_t group, const char *name, hid_t type, int64_t most,
                                     int64_t numbers, struct err *e)
{
    struct table_rows *r = new_rows(group, name, type, numbers, e);
    if (!r)
        return NULL;
    r->p = (struct codec_params){
        .codec = codec_find("deflate"), .rows = 1, .cols = 1, .channels = (int64_t)r->bytes};
    r->work = codec_create(e);
    r->shuffled = malloc(r->bytes);
    r->packed = malloc(r->bytes);
    if (!r->work || !r->shuffled || !r->packed)
        err_set(e, "out of memory");
    else if (!create_dataset(r, most, e))
        return r;
    table_rows_close(r);
    return NULL;
}

static int put_stored(struct table_rows *r, const void *bytes, size_t n, uint32_t mask,
                      struct err *e)
{
    const hsize_t at[2] = {(hsize_t)r->n++, 0};
    return H5Dwrite_chunk(r->dataset, H5P_DEFAULT, mask, at, n, bytes) < 0
               ? h5_write_failed(e, r->name)
               : 0;
}

/* HDF5 could pack rows, too, but would store them in an order that depends on its cache. */
int table_rows_put(struct table_rows *r, const void *values, struct err *e)
{
    enum { NOT_DEFLATED = 1 << 1 };
    size_t n = 0;
    h5_shuffle(values, (size_t)r->numbers, r->bytes / (size_t)r->numbers, r->shuffled);
    if (codec_encode(r->work, &r->p, r->shuffled, r->packed, &n, e))
        return -1;
    return n > 0 ? put_stored(r, r->packed, n, 0, e)
                 : put_stored(r, r->shuffled, r->bytes, NOT_DEFLATED, e);
}

int table_rows_copy(struct table_rows *r, struct table_rows *from, int64_t k, struct err *e)
{
    const void *bytes;
    size_t n;
    uint32_t mask;
    return h5_strips_stored(from->strips, k, &bytes, &n, &mask, e)
               ? -1
               : put_stored(r, bytes, n, mask, e);
}

int table_rows_finish(struct table_rows *r, struct err *e)
{
    const hsize_t dims[2] = {(hsize_t)r->n, (hsize_t)r->numbers};
    if (H5Dset_extent(r->dataset, dims) < 0)
        return h5_write_failed(e, r->name);
    const bool bad = H5Dclose(r->dataset) < 0;
    r->dataset = -1;
    return bad ? h5_write_failed(e, r->name) : 0;
}

/* --- reading --- */

struct table_rows *table_rows_open(hid_t group, const char *name, hid_t type, int64_t slides,
                                   int64_t numbers, struct err *e)
{
    const hsize_t dims[2] = {(hsize_t)slides, (hsize_t)numbers};
    struct table_rows *r = new_rows(group, name, type, numbers, e);
    if (!r)
        return NULL;
    r->n = slides;
    r->dataset = h5_open_array(group, name, type, 2, dims, e);
    if (r->dataset < 0 || !(r->strips = h5_strips_open(r->dataset, name, type, 2, dims, e)))
        goto fail;
    if (h5_strips_rows(r->strips) != 1 || !h5_strips_are_shuffled(r->strips))
        err_set(e, "%s: another program has rewritten it; merge again", name);
    else if ((r->row = malloc(r->bytes)))
        return r;
    else
        err_set(e, "out of memory");
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

int table_rows_get(struct table_rows *r, int64_t k, int64_t crc, void *values, struct err *e)
{
    if (read_row(r, k, e))
        return -1;
    memcpy(values, r->row, r->bytes);
    return codec_crc32(values, r->bytes) == crc
               ? 0
               : err_set(e, "%s is damaged (CRC mismatch); delete the table and merge again",
                         r->name);
}
