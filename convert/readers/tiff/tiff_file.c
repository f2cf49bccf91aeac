/* tiff_file.c - see tiff_file.h. */
#include "convert/readers/tiff/tiff_file.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "convert/tile/tile_format.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIRECTORIES = 64, MOST_TILES = 1 << 26, AT_A_TIME = 4096 };
enum { RGB = 2, PALETTE = 3, SEPARATE = 2 }; /* values of the tags Photometric and Planes */

/* --- bytes --- */

static bool get_bytes(const struct tiff_file *t, uint64_t at, void *out, size_t n)
{
    return at <= t->bytes && n <= t->bytes - at && read_at(t->fd, at, out, n) == n;
}

/* An unsigned number of 1, 2, 4 or 8 bytes in the file's order. */
static uint64_t number(const struct tiff_file *t, const uint8_t *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t k = 0; k < bytes; k++)
        v = v << 8 | p[t->is_swapped ? k : bytes - 1 - k];
    return v;
}

/* Bytes per value of a type; 0 for types that are not used here. */
static size_t type_bytes(uint16_t type)
{
    switch (type) {
    case 1:
    case 2:
    case 6:
    case 7: return 1;
    case 3:
    case 8: return 2;
    case 4:
    case 9:
    case 13: return 4;
    case 16:
    case 17:
    case 18: return 8;
    default: return 0;
    }
}

/* --- the header --- */

/* The directories that were read, the latest first. */
struct tiff_kept {
    struct kept_directory {
        struct kept_directory *next;
        struct tiff_directory d;
    } * list;
    size_t n_tags;
    bool is_crowded; /* a directory was not read, because it has too many tags */
};

static void forget_directories(struct tiff_kept *kept)
{
    for (struct kept_directory *k = kept->list, *next; k; k = next) {
        next = k->next;
        free(k->d.tags);
        free(k);
    }
    *kept = (struct tiff_kept){0};
}

static void release(void *what)
{
    struct tiff_file *t = what;
    if (t->kept)
        forget_directories(t->kept);
    free(t->kept);
    free(t);
}

/* Is the file an NDPI above 4 GiB, with its first directory there? */
static void take_wide(struct tiff_file *t, uint64_t first)
{
    struct tiff_file wide = *t;
    wide.is_wide = true;
    wide.first = first;
    const struct tiff_directory *d = tiff_file_directory(&wide, first);
    if (d && tiff_directory_tag(d, TIFF_FILE_NDPI))
        *t = wide;
    else
        forget_directories(t->kept);
}

static bool read_header(struct tiff_file *t)
{
    uint8_t head[16];
    if (!get_bytes(t, 0, head, sizeof head) || (memcmp(head, "II", 2) && memcmp(head, "MM", 2)))
        return false;
    t->is_swapped = head[0] == 'M';
    const uint64_t version = number(t, head + 2, 2);
    t->is_big = version == 43;
    t->first = number(t, head + (t->is_big ? 8 : 4), t->is_big ? 8 : 4);
    if (version != 42 && version != 43)
        return false;
    t->kept = memory_need(1, sizeof *t->kept);
    if (version == 42 && t->bytes > UINT32_MAX)
        take_wide(t, number(t, head + 4, 8));
    return true;
}

const struct tiff_file *tiff_file_of(const struct slide_file *file)
{
    struct tiff_file *t = slide_file_kept(file, release);
    if (t)
        return t->kept ? t : NULL;
    t = memory_need(1, sizeof *t);
    *t = (struct tiff_file){.fd = file->fd, .bytes = file->bytes};
    const bool found = read_header(t);
    if (found || !slide_may_pass(errno))
        slide_file_keep(file, t, release);
    else
        release(t);
    return found ? t : NULL;
}

/* --- directories --- */

