/* jpeg_stream.c - see jpeg_stream.h. */
#include "common/codec/jpeg_stream.h"

#include "common/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* The markers of a JPEG stream. */

enum { MOST_DC_BITS = 15 }; /* of a difference; libjpeg-turbo rejects tables with more */

const uint8_t jpeg_zigzag[64] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

/* The contents of one marker segment. */
struct segment {
    const uint8_t *p;
    size_t n;
};

static int big16(const uint8_t *p)
{
    return p[0] << 8 | p[1];
}

/* A valid stream of another kind. */
static int other(struct err *e, const char *what)
{
    err_set(e, "%s", what);
    return 1; /* JPEG_CHUNK_OTHER, too */
}

static int read_quant(struct jpeg_header *h, struct segment s, struct err *e)
{
    while (s.n > 0) {
        const int wide = s.p[0] >> 4, number = s.p[0] & 15;
        const size_t bytes = wide ? 128 : 64;
        if (wide > 1 || number >= JPEG_QUANT_TABLES || s.n < 1 + bytes)
            return err_set(e, "damaged JPEG: invalid quantisation table");
        for (int k = 0; k < 64; k++) {
            h->quant[number][k] = (uint16_t)(wide ? big16(s.p + 1 + 2 * k) : s.p[1 + k]);
            if (h->quant[number][k] == 0)
                return err_set(e, "damaged JPEG: a quantiser is zero");
        }
        h->quant_defined[number] = true;
        s.p += 1 + bytes;
        s.n -= 1 + bytes;
    }
    return 0;
}

/* Do the codes fit? A prefix code of counts[k] words of k bits, of which the one of all ones is
 * unused. */
static bool are_codes(const uint8_t counts[17])
{
    int code = 0;
    for (int bits = 1; bits <= 16; bits++) {
        code += counts[bits];
        if (code > (1 << bits) || (counts[bits] && code == (1 << bits)))
            return false;
        code <<= 1;
    }
    return true;
}

static int read_huffman(struct jpeg_header *h, struct segment s, struct err *e)
{
    while (s.n > 0) {
        if (s.n < 17 || s.p[0] >> 4 > 1 || (s.p[0] & 15) >= JPEG_HUFFMAN_TABLES)
            return err_set(e, "damaged JPEG: invalid Huffman table");
        struct jpeg_huffman *t = s.p[0] >> 4 ? &h->ac[s.p[0] & 15] : &h->dc[s.p[0] & 15];
        int n = 0;
        for (int bits = 1; bits <= 16; bits++)
            n += t->counts[bits] = s.p[bits];
        if (n > 256 || s.n < 17 + (size_t)n || !are_codes(t->counts))
            return err_set(e, "damaged JPEG: invalid Huffman table");
        memset(t->values, 0, sizeof t->values);
        memcpy(t->values, s.p + 17, (size_t)n);
        for (int k = 0; k < n && s.p[0] >> 4 == 0; k++)
            if (t->values[k] > MOST_DC_BITS)
                return err_set(e, "damaged JPEG: invalid Huffman table");
        t->n_values = n;
        t->stored = s.p + 1;
        t->defined = true;
        s.p += 17 + n;
        s.n -= 17 + (size_t)n;
    }
    return 0;
}

