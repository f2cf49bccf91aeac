/*
 * store_write.c - writes a store; see store_write.h.
 *
 * Chunks arrive packed and in order, so that H5Dwrite_chunk only appends them. A group's dataset is
 * created when its first chunk arrives. After the last one it is closed, and the group's tables are
 * written.
 */
#include "common/store/store_write.h"
#include "common/base/cli.h"
#include "common/base/memory.h"
#include "common/hdf5/h5_attr.h"
#include "common/hdf5/h5_file.h"
#include "common/hdf5/h5_library.h"
#include "common/hdf5/h5_strips.h"

#include <assert.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { METADATA = 1 << 16 }; /* bytes of a block: chunks stay one after the other */
enum { WRITEBACK_BYTES = 64 << 20 };

struct store_writer {
    struct store_info info;
    struct h5_file file;
    hid_t groups, properties;
    hid_t group, pixels;         /* of the group under way, or -1 */
    int64_t number, row, column; /* of the next chunk: its group, chunk row in it, chunk column */
    uint8_t *status;             /* [chunk rows][chunk columns] of the group under way */
    uint32_t *crc32, *bytes;
    uint64_t *offset;
    int64_t columns; /* of chunks */
    size_t most;     /* bytes of a stored chunk */
    struct store_content content;
    uint64_t unsynced; /* bytes since the kernel was last asked to write back */
};

/* --- the head --- */

/* Writes those attributes that are known now. */
static int put(struct store_writer *w, unsigned sets, struct err *e)
{
    return h5_put_fields(w->file.id, store_fields, sets, &w->info, e);
}

struct store_writer *store_create(const char *path, const struct store_info *info, struct err *e)
{
    struct store_writer *w = memory_need(1, sizeof *w);
    w->info = *info;
    w->info.tiles_missing = w->info.tiles_damaged = w->info.tiles_left_out = 0;
    w->info.jpeg_twice = NAN; /* not known, nor is what follows */
    for (int k = 0; k < GLASS_NUMBERS; k++)
        w->info.glass[k] = NAN;
    w->groups = w->properties = w->group = w->pixels = -1;
    w->file = (struct h5_file){.id = -1, .publish.fd = -1};
    const struct codec_params packing = store_codec_params(info);
    w->columns = store_chunk_columns(info);
    w->most = codec_most_bytes(&packing);
    const size_t chunks = (size_t)(store_group_chunk_rows(info, 0) * w->columns);
    if (!(w->status = memory_try_zero(chunks, sizeof *w->status, e)) ||
        !(w->crc32 = memory_try_zero(chunks, sizeof *w->crc32, e)) ||
        !(w->bytes = memory_try_zero(chunks, sizeof *w->bytes, e)) ||
        !(w->offset = memory_try_zero(chunks, sizeof *w->offset, e)))
        goto fail;
    const struct h5_format format = {STORE_FORMAT, STORE_VERSION, "wsi2h5 " WSI_VERSION, METADATA};
    if (h5_file_create(&w->file, path, &format, e))
        goto fail;
    w->file.seals_numbers = true;
    w->file.failed = true; /* until the head is in */
    if (put(w, STORE_HEAD, e) || h5_put_text(w->file.id, "codec", info->codec->name, e) ||
        put(w, STORE_REST, e) || (w->groups = h5_create_group(w->file.id, "groups", 0, e)) < 0 ||
        (w->properties = h5_create_group(w->file.id, "properties", 0, e)) < 0)
        goto fail;
    w->file.failed = false;
    return w;
fail:
    store_abort(w);
    return NULL;
}

/* --- small objects --- */

/* After a failed write the library must not touch the file again. */
static int checked(struct store_writer *w, int result)
{
    if (result < 0)
        w->file.failed = true;
    return result < 0 ? -1 : 0;
}

int store_put_property(struct store_writer *w, const char *key, const char *value, struct err *e)
{
    return checked(w, h5_put_text(w->properties, key, value, e));
}

int store_put_thumbnail(struct store_writer *w, const uint8_t *rgb, int64_t width, int64_t height,
                        int threads, struct err *e)
{
    const int64_t dims[3] = {height, width, 3};
    hid_t g = h5_create_group(w->file.id, "associated", 0, e);
    int r = g < 0 ? -1 : h5_write_image(g, "thumbnail", dims, rgb, threads, e);
    w->content.thumbnail = codec_crc32(rgb, (size_t)(height * width * 3));
    h5_close(g);
    return checked(w, r);
}

