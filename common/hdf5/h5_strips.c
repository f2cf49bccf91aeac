/* h5_strips.c - see h5_strips.h. */
#include "common/hdf5/h5_strips.h"

#include "common/base/memory.h"
#include "common/codec/codec.h"
#include "common/hdf5/h5_attr.h"
#include "common/hdf5/h5_error.h"

#include <stdlib.h>
#include <string.h>

struct h5_strips {
    hid_t ds;
    const char *name;
    int64_t height;        /* rows of the dataset */
    struct codec_params p; /* of a strip of whole rows; each byte of a value is a channel */
    size_t most;           /* bytes that a stored strip may have */
    size_t shuffled; /* bytes of a value, if HDF5's filter of this name is the first; else 0 */
    struct codec_work *work;
    uint8_t *room, *stored; /* one strip, unpacked and as it is stored */
    size_t n;               /* bytes of it */
    uint32_t skipped;       /* bit k: filter k was not applied to it */
};

static const struct codec *codec_of_filter(int filter)
{
    static const char *const names[] = {"deflate", "jpeg"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        if (codec_find(names[k])->h5_filter == filter)
            return codec_find(names[k]);
    return NULL;
}

/* Is there a codec, alone or behind shuffle? */
static bool find_filters(struct h5_strips *m, hid_t dcpl, hid_t type, unsigned *flags, size_t *n,
                         unsigned v[4])
{
    const int filters = H5Pget_nfilters(dcpl);
    unsigned config;
    H5Z_filter_t first = filters < 1 ? -1 : H5Pget_filter2(dcpl, 0, flags, n, v, 0, NULL, &config);
    if (filters == 2 && first == H5Z_FILTER_SHUFFLE) {
        m->shuffled = H5Tget_size(type);
        *n = 4;
        first = H5Pget_filter2(dcpl, 1, flags, n, v, 0, NULL, &config);
        return first == H5Z_FILTER_DEFLATE && (m->p.codec = codec_of_filter(first));
    }
    return filters == 1 && (m->p.codec = codec_of_filter(first));
}

/* What the chunks are packed with, and their shape. */
static int look_at_filter(struct h5_strips *m, hid_t type, int rank, const hsize_t *dims,
                          struct err *e)
{
    unsigned flags = 0, v[4] = {0};
    size_t n = 4;
    hsize_t chunk[3] = {0};
    hid_t dcpl = H5Dget_create_plist(m->ds);
    hid_t have = H5Dget_type(m->ds);
    bool good = H5Tequal(have, type) > 0 && H5Pget_layout(dcpl) == H5D_CHUNKED && rank <= 3 &&
                find_filters(m, dcpl, type, &flags, &n, v) &&
                H5Pget_chunk(dcpl, 3, chunk) == rank && chunk[0] >= 1 && chunk[0] <= dims[0];
    H5Tclose(have);
    H5Pclose(dcpl);
    for (int k = 1; k < rank; k++)
        good = good && chunk[k] == dims[k];
    if (good && m->p.codec->id == CODEC_JPEG)
        good = !(flags & H5Z_FLAG_OPTIONAL) && n == 4 && v[1] == chunk[1] && v[2] == chunk[0] &&
               v[3] == 1 && chunk[2] == 3;
    if (!good)
        return err_set(e, "%s has chunks, filters or values that these files do not have", m->name);
    m->height = (int64_t)dims[0];
    m->p.rows = (int64_t)chunk[0];
    m->p.cols = rank > 1 ? (int64_t)dims[1] : 1;
    m->p.channels = (int64_t)(rank > 2 ? dims[2] : 1) * (int64_t)H5Tget_size(type);
    m->most = codec_most_bytes(&m->p) + codec_pixel_bytes(&m->p) / 1000 + 64; /* zlib's bound */
    return 0;
}

/* Is the strip stored as values, in order or shuffled? */
static bool is_raw(const struct h5_strips *m)
{
    return m->skipped >> (m->shuffled ? 1 : 0) & 1;
}

/* Reads the stored bytes of strip k. */
static int read_strip(struct h5_strips *m, int64_t k, struct err *e)
{
    const hsize_t at[3] = {(hsize_t)(k * m->p.rows), 0, 0};
    hsize_t n = 0;
    if (H5Dget_chunk_storage_size(m->ds, at, &n) < 0)
        return h5_error(e, "cannot read %s", m->name);
    if (n < 1 || n > m->most)
        return err_set(e, "%s is damaged: a strip has an impossible size", m->name);
    if (H5Dread_chunk(m->ds, H5P_DEFAULT, at, &m->skipped, m->stored) < 0)
        return h5_error(e, "cannot read %s", m->name);
    m->n = (size_t)n;
    return !is_raw(m) || m->n == codec_pixel_bytes(&m->p)
               ? 0
               : err_set(e, "%s is damaged: a strip has an impossible size", m->name);
}

/* The stored bytes of an image have a checksum of their own, so that the decoder sees no damage. */
static int check_stored_crc(struct h5_strips *m, struct err *e)
{
    int64_t want;
    uint32_t crc = 0;
    if (m->p.codec->id != CODEC_JPEG)
        return 0;
    if (h5_get_int(m->ds, "stored_crc32", 0, UINT32_MAX, &want, e))
        return -1;
    for (int64_t row = 0; row < m->height; row += m->p.rows) {
        if (read_strip(m, row / m->p.rows, e))
            return -1;
        crc = codec_crc32_more(crc, m->stored, m->n);
    }
    return crc == want ? 0
                       : err_set(e, "%s is damaged (CRC mismatch); make the file again", m->name);
}

/* Unpacks the strip into m->room. */
static int unpack_strip(const struct h5_strips *m, struct err *e)
{
    switch (codec_decode(m->work, &m->p, m->stored, m->n, m->room)) {
    case 0: return 0;
    case CODEC_NO_LIBRARY:
        err_set(e, "%s is JPEG, which this build cannot decode", m->name);
        return H5_NO_LIBRARY;
    case CODEC_NO_MEMORY: return err_set(e, "out of memory");
    default: return err_set(e, "%s is damaged: cannot unpack it; make the file again", m->name);
    }
}

/* Puts the bytes of values together again: a shuffled strip has the first byte of all its values,
 * then the second byte of all, and so on. */
static void put_values(const struct h5_strips *m, const uint8_t *in, size_t bytes, uint8_t *out)
{
    const size_t size = m->shuffled && !(m->skipped & 1) ? m->shuffled : 1;
    const size_t all = codec_pixel_bytes(&m->p) / size;
    if (size == 1)
        memcpy(out, in, bytes);
    for (size_t b = 0; b < size && size > 1; b++)
        for (size_t k = 0; k < bytes / size; k++)
            out[k * size + b] = in[b * all + k];
}

int h5_strips_read(struct h5_strips *m, int64_t k, void *out, struct err *e)
{
    const int64_t left = m->height - k * m->p.rows, rows = left < m->p.rows ? left : m->p.rows;
    if (read_strip(m, k, e))
        return -1;
    const int r = is_raw(m) ? 0 : unpack_strip(m, e);
    if (r == 0)
        put_values(m, is_raw(m) ? m->stored : m->room,
                   (size_t)(m->p.cols * m->p.channels) * (size_t)rows, out);
    return r;
}

int h5_strips_stored(struct h5_strips *m, int64_t k, const void **bytes, size_t *n, uint32_t *mask,
                     struct err *e)
{
    if (read_strip(m, k, e))
        return -1;
    *bytes = m->stored;
    *n = m->n;
    *mask = m->skipped;
    return 0;
}

bool h5_strips_are_shuffled(const struct h5_strips *m)
{
    return m->shuffled > 0;
}

int64_t h5_strips_rows(const struct h5_strips *m)
{
    return m->p.rows;
}

struct h5_strips *h5_strips_open(hid_t ds, const char *name, hid_t type, int rank,
                                 const hsize_t *dims, struct err *e)
{
    struct h5_strips *m = memory_need(1, sizeof *m);
    m->ds = ds;
    m->name = name;
    if (look_at_filter(m, type, rank, dims, e))
        goto fail;
    if ((m->work = codec_create(e)) && (m->room = memory_try(codec_pixel_bytes(&m->p), 1, e)) &&
        (m->stored = memory_try(m->most, 1, e)))
        return m;
fail:
    h5_strips_close(m);
    return NULL;
}

void h5_strips_close(struct h5_strips *m)
{
    if (!m)
        return;
    free(m->stored);
    free(m->room);
    codec_free(m->work);
    free(m);
}

bool h5_is_contiguous(hid_t ds)
{
    hid_t dcpl = H5Dget_create_plist(ds);
    const bool contiguous = H5Pget_layout(dcpl) == H5D_CONTIGUOUS;
    H5Pclose(dcpl);
    return contiguous;
}

int h5_read_values(hid_t ds, const char *name, hid_t type, int rank, const hsize_t *dims,
                   void *data, struct err *e)
{
    if (h5_is_contiguous(ds))
        return H5Dread(ds, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0
                   ? h5_error(e, "cannot read %s", name)
                   : 0;
    struct h5_strips *m = h5_strips_open(ds, name, type, rank, dims, e);
    int r = m ? check_stored_crc(m, e) : -1;
    const size_t strip = r ? 0 : codec_pixel_bytes(&m->p);
    for (int64_t k = 0; r == 0 && k * m->p.rows < m->height; k++)
        r = h5_strips_read(m, k, (char *)data + (size_t)k * strip, e);
    h5_strips_close(m);
    return r;
}
