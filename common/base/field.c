/* field.c - see field.h. */
#include "common/base/field.h"

#include "common/base/csv.h"
#include "common/base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const void *field_of(const struct field *f, const void *from)
{
    return (const char *)from + f->at;
}

static bool is_flag(const struct field *f)
{
    return f->kind == FIELD_FLAG || f->kind == FIELD_BYTE;
}

static double number_of(const struct field *f, const void *from)
{
    const void *x = field_of(f, from);
    return f->kind == FIELD_INT    ? (double)*(const int64_t *)x
           : f->kind == FIELD_REAL ? *(const double *)x
                                   : *(const bool *)x;
}

bool field_is_unknown(const struct field *f, const void *from)
{
    if (!f->optional)
        return false;
    if (f->kind == FIELD_TEXT)
        return !*(const char *)field_of(f, from);
    const double x = number_of(f, from);
    return f->kind == FIELD_REAL ? isnan(x) : x == 0;
}

bool field_allows(const struct field *f, double x)
{
    return (x >= f->low && x <= f->high) ||
           (f->optional && (f->kind == FIELD_REAL ? isnan(x) : x == 0));
}

bool field_is_same(const struct field *f, const void *a, const void *b)
{
    if (f->kind == FIELD_TEXT)
        return !strcmp(field_of(f, a), field_of(f, b));
    const double x = number_of(f, a), y = number_of(f, b);
    return x == y || (isnan(x) && isnan(y));
}

int fields_same(const struct field *f, unsigned sets, const void *a, const void *b, struct err *e)
{
    for (; f->name; f++) {
        if (!(f->set & sets) || field_is_same(f, a, b))
            continue;
        if (f->kind == FIELD_TEXT)
            return err_set(e, "%s is \"%s\" and \"%s\"", f->name, (const char *)field_of(f, a),
                           (const char *)field_of(f, b));
        return err_set(e, "%s is %g and %g", f->name, number_of(f, a), number_of(f, b));
    }
    return 0;
}

static void put_json(const struct field *f, const void *from)
{
    const void *x = field_of(f, from);
    if (f->kind == FIELD_REAL)
        json_real(f->name, *(const double *)x);
    else if (is_flag(f))
        json_bool(f->name, *(const bool *)x);
    else if (!field_is_unknown(f, from) && f->kind == FIELD_TEXT)
        json_text(f->name, x);
    else if (!field_is_unknown(f, from))
        json_int(f->name, *(const int64_t *)x);
}

void fields_json(const struct field *f, unsigned sets, const void *from)
{
    for (; f->name; f++)
        if (f->set & sets)
            put_json(f, from);
}

void fields_csv_head(const struct field *f, unsigned sets)
{
    for (; f->name; f++)
        if (f->set & sets)
            printf(",%s", f->name);
}

void fields_csv(const struct field *f, unsigned sets, const void *from)
{
    for (; f->name; f++) {
        if (!(f->set & sets))
            continue;
        putchar(',');
        if (!from)
            continue;
        if (f->kind == FIELD_TEXT)
            csv_text(stdout, field_of(f, from));
        else if (f->kind == FIELD_REAL)
            csv_number(stdout, number_of(f, from));
        else if (is_flag(f))
            putchar(*(const bool *)field_of(f, from) ? '1' : '0');
        else if (!field_is_unknown(f, from))
            printf("%" PRId64, *(const int64_t *)field_of(f, from));
    }
}