int store_put_kept_thumbnail(struct store_writer *w, const struct jpeg_strips *s, struct err *e)
{
    hid_t g = h5_create_group(w->file.id, "associated", 0, e);
    const int r = g < 0 ? -1 : h5_write_strips(g, "thumbnail", s, &w->content.thumbnail, e);
    h5_close(g);
    return checked(w, r);
}

int store_put_icc(struct store_writer *w, const void *profile, size_t bytes, struct err *e)
{
    hsize_t dims[1] = {bytes};
    return checked(
        w, h5_write_array(w->file.id, "icc_profile", H5T_STD_U8LE, 1, dims, false, profile, e));
}

static int put_source(hid_t sources, int64_t number, const struct store_source *s, struct err *e)
{
    char name[32];
    snprintf(name, sizeof name, "%05lld", (long long)number);
    hid_t g = h5_create_group(sources, name, 0, e);
    const int r = g < 0 || h5_put_text(g, "name", s->name, e) ||
                          h5_put_int(g, "bytes", s->bytes, e) ||
                          h5_put_int(g, "mtime_ns", s->mtime_ns, e) ||
                          h5_put_int(g, "index_crc32", s->index_crc32, e) || h5_seal(g, e)
                      ? -1
                      : 0;
    h5_close(g);
    return r;
}

int store_put_sources(struct store_writer *w, const struct store_source *s, int64_t n,
                      struct err *e)
{
    hid_t g = h5_create_group(w->file.id, "sources", 0, e);
    int r = g < 0 ? -1 : h5_put_int(g, "count", n, e);
    for (int64_t k = 0; r == 0 && k < n; k++)
        r = put_source(g, k + 1, s + k, e);
    h5_close(g);
    return checked(w, r);
}

int store_put_tissue(struct store_writer *w, const struct store_tissue *t, int threads,
                     struct err *e)
{
    const int64_t size[3] = {t->rows, t->cols, 1};
    const hsize_t dims[2] = {(hsize_t)t->rows, (hsize_t)t->cols};
    hid_t g = h5_create_group(w->file.id, "tissue", 0, e), ds = -1;
    int r = g < 0 ? -1 : h5_write_image(g, "mask", size, t->mask, threads, e);
    if (r == 0 && (ds = h5_open_array(g, "mask", H5T_NATIVE_UINT8, 2, dims, e)) < 0)
        r = -1;
    if (r == 0 && (h5_put_int(ds, "cell", STORE_CELL, e) ||
                   (t->glass && (h5_put_int(ds, "glass", t->glass, e) ||
                                 h5_put_real(ds, "dark", t->dark, e))) ||
                   h5_put_real(ds, "tissue_fraction", t->fraction, e) || h5_seal(ds, e)))
        r = -1;
    h5_close(ds);
    h5_close(g);
    w->content.tissue = codec_crc32(t->mask, (size_t)(t->rows * t->cols));
    return checked(w, r);
}

int store_put_colour_conflict(struct store_writer *w, const char *what, struct err *e)
{
    snprintf(w->info.colour_conflict, sizeof w->info.colour_conflict, "%s", what);
    return checked(w, put(w, STORE_COLOURS, e));
}

int store_put_jpeg(struct store_writer *w, int64_t quality, const char *subsampling, double twice,
                   struct err *e)
{
    struct store_info *i = &w->info;
    i->jpeg_quality = quality;
    i->jpeg_twice = twice;
    snprintf(i->jpeg_subsampling, sizeof i->jpeg_subsampling, "%s", subsampling);
    return checked(w, put(w, STORE_JPEG, e));
}

int store_put_glass(struct store_writer *w, const double glass[GLASS_NUMBERS], struct err *e)
{
    memcpy(w->info.glass, glass, sizeof w->info.glass);
    return checked(w, put(w, STORE_GLASS, e));
}

int store_put_background(struct store_writer *w, const char *background, struct err *e)
{
    snprintf(w->info.background, sizeof w->info.background, "%s", background);
    return checked(w, put(w, STORE_BACKGROUND, e));
}

int store_put_no_tissue(struct store_writer *w, const char *why, struct err *e)
{
    snprintf(w->info.tissue_missing, sizeof w->info.tissue_missing, "%s", why);
    return checked(w, put(w, STORE_NO_TISSUE, e));
}

int store_put_tissue_doubt(struct store_writer *w, const char *why, struct err *e)
{
    snprintf(w->info.tissue_doubt, sizeof w->info.tissue_doubt, "%s", why);
    return checked(w, put(w, STORE_DOUBT, e));
}

/* --- groups --- */

