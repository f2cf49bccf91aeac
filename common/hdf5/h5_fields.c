/* h5_fields.c - see h5_fields.h. */
#include "common/hdf5/h5_fields.h"

#include "common/hdf5/h5_attr.h"

#include <math.h>
#include <string.h>

static int put(hid_t o, const struct field *f, const void *x, struct err *e)
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
        if (f->set & sets && !(f->unknown == FIELD_OPTIONAL && field_is_unknown(f, from)) &&
            put(o, f, field_of(f, from), e))
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
    return field_allows(f, *x) && !(f->unknown == FIELD_OPTIONAL && isnan(*x))
               ? 0
               : err_set(e, "its %s is out of range", f->name);
}

static int get(hid_t o, const struct field *f, void *x, struct err *e)
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
        const int has = f->unknown == FIELD_OPTIONAL ? h5_has(o, f->name, e) : 1;
        if (has == 0)
            set_unknown(f, x);
        if (has < 0 || (has > 0 && get(o, f, x, e)))
            return -1;
    }
    return 0;
}
