/* h5_strips.c - RGB images as JPEG files, one for each strip of rows, and reading images of either
 * kind; see h5.h. */
#include "common/codec.h"
#include "common/h5.h"

#include <stdlib.h>
#include <string.h>

static struct codec_params params_of(int64_t cols, int64_t rows)
{
    return (struct codec_params){codec_find("jpeg"), rows, cols, 3};
}

/* --- writing --- */

static size_t refuse_filter(unsigned flags, size_t n_values, const unsigned *values, size_t n,
                            size_t *size, void **bytes)
{
    (void)flags, (void)n_values, (void)values, (void)n, (void)size, (void)bytes;
    return 0; /* failed; never called, because chunks are read and written without the library */
}

/* HDF5 creates a dataset with a mandatory filter only if the process has that filter. */
int h5_set_jpeg(hid_t dcpl, int64_t cols, int64_t rows)
{
    const struct codec *c = codec_find("jpeg");
    const H5Z_class2_t filter = {.version = H5Z_CLASS_T_VERS,
                                 .id = c->h5_filter,
                                 .encoder_present = 1,
                                 .decoder_present = 1,
                                 .name = c->name,
                                 .filter = refuse_filter};
    const unsigned values[4] = {c->level, (unsigned)cols, (unsigned)rows, 1};
    return H5Zregister(&filter) < 0 || H5Pset_filter(dcpl, c->h5_filter, 0, 4, values) < 0 ? -1 : 0;
}