static int set_filter(hid_t dcpl, const struct store_info *i)
{
    const unsigned level = i->codec->level;
    if (i->codec->keeps)
        return h5_set_kept(dcpl, i->codec, i->chunk_cols, i->chunk_rows, i->channels);
    if (!i->codec->h5_filter)
        return 0;
    /* optional, because this process may lack it: chunks arrive packed */
    return H5Pset_filter(dcpl, i->codec->h5_filter, H5Z_FLAG_OPTIONAL, level > 0, &level) < 0;
}

/* The layout and the codec of a group's pixels, as a creation property list of HDF5. */
static hid_t pixel_layout(const struct store_info *i)
{
    const uint8_t white = 255;
    hsize_t chunk[3] = {(hsize_t)i->chunk_rows, (hsize_t)i->chunk_cols, (hsize_t)i->channels};
    hid_t dcpl = h5_creation(H5P_DATASET_CREATE);
    /* chunks that are left out read as white */
    return h5_list(dcpl, H5Pset_chunk(dcpl, 3, chunk) < 0 ||
                             H5Pset_fill_value(dcpl, H5T_NATIVE_UINT8, &white) < 0 ||
                             H5Pset_fill_time(dcpl, H5D_FILL_TIME_IFSET) < 0 ||
                             H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_INCR) < 0 ||
                             set_filter(dcpl, i));
}

