/* h5_attr.c - see h5_attr.h. */
#include "common/hdf5/h5_attr.h"

#include "common/base/memory.h"
#include "common/codec/codec.h"
#include "common/hdf5/guard.h"
#include "common/hdf5/h5_library.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int put_values(hid_t object, const char *name, hid_t type, hid_t memory, const void *value,
                      size_t n, struct err *e)
{
    const hsize_t dims[1] = {n};
    hid_t space = n == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, dims, NULL);
    hid_t a = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    int r = a < 0 || H5Awrite(a, memory, value) < 0 ? h5_write_failed(e, name) : 0;
    if (a >= 0 && H5Aclose(a) < 0 && r == 0)
        r = h5_write_failed(e, name);
    H5Sclose(space);
    return r;
}

static int put(hid_t object, const char *name, hid_t type, hid_t memory, const void *value,
               struct err *e)
{
    return put_values(object, name, type, memory, value, 1, e);
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

int h5_put_reals(hid_t object, const char *name, const double *values, size_t n, struct err *e)
{
    return put_values(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values, n, e);
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

/* --- reading --- */

int h5_descriptor(hid_t object, struct err *e)
{
    unsigned intent = H5F_ACC_RDWR;
    int *fd = NULL, found = -1;
    hid_t file = H5Iget_file_id(object);
    if (file < 0 || H5Fget_intent(file, &intent) < 0 ||
        (intent == H5F_ACC_RDONLY && H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&fd) < 0)) {
        h5_error(e, "cannot read the file");
        found = -2;
    }
    if (fd)
        found = *fd;
    if (file >= 0)
        H5Fclose(file);
    return found;
}

/* The attributes of the object that was asked last: who reads one reads all of them. Used by the
 * thread that uses HDF5. */
static struct {
    unsigned long file; /* HDF5's number of the open file, which it never uses again */
    haddr_t address;
    int fd;
    struct guard_attributes all;
    bool valid;
} last;

static int load(hid_t object, struct err *e)
{
    H5O_info_t info;
    if (H5Oget_info2(object, &info, H5O_INFO_BASIC) < 0)
        return h5_error(e, "cannot read the attributes");
    if (last.valid && last.file == info.fileno && last.address == info.addr)
        return 0;
    guard_attributes_free(&last.all);
    last.valid = false;
    last.fd = h5_descriptor(object, e);
    if (last.fd < 0)
        return last.fd == -1 ? err_set(e, "the file is being written") : -1;
    if (guard_attributes(last.fd, info.addr, &last.all, e)) {
        if (errno)
            h5_note_system_failure();
        return -1;
    }
    last.file = info.fileno;
    last.address = info.addr;
    last.valid = true;
    return 0;
}

static struct guard_attribute *look_for(const char *name)
{
    struct guard_attribute *a = last.all.first;
    while (a && strcmp(a->name, name) != 0)
        a = a->next;
    return a;
}

int h5_has(hid_t object, const char *name, struct err *e)
{
    if (load(object, e))
        return err_add(e, "cannot look for attribute %s", name);
    return look_for(name) != NULL;
}

static struct guard_attribute *need(hid_t object, const char *name, struct err *e)
{
    if (load(object, e)) {
        err_add(e, "cannot read attribute %s", name);
        return NULL;
    }
    struct guard_attribute *a = look_for(name);
    if (!a)
        err_set(e, "attribute %s is missing", name);
    return a;
}

static int wrong_type(struct err *e, const char *name)
{
    return err_set(e, "attribute %s has the wrong type", name);
}

/* Bytes of its value, if it has one and not more than `most`; else 0. */
static size_t size_of(const struct guard_attribute *a, size_t most)
{
    return a->n == 1 && a->each <= a->value_bytes && a->each <= most ? (size_t)a->each : 0;
}

static bool is_text(const struct guard_attribute *a)
{
    return (a->kind == GUARD_FIXED_TEXT || a->kind == GUARD_HEAP_TEXT) && size_of(a, SIZE_MAX) > 0;
}

int h5_get_int(hid_t object, const char *name, int64_t low, int64_t high, int64_t *out,
               struct err *e)
{
    uint64_t bits = 0;
    const struct guard_attribute *a = need(object, name, e);
    if (!a)
        return -1;
    const size_t n = size_of(a, sizeof bits);
    const bool is_signed = a->kind == GUARD_SIGNED;
    if (n < 1 || (!is_signed && a->kind != GUARD_UNSIGNED))
        return wrong_type(e, name);
    memcpy(&bits, a->value, n); /* little-endian, as this machine: see h5.c */
    if (is_signed && n < 8 && bits >> (8 * n - 1))
        bits |= UINT64_MAX << 8 * n;
    const int64_t v = !is_signed && bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    if (v < low || v > high)
        return err_set(e, "attribute %s has the invalid value %" PRId64, name, v);
    *out = v;
    return 0;
}

int h5_get_real(hid_t object, const char *name, double *out, struct err *e)
{
    float single;
    const struct guard_attribute *a = need(object, name, e);
    if (!a)
        return -1;
    const size_t n = size_of(a, sizeof *out);
    if ((n != sizeof single && n != sizeof *out) || a->kind != GUARD_REAL)
        return wrong_type(e, name);
    if (n == sizeof *out) {
        memcpy(out, a->value, n);
        return 0;
    }
    memcpy(&single, a->value, n);
    *out = (double)single;
    return 0;
}

int h5_get_reals(hid_t object, const char *name, double *out, size_t n, struct err *e)
{
    const struct guard_attribute *a = need(object, name, e);
    if (!a)
        return -1;
    if (a->kind != GUARD_REAL || a->each != sizeof *out || a->n != n ||
        n * sizeof *out > a->value_bytes)
        return wrong_type(e, name);
    memcpy(out, a->value, n * sizeof *out);
    return 0;
}

static const char *text_of(struct guard_attribute *a, struct err *e)
{
    const char *text = guard_text(last.fd, &last.all, a, e);
    if (!text && errno)
        h5_note_system_failure();
    return text;
}

int h5_get_text(hid_t object, const char *name, char *out, size_t size, struct err *e)
{
    out[0] = 0;
    struct guard_attribute *a = need(object, name, e);
    if (!a)
        return -1;
    if (!is_text(a))
        return wrong_type(e, name);
    const char *text = text_of(a, e);
    if (!text)
        return err_add(e, "attribute %s", name);
    if (strlen(text) >= size)
        return err_set(e, "attribute %s is longer than %zu bytes", name, size - 1);
    strcpy(out, text);
    return 0;
}

/* --- the seal --- */

static const char seal[] = "attribute_crc32";
enum { MOST_SEALED = 8000 }; /* HDF5 allows 64 KiB in a header */

struct sealed {
    bool texts_only;
    size_t n;
    uint32_t (*crc)[2]; /* [MOST_SEALED]: of name and value */
};

/* CRC-32 of a value that is a text, or a number as it is stored. 1; 0: it is neither; -1. */
static int crc_of_value(hid_t a, hid_t type, bool texts_only, uint32_t *crc)
{
    const H5T_class_t class = H5Tget_class(type);
    const htri_t varies = class == H5T_STRING ? H5Tis_variable_str(type) : 0;
    unsigned char number[8];
    char *text = NULL;
    if (class == H5T_NO_CLASS || varies < 0)
        return -1;
    if (varies) {
        if (H5Aread(a, type, &text) < 0)
            return -1;
        *crc = codec_crc32(text ? text : "", text ? strlen(text) : 0);
        H5free_memory(text);
        return 1;
    }
    if (texts_only || (class != H5T_INTEGER && class != H5T_FLOAT) ||
        H5Tget_size(type) > sizeof number)
        return 0;
    if (H5Aread(a, type, number) < 0)
        return -1;
    *crc = codec_crc32(number, H5Tget_size(type));
    return 1;
}

/* Called for each attribute, in the order of their names. */
static herr_t add_sealed(hid_t object, const char *name, const H5A_info_t *info, void *arg)
{
    struct sealed *s = arg;
    (void)info;
    hid_t a = H5Aopen(object, name, H5P_DEFAULT), type = a < 0 ? -1 : H5Aget_type(a);
    int r = type < 0 ? -1 : 0;
    if (r == 0 && s->n < MOST_SEALED)
        r = crc_of_value(a, type, s->texts_only, &s->crc[s->n][1]);
    if (r > 0)
        s->crc[s->n++][0] = codec_crc32(name, strlen(name));
    if (type >= 0)
        H5Tclose(type);
    if (a >= 0)
        H5Aclose(a);
    return r < 0 ? -1 : 0;
}

static int put_seal(hid_t object, const struct sealed *s, struct err *e)
{
    const hsize_t dims[2] = {s->n, 2};
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t a = H5Acreate2(object, seal, H5T_STD_U32LE, space, H5P_DEFAULT, H5P_DEFAULT);
    int r = a < 0 || H5Awrite(a, H5T_NATIVE_UINT32, s->crc) < 0 ? h5_write_failed(e, seal) : 0;
    if (a >= 0 && H5Aclose(a) < 0 && r == 0)
        r = h5_write_failed(e, seal);
    H5Sclose(space);
    return r;
}

static int seal_all(hid_t object, bool texts_only, struct err *e)
{
    struct sealed s = {texts_only, 0, memory_need(MOST_SEALED, sizeof *s.crc)};
    hsize_t first = 0;
    int r = H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &first, add_sealed, &s) < 0
                ? h5_error(e, "cannot read the attributes")
                : 0;
    if (r == 0 && s.n > 0)
        r = put_seal(object, &s, e);
    free(s.crc);
    return r;
}

