/* map_picture.c - maps as PNG pictures and overlays; see map_formats.h. */
#include "common/base/memory.h"
#include "common/base/stop.h"
#include "common/base/text.h"
#include "process/draw/png_file.h"
#include "process/draw/raster.h"
#include "process/draw/svg.h"
#include "process/map/map_formats.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * Text in pictures of one byte per pixel, drawn row by row.
 *
 * The glyphs are those of the X Window System's font 7x13 (misc-fixed), which is in the public
 * domain. The ellipsis is drawn as '~', and what else is not ASCII as '?'.
 */
enum { MAP_FONT_WIDTH = 7, MAP_FONT_HEIGHT = 13 }; /* px of a character */

enum { FIRST = 32, LAST = 126 };

/* One byte per line, the leftmost px in bit 7. */
static const uint8_t glyphs[LAST - FIRST + 1][MAP_FONT_HEIGHT] = {
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, /*   */
    {0x00, 0x00, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x00, 0x10, 0x00, 0x00}, /* ! */
    {0x00, 0x00, 0x28, 0x28, 0x28, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, /* " */
    {0x00, 0x00, 0x00, 0x28, 0x28, 0x7c, 0x28, 0x7c, 0x28, 0x28, 0x00, 0x00, 0x00}, /* # */
    {0x00, 0x00, 0x00, 0x10, 0x3c, 0x50, 0x38, 0x14, 0x78, 0x10, 0x00, 0x00, 0x00}, /* $ */
    {0x00, 0x00, 0x44, 0xa4, 0x48, 0x10, 0x10, 0x20, 0x48, 0x94, 0x88, 0x00, 0x00}, /* % */
    {0x00, 0x00, 0x00, 0x00, 0x60, 0x90, 0x90, 0x60, 0x94, 0x88, 0x74, 0x00, 0x00}, /* & */
    {0x00, 0x00, 0x10, 0x10, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, /* ' */
    {0x00, 0x00, 0x08, 0x10, 0x10, 0x20, 0x20, 0x20, 0x10, 0x10, 0x08, 0x00, 0x00}, /* ( */
    {0x00, 0x00, 0x20, 0x10, 0x10, 0x08, 0x08, 0x08, 0x10, 0x10, 0x20, 0x00, 0x00}, /* ) */
    {0x00, 0x00, 0x00, 0x00, 0x48, 0x30, 0xfc, 0x30, 0x48, 0x00, 0x00, 0x00, 0x00}, /* * */
    {0x00, 0x00, 0x00, 0x00, 0x10, 0x10, 0x7c, 0x10, 0x10, 0x00, 0x00, 0x00, 0x00}, /* + */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x38, 0x30, 0x40, 0x00}, /* , */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x7c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, /* - */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x38, 0x10, 0x00}, /* . */
    {0x00, 0x00, 0x04, 0x04, 0x08, 0x08, 0x10, 0x20, 0x20, 0x40, 0x40, 0x00, 0x00}, /* / */
    {0x00, 0x00, 0x30, 0x48, 0x84, 0x84, 0x84, 0x84, 0x84, 0x48, 0x30, 0x00, 0x00}, /* 0 */
    {0x00, 0x00, 0x10, 0x30, 0x50, 0x10, 0x10, 0x10, 0x10, 0x10, 0x7c, 0x00, 0x00}, /* 1 */
    {0x00, 0x00, 0x78, 0x84, 0x84, 0x04, 0x08, 0x30, 0x40, 0x80, 0xfc, 0x00, 0x00}, /* 2 */
    {0x00, 0x00, 0xfc, 0x04, 0x08, 0x10, 0x38, 0x04, 0x04, 0x84, 0x78, 0x00, 0x00}, /* 3 */
    {0x00, 0x00, 0x08, 0x18, 0x28, 0x48, 0x88, 0x88, 0xfc, 0x08, 0x08, 0x00, 0x00}, /* 4 */
    {0x00, 0x00, 0xfc, 0x80, 0x80, 0xb8, 0xc4, 0x04, 0x04, 0x84, 0x78, 0x00, 0x00}, /* 5 */
    {0x00, 0x00, 0x38, 0x40, 0x80, 0x80, 0xb8, 0xc4, 0x84, 0x84, 0x78, 0x00, 0x00}, /* 6 */
    {0x00, 0x00, 0xfc, 0x04, 0x08, 0x10, 0x10, 0x20, 0x20, 0x40, 0x40, 0x00, 0x00}, /* 7 */
    {0x00, 0x00, 0x78, 0x84, 0x84, 0x84, 0x78, 0x84, 0x84, 0x84, 0x78, 0x00, 0x00}, /* 8 */
    {0x00, 0x00, 0x78, 0x84, 0x84, 0x8c, 0x74, 0x04, 0x04, 0x08, 0x70, 0x00, 0x00}, /* 9 */
    {0x00, 0x00, 0x00, 0x00, 0x10, 0x38, 0x10, 0x00, 0x00, 0x10, 0x38, 0x10, 0x00}, /* : */
    {0x00, 0x00, 0x00, 0x00, 0x10, 0x38, 0x10, 0x00, 0x00, 0x38, 0x30, 0x40, 0x00}, /* ; */
    {0x00, 0x00, 0x04, 0x08, 0x10, 0x20, 0x40, 0x20, 0x10, 0x08, 0x04, 0x00, 0x00}, /* < */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0xfc, 0x00, 0x00, 0xfc, 0x00, 0x00, 0x00, 0x00}, /* = */
    {0x00, 0x00, 0x40, 0x20, 0x10, 0x08, 0x04, 0x08, 0x10, 0x20, 0x40, 0x00, 0x00}, /* > */
    {0x00, 0x00, 0x78, 0x84, 0x84, 0x04, 0x08, 0x10, 0x10, 0x00, 0x10, 0x00, 0x00}, /* ? */
    {0x00, 0x00, 0x78, 0x84, 0x84, 0x9c, 0xa4, 0xac, 0x94, 0x80, 0x78, 0x00, 0x00}, /* @ */
    {0x00, 0x00, 0x30, 0x48, 0x84, 0x84, 0x84, 0xfc, 0x84, 0x84, 0x84, 0x00, 0x00}, /* A */
    {0x00, 0x00, 0xf8, 0x44, 0x44, 0x44, 0x78, 0x44, 0x44, 0x44, 0xf8, 0x00, 0x00}, /* B */
    {0x00, 0x00, 0x78, 0x84, 0x80, 0x80, 0x80, 0x80, 0x80, 0x84, 0x78, 0x00, 0x00}, /* C */
    {0x00, 0x00, 0xf8, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0xf8, 0x00, 0x00}, /* D */
    {0x00, 0x00, 0xfc, 0x80, 0x80, 0x80, 0xf0, 0x80, 0x80, 0x80, 0xfc, 0x00, 0x00}, /* E */
    {0x00, 0x00, 0xfc, 0x80, 0x80, 0x80, 0xf0, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00}, /* F */
    {0x00, 0x00, 0x78, 0x84, 0x80, 0x80, 0x80, 0x9c, 0x84, 0x8c, 0x74, 0x00, 0x00}, /* G */
    {0x00, 0x00, 0x84, 0x84, 0x84, 0x84, 0xfc, 0x84, 0x84, 0x84, 0x84, 0x00, 0x00}, /* H */
    {0x00, 0x00, 0x7c, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x7c, 0x00, 0x00}, /* I */
    {0x00, 0x00, 0x1c, 0x08, 0x08, 0x08, 0x08, 0x08, 0x08, 0x88, 0x70, 0x00, 0x00}, /* J */
    {0x00, 0x00, 0x84, 0x88, 0x90, 0xa0, 0xc0, 0xa0, 0x90, 0x88, 0x84, 0x00, 0x00}, /* K */
    {0x00, 0x00, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xfc, 0x00, 0x00}, /* L */
    {0x00, 0x00, 0x84, 0xcc, 0xcc, 0xb4, 0xb4, 0x84, 0x84, 0x84, 0x84, 0x00, 0x00}, /* M */
    {0x00, 0x00, 0x84, 0x84, 0xc4, 0xa4, 0x94, 0x8c, 0x84, 0x84, 0x84, 0x00, 0x00}, /* N */
    {0x00, 0x00, 0x78, 0x84, 0x84, 0x84, 0x84, 0x84, 0x84, 0x84, 0x78, 0x00, 0x00}, /* O */
    {0x00, 0x00, 0xf8, 0x84, 0x84, 0x84, 0xf8, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00}, /* P */
    {0x00, 0x00, 0x78, 0x84, 0x84, 0x84, 0x84, 0x84, 0xa4, 0x94, 0x78, 0x04, 0x00}, /* Q */
    {0x00, 0x00, 0xf8, 0x84, 0x84, 0x84, 0xf8, 0xa0, 0x90, 0x88, 0x84, 0x00, 0x00}, /* R */
    {0x00, 0x00, 0x78, 0x84, 0x80, 0x80, 0x78, 0x04, 0x04, 0x84, 0x78, 0x00, 0x00}, /* S */
    {0x00, 0x00, 0x7c, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x00, 0x00}, /* T */
    {0x00, 0x00, 0x84, 0x84, 0x84, 0x84, 0x84, 0x84, 0x84, 0x84, 0x78, 0x00, 0x00}, /* U */
    {0x00, 0x00, 0x84, 0x84, 0x84, 0x48, 0x48, 0x48, 0x30, 0x30, 0x30, 0x00, 0x00}, /* V */
    {0x00, 0x00, 0x84, 0x84, 0x84, 0x84, 0xb4, 0xb4, 0xcc, 0xcc, 0x84, 0x00, 0x00}, /* W */
    {0x00, 0x00, 0x84, 0x84, 0x48, 0x48, 0x30, 0x48, 0x48, 0x84, 0x84, 0x00, 0x00}, /* X */
    {0x00, 0x00, 0x44, 0x44, 0x28, 0x28, 0x10, 0x10, 0x10, 0x10, 0x10, 0x00, 0x00}, /* Y */
    {0x00, 0x00, 0xfc, 0x04, 0x08, 0x10, 0x30, 0x20, 0x40, 0x80, 0xfc, 0x00, 0x00}, /* Z */
    {0x00, 0x78, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x78, 0x00}, /* [ */
    {0x00, 0x00, 0x40, 0x40, 0x20, 0x20, 0x10, 0x08, 0x08, 0x04, 0x04, 0x00, 0x00}, /* backslash */
    {0x00, 0x78, 0x08, 0x08, 0x08, 0x08, 0x08, 0x08, 0x08, 0x08, 0x08, 0x78, 0x00}, /* ] */
    {0x00, 0x00, 0x10, 0x28, 0x44, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, /* ^ */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xfc, 0x00}, /* _ */
    {0x00, 0x20, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, /* ` */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x78, 0x04, 0x7c, 0x84, 0x8c, 0x74, 0x00, 0x00}, /* a */
    {0x00, 0x00, 0x80, 0x80, 0x80, 0xb8, 0xc4, 0x84, 0x84, 0xc4, 0xb8, 0x00, 0x00}, /* b */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x78, 0x84, 0x80, 0x80, 0x84, 0x78, 0x00, 0x00}, /* c */
    {0x00, 0x00, 0x04, 0x04, 0x04, 0x74, 0x8c, 0x84, 0x84, 0x8c, 0x74, 0x00, 0x00}, /* d */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x78, 0x84, 0xfc, 0x80, 0x84, 0x78, 0x00, 0x00}, /* e */
    {0x00, 0x00, 0x38, 0x44, 0x40, 0x40, 0xf0, 0x40, 0x40, 0x40, 0x40, 0x00, 0x00}, /* f */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x74, 0x88, 0x88, 0x70, 0x80, 0x78, 0x84, 0x78}, /* g */
    {0x00, 0x00, 0x80, 0x80, 0x80, 0xb8, 0xc4, 0x84, 0x84, 0x84, 0x84, 0x00, 0x00}, /* h */
    {0x00, 0x00, 0x00, 0x10, 0x00, 0x30, 0x10, 0x10, 0x10, 0x10, 0x7c, 0x00, 0x00}, /* i */
    {0x00, 0x00, 0x00, 0x04, 0x00, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x44, 0x44, 0x38}, /* j */
    {0x00, 0x00, 0x80, 0x80, 0x80, 0x88, 0x90, 0xe0, 0x90, 0x88, 0x84, 0x00, 0x00}, /* k */
    {0x00, 0x00, 0x30, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x7c, 0x00, 0x00}, /* l */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x68, 0x54, 0x54, 0x54, 0x54, 0x44, 0x00, 0x00}, /* m */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0xb8, 0xc4, 0x84, 0x84, 0x84, 0x84, 0x00, 0x00}, /* n */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x78, 0x84, 0x84, 0x84, 0x84, 0x78, 0x00, 0x00}, /* o */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0xb8, 0xc4, 0x84, 0xc4, 0xb8, 0x80, 0x80, 0x80}, /* p */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x74, 0x8c, 0x84, 0x8c, 0x74, 0x04, 0x04, 0x04}, /* q */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0xb8, 0x44, 0x40, 0x40, 0x40, 0x40, 0x00, 0x00}, /* r */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x78, 0x84, 0x60, 0x18, 0x84, 0x78, 0x00, 0x00}, /* s */
    {0x00, 0x00, 0x00, 0x40, 0x40, 0xf0, 0x40, 0x40, 0x40, 0x44, 0x38, 0x00, 0x00}, /* t */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x84, 0x84, 0x84, 0x84, 0x8c, 0x74, 0x00, 0x00}, /* u */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x44, 0x44, 0x44, 0x28, 0x28, 0x10, 0x00, 0x00}, /* v */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x44, 0x44, 0x54, 0x54, 0x54, 0x28, 0x00, 0x00}, /* w */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x84, 0x48, 0x30, 0x30, 0x48, 0x84, 0x00, 0x00}, /* x */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x84, 0x84, 0x84, 0x8c, 0x74, 0x04, 0x84, 0x78}, /* y */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0xfc, 0x08, 0x10, 0x20, 0x40, 0xfc, 0x00, 0x00}, /* z */
    {0x00, 0x1c, 0x20, 0x20, 0x20, 0x10, 0x60, 0x10, 0x20, 0x20, 0x20, 0x1c, 0x00}, /* { */
    {0x00, 0x00, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x00, 0x00}, /* | */
    {0x00, 0x70, 0x08, 0x08, 0x08, 0x10, 0x0c, 0x10, 0x08, 0x08, 0x08, 0x70, 0x00}, /* } */
    {0x00, 0x00, 0x24, 0x54, 0x48, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, /* ~ */
};

