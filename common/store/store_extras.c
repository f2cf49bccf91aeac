/* store_extras.c - what a store holds besides its pixels; see store.h. */
#include "common/store/store.h"

#include "common/hdf5/h5_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double least_tissue = 0.005; /* of the cells; the same of glass */

bool store_doubts_tissue(double fraction, char *why, size_t size)
{
    if (fraction > 1 - least_tissue)
        snprintf(why, size, "no glass");
    else if (fraction == 0)
        snprintf(why, size, "no tissue");
    else if (fraction < least_tissue)
        snprintf(why, size, "only %.2g %% tissue", 100 * fraction);
    else
        return false;
    return true;
}

static int find_thumbnail(hid_t file, bool *found, struct err *e)
{
    *found = false;
    int has = h5_has_link(file, "associated", e);
    if (has <= 0)
        return has;
    hid_t group = h5_open_group(file, "associated", e);
    if (group < 0)
        return -1;
    has = h5_has_link(group, "thumbnail", e);
    *found = has > 0;
    H5Gclose(group);
    return has < 0 ? -1 : 0;
}

/* Bytes of all chunks of a group as stored. */
static int add_group(hid_t groups, int64_t number, int64_t *bytes, struct err *e)
{
    char name[32];
    snprintf(name, sizeof name, "%05lld", (long long)number);
    hid_t group = h5_open_group(groups, name, e);
    hid_t pixels = group < 0 ? -1 : h5_open_dataset(group, "pixels", e);
    int r = 0;
    if (pixels < 0)
        r = group < 0 ? -1 : err_add(e, "group %s", name);
    else if (__builtin_add_overflow(*bytes, H5Dget_storage_size(pixels), bytes))
        r = err_set(e, "the size of group %s is damaged", name);
    if (pixels >= 0)
        H5Dclose(pixels);
    if (group >= 0)
        H5Gclose(group);
    return r;
}

static int read_extras(hid_t file, int64_t group_count, struct store_extras *x, struct err *e)
{
    hid_t groups = h5_open_group(file, "groups", e);
    int r = groups < 0 ? -1 : 0;
    for (int64_t k = 1; r == 0 && k <= group_count; k++)
        r = add_group(groups, k, &x->stored_bytes, e);
    if (groups >= 0)
        H5Gclose(groups);
    if (h5_get_text(file, "creator", x->creator, sizeof x->creator, NULL))
        x->creator[0] = 0;
    const int has = r ? 0 : h5_has_link(file, "icc_profile", e);
    x->icc_profile = has > 0;
    return r || has < 0 ? -1 : find_thumbnail(file, &x->thumbnail, e);
}

int store_read_extras(const struct store *s, struct store_extras *x, struct err *e)
{
    static const struct h5_format format = {STORE_FORMAT, STORE_VERSION, ""};
    *x = (struct store_extras){0};
    hid_t file = h5_open(store_path(s), &format, &x->version, e);
    if (file < 0)
        return -1;
    const int r = read_extras(file, store_info(s)->group_count, x, e);
    H5Fclose(file);
    return r ? err_add(e, "%s", store_path(s)) : 0;
}

/* --- checks of everything but the chunks --- */

/* Reads the profile, if there is one, so that its checksum is checked. */
static int check_icc(hid_t file, struct err *e)
{
    enum { MOST = 1 << 30 };
    hsize_t bytes;
    const int has = h5_has_link(file, "icc_profile", e);
    if (has <= 0)
        return has;
    if (h5_get_shape(file, "icc_profile", 1, &bytes, e))
        return -1;
    if (bytes < 1 || bytes > MOST)
        return err_set(e, "icc_profile has an invalid size");
    void *data = malloc((size_t)bytes);
    const int r = data ? h5_read_array(file, "icc_profile", H5T_NATIVE_UINT8, 1, &bytes, data, e)
                       : err_set(e, "out of memory");
    free(data);
    return r;
}