static int begin_group(struct store_writer *w, struct err *e)
{
    const struct store_info *i = &w->info;
    char name[32];
    snprintf(name, sizeof name, "%05lld", (long long)w->number + 1);
    int64_t rows = store_group_height(i, w->number);
    int64_t stripes = (rows + i->stripe_rows - 1) / i->stripe_rows;
    hsize_t dims[3] = {(hsize_t)rows, (hsize_t)i->width, (hsize_t)i->channels};
    /* HDF5 allows no chunk that is larger than the dataset can become */
    hsize_t most[3] = {(hsize_t)(rows > i->chunk_rows ? rows : i->chunk_rows),
                       (hsize_t)(i->width > i->chunk_cols ? i->width : i->chunk_cols), dims[2]};
    w->group = h5_create_group(w->groups, name, 0, e);
    if (w->group < 0 || h5_put_int(w->group, "first_row", w->number * i->group_rows, e) ||
        h5_put_int(w->group, "rows", rows, e) || h5_put_int(w->group, "stripes", stripes, e))
        return checked(w, -1);
    hid_t dcpl = pixel_layout(i), space = H5Screate_simple(3, dims, most);
    w->pixels = H5Dcreate2(w->group, "pixels", H5T_STD_U8LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    if (w->pixels < 0) {
        h5_write_failed(e, "the pixels of a group");
    }
    H5Sclose(space);
    H5Pclose(dcpl);
    return checked(w, w->pixels < 0 ? -1 : 0);
}

static int end_group(struct store_writer *w, struct err *e)
{
    hsize_t dims[2] = {(hsize_t)store_group_chunk_rows(&w->info, w->number), (hsize_t)w->columns};
    int bad = H5Dclose(w->pixels) < 0;
    w->pixels = -1;
    if (bad) {
        h5_write_failed(e, "the pixels of a group");
    }
    if (bad ||
        h5_write_array(w->group, "tile_status", H5T_STD_U8LE, 2, dims, false, w->status, e) ||
        h5_write_array(w->group, "tile_offset", H5T_STD_U64LE, 2, dims, false, w->offset, e) ||
        h5_write_array(w->group, "tile_bytes", H5T_STD_U32LE, 2, dims, false, w->bytes, e) ||
        h5_write_array(w->group, "tile_crc32", H5T_STD_U32LE, 2, dims, false, w->crc32, e))
        return checked(w, -1);
    bad = H5Gclose(w->group) < 0;
    w->group = -1;
    w->number++;
    w->row = 0;
    if (!bad)
        return 0;
    h5_write_failed(e, "a group");
    return checked(w, -1);
}

/* Appends a chunk to the file; *offset is where it lies. If the file has become longer by anything
 * else, too, the library is asked. It then searches its index, which is slow in a large group. */
static int append(struct store_writer *w, const void *bytes, size_t n, bool raw, uint64_t *offset)
{
    const hsize_t at[3] = {(hsize_t)(w->row * w->info.chunk_rows),
                           (hsize_t)(w->column * w->info.chunk_cols), 0};
    const uint32_t mask =
        raw && w->info.codec->id != CODEC_NONE; /* bit 0: the filter was skipped */
    haddr_t before, after;
    if (H5Fget_eoa(w->file.id, &before) < 0 ||
        H5Dwrite_chunk(w->pixels, H5P_DEFAULT, mask, at, n, bytes) < 0 ||
        H5Fget_eoa(w->file.id, &after) < 0)
        return -1;
    if (after - before != n && H5Dget_chunk_info_by_coord(w->pixels, at, NULL, &before, NULL) < 0)
        return -1;
    *offset = before;
    return 0;
}

static int write_bytes(struct store_writer *w, const void *bytes, size_t n, bool raw,
                       uint64_t *offset, struct err *e)
{
    if (append(w, bytes, n, raw, offset)) {
        h5_write_failed(e, "pixels");
        return checked(w, -1);
    }
    /* Let the disk write all the time, so that the fsync at the end is short. */
    w->unsynced += n;
    if (w->unsynced >= WRITEBACK_BYTES) {
        sync_file_range(w->file.publish.fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        w->unsynced = 0;
    }
    return 0;
}

int store_put_chunk(struct store_writer *w, const void *bytes, size_t n, uint32_t crc32,
                    enum store_status status, struct err *e)
{
    assert(!w->file.failed && w->number < w->info.group_count);
    assert((status == STORE_LEFT_OUT) == (n == 0) && n <= w->most);
    const bool raw = store_is_raw(&w->info, n, status);
    assert(n == 0 || !raw || n == (size_t)store_chunk_bytes(&w->info));
    const int64_t k = w->row * w->columns + w->column;
    if (w->group < 0 && begin_group(w, e))
        return -1;
    w->offset[k] = 0;
    if (n > 0 && write_bytes(w, bytes, n, raw, &w->offset[k], e))
        return -1;
    w->bytes[k] = (uint32_t)n;
    w->status[k] = (uint8_t)status;
    w->crc32[k] = n > 0 ? crc32 : 0;
    store_content_add(&w->content, status, w->crc32[k]);
    w->info.tiles_missing += status == STORE_MISSING;
    w->info.tiles_damaged += status == STORE_DAMAGED;
    w->info.tiles_left_out += status == STORE_LEFT_OUT;
    if (++w->column < w->columns)
        return 0;
    w->column = 0;
    return ++w->row < store_group_chunk_rows(&w->info, w->number) ? 0 : end_group(w, e);
}

/* --- the end --- */

/* /pixels, a view of the groups. */
static int put_view(struct store_writer *w, struct err *e)
{
    const struct store_info *i = &w->info;
    const uint8_t white = 255;
    hsize_t dims[3] = {(hsize_t)i->height, (hsize_t)i->width, (hsize_t)i->channels};
    hid_t space = H5Screate_simple(3, dims, NULL), dcpl = h5_creation(H5P_DATASET_CREATE), ds = -1;
    bool bad = H5Pset_fill_value(dcpl, H5T_NATIVE_UINT8, &white) < 0;
    for (int64_t g = 0; g < i->group_count && !bad; g++) {
        char name[64];
        hsize_t start[3] = {(hsize_t)(g * i->group_rows), 0, 0};
        hsize_t count[3] = {(hsize_t)store_group_height(i, g), dims[1], dims[2]};
        hid_t part = H5Screate_simple(3, count, NULL);
        snprintf(name, sizeof name, "/groups/%05lld/pixels", (long long)g + 1);
        bad = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
              H5Pset_virtual(dcpl, space, ".", name, part) < 0;
        H5Sclose(part);
    }
    if (!bad && H5Sselect_all(space) >= 0)
        ds = H5Dcreate2(w->file.id, "pixels", H5T_STD_U8LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    bad = ds < 0 || H5Dclose(ds) < 0;
    if (bad) {
        h5_write_failed(e, "/pixels");
    }
    H5Pclose(dcpl);
    H5Sclose(space);
    return bad ? -1 : 0;
}

static int finish_file(struct store_writer *w, struct err *e)
{
    w->info.content_crc32 = store_content_crc32(&w->info, &w->content);
    if (put_view(w, e) || h5_seal_texts(w->properties, e) || put(w, STORE_TILES, e))
        return -1;
    const bool bad = H5Gclose(w->groups) < 0 || H5Gclose(w->properties) < 0;
    w->groups = w->properties = -1;
    return bad ? h5_write_failed(e, "the groups") : 0;
}

const struct store_info *store_written(const struct store_writer *w)
{
    return &w->info;
}

int store_commit(struct store_writer *w, struct store_info *info, int64_t *bytes, struct err *e)
{
    assert(!w->file.failed && w->number == w->info.group_count);
    int r = checked(w, finish_file(w, e));
    if (r == 0)
        r = h5_file_commit(&w->file, bytes, e);
    if (info)
        *info = w->info;
    store_abort(w);
    return r;
}

void store_abort(struct store_writer *w)
{
    if (!w)
        return;
    h5_file_abort(&w->file);
    free(w->status);
    free(w->crc32);
    free(w->bytes);
    free(w->offset);
    free(w);
}
