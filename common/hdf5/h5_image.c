/* h5_image.c - see h5_image.h. An item of the pipe is a strip: a chunk of whole rows. */
#include "common/hdf5/h5_image.h"

#include "common/base/memory.h"
#include "common/base/pipe.h"
#include "common/codec/codec.h"
#include "common/hdf5/h5.h"

#include <stdlib.h>
#include <string.h>

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
        if (!(m->codecs[t] = codec_create(e)))
            return -1;
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

int h5_write_strips(hid_t parent, const char *name, const struct jpeg_strips *s, struct err *e)
{
    uint32_t crc = 0;
    hid_t ds = create_jpeg(parent, name, s);
    int r = ds < 0 ? h5_write_failed(e, name) : 0;
    for (int64_t k = 0; r == 0 && k < s->n; k++) {
        const struct jpeg_chunk *c = &s->list[k];
        const hsize_t at[3] = {(hsize_t)(k * s->rows), 0, 0};
        crc = codec_crc32_more(crc, c->bytes, c->n);
        if (H5Dwrite_chunk(ds, H5P_DEFAULT, jpeg_strips_is_raw(s, k), at, c->n, c->bytes) < 0)
            r = h5_write_failed(e, name);
    }
    if (r == 0 && (h5_put_int(ds, "stored_crc32", crc, e) || mark_as_rgb(ds, e)))
        r = -1;
    if (ds >= 0 && H5Dclose(ds) < 0 && r == 0)
        r = h5_write_failed(e, name);
    return r;
}
