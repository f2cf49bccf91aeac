/* h5_strips.c - see h5_strips.h. */
#include "common/hdf5/h5_strips.h"

#include "common/base/memory.h"
#include "common/base/pipe.h"
#include "common/codec/codec.h"
#include "common/hdf5/h5.h"
#include "common/hdf5/h5_attr.h"
#include "common/hdf5/h5_library.h"

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

/* The codec of the chunks, and their shape. */
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
    return crc == want ? 0 : err_set(e, "%s is damaged (CRC mismatch); " ERR_MAKE_AGAIN, m->name);
}

/* Unpacks the strip into m->room. */
static int unpack_strip(const struct h5_strips *m, struct err *e)
{
    switch (codec_decode(m->work, &m->p, m->stored, m->n, m->room)) {
    case 0: return 0;
    case CODEC_NO_LIBRARY:
        err_set(e, "%s is JPEG, which this build cannot decode", m->name);
        return H5_NO_LIBRARY;
    case CODEC_NO_MEMORY: return err_memory(e);
    default: return err_set(e, "%s is damaged: cannot unpack it; " ERR_MAKE_AGAIN, m->name);
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
    m->work = codec_create();
    if ((m->room = memory_try(codec_pixel_bytes(&m->p), 1, e)) &&
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

/* An item of the pipe is a strip: a chunk of whole rows. */

enum { STRIP_BYTES = 1 << 17 };

struct strip {
    int64_t number;
    uint8_t *pixels, *packed;
    size_t bytes; /* of packed; 0: it is not smaller than the pixels */
};

struct image {
    const char *name;
    const uint8_t *data;
    int64_t rows;
    struct codec_params strip; /* deflate; what each strip unpacks to */
    int64_t next;
    struct codec_work **codecs; /* [threads] */
    hid_t dataset;
};

static int source(void *ctx, void *slot, int64_t number, struct err *e)
{
    struct image *m = ctx;
    (void)e;
    if (m->next * m->strip.rows >= m->rows)
        return PIPE_END;
    ((struct strip *)slot)->number = number;
    m->next++;
    return PIPE_ITEM;
}

/* The last strip may end early; its other rows are zero. */
static int work(void *ctx, void *slot, int thread, struct err *e)
{
    const struct image *m = ctx;
    struct strip *s = slot;
    const int64_t first = s->number * m->strip.rows;
    const size_t row = (size_t)(m->strip.cols * m->strip.channels);
    const size_t have = row * (size_t)(m->rows - first);
    const size_t all = codec_pixel_bytes(&m->strip), n = have < all ? have : all;
    memcpy(s->pixels, m->data + row * (size_t)first, n);
    memset(s->pixels + n, 0, all - n);
    return codec_encode(m->codecs[thread], &m->strip, s->pixels, s->packed, &s->bytes, e);
}

static int sink(void *ctx, void *slot, struct err *e)
{
    const struct image *m = ctx;
    const struct strip *s = slot;
    const hsize_t at[3] = {(hsize_t)(s->number * m->strip.rows), 0, 0};
    const bool raw = s->bytes == 0;
    const size_t n = raw ? codec_pixel_bytes(&m->strip) : s->bytes;
    if (H5Dwrite_chunk(m->dataset, H5P_DEFAULT, raw, at, n, raw ? s->pixels : s->packed) < 0)
        return h5_write_failed(e, m->name);
    return 0;
}

static int allocate(struct image *m, int threads, struct strip *strips, int depth, struct err *e)
{
    const size_t bytes = codec_pixel_bytes(&m->strip);
    for (int t = 0; t < threads; t++)
        m->codecs[t] = codec_create();
    for (int k = 0; k < depth; k++) {
        strips[k].pixels = memory_try(bytes, 1, e);
        strips[k].packed = memory_try(bytes, 1, e);
        if (!strips[k].pixels || !strips[k].packed)
            return -1;
    }
    return 0;
}

static int run(struct image *m, int threads, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    const int depth = 2 * threads;
    struct strip *strips = memory_need((size_t)depth, sizeof *strips);
    m->codecs = memory_need((size_t)threads, sizeof *m->codecs);
    int r = allocate(m, threads, strips, depth, e);
    if (r == 0)
        r = pipe_run(&ops, m, strips, sizeof *strips, depth, threads, e);
    for (int k = 0; k < depth; k++) {
        free(strips[k].pixels);
        free(strips[k].packed);
    }
    for (int t = 0; t < threads; t++)
        codec_free(m->codecs[t]);
    free(strips);
    free(m->codecs);
    return r;
}

static hid_t create(hid_t parent, const char *name, const struct image *m, int rank)
{
    const struct codec_params *s = &m->strip;
    const hsize_t dims[3] = {(hsize_t)m->rows, (hsize_t)s->cols, (hsize_t)s->channels};
    const hsize_t chunk[3] = {(hsize_t)s->rows, (hsize_t)s->cols, (hsize_t)s->channels};
    hid_t dcpl = h5_creation(H5P_DATASET_CREATE), space = H5Screate_simple(rank, dims, NULL);
    dcpl = h5_list(dcpl, H5Pset_chunk(dcpl, rank, chunk) < 0 ||
                             H5Pset_deflate(dcpl, s->codec->level) < 0);
    hid_t ds = H5Dcreate2(parent, name, H5T_STD_U8LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(dcpl);
    return ds;
}

/* HDF5 Image and Palette Specification, version 1.2: HDFView and h5im tools then show a picture. */
static int mark_as_rgb(hid_t dataset, struct err *e)
{
    static const char *const words[][2] = {{"CLASS", "IMAGE"},
                                           {"IMAGE_VERSION", "1.2"},
                                           {"IMAGE_SUBCLASS", "IMAGE_TRUECOLOR"},
                                           {"INTERLACE_MODE", "INTERLACE_PIXEL"}};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
        if (h5_put_word(dataset, words[k][0], words[k][1], e))
            return -1;
    return 0;
}

int h5_write_image(hid_t parent, const char *name, const int64_t dims[3], const uint8_t *data,
                   int threads, struct err *e)
{
    const int64_t row = dims[1] * dims[2], most = STRIP_BYTES / row + 1;
    struct image m = {
        .name = name,
        .data = data,
        .rows = dims[0],
        .strip = {codec_find("deflate"), dims[0] < most ? dims[0] : most, dims[1], dims[2]}};
    const int64_t strips = (m.rows + m.strip.rows - 1) / m.strip.rows;
    m.dataset = create(parent, name, &m, dims[2] > 1 ? 3 : 2);
    if (m.dataset < 0)
        return h5_write_failed(e, name);
    int r = run(&m, strips < threads ? (int)strips : threads, e);
    if (r == 0)
        r = h5_put_int(m.dataset, "crc32", codec_crc32(data, (size_t)(m.rows * row)), e);
    if (r == 0 && dims[2] == 3)
        r = mark_as_rgb(m.dataset, e);
    if (H5Dclose(m.dataset) < 0 && r == 0)
        r = h5_write_failed(e, name);
    return r;
}

/* --- compressed already --- */

static size_t refuse_filter(unsigned flags, size_t n_values, const unsigned *values, size_t n,
                            size_t *size, void **bytes)
{
    (void)flags, (void)n_values, (void)values, (void)n, (void)size, (void)bytes;
    return 0; /* failed; never called, because chunks are read and written without the library */
}

/* HDF5 creates a dataset with a mandatory filter only if the process has that filter. */
int h5_set_kept(hid_t dcpl, const struct codec *c, int64_t cols, int64_t rows, int64_t channels)
{
    const H5Z_class2_t filter = {.version = H5Z_CLASS_T_VERS,
                                 .id = c->h5_filter,
                                 .encoder_present = 1,
                                 .decoder_present = 1,
                                 .name = c->name,
                                 .filter = refuse_filter};
    const unsigned values[4] = {c->level, (unsigned)cols, (unsigned)rows, channels == 3};
    return H5Zregister(&filter) < 0 || H5Pset_filter(dcpl, c->h5_filter, 0, 4, values) < 0 ? -1 : 0;
}

static hid_t create_jpeg(hid_t parent, const char *name, const struct jpeg_strips *s)
{
    const hsize_t dims[3] = {(hsize_t)s->height, (hsize_t)s->width, 3};
    const hsize_t chunk[3] = {(hsize_t)s->rows, (hsize_t)s->width, 3};
    hid_t dcpl = h5_creation(H5P_DATASET_CREATE), space = H5Screate_simple(3, dims, NULL);
    dcpl = h5_list(dcpl, H5Pset_chunk(dcpl, 3, chunk) < 0 ||
                             h5_set_kept(dcpl, codec_find("jpeg"), s->width, s->rows, 3));
    hid_t ds = H5Dcreate2(parent, name, H5T_STD_U8LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(dcpl);
    return ds;
}

int h5_write_strips(hid_t parent, const char *name, const struct jpeg_strips *s, uint32_t *crc,
                    struct err *e)
{
    hid_t ds = create_jpeg(parent, name, s);
    int r = ds < 0 ? h5_write_failed(e, name) : 0;
    *crc = 0;
    for (int64_t k = 0; r == 0 && k < s->n; k++) {
        const struct jpeg_chunk *c = &s->list[k];
        const hsize_t at[3] = {(hsize_t)(k * s->rows), 0, 0};
        *crc = codec_crc32_more(*crc, c->bytes, c->n);
        if (H5Dwrite_chunk(ds, H5P_DEFAULT, jpeg_strips_is_raw(s, k), at, c->n, c->bytes) < 0)
            r = h5_write_failed(e, name);
    }
    if (r == 0 && (h5_put_int(ds, "stored_crc32", *crc, e) || mark_as_rgb(ds, e)))
        r = -1;
    if (ds >= 0 && H5Dclose(ds) < 0 && r == 0)
        r = h5_write_failed(e, name);
    return r;
}
