/* scan_traits.c - see scan_traits.h. */
#include "convert/tile/scan_traits.h"

#include "common/codec/jpeg_stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 4, /* blocks of a cell, each way */
    BLOCK = JPEG_BLOCK_SIDE,
    LEAST = 32,  /* cells */
    BRIGHT = 90, /* no tissue map calls a darker cell glass */
    WHITE = 255
};

/* The parts of a cell's variance. */
enum kind { UNEVEN, ROWS, COLUMNS, GRAIN, KINDS };

/* --- blocks --- */

static int make_room(struct jpeg_blocks *b, int64_t cols, int64_t rows, struct err *e)
{
    struct jpeg_block *of = b->of;
    if (cols * rows > b->room && !(of = realloc(of, (size_t)(cols * rows) * sizeof *of)))
        return err_memory(e);
    b->room = cols * rows > b->room ? cols * rows : b->room;
    b->of = of;
    b->cols = cols;
    b->rows = rows;
    return 0;
}

static struct jpeg_block block_of(const uint8_t *p, int channels, int64_t pitch)
{
    struct jpeg_block b = {0};
    double all = 0, explained = 0;
    for (int y = 0; y < BLOCK; y++)
        for (int x = 0; x < BLOCK; x++) {
            const uint8_t *c = p + (y * pitch + x) * channels;
            const double g = channels == 1 ? 1000 * c[0] : 299 * c[0] + 587 * c[1] + 114 * c[2];
            b.rows[y] += g;
            b.columns[x] += g;
            b.sum += g;
            all += g * g;
        }
    for (int k = 0; k < BLOCK; k++) {
        b.rows[k] -= b.sum / BLOCK;
        b.columns[k] -= b.sum / BLOCK;
        explained += b.rows[k] * b.rows[k] + b.columns[k] * b.columns[k];
    }
    b.rest = all - b.sum * b.sum / (BLOCK * BLOCK) - explained / BLOCK;
    return b;
}

int glass_take_pixels(struct glass *g, const uint8_t *pixels, int channels, int64_t pitch,
                      int64_t cols, int64_t rows, struct err *e)
{
    struct jpeg_blocks *b = &g->blocks;
    if (make_room(b, cols / BLOCK, rows / BLOCK, e))
        return -1;
    for (int64_t y = 0; y < b->rows; y++)
        for (int64_t x = 0; x < b->cols; x++)
            b->of[y * b->cols + x] =
                block_of(pixels + (y * pitch + x) * BLOCK * channels, channels, pitch);
    return 0;
}

/* --- cells --- */

/* The energy of the sums of a block's rows, or columns. */
static double energy_of(const double sums[BLOCK])
{
    double energy = 0;
    for (int k = 0; k < BLOCK; k++)
        energy += sums[k] * sums[k];
    return energy / BLOCK;
}

/* The place of the greatest steps, from their sums, if it is clear; 0: it is not. */
static uint8_t greatest(const double steps[BLOCK])
{
    double second = 0;
    int most = 0;
    for (int p = 1; p < BLOCK; p++)
        if (steps[p] > steps[most]) {
            second = steps[most];
            most = p;
        } else {
            second = fmax(second, steps[p]);
        }
    return (uint8_t)(20 * steps[most] >= 21 * second ? most : 0);
}

static uint8_t largest_part(const double part[KINDS])
{
    int most = UNEVEN;
    for (int k = 0; k < KINDS; k++)
        most = part[k] > part[most] ? k : most;
    return (uint8_t)(part[most] > 0 ? most : UNEVEN);
}