/* One entry: number, type, count, and the values or their offset. */
static struct tiff_tag take_tag(const struct tiff_file *t, const uint8_t *p, uint64_t at)
{
    const size_t word = t->is_big ? 8 : 4;
    struct tiff_tag tag = {.number = (uint16_t)number(t, p, 2),
                           .type = (uint16_t)number(t, p + 2, 2),
                           .count = number(t, p + 4, word)};
    const size_t bytes = type_bytes(tag.type);
    tag.is_here = bytes && tag.count <= word / bytes;
    tag.at = tag.is_here ? at + 4 + word : number(t, p + 4 + word, word);
    memcpy(tag.here, p + 4 + word, word);
    return tag;
}

/* Adds the upper halves, which lie at `at`, of what the entries hold: offsets, or values. */
static bool widen(const struct tiff_file *t, struct tiff_directory *d, uint64_t at)
{
    uint8_t bytes[4];
    for (size_t k = 0; k < d->n; k++, at += sizeof bytes) {
        struct tiff_tag *tag = &d->tags[k];
        const size_t each = type_bytes(tag->type);
        if (!get_bytes(t, at, bytes, sizeof bytes))
            return false;
        const uint64_t upper = number(t, bytes, sizeof bytes);
        if (each && tag->count > sizeof bytes / each)
            tag->at |= upper << 32;
        else if (each == sizeof bytes)
            tag->upper = (uint32_t)upper;
    }
    return true;
}

static bool read_directory(const struct tiff_file *t, uint64_t at, struct tiff_directory *d)
{
    const size_t head = t->is_big ? 8 : 2, entry = t->is_big ? 20 : 12, word = t->is_big ? 8 : 4;
    uint8_t bytes[8], some[AT_A_TIME];
    if (at == 0 || !get_bytes(t, at, bytes, head))
        return false;
    const uint64_t n = number(t, bytes, head);
    if (n < 1)
        return false;
    if (n > TIFF_MOST_TAGS || n > TIFF_MOST_KEPT - t->kept->n_tags) {
        t->kept->is_crowded = true;
        return false;
    }
    d->tags = memory_need((size_t)n, sizeof *d->tags);
    for (at += head; d->n < n; at += entry, d->n++) {
        const size_t k = d->n % (AT_A_TIME / entry);
        const size_t left = (size_t)n - d->n, most = AT_A_TIME / entry;
        if (k == 0 && !get_bytes(t, at, some, (left < most ? left : most) * entry))
            break;
        d->tags[d->n] = take_tag(t, some + k * entry, at);
    }
    const size_t link = t->is_wide ? 8 : word;
    if (d->n < n || !get_bytes(t, at, bytes, link) || (t->is_wide && !widen(t, d, at + link)))
        return false;
    d->next = number(t, bytes, link);
    return true;
}

const struct tiff_directory *tiff_file_directory(const struct tiff_file *t, uint64_t at)
{
    for (struct kept_directory *k = t->kept->list; k; k = k->next)
        if (k->d.at == at)
            return &k->d;
    struct kept_directory *k = memory_need(1, sizeof *k);
    k->d.at = at;
    if (!read_directory(t, at, &k->d)) {
        const int code = errno;
        free(k->d.tags);
        free(k);
        errno = code;
        return NULL;
    }
    k->next = t->kept->list;
    t->kept->list = k;
    t->kept->n_tags += k->d.n;
    return &k->d;
}

bool tiff_file_is_crowded(const struct tiff_file *t)
{
    return t->kept->is_crowded;
}

uint64_t tiff_tag_bytes(const struct tiff_tag *tag)
{
    const uint64_t each = type_bytes(tag->type);
    return tag->count > UINT64_MAX / 8 ? 0 : tag->count * each;
}

const struct tiff_tag *tiff_directory_tag(const struct tiff_directory *d, uint16_t wanted)
{
    for (size_t k = 0; k < d->n; k++)
        if (d->tags[k].number == wanted)
            return &d->tags[k];
    return NULL;
}

/* The table of a tiled directory: tag 324 or 325, or what some programs write in its place. */
static const struct tiff_tag *tile_table(const struct tiff_directory *d, uint16_t wanted)
{
    const struct tiff_tag *tag = tiff_directory_tag(d, wanted);
    const uint16_t strips =
        wanted == TIFF_FILE_TILE_OFFSETS ? TIFF_FILE_STRIP_OFFSETS : TIFF_FILE_STRIP_BYTES;
    return tag ? tag : tiff_directory_tag(d, strips);
}