/* The character at *text, which moves on: '~' for the ellipsis of text_fit(), '?' for what else is
 * not ASCII. */
static int next_character(const char **text)
{
    const unsigned char c = (unsigned char)*(*text)++;
    if (c < 0x80)
        return c < FIRST || c > LAST ? '?' : c;
    const bool cut = !strncmp(*text - 1, "\xe2\x80\xa6", 3);
    while (((unsigned char)**text & 0xc0) == 0x80)
        (*text)++;
    return cut ? '~' : '?';
}

/* Draws line `line` (0 to MAP_FONT_HEIGHT - 1) of a text that begins at x into row[width]. */
static void map_font_row(uint8_t *row, int64_t width, int64_t x, int line, const char *text,
                         uint8_t ink)
{
    while (*text) {
        const uint8_t bits = glyphs[next_character(&text) - FIRST][line];
        for (int k = 0; k < MAP_FONT_WIDTH; k++)
            if (bits >> (7 - k) & 1 && x + k >= 0 && x + k < width)
                row[x + k] = ink;
        x += MAP_FONT_WIDTH;
    }
}

enum { LEVEL = 4 }; /* of deflate */
/* px: least width of the picture; the bar's place and size; room for its numbers; of the text */
enum { LEAST_WIDTH = 490, GAP = 16, BAR_TOP = 10, BAR_WIDTH = 16, BAR_ROOM = 110 };
enum { BAR_LEAST = 150, BAR_MOST = 320, SWATCH = 14, FOOT = 40, MARGIN = 8, LINE = 16 };
enum { LINES = 6, LABELS = 24, LABEL_BYTES = 160 };