static struct glass_cell cell_of(const struct jpeg_blocks *b, int64_t col, int64_t row)
{
    const double px = BLOCK * BLOCK, unit = JPEG_BLOCK_UNIT, n = SIDE * SIDE;
    const struct jpeg_block *of[SIDE * SIDE];
    double sum = 0, squares = 0, part[KINDS] = {0};
    double step[2][BLOCK] = {{0}}, side_by_side[2][SIDE][BLOCK] = {{{0}}},
           together[2][BLOCK] = {{0}};
    struct glass_cell c = {0};
    for (int k = 0; k < SIDE * SIDE; k++) {
        of[k] = &b->of[(row * SIDE + k / SIDE) * b->cols + col * SIDE + k % SIDE];
        sum += of[k]->sum;
        squares += of[k]->sum * of[k]->sum;
        part[ROWS] += energy_of(of[k]->rows);
        part[COLUMNS] += energy_of(of[k]->columns);
        part[GRAIN] += of[k]->rest;
        for (int p = 1; p < BLOCK; p++) {
            const double down = of[k]->rows[p] - of[k]->rows[p - 1],
                         right = of[k]->columns[p] - of[k]->columns[p - 1];
            step[0][p] += fabs(down);
            step[1][p] += fabs(right);
            side_by_side[0][k / SIDE][p] += down;
            side_by_side[1][k % SIDE][p] += right;
        }
    }
    part[UNEVEN] = (squares - sum * sum / n) / px;
    const double all = part[UNEVEN] + part[ROWS] + part[COLUMNS] + part[GRAIN];
    /* coefficients of coarse tables can lie beyond what pixels hold */
    c.gray = fmin(fmax(sum / (n * px * unit), 0), WHITE);
    c.std = fmin(sqrt(fmax(all, 0) / (n * px)) / unit, WHITE);
    for (int d = 0; d < 2; d++) {
        for (int k = 0; k < SIDE * BLOCK; k++)
            together[d][k % BLOCK] += fabs(side_by_side[d][k / BLOCK][k % BLOCK]);
        c.place[d] = greatest(step[d]);
        c.straight[d] = together[d][c.place[d]] > 0.75 * step[d][c.place[d]];
    }
    for (int k = 0; k < 4; k++)
        c.kind[k] = largest_part((double[KINDS]){[UNEVEN] = part[UNEVEN],
                                                 [ROWS] = k & 1 ? 0 : part[ROWS],
                                                 [COLUMNS] = k & 2 ? 0 : part[COLUMNS],
                                                 [GRAIN] = part[GRAIN]});
    return c;
}

/* Room for so many more cells. */
static int grow(struct glass *g, int64_t more, struct err *e)
{
    if (g->n + more <= g->room)
        return 0;
    const int64_t room = 2 * (g->n + more);
    struct glass_cell *cell = realloc(g->cell, (size_t)room * sizeof *cell);
    if (!cell)
        return err_memory(e);
    g->cell = cell;
    g->room = room;
    return 0;
}

/* The mean gray of the darkest of a cell's neighbours, in the list of the tile's cells. */
static double least_near(const struct glass_cell *c, int64_t cols, int64_t rows, int64_t x,
                         int64_t y)
{
    double least = WHITE;
    for (int64_t v = y > 0 ? y - 1 : 0; v <= y + 1 && v < rows; v++)
        for (int64_t u = x > 0 ? x - 1 : 0; u <= x + 1 && u < cols; u++)
            least = fmin(least, c[v * cols + u].gray);
    return least;
}

int glass_add(struct glass *g, int64_t cols, int64_t rows, struct err *e)
{
    const int64_t side = SIDE * BLOCK, begun = g->n;
    cols = (cols / BLOCK < g->blocks.cols ? cols : g->blocks.cols * BLOCK) / side;
    rows = (rows / BLOCK < g->blocks.rows ? rows : g->blocks.rows * BLOCK) / side;
    if (grow(g, cols * rows, e))
        return -1;
    struct glass_cell *c = g->cell + begun;
    for (int64_t k = 0; k < cols * rows; k++)
        c[k] = cell_of(&g->blocks, k % cols, k / cols);
    for (int64_t k = 0; k < cols * rows; k++)
        c[k].least = (uint8_t)fmax(least_near(c, cols, rows, k % cols, k / cols), 0);
    for (int64_t k = 0; k < cols * rows; k++)
        if (c[k].least >= BRIGHT)
            g->cell[g->n++] = c[k];
    /* they take more room than the tile's pixels, and every task of the pipe would keep its own */
    free(g->blocks.of);
    g->blocks = (struct jpeg_blocks){0};
    return 0;
}

