/* test_h5jpeg.c - the plug-in of filter 32019, and checking chunks for damage without their pixels,
 * with hostile chunks; for sanitizers. */
#include <stdio.h> /* before jpeglib.h */

#include "common/codec/h5jpeg.c"
#include "tests/unit.h"

#include <jpeglib.h>
#include <string.h>

enum { SIDE = 96, RUNS = 20000 };

static uint32_t state = 1;

static uint32_t number(uint32_t below)
{
    state = state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(state >> 4) * below >> 28);
}

/* A picture of noise: gray, or YCbCr with chroma of half width and height. */
static size_t encode(int components, unsigned char **bytes)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned long n = 0;
    unsigned char row[3 * SIDE];
    JSAMPROW line = row;
    *bytes = NULL;
    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, bytes, &n);
    c.image_width = c.image_height = SIDE;
    c.input_components = components;
    c.in_color_space = components == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&c);
    c.restart_interval = 5;
    jpeg_start_compress(&c, TRUE);
    for (int y = 0; y < SIDE; y++) {
        for (size_t k = 0; k < sizeof row; k++)
            row[k] = (unsigned char)number(256);
        jpeg_write_scanlines(&c, &line, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return n;
}

/* What the filter returns for a copy of the chunk. */
static size_t filtered(const unsigned char *bytes, size_t n, unsigned flags, size_t n_values,
                       const unsigned *values)
{
    void *buffer = malloc(n + 1);
    size_t size = n;
    if (!buffer)
        return 0;
    memcpy(buffer, bytes, n);
    const size_t got = filter.filter(flags, n_values, values, n, &size, &buffer);
    free(buffer);
    return got;
}

static size_t run(const unsigned char *bytes, size_t n, unsigned rgb)
{
    return filtered(bytes, n, H5Z_FLAG_REVERSE, 4, (const unsigned[]){90, SIDE, SIDE, rgb});
}

static void check(int components)
{
    const size_t whole = (size_t)SIDE * SIDE * (size_t)components;
    const unsigned rgb = components == 3;
    unsigned char *bytes;
    const size_t n = encode(components, &bytes);
    unsigned char *copy = malloc(n);
    int wrong = 0, rejected = 0;
    EXPECT(copy && run(bytes, n, rgb) == whole && run(bytes, n, !rgb) == 0);
    for (int k = 0; k < RUNS; k++) {
        memcpy(copy, bytes, n);
        for (uint32_t c = 1 + number(3); c > 0; c--)
            copy[number((uint32_t)(k % 2 ? n : n < 700 ? n : 700))] = (unsigned char)number(256);
        const size_t got = run(copy, k % 5 ? n : number((uint32_t)n), rgb);
        wrong += got != 0 && got != whole;
        rejected += got == 0;
    }
    EXPECT(wrong == 0 && rejected > RUNS / 10);
    free(copy);
    free(bytes);
}

static void test_rgb(void)
{
    check(3);
}

static void test_gray(void)
{
    check(1);
}

static void test_wrong_values(void)
{
    static const unsigned wrong[][4] = {{90, SIDE, SIDE - 8, 1},     {90, SIDE + 8, SIDE + 8, 1},
                                        {90, SIDE - 8, SIDE - 8, 1}, {90, 0, 0, 1},
                                        {90, 65501, 1, 1},           {90, SIDE, SIDE, 2}};
    const unsigned right[4] = {90, SIDE, SIDE, 1};
    unsigned char *bytes;
    const size_t n = encode(3, &bytes);
    EXPECT(filtered(bytes, n, H5Z_FLAG_REVERSE, 4, right) == (size_t)SIDE * SIDE * 3);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
        EXPECT(filtered(bytes, n, H5Z_FLAG_REVERSE, 4, wrong[k]) == 0);
    EXPECT(filtered(bytes, n, H5Z_FLAG_REVERSE, 3, right) == 0);
    EXPECT(filtered(bytes, n, H5Z_FLAG_REVERSE, 0, right) == 0);
    EXPECT(filtered(bytes, n, 0, 4, right) == 0); /* it encodes nothing */
    free(bytes);
}

/* --- parts --- */

/* Decodes a random part, whose rows lie 7 bytes apart; are its pixels those of the whole? */
static bool part_fits(const unsigned char *bytes, size_t n, int components, const uint8_t *whole)
{
    const unsigned values[4] = {90, SIDE, SIDE, components == 3};
    const unsigned x = number(SIDE), y = number(SIDE);
    const unsigned part[4] = {x, y, 1 + number(SIDE - x), 1 + number(SIDE - y)};
    const size_t line = (size_t)part[2] * (size_t)components, pitch = line + 7;
    uint8_t *out = malloc(pitch * (part[3] - 1) + line); /* a sanitizer sees what is beyond */
    bool same = out && h5jpeg_decode_part(values, bytes, n, part, pitch, out) == 0;
    for (unsigned k = 0; same && k < part[3]; k++)
        same = !memcmp(out + k * pitch, whole + ((y + k) * SIDE + x) * (size_t)components, line);
    free(out);
    return same;
}

static void check_parts(int components)
{
    const unsigned values[4] = {90, SIDE, SIDE, components == 3}, all[4] = {0, 0, SIDE, SIDE};
    unsigned char *bytes;
    const size_t n = encode(components, &bytes), line = (size_t)SIDE * (size_t)components;
    uint8_t *whole = malloc(SIDE * line);
    unsigned char *copy = malloc(n);
    int wrong = 0;
    EXPECT(whole && copy && h5jpeg_decode_part(values, bytes, n, all, line, whole) == 0);
    for (int k = 0; k < RUNS / 4; k++)
        wrong += !part_fits(bytes, n, components, whole);
    EXPECT(wrong == 0);
    for (int k = 0; k < RUNS / 4; k++) { /* any answer, but within the bounds */
        memcpy(copy, bytes, n);
        copy[number((uint32_t)n)] = (unsigned char)number(256);
        part_fits(copy, n, components, whole);
    }
    free(copy);
    free(whole);
    free(bytes);
}

static void test_parts(void)
{
    check_parts(3);
    check_parts(1);
}

static void test_parts_outside(void)
{
    static const unsigned wrong[][4] = {{SIDE, 0, 1, 1},  {0, SIDE, 1, 1}, {1, 0, SIDE, 1},
                                        {0, 1, 1, SIDE},  {0, 0, 0, 1},    {0, 0, 1, 0},
                                        {0U - 1, 0, 2, 1}};
    const unsigned values[4] = {90, SIDE, SIDE, 1}, one[4] = {0, 0, 2, 1};
    unsigned char *bytes;
    const size_t n = encode(3, &bytes);
    uint8_t out[6];
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
        EXPECT(h5jpeg_decode_part(values, bytes, n, wrong[k], sizeof out, out) == -1);
    EXPECT(h5jpeg_decode_part(values, bytes, n, one, 5, out) == -1);
    EXPECT(h5jpeg_decode_part(values, bytes, n, one, 6, out) == 0);
    free(bytes);
}

/* --- checking without pixels --- */

/* 0: libjpeg finds no damage in a chunk of so many px, either with its pixels at full size or
 * without any. */
static int judge(const unsigned char *bytes, size_t n, int64_t cols, int64_t rows, bool pixels)
{
    struct jpeg_decoder *d = jpeg_decoder_create(NULL);
    uint8_t *out = malloc((size_t)(3 * cols * rows));
    const struct jpeg_stream s = {.bytes = bytes, .n = n};
    const struct jpeg_picture p = {
        .cols = cols, .rows = rows, .colours = JPEG_FILE, .channels = 3, .eighth = !pixels};
    const int r = d && out ? jpeg_decode(d, &p, &s, pixels ? out : NULL, NULL) : -2;
    jpeg_decoder_free(d);
    free(out);
    return r;
}

/* A stream in which chroma has 2/3 of the width of luma, which libjpeg cannot enlarge. */
static size_t encode_thirds(unsigned char **bytes)
{
    enum { MCU = 24, ROWS = 8 };
    static const int widths[3] = {3, 2, 1};
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned long n = 0;
    unsigned char row[MCU] = {0};
    JSAMPROW rows[ROWS];
    JSAMPARRAY planes[3] = {rows, rows, rows};
    for (int y = 0; y < ROWS; y++)
        rows[y] = row;
    *bytes = NULL;
    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, bytes, &n);
    c.image_width = MCU;
    c.image_height = ROWS;
    c.input_components = 3;
    c.in_color_space = JCS_YCbCr;
    jpeg_set_defaults(&c);
    c.raw_data_in = TRUE;
    for (int k = 0; k < 3; k++) {
        c.comp_info[k].h_samp_factor = widths[k];
        c.comp_info[k].v_samp_factor = 1;
    }
    jpeg_start_compress(&c, TRUE);
    jpeg_write_raw_data(&c, planes, ROWS);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return n;
}

