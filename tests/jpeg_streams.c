/*
 * jpeg_streams.c - makes JPEG streams with what libjpeg-turbo decodes them to, for tests of other
 * decoders.
 *
 *   jpeg_streams OUT MADE DAMAGED SEED [SLIDE...]
 *
 * writes MADE streams of random sizes (8 to 8,192 px), contents, qualities, samplings, tables and
 * restart intervals, DAMAGED copies of them with changed, missing or additional bytes, and every
 * JPEG tile of level 0 of the slides. Equal arguments give equal files.
 *
 * The file, little-endian: "JPEGTEST", u32 number of streams; for each: u32 bytes, u32 width, u32
 * height, u32 YCbCr (1) or RGB (0), u32 clean (libjpeg-turbo decodes it without a warning), u64
 * FNV-1a hash of the pixels [height][width][3], of gray ones [height][width], the stream.
 */
#include <stdio.h> /* before jpeglib.h */

#include <jpeglib.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

static uint64_t state;

static uint32_t number(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

struct failing {
    struct jpeg_error_mgr base;
    jmp_buf back;
};

static void fail(j_common_ptr c)
{
    longjmp(((struct failing *)c->err)->back, 1);
}

static void quiet(j_common_ptr c, int level)
{
    if (level < 0)
        c->err->num_warnings++;
}

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* Pixels of a stream, [height][width][*channels]; *clean: no warning. NULL if it cannot be decoded
 * at all.
 */
static uint8_t *decode(const uint8_t *bytes, size_t n, int ycc, uint32_t *width, uint32_t *height,
                       uint32_t *channels, int *clean)
{
    struct jpeg_decompress_struct d;
    struct failing e;
    uint8_t *volatile pixels = NULL;
    d.err = jpeg_std_error(&e.base);
    e.base.error_exit = fail;
    e.base.emit_message = quiet;
    jpeg_create_decompress(&d);
    if (setjmp(e.back)) {
        free(pixels);
        jpeg_destroy_decompress(&d);
        return NULL;
    }
    jpeg_mem_src(&d, bytes, n);
    jpeg_read_header(&d, TRUE);
    if (d.num_components == 3)
        d.jpeg_color_space = ycc ? JCS_YCbCr : JCS_RGB;
    d.out_color_space = d.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&d);
    *width = d.output_width;
    *height = d.output_height;
    *channels = (uint32_t)d.output_components;
    if ((uint64_t)*width * *height > 1 << 24)
        fail((j_common_ptr)&d);
    pixels = must(malloc((size_t)*width * *height * *channels + 1));
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = pixels + (size_t)d.output_scanline * *width * *channels;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    *clean = d.err->num_warnings == 0;
    jpeg_destroy_decompress(&d);
    return pixels;
}

static uint64_t hash(const uint8_t *p, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t k = 0; k < n; k++)
        h = (h ^ p[k]) * 1099511628211u;
    return h;
}

static void put32(FILE *f, uint32_t x)
{
    const uint8_t b[4] = {(uint8_t)x, (uint8_t)(x >> 8), (uint8_t)(x >> 16), (uint8_t)(x >> 24)};
    if (fwrite(b, 1, 4, f) != 4)
        abort();
}

/* Writes a stream with what it decodes to. */
static int put_stream(FILE *f, const uint8_t *bytes, size_t n, int ycc)
{
    uint32_t width = 0, height = 0, channels = 0;
    int clean = 0;
    uint8_t *pixels = decode(bytes, n, ycc, &width, &height, &channels, &clean);
    const uint64_t h = pixels ? hash(pixels, (size_t)width * height * channels) : 0;
    put32(f, (uint32_t)n);
    put32(f, width);
    put32(f, height);
    put32(f, (uint32_t)ycc);
    put32(f, pixels && clean);
    put32(f, (uint32_t)h);
    put32(f, (uint32_t)(h >> 32));
    if (fwrite(bytes, 1, n, f) != n)
        abort();
    free(pixels);
    return 1;
}

/* A picture: gradients, edges, noise of any strength. */
static void paint(uint8_t *p, uint32_t width, uint32_t height)
{
    const uint32_t noise = 1 + (number(3) == 0 ? number(256) : number(12)), edge = 1 + number(64);
    uint32_t base[3], slope[3];
    for (int c = 0; c < 3; c++) {
        base[c] = number(256);
        slope[c] = number(5);
    }
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < 3; c++) {
                uint32_t v = base[c] + slope[c] * (x + y) / 4 +
                             ((x / edge + y / edge) % 2) * 40 * (noise > 4) + number(noise);
                p[(y * width + x) * 3 + c] = (uint8_t)(v > 255 && number(8) ? 255 : v);
            }
}