int glass_join(struct glass *g, const struct glass *other, struct err *e)
{
    if (grow(g, other->n, e))
        return -1;
    if (other->n > 0)
        memcpy(g->cell + g->n, other->cell, (size_t)other->n * sizeof *g->cell);
    g->n += other->n;
    return 0;
}

void glass_free(struct glass *g)
{
    free(g->cell);
    free(g->blocks.of);
    *g = (struct glass){0};
}

/* --- numbers --- */

static int by_gray(const void *a, const void *b)
{
    const struct glass_cell *x = a, *y = b;
    return x->gray < y->gray ? -1 : x->gray > y->gray;
}

static int by_std(const void *a, const void *b)
{
    const struct glass_cell *x = a, *y = b;
    return x->std < y->std ? -1 : x->std > y->std;
}

/* Moves the cells that are glass to the front, of all or of those that were scanned. */
static int64_t choose(struct glass *g, double dark, bool scanned)
{
    int64_t n = 0;
    for (int64_t k = 0; k < g->n; k++) {
        const struct glass_cell c = g->cell[k];
        if (c.least < dark || (scanned && c.gray >= WHITE && c.std == 0))
            continue;
        g->cell[k] = g->cell[n];
        g->cell[n++] = c;
    }
    return n;
}

void glass_find(struct glass *g, double dark, double numbers[GLASS_NUMBERS])
{
    int64_t n = choose(g, dark, true), of[KINDS] = {0}, at[2][BLOCK] = {{0}},
            straight[2][BLOCK] = {{0}}, most[2] = {0};
    int grid[2] = {0}; /* the place of another grid's borders, or 0 */
    if (n < LEAST)
        n = choose(g, dark, false);
    for (int k = 0; k < GLASS_NUMBERS; k++)
        numbers[k] = NAN;
    if (n < LEAST)
        return;
    for (int64_t k = 0; k < n; k++)
        for (int d = 0; d < 2; d++) {
            at[d][g->cell[k].place[d]]++;
            straight[d][g->cell[k].place[d]] += g->cell[k].straight[d];
        }
    for (int d = 0; d < 2; d++)
        for (int p = 1; p < BLOCK; p++) {
            if (4 * straight[d][p] > 3 * at[d][p])
                continue; /* lines at a multiple of 8 px */
            most[d] = at[d][p] > most[d] ? at[d][p] : most[d];
            grid[d] = 2 * at[d][p] > n ? p : grid[d];
        }
    for (int64_t k = 0; k < n; k++) {
        const uint8_t *place = g->cell[k].place;
        of[g->cell[k]
               .kind[(grid[0] && place[0] == grid[0]) + 2 * (grid[1] && place[1] == grid[1])]]++;
    }
    qsort(g->cell, (size_t)n, sizeof *g->cell, by_gray);
    numbers[GLASS_GRAY] = g->cell[n / 2].gray;
    numbers[GLASS_RANGE] = g->cell[n - 1 - n / 20].gray - g->cell[n / 20].gray;
    qsort(g->cell, (size_t)n, sizeof *g->cell, by_std);
    numbers[GLASS_STD] = g->cell[n / 2].std;
    numbers[GLASS_ROWS] = (double)of[ROWS] / (double)n;
    numbers[GLASS_COLUMNS] = (double)of[COLUMNS] / (double)n;
    numbers[GLASS_GRAIN] = (double)of[GRAIN] / (double)n;
    numbers[GLASS_GRID] = (double)(most[0] > most[1] ? most[0] : most[1]) / (double)n;
}

/* --- how JPEG tiles were compressed --- */

enum { ENOUGH = 500, FREQUENCIES = 128 }; /* blocks of a coefficient; steps of f */

/* --- quality and subsampling --- */

