/* j2k.c - see j2k.h. */
#include "common/codec/j2k.h"

#include "common/codec/j2k_bounds.h"

#include <stdlib.h>
#include <string.h>

/* HAVE_J2K comes from the Makefile. */

static uint32_t u16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t u32(const uint8_t *p)
{
    return u16(p) << 16 | u16(p + 2);
}

bool j2k_stream_size(const uint8_t *bytes, size_t n, int64_t *cols, int64_t *rows)
{
    static const uint8_t begin[] = {0xff, 0x4f, 0xff, 0x51}; /* SOC, SIZ */
    if (n < 24 || memcmp(bytes, begin, sizeof begin) != 0)
        return false;
    *cols = (int64_t)u32(bytes + 8) - u32(bytes + 16);
    *rows = (int64_t)u32(bytes + 12) - u32(bytes + 20);
    return true;
}

#ifdef HAVE_J2K
#include <endian.h>
#include <errno.h>
#include <openjpeg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MESSAGE = 200, TERMS = 7 };

struct j2k_decoder {
    char message[MOST_MESSAGE]; /* the first one about this stream */
    int64_t cols;               /* of words and terms */
    uint32_t *words;            /* [cols] */
    int32_t *terms;             /* [TERMS][cols + 1] */
};

/* One row of YCbCr on its way to RGB. */
struct ycbcr_row {
    const OPJ_INT32 *y, *cb, *cr;
    bool halved; /* cb and cr have half as many values */
    int64_t n;
    int32_t *terms[3];  /* [n + 1]: what chroma adds to luma */
    int32_t *narrow[3]; /* the same, of halved chroma */
    uint32_t *words;    /* [n]: R, G, B, 0 */
};

/* --- the stream --- */

static uint32_t components_of(const struct j2k_picture *f)
{
    return f->gray ? 1 : 3;
}

/*
 * Does the SIZ segment describe this picture? It must: OpenJPEG allocates memory for every
 * component and every inner tile that the segment states. Components of 8 bits, unsigned; the first
 * whole, the others whole or of half width or height.
 */
static bool check_size(const uint8_t *b, size_t n, const struct j2k_picture *f)
{
    enum { SIZ = 4, COMPONENTS = SIZ + 38, MOST_INNER_TILES = 4096 };
    const uint32_t components = components_of(f);
    if (n < COMPONENTS + 3 * components || u16(b + 2) != 0xff51 ||
        u16(b + SIZ) != 38 + 3 * components || u16(b + 40) != components)
        return false;
    const uint32_t x1 = u32(b + 8), y1 = u32(b + 12), x0 = u32(b + 16), y0 = u32(b + 20);
    const uint32_t cols = u32(b + 24), rows = u32(b + 28);
    if (x1 <= x0 || y1 <= y0 || x1 - x0 != f->cols || y1 - y0 != f->rows || cols < 1 || rows < 1 ||
        (f->cols / cols + 2) * (f->rows / rows + 2) > MOST_INNER_TILES)
        return false;
    for (uint32_t c = 0; c < components; c++) {
        const uint8_t *p = b + COMPONENTS + 3 * c;
        if (p[0] != 7 || p[1] < 1 || p[1] > 2 || p[2] < 1 || p[2] > 2 ||
            (c == 0 && (p[1] != 1 || p[2] != 1)))
            return false;
    }
    return true;
}

/* Of a stream with a right SIZ segment. */
static struct j2k_extent inner_tile(const uint8_t *b, const struct j2k_picture *f)
{
    const int64_t cols = u32(b + 24), rows = u32(b + 28);
    return (struct j2k_extent){cols < f->cols ? cols : f->cols, rows < f->rows ? rows : f->rows,
                               (int)components_of(f)};
}

struct memory {
    const uint8_t *bytes;
    size_t n, at;
};

static OPJ_SIZE_T memory_read(void *to, OPJ_SIZE_T n, void *ctx)
{
    struct memory *m = ctx;
    if (m->at == m->n)
        return (OPJ_SIZE_T)-1;
    n = n < m->n - m->at ? n : m->n - m->at;
    memcpy(to, m->bytes + m->at, n);
    m->at += n;
    return n;
}

