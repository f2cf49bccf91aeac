/* mkslide_picture.c - what the slide shows; see mkslide.h. */
#include "tests/mkslide.h"

#include <stdlib.h>
#include <string.h>

uint32_t hash3(uint32_t seed, uint32_t x, uint32_t y)
{
    uint32_t h = seed * 0x9e3779b1u + 0x7f4a7c15u;
    h = (h ^ x) * 0x85ebca6bu;
    h = (h ^ (h >> 15) ^ y) * 0xc2b2ae35u;
    h = (h ^ (h >> 13)) * 0x27d4eb2fu;
    return h ^ (h >> 16);
}

static uint32_t root(uint64_t v)
{
    uint64_t r = 0;
    for (uint64_t bit = 1ull << 31; bit; bit >>= 1)
        if ((r + bit) * (r + bit) <= v)
            r += bit;
    return (uint32_t)r;
}

/* Noise on the left edge of a cell, 0 .. 65280, at sy / 256 of the way to the next cell below. */
static uint32_t noise_edge(uint32_t seed, uint32_t cx, uint32_t cy, uint32_t sy)
{
    return (hash3(seed, cx, cy) & 255) * (256 - sy) + (hash3(seed, cx, cy + 1) & 255) * sy;
}

/* Value noise with cells of 1 << shift pixels; adds weight * (0 .. 65280) to n pixels of row y. */
static void noise_row(uint32_t seed, uint32_t shift, uint32_t weight, uint32_t y, uint32_t x0,
                      uint32_t n, uint32_t *sum)
{
    uint32_t mask = (1u << shift) - 1, fy = (y & mask) << (8 - shift), cy = y >> shift;
    uint32_t sy = fy * fy * (768 - 2 * fy) >> 16, left = 0, right = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t x = x0 + i, cx = x >> shift, fx = (x & mask) << (8 - shift);
        uint32_t sx = fx * fx * (768 - 2 * fx) >> 16;
        if (i == 0 || fx == 0) {
            left = i ? right : noise_edge(seed, cx, cy, sy);
            right = noise_edge(seed, cx + 1, cy, sy);
        }
        sum[i] += weight * ((left * (256 - sx) + right * sx) >> 8);
    }
}

static void mask_span(struct picture *p, int64_t from, int64_t to, uint32_t x0, uint32_t n)
{
    from = from < x0 ? x0 : from;
    to = to > (int64_t)x0 + n ? (int64_t)x0 + n : to;
    if (from < to)
        memset(p->mask + (from - x0), 1, (size_t)(to - from));
}

/* How far the ellipse's outline is moved in row y: up to an eighth of its radius and 40 px. */
static int64_t edge_jitter(const struct picture *p, uint32_t which, uint32_t y, int64_t radius)
{
    uint32_t v = 0;
    noise_row(p->seed + 100 + which, 6, 1, y, 0, 1, &v);
    return ((int64_t)v - 32640) * (radius < 320 ? radius : 320) / (8 * 32640);
}

static void mask_ellipse(struct picture *p, uint32_t which, uint32_t y, uint32_t x0, uint32_t n)
{
    static const int64_t blobs[][4] = {/* cx, cy, rx, ry in 1/1000 of the slide */
                                       {270, 290, 215, 225},
                                       {725, 260, 195, 190},
                                       {260, 740, 185, 200},
                                       {690, 715, 240, 210}};
    int64_t w = p->width, h = p->height;
    int64_t cx = blobs[which][0] * w / 1000, dy = y - blobs[which][1] * h / 1000;
    int64_t rx = blobs[which][2] * w / 1000, ry = blobs[which][3] * h / 1000;
    if (ry < 1 || dy <= -ry || dy >= ry)
        return;
    int64_t half = rx * root((uint64_t)(ry * ry - dy * dy)) / ry;
    int64_t from = cx - half + edge_jitter(p, 2 * which, y, half);
    mask_span(p, from, cx + half + edge_jitter(p, 2 * which + 1, y, half), x0, n);
}