/* ITU-T T.81, table K.1, row by row. */
static const uint8_t standard[64] = {
    16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
    14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
    18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
};

/* How far a table in zigzag order is from that of an IJG quality. */
static long distance(const uint16_t *table, int quality)
{
    const int scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;
    long sum = 0;
    for (int z = 0; z < 64; z++) {
        const int q = (standard[jpeg_zigzag[z]] * scale + 50) / 100;
        sum += labs((long)table[z] - (q < 1 ? 1 : q > 255 ? 255 : q));
    }
    return sum;
}

static int nearest_quality(const uint16_t *table)
{
    int best = 100;
    long least = distance(table, best);
    for (int q = 99; q >= 1; q--) {
        const long d = distance(table, q);
        if (d < least) {
            least = d;
            best = q;
        }
    }
    return best;
}

static const char *subsampling_of(const struct jpeg_header *h)
{
    static const struct {
        int h, v;
        const char *name;
    } known[] = {
        {1, 1, "4:4:4"}, {2, 1, "4:2:2"}, {2, 2, "4:2:0"}, {1, 2, "4:4:0"}, {4, 1, "4:1:1"}};
    const struct jpeg_component *c = h->component;
    if (h->components == 1)
        return "gray";
    if (c[1].h != c[2].h || c[1].v != c[2].v)
        return "other";
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (c[0].h == known[k].h * c[1].h && c[0].v == known[k].v * c[1].v)
            return known[k].name;
    return "other";
}

/* Takes the tables of a tile, or of tiles, into account. */
static void note(struct jpeg_history *p, int64_t tiles, int quality, const char *subsampling)
{
    if (p->tiles == 0 || quality < p->quality)
        p->quality = quality;
    if (p->tiles > 0 && strcmp(p->subsampling, subsampling))
        subsampling = "other";
    snprintf(p->subsampling, sizeof p->subsampling, "%s", subsampling);
    p->tiles += tiles;
}

int jpeg_history_add(struct jpeg_history *p, struct jpeg_decoder *d, const struct jpeg_chunk *tile,
                     int64_t cols, int64_t rows, struct jpeg_blocks *blocks, struct err *e)
{
    struct jpeg_header h;
    if (jpeg_header_read(&h, tile->bytes, tile->n, e))
        return JPEG_DAMAGED;
    const int r = jpeg_count(d, tile->bytes, tile->n, cols, rows, &p->counts, blocks, e);
    if (r)
        return r;
    note(p, 1, nearest_quality(h.quant[h.component[0].quant]), subsampling_of(&h));
    return 0;
}

void jpeg_history_join(struct jpeg_history *p, const struct jpeg_history *other)
{
    if (other->tiles == 0)
        return;
    note(p, other->tiles, other->quality, other->subsampling);
    for (int z = 0; z < JPEG_LOW; z++)
        for (int k = 0; k <= JPEG_LEVELS; k++)
            p->counts.n[z][k] += other->counts.n[z][k];
}

/* --- compressed twice --- */

/* The largest rise of S(f), times the number of blocks. */
static double largest_rise(const uint32_t *n)
{
    double lowest = INFINITY, rise = 0;
    for (int f = 0; f <= FREQUENCIES; f++) {
        double s = 0;
        for (int k = 1; k <= JPEG_LEVELS; k++)
            s += n[k] * cos(acos(-1) * f * k / FREQUENCIES);
        lowest = s < lowest ? s : lowest;
        rise = s - lowest > rise ? s - lowest : rise;
    }
    return rise;
}

double jpeg_history_twice(const struct jpeg_history *p)
{
    double sum = 0;
    int used = 0;
    for (int z = 0; z < JPEG_LOW; z++) {
        double blocks = 0;
        for (int k = 1; k <= JPEG_LEVELS; k++)
            blocks += p->counts.n[z][k];
        if (blocks < ENOUGH)
            continue;
        sum += largest_rise(p->counts.n[z]) / blocks;
        used++;
    }
    return used ? fmin(sum / used, 1) : NAN;
}