bool tiff_file_states(const struct slide_file *file, uint16_t number)
{
    const struct tiff_file *t = tiff_file_of(file);
    const struct tiff_directory *d = t ? tiff_file_directory(t, t->first) : NULL;
    return d && tiff_directory_tag(d, number);
}

/* --- values --- */

/* n bytes of a tag's values, from byte `from` on, of those that the file has. */
static bool tag_bytes(const struct tiff_file *t, const struct tiff_tag *tag, uint64_t from,
                      void *out, size_t n)
{
    if (!tag->is_here)
        return get_bytes(t, tag->at + from, out, n);
    memcpy(out, tag->here + from, n);
    return true;
}

bool tiff_file_values(const struct tiff_file *t, const struct tiff_tag *tag, uint64_t first,
                      size_t n, uint64_t *out)
{
    uint8_t bytes[AT_A_TIME];
    const size_t each = type_bytes(tag->type);
    if (each == 0 || first > tag->count || n > tag->count - first || tag->at > t->bytes ||
        tag->count > (t->bytes - tag->at) / each)
        return false;
    while (n > 0) {
        const size_t some = n < AT_A_TIME / each ? n : AT_A_TIME / each;
        if (!tag_bytes(t, tag, first * each, bytes, some * each))
            return false;
        for (size_t k = 0; k < some; k++)
            *out++ = number(t, bytes + k * each, each) | (uint64_t)tag->upper << 32;
        first += some;
        n -= some;
    }
    return true;
}

uint64_t tiff_file_value(const struct tiff_file *t, const struct tiff_directory *d, uint16_t wanted,
                         uint64_t otherwise)
{
    uint64_t v;
    const struct tiff_tag *tag = tiff_directory_tag(d, wanted);
    return tag && tiff_file_values(t, tag, 0, 1, &v) ? v : otherwise;
}

/* One value of 8 bytes, of a type of which tiff_file knows no size. In a BigTIFF it lies in the
 * entry. */
static bool eight_bytes(const struct tiff_file *t, const struct tiff_tag *tag, uint64_t *v)
{
    uint8_t bytes[8];
    *v = tag->at;
    if (t->is_big && tag->count == 1)
        return true;
    const bool found = get_bytes(t, tag->at, bytes, sizeof bytes);
    *v = found ? number(t, bytes, sizeof bytes) : 0;
    return found;
}

uint64_t tiff_file_photometric(const struct tiff_file *t, const struct tiff_directory *d)
{
    enum { GRAY = 1 };
    const struct tiff_tag *extra = tiff_directory_tag(d, TIFF_FILE_EXTRA_SAMPLES);
    const uint64_t colours =
        tiff_file_value(t, d, TIFF_FILE_SAMPLES, 1) - (extra ? extra->count : 0);
    return tiff_file_value(t, d, TIFF_FILE_PHOTOMETRIC, colours == 3 ? RGB : GRAY);
}

static double float_of(const struct tiff_file *t, const struct tiff_tag *tag)
{
    float f;
    const uint32_t bits = (uint32_t)(t->is_big && t->is_swapped ? tag->at >> 32 : tag->at);
    memcpy(&f, &bits, sizeof f);
    return tag->count == 1 ? (double)f : (double)NAN;
}

double tiff_file_real(const struct tiff_file *t, const struct tiff_directory *d, uint16_t wanted)
{
    enum { RATIONAL = 5, FLOAT = 11, DOUBLE = 12 };
    double real = NAN;
    uint64_t v = 0;
    const struct tiff_tag *tag = tiff_directory_tag(d, wanted);
    if (!tag || tag->count < 1)
        return NAN;
    if (tag->type == FLOAT)
        real = float_of(t, tag);
    else if (tag->type == DOUBLE && eight_bytes(t, tag, &v))
        memcpy(&real, &v, sizeof real);
    else if (tag->type == RATIONAL && eight_bytes(t, tag, &v))
        real = t->is_swapped ? (double)(v >> 32) / (double)(v & UINT32_MAX)
                             : (double)(v & UINT32_MAX) / (double)(v >> 32);
    else if (tag->type != RATIONAL && tiff_file_values(t, tag, 0, 1, &v))
        real = (double)v;
    return isfinite(real) && real > 0 ? real : NAN;
}