static int read_frame(struct jpeg_header *h, struct segment s, struct err *e)
{
    if (h->components > 0 || s.n < 6 || s.n != 6 + 3 * (size_t)s.p[5])
        return err_set(e, "damaged JPEG: invalid frame header");
    h->height = big16(s.p + 1);
    h->width = big16(s.p + 3);
    h->components = s.p[5];
    if (h->width == 0 || h->height == 0)
        return err_set(e, "damaged JPEG: width or height is zero");
    if (s.p[0] != 8) {
        err_set(e, "JPEG of %d bits per sample", s.p[0]);
        return 1;
    }
    if (h->components != 1 && h->components != 3) {
        err_set(e, "JPEG of %d components", h->components);
        return 1;
    }
    for (int c = 0; c < h->components; c++) {
        const uint8_t *p = s.p + 6 + 3 * c;
        h->component[c] = (struct jpeg_component){
            .id = p[0], .h = (uint8_t)(p[1] >> 4), .v = (uint8_t)(p[1] & 15), .quant = p[2]};
        if (p[1] >> 4 < 1 || p[1] >> 4 > 4 || (p[1] & 15) < 1 || (p[1] & 15) > 4 ||
            p[2] >= JPEG_QUANT_TABLES)
            return err_set(e, "damaged JPEG: invalid component");
    }
    if (h->components == 1) /* T.81 A.2.2: a scan of one component has one block per MCU */
        h->component[0].h = h->component[0].v = 1;
    return 0;
}

/* The header of the first scan, which must be the only one. */
static int read_scan(struct jpeg_header *h, struct segment s, struct err *e)
{
    if (h->components == 0 || s.n < 1 || s.n != 4 + 2 * (size_t)s.p[0])
        return err_set(e, "damaged JPEG: invalid scan header");
    if (s.p[0] != h->components)
        return other(e, "JPEG of several scans");
    for (int c = 0; c < h->components; c++) {
        const uint8_t *p = s.p + 1 + 2 * c;
        struct jpeg_component *k = &h->component[c];
        if (p[0] != k->id || p[1] >> 4 >= JPEG_HUFFMAN_TABLES || (p[1] & 15) >= JPEG_HUFFMAN_TABLES)
            return err_set(e, "damaged JPEG: invalid scan header");
        k->dc = p[1] >> 4;
        k->ac = p[1] & 15;
        if (!h->dc[k->dc].defined || !h->ac[k->ac].defined || !h->quant_defined[k->quant])
            return other(e, "JPEG without its tables");
    }
    const uint8_t *p = s.p + 1 + 2 * h->components;
    return p[0] == 0 && p[1] == 63 && p[2] == 0 ? 0
                                                : err_set(e, "damaged JPEG: invalid scan header");
}

static int read_restart(struct jpeg_header *h, struct segment s, struct err *e)
{
    if (s.n != 2)
        return err_set(e, "damaged JPEG: invalid restart interval");
    h->restart_interval = big16(s.p);
    return 0;
}

static int read_segment(struct jpeg_header *h, int marker, struct segment s, struct err *e)
{
    switch (marker) {
    case MARKER_DQT: return read_quant(h, s, e);
    case MARKER_DHT: return read_huffman(h, s, e);
    case MARKER_DRI: return read_restart(h, s, e);
    case MARKER_SOF0: return read_frame(h, s, e);
    case MARKER_SOS: return read_scan(h, s, e);
    case MARKER_APP0: /* libjpeg-turbo warns of it, and a warning is damage */
        if (s.n >= 6 && !memcmp(s.p, "JFIF", 5) && s.p[5] != 1)
            return other(e, "JPEG of an unknown JFIF version");
        return 0;
    case MARKER_APP14:
        if (s.n >= 12 && !memcmp(s.p, "Adobe", 5))
            h->adobe_transform = s.p[11];
        return 0;
    default: break;
    }
    if (marker > MARKER_SOF0 && marker <= MARKER_SOF15)
        return other(e, marker == MARKER_DAC ? "JPEG with arithmetic coding"
                                             : "JPEG that is not baseline");
    return 0;
}

/* Does libjpeg know a segment with this marker? It ends at reserved ones. */
static bool has_segment(int m)
{
    return (m >= MARKER_SOF0 && m <= MARKER_SOF15 && m != MARKER_JPG) ||
           (m >= MARKER_SOS && m <= MARKER_DRI) || (m >= MARKER_APP0 && m <= MARKER_APP15) ||
           m == MARKER_COM;
}