int h5_seal_texts(hid_t object, struct err *e)
{
    return seal_all(object, true, e);
}

int h5_seal(hid_t object, struct err *e)
{
    return seal_all(object, false, e);
}

/* Has the attribute the value with this CRC-32? */
static int check_value(struct guard_attribute *a, uint32_t want, struct err *e)
{
    const bool of_text = is_text(a);
    const uint64_t all = a->each * a->n;
    const size_t n = all < a->value_bytes ? (size_t)all : a->value_bytes;
    const char *text = of_text ? text_of(a, e) : NULL;
    if (of_text && !text)
        return err_add(e, "attribute %s", a->name);
    const uint32_t crc = text ? codec_crc32(text, strlen(text)) : codec_crc32(a->value, n);
    return crc == want ? 0
                       : err_set(e,
                                 "attribute %s was changed by another program%s (CRC "
                                 "mismatch); " ERR_MAKE_AGAIN,
                                 a->name, of_text ? ", or is damaged" : "");
}

static int check_sealed(uint32_t name, uint32_t value, struct err *e)
{
    for (struct guard_attribute *a = last.all.first; a; a = a->next)
        if (a->name_crc32 == name)
            return check_value(a, value, e);
    return err_set(e, "another program has removed or renamed an attribute; " ERR_MAKE_AGAIN);
}

