/* dicom_file.c - see dicom_file.h. */
#include "convert/readers/dicom/dicom_file.h"

#include "common/base/path.h"
#include "common/base/read_at.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PREAMBLE = 128, MOST_NESTING = 16 };

#define DEFLATED "1.2.840.10008.1.2.1.99"
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
    bool good = e->tag == DICOM_ITEM ? skip_elements(f, nesting) : skip_items(f, nesting);
    f->implicit = implicit;
    if (good || !e->is_unknown || implicit)
        return good;
    f->at = e->at; /* some programs write explicit VR there */
    return skip_items(f, nesting);
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

/* Can the elements after group 0002 be read? Not if they are big endian or deflated. */
static bool is_readable(const struct dicom_file *f)
{
    return f->syntax[0] && strcmp(f->syntax, DEFLATED) != 0 &&
           strcmp(f->syntax, "1.2.840.10008.1.2.2") != 0;
}

bool dicom_file_walk(struct dicom_file *f,
                     enum dicom_step (*visit)(void *ctx, struct dicom_file *f,
                                              const struct dicom_element *e,
                                              const struct dicom_path *p),
                     void *ctx)
{
    struct walk w = {.file = f, .visit = visit, .ctx = ctx};
    return is_readable(f) && walk_elements(&w, f->bytes, false) != BAD;
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

/* --- series --- */

#define SERIES DICOM_TAG(0x0020, 0x000e)

bool dicom_is(const struct slide_file *file)
{
    struct dicom_file f;
    char mark[4] = "";
    dicom_file_open(&f, file);
    const bool is = dicom_file_bytes(&f, 128, mark, 4) && !memcmp(mark, "DICM", 4);
    errno = f.code;
    return is;
}

/* Scanners and archives name files by numbers and UIDs. Others are not opened: a folder can hold
 * many. */
bool dicom_detects(const char *path)
{
    static const char *const endings[] = {".dicom", ".dic", ".ima", ".img"};
    const char *dot = strrchr(path_base_name(path), '.');
    bool may_be = !dot || dot[strcspn(dot, "0123456789")] || !dot[1];
    for (size_t k = 0; !may_be && k < sizeof endings / sizeof *endings; k++)
        may_be = !strcasecmp(dot, endings[k]);
    if (!may_be)
        return false;
    struct slide_file *file = slide_file_open(path, NULL);
    const bool is = (file && dicom_is(file)) || errno != 0;
    slide_file_close(file);
    return is;
}

static bool is_uid(const char *text)
{
    return text[0] && text[strspn(text, "0123456789.")] == 0;
}

static bool shows(const struct dicom_instance *i, const char *flavour);

/* The head of a file, up to its series. */
struct belonging {
    char series[DICOM_UID];
    struct dicom_instance kind; /* only sop_class and type */
    bool is_list;               /* a DICOMDIR */
};

/* The value as text, cut when it is longer than the room for it. */
static void take_words(struct dicom_file *f, const struct dicom_element *e, char *out, size_t size)
{
    struct dicom_element head = *e;
    head.length = e->length < size ? e->length : (uint32_t)size - 1;
    dicom_file_text(f, &head, out, size);
}

static enum dicom_step take_series(void *ctx, struct dicom_file *f, const struct dicom_element *e,
                                   const struct dicom_path *p)
{
    struct belonging *b = ctx;
    (void)p;
    b->is_list |= e->tag >> 16 == 0x0004;
    if (e->tag == DICOM_TAG(0x0008, 0x0008))
        take_words(f, e, b->kind.type, sizeof b->kind.type);
    if (e->tag == DICOM_TAG(0x0008, 0x0016))
        dicom_file_text(f, e, b->kind.sop_class, sizeof b->kind.sop_class);
    if (e->tag < SERIES)
        return DICOM_SKIP;
    if (e->tag == SERIES &&
        (!dicom_file_text(f, e, b->series, sizeof b->series) || !is_uid(b->series)))
        b->series[0] = 0;
    return DICOM_STOP;
}

/* An image of another class than slides, a list of files, or a label, overview or thumbnail. */
static bool is_no_level(const struct dicom_instance *i)
{
    static const char *const words[] = {"LABEL", "OVERVIEW", "THUMBNAIL", "LOCALIZER"};
    bool is = i->sop_class[0] && !dicom_instance_is_slide(i);
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        is = is || shows(i, words[k]);
    return is;
}

bool dicom_series(const char *path, char uid[DICOM_UID], bool *is_other)
{
    struct dicom_file f;
    struct belonging b = {.series = ""};
    struct slide_file *file = slide_file_open(path, NULL);
    uid[0] = 0;
    *is_other = false;
    if (!file)
        return false;
    const bool good = dicom_file_open(&f, file) && dicom_file_walk(&f, take_series, &b);
    slide_file_close(file);
    errno = f.code;
    *is_other = good && (b.is_list || is_no_level(&b.kind));
    memcpy(uid, b.series, sizeof b.series);
    return good && uid[0];
}

/* --- what an instance is --- */

enum { LEAST_TILE = 8, MOST_TILE = 4096, ABSENT = -2 };

/* --- the values that are read --- */

enum kind {
    TEXT,  /* char [size] */
    WORDS, /* the same, cut when it is longer */
    U16,
    U32,      /* int64_t */
    INTEGER,  /* int64_t, written as text */
    DECIMALS, /* double [size / sizeof(double)], written as text */
    ANY_SIGN, /* the same, and values may be 0 or negative */
    FLOAT,    /* double */
    PLACE,    /* struct dicom_place */
};

#define SHARED DICOM_TAG(0x5200, 0x9229)
#define PER_FRAME DICOM_TAG(0x5200, 0x9230)
#define MEASURES DICOM_TAG(0x0028, 0x9110)
#define OPTICAL_PATH DICOM_TAG(0x0048, 0x0105)
#define ORIGIN DICOM_TAG(0x0048, 0x0008)
#define POSITION DICOM_TAG(0x0048, 0x021a)
#define Z_OFFSET DICOM_TAG(0x0040, 0x074a)
#define IN(member)                                                                                 \
    offsetof(struct dicom_instance, member), sizeof((struct dicom_instance *)0)->member

static const struct field {
    uint32_t tags[3]; /* sequences around it and its own; 0 after the last */
    enum kind kind;
    size_t offset, size;
} fields[] = {
    {{DICOM_TAG(0x0008, 0x0008)}, WORDS, IN(type)},
    {{DICOM_TAG(0x0008, 0x0016)}, TEXT, IN(sop_class)},
    {{DICOM_TAG(0x0008, 0x0018)}, TEXT, IN(sop)},
    {{DICOM_TAG(0x0008, 0x0019)}, TEXT, IN(pyramid)},
    {{DICOM_TAG(0x0020, 0x000e)}, TEXT, IN(series)},
    {{DICOM_TAG(0x0020, 0x0242)}, TEXT, IN(concatenation)}, /* or its source, without an UID */
    {{DICOM_TAG(0x0020, 0x9161)}, TEXT, IN(concatenation)},
    {{DICOM_TAG(0x0020, 0x9163)}, U16, IN(parts)},
    {{DICOM_TAG(0x0020, 0x9228)}, U32, IN(first_frame)},
    {{DICOM_TAG(0x0020, 0x9311)}, TEXT, IN(organization)},
    {{DICOM_TAG(0x0028, 0x0002)}, U16, IN(samples)},
    {{DICOM_TAG(0x0028, 0x0004)}, TEXT, IN(photometric)},
    {{DICOM_TAG(0x0028, 0x0006)}, U16, IN(planar)},
    {{DICOM_TAG(0x0028, 0x0008)}, INTEGER, IN(frames)},
    {{DICOM_TAG(0x0028, 0x0010)}, U16, IN(rows)},
    {{DICOM_TAG(0x0028, 0x0011)}, U16, IN(cols)},
    {{DICOM_TAG(0x0028, 0x0100)}, U16, IN(bits_allocated)},
    {{DICOM_TAG(0x0028, 0x0101)}, U16, IN(bits_stored)},
    {{DICOM_TAG(0x0048, 0x0001)}, FLOAT, IN(volume_width)},
    {{DICOM_TAG(0x0048, 0x0006)}, U32, IN(width)},
    {{DICOM_TAG(0x0048, 0x0007)}, U32, IN(height)},
    {{ORIGIN, Z_OFFSET}, ANY_SIGN, IN(z)},
    {{DICOM_TAG(0x0048, 0x0010)}, TEXT, IN(label_in_image)},
    {{OPTICAL_PATH, DICOM_TAG(0x0028, 0x2000)}, PLACE, IN(icc)},
    {{OPTICAL_PATH, DICOM_TAG(0x0048, 0x0112)}, DECIMALS, IN(objective_power)},
    {{OPTICAL_PATH, DICOM_TAG(0x0048, 0x0106)}, TEXT, IN(optical_path)},
    {{DICOM_TAG(0x0048, 0x0302)}, U32, IN(optical_paths)},
    {{DICOM_TAG(0x0048, 0x0303)}, U32, IN(focal_planes)},
    {{SHARED, MEASURES, DICOM_TAG(0x0028, 0x0030)}, DECIMALS, IN(spacing)},
    {{SHARED, POSITION, Z_OFFSET}, ANY_SIGN, IN(z)},
    {{PER_FRAME}, PLACE, IN(frame_positions)},
    {{DICOM_TAG(0x7fe0, 0x0001)}, PLACE, IN(extended_offsets)},
    {{DICOM_TAG(0x7fe0, 0x0002)}, PLACE, IN(extended_lengths)},
    {{DICOM_PIXELS}, PLACE, IN(pixels)},
};

/* A whole number without sign, or -1. */
static int64_t integer(const char *text)
{
    const char *digits = text + strspn(text, " ");
    const size_t n = strspn(digits, "0123456789");
    return n > 0 && n <= 12 && !digits[n] ? atoll(digits) : -1;
}

/* n numbers, separated by \; NaN for what is none, or not positive without any_sign. */
static void decimals(const char *text, bool any_sign, double *out, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        char *end;
        const double v = text ? strtod(text, &end) : NAN;
        const bool good = text && end != text && (!*end || *end == '\\' || *end == ' ');
        out[k] = good && isfinite(v) && (v > 0 || any_sign) ? v : NAN;
        text = text ? strchr(text, '\\') : NULL;
        text = text ? text + 1 : NULL;
    }
}