double tiff_file_unit(const struct tiff_file *t, const struct tiff_directory *d)
{
    enum { INCH = 2, CENTIMETER = 3 };
    const uint64_t unit = tiff_file_value(t, d, TIFF_FILE_RESOLUTION_UNIT, INCH);
    return unit == INCH ? 25400 : unit == CENTIMETER ? 10000 : NAN;
}

char *tiff_file_bytes(const struct tiff_file *t, const struct tiff_tag *tag, size_t most)
{
    const uint64_t n = tiff_tag_bytes(tag);
    char *text = n > 0 && n <= most && tag->at <= t->bytes && n <= t->bytes - tag->at
                     ? memory_need((size_t)n + 1, 1)
                     : NULL;
    if (text && tag_bytes(t, tag, 0, text, (size_t)n)) {
        text[n] = 0;
        return text;
    }
    free(text);
    return NULL;
}

uint8_t *tiff_file_icc(const struct tiff_file *t, uint64_t at, size_t *bytes, bool *lost)
{
    enum { MOST_ICC = 1 << 26 };
    const struct tiff_directory *d = tiff_file_directory(t, at);
    const struct tiff_tag *tag = d ? tiff_directory_tag(d, TIFF_FILE_ICC) : NULL;
    char *icc = tag ? tiff_file_bytes(t, tag, MOST_ICC) : NULL;
    *bytes = icc ? (size_t)tiff_tag_bytes(tag) : 0;
    *lost = tag && tag->count > 0 && !icc;
    return (uint8_t *)icc;
}

void tiff_file_text(const struct tiff_file *t, const struct tiff_directory *d, uint16_t wanted,
                    char *out, size_t size)
{
    const struct tiff_tag *tag = tiff_directory_tag(d, wanted);
    out[0] = 0;
    if (!tag || (tag->type != 1 && tag->type != 2)) /* some programs write bytes */
        return;
    const size_t n = tag->count < size - 1 ? (size_t)tag->count : size - 1;
    if (tag_bytes(t, tag, 0, out, n))
        out[n] = 0;
    else
        out[0] = 0;
}

/* --- empty tiles --- */

static bool is_level(const struct tiff_file *t, const struct tiff_directory *d,
                     const struct slide_info *i)
{
    return tiff_file_value(t, d, TIFF_FILE_WIDTH, 0) == (uint64_t)i->width &&
           tiff_file_value(t, d, TIFF_FILE_LENGTH, 0) == (uint64_t)i->height &&
           tiff_file_value(t, d, TIFF_FILE_TILE_WIDTH, 0) == (uint64_t)i->tile_cols &&
           tiff_file_value(t, d, TIFF_FILE_TILE_LENGTH, 0) == (uint64_t)i->tile_rows;
}

/* The table of a level's directory as flags, or NULL when no tile is empty. */
static uint8_t *flags_of(const struct tiff_file *t, const struct tiff_directory *d, size_t n)
{
    uint64_t counts[AT_A_TIME / 8];
    const struct tiff_tag *tag = tile_table(d, TIFF_FILE_TILE_BYTES);
    uint8_t *empty = tag && tag->count == n ? calloc(n, 1) : NULL;
    bool any = false;
    for (size_t k = 0; empty && k < n; k += AT_A_TIME / 8) {
        const size_t some = n - k < AT_A_TIME / 8 ? n - k : AT_A_TIME / 8;
        if (!tiff_file_values(t, tag, k, some, counts))
            break;
        for (size_t j = 0; j < some; j++)
            any |= empty[k + j] = counts[j] == 0;
    }
    if (any)
        return empty;
    free(empty);
    return NULL;
}

