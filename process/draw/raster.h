/*
 * raster.h - maps as pixels: their colours, and pictures in fewer pixels.
 *
 * The colours are cividis, from dark blue (low) to yellow (high): J. R. Nunez, C. R. Anderton,
 * R. S. Renslow, "Optimizing colormaps with consideration for color vision deficiency to enable
 * accurate interpretation of scientific data", PLoS ONE 13 (2018), e0199239, doi
 * 10.1371/journal.pone.0199239. Brightness grows evenly, and people who cannot tell red from green
 * see the same order.
 *
 * Pictures in PNG have a palette of COLOURS_PALETTE entries: the first COLOURS_MAP are cividis,
 * the others are below. One byte per pixel keeps files small. Any thread.
 */
#ifndef WSI_RASTER_H
#define WSI_RASTER_H
#include "common/result/result.h"

#include <stdint.h>

enum { COLOURS = 256 }; /* colours from low to high */

/* 0xRRGGBB of colour k, 0 to COLOURS - 1. */
uint32_t colours_rgb(int k);
/* The number of the colour of `value`, 0 to n - 1: 0 at `low` and below, n - 1 at `high` and above,
 * -1 if the value is NaN. */
int colours_number(double value, double low, double high, int n);

enum colours_entry {
    COLOURS_MAP = 250,           /* how many of the entries are cividis */
    COLOURS_PAPER = COLOURS_MAP, /* white */
    COLOURS_INK,                 /* of text and axes */
    COLOURS_GROUND,
    COLOURS_STROKE, /* hatching: where a map has no value */
    COLOURS_CLEAR,  /* transparent */
    COLOURS_PALETTE
};

/* out[COLOURS_PALETTE]: 0xRRGGBBAA. `opacity` is that of cividis and the strokes of the hatching,
 * from 0 to 255. */
void colours_palette(uint32_t *out, int opacity);
/* Entry of the hatching at pixel (x, y) of a picture. */
int colours_hatch(int64_t x, int64_t y);

/* --- pictures and maps in fewer pixels --- */

/* out [h][w][3] from in [height][width][3]: each pixel is the rounded mean of the box of pixels
 * that it stands for. 1 <= w <= width, 1 <= h <= height. */
void shrink_rgb(const uint8_t *in, int64_t width, int64_t height, uint8_t *out, int64_t w,
                int64_t h);
/* Mean of map `map` of s, a map of float32 or int16, over windows (x * block, y * block) to
 * (x * block + block - 1, y * block + block - 1), in the map's unit. Windows without a value and
 * beyond the slide are left out, and for sharpness those of which less than half is tissue, if the
 * map of tissue is loaded; NaN if none is left. */
double shrink_map(const struct result_slide *s, int map, int64_t x, int64_t y, int64_t block);

#endif