static void take_number(struct dicom_file *f, const struct dicom_element *e, enum kind kind,
                        void *out)
{
    uint8_t b[4];
    float v;
    const size_t n = kind == U16 ? 2 : 4;
    if (e->length != n || !dicom_file_bytes(f, e->at, b, n))
        return;
    const uint32_t bits = dicom_u32(b);
    memcpy(&v, &bits, sizeof v);
    if (kind == FLOAT)
        *(double *)out = isfinite(v) && v > 0 ? (double)v : (double)NAN;
    else
        *(int64_t *)out = kind == U16 ? dicom_u16(b) : (int64_t)bits;
}

static void take(struct dicom_instance *i, const struct field *field, struct dicom_file *f,
                 const struct dicom_element *e)
{
    char text[100];
    void *out = (char *)i + field->offset;
    switch (field->kind) {
    case TEXT: dicom_file_text(f, e, out, field->size); break;
    case WORDS: take_words(f, e, out, field->size); break;
    case INTEGER:
        if (dicom_file_text(f, e, text, sizeof text))
            *(int64_t *)out = integer(text);
        break;
    case DECIMALS:
    case ANY_SIGN:
        if (dicom_file_text(f, e, text, sizeof text))
            decimals(text, field->kind == ANY_SIGN, out, field->size / sizeof(double));
        break;
    case PLACE: *(struct dicom_place *)out = (struct dicom_place){e->at, e->length}; break;
    default: take_number(f, e, field->kind, out);
    }
}