static hid_t create(hid_t parent, const char *name, const struct jpeg_strips *s)
{
    const hsize_t dims[3] = {(hsize_t)s->height, (hsize_t)s->width, 3};
    const hsize_t chunk[3] = {(hsize_t)s->rows, (hsize_t)s->width, 3};
    hid_t dcpl = h5_creation(H5P_DATASET_CREATE), space = H5Screate_simple(3, dims, NULL);
    H5Pset_chunk(dcpl, 3, chunk);
    h5_set_jpeg(dcpl, s->width, s->rows); /* H5Dcreate2 reports the error */
    hid_t ds = H5Dcreate2(parent, name, H5T_STD_U8LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(dcpl);
    return ds;
}

int h5_write_strips(hid_t parent, const char *name, const struct jpeg_strips *s, struct err *e)
{
    uint32_t crc = 0;
    hid_t ds = create(parent, name, s);
    int r = ds < 0 ? h5_write_failed(e, name) : 0;
    for (int64_t k = 0; r == 0 && k < s->n; k++) {
        const struct jpeg_chunk *c = &s->list[k];
        const hsize_t at[3] = {(hsize_t)(k * s->rows), 0, 0};
        crc = codec_crc32_more(crc, c->bytes, c->n);
        if (H5Dwrite_chunk(ds, H5P_DEFAULT, jpeg_strips_is_raw(s, k), at, c->n, c->bytes) < 0)
            r = h5_write_failed(e, name);
    }
    if (r == 0 && (h5_put_int(ds, "stored_crc32", crc, e) || h5_mark_as_rgb(ds, e)))
        r = -1;
    if (ds >= 0 && H5Dclose(ds) < 0 && r == 0)
        r = h5_write_failed(e, name);
    return r;
}

/* --- reading --- */

struct image {
    hid_t ds;
    const char *name;
    int64_t width, height, rows; /* px; rows of a strip, 0: the chunks are not JPEG files */
    uint8_t *stored;             /* one strip */
    size_t n;                    /* bytes of it */
    bool raw;                    /* it is stored as pixels */
};

/* Is it packed with the filter of codec jpeg? Notes the rows of a strip. */
static int look_at_filter(struct image *m, struct err *e)
{
    unsigned flags = 0, config, v[4] = {0};
    size_t n = 4;
    hsize_t chunk[3] = {0};
    hid_t dcpl = H5Dget_create_plist(m->ds);
    const bool jpeg = H5Pget_layout(dcpl) == H5D_CHUNKED && H5Pget_nfilters(dcpl) == 1 &&
                      H5Pget_filter2(dcpl, 0, &flags, &n, v, 0, NULL, &config) ==
                          codec_find("jpeg")->h5_filter;
    const bool good = jpeg && H5Pget_chunk(dcpl, 3, chunk) == 3 && !(flags & H5Z_FLAG_OPTIONAL) &&
                      n == 4 && v[1] == chunk[1] && v[2] == chunk[0] && v[3] == 1 &&
                      chunk[1] == (hsize_t)m->width && chunk[2] == 3 &&
                      chunk[0] <= (hsize_t)m->height;
    H5Pclose(dcpl);
    if (jpeg && !good)
        return err_set(e, "%s has chunks of another shape than its filter says", m->name);
    m->rows = jpeg ? (int64_t)chunk[0] : 0;
    return 0;
}

/* Reads the stored bytes of strip k. */
static int read_strip(struct image *m, int64_t k, struct err *e)
{
    const struct codec_params p = params_of(m->width, m->rows);
    const hsize_t at[3] = {(hsize_t)(k * m->rows), 0, 0};
    hsize_t n = 0;
    uint32_t mask = 0;
    if (H5Dget_chunk_storage_size(m->ds, at, &n) < 0)
        return h5_error(e, "cannot read %s", m->name);
    if (n < 1 || n > codec_most_bytes(&p))
        return err_set(e, "%s is damaged: a strip has an impossible size", m->name);
    if (H5Dread_chunk(m->ds, H5P_DEFAULT, at, &mask, m->stored) < 0)
        return h5_error(e, "cannot read %s", m->name);
    m->n = (size_t)n;
    m->raw = mask != 0;
    return !m->raw || m->n == codec_pixel_bytes(&p)
               ? 0
               : err_set(e, "%s is damaged: a strip has an impossible size", m->name);
}

static int check_stored_crc(struct image *m, struct err *e)
{
    int64_t want;
    uint32_t crc = 0;
    if (h5_get_int(m->ds, "stored_crc32", 0, UINT32_MAX, &want, e))
        return -1;
    for (int64_t row = 0; row < m->height; row += m->rows) {
        if (read_strip(m, row / m->rows, e))
            return -1;
        crc = codec_crc32_more(crc, m->stored, m->n);
    }
    return crc == want ? 0
                       : err_set(e, "%s is damaged (CRC mismatch); make the file again", m->name);
}

/* Unpacks one strip into `room`. */
static int unpack_strip(const struct image *m, struct codec_work *w, uint8_t *room, struct err *e)
{
    const struct codec_params p = params_of(m->width, m->rows);
    switch (codec_decode(w, &p, m->stored, m->n, room)) {
    case 0: return 0;
    case CODEC_NO_LIBRARY: return H5_NO_LIBRARY;
    case CODEC_NO_MEMORY: return err_set(e, "out of memory");
    default: return err_set(e, "%s is damaged: cannot unpack it; make the file again", m->name);
    }
}

static int unpack(struct image *m, struct codec_work *w, uint8_t *room, uint8_t *out, struct err *e)
{
    const size_t line = (size_t)(3 * m->width);
    for (int64_t row = 0; row < m->height; row += m->rows) {
        const int64_t rows = m->height - row < m->rows ? m->height - row : m->rows;
        if (read_strip(m, row / m->rows, e))
            return -1;
        const int r = m->raw ? 0 : unpack_strip(m, w, room, e);
        if (r)
            return r;
        memcpy(out + line * (size_t)row, m->raw ? m->stored : room, line * (size_t)rows);
    }
    return 0;
}

/* The checksum is checked first, so that the decoder sees no damage. One strip is in memory. */
static int read_jpeg(struct image *m, uint8_t *out, struct err *e)
{
    const struct codec_params p = params_of(m->width, m->rows);
    struct codec_work *w = codec_create(e);
    uint8_t *room = malloc(codec_pixel_bytes(&p));
    m->stored = malloc(codec_most_bytes(&p));
    int r = w && room && m->stored ? check_stored_crc(m, e) : err_set(e, "out of memory");
    if (r == 0)
        r = unpack(m, w, room, out, e);
    free(m->stored);
    free(room);
    codec_free(w);
    return r;
}

int h5_read_image(hid_t parent, const char *name, const hsize_t *dims, uint8_t *data,
                  struct err *e)
{
    struct image m = {.name = name, .width = (int64_t)dims[1], .height = (int64_t)dims[0]};
    m.ds = h5_open_array(parent, name, H5T_NATIVE_UINT8, 3, dims, e);
    if (m.ds < 0)
        return -1;
    int r = look_at_filter(&m, e);
    if (r == 0 && m.rows > 0)
        r = read_jpeg(&m, data, e);
    H5Dclose(m.ds);
    return r || m.rows > 0 ? r : h5_read_array(parent, name, H5T_NATIVE_UINT8, 3, dims, data, e);
}