/* Reads the segment whose marker is at byte *at, and steps over it. */
static int next_segment(const uint8_t *bytes, size_t n, size_t *at, int *marker, struct segment *s,
                        struct err *e)
{
    while (*at + 1 < n && bytes[*at] == 0xff && bytes[*at + 1] == 0xff)
        ++*at; /* fill bytes */
    if (*at + 4 > n || bytes[*at] != 0xff)
        return err_set(e, "damaged JPEG: no marker at byte %zu", *at);
    const int m = *marker = bytes[*at + 1];
    if (!has_segment(m))
        return err_set(e, "damaged JPEG: marker %02x at byte %zu", (unsigned)m, *at);
    const size_t length = (size_t)big16(bytes + *at + 2);
    if (length < 2 || length > n - *at - 2)
        return err_set(e, "damaged JPEG: the segment at byte %zu is truncated", *at);
    *s = (struct segment){bytes + *at + 4, length - 2};
    *at += 2 + length;
    return 0;
}

int jpeg_header_read(struct jpeg_header *h, const uint8_t *bytes, size_t n, struct err *e)
{
    struct segment s;
    int marker = 0, r = 0;
    *h = (struct jpeg_header){.adobe_transform = -1, .scan_offset = 2};
    if (n < 4 || bytes[0] != 0xff || bytes[1] != MARKER_SOI)
        return err_set(e, "damaged JPEG: it does not begin with SOI");
    while (marker != MARKER_SOS && r == 0) {
        if (next_segment(bytes, n, &h->scan_offset, &marker, &s, e))
            return -1;
        r = read_segment(h, marker, s, e);
    }
    return r;
}

/* --- what a stream states about its colours --- */

struct statement {
    bool is_jfif, has_rgb_ids, has_jfif_ids; /* R, G, B; 1, 2, 3 */
    bool is_subsampled;                      /* the second and the third component */
    int adobe_transform;                     /* -1: no marker */
};

/* Three components: id, 16 * h + v, table. */
static void take_components(struct statement *t, const uint8_t *c)
{
    t->has_rgb_ids = c[0] == 'R' && c[3] == 'G' && c[6] == 'B';
    t->has_jfif_ids = c[0] == 1 && c[3] == 2 && c[6] == 3;
    t->is_subsampled = c[4] == c[7] && ((c[4] >> 4) < (c[1] >> 4) || (c[4] & 15) < (c[1] & 15));
}

static bool is_frame(int marker)
{
    return marker >= MARKER_SOF0 && marker <= MARKER_SOF15 && marker != MARKER_DHT &&
           marker != MARKER_JPG && marker != MARKER_DAC;
}

static void take_statement(struct statement *t, int marker, struct segment s)
{
    if (is_frame(marker) && s.n == 15 && s.p[5] == 3)
        take_components(t, s.p + 6);
    else if (marker == MARKER_APP0 && s.n >= 14 && !memcmp(s.p, "JFIF", 5))
        t->is_jfif = true;
    else if (marker == MARKER_APP14 && s.n >= 12 && !memcmp(s.p, "Adobe", 5))
        t->adobe_transform = s.p[11];
}

int jpeg_header_colours(const uint8_t *bytes, size_t n, bool *is_subsampled)
{
    struct statement t = {.adobe_transform = -1};
    struct segment s;
    size_t at = 2; /* behind SOI */
    int marker = 0;
    while (marker != MARKER_SOS && next_segment(bytes, n, &at, &marker, &s, NULL) == 0)
        take_statement(&t, marker, s);
    *is_subsampled = t.is_subsampled;
    if (t.adobe_transform > 0 || (t.is_jfif && t.has_jfif_ids))
        return 1;
    return !t.is_jfif && (t.adobe_transform == 0 || t.has_rgb_ids) ? 0 : -1;
}

bool jpeg_header_size(const uint8_t *bytes, size_t n, int64_t *cols, int64_t *rows)
{
    struct segment s;
    size_t at = 2; /* behind SOI */
    int marker = 0;
    while (marker != MARKER_SOS && next_segment(bytes, n, &at, &marker, &s, NULL) == 0)
        if (is_frame(marker) && s.n >= 6) {
            *rows = s.p[1] << 8 | s.p[2];
            *cols = s.p[3] << 8 | s.p[4];
            return true;
        }
    return false;
}

