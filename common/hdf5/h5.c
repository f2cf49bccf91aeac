/* h5.c - see h5.h. */
#include "common/hdf5/h5.h"

#include "common/base/memory.h"
#include "common/codec/codec.h"
#include "common/hdf5/guard.h"

#include <errno.h>
#include <stdlib.h>

enum { CHUNK_BYTES = 4 << 20 };

hid_t h5_list(hid_t list, bool failed)
{
    if (!failed)
        return list;
    H5Pclose(list);
    return -1;
}

void h5_close(hid_t id)
{
    if (id >= 0)
        H5Idec_ref(id);
}

hid_t h5_creation(hid_t class)
{
    const unsigned all = 65535;
    hid_t list = H5Pcreate(class);
    return h5_list(list, H5Pset_obj_track_times(list, false) < 0 ||
                             H5Pset_attr_phase_change(list, all, 0) < 0);
}

hid_t h5_create_group(hid_t parent, const char *name, unsigned links, struct err *e)
{
    hid_t gcpl = h5_creation(H5P_GROUP_CREATE);
    if (links > 0)
        gcpl = h5_list(gcpl, H5Pset_link_phase_change(gcpl, links, links) < 0);
    hid_t g = H5Gcreate2(parent, name, H5P_DEFAULT, gcpl, H5P_DEFAULT);
    if (g < 0)
        h5_write_failed(e, name);
    H5Pclose(gcpl);
    return g;
}

/* The kind of dataset that an object must be. */
enum shape { ORDINARY, VIEW };

/* Looks at an object of an input file before the library does (guard.h). */
static int guard(hid_t parent, uint64_t address, const char *name, enum shape shape, struct err *e)
{
    const int fd = h5_descriptor(parent, e);
    if (fd < 0)
        return fd == -1 ? 0 : -1;
    if (!(shape == VIEW ? guard_view(fd, address, e) : guard_object(fd, address, e)))
        return 0;
    const bool system = errno != 0;
    if (system)
        h5_note_system_failure();
    return err_add(e, system ? "%s" : "%s is damaged", name);
}

int h5_find(hid_t parent, const char *name, uint64_t *address, struct err *e)
{
    H5L_info_t info;
    if (H5Lget_info(parent, name, &info, H5P_DEFAULT) < 0) {
        h5_forget();
        return err_set(e, "%s is missing", name);
    }
    if (info.type != H5L_TYPE_HARD)
        return err_set(e, "%s is reached by a link that may lead out of the file: rejected", name);
    *address = info.u.address;
    return 0;
}

/* The link must exist, be hard, and lead to an object of this kind. */
static hid_t open_object(hid_t parent, const char *name, H5I_type_t kind, enum shape shape,
                         struct err *e)
{
    uint64_t address;
    if (h5_find(parent, name, &address, e) || guard(parent, address, name, shape, e))
        return -1;
    hid_t o = H5Oopen(parent, name, H5P_DEFAULT);
    if (o < 0)
        return h5_error(e, "%s is damaged", name);
    if (H5Iget_type(o) == kind)
        return o;
    H5Oclose(o);
    return err_set(e, "%s is an object of the wrong kind", name);
}

hid_t h5_open_group(hid_t parent, const char *name, struct err *e)
{
    return open_object(parent, name, H5I_GROUP, ORDINARY, e);
}

/* Rows of a chunk of an array that is packed. */
static hsize_t chunk_rows(hid_t type, int rank, const hsize_t *dims)
{
    const hsize_t across = (rank > 1 ? dims[1] : 1) * (rank > 2 ? dims[2] : 1);
    const hsize_t most = CHUNK_BYTES / (across * H5Tget_size(type)) + 1;
    return dims[0] < most ? dims[0] : most;
}