/* A stream of random kind; the caller frees it. */
static uint8_t *make(size_t *n, int *ycc)
{
    static const uint32_t sizes[] = {8,   16,  24,  31,  33,  63,  64,  65,
                                     100, 128, 200, 240, 250, 256, 257, 512};
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned char *out = NULL;
    unsigned long out_n = 0;
    const uint32_t few = number(10) ? 12 : 16;
    const bool wide = number(20) == 0; /* the kernels cut it into parts or runs */
    const uint32_t parts = 2 + number(7), side = sizes[number(few)],
                   even = 8 * parts * (65 + number(64)), odd = 1025 + number(4096),
                   width = !wide       ? side
                           : number(2) ? even
                                       : odd,
                   other = number(2) ? side : sizes[number(few)],
                   height = wide ? 1 + number(64) : other;
    const uint32_t kind = number(6); /* RGB, YCbCr 4:4:4, 4:2:2, 4:2:0, gray */
    uint8_t *pixels = must(malloc((size_t)width * height * 3));
    paint(pixels, width, height);
    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &out_n);
    c.image_width = width;
    c.image_height = height;
    c.input_components = kind == 4 ? 1 : 3;
    c.in_color_space = kind == 4 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_colorspace(&c, kind == 0 ? JCS_RGB : kind == 4 ? JCS_GRAYSCALE : JCS_YCbCr);
    jpeg_set_quality(&c, 1 + (int)number(100), TRUE);
    if (kind == 1 || kind == 2 || kind == 3 || kind == 5) {
        c.comp_info[0].h_samp_factor = kind == 1 ? 1 : 2;
        c.comp_info[0].v_samp_factor = kind == 3 || kind == 5 ? 2 : 1;
    }
    c.optimize_coding = number(2) ? TRUE : FALSE;
    if (number(4) == 0)
        c.restart_interval = 1 + number(40);
    else if (number(8) == 0)
        c.restart_in_rows = 1;
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < height) {
        JSAMPROW row = pixels + (size_t)c.next_scanline * width * (kind == 4 ? 1u : 3u);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(pixels);
    *ycc = kind != 0;
    *n = out_n;
    return out;
}

/* Changes a stream, mostly behind its header. Returns the new length. */
static size_t damage(uint8_t *p, size_t n, size_t room)
{
    const size_t header = n > 700 ? 600 : n / 2;
    const size_t at = number(5) ? header + number((uint32_t)(n - header)) : number((uint32_t)n);
    switch (number(6)) {
    case 0: return at > 2 ? at : 2;
    case 1: p[at] ^= (uint8_t)(1u << number(8)); return n;
    case 2: p[at] = (uint8_t)number(256); return n;
    case 3: memset(p + at, (int)number(2) * 255, n - at < 9 ? n - at : 1 + number(8)); return n;
    case 4:
        if (n + 16 < room) {
            const size_t more = 1 + number(8);
            memmove(p + at + more, p + at, n - at);
            for (size_t k = 0; k < more; k++)
                p[at + k] = (uint8_t)number(256);
            return n + more;
        }
        return n;
    default: {
        const size_t less = n - at < 9 ? 0 : 1 + number(8);
        memmove(p + at, p + at + less, n - at - less);
        return n - less;
    }
    }
}

/* Every tile of level 0 of a slide, with its tables. */
static uint32_t put_slide(FILE *f, const char *path)
{
    TIFF *t = TIFFOpen(path, "r");
    uint32_t bytes = 0, n = 0;
    uint16_t photometric = 0, compression = 0;
    void *tables = NULL;
    if (!t || !TIFFIsTiled(t))
        return 0;
    TIFFGetField(t, TIFFTAG_COMPRESSION, &compression);
    TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &photometric);
    TIFFGetField(t, TIFFTAG_JPEGTABLES, &bytes, &tables);
    for (uint32_t k = 0; compression == 7 && k < TIFFNumberOfTiles(t); k++) {
        const size_t room = (size_t)TIFFTileSize(t) + bytes + 65536;
        uint8_t *stream = must(malloc(room));
        const tmsize_t m = TIFFReadRawTile(t, k, stream, (tmsize_t)(room - bytes));
        size_t size = m > 4 ? (size_t)m : 0;
        if (size &&
            bytes > 4) { /* SOI and tables without their EOI, then the tile without its SOI */
            memmove(stream + bytes - 2, stream + 2, size - 2);
            memcpy(stream, tables, bytes - 2);
            size += bytes - 4;
        }
        if (size)
            n += (uint32_t)put_stream(f, stream, size, photometric == 6);
        free(stream);
    }
    TIFFClose(t);
    return n;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    FILE *f = fopen(argv[1], "wb");
    uint32_t n = 0;
    if (!f)
        return 1;
    state = (uint64_t)atoi(argv[4]) * 77777 + 1;
    fwrite("JPEGTEST", 1, 8, f);
    put32(f, 0);
    const int made = atoi(argv[2]), damaged = atoi(argv[3]);
    for (int k = 0; k < made; k++) {
        size_t bytes;
        int ycc;
        uint8_t *stream = make(&bytes, &ycc);
        n += (uint32_t)put_stream(f, stream, bytes, ycc);
        for (int d = 0; made > 0 && d < damaged / made + (k < damaged % made); d++) {
            uint8_t *copy = must(malloc(bytes + 64));
            memcpy(copy, stream, bytes);
            n += (uint32_t)put_stream(f, copy, damage(copy, bytes, bytes + 64), ycc);
            free(copy);
        }
        free(stream);
    }
    for (int k = 5; k < argc; k++)
        n += put_slide(f, argv[k]);
    fseek(f, 8, SEEK_SET);
    put32(f, n);
    printf("%u streams\n", n);
    return fclose(f) ? 1 : 0;
}
