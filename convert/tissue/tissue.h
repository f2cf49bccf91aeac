/*
 * tissue.h - where the tissue is: a map of cells of 32 x 32 stored pixels.
 *
 * Rule `saturation`: hue plays no part. A cell is tissue if its mean colour is darker
 * than glass, ln(glass / gray) > d, or coloured, S of HSV >= 26 / 256. Gray is 0.299 R + 0.587 G +
 * 0.114 B, rounded. Glass is the gray level at or below which 90 % of the cells lie that could be
 * glass: S < 1/16 and gray >= 200. White, gray 255 and S < 1/256, is what scanners and readers fill
 * areas with that were not scanned: it takes no part, unless too few cells are left. With fewer
 * than one in 500 cells that could be glass the slide shows none, and 243 is taken. d is 0.07.
 * Where all tissue is paler, gray has two classes: if Otsu's threshold t of gray has 0.8 of the
 * variance between its classes, d is ln(glass / t), but 0.02 to 0.07. These numbers were chosen on
 * seven pictures and judged on others (tests/FIGURES.md). Last, gaps of one or two cells are closed
 * (by a square of 3 x 3 cells): between pale nuclei a cell is as bright as glass.
 *
 * The user can give thresholds of H and S instead, or a mask.
 *
 * The rules need a bright background, as of glass. A slide has none if more of its cells are dark
 * (V of HSV below 1/4) than bright (V at least 3/8): fluorescence. It gets no map. Whether it has
 * one is known with the user's thresholds and mask, too; they decide nothing but the map.
 *
 * The caller chooses where the colours come from: a coarse level of the pyramid, level 0 decoded at
 * 1/8, or the tiles that are converted anyway: of these every fourth row of the slide, and at 1/8
 * where the reader can. A pixel at 1/8 of a tile that reaches beyond the slide can hold what lies
 * there, so such tiles are always decoded in full. A cell counts each of its pixels by its area.
 * A coarse level can end before the last cells: these are as their neighbours, to the left or above.
 * Colours arrive one row of tiles after the other, so sums are kept only for the rows of cells that
 * are not complete; a complete cell takes two bytes.
 */
#ifndef WSI_TISSUE_H
#define WSI_TISSUE_H

#include "common/base/err.h"
#include "common/store/store.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TISSUE_CELL = STORE_CELL,
    TISSUE_VIEW = 512,
    TISSUE_STEP = 4 /* every so many rows are enough for a cell's mean colour */
};

/* Sums of R, G, B over stored pixels and the number of these, for a rectangle of cells. */
struct tissue_sums {
    int64_t col, row, cols, rows;
    uint32_t (*cell)[4]; /* [rows][cols]: R, G, B, n; room for `room` cells */
    int64_t room;
    bool damaged; /* the tile cannot be decoded: its cells count as tissue */
};

enum tissue_by { TISSUE_BY_SATURATION, TISSUE_BY_THRESHOLDS };

/* The definition of tissue. All zero: the default. */
struct tissue_rule {
    enum tissue_by by;
    double h, s; /* TISSUE_BY_THRESHOLDS; 0 .. 1, in steps of 1 / 256 */
};

struct tissue {
    const struct tissue_rule *rule;
    int64_t cols, rows;        /* ceil(width / 32), ceil(height / 32) of the stored slide */
    struct tissue_sums band;   /* the rows of cells that are not complete */
    int64_t seen, dim, bright; /* complete cells: with pixels, with V below 1/4, at least 3/8 */
    const uint8_t *given;      /* [rows][cols], 1 = tissue: a mask from outside; NULL: none */
    uint8_t *saturation;       /* [rows][cols], bins, of complete rows; until tissue_finish */
    uint8_t *damaged;          /* [rows][cols], 1 = over a damaged tile; NULL without any */
    uint8_t *mask;   /* [rows][cols], 1 = tissue; until tissue_finish gray or bins of hue */
    int glass;       /* gray level of glass; 0: another rule */
    double dark;     /* tissue is below this gray level */
    double fraction; /* of the cells */
    double uneven;   /* part of the pairs of neighbouring cells that are no tissue and whose gray
                    * differs more than that of glass; 0: another rule */
    bool none;       /* there is no map: the background is not bright; set at the end */
    int64_t step;    /* cells per pixel of the view, in both directions */
    uint32_t (*view)[4]; /* [rows / step][cols / step], rounded up: R, G, B, n of whole cells */
};

/* Glass is even: neighbours differ by fewer gray levels. Fat is as bright, but not even. True if
 * there is so much that is no tissue and uneven that the map has probably missed something. */
bool tissue_leaves_uneven(const struct tissue *t);

/* `rule` must outlive t. */
int tissue_create(struct tissue *t, int64_t width, int64_t height, const struct tissue_rule *rule,
                  struct err *e);
void tissue_free(struct tissue *t);

/* Sums a tile, rgb [rows][pitch][3] u8, of which cols x rows pixels count. Its first pixel is pixel
 * (x, y) of an image each of whose pixels is `scale` >= 1 stored pixels wide and high. Only rows y
 * that are a multiple of `step` are read. Any thread. */
void tissue_sum(struct tissue_sums *s, const uint8_t *rgb, int64_t cols, int64_t rows,
                int64_t pitch, int64_t x, int64_t y, double scale, int64_t step);
/* The same for a tile that is damaged. Tissue must not be lost because of damage, so every cell
 * that the tile touches counts as tissue, and none of them takes part in the thresholds. */
void tissue_sum_damaged(struct tissue_sums *s, int64_t cols, int64_t rows, int64_t x, int64_t y,
                        double scale);
void tissue_sums_free(struct tissue_sums *s);
/* Adds a tile's sums to the map. What lies beyond the map's edge goes to its last cells. No tile
 * may begin above one that was added before. */
int tissue_add(struct tissue *t, const struct tissue_sums *s, struct err *e);
/* Computes the thresholds and the mask, or sets `none`. */
void tissue_finish(struct tissue *t);
/* Takes a mask from outside, [rows][cols] 1 = tissue, which must outlive t. It becomes the map; the
 * sums still say how bright the background is. */
void tissue_take(struct tissue *t, const uint8_t *mask);
/* After tissue_finish: "bright", as of glass, or "dark", as of fluorescence; "": nothing was seen.
 */
const char *tissue_background(const struct tissue *t);
/* The slide at the size of its cells or smaller, at most TISSUE_VIEW px wide and high: *rgb is
 * [*height][*width][3], to be free()d. After tissue_finish. 1, 0 if nothing was seen, or -1. */
int tissue_view(const struct tissue *t, uint8_t **rgb, int64_t *width, int64_t *height,
                struct err *e);
/* The rule in words: "saturation", "thresholds 0.5,0.25". */
void tissue_rule_text(const struct tissue_rule *r, char *text, size_t size);
/* The cells of tissue that this rectangle of stored pixels touches. */
int64_t tissue_count(const struct tissue *t, int64_t x, int64_t y, int64_t cols, int64_t rows);

#endif
