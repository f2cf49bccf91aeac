/* h5_attr.c - see h5_attr.h. */
#include "common/hdf5/h5_attr.h"

#include "common/codec/codec.h"
#include "common/hdf5/h5_error.h"

#include <inttypes.h>
#include <stdlib.h>
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
    const bool bad = H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0;
    int r = bad ? h5_write_failed(e, name) : put(object, name, type, type, &value, e);
    H5Tclose(type);
    return r;
}

int h5_put_word(hid_t object, const char *name, const char *value, struct err *e)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    const bool bad = H5Tset_size(type, strlen(value) + 1) < 0;
    int r = bad ? h5_write_failed(e, name) : put(object, name, type, type, value, e);
    H5Tclose(type);
    return r;
}

int h5_has(hid_t object, const char *name, struct err *e)
{
    const htri_t there = H5Aexists(object, name);
    return there < 0 ? h5_error(e, "cannot look for attribute %s", name) : there > 0;
}

/* Opens a scalar attribute of one class; its file type goes to *type. */
static hid_t open_attribute(hid_t object, const char *name, H5T_class_t class, hid_t *type,
                            struct err *e)
{
    const int has = h5_has(object, name, e);
    hid_t a = has > 0 ? H5Aopen(object, name, H5P_DEFAULT) : -1;
    if (has < 0)
        return -1;
    if (a < 0)
        return err_set(e, "attribute %s is missing", name);
    hid_t space = H5Aget_space(a);
    hssize_t points = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    H5Sclose(space);
    *type = H5Aget_type(a);
    if (points == 1 && H5Tget_class(*type) == class)
        return a;
    H5Tclose(*type);
    H5Aclose(a);
    return err_set(e, "attribute %s has the wrong type", name);
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
        return h5_error(e, "cannot read attribute %s", name);
    if (v < low || v > high)
        return err_set(e, "attribute %s has the invalid value %" PRId64, name, v);
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
    return bad ? h5_error(e, "cannot read attribute %s", name) : 0;
}

/* The string of an attribute, of fixed or of variable length; to be free()d. NULL on failure. */
static char *read_text(hid_t attribute, hid_t type)
{
    enum { MOST = 1 << 20 };
    char *text = NULL, *value = NULL;
    if (H5Tis_variable_str(type) > 0) {
        if (H5Aread(attribute, type, &value) < 0)
            return NULL;
        text = strdup(value ? value : "");
        H5free_memory(value);
        return text;
    }
    const size_t n = H5Tget_size(type);
    if (n == 0 || n > MOST || !(text = calloc(n + 1, 1)))
        return NULL;
    if (H5Aread(attribute, type, text) >= 0)
        return text;
    free(text);
    return NULL;
}

int h5_get_text(hid_t object, const char *name, char *out, size_t size, struct err *e)
{
    hid_t type, a = open_attribute(object, name, H5T_STRING, &type, e);
    out[0] = 0;
    if (a < 0)
        return -1;
    char *text = read_text(a, type);
    const bool fits = text && strlen(text) < size;
    if (fits)
        strcpy(out, text);
    free(text);
    H5Tclose(type);
    H5Aclose(a);
    if (text && !fits)
        return err_set(e, "attribute %s is longer than %zu bytes", name, size - 1);
    return fits ? 0 : h5_error(e, "cannot read attribute %s", name);
}

/* --- the checksum of texts --- */

struct texts {
    char *bytes; /* name, NUL, value, NUL of each text so far */
    size_t n;
};

static int append(struct texts *t, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *more = realloc(t->bytes, t->n + n);
    if (!more)
        return -1;
    memcpy(more + t->n, text, n);
    t->bytes = more;
    t->n += n;
    return 0;
}

/* Called for each attribute, in the order of their names. */
static herr_t add_text(hid_t object, const char *name, const H5A_info_t *info, void *arg)
{
    (void)info;
    hid_t a = H5Aopen(object, name, H5P_DEFAULT), type = a < 0 ? -1 : H5Aget_type(a);
    const H5T_class_t class = type < 0 ? H5T_NO_CLASS : H5Tget_class(type);
    char *text = class == H5T_STRING ? read_text(a, type) : NULL;
    int bad = class == H5T_NO_CLASS;
    if (class == H5T_STRING)
        bad = !text || append(arg, name) || append(arg, text);
    free(text);
    if (type >= 0)
        H5Tclose(type);
    if (a >= 0)
        H5Aclose(a);
    return bad ? -1 : 0;
}

static int crc_of_texts(hid_t object, uint32_t *crc, struct err *e)
{
    struct texts t = {NULL, 0};
    hsize_t first = 0;
    const int bad = H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &first, add_text, &t) < 0;
    *crc = codec_crc32(t.bytes, t.n);
    free(t.bytes);
    return bad ? h5_error(e, "cannot read the text attributes") : 0;
}

int h5_seal_texts(hid_t object, struct err *e)
{
    uint32_t crc;
    return crc_of_texts(object, &crc, e) ? -1 : h5_put_int(object, "text_crc32", crc, e);
}

int h5_check_texts(hid_t object, struct err *e)
{
    uint32_t crc;
    int64_t want;
    const int has = h5_has(object, "text_crc32", e);
    if (has <= 0)
        return has;
    if (h5_get_int(object, "text_crc32", 0, UINT32_MAX, &want, e) || crc_of_texts(object, &crc, e))
        return -1;
    return crc == want
               ? 0
               : err_set(e, "the text attributes are damaged (CRC mismatch); make the file again");
}