struct label {
    int64_t x, y; /* upper left corner */
    char text[LABEL_BYTES];
};

/* Statistics of the values, for the text of the picture. */
struct statistics {
    int64_t values, below, above;
    double low, high, sum;
};

struct picture {
    const struct map_slide *m;
    const struct map_picture_setup *p;
    struct map_rows *source;
    struct png_file *png;
    int64_t zoom, cols, rows;        /* px of a place along a side; px of the map */
    int64_t width, height;           /* of the picture */
    int64_t bar_x, bar_height, foot; /* foot: first row below map and bar */
    struct axis axis;
    struct label labels[LABELS];
    int n_labels;
    float *values; /* [cols] */
    uint8_t *row;  /* [width] */
    struct statistics found;
};

static void add_label(struct picture *o, int64_t x, int64_t y, const char *fmt, ...)
    ERR_PRINTF(4, 5);
static void add_label(struct picture *o, int64_t x, int64_t y, const char *fmt, ...)
{
    va_list ap;
    if (o->n_labels == LABELS)
        return;
    struct label *l = &o->labels[o->n_labels++];
    l->x = x;
    l->y = y;
    va_start(ap, fmt);
    vsnprintf(l->text, sizeof l->text, fmt, ap);
    va_end(ap);
}

/* --- layout --- */