static bool is_seal(const struct guard_attribute *s)
{
    return s->kind == GUARD_UNSIGNED && s->each == sizeof(uint32_t) &&
           s->n * sizeof(uint32_t) <= s->value_bytes && s->n % 2 == 0;
}

int h5_says(hid_t object, const char *name, const char *text, struct err *e)
{
    uint32_t pair[2];
    if (load(object, e))
        return err_add(e, "cannot look for attribute %s", name);
    struct guard_attribute *a = look_for(name);
    const bool of_text = a && is_text(a);
    const char *found = of_text ? text_of(a, e) : NULL;
    if (of_text && !found)
        return err_add(e, "attribute %s", name);
    if (found && !strcmp(found, text))
        return 1;
    const struct guard_attribute *s = look_for(seal);
    for (uint64_t k = 0; s && is_seal(s) && k < s->n / 2; k++) {
        memcpy(pair, s->value + k * sizeof pair, sizeof pair);
        if (pair[0] == codec_crc32(name, strlen(name)))
            return pair[1] == codec_crc32(text, strlen(text));
    }
    return 0;
}

int h5_check_seal(hid_t object, struct err *e)
{
    uint32_t pair[2];
    if (load(object, e))
        return -1;
    const struct guard_attribute *s = look_for(seal);
    if (!s)
        return !last.all.first ? 0 : err_set(e, "attribute %s is missing", seal);
    if (!is_seal(s))
        return wrong_type(e, seal);
    for (uint64_t k = 0; k < s->n / 2; k++) {
        memcpy(pair, s->value + k * sizeof pair, sizeof pair);
        if (check_sealed(pair[0], pair[1], e))
            return -1;
    }
    return 0;
}

