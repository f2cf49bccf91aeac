/* mkslide_picture.c - what the slide shows; see mkslide.h. */
#include "tests/mkslide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUCLEI = 24 }; /* px of a cell that has one nucleus at most */

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

/* One piece of tissue with an uneven outline and gaps: where smooth noise is above a limit that
 * rises from the middle of the slide to its borders. */
static void mask_section(struct picture *p, uint32_t y, uint32_t x0, uint32_t n)
{
    const int64_t w = p->width, h = p->height, dy = 2000 * (2 * (int64_t)y - h) / h;
    for (uint32_t i = 0; i < 3; i++) /* cells of 256, 64 and 16 px; weights add up to 16 */
        noise_row(p->seed + 200 + i, 8 - 2 * i, (uint32_t[]){11, 4, 1}[i], y, x0, n, p->texture);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t dx = 2000 * (2 * (int64_t)(x0 + i) - w) / w;
        const int64_t far = (dx * dx + dy * dy) / 4000; /* 0 .. 2000, 1000 at the borders */
        p->mask[i] = (int64_t)(p->texture[i] >> 8) * 1000 / 4080 > 150 + far * far / 1600;
    }
}

static void mask_row(struct picture *p, uint32_t y, uint32_t x0, uint32_t n)
{
    memset(p->mask, 0, n);
    if (p->tissue == TISSUE_RECT && y >= p->rect[1] && y - p->rect[1] < p->rect[3])
        mask_span(p, p->rect[0], (int64_t)p->rect[0] + p->rect[2], x0, n);
    memset(p->texture, 0, n * sizeof *p->texture);
    if (p->tissue == TISSUE_SECTION)
        mask_section(p, y, x0, n);
    for (int i = 0; i < p->fiducials.n; i++) {
        const uint32_t *at = p->fiducials.at[i];
        if (y >= at[1] && y - at[1] < FIDUCIAL)
            mask_span(p, at[0], (int64_t)at[0] + FIDUCIAL, x0, n);
    }
    for (uint32_t i = 0; p->fiducials.n == 0 && p->tissue == TISSUE_ELLIPSES && i < 4; i++)
        mask_ellipse(p, i, y, x0, n);
}

/* The pixels of the nucleus of cell (cx, cy) that lie in row y. */
static void nucleus_span(const struct picture *p, int64_t cx, int64_t cy, int64_t y, uint32_t x0,
                         uint32_t n, uint8_t *rgb)
{
    const uint32_t h = hash3(p->seed + 50, (uint32_t)cx, (uint32_t)cy);
    const int64_t r = 4 + (h >> 8) % 6;
    const int64_t x = cx * NUCLEI + (h >> 20) % NUCLEI, dy = y - cy * NUCLEI - (h >> 12) % NUCLEI;
    if ((h & 255) > 150 || dy < -r || dy > r)
        return;
    const int64_t half = root((uint64_t)(r * r - dy * dy));
    for (int64_t i = x - half - x0; i <= x + half - x0; i++) {
        if (i < 0 || i >= n || !p->mask[i])
            continue;
        uint32_t g = p->grain[i] >> 11; /* 0 .. 31 */
        rgb[3 * i] = (uint8_t)(70 + g);
        rgb[3 * i + 1] = (uint8_t)(38 + g);
        rgb[3 * i + 2] = (uint8_t)(118 + g);
    }
}

/* One nucleus at most has its middle in each cell of 24 px, and every place of the cell is as
 * likely: so their mean density is even, and spectra have no peak at the period of the cells. */