static OPJ_OFF_T memory_skip(OPJ_OFF_T n, void *ctx)
{
    struct memory *m = ctx;
    if (n < 0 || (OPJ_UINT64)n > m->n - m->at)
        return -1;
    m->at += (size_t)n;
    return n;
}

static OPJ_BOOL memory_seek(OPJ_OFF_T to, void *ctx)
{
    struct memory *m = ctx;
    if (to < 0 || (OPJ_UINT64)to > m->n)
        return OPJ_FALSE;
    m->at = (size_t)to;
    return OPJ_TRUE;
}

/* Takes errors and warnings alike; keeps the first. */
static void on_j2k_message(const char *text, void *ctx)
{
    char *message = ctx;
    if (message[0])
        return;
    snprintf(message, MOST_MESSAGE, "%s", text);
    message[strcspn(message, "\n")] = 0;
}

/* The whole stream as an image, or NULL. With `reduce` > 0, without its so many finest
 * resolutions, as far as it has them. */
static opj_image_t *read_j2k(struct j2k_decoder *d, const uint8_t *bytes, size_t n, uint32_t reduce)
{
    struct memory m = {bytes, n, 0};
    opj_dparameters_t parameters;
    opj_image_t *image = NULL;
    opj_stream_t *stream = opj_stream_create(n < 65536 ? 65536 : n, OPJ_TRUE);
    opj_codec_t *codec = opj_create_decompress(OPJ_CODEC_J2K);
    opj_set_default_decoder_parameters(&parameters);
    parameters.cp_reduce = reduce;
    bool good = stream && codec;
    if (good) {
        opj_stream_set_user_data(stream, &m, NULL);
        opj_stream_set_user_data_length(stream, n);
        opj_stream_set_read_function(stream, memory_read);
        opj_stream_set_skip_function(stream, memory_skip);
        opj_stream_set_seek_function(stream, memory_seek);
        opj_set_error_handler(codec, on_j2k_message, d->message);
        opj_set_warning_handler(codec, on_j2k_message, d->message);
        good = opj_setup_decoder(codec, &parameters) && opj_read_header(stream, codec, &image) &&
               opj_decode(codec, stream, image) && opj_end_decompress(codec, stream);
    }
    if (codec)
        opj_destroy_codec(codec);
    if (stream)
        opj_stream_destroy(stream);
    if (good && !d->message[0])
        return image;
    opj_image_destroy(image);
    return NULL;
}