/* How an array is stored: contiguous, or packed in chunks of whole rows. */
static hid_t array_layout(hid_t type, int rank, const hsize_t *dims, bool packed)
{
    hid_t dcpl = h5_creation(H5P_DATASET_CREATE);
    if (!packed)
        return dcpl;
    const hsize_t chunk[3] = {chunk_rows(type, rank, dims), rank > 1 ? dims[1] : 1,
                              rank > 2 ? dims[2] : 1};
    return h5_list(dcpl, H5Pset_chunk(dcpl, rank, chunk) < 0 ||
                             (H5Tget_size(type) > 1 && H5Pset_shuffle(dcpl) < 0) ||
                             H5Pset_deflate(dcpl, codec_find("deflate")->level) < 0);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "values are stored as they are in memory");

void h5_shuffle(const void *values, size_t n, size_t size, uint8_t *out)
{
    for (size_t b = 0; b < size; b++)
        for (size_t k = 0; k < n; k++)
            out[b * n + k] = ((const uint8_t *)values)[k * size + b];
}

/* Writes n values as the only chunk of an array. The codec packs faster than HDF5's filter. */
static int write_chunk(hid_t ds, const char *name, size_t n, size_t size, const void *data,
                       struct err *e)
{
    const uint32_t not_deflated = size > 1 ? 2 : 1; /* the last filter of array_layout() */
    const struct codec_params p = {codec_find("deflate"), (int64_t)n, (int64_t)size, 1};
    const hsize_t first[3] = {0};
    struct codec_work *work = codec_create();
    uint8_t *shuffled = memory_try(n, size, e), *packed = memory_try(n, size, e);
    size_t bytes = 0;
    int r = -1;
    if (shuffled && packed) {
        h5_shuffle(data, n, size, shuffled);
        r = codec_encode(work, &p, shuffled, packed, &bytes, e);
    }
    if (r == 0 && H5Dwrite_chunk(ds, H5P_DEFAULT, bytes ? 0 : not_deflated, first,
                                 bytes ? bytes : n * size, bytes ? packed : shuffled) < 0)
        r = h5_write_failed(e, name);
    free(shuffled);
    free(packed);
    codec_free(work);
    return r;
}

