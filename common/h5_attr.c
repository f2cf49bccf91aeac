/* h5_attr.c - scalar attributes; see h5.h. */
#include "common/h5.h"

#include <inttypes.h>
#include <string.h>

static int put(hid_t object, const char *name, hid_t type, hid_t memory, const void *value,
               struct err *e)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t a = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    int r = a < 0 || H5Awrite(a, memory, value) < 0 ? h5_write_failed(e, name) : 0;
    if (a >= 0 && H5Aclose(a) < 0 && r == 0)
        r = h5_write_failed(e, name);
    H5Sclose(space);
    return r;
}

int h5_put_int(hid_t object, const char *name, int64_t value, struct err *e)
{
    return put(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value, e);
}

int h5_put_u8(hid_t object, const char *name, uint8_t value, struct err *e)
{
    return put(object, name, H5T_STD_U8LE, H5T_NATIVE_UINT8, &value, e);
}

int h5_put_real(hid_t object, const char *name, double value, struct err *e)
{
    return put(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value, e);
}

int h5_put_text(hid_t object, const char *name, const char *value, struct err *e)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, strlen(value) + 1);
    H5Tset_cset(type, H5T_CSET_UTF8);
    int r = put(object, name, type, type, value, e);
    H5Tclose(type);
    return r;
}

bool h5_has(hid_t object, const char *name)
{
    const htri_t there = H5Aexists(object, name);
    if (there < 0)
        H5Eclear2(H5E_DEFAULT);
    return there > 0;
}

/* Opens a scalar attribute of one class; its file type goes to *type. */
static hid_t open_attribute(hid_t object, const char *name, H5T_class_t class, hid_t *type,
                            struct err *e)
{
    hid_t a = h5_has(object, name) ? H5Aopen(object, name, H5P_DEFAULT) : -1;
    if (a < 0)
        return err_set(e, "the attribute %s is missing", name);
    hid_t space = H5Aget_space(a);
    hssize_t points = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    H5Sclose(space);
    *type = H5Aget_type(a);
    if (points == 1 && H5Tget_class(*type) == class)
        return a;
    H5Tclose(*type);
    H5Aclose(a);
    return err_set(e, "the attribute %s has a wrong type", name);
}

int h5_get_int(hid_t object, const char *name, int64_t low, int64_t high, int64_t *out,
               struct err *e)
{
    hid_t type, a = open_attribute(object, name, H5T_INTEGER, &type, e);
    if (a < 0)
        return -1;
    int64_t v = 0;
    int bad = H5Aread(a, H5T_NATIVE_INT64, &v) < 0;
    H5Tclose(type);
    H5Aclose(a);
    if (bad)
        return h5_error(e, "cannot read the attribute %s", name);
    if (v < low || v > high)
        return err_set(e, "the attribute %s is %" PRId64 ", which cannot be", name, v);
    *out = v;
    return 0;
}

int h5_get_real(hid_t object, const char *name, double *out, struct err *e)
{
    hid_t type, a = open_attribute(object, name, H5T_FLOAT, &type, e);
    if (a < 0)
        return -1;
    int bad = H5Aread(a, H5T_NATIVE_DOUBLE, out) < 0;
    H5Tclose(type);
    H5Aclose(a);
    return bad ? h5_error(e, "cannot read the attribute %s", name) : 0;
}

int h5_get_text(hid_t object, const char *name, char *out, size_t size, struct err *e)
{
    hid_t type, a = open_attribute(object, name, H5T_STRING, &type, e);
    if (a < 0)
        return -1;
    size_t n = H5Tget_size(type);
    int bad = H5Tis_variable_str(type) != 0 || n == 0 || n > size;
    if (!bad) {
        memset(out, 0, size);
        bad = H5Aread(a, type, out) < 0;
        out[size - 1] = 0;
    }
    H5Tclose(type);
    H5Aclose(a);
    if (bad)
        out[0] = 0;
    return bad ? h5_error(e, "cannot read the attribute %s", name) : 0;
}
