/*
 * field.h - the members of a struct as a table, one row each: what files, JSON lines and CSV tables
 * have of it. To add an attribute, add a member and a row.
 *
 * A row belongs to one or more sets, bits that its table defines. A walker takes the rows of the
 * sets that it is asked for, in the order of the table. The last row has no name.
 */
#ifndef WSI_FIELD_H
#define WSI_FIELD_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_kind {
    FIELD_INT,  /* int64_t */
    FIELD_FLAG, /* bool; int64 in files */
    FIELD_BYTE, /* bool; uint8 in files */
    FIELD_REAL, /* double */
    FIELD_TEXT  /* char [bytes] */
};

struct field {
    const char *name;
    enum field_kind kind;
    unsigned set;
    size_t at, bytes; /* in the struct */
    bool optional;    /* may be 0, false, NaN or "": not known, and absent from files */
    double low, high; /* range of a number */
};
#define FIELD_ALL (~0u)

/* clang-format off */
/* A row: FIELD_ROW(FIELD_INT, struct slide, width, SET, .low = 1, .high = INT32_MAX) */
#define FIELD_ROW(kind, type, member, set, ...)                                                    \
    FIELD_NAMED(kind, #member, type, member, set, __VA_ARGS__)
#define FIELD_NAMED(kind_, name_, type, member, set_, ...)                                         \
    {.name = (name_), .kind = (kind_), .set = (set_), .at = offsetof(type, member),                \
     .bytes = sizeof(((type *)0)->member), __VA_ARGS__}
/* clang-format on */

const void *field_of(const struct field *f, const void *from);
bool field_is_unknown(const struct field *f, const void *from);
/* Is a number in its range, or not known? */
bool field_allows(const struct field *f, double x);
/* Are they equal? What is not known equals what is not known. */
bool field_is_same(const struct field *f, const void *a, const void *b);
/* 0 if equal, else -1; the message names the first difference. */
int fields_same(const struct field *f, unsigned sets, const void *a, const void *b, struct err *e);
/* , "name": value for each; null for reals that are not known. Texts and integers that are not
 * known are left out. */
void fields_json(const struct field *f, unsigned sets, const void *from);
/* ,name and ,value for each; nothing for numbers that are not known. from: NULL for empty cells. */
void fields_csv_head(const struct field *f, unsigned sets);
void fields_csv(const struct field *f, unsigned sets, const void *from);

#endif
