/* dicom_file.c - see dicom_file.h. */
#include "convert/readers/dicom_file.h"

#include "common/base/path.h"
#include "common/base/read_at.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum { PREAMBLE = 128, MOST_NESTING = 16 };

#define TRANSFER_SYNTAX DICOM_TAG(0x0002, 0x0010)

uint16_t dicom_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

uint32_t dicom_u32(const uint8_t *p)
{
    return (uint32_t)dicom_u16(p) | (uint32_t)dicom_u16(p + 2) << 16;
}

uint64_t dicom_u64(const uint8_t *p)
{
    return (uint64_t)dicom_u32(p) | (uint64_t)dicom_u32(p + 4) << 32;
}

/* --- bytes --- */

/* Returns how many bytes the file has there; notes a failure. */
static size_t get_bytes(struct dicom_file *f, uint64_t at, uint8_t *out, size_t n)
{
    const size_t got = read_at(f->fd, at, out, n);
    if (got < n && errno)
        f->code = errno;
    return got;
}

bool dicom_file_bytes(struct dicom_file *f, uint64_t at, void *out, size_t n)
{
    if (at > f->bytes || n > f->bytes - at)
        return false;
    if (n > sizeof f->window)
        return get_bytes(f, at, out, n) == n;
    if (at < f->window_at || at - f->window_at > f->n || n > f->n - (at - f->window_at)) {
        f->n = get_bytes(f, at, f->window, sizeof f->window);
        f->window_at = at;
    }
    if (n > f->n)
        return false;
    memcpy(out, f->window + (at - f->window_at), n);
    return true;
}

bool dicom_file_text(struct dicom_file *f, const struct dicom_element *e, char *out, size_t size)
{
    out[0] = 0;
    if (e->length >= size || !dicom_file_bytes(f, e->at, out, e->length))
        return false;
    size_t n = e->length;
    while (n > 0 && (out[n - 1] == ' ' || out[n - 1] == 0))
        n--;
    out[n] = 0;
    return true;
}

/* --- elements --- */

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

static bool is_vr(const uint8_t *vr)
{
    return vr[0] >= 'A' && vr[0] <= 'Z' && vr[1] >= 'A' && vr[1] <= 'Z';
}

/* Reads an element's head; f->at is at its value afterwards. False: it is cut off or garbage. */
static bool next(struct dicom_file *f, struct dicom_element *e)
{
    uint8_t head[12];
    if (!dicom_file_bytes(f, f->at, head, 8))
        return false;
    *e = (struct dicom_element){.tag = DICOM_TAG(dicom_u16(head), dicom_u16(head + 2))};
    uint64_t n = 8;
    if (dicom_u16(head) == 0xfffe || f->implicit)
        e->length = dicom_u32(head + 4);
    else if (!is_vr(head + 4))
        return false;
    else if (!is_long(head + 4))
        e->length = dicom_u16(head + 6);
    else {
        n = 12;
        if (!dicom_file_bytes(f, f->at, head, n))
            return false;
        e->length = dicom_u32(head + 8);
        e->is_unknown = !memcmp(head + 4, "UN", 2);
    }
    e->at = f->at += n;
    return true;
}

static bool skip(struct dicom_file *f, const struct dicom_element *e, int nesting);

/* Skips the items of a value of undefined length, up to its delimiter. */
static bool skip_items(struct dicom_file *f, int nesting)
{
    struct dicom_element e;
    while (next(f, &e)) {
        if (e.tag == DICOM_SEQUENCE_END)
            return true;
        if (e.tag != DICOM_ITEM || !skip(f, &e, nesting + 1))
            return false;
    }
    return false;
}

/* Skips elements up to the end of an item of undefined length. */
static bool skip_elements(struct dicom_file *f, int nesting)
{
    struct dicom_element e;
    while (next(f, &e)) {
        if (e.tag == DICOM_ITEM_END)
            return true;
        if (!skip(f, &e, nesting + 1))
            return false;
    }
    return false;
}

/* Goes behind the value. */
static bool skip(struct dicom_file *f, const struct dicom_element *e, int nesting)
{
    if (nesting > MOST_NESTING)
        return false;
    if (e->length != DICOM_UNDEFINED) {
        f->at = e->at + e->length;
        return f->at <= f->bytes;
    }
    const bool implicit = f->implicit;
    f->implicit = implicit || e->is_unknown;
    const bool good = e->tag == DICOM_ITEM ? skip_elements(f, nesting) : skip_items(f, nesting);
    f->implicit = implicit;
    return good;
}

/* --- walking --- */

struct walk {
    struct dicom_file *file;
    enum dicom_step (*visit)(void *ctx, struct dicom_file *f, const struct dicom_element *e,
                             const struct dicom_path *p);
    void *ctx;
    struct dicom_path path;
};

enum outcome { BAD, DONE, STOPPED };

static enum outcome walk_sequence(struct walk *w, const struct dicom_element *e, uint64_t end);

/* Visits elements up to the offset `end`, or up to the end of the item if `in_item`. */
static enum outcome walk_elements(struct walk *w, uint64_t end, bool in_item)
{
    struct dicom_file *f = w->file;
    struct dicom_element e;
    uint32_t last = 0;
    while (f->at < end) {
        if (!next(f, &e) || e.tag <= last)
            return BAD;
        if (in_item && e.tag == DICOM_ITEM_END)
            return DONE;
        last = e.tag;
        w->path.tags[w->path.depth] = e.tag;
        const enum dicom_step step = w->visit(w->ctx, f, &e, &w->path);
        if (step == DICOM_STOP)
            return STOPPED;
        f->at = e.at; /* the visitor may have read the value */
        const enum outcome o = step == DICOM_ENTER ? walk_sequence(w, &e, end)
                               : skip(f, &e, 0)    ? DONE
                                                   : BAD;
        if (o != DONE || f->at > end)
            return o == STOPPED ? o : BAD;
    }
    return in_item ? BAD : DONE;
}