static void mask_row(struct picture *p, uint32_t y, uint32_t x0, uint32_t n)
{
    memset(p->mask, 0, n);
    if (p->tissue == TISSUE_RECT && y >= p->rect[1] && y - p->rect[1] < p->rect[3])
        mask_span(p, p->rect[0], (int64_t)p->rect[0] + p->rect[2], x0, n);
    for (int i = 0; i < p->fiducials.n; i++) {
        const uint32_t *at = p->fiducials.at[i];
        if (y >= at[1] && y - at[1] < FIDUCIAL)
            mask_span(p, at[0], (int64_t)at[0] + FIDUCIAL, x0, n);
    }
    for (uint32_t i = 0; p->fiducials.n == 0 && p->tissue == TISSUE_ELLIPSES && i < 4; i++)
        mask_ellipse(p, i, y, x0, n);
}

/* One nucleus at most in each cell of a 24 px grid, wholly inside it. */
static void nuclei_row(const struct picture *p, uint32_t y, uint32_t x0, uint32_t n, uint8_t *rgb)
{
    enum { CELL = 24 };
    for (uint32_t cx = x0 / CELL; cx <= (x0 + n - 1) / CELL; cx++) {
        uint32_t h = hash3(p->seed + 50, cx, y / CELL);
        int64_t r = 4 + (h >> 8) % 6, room = CELL - 2 * r;
        int64_t dy = (int64_t)(y % CELL) - r - (h >> 12) % room;
        if ((h & 255) > 150 || dy < -r || dy > r)
            continue;
        int64_t x = (int64_t)cx * CELL + r + (h >> 20) % room;
        int64_t half = root((uint64_t)(r * r - dy * dy));
        for (int64_t i = x - half - x0; i <= x + half - x0; i++) {
            if (i < 0 || i >= n || !p->mask[i])
                continue;
            uint32_t g = p->grain[i] >> 11; /* 0 .. 31 */
            rgb[3 * i] = (uint8_t)(70 + g);
            rgb[3 * i + 1] = (uint8_t)(38 + g);
            rgb[3 * i + 2] = (uint8_t)(118 + g);
        }
    }
}

/* Another stain instead of haematoxylin and eosin; x: column of the first pixel. */
static void stain_row(const struct picture *p, uint32_t x, uint32_t n, uint8_t *rgb)
{
    static const int brown[3] = {150, 100, 55}, blue[3] = {130, 150, 205};
    for (uint32_t i = 0; i < n; i++) {
        const int dark = 255 - rgb[3 * i + 1]; /* green: what every stain absorbs */
        const int *colour = (x + i) >> 9 & 1 ? brown : blue;
        for (uint32_t c = 0; c < 3; c++) {
            uint8_t *v = &rgb[3 * i + c];
            if (p->stain == STAIN_PALE && p->mask[i])
                *v = (uint8_t)(243 - (243 - *v) / 10);
            else if (p->stain == STAIN_IHC && p->mask[i])
                *v = (uint8_t)(colour[c] + (160 - dark) / 6);
            else if (p->stain == STAIN_FLUORESCENCE)
                *v = (uint8_t)(c == 0 ? dark * 2 / 3 : dark / 12);
        }
    }
}

static void picture_base_row(struct picture *p, uint32_t y, uint32_t x0, uint32_t n, uint8_t *rgb)
{
    static const int pink[3] = {230, 150, 196}, purple[3] = {138, 74, 158};
    mask_row(p, y, x0, n);
    memset(p->texture, 0, n * sizeof *p->texture);
    memset(p->grain, 0, n * sizeof *p->grain);
    memset(p->ground, 0, n * sizeof *p->ground);
    noise_row(p->seed + 1, 1, 1, y, x0, n, p->grain);
    if (p->fiducials.n)
        noise_row(p->seed + 9, 8, 1, y, x0, n, p->ground);
    for (uint32_t i = 0; i < 4; i++) /* cells of 256, 64, 16 and 4 px; weights add up to 16 */
        noise_row(p->seed + 10 + i, 8 - 2 * i, (uint32_t[]){5, 5, 4, 2}[i], y, x0, n, p->texture);
    for (uint32_t i = 0; i < n; i++) {
        int grain = (int)(p->grain[i] >> 8), t = ((int)(p->texture[i] >> 12) - 128) * 2 + 128;
        t = t < 0 ? 0 : t > 255 ? 255 : t;
        for (int c = 0; c < 3; c++) {
            int tissue = pink[c] + (purple[c] - pink[c]) * t / 255 + (grain - 128) / 12;
            int ground = pink[c] - (int)(p->ground[i] >> 11);
            int glass = p->fiducials.n ? ground : 240 + grain * 7 / 256;
            rgb[3 * i + (uint32_t)c] = (uint8_t)(p->mask[i] ? tissue : glass);
        }
    }
    nuclei_row(p, y, x0, n, rgb);
    if (p->stain != STAIN_HE)
        stain_row(p, x0, n, rgb);
}