static void test_sampling_that_libjpeg_cannot_enlarge(void)
{
    unsigned char *bytes;
    const size_t n = encode_thirds(&bytes);
    EXPECT(judge(bytes, n, 24, 8, true) == JPEG_DAMAGED);
    EXPECT(judge(bytes, n, 24, 8, false) == JPEG_DAMAGED);
    free(bytes);
}

/* Appends n bits, the highest first. */
static void put_bits(unsigned char *p, size_t *at, unsigned value, int n)
{
    for (int k = n - 1; k >= 0; k--, ++*at)
        p[*at / 8] |= (unsigned char)((value >> k & 1) << (7 - *at % 8));
}

static size_t put(unsigned char *p, size_t at, const void *bytes, size_t n)
{
    memcpy(p + at, bytes, n);
    return at + n;
}

/* A Huffman table of one code, 0. */
static size_t put_table(unsigned char *p, size_t at, unsigned char number, unsigned char value)
{
    const unsigned char table[22] = {0xff, 0xc4, 0, 20, number, 1, [21] = value};
    return put(p, at, table, sizeof table);
}

/* SIDE x SIDE px in which each block adds 28,086 to the mean of the last component, and 0 to the
 * others. Calloc'd. */
static size_t encode_large_sums(int side, unsigned char **bytes)
{
    const unsigned char high = (unsigned char)(side >> 8), low = (unsigned char)side;
    const unsigned char frame[33] = {0xff, 0xc0, 0, 17,   8, high, low,  high, low,  3,    1,
                                     0x11, 0,    2, 0x11, 0, 3,    0x11, 0,    0xff, 0xda, 0,
                                     12,   3,    1, 0,    2, 0,    3,    0x10, 0,    63,   0};
    const unsigned char quantisers[5] = {0xff, 0xdb, 0, 67, 0};
    const int blocks = side / 8 * (side / 8);
    unsigned char *p = *bytes = calloc(1, 1000 + 3 * (size_t)blocks);
    if (!p)
        return 0;
    size_t n = put(p, 0, (const unsigned char[]){0xff, 0xd8}, 2), bits = 0;
    n = put_table(p, n, 0x00, 0);  /* DC: a difference of 0 bits */
    n = put_table(p, n, 0x01, 15); /* DC: of 15 bits */
    n = put_table(p, n, 0x10, 0);  /* AC: the end of a block */
    n = put(p, n, quantisers, sizeof quantisers);
    memset(p + n, 1, 64);
    n = put(p, n + 64, frame, sizeof frame);
    for (int k = 0; k < blocks; k++) {
        put_bits(p + n, &bits, 0, 2 + 2 + 1);
        put_bits(p + n, &bits, 28086, 15);
        put_bits(p + n, &bits, 0, 1);
    }
    return put(p, n + (bits + 7) / 8, (const unsigned char[]){0xff, 0xd9}, 2);
}