/* Small maps are enlarged by a whole factor, to the room that the bar and the text leave. */
static void set_size(struct picture *o)
{
    const int64_t x = (LEAST_WIDTH - GAP - BAR_WIDTH - BAR_ROOM) / o->m->cols;
    const int64_t y = BAR_MOST / o->m->rows, zoom = x < y ? x : y;
    o->zoom = zoom > 1 ? zoom : 1;
    o->cols = o->m->cols * o->zoom;
    o->rows = o->m->rows * o->zoom;
}

/* Adds the legend of hatched areas, at most two lines. */
static void add_hatched(struct picture *o, int64_t x, int64_t y)
{
    const bool glass = map_hides_glass(o->m, o->p->map);
    if (glass)
        add_label(o, x, y, "glass, or");
    add_label(o, x, y + (glass ? MAP_FONT_HEIGHT : 0), "no value");
}

static void lay_out(struct picture *o)
{
    char label[64];
    double value;
    set_size(o);
    o->bar_x = o->cols + GAP;
    o->width = o->bar_x + BAR_WIDTH + BAR_ROOM;
    o->width = o->width < LEAST_WIDTH ? LEAST_WIDTH : o->width;
    o->bar_height = o->rows - BAR_TOP - FOOT;
    o->bar_height = o->bar_height < BAR_LEAST  ? BAR_LEAST
                    : o->bar_height > BAR_MOST ? BAR_MOST
                                               : o->bar_height;
    o->foot = BAR_TOP + o->bar_height + FOOT;
    o->foot = o->foot < o->rows + 1 ? o->rows + 1 : o->foot;
    o->height = o->foot + MARGIN + LINES * LINE + MARGIN;
    o->axis = (struct axis){o->p->low, o->p->high, axis_step(o->p->high - o->p->low, 8),
                            BAR_TOP + (double)o->bar_height - 1, BAR_TOP};
    for (int k = 0; axis_tick(&o->axis, k, &value, label); k++)
        add_label(o, o->bar_x + BAR_WIDTH + 8,
                  llround(axis_px(&o->axis, value)) - MAP_FONT_HEIGHT / 2, "%s%s%s", label,
                  k ? "" : " ", k ? "" : map_feature_unit(o->m, o->p->map));
    add_hatched(o, o->bar_x + SWATCH + 10, BAR_TOP + o->bar_height + 15);
}