/* The directory of the open level, and the file. NULL: there is none. */
static const struct tiff_directory *
find_level(const struct slide_file *file, const struct slide_info *i, const struct tiff_file **t)
{
    *t = tiff_file_of(file);
    const struct tiff_directory *d = *t ? tiff_file_directory(*t, (*t)->first) : NULL;
    for (int k = 0; k < MOST_DIRECTORIES && d; k++) {
        if (is_level(*t, d, i))
            return d;
        d = d->next ? tiff_file_directory(*t, d->next) : NULL;
    }
    return NULL;
}

uint8_t *tiff_file_empty_tiles(const struct slide_file *file, const struct slide_info *i)
{
    const struct tiff_file *t;
    const int64_t cols = (i->width + i->tile_cols - 1) / i->tile_cols;
    const int64_t rows = (i->height + i->tile_rows - 1) / i->tile_rows;
    const struct tiff_directory *d = cols <= MOST_TILES / rows ? find_level(file, i, &t) : NULL;
    return d ? flags_of(t, d, (size_t)(cols * rows)) : NULL;
}

int tiff_file_check_tables(const struct tiff_directory *d, int64_t width, int64_t height,
                           int64_t tiles, struct err *e)
{
    const struct tiff_tag *offsets = tile_table(d, TIFF_FILE_TILE_OFFSETS);
    const struct tiff_tag *bytes = tile_table(d, TIFF_FILE_TILE_BYTES);
    const uint64_t n_offsets = offsets ? offsets->count : 0, n_bytes = bytes ? bytes->count : 0;
    if (n_offsets == n_bytes && n_offsets == (uint64_t)tiles)
        return 0;
    return err_set(e,
                   "damaged: %" PRId64 " x %" PRId64 " px have %" PRId64
                   " tiles, but its tables have %" PRIu64 " and %" PRIu64
                   " entries; copy the slide again",
                   width, height, tiles, n_offsets, n_bytes);
}

/* Libraries turn other samples into bytes, so that most of what they say is lost. */
static int check_samples(const struct tiff_file *t, const struct tiff_directory *d, struct err *e)
{
    static const char *const formats[] = {"", "", "signed ", "floating-point ", ""};
    const uint64_t bits = tiff_file_value(t, d, TIFF_FILE_BITS, 1);
    const uint64_t format = tiff_file_value(t, d, TIFF_FILE_SAMPLE_FORMAT, 1);
    if (bits == 8 && (format == 1 || format == 4))
        return 0;
    return err_set(e,
                   "its samples are %snumbers of %" PRIu64 " bits; only 8-bit RGB and gray are "
                   "converted; choose the range that matters and convert it to 8 bits first",
                   formats[format < 5 ? format : 0], bits);
}

int tiff_file_check_level(const struct slide_file *file, const struct slide_info *i, struct err *e)
{
    const struct tiff_file *t;
    const struct tiff_directory *d = find_level(file, i, &t);
    const int64_t cols = (i->width + i->tile_cols - 1) / i->tile_cols;
    const int64_t rows = (i->height + i->tile_rows - 1) / i->tile_rows;
    if (!d)
        return 0;
    const bool planes = tiff_file_value(t, d, TIFF_FILE_PLANES, 1) == SEPARATE;
    const int r = planes ? 0 : tiff_file_check_tables(d, i->width, i->height, cols * rows, e);
    return r ? r : check_samples(t, d, e);
}

/* --- names --- */

void tiff_file_name_compression(uint64_t number, char *text, size_t size)
{
    static const struct {
        uint64_t number;
        const char *name;
    } others[] = {{22610, "JPEG XR"}, {34934, "JPEG XR"}, {50002, "JPEG XL"}, {52546, "JPEG XL"}};
    const struct tile_compression *c = tile_compression(number);
    const char *name = c ? c->name : NULL;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        name = number == others[k].number ? others[k].name : name;
    if (c)
        snprintf(text, size, "%s", name);
    else if (name)
        snprintf(text, size, "%s (compression %" PRIu64 ")", name, number);
    else
        snprintf(text, size, "of compression %" PRIu64, number);
}