/* Is the path that of the field (1), or of a sequence around it (-1)? */
static int compare(const struct field *field, const struct dicom_path *p)
{
    if (p->depth > 2)
        return 0;
    for (int k = 0; k <= p->depth; k++)
        if (p->tags[k] != field->tags[k] || (k < p->depth && p->items[k] > 0))
            return 0;
    return p->depth == 2 || !field->tags[p->depth + 1] ? 1 : -1;
}

static enum dicom_step visit(void *ctx, struct dicom_file *f, const struct dicom_element *e,
                             const struct dicom_path *p)
{
    struct dicom_instance *i = ctx;
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
        const int is = compare(&fields[k], p);
        if (is < 0)
            return DICOM_ENTER;
        if (is > 0)
            take(i, &fields[k], f, e);
    }
    return e->tag == DICOM_PIXELS && p->depth == 0 ? DICOM_STOP : DICOM_SKIP;
}

/* A file without NumberOfFrames has those of its picture; dicom_frames.h compares them. */
static void take_frames(struct dicom_instance *i)
{
    if (i->frames == ABSENT)
        i->frames = -1;
    else
        return;
    if (i->cols > 0 && i->rows > 0 && i->width > 0 && i->height > 0)
        i->frames = ((i->width + i->cols - 1) / i->cols) * ((i->height + i->rows - 1) / i->rows);
}