static uint8_t clamp_byte(int v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Has OpenJPEG decoded every component to the size that its subsampling gives? */
static bool is_expected(const opj_image_t *image, const struct j2k_picture *f)
{
    if (image->numcomps != components_of(f))
        return false;
    for (uint32_t c = 0; c < image->numcomps; c++) {
        const opj_image_comp_t *p = &image->comps[c];
        if (p->prec != 8 || p->sgnd || !p->data || p->dx < 1 || p->dx > 2 || p->dy < 1 ||
            p->dy > 2 || (c == 0 && (p->dx != 1 || p->dy != 1)) ||
            p->w != (f->cols + p->dx - 1) / p->dx || p->h != (f->rows + p->dy - 1) / p->dy)
            return false;
    }
    return true;
}

/* Words of R, G, B and 0 as RGB: copies four bytes per pixel, of which the next pixel overwrites
 * one. */
static void put_words(const uint32_t *words, int64_t n, uint8_t *rgb)
{
    for (int64_t x = 0; x < n - 1; x++) {
        const uint32_t w = htole32(words[x]);
        memcpy(rgb + 3 * x, &w, 4);
    }
    const uint32_t w = htole32(words[n - 1]);
    memcpy(rgb + 3 * (n - 1), &w, 3);
}

/* A row of three whole components as RGB, if all values are bytes, as they nearly always are.
 * Builds words first, which vectorises. */
static bool pack_bytes(const OPJ_INT32 *a, const OPJ_INT32 *b, const OPJ_INT32 *c, int64_t n,
                       uint32_t *restrict words, uint8_t *restrict rgb)
{
    uint32_t any = 0;
    for (int64_t x = 0; x < n; x++) {
        any |= (uint32_t)(a[x] | b[x] | c[x]);
        words[x] = (uint32_t)a[x] | (uint32_t)b[x] << 8 | (uint32_t)c[x] << 16;
    }
    if (any & ~255u)
        return false;
    put_words(words, n, rgb);
    return true;
}

/* One row of three components as RGB; the second and third may have half as many values. */
static void interleave(const OPJ_INT32 *a, const OPJ_INT32 *b, const OPJ_INT32 *c, int64_t n,
                       int shift_b, int shift_c, uint32_t *words, uint8_t *rgb)
{
    if (shift_b == 0 && shift_c == 0 && pack_bytes(a, b, c, n, words, rgb))
        return;
    for (int64_t x = 0; x < n; x++) {
        rgb[3 * x] = clamp_byte(a[x]);
        rgb[3 * x + 1] = clamp_byte(b[x >> shift_b]);
        rgb[3 * x + 2] = clamp_byte(c[x >> shift_c]);
    }
}

/* --- YCbCr: BT.601, full range, in 16-bit fixed point --- */

/* Inlined below for each kind of vector. */
#define FOR_ROWS static inline __attribute__((always_inline))

FOR_ROWS int32_t byte_of(int32_t v)
{
    v = v < 0 ? 0 : v;
    return v > 255 ? 255 : v;
}

/* The contributions of n values of chroma to R, G and B. */
FOR_ROWS void chroma_terms(const OPJ_INT32 *restrict cb, const OPJ_INT32 *restrict cr, int64_t n,
                           int32_t *restrict r, int32_t *restrict g, int32_t *restrict b)
{
    const int32_t half = 1 << 15;
    for (int64_t x = 0; x < n; x++) {
        const int32_t u = byte_of(cb[x]) - 128, v = byte_of(cr[x]) - 128;
        r[x] = (91881 * v + half) >> 16;
        g[x] = -((22554 * u + 46802 * v + half) >> 16);
        b[x] = (116130 * u + half) >> 16;
    }
}

/* Two of each of n values. */
FOR_ROWS void widen(const int32_t *restrict in, int64_t n, int32_t *restrict out)
{
    for (int64_t x = 0; x < n; x++)
        out[2 * x] = out[2 * x + 1] = in[x];
}

FOR_ROWS void words_of(const OPJ_INT32 *restrict y, const int32_t *restrict r,
                       const int32_t *restrict g, const int32_t *restrict b, int64_t n,
                       uint32_t *restrict words)
{
    for (int64_t x = 0; x < n; x++) {
        const int32_t v = byte_of(y[x]);
        const int32_t red = byte_of(v + r[x]), green = byte_of(v + g[x]), blue = byte_of(v + b[x]);
        words[x] = (uint32_t)red | (uint32_t)green << 8 | (uint32_t)blue << 16;
    }
}

FOR_ROWS void convert_row(const struct ycbcr_row *w)
{
    const int64_t have = w->halved ? (w->n + 1) / 2 : w->n;
    int32_t *const *t = w->halved ? w->narrow : w->terms;
    chroma_terms(w->cb, w->cr, have, t[0], t[1], t[2]);
    for (int k = 0; k < 3 && w->halved; k++)
        widen(w->narrow[k], have, w->terms[k]);
    words_of(w->y, w->terms[0], w->terms[1], w->terms[2], w->n, w->words);
}

static void convert_plain(const struct ycbcr_row *w)
{
    convert_row(w);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void convert_avx2(const struct ycbcr_row *w)
{
    convert_row(w);
}
#endif

/* One row of YCbCr as RGB. Chroma of which one is halved is made whole first. */
static void lay_ycbcr(const struct j2k_decoder *d, const struct j2k_picture *f,
                      const OPJ_INT32 *const row[3], const bool halved[2], uint8_t *rgb)
{
    const int64_t n = f->cols, room = n + 1;
    int32_t *t = d->terms, *whole = t + 6 * room;
    struct ycbcr_row w = {.y = row[0],
                          .cb = row[1],
                          .cr = row[2],
                          .halved = halved[0] && halved[1],
                          .n = n,
                          .terms = {t, t + room, t + 2 * room},
                          .narrow = {t + 3 * room, t + 4 * room, t + 5 * room},
                          .words = d->words};
    if (halved[0] != halved[1]) {
        widen(halved[0] ? w.cb : w.cr, room / 2, whole);
        *(halved[0] ? &w.cb : &w.cr) = whole;
    }
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        convert_avx2(&w);
    else
#endif
        convert_plain(&w);
    put_words(w.words, n, rgb);
}

/* Lays the components into rgb, row by row, in lines that stay in the first-level cache. */
static void lay_j2k(const struct j2k_decoder *d, const struct j2k_picture *f,
                    const opj_image_t *image, uint8_t *rgb)
{
    const opj_image_comp_t *c = image->comps;
    const bool halved[2] = {c[1].dx == 2, c[2].dx == 2};
    for (int64_t y = 0; y < f->rows; y++, rgb += f->cols * 3) {
        const OPJ_INT32 *row[3];
        for (int k = 0; k < 3; k++)
            row[k] = c[k].data + y / c[k].dy * c[k].w;
        if (f->ycbcr)
            lay_ycbcr(d, f, row, halved, rgb);
        else
            interleave(row[0], row[1], row[2], f->cols, halved[0], halved[1], d->words, rgb);
    }
}

static void lay_gray(const struct j2k_picture *f, const opj_image_t *image, uint8_t *gray)
{
    for (int64_t k = 0; k < f->rows * f->cols; k++)
        gray[k] = clamp_byte(image->comps[0].data[k]);
}

/* Room for rows of so many columns. */
static int grow(struct j2k_decoder *d, int64_t cols, struct err *e)
{
    if (cols <= d->cols)
        return 0;
    free(d->words);
    free(d->terms);
    d->cols = 0;
    d->words = calloc((size_t)cols, sizeof *d->words);
    d->terms = calloc(TERMS * (size_t)(cols + 1), sizeof *d->terms);
    if (d->words && d->terms) {
        d->cols = cols;
        return 0;
    }
    err_memory(e);
    return J2K_NO_MEMORY;
}

/* Has OpenJPEG failed for lack of memory? posix_memalign() does not set errno, but then OpenJPEG
 * mostly says so. */
static bool lacks_memory(const struct j2k_decoder *d)
{
    return errno == ENOMEM || strcasestr(d->message, "memory") || strcasestr(d->message, "alloc");
}

/* As read_j2k, of images that are the picture. OpenJPEG does not always say that it lacks memory,
 * or leaves a component without data; then another try shows that the stream is whole. */
static opj_image_t *read_twice(struct j2k_decoder *d, const struct j2k_picture *f,
                               const uint8_t *bytes, size_t n, uint32_t reduce)
{
    for (int k = 0; k < 2; k++) {
        d->message[0] = 0;
        errno = 0;
        opj_image_t *image = read_j2k(d, bytes, n, reduce);
        if (image && (reduce ? image->numcomps == components_of(f) : is_expected(image, f)))
            return image;
        if (image)
            on_j2k_message("a JPEG 2000 stream with unexpected components", d->message);
        opj_image_destroy(image);
        if (lacks_memory(d))
            break;
    }
    return NULL;
}

int j2k_check_headers(const struct j2k_picture *f, const uint8_t *bytes, size_t n, struct err *e)
{
    if (n < 4 || bytes[0] != 0xff || bytes[1] != 0x4f)
        return err_set(e, "not a JPEG 2000 codestream");
    if (!check_size(bytes, n, f))
        return err_set(e, "a JPEG 2000 stream of another size or with unexpected components");
    const struct j2k_extent inner = inner_tile(bytes, f);
    const char *bad = j2k_bounds_check(bytes, n, &inner);
    return bad ? err_set(e, "%s", bad) : 0;
}

/* The image of a stream that is the picture. 0, J2K_DAMAGED or J2K_NO_MEMORY. */
static int open_picture(struct j2k_decoder *d, const struct j2k_picture *f, const uint8_t *bytes,
                        size_t n, uint32_t reduce, opj_image_t **image, struct err *e)
{
    if (j2k_check_headers(f, bytes, n, e))
        return J2K_DAMAGED;
    if ((*image = read_twice(d, f, bytes, n, reduce)))
        return 0;
    if (lacks_memory(d)) {
        err_memory(e);
        return J2K_NO_MEMORY;
    }
    return err_set(e, "%s", d->message[0] ? d->message : "a damaged JPEG 2000 stream");
}

int j2k_decode(struct j2k_decoder *d, const struct j2k_picture *f, const uint8_t *bytes, size_t n,
               uint8_t *out, struct err *e)
{
    if (grow(d, f->cols, e))
        return J2K_NO_MEMORY;
    opj_image_t *image = NULL;
    const int r = open_picture(d, f, bytes, n, 0, &image, e);
    if (r)
        return r;
    if (f->gray)
        lay_gray(f, image, out);
    else
        lay_j2k(d, f, image, out);
    opj_image_destroy(image);
    return 0;
}

int j2k_check(struct j2k_decoder *d, const struct j2k_picture *f, const uint8_t *bytes, size_t n,
              struct err *e)
{
    const uint32_t levels = j2k_chunk_coding(bytes, n).decompositions;
    opj_image_t *image = NULL;
    const int r = open_picture(d, f, bytes, n, levels < 3 ? levels : 3, &image, e);
    if (r)
        return r;
    opj_image_destroy(image);
    return 0;
}

struct j2k_decoder *j2k_decoder_create(struct err *e)
{
    struct j2k_decoder *d = calloc(1, sizeof *d);
    if (!d)
        err_memory(e);
    return d;
}

void j2k_decoder_free(struct j2k_decoder *d)
{
    if (!d)
        return;
    free(d->words);
    free(d->terms);
    free(d);
}

const char *j2k_library(void)
{
    static char text[32];
    snprintf(text, sizeof text, "OpenJPEG %s", opj_version());
    return text;
}

#else

#include <stdlib.h>

struct j2k_decoder *j2k_decoder_create(struct err *e)
{
    err_set(e, "this build lacks OpenJPEG; install it and build again");
    return NULL;
}

void j2k_decoder_free(struct j2k_decoder *d)
{
    (void)d;
}

int j2k_decode(struct j2k_decoder *d, const struct j2k_picture *f, const uint8_t *bytes, size_t n,
               uint8_t *out, struct err *e)
{
    (void)d, (void)f, (void)bytes, (void)n, (void)out;
    return err_set(e, "this build lacks OpenJPEG");
}

int j2k_check(struct j2k_decoder *d, const struct j2k_picture *f, const uint8_t *bytes, size_t n,
              struct err *e)
{
    (void)d, (void)f, (void)bytes, (void)n;
    return err_set(e, "this build lacks OpenJPEG");
}

int j2k_check_headers(const struct j2k_picture *f, const uint8_t *bytes, size_t n, struct err *e)
{
    (void)f, (void)bytes, (void)n, (void)e;
    return 0;
}

const char *j2k_library(void)
{
    return NULL;
}

#endif

/* Boxes: ISO/IEC 15444-1, annex I; codestream: annex A. */

enum {
    SOC = 0xff4f,
    COD = 0xff52,
    COM = 0xff64,
    SOT = 0xff90,
    SOD = 0xff93,
    EOC = 0xffd9,
    SOT_BYTES = 12,
    COD_BYTES = 12, /* at least */
};

static void put_u32(uint8_t *p, uint64_t v)
{
    for (int k = 0; k < 4; k++)
        p[k] = (uint8_t)(v >> (24 - 8 * k));
}

/* The boxes before a codestream of n bytes. */
static void make_head(const struct j2k_picture *p, uint64_t n, uint8_t head[J2K_HEAD])
{
    enum { HEIGHT = 48, WIDTH = 52, COLOURS = 76, LENGTH = 77, SRGB = 16, SYCC = 18 };
    static const uint8_t boxes[J2K_HEAD + 1] =
        "\0\0\0\x0cjP  \r\n\x87\n" /* signature */
        "\0\0\0\x14"
        "ftypjp2 \0\0\0\0jp2 "                       /* file type */
        "\0\0\0\x2djp2h"                             /* header, of two boxes: */
        "\0\0\0\x16ihdr\0\0\0\0\0\0\0\0\0\3\7\7\0\0" /* size; 3 components of 8 bits */
        "\0\0\0\x0f"
        "colr\1\0\0\0\0\0\0" /* an enumerated colour space */
        "\0\0\0\0jp2c";      /* the codestream */
    memcpy(head, boxes, J2K_HEAD);
    put_u32(head + HEIGHT, (uint64_t)p->rows);
    put_u32(head + WIDTH, (uint64_t)p->cols);
    head[COLOURS] = p->ycbcr ? SYCC : SRGB;
    put_u32(head + LENGTH, n + 8);
}

/* The segment at `at`: its length with the marker; 0: it is not in the stream. */
static size_t segment(const uint8_t *b, size_t n, size_t at)
{
    if (at > n || n - at < 4 || b[at] != 0xff)
        return 0;
    const size_t length = 2 + u16(b + at + 2);
    return length >= 4 && length <= n - at ? length : 0;
}

/* Walks the parts of tiles from `at` to EOC, after which *stop is. NULL, or what is odd. */
static const char *walk_parts(const uint8_t *b, size_t n, size_t at, size_t *stop)
{
    static const char broken[] = "JPEG 2000 whose parts do not follow each other";
    while (n - at > SOT_BYTES && u16(b + at) == SOT) {
        const size_t psot = u32(b + at + 6);
        size_t k = at + SOT_BYTES, length;
        const size_t end = psot ? at + psot : n - 2;
        if (end > n - 2 || end < k)
            return broken;
        for (; k + 2 <= end && u16(b + k) != SOD; k += length) {
            if (u16(b + k) == COM)
                return "JPEG 2000 with comments among its tiles";
            if ((length = segment(b, end, k)) == 0)
                return broken;
        }
        at = end;
    }
    *stop = at + 2;
    return n - at >= 2 && u16(b + at) == EOC ? NULL : broken;
}

int j2k_chunk_make(struct jpeg_chunk *c, const struct j2k_picture *p, const uint8_t *b, size_t n,
                   struct err *e)
{
    const char *odd = "JPEG 2000 with a damaged header";
    size_t at = 2, stop = 0, length;
    if (n + J2K_HEAD > c->room) {
        free(c->bytes);
        c->room = 0;
        if (!(c->bytes = malloc(n + J2K_HEAD))) {
            err_memory(e);
            return J2K_NO_MEMORY;
        }
        c->room = n + J2K_HEAD;
    }
    c->n = J2K_HEAD;
    if (n > 4 && u16(b) == SOC) {
        memcpy(c->bytes + c->n, b, 2);
        c->n += 2;
        for (; (length = segment(b, n, at)) && u16(b + at) != SOT; at += length)
            if (u16(b + at) != COM) {
                memcpy(c->bytes + c->n, b + at, length);
                c->n += length;
            }
        if (length)
            odd = walk_parts(b, n, at, &stop);
    }
    if (odd) {
        err_set(e, "%s", odd);
        return J2K_CHUNK_OTHER;
    }
    memcpy(c->bytes + c->n, b + at, stop - at);
    c->n += stop - at;
    make_head(p, c->n - J2K_HEAD, c->bytes);
    return 0;
}

struct j2k_coding j2k_chunk_coding(const uint8_t *b, size_t n)
{
    enum { TRANSFORM = 8, DECOMPOSITIONS = 9 };
    size_t length;
    for (size_t at = 2; (length = segment(b, n, at)) && u16(b + at) != SOT; at += length)
        if (u16(b + at) == COD && length >= COD_BYTES)
            return (struct j2k_coding){b[at + TRANSFORM] == 1, b[at + DECOMPOSITIONS]};
    return (struct j2k_coding){0};
}

bool j2k_chunk_read(struct j2k_picture *p, int64_t cols, int64_t rows, const uint8_t *bytes,
                    size_t n)
{
    uint8_t head[J2K_HEAD];
    if (n < J2K_HEAD)
        return false;
    for (int k = 0; k < 2; k++) {
        *p = (struct j2k_picture){.cols = cols, .rows = rows, .ycbcr = k == 1};
        make_head(p, n - J2K_HEAD, head);
        if (!memcmp(bytes, head, J2K_HEAD))
            return true;
    }
    return false;
}
