/* jpeg_header.c - the markers of a JPEG stream; see jpeg_header.h. */
#include "common/codec/jpeg_header.h"

#include "common/codec/jpeg_marker.h"

#include <string.h>

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
    return 1;
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
    bool is_jfif, has_rgb_ids;
    int adobe_transform; /* -1: no marker */
};

static void take_statement(struct statement *t, int marker, struct segment s)
{
    const bool is_frame = marker >= MARKER_SOF0 && marker <= MARKER_SOF15 && marker != MARKER_DHT &&
                          marker != MARKER_JPG && marker != MARKER_DAC;
    if (is_frame && s.n == 15 && s.p[5] == 3)
        t->has_rgb_ids = s.p[6] == 'R' && s.p[9] == 'G' && s.p[12] == 'B';
    else if (marker == MARKER_APP0 && s.n >= 14 && !memcmp(s.p, "JFIF", 5))
        t->is_jfif = true;
    else if (marker == MARKER_APP14 && s.n >= 12 && !memcmp(s.p, "Adobe", 5))
        t->adobe_transform = s.p[11];
}

int jpeg_header_colours(const uint8_t *bytes, size_t n)
{
    struct statement t = {.adobe_transform = -1};
    struct segment s;
    size_t at = 2; /* behind SOI */
    int marker = 0;
    while (marker != MARKER_SOS && next_segment(bytes, n, &at, &marker, &s, NULL) == 0)
        take_statement(&t, marker, s);
    if (t.adobe_transform > 0)
        return 1;
    return !t.is_jfif && (t.adobe_transform == 0 || t.has_rgb_ids) ? 0 : -1;
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
