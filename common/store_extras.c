/* store_extras.c - what a store holds besides its pixels; see store.h. */
#include "common/store.h"

#include "common/h5_file.h"

#include <stdio.h>

static int find_thumbnail(hid_t file, bool *found, struct err *e)
{
    *found = false;
    if (!h5_has_link(file, "associated"))
        return 0;
    hid_t group = h5_open_group(file, "associated", e);
    if (group < 0)
        return -1;
    *found = h5_has_link(group, "thumbnail");
    H5Gclose(group);
    return 0;
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
    x->icc_profile = h5_has_link(file, "icc_profile");
    return r ? r : find_thumbnail(file, &x->thumbnail, e);
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