int h5_write_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                   bool packed, const void *data, struct err *e)
{
    hid_t space = H5Screate_simple(rank, dims, NULL);
    const hssize_t points = H5Sget_simple_extent_npoints(space);
    packed = packed && points > 0;
    hid_t dcpl = array_layout(type, rank, dims, packed);
    hid_t ds = H5Dcreate2(parent, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    int r = ds < 0 ? h5_write_failed(e, name) : 0;
    if (r == 0 && packed && chunk_rows(type, rank, dims) == dims[0])
        r = write_chunk(ds, name, (size_t)points, H5Tget_size(type), data, e);
    else if (r == 0 && points > 0 && H5Dwrite(ds, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
        r = h5_write_failed(e, name);
    if (r == 0)
        r = h5_put_int(ds, "crc32", codec_crc32(data, (size_t)points * H5Tget_size(type)), e);
    if (ds >= 0 && H5Dclose(ds) < 0 && r == 0)
        r = h5_write_failed(e, name);
    H5Pclose(dcpl);
    H5Sclose(space);
    return r;
}

hid_t h5_open_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                    struct err *e)
{
    hsize_t found[H5S_MAX_RANK];
    hid_t ds = open_object(parent, name, H5I_DATASET, ORDINARY, e);
    if (ds < 0)
        return -1;
    hid_t space = H5Dget_space(ds), have = H5Dget_type(ds);
    bool good = H5Sget_simple_extent_ndims(space) == rank;
    if (good)
        H5Sget_simple_extent_dims(space, found, NULL);
    for (int i = 0; good && i < rank; i++)
        good = found[i] == dims[i];
    good =
        good && H5Tget_class(have) == H5Tget_class(type) && H5Tget_size(have) == H5Tget_size(type);
    H5Tclose(have);
    H5Sclose(space);
    if (good)
        return ds;
    err_set(e, "%s has the wrong shape or type", name);
    H5Dclose(ds);
    return -1;
}

hid_t h5_open_dataset(hid_t parent, const char *name, struct err *e)
{
    return open_object(parent, name, H5I_DATASET, ORDINARY, e);
}

hid_t h5_open_view(hid_t parent, const char *name, struct err *e)
{
    return open_object(parent, name, H5I_DATASET, VIEW, e);
}

int h5_get_shape(hid_t parent, const char *name, int rank, hsize_t *dims, struct err *e)
{
    hid_t ds = open_object(parent, name, H5I_DATASET, ORDINARY, e),
          space = ds < 0 ? -1 : H5Dget_space(ds);
    const bool good = space >= 0 && H5Sget_simple_extent_ndims(space) == rank &&
                      H5Sget_simple_extent_dims(space, dims, NULL) == rank;
    if (ds >= 0 && !good)
        err_set(e, "%s has the wrong shape or type", name);
    h5_close(space);
    h5_close(ds);
    return good ? 0 : -1;
}

int h5_has_link(hid_t parent, const char *name, struct err *e)
{
    const htri_t there = H5Lexists(parent, name, H5P_DEFAULT);
    return there < 0 ? h5_error(e, "cannot look for %s", name) : there > 0;
}

static int check_crc(hid_t ds, const char *name, const void *data, size_t bytes, struct err *e)
{
    int64_t want;
    const int stored =
        h5_has(ds, "stored_crc32", e); /* of JPEG strips: checked when they are read */
    if (stored)
        return stored < 0 ? -1 : 0;
    if (h5_get_int(ds, "crc32", 0, UINT32_MAX, &want, e))
        return err_add(e, "%s", name);
    return codec_crc32(data, bytes) == want
               ? 0
               : err_set(e, "%s is damaged (CRC mismatch); " ERR_MAKE_AGAIN, name);
}

int h5_read_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                  void *data, struct err *e)
{
    hid_t ds = h5_open_array(parent, name, type, rank, dims, e);
    if (ds < 0)
        return -1;
    hsize_t points = 1;
    for (int i = 0; i < rank; i++)
        points *= dims[i];
    int r = points ? h5_read_values(ds, name, type, rank, dims, data, e) : 0;
    if (r == 0)
        r = check_crc(ds, name, data, (size_t)points * H5Tget_size(type), e);
    H5Dclose(ds);
    return r;
}

/* --- texts --- */

static hid_t text_type(size_t width)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    if (H5Tset_size(type, width) >= 0 && H5Tset_strpad(type, H5T_STR_NULLPAD) >= 0 &&
        H5Tset_cset(type, H5T_CSET_UTF8) >= 0)
        return type;
    H5Tclose(type);
    return -1;
}

int h5_write_texts(hid_t parent, const char *name, hsize_t n, size_t width, const char *texts,
                   struct err *e)
{
    hid_t type = text_type(width);
    if (type < 0)
        return h5_write_failed(e, name);
    const int r = h5_write_array(parent, name, type, 1, &n, true, texts, e);
    H5Tclose(type);
    return r;
}

/* The type of a dataset of texts, if they are as h5_write_texts() writes them; or -1. */
static hid_t find_text_type(hid_t parent, const char *name, size_t most, struct err *e)
{
    hid_t ds = h5_open_dataset(parent, name, e);
    if (ds < 0)
        return -1;
    hid_t have = H5Dget_type(ds), type = -1;
    const size_t width = H5Tget_size(have);
    if (H5Tget_class(have) == H5T_STRING && width >= 1 && width <= most)
        type = text_type(width);
    const bool same = type >= 0 && H5Tequal(have, type) > 0;
    H5Tclose(have);
    H5Dclose(ds);
    if (same)
        return type;
    h5_close(type);
    return err_set(e, "%s has the wrong shape or type", name);
}

char *h5_read_texts(hid_t parent, const char *name, hsize_t n, size_t *width, struct err *e)
{
    hid_t type = find_text_type(parent, name, *width, e);
    if (type < 0)
        return NULL;
    *width = H5Tget_size(type);
    char *texts = memory_try((size_t)n + 1, *width, e);
    if (texts && h5_read_array(parent, name, type, 1, &n, texts, e)) {
        free(texts);
        texts = NULL;
    }
    H5Tclose(type);
    return texts;
}