int dicom_instance_read(struct dicom_instance *i, const struct slide_file *file, struct err *e)
{
    struct dicom_file f;
    *i = (struct dicom_instance){.width = -1,
                                 .height = -1,
                                 .cols = -1,
                                 .rows = -1,
                                 .frames = ABSENT,
                                 .samples = -1,
                                 .planar = -1,
                                 .bits_allocated = -1,
                                 .bits_stored = -1,
                                 .focal_planes = -1,
                                 .optical_paths = -1,
                                 .first_frame = -1,
                                 .parts = -1,
                                 .z = NAN,
                                 .spacing = {NAN, NAN},
                                 .volume_width = NAN,
                                 .objective_power = NAN};
    int r = dicom_file_open(&f, file);
    if (r) {
        memcpy(i->syntax, f.syntax, sizeof i->syntax);
        i->bytes = f.bytes;
        if (is_readable(&f) &&
            (!dicom_file_walk(&f, visit, i) || (dicom_instance_is_slide(i) && !i->pixels.at)))
            r = err_set(e, "its header is damaged or cut off; copy the file again");
    }
    take_frames(i);
    errno = f.code;
    return f.code ? err_sys(e, "cannot read its header") : r;
}

/* --- what they mean --- */

void dicom_instance_type(const struct dicom_instance *i, int number, char *out)
{
    const char *s = i->type;
    for (; number > 0 && s; number--)
        s = (s = strchr(s, '\\')) ? s + 1 : NULL;
    s = s ? s + strspn(s, " ") : "";
    const size_t n = strcspn(s, "\\ ");
    memcpy(out, s, n < DICOM_WORD ? n : 0);
    out[n < DICOM_WORD ? n : 0] = 0;
}

/* The third value of ImageType says what a picture of a slide shows; the others do not (PS3.3,
 * C.8.12.4.1.1). */
static bool shows(const struct dicom_instance *i, const char *flavour)
{
    char text[DICOM_WORD];
    dicom_instance_type(i, 2, text);
    return !strcmp(text, flavour);
}

bool dicom_instance_is_slide(const struct dicom_instance *i)
{
    return !strcmp(i->sop_class, "1.2.840.10008.5.1.4.1.1.77.1.6");
}

bool dicom_instance_is_deflated(const struct dicom_instance *i)
{
    return !strcmp(i->syntax, DEFLATED);
}

bool dicom_instance_is_level(const struct dicom_instance *i)
{
    return dicom_instance_is_slide(i) && shows(i, "VOLUME");
}

bool dicom_instance_is_thumbnail(const struct dicom_instance *i)
{
    return dicom_instance_is_slide(i) && shows(i, "THUMBNAIL") && !strcmp(i->label_in_image, "NO");
}

const char *dicom_instance_syntax(const struct dicom_instance *i)
{
    static const struct {
        const char *uid, *name;
    } known[] = {{"1.2.840.10008.1.2", "not compressed"},
                 {"1.2.840.10008.1.2.1", "not compressed"},
                 {"1.2.840.10008.1.2.4.50", "JPEG"},
                 {"1.2.840.10008.1.2.4.51", "extended JPEG"},
                 {"1.2.840.10008.1.2.4.57", "lossless JPEG"},
                 {"1.2.840.10008.1.2.4.70", "lossless JPEG"},
                 {"1.2.840.10008.1.2.4.80", "JPEG-LS"},
                 {"1.2.840.10008.1.2.4.81", "JPEG-LS"},
                 {"1.2.840.10008.1.2.4.90", "JPEG 2000"},
                 {"1.2.840.10008.1.2.4.91", "JPEG 2000"},
                 {"1.2.840.10008.1.2.4.110", "JPEG XL"},
                 {"1.2.840.10008.1.2.4.111", "JPEG XL"},
                 {"1.2.840.10008.1.2.4.112", "JPEG XL"},
                 {"1.2.840.10008.1.2.4.201", "High-Throughput JPEG 2000"},
                 {"1.2.840.10008.1.2.4.202", "High-Throughput JPEG 2000"},
                 {"1.2.840.10008.1.2.4.203", "High-Throughput JPEG 2000"},
                 {"1.2.840.10008.1.2.5", "run lengths"}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(i->syntax, known[k].uid))
            return known[k].name;
    return i->syntax[0] ? i->syntax : "of an unknown kind";
}