/* --- the lines below the map --- */

static void add_line(struct picture *o, int line, const char *fmt, ...) ERR_PRINTF(3, 4);
static void add_line(struct picture *o, int line, const char *fmt, ...)
{
    char text[512], fitted[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    text_fit(fitted, LABEL_BYTES, text, (int)((o->width - 2 * MARGIN) / MAP_FONT_WIDTH));
    add_label(o, MARGIN, o->foot + MARGIN + line * LINE, "%s", fitted);
}

static void add_places(struct picture *o, int line)
{
    const struct map_slide *m = o->m;
    char scale[64] = "", place[64] = "1 pixel";
    if (o->zoom > 1)
        snprintf(place, sizeof place, "%" PRId64 " x %" PRId64 " pixels", o->zoom, o->zoom);
    if (!isnan(m->mpp_x))
        snprintf(scale, sizeof scale, " = %.4g um", m->pitch * m->mpp_x);
    if (m->scores)
        add_line(o, line, "%s = 1 cell of %g px%s", place, m->pitch, scale);
    else if (m->weights == WEIGHTS_NONE)
        add_line(o, line, "%s = 1 window of %" PRId64 " px, every %g px%s", place, m->params.window,
                 m->pitch, scale);
    else
        add_line(o, line, "%s = 1 cell of %g px%s; windows of %" PRId64 " px, %s", place, m->pitch,
                 scale, m->params.window, weights_name(m->weights));
}

/* " of 1,200 patches of 256 px (box)" for scores, else "", into text; returns text. */
static const char *patches_of(const struct map_slide *m, char text[160])
{
    const struct score_map *s = m->scores;
    char n[64], most[32] = "";
    text[0] = 0;
    if (!s)
        return text;
    if (s->largest > s->smallest)
        snprintf(most, sizeof most, " to %" PRId64, s->largest);
    snprintf(text, 160, " of %s patches of %" PRId64 "%s px (%s)",
             axis_number(n, (double)s->patches, 0), s->smallest, most, weights_name(m->weights));
    return text;
}

/* The text is complete when the map's last row is drawn. */
static void add_lines(struct picture *o)
{
    const struct statistics *s = &o->found;
    const char *unit = map_feature_unit(o->m, o->p->map);
    char count[64], of[160];
    const double n = s->values ? (double)s->values : 1, outside = (double)(s->below + s->above);
    const int digits = s->high - s->low < 2 ? 3 : 1;
    add_line(o, 0, "%s", o->m->s.name);
    add_line(o, 1, "%s%s, colours from %g to %g %s", map_feature_name(o->m, o->p->map),
             patches_of(o->m, of), o->p->low, o->p->high, unit);
    add_places(o, 2);
    axis_number(count, (double)s->values, 0);
    if (s->values)
        add_line(o, 3, "%s values from %.*f to %.*f, mean %.*f %s", count, digits, s->low, digits,
                 s->high, digits, s->sum / n, unit);
    else
        add_line(o, 3, "no %s has a value", o->m->scores ? "patch" : "window");
    if (outside > 0)
        add_line(o, 4, "outside the colours: %.1f %% below, %.1f %% above",
                 100 * (double)s->below / n, 100 * (double)s->above / n);
    if (o->m->partial)
        add_line(o, 5, "PARTIAL: %s", o->m->lacks);
}

/* --- rows --- */

static void count(struct statistics *s, double v, const struct map_picture_setup *p)
{
    s->low = s->values && s->low < v ? s->low : v;
    s->high = s->values && s->high > v ? s->high : v;
    s->sum += v;
    s->values++;
    s->below += v < p->low;
    s->above += v > p->high;
}

static void draw_places(struct picture *o, int64_t y)
{
    for (int64_t x = 0; x < o->cols; x++) {
        const double v = (double)o->values[x / o->zoom];
        const int k = colours_number(v, o->p->low, o->p->high, COLOURS_MAP);
        o->row[x] = (uint8_t)(k < 0 ? colours_hatch(x, y) : k);
        if (k >= 0 && x % o->zoom == 0 && y % o->zoom == 0)
            count(&o->found, v, o->p);
    }
}

static void draw_bar(struct picture *o, int64_t y)
{
    uint8_t *bar = o->row + o->bar_x;
    const int64_t at = y - BAR_TOP, swatch = at - o->bar_height - FOOT + SWATCH + 12;
    if (at >= 0 && at < o->bar_height) {
        const double t = (double)(o->bar_height - 1 - at) / (double)(o->bar_height - 1);
        memset(bar, (int)(t * (COLOURS_MAP - 1) + 0.5), BAR_WIDTH);
    } else if (swatch >= 0 && swatch < SWATCH) {
        for (int x = 0; x < BAR_WIDTH; x++)
            bar[x] = (uint8_t)colours_hatch(x, swatch);
    }
}

static void draw_ticks(struct picture *o, int64_t y)
{
    char label[64];
    double value;
    for (int k = 0; axis_tick(&o->axis, k, &value, label); k++)
        if (llround(axis_px(&o->axis, value)) == y)
            memset(o->row + o->bar_x + BAR_WIDTH, COLOURS_INK, 5);
}

static int draw_row(struct picture *o, int64_t y, struct err *e)
{
    memset(o->row, COLOURS_PAPER, (size_t)o->width);
    if (y < o->rows) {
        if (stop_check(e) || (y % o->zoom == 0 && map_rows_next(o->source, o->values, NULL, e)))
            return -1;
        draw_places(o, y);
        o->row[o->cols] = COLOURS_INK;
    } else if (y == o->rows) {
        memset(o->row, COLOURS_INK, (size_t)o->cols + 1);
    }
    draw_bar(o, y);
    draw_ticks(o, y);
    for (const struct label *l = o->labels; l < o->labels + o->n_labels; l++)
        if (y >= l->y && y < l->y + MAP_FONT_HEIGHT)
            map_font_row(o->row, o->width, l->x, (int)(y - l->y), l->text, COLOURS_INK);
    return png_file_row(o->png, o->row, e);
}

/* --- the picture --- */

static struct png_file *begin_file(const struct picture *o, FILE *f, struct err *e)
{
    const struct map_slide *m = o->m;
    uint32_t palette[COLOURS_PALETTE];
    char title[1100], text[512];
    colours_palette(palette, 255);
    text_fit(title, sizeof title, m->s.name, text_columns(m->s.name));
    snprintf(text, sizeof text,
             "%s; %" PRId64 " x %" PRId64 " places of %g px, the first at (%g, %g) px of level "
             "%" PRId64 ", %" PRId64 " x %" PRId64 " px; colours from %g to %g %s%s%s",
             map_feature_name(o->m, o->p->map), m->cols, m->rows, m->pitch, m->left, m->top,
             m->s.level, m->s.width, m->s.height, o->p->low, o->p->high,
             map_feature_unit(o->m, o->p->map), m->partial ? "; partial, " : "", m->lacks);
    const struct png_file_text texts[] = {{"Title", title}, {"Description", text}};
    const struct png_file_setup setup = {.width = o->width,
                                         .height = o->height,
                                         .kind = PNG_FILE_PALETTE,
                                         .palette = palette,
                                         .n_palette = COLOURS_PALETTE - 1,
                                         .level = LEVEL,
                                         .texts = texts,
                                         .n_texts = 2};
    return png_file_begin(f, &setup, e);
}

static int draw(struct picture *o, FILE *f, struct err *e)
{
    lay_out(o);
    o->values = memory_try((size_t)o->m->cols, sizeof *o->values, e);
    o->row = memory_try((size_t)o->width, 1, e);
    if (!o->values || !o->row)
        return -1;
    if (!(o->source = map_rows_open_tissue(o->m, o->p->map, e)) || !(o->png = begin_file(o, f, e)))
        return -1;
    for (int64_t y = 0; y < o->height; y++) {
        if (y == o->foot)
            add_lines(o);
        if (draw_row(o, y, e))
            return -1;
    }
    return png_file_end(o->png, e);
}

int map_picture_draw(const struct map_slide *m, const struct map_picture_setup *p, FILE *f,
                     struct err *e)
{
    struct picture o = {.m = m, .p = p};
    const int bad = draw(&o, f, e);
    png_file_free(o.png);
    map_rows_close(o.source);
    free(o.values);
    free(o.row);
    return bad;
}

enum {
    OVERLAY_LEVEL = 1,     /* of deflate: rows repeat, so more does not help */
    OVERLAY_WIDTH = 2048,  /* px, at most */
    OVERLAY_OPACITY = 153, /* of 255: 60 % */
};

static int64_t height_for(int64_t w, int64_t slide_width, int64_t slide_height)
{
    const double h = (double)w * (double)slide_height / (double)slide_width;
    return h < 1 ? 1 : llround(h);
}

/* The size of an overlay: of the widths from 7/8 of OVERLAY_WIDTH to it that with which the aspect
 * is the slide's best, the largest of several; but not larger than the slide. */
static void overlay_size(int64_t slide_width, int64_t slide_height, int64_t *width, int64_t *height)
{
    double best = INFINITY;
    const int64_t most = slide_width < OVERLAY_WIDTH ? slide_width : OVERLAY_WIDTH;
    for (int64_t w = most; w > most - most / 8 || w == most; w--) {
        const int64_t h = height_for(w, slide_width, slide_height);
        const double off = (double)llabs(h * slide_width - w * slide_height) / (double)w;
        if (off < best) {
            best = off;
            *width = w;
            *height = h;
        }
    }
}

/* An overlay being drawn. */
struct overlay {
    const struct map_slide *m;
    struct map_rows *rows;
    struct png_file *png;
    int64_t width, height;
    int64_t *places;  /* [width]: the column of the map that a pixel shows, -1: none */
    float *values;    /* [cols] of row `have` of the map */
    uint8_t *entries; /* [cols]: their colours */
    uint8_t *row;     /* [width] */
    int64_t have;
};

/* The column or row of the map at the middle of pixel k of n along an axis of `size` px; -1: none.
 */
static int64_t place_at(int64_t k, int64_t n, int64_t size, double corner, double pitch,
                        int64_t places)
{
    const double at = ((double)k + 0.5) * (double)size / (double)n;
    const double place = floor((at - corner) / pitch);
    return place >= 0 && place < (double)places ? (int64_t)place : -1;
}

static int begin(struct overlay *o, const struct map_picture_setup *p, FILE *f, struct err *e)
{
    const struct map_slide *m = o->m;
    uint32_t palette[COLOURS_PALETTE];
    char title[1100];
    overlay_size(m->s.width, m->s.height, &o->width, &o->height);
    colours_palette(palette, OVERLAY_OPACITY);
    text_fit(title, sizeof title, m->s.name, text_columns(m->s.name));
    const struct png_file_text texts[] = {{"Title", title},
                                          {"Description", map_feature_name(m, p->map)}};
    const struct png_file_setup setup = {.width = o->width,
                                         .height = o->height,
                                         .kind = PNG_FILE_PALETTE,
                                         .palette = palette,
                                         .n_palette = COLOURS_PALETTE,
                                         .rows_repeat = true,
                                         .level = OVERLAY_LEVEL,
                                         .texts = texts,
                                         .n_texts = 2};
    o->places = memory_try((size_t)o->width, sizeof *o->places, e);
    o->values = memory_try((size_t)m->cols, sizeof *o->values, e);
    o->entries = memory_try((size_t)m->cols, 1, e);
    o->row = memory_try((size_t)o->width, 1, e);
    if (!o->places || !o->values || !o->entries || !o->row)
        return -1;
    for (int64_t x = 0; x < o->width; x++)
        o->places[x] = place_at(x, o->width, m->s.width, m->left, m->pitch, m->cols);
    o->rows = map_rows_open_tissue(m, p->map, e);
    o->png = o->rows ? png_file_begin(f, &setup, e) : NULL;
    return o->png ? 0 : -1;
}

/* The colours of the row of the map that has been read; COLOURS_CLEAR where there is no value. */
static void colour_places(struct overlay *o, const struct map_picture_setup *p)
{
    for (int64_t i = 0; i < o->m->cols; i++) {
        const int k = colours_number((double)o->values[i], p->low, p->high, COLOURS_MAP);
        o->entries[i] = (uint8_t)(k < 0 ? COLOURS_CLEAR : k);
    }
}

static void draw_overlay_row(struct overlay *o, int64_t y, bool any)
{
    for (int64_t x = 0; x < o->width; x++) {
        const int64_t place = any ? o->places[x] : -1;
        o->row[x] = place < 0 ? COLOURS_CLEAR : o->entries[place];
        if (place >= 0 && o->row[x] == COLOURS_CLEAR && colours_hatch(x, y) == COLOURS_STROKE)
            o->row[x] = COLOURS_STROKE;
    }
}

static int draw_overlay(struct overlay *o, const struct map_picture_setup *p, struct err *e)
{
    const struct map_slide *m = o->m;
    for (int64_t y = 0; y < o->height; y++) {
        const int64_t place = place_at(y, o->height, m->s.height, m->top, m->pitch, m->rows);
        for (; o->have < place; o->have++) {
            if (stop_check(e) || map_rows_next(o->rows, o->values, NULL, e))
                return -1;
            if (o->have + 1 == place)
                colour_places(o, p);
        }
        draw_overlay_row(o, y, place >= 0);
        if (png_file_row(o->png, o->row, e))
            return -1;
    }
    return png_file_end(o->png, e);
}

int map_picture_overlay(const struct map_slide *m, const struct map_picture_setup *p, FILE *f,
                        struct err *e)
{
    struct overlay o = {.m = m, .have = -1};
    const int bad = begin(&o, p, f, e) || draw_overlay(&o, p, e) ? -1 : 0;
    png_file_free(o.png);
    map_rows_close(o.rows);
    free(o.places);
    free(o.values);
    free(o.entries);
    free(o.row);
    return bad;
}