static int check_properties(hid_t file, struct err *e)
{
    const int has = h5_has_link(file, "properties", e);
    if (has <= 0)
        return has;
    hid_t g = h5_open_group(file, "properties", e);
    const int r = g < 0 ? -1 : h5_check_texts(g, e);
    if (g >= 0)
        H5Gclose(g);
    return r ? err_add(e, "properties") : 0;
}

/* Does mapping k of /pixels show all of group k + 1 where it belongs? */
static bool is_mapped(hid_t dcpl, const struct store_info *i, int64_t k)
{
    char name[64] = "", want[64], file[8] = "";
    hsize_t low[3] = {0}, high[3] = {0};
    hid_t where = H5Pget_virtual_vspace(dcpl, (size_t)k);
    hid_t part = H5Pget_virtual_srcspace(dcpl, (size_t)k);
    const int64_t first = k * i->group_rows, rows = store_group_height(i, k);
    const hsize_t end[3] = {(hsize_t)(first + rows), (hsize_t)i->width, (hsize_t)i->channels};
    snprintf(want, sizeof want, "/groups/%05lld/pixels", (long long)k + 1);
    bool good =
        H5Pget_virtual_filename(dcpl, (size_t)k, file, sizeof file) == 1 && !strcmp(file, ".") &&
        H5Pget_virtual_dsetname(dcpl, (size_t)k, name, sizeof name) > 0 && !strcmp(name, want) &&
        H5Sget_select_type(part) == H5S_SEL_ALL && H5Sget_simple_extent_ndims(where) == 3 &&
        H5Sget_select_bounds(where, low, high) >= 0 && low[0] == (hsize_t)first &&
        H5Sget_select_npoints(where) == (hssize_t)(rows * i->width * i->channels);
    for (int d = 0; good && d < 3; d++)
        good = high[d] == end[d] - 1 && (d == 0 || low[d] == 0);
    H5Sclose(where);
    H5Sclose(part);
    return good;
}

/* /pixels: its shape and its mappings. h5spec does not read it, but others do. */
static int check_view(hid_t file, const struct store_info *i, struct err *e)
{
    hsize_t dims[3] = {0};
    size_t n = 0;
    hid_t ds = h5_open_view(file, "pixels", e);
    if (ds < 0)
        return -1;
    hid_t space = H5Dget_space(ds), dcpl = H5Dget_create_plist(ds);
    bool good = H5Sget_simple_extent_ndims(space) == 3 &&
                H5Sget_simple_extent_dims(space, dims, NULL) == 3 &&
                dims[0] == (hsize_t)i->height && dims[1] == (hsize_t)i->width &&
                dims[2] == (hsize_t)i->channels && H5Pget_virtual_count(dcpl, &n) >= 0 &&
                n == (size_t)i->group_count;
    for (int64_t k = 0; good && k < i->group_count; k++)
        good = is_mapped(dcpl, i, k);
    H5Pclose(dcpl);
    H5Sclose(space);
    H5Dclose(ds);
    return good ? 0 : err_set(e, "pixels does not show the pixels of all groups: damaged");
}

static int check_file(hid_t file, const struct store_info *i, struct err *e)
{
    return check_properties(file, e) || check_icc(file, e) || check_view(file, i, e) ? -1 : 0;
}

/* Reads the list, so that it is checked. */
static int check_sources(const struct store *s, struct err *e)
{
    struct store_source *sources;
    const int64_t n = store_read_sources(store_path(s), &sources, e);
    free(sources);
    return n < 0 ? -1 : 0;
}

int store_check(struct store *s, struct err *e)
{
    static const struct h5_format format = {STORE_FORMAT, STORE_VERSION, ""};
    struct store_tissue t = {0};
    int64_t version;
    struct store_picture thumbnail = {0};
    const int r = store_read_tissue(s, &t, e) < 0 || check_sources(s, e)
                      ? -1
                      : store_read_thumbnail(s, &thumbnail, e);
    free(t.mask);
    free(thumbnail.rgb);
    hid_t file = r < 0 ? -1 : h5_open(store_path(s), &format, &version, e);
    if (file < 0)
        return -1;
    const int bad = check_file(file, store_info(s), e);
    H5Fclose(file);
    return bad ? err_add(e, "%s", store_path(s)) : 0;
}