bool dicom_instance_is_j2k(const struct dicom_instance *i)
{
    return !strcmp(dicom_instance_syntax(i), "JPEG 2000");
}

bool dicom_instance_is_native(const struct dicom_instance *i)
{
    return !strcmp(dicom_instance_syntax(i), "not compressed");
}

bool dicom_instance_is_gray(const struct dicom_instance *i)
{
    return !strcmp(i->photometric, "MONOCHROME2");
}

/* Does the file state colours that such streams have? */
static bool has_colours(const struct dicom_instance *i)
{
    static const struct {
        const char *photometric;
        bool jpeg, j2k, native;
    } known[] = {{"RGB", true, true, true},           {"YBR_FULL", true, true, false},
                 {"YBR_FULL_422", true, true, false}, {"YBR_ICT", false, true, false},
                 {"YBR_RCT", false, true, false},     {"MONOCHROME2", true, true, true}};
    const bool is_j2k = dicom_instance_is_j2k(i), is_native = dicom_instance_is_native(i);
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(i->photometric, known[k].photometric))
            return is_native ? known[k].native : is_j2k ? known[k].j2k : known[k].jpeg;
    return false;
}

static bool is_side(int64_t px)
{
    return px >= LEAST_TILE && px <= MOST_TILE;
}

const char *dicom_instance_obstacle(const struct dicom_instance *i)
{
    const bool is_native = dicom_instance_is_native(i);
    const bool is_jpeg = !strcmp(i->syntax, "1.2.840.10008.1.2.4.50") ||
                         !strcmp(i->syntax, "1.2.840.10008.1.2.4.51");
    if (!is_jpeg && !dicom_instance_is_j2k(i) && !is_native)
        return "its pixels are not baseline JPEG, JPEG 2000 or uncompressed";
    if (!is_native && i->pixels.bytes != DICOM_UNDEFINED)
        return "it has no compressed frames";
    if (is_native && i->pixels.bytes == DICOM_UNDEFINED)
        return "its frames are items, but its transfer syntax says that they are not compressed";
    if (is_native && i->planar > 0)
        return "R, G and B of its uncompressed frames lie apart";
    if (i->bits_allocated != 8 || i->bits_stored != 8)
        return "its pixels are not 8-bit colour or gray";
    if (!strcmp(i->photometric, "MONOCHROME1"))
        return "its gray is inverted (MONOCHROME1)";
    if (i->samples != (dicom_instance_is_gray(i) ? 1 : 3))
        return "its pixels are not 8-bit colour or gray";
    if (!has_colours(i))
        return "its PhotometricInterpretation does not go with its compression";
    if (i->concatenation[0] && i->first_frame < 0)
        return "it is a part of a level, but does not state its first frame";
    if (!is_side(i->cols) || !is_side(i->rows))
        return "its tiles are smaller than 8 px or larger than 4,096 px";
    return NULL;
}

int dicom_instance_check_single(const struct dicom_instance *i, struct err *e)
{
    if (i->focal_planes > 1)
        return err_set(e,
                       "its frames are %" PRId64 " focal planes; export the plane that is to be "
                       "converted as a series of its own",
                       i->focal_planes);
    if (i->optical_paths > 1)
        return err_set(e,
                       "its frames are %" PRId64 " optical paths; export the path that is to be "
                       "converted as a series of its own",
                       i->optical_paths);
    return 0;
}

void dicom_instance_mpp(const struct dicom_instance *i, double *x, double *y)
{
    *x = 1000 * i->spacing[1];
    *y = 1000 * i->spacing[0];
    if (isnan(*x) && isnan(*y) && i->width > 0)
        *x = *y = 1000 * i->volume_width / (double)i->width;
}
