/*
 * dicom.c - see dicom.h.
 *
 * A file begins with 128 free bytes and "DICM". Elements follow: group and number, 16 bits each,
 * in ascending order; with explicit VR two letters and a length of 16 or 32 bits, with implicit VR
 * a length of 32 bits. Group 0002 is always explicit and little endian; it names the transfer
 * syntax of the rest. A length of 0xffffffff means "until the delimiter": such a sequence holds
 * items, which may hold elements.
 */
#include "convert/dicom.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20, PREAMBLE = 128, MOST_NESTING = 16 };

#define TAG(group, number) ((uint32_t)(group) << 16 | (number))

enum {
    TRANSFER_SYNTAX = TAG(0x0002, 0x0010),
    SERIES = TAG(0x0020, 0x000e),
};
static const uint32_t ITEM = TAG(0xfffe, 0xe000), ITEM_END = TAG(0xfffe, 0xe00d),
                      SEQUENCE_END = TAG(0xfffe, 0xe0dd), UNDEFINED = 0xffffffff;

struct reader {
    const uint8_t *bytes;
    size_t n, at;
    bool implicit; /* values have no VR */
};

struct element {
    uint32_t tag, length;
};

/* --- elements --- */

static uint16_t u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const uint8_t *p)
{
    return (uint32_t)u16(p) | (uint32_t)u16(p + 2) << 16;
}

/* VRs whose length has 32 bits, after two reserved bytes. */
static bool is_long(const uint8_t *vr)
{
    static const char *const longs[] = {"OB", "OD", "OF", "OL", "OV", "OW", "SQ",
                                        "SV", "UC", "UN", "UR", "UT", "UV"};
    for (size_t k = 0; k < sizeof longs / sizeof *longs; k++)
        if (!memcmp(vr, longs[k], 2))
            return true;
    return false;
}

/* Reads an element's head; `at` is at its value afterwards. False at the end of the bytes. */
static bool next(struct reader *r, struct element *e)
{
    if (r->n - r->at < 8)
        return false;
    const uint8_t *p = r->bytes + r->at;
    e->tag = TAG(u16(p), u16(p + 2));
    const bool delimiter = u16(p) == 0xfffe;
    if (delimiter || r->implicit) {
        e->length = u32(p + 4);
        r->at += 8;
    } else if (!is_long(p + 4)) {
        e->length = u16(p + 6);
        r->at += 8;
    } else {
        if (r->n - r->at < 12)
            return false;
        e->length = u32(p + 8);
        r->at += 12;
    }
    return true;
}

static bool skip_value(struct reader *r, const struct element *e, int depth);

/* Skips elements up to the delimiter `end`. */
static bool skip_until(struct reader *r, uint32_t end, int depth)
{
    struct element e;
    while (next(r, &e)) {
        if (e.tag == end)
            return true;
        if (!skip_value(r, &e, depth + 1))
            return false;
    }
    return false;
}

static bool skip_value(struct reader *r, const struct element *e, int depth)
{
    if (depth > MOST_NESTING)
        return false;
    if (e->length == UNDEFINED)
        return skip_until(r, e->tag == ITEM ? ITEM_END : SEQUENCE_END, depth);
    if (e->length > r->n - r->at)
        return false;
    r->at += e->length;
    return true;
}

/* --- the file --- */

/* The first bytes of a file; *n of them. NULL when it cannot be read. To be free()d. */
static uint8_t *head_of(const char *path, size_t most, size_t *n)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint8_t *bytes = fd >= 0 ? malloc(most) : NULL;
    for (*n = 0; bytes && *n < most;) {
        const ssize_t got = read(fd, bytes + *n, most - *n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        *n += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    return bytes;
}

static bool has_mark(const uint8_t *bytes, size_t n)
{
    return n >= PREAMBLE + 4 && !memcmp(bytes + PREAMBLE, "DICM", 4);
}

bool dicom_is(const char *path)
{
    size_t n;
    uint8_t *bytes = head_of(path, PREAMBLE + 4, &n);
    const bool is = bytes && has_mark(bytes, n);
    free(bytes);
    return is;
}

/* A UID's text without the padding. False when it is none. */
static bool take_uid(const struct reader *r, const struct element *e, char uid[DICOM_UID])
{
    if (e->length < 1 || e->length >= DICOM_UID || e->length > r->n - r->at)
        return false;
    memcpy(uid, r->bytes + r->at, e->length);
    uid[e->length] = 0;
    uid[strcspn(uid, " ")] = 0;
    return uid[0] && uid[strspn(uid, "0123456789.")] == 0;
}

/* The syntaxes whose headers this reads: little endian, not deflated. */
static bool take_syntax(struct reader *r, const struct element *e)
{
    char uid[DICOM_UID];
    if (!take_uid(r, e, uid) || !strcmp(uid, "1.2.840.10008.1.2.1.99") ||
        !strcmp(uid, "1.2.840.10008.1.2.2"))
        return false;
    r->implicit = !strcmp(uid, "1.2.840.10008.1.2");
    return true;
}

/* Walks the elements to the series. */
static bool find_series(struct reader *r, char uid[DICOM_UID])
{
    struct element e;
    bool known = false, implicit = false;
    for (;;) {
        /* the syntax applies to what follows group 0002 */
        const bool in_head = r->n - r->at >= 2 && u16(r->bytes + r->at) == 0x0002;
        if (!in_head && !known)
            return false;
        r->implicit = !in_head && implicit;
        if (!next(r, &e) || e.tag > SERIES)
            return false;
        if (e.tag == SERIES)
            return take_uid(r, &e, uid);
        if (e.tag == TRANSFER_SYNTAX) {
            known = take_syntax(r, &e);
            implicit = r->implicit;
        }
        if (!skip_value(r, &e, 0))
            return false;
    }
}

bool dicom_series(const char *path, char uid[DICOM_UID])
{
    size_t n;
    uint8_t *bytes = head_of(path, MOST_BYTES, &n);
    struct reader r = {.bytes = bytes, .n = n, .at = PREAMBLE + 4};
    const bool found = bytes && has_mark(bytes, n) && find_series(&r, uid);
    free(bytes);
    return found;
}