/* --- members of a struct --- */

static int put_field(hid_t o, const struct field *f, const void *x, struct err *e)
{
    switch (f->kind) {
    case FIELD_INT: return h5_put_int(o, f->name, *(const int64_t *)x, e);
    case FIELD_FLAG: return h5_put_int(o, f->name, *(const bool *)x, e);
    case FIELD_BYTE: return h5_put_u8(o, f->name, *(const bool *)x, e);
    case FIELD_REAL: return h5_put_real(o, f->name, *(const double *)x, e);
    case FIELD_TEXT: break;
    }
    return h5_put_text(o, f->name, x, e);
}

int h5_put_fields(hid_t o, const struct field *f, unsigned sets, const void *from, struct err *e)
{
    for (; f->name; f++)
        if (f->set & sets && !field_is_unknown(f, from) && put_field(o, f, field_of(f, from), e))
            return -1;
    return 0;
}

/* Ends of ranges are powers of two at most, or small: as double they are exact. */
static int get_int(hid_t o, const struct field *f, int64_t *x, struct err *e)
{
    return h5_get_int(o, f->name, (int64_t)f->low, f->high < 0x1p63 ? (int64_t)f->high : INT64_MAX,
                      x, e);
}

static int get_flag(hid_t o, const struct field *f, bool *x, struct err *e)
{
    int64_t value = 0;
    const int bad = h5_get_int(o, f->name, 0, 1, &value, e);
    *x = value;
    return bad;
}

static int get_real(hid_t o, const struct field *f, double *x, struct err *e)
{
    if (h5_get_real(o, f->name, x, e))
        return -1;
    return field_allows(f, *x) && !isnan(*x) /* what is not known is absent */
               ? 0
               : err_set(e, "its %s is out of range", f->name);
}

static int get_field(hid_t o, const struct field *f, void *x, struct err *e)
{
    switch (f->kind) {
    case FIELD_INT: return get_int(o, f, x, e);
    case FIELD_FLAG:
    case FIELD_BYTE: return get_flag(o, f, x, e);
    case FIELD_REAL: return get_real(o, f, x, e);
    case FIELD_TEXT: break;
    }
    return h5_get_text(o, f->name, x, f->bytes, e);
}

static void set_unknown(const struct field *f, void *x)
{
    memset(x, 0, f->bytes);
    if (f->kind == FIELD_REAL)
        *(double *)x = NAN;
}

int h5_get_fields(hid_t o, const struct field *f, unsigned sets, void *to, struct err *e)
{
    for (; f->name; f++) {
        void *x = (char *)to + f->at;
        if (!(f->set & sets))
            continue;
        const int has = f->optional ? h5_has(o, f->name, e) : 1;
        if (has == 0)
            set_unknown(f, x);
        if (has < 0 || (has > 0 && get_field(o, f, x, e)))
            return -1;
    }
    return 0;
}