/* Pixels x0 .. x0 + n - 1 of row y, [n][3]; a level is the 4 x 4 mean of the one above. */
static void picture_row(struct picture *p, uint32_t level, uint32_t y, uint32_t x0, uint32_t n,
                        uint8_t *rgb)
{
    if (level == 0) {
        picture_base_row(p, y, x0, n, rgb);
        return;
    }
    uint8_t *above = p->above[level];
    uint32_t *sum = p->sum[level];
    memset(sum, 0, 3 * (size_t)n * sizeof *sum);
    for (uint32_t k = 0; k < 4; k++) {
        picture_row(p, level - 1, 4 * y + k, 4 * x0, 4 * n, above);
        for (size_t i = 0; i < 3 * (size_t)n; i++) {
            const uint8_t *a = above + i / 3 * 12 + i % 3;
            sum[i] += (uint32_t)a[0] + a[3] + a[6] + a[9];
        }
    }
    for (size_t i = 0; i < 3 * (size_t)n; i++)
        rgb[i] = (uint8_t)((sum[i] + 8) / 16);
}

void picture_init(struct picture *p)
{
    size_t w = p->width;
    p->mask = memory_need(w, 1);
    p->texture = memory_need(w, sizeof *p->texture);
    p->grain = memory_need(w, sizeof *p->grain);
    p->ground = memory_need(w, sizeof *p->ground);
    for (int i = 1; i < MAX_LEVELS; i++, w /= 4) {
        p->above[i] = memory_need(w, 3);
        p->sum[i] = memory_need(w / 4, 3 * sizeof(uint32_t));
    }
}

void picture_free(struct picture *p)
{
    free(p->mask);
    free(p->texture);
    free(p->grain);
    free(p->ground);
    for (int i = 1; i < MAX_LEVELS; i++) {
        free(p->above[i]);
        free(p->sum[i]);
    }
}

/* A tile of a level, [th][tw][3]; what lies beyond the picture repeats its last row and column. */
void picture_tile(struct picture *p, uint32_t level, uint32_t x, uint32_t y, uint32_t tw,
                  uint32_t th, uint8_t *rgb)
{
    uint32_t w = p->width >> 2 * level, h = p->height >> 2 * level;
    uint32_t n = w - x < tw ? w - x : tw;
    for (uint32_t r = 0; r < th; r++) {
        uint8_t *row = rgb + 3 * (size_t)tw * r;
        if (y + r >= h) {
            memcpy(row, row - 3 * (size_t)tw, 3 * (size_t)tw);
            continue;
        }
        picture_row(p, level, y + r, x, n, row);
        for (uint32_t i = n; i < tw; i++)
            memcpy(row + 3 * (size_t)i, row + 3 * (size_t)(n - 1), 3);
    }
}

/* The whole slide sampled to w x h, written with a stride in pixels. */
void picture_sample(struct picture *p, uint32_t w, uint32_t h, uint32_t stride, uint8_t *rgb)
{
    uint32_t level = 0;
    while (level + 1 < MAX_LEVELS && p->width >> 2 * (level + 1) >= w &&
           p->height >> 2 * (level + 1) >= h)
        level++;
    uint32_t lw = p->width >> 2 * level, lh = p->height >> 2 * level;
    uint8_t *row = memory_need(lw, 3);
    for (uint32_t y = 0; y < h; y++) {
        picture_row(p, level, (uint32_t)((uint64_t)y * lh / h), 0, lw, row);
        for (uint32_t x = 0; x < w; x++)
            memcpy(rgb + 3 * ((size_t)y * stride + x), row + 3 * ((uint64_t)x * lw / w), 3);
    }
    free(row);
}
