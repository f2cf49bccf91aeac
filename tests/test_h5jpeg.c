/* test_h5jpeg.c - the plug-in of filter 32019 with hostile chunks; for sanitizers. */
#include <stdio.h> /* before jpeglib.h */

#include "common/h5jpeg.c"
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
static size_t run(const unsigned char *bytes, size_t n, unsigned rgb)
{
    const unsigned values[4] = {90, SIDE, SIDE, rgb};
    void *buffer = malloc(n + 1);
    size_t size = n;
    if (!buffer)
        return 0;
    memcpy(buffer, bytes, n);
    const size_t got = filter.filter(H5Z_FLAG_REVERSE, 4, values, n, &size, &buffer);
    free(buffer);
    return got;
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

int main(void)
{
    static const struct unit_test tests[] = {{"rgb", test_rgb}, {"gray", test_gray}};
    return unit_run("h5jpeg", tests, sizeof tests / sizeof *tests);
}