/* Visits the elements of one item. */
static enum outcome walk_item(struct walk *w, const struct dicom_element *item, uint64_t end)
{
    const bool is_open = item->length == DICOM_UNDEFINED;
    if (!is_open && item->length > end - item->at)
        return BAD;
    w->path.depth++;
    const enum outcome o = walk_elements(w, is_open ? end : item->at + item->length, is_open);
    w->path.depth--;
    return o;
}

static enum outcome walk_items(struct walk *w, const struct dicom_element *sequence, uint64_t end)
{
    struct dicom_file *f = w->file;
    struct dicom_element item;
    const bool is_open = sequence->length == DICOM_UNDEFINED;
    if (w->path.depth == DICOM_DEPTH || (!is_open && sequence->length > end - sequence->at))
        return BAD;
    end = is_open ? end : sequence->at + sequence->length;
    for (w->path.items[w->path.depth] = 0; f->at < end; w->path.items[w->path.depth]++) {
        if (!next(f, &item))
            return BAD;
        if (is_open && item.tag == DICOM_SEQUENCE_END)
            return DONE;
        const enum outcome o = item.tag == DICOM_ITEM ? walk_item(w, &item, end) : BAD;
        if (o != DONE)
            return o;
    }
    return is_open ? BAD : DONE;
}

/* A sequence whose VR is UN holds implicit VR, whatever the file has (PS3.5, 6.2.2). */
static enum outcome walk_sequence(struct walk *w, const struct dicom_element *e, uint64_t end)
{
    const bool implicit = w->file->implicit;
    w->file->implicit = implicit || e->is_unknown;
    const enum outcome o = walk_items(w, e, end);
    w->file->implicit = implicit;
    return o;
}

bool dicom_file_walk(struct dicom_file *f,
                     enum dicom_step (*visit)(void *ctx, struct dicom_file *f,
                                              const struct dicom_element *e,
                                              const struct dicom_path *p),
                     void *ctx)
{
    struct walk w = {.file = f, .visit = visit, .ctx = ctx};
    return dicom_file_is_readable(f) && walk_elements(&w, f->bytes, false) != BAD;
}

/* --- the file --- */

/* Reads group 0002, whose length need not be stated. */
static bool read_group2(struct dicom_file *f)
{
    uint8_t group[2];
    struct dicom_element e;
    while (dicom_file_bytes(f, f->at, group, 2) && dicom_u16(group) == 0x0002) {
        if (!next(f, &e))
            return false;
        if (e.tag == TRANSFER_SYNTAX)
            dicom_file_text(f, &e, f->syntax, sizeof f->syntax);
        if (!skip(f, &e, 0))
            return false;
    }
    f->implicit = !strcmp(f->syntax, "1.2.840.10008.1.2");
    return f->code == 0;
}

bool dicom_file_open(struct dicom_file *f, const struct slide_file *file)
{
    char mark[4];
    f->fd = file->fd;
    f->bytes = file->bytes;
    f->at = PREAMBLE + sizeof mark;
    f->window_at = f->n = 0;
    f->implicit = false;
    f->code = 0;
    f->syntax[0] = 0;
    return dicom_file_bytes(f, PREAMBLE, mark, sizeof mark) && !memcmp(mark, "DICM", sizeof mark) &&
           read_group2(f);
}

bool dicom_file_is_readable(const struct dicom_file *f)
{
    return f->syntax[0] && strcmp(f->syntax, "1.2.840.10008.1.2.1.99") != 0 &&
           strcmp(f->syntax, "1.2.840.10008.1.2.2") != 0;
}

/* --- series --- */

#define SERIES DICOM_TAG(0x0020, 0x000e)

bool dicom_is(const struct slide_file *file)
{
    struct dicom_file f;
    char mark[4] = "";
    dicom_file_open(&f, file);
    return dicom_file_bytes(&f, 128, mark, 4) && !memcmp(mark, "DICM", 4);
}

/* Scanners and archives name files by numbers and UIDs. Others are not opened: a folder can hold
 * many. */
bool dicom_is_unnamed(const char *path)
{
    static const char *const endings[] = {".dicom", ".dic", ".ima", ".img"};
    const char *dot = strrchr(path_base_name(path), '.');
    bool may_be = !dot || dot[strcspn(dot, "0123456789")] || !dot[1];
    for (size_t k = 0; !may_be && k < sizeof endings / sizeof *endings; k++)
        may_be = !strcasecmp(dot, endings[k]);
    struct slide_file *file = may_be ? slide_file_open(path, NULL) : NULL;
    const bool is = file && dicom_is(file);
    slide_file_close(file);
    return is;
}

static bool is_uid(const char *text)
{
    return text[0] && text[strspn(text, "0123456789.")] == 0;
}

static enum dicom_step take_series(void *ctx, struct dicom_file *f, const struct dicom_element *e,
                                   const struct dicom_path *p)
{
    char *uid = ctx;
    (void)p;
    if (e->tag < SERIES)
        return DICOM_SKIP;
    if (e->tag == SERIES && (!dicom_file_text(f, e, uid, DICOM_UID) || !is_uid(uid)))
        uid[0] = 0;
    return DICOM_STOP;
}

bool dicom_series(const char *path, char uid[DICOM_UID])
{
    struct dicom_file f;
    struct slide_file *file = slide_file_open(path, NULL);
    uid[0] = 0;
    if (!file)
        return false;
    const bool good = dicom_file_open(&f, file) && dicom_file_walk(&f, take_series, uid);
    slide_file_close(file);
    errno = f.code;
    return good && uid[0];
}