/* ", CMYK": how the samples make colours, unless that is usual. */
static const char *name_photometric(const struct tiff_file *t, const struct tiff_directory *d)
{
    enum { JPEG = 7, MASK = 4, CMYK = 5, YCBCR = 6, CIELAB = 8, CFA = 32803 };
    switch (tiff_file_photometric(t, d)) {
    case 0:
    case 1:
    case RGB: return "";
    case PALETTE: return ", with a palette";
    case MASK: return ", a mask";
    case CMYK: return tiff_file_value(t, d, TIFF_FILE_INK_SET, 1) == 1 ? ", CMYK" : ", other inks";
    case YCBCR: return tiff_file_value(t, d, TIFF_FILE_COMPRESSION, 1) == JPEG ? "" : ", YCbCr";
    case CIELAB: return ", CIE L*a*b*";
    case CFA: return ", a colour filter array";
    default: return ", of another photometric kind";
    }
}

void tiff_file_name_tiles(const struct tiff_file *t, const struct tiff_directory *d, char *text,
                          size_t size)
{
    char compression[64];
    tiff_file_name_compression(tiff_file_value(t, d, TIFF_FILE_COMPRESSION, 1), compression,
                               sizeof compression);
    const uint64_t kind = tiff_file_value(t, d, TIFF_FILE_SAMPLE_FORMAT, 1);
    snprintf(text, size, "%s are %s, %" PRIu64 " %ssample%s of %" PRIu64 " bits%s%s",
             tiff_directory_tag(d, TIFF_FILE_TILE_WIDTH) ? "tiles" : "strips", compression,
             tiff_file_value(t, d, TIFF_FILE_SAMPLES, 1),
             kind == 2   ? "signed "
             : kind == 3 ? "floating-point "
                         : "",
             tiff_file_value(t, d, TIFF_FILE_SAMPLES, 1) == 1 ? "" : "s",
             tiff_file_value(t, d, TIFF_FILE_BITS, 1), name_photometric(t, d),
             tiff_file_value(t, d, TIFF_FILE_PLANES, 1) == SEPARATE ? ", in separate planes" : "");
}

/* Why only OpenSlide can convert the pixels to RGB; NULL: it is not needed. */
static const char *unusual_samples(const struct tiff_file *t, const struct tiff_directory *d)
{
    const uint64_t samples = tiff_file_value(t, d, TIFF_FILE_SAMPLES, 1);
    if (tiff_file_photometric(t, d) == PALETTE)
        return "its tiles have a palette";
    if (tiff_file_value(t, d, TIFF_FILE_PLANES, 1) == SEPARATE)
        return "its tiles are in separate planes";
    return samples == 1 || samples == 3 ? NULL : "its tiles have alpha or other extra samples";
}

void tiff_file_obstacle(const struct slide_file *file, const struct slide_info *i, char *text,
                        size_t size)
{
    enum { JPEG = 7 };
    const struct tiff_file *t;
    const struct tiff_directory *d = find_level(file, i, &t);
    char compression[64];
    text[0] = 0;
    if (!d)
        return;
    const char *unusual = unusual_samples(t, d);
    const uint64_t number = tiff_file_value(t, d, TIFF_FILE_COMPRESSION, 1);
    tiff_file_name_compression(number, compression, sizeof compression);
    if (unusual)
        snprintf(text, size, "%s", unusual);
    else if (number != JPEG)
        snprintf(text, size, "its tiles are %s", compression);
    else if (tiff_file_value(t, d, TIFF_FILE_SAMPLES, 1) == 1)
        snprintf(text, size, "its JPEG tiles are gray");
}

uint64_t tiff_file_compression(const struct slide_file *file, const struct slide_info *i)
{
    const struct tiff_file *t;
    const struct tiff_directory *d = find_level(file, i, &t);
    return d ? tiff_file_value(t, d, TIFF_FILE_COMPRESSION, 1) : 0;
}
