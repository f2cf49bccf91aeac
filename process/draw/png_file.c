/* png_file.c - see png_file.h. */
#include "process/draw/png_file.h"

#include "common/base/memory.h"
#include "process/draw/raster.h"

#include <assert.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIDE = 1000000, MOST_TEXTS = 8, HEAD_BYTES = 33 }; /* signature and IHDR */

struct png_file {
    png_structp png;
    png_infop info;
    jmp_buf on_error;
    char why[160];
    bool broken; /* writing to f has failed */
    FILE *f;
};

/* --- what libpng calls --- */

static void fail(png_structp png, png_const_charp text)
{
    struct png_file *p = png_get_error_ptr(png);
    snprintf(p->why, sizeof p->why, "%s", text);
    longjmp(p->on_error, 1);
}

static void ignore(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void put(png_structp png, png_bytep bytes, size_t n)
{
    struct png_file *p = png_get_io_ptr(png);
    if (fwrite(bytes, 1, n, p->f) == n)
        return;
    p->broken = true;
    png_error(png, "the disk is full, or the file cannot be written");
}

static void flush(png_structp png)
{
    (void)png;
}

static int failed(const struct png_file *p, struct err *e)
{
    return err_blame(e, p->broken ? ERR_DISK : ERR_MEMORY, "cannot write the picture: %s", p->why);
}

/* --- the head --- */

static int colour_type(enum png_file_kind kind)
{
    return kind == PNG_FILE_GRAY  ? PNG_COLOR_TYPE_GRAY
           : kind == PNG_FILE_RGB ? PNG_COLOR_TYPE_RGB
                                  : PNG_COLOR_TYPE_PALETTE;
}

static void set_palette(struct png_file *p, const uint32_t *palette, int n)
{
    png_color rgb[256];
    png_byte alpha[256];
    int transparent = 0; /* entries up to the last that is not opaque */
    assert(n >= 1 && n <= 256);
    for (int k = 0; k < n; k++) {
        rgb[k] = (png_color){(png_byte)(palette[k] >> 24), (png_byte)(palette[k] >> 16 & 255),
                             (png_byte)(palette[k] >> 8 & 255)};
        alpha[k] = (png_byte)(palette[k] & 255);
        if (alpha[k] < 255)
            transparent = k + 1;
    }
    png_set_PLTE(p->png, p->info, rgb, n);
    if (transparent > 0)
        png_set_tRNS(p->png, p->info, alpha, transparent, NULL);
}

static void set_texts(struct png_file *p, const struct png_file_text *texts, int n)
{
    png_text list[MOST_TEXTS];
    assert(n <= MOST_TEXTS);
    for (int k = 0; k < n; k++)
        list[k] = (png_text){.compression = PNG_ITXT_COMPRESSION_NONE,
                             .key = (png_charp)(uintptr_t)texts[k].key,
                             .text = (png_charp)(uintptr_t)texts[k].value};
    png_set_text(p->png, p->info, list, n);
}

/* The mark of our pictures comes first, so that png_file_is_ours() finds it at a fixed place. */
static void write_mark(struct png_file *p)
{
    png_write_chunk(p->png, (const png_byte *)"tEXt",
                    (const png_byte *)"Software\0" PNG_FILE_SOFTWARE,
                    sizeof "Software\0" PNG_FILE_SOFTWARE - 1);
}

static void write_head(struct png_file *p, const struct png_file_setup *s)
{
    png_set_write_fn(p->png, p, put, flush);
    png_set_user_limits(p->png, MOST_SIDE, MOST_SIDE);
    png_set_compression_level(p->png, s->level);
    png_set_filter(p->png, 0,
                   s->rows_repeat            ? PNG_FILTER_UP
                   : s->kind == PNG_FILE_RGB ? PNG_FILTER_SUB
                                             : PNG_FILTER_NONE);
    png_set_IHDR(p->png, p->info, (png_uint_32)s->width, (png_uint_32)s->height, 8,
                 colour_type(s->kind), PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (s->kind == PNG_FILE_PALETTE)
        set_palette(p, s->palette, s->n_palette);
    png_write_info_before_PLTE(p->png, p->info);
    write_mark(p);
    set_texts(p, s->texts, s->n_texts);
    png_write_info(p->png, p->info);
}

struct png_file *png_file_begin(FILE *f, const struct png_file_setup *s, struct err *e)
{
    if (s->width < 1 || s->height < 1 || s->width > MOST_SIDE || s->height > MOST_SIDE) {
        err_set(e, "a PNG picture of %lld x %lld px is not supported: at most %d px on each side",
                (long long)s->width, (long long)s->height, MOST_SIDE);
        return NULL;
    }
    struct png_file *p = memory_need(1, sizeof *p);
    p->f = f;
    p->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, p, fail, ignore);
    p->info = p->png ? png_create_info_struct(p->png) : NULL;
    if (!p->info) {
        png_file_free(p);
        err_memory(e);
        return NULL;
    }
    if (setjmp(p->on_error)) {
        failed(p, e);
        png_file_free(p);
        return NULL;
    }
    write_head(p, s);
    return p;
}

int png_file_row(struct png_file *p, const uint8_t *row, struct err *e)
{
    if (setjmp(p->on_error))
        return failed(p, e);
    png_write_row(p->png, row);
    return 0;
}

int png_file_end(struct png_file *p, struct err *e)
{
    if (setjmp(p->on_error))
        return failed(p, e);
    png_write_end(p->png, NULL);
    return 0;
}

void png_file_free(struct png_file *p)
{
    if (!p)
        return;
    png_destroy_write_struct(&p->png, &p->info);
    free(p);
}

int png_file_colours(FILE *f, const uint8_t *pixels, int64_t width, int64_t height, int entries,
                     int level, struct err *e)
{
    uint32_t palette[COLOURS_PALETTE];
    const struct png_file_setup setup = {.width = width,
                                         .height = height,
                                         .kind = PNG_FILE_PALETTE,
                                         .palette = palette,
                                         .n_palette = entries,
                                         .level = level};
    colours_palette(palette, 255);
    struct png_file *p = png_file_begin(f, &setup, e);
    int bad = p ? 0 : -1;
    for (int64_t y = 0; y < height && !bad; y++)
        bad = png_file_row(p, pixels + y * width, e);
    bad = bad || png_file_end(p, e) ? -1 : 0;
    png_file_free(p);
    return bad;
}

bool png_file_is_ours(const char *path)
{
    static const char mark[] = "tEXtSoftware\0" PNG_FILE_SOFTWARE;
    unsigned char head[HEAD_BYTES + 4 + sizeof mark] = "";
    FILE *f = fopen(path, "rbe");
    const size_t n = f ? fread(head, 1, sizeof head, f) : 0;
    if (f)
        fclose(f);
    return n == sizeof head && !memcmp(head, "\x89PNG\r\n\x1a\n", 8) &&
           !memcmp(head + HEAD_BYTES + 4, mark, sizeof mark - 1);
}