int jpeg_header_mcu_blocks(const struct jpeg_header *h)
{
    int blocks = 0;
    for (int c = 0; c < h->components; c++)
        blocks += h->component[c].h * h->component[c].v;
    return blocks;
}

static int largest(const struct jpeg_header *h, bool vertical)
{
    int most = 1;
    for (int c = 0; c < h->components; c++) {
        const int f = vertical ? h->component[c].v : h->component[c].h;
        most = f > most ? f : most;
    }
    return most;
}

int jpeg_header_mcu_cols(const struct jpeg_header *h)
{
    const int px = 8 * largest(h, false);
    return (h->width + px - 1) / px;
}

int jpeg_header_mcu_rows(const struct jpeg_header *h)
{
    const int px = 8 * largest(h, true);
    return (h->height + px - 1) / px;
}

enum {
    HEAD = 2 + 16, /* bytes of SOI and the APP14 marker */
};

/* The bytes of a stream that are not copied yet. */
struct source {
    const uint8_t *at, *end;
};

static void put(struct jpeg_chunk *c, const uint8_t *bytes, size_t n)
{
    memcpy(c->bytes + c->n, bytes, n);
    c->n += n;
}

static void put_head(struct jpeg_chunk *c, bool ycbcr)
{
    /* version 100, no flags */
    static const uint8_t head[HEAD] = {0xff, MARKER_SOI, 0xff, MARKER_APP14, 0, 14, 'A', 'd', 'o',
                                       'b',  'e',        0,    100,          0, 0,  0,   0,   0};
    c->n = 0;
    put(c, head, sizeof head);
    c->bytes[HEAD - 1] = ycbcr;
}

/* Steps over a marker and the fill bytes before it. Returns its code, or 0 where there is none. */
static int next_marker(struct source *s)
{
    if (s->end - s->at < 2 || s->at[0] != 0xff)
        return 0;
    while (s->end - s->at >= 2 && s->at[1] == 0xff)
        s->at++;
    if (s->end - s->at < 2)
        return 0;
    s->at += 2;
    return s->at[-1];
}

/* Steps over a segment, whose marker has been read, and copies it if `keep`. */
static int take_segment(struct source *s, struct jpeg_chunk *c, int marker, bool keep,
                        struct err *e)
{
    const size_t left = (size_t)(s->end - s->at);
    const size_t n = left < 2 ? 0 : (size_t)s->at[0] << 8 | s->at[1];
    if (n < 2 || n > left)
        return other(e, "a JPEG segment that is truncated");
    if (keep) {
        const uint8_t code[2] = {0xff, (uint8_t)marker};
        put(c, code, 2);
        put(c, s->at, n);
    }
    s->at += n;
    return 0;
}

/* Would libjpeg warn of an application segment, so that its tile is damaged? Of JFIF it knows
 * version 1, of Adobe's marker the transforms 0 and 1. */
static bool is_damage(int marker, const struct source *s)
{
    const size_t left = (size_t)(s->end - s->at);
    const size_t n = left < 2 ? 0 : (size_t)s->at[0] << 8 | s->at[1];
    if (n > left)
        return false;
    return (marker == MARKER_APP0 && n >= 16 && !memcmp(s->at + 2, "JFIF", 5) && s->at[7] != 1) ||
           (marker == MARKER_APP14 && n >= 14 && !memcmp(s->at + 2, "Adobe", 5) && s->at[13] > 1);
}

static bool carries_text(int marker)
{
    return marker == MARKER_COM || (marker >= MARKER_APP0 && marker <= MARKER_APP15);
}

/* The tables of tag 347. libjpeg forgets a restart interval at the next SOI, so DRI is not copied.
 */