static void nuclei_row(const struct picture *p, uint32_t y, uint32_t x0, uint32_t n, uint8_t *rgb)
{
    const int64_t first = (int64_t)x0 / NUCLEI - 1, last = ((int64_t)x0 + n) / NUCLEI + 1;
    for (int64_t cy = (int64_t)y / NUCLEI - 1; cy <= (int64_t)y / NUCLEI + 1; cy++)
        for (int64_t cx = first; cx <= last; cx++)
            nucleus_span(p, cx, cy, y, x0, n, rgb);
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

/* The row in focus; `flat`: before the noise of grain and camera. */
static void sharp_row(struct picture *p, uint32_t y, uint32_t x0, uint32_t n, bool flat,
                      uint8_t *rgb)
{
    static const int pink[3] = {230, 150, 196}, purple[3] = {138, 74, 158};
    mask_row(p, y, x0, n);
    memset(p->texture, 0, n * sizeof *p->texture);
    memset(p->grain, 0, n * sizeof *p->grain);
    memset(p->ground, 0, n * sizeof *p->ground);
    noise_row(p->seed + 1, 1, 1, y, x0, n, p->grain);
    for (uint32_t i = 0; flat && i < n; i++)
        p->grain[i] = 128 << 8;
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

/* --- blur --- */

enum { ONE = 1 << 16 }; /* the sum of a kernel */

/* The weights of a Gaussian, [2 * radius + 1]. */
static uint32_t *kernel_make(uint32_t sigma, uint32_t *radius)
{
    const double s = sigma / 16.0;
    const uint32_t r = *radius = (uint32_t)ceil(3 * s);
    uint32_t *k = memory_need(2 * (size_t)r + 1, sizeof *k), rest = ONE;
    double sum = 0;
    for (uint32_t i = 0; i <= 2 * r; i++)
        sum += exp(-pow((double)i - r, 2) / (2 * s * s));
    for (uint32_t i = 0; i <= 2 * r; i++) {
        k[i] = (uint32_t)(ONE * exp(-pow((double)i - r, 2) / (2 * s * s)) / sum + 0.5);
        rest -= k[i];
    }
    k[r] += rest;
    return k;
}

/* Smooths `lines` lines of n pixels: from pixel to pixel of a line is `step` bytes, from line to
 * line `line`. The ends repeat. */
static void smooth(uint8_t *rgb, size_t lines, size_t line, size_t n, size_t step,
                   const uint32_t *k, uint32_t radius)
{
    uint8_t *old = memory_need(n + 2 * (size_t)radius, 3);
    for (size_t j = 0; j < lines; j++) {
        uint8_t *at = rgb + j * line;
        for (size_t i = 0; i < n + 2 * (size_t)radius; i++) {
            const size_t from = i < radius ? 0 : i - radius < n ? i - radius : n - 1;
            memcpy(old + 3 * i, at + from * step, 3);
        }
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; c < 3; c++) {
                uint32_t sum = ONE / 2;
                for (size_t d = 0; d <= 2 * (size_t)radius; d++)
                    sum += k[d] * old[3 * (i + d) + c];
                at[i * step + c] = (uint8_t)(sum / ONE);
            }
    }
    free(old);
}

static void blur_make(struct picture *p)
{
    const size_t w = p->width, h = p->height;
    uint32_t radius, *k = kernel_make(p->blur.sigma, &radius);
    uint8_t *all = memory_need(w * h, 3);
    for (size_t y = 0; y < h; y++)
        sharp_row(p, (uint32_t)y, 0, p->width, true, all + 3 * w * y);
    smooth(all, h, 3 * w, w, 3, k, radius);
    smooth(all, w, 3, h, 3 * w, k, radius);
    free(k);
    p->blurred = all;
}

/* How much of the blurred picture shows at (x, y), of 256: less towards the edge of its place. */
static uint32_t blur_at(const struct blur *b, int64_t x, int64_t y)
{
    const int64_t dx = x - b->place[0], dy = y - b->place[1], r = b->place[2];
    const int64_t far = r ? root((uint64_t)(dx * dx + dy * dy)) : 0;
    return r == 0 || far < r / 2 ? 256 : far >= r ? 0 : (uint32_t)(512 * (r - far) / r);
}

static void picture_base_row(struct picture *p, uint32_t y, uint32_t x0, uint32_t n, uint8_t *rgb)
{
    sharp_row(p, y, x0, n, false, rgb);
    for (uint32_t i = 0; p->blurred && i < n; i++) {
        const uint32_t part = blur_at(&p->blur, x0 + i, y);
        const uint8_t *b = p->blurred + 3 * ((size_t)y * p->width + x0 + i);
        const uint32_t noise = (p->grain[i] >> 8) * 7 / 256; /* of the camera: 3 in the middle */
        for (uint32_t c = 0; c < 3; c++) {
            const uint32_t v = b[c] + noise < 3 ? 0 : b[c] + noise - 3;
            rgb[3 * i + c] = (uint8_t)((rgb[3 * i + c] * (256 - part) + v * part) / 256);
        }
    }
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
    if (p->blur.sigma)
        blur_make(p);
}

void picture_free(struct picture *p)
{
    free(p->mask);
    free(p->texture);
    free(p->grain);
    free(p->ground);
    free(p->blurred);
    for (int i = 1; i < MAX_LEVELS; i++) {
        free(p->above[i]);
        free(p->sum[i]);
    }
}

/* A tile of a level, [th][tw][3]; black beyond the picture, as most writers of slides pad. */
void picture_tile(struct picture *p, uint32_t level, uint32_t x, uint32_t y, uint32_t tw,
                  uint32_t th, uint8_t *rgb)
{
    uint32_t w = p->width >> 2 * level, h = p->height >> 2 * level;
    uint32_t n = w - x < tw ? w - x : tw;
    memset(rgb, 0, 3 * (size_t)tw * th);
    for (uint32_t r = 0; r < th && y + r < h; r++)
        picture_row(p, level, y + r, x, n, rgb + 3 * (size_t)tw * r);
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