/* Some versions of libjpeg-turbo 3 reject a sum that reaches 2^31, here after 76,461 of 76,729
 * blocks; others do not look. */
static void test_sums_that_overflow(void)
{
    enum { LARGE = 2216 };
    unsigned char *bytes;
    const size_t n = encode_large_sums(LARGE, &bytes);
    EXPECT(n > 0 && judge(bytes, n, LARGE, LARGE, true) == judge(bytes, n, LARGE, LARGE, false));
    free(bytes);
}

static void test_damage_shows_without_pixels(void)
{
    unsigned char *bytes;
    const size_t n = encode(3, &bytes);
    unsigned char *copy = malloc(n);
    int differ = 0, damaged = 0;
    EXPECT(copy && judge(bytes, n, SIDE, SIDE, true) == 0);
    for (int k = 0; copy && k < RUNS / 4; k++) {
        memcpy(copy, bytes, n);
        for (uint32_t c = number(3); c > 0; c--)
            copy[number((uint32_t)(k % 2 ? n : 700))] = (unsigned char)number(256);
        const int want = judge(copy, n, SIDE, SIDE, true);
        differ += want != judge(copy, n, SIDE, SIDE, false);
        damaged += want != 0;
    }
    EXPECT(differ == 0 && damaged > RUNS / 40 && damaged < RUNS / 4);
    free(copy);
    free(bytes);
}

int main(void)
{
    return UNIT_RUN("h5jpeg", UNIT(rgb), UNIT(gray), UNIT(wrong_values), UNIT(parts),
                    UNIT(parts_outside), UNIT(sampling_that_libjpeg_cannot_enlarge),
                    UNIT(sums_that_overflow), UNIT(damage_shows_without_pixels));
}