static int copy_tables(struct source *s, struct jpeg_chunk *c, struct err *e)
{
    int marker = next_marker(s);
    if (marker != MARKER_SOI)
        return other(e, "JPEG tables without SOI");
    while ((marker = next_marker(s)) != MARKER_EOI) {
        const bool keep = marker == MARKER_DQT || marker == MARKER_DHT;
        if (!keep && marker != MARKER_DRI && !carries_text(marker))
            return other(e, "JPEG tables with an unexpected marker");
        if (take_segment(s, c, marker, keep, e))
            return JPEG_CHUNK_OTHER;
    }
    return 0;
}

/* The tile's segments up to its entropy-coded data. */
static int copy_headers(struct source *s, struct jpeg_chunk *c, struct err *e)
{
    int marker = next_marker(s);
    if (marker != MARKER_SOI)
        return other(e, "not a JPEG stream");
    do {
        marker = next_marker(s);
        const bool keep = marker == MARKER_DQT || marker == MARKER_DHT || marker == MARKER_DRI ||
                          marker == MARKER_SOF0 || marker == MARKER_SOS;
        if (!keep && (marker <= MARKER_SOF0 || marker > MARKER_SOF15) && !carries_text(marker))
            return other(e, "a JPEG with an unexpected marker");
        if (!keep && !carries_text(marker))
            return other(e, "JPEG that is not baseline");
        if (is_damage(marker, s))
            return other(e, "a JPEG with an unknown version or colour transform");
        if (take_segment(s, c, marker, keep, e))
            return JPEG_CHUNK_OTHER;
    } while (marker != MARKER_SOS);
    return 0;
}

/* The entropy-coded data, up to and with EOI. */
static int copy_data(struct source *s, struct jpeg_chunk *c, struct err *e)
{
    const uint8_t *p = s->at;
    while ((p = memchr(p, 0xff, (size_t)(s->end - p))) && s->end - p >= 2) {
        const int code = p[1];
        if (code == MARKER_EOI) {
            put(c, s->at, (size_t)(p + 2 - s->at));
            return 0;
        }
        if (code != 0 && code != 0xff && (code < MARKER_RST0 || code > MARKER_RST7))
            return other(e, "a marker within JPEG data");
        p += code == 0xff ? 1 : 2;
    }
    return other(e, "a JPEG that ends early");
}

static int grow(struct jpeg_chunk *c, size_t most, struct err *e)
{
    if (most <= c->room)
        return 0;
    free(c->bytes);
    c->room = 0;
    if (!(c->bytes = malloc(most))) {
        err_memory(e);
        return JPEG_NO_MEMORY;
    }
    c->room = most;
    return 0;
}

int jpeg_chunk_make(struct jpeg_chunk *c, const struct jpeg_stream *s, bool ycbcr, struct err *e)
{
    struct jpeg_header header;
    struct source tables = {s->tables, s->tables ? s->tables + s->tables_bytes : NULL};
    struct source tile = {s->bytes, s->bytes + s->n};
    if (grow(c, HEAD + s->tables_bytes + s->n, e))
        return JPEG_NO_MEMORY;
    put_head(c, ycbcr);
    if ((s->tables && copy_tables(&tables, c, e)) || copy_headers(&tile, c, e) ||
        copy_data(&tile, c, e))
        return JPEG_CHUNK_OTHER;
    return jpeg_header_read(&header, c->bytes, c->n, e) ? JPEG_CHUNK_OTHER : 0;
}

/* --- strips --- */

bool jpeg_strips_is_raw(const struct jpeg_strips *s, int64_t k)
{
    return (k + 1) * s->rows > s->height;
}

void jpeg_strips_add(struct jpeg_strips *s, struct jpeg_chunk *c)
{
    s->list = memory_grow(s->list, s->n, sizeof *s->list);
    s->list[s->n++] = *c;
    *c = (struct jpeg_chunk){0};
}

void jpeg_strips_free(struct jpeg_strips *s)
{
    for (int64_t k = 0; k < s->n; k++)
        free(s->list[k].bytes);
    free(s->list);
    *s = (struct jpeg_strips){0};
}
