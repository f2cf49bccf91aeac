/*
 * test_scores - maps of scores do not depend on the memory for their cells: a file that is read
 * once per band of rows gives the values and the coverage of one that is read once.
 */
#include "common/base/memory.h"
#include "process/scores/score_map.h"
#include "tests/unit.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 1500, HEIGHT = 1100, PATCHES = 400 };
enum { ENOUGH = 64 << 20, LITTLE = 64 << 10, LEAST = 1 };

/* The next of a fixed sequence of numbers from 0 to before n. */
static int next(int n)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((state >> 33) % (uint64_t)n);
}

/* A table of two values, of which some are missing; patches overlap, leave gaps and go beyond the
 * slide. In double some sums would depend on the order of the rows. */
static void write_table(char *path)
{
    static const char *const odd[] = {"9e8", "0.125", "-9e8", ""};
    const int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    EXPECT(f);
    if (!f)
        return;
    fputs("x,y,size,a,b\n", f);
    for (int k = 0; k < PATCHES; k++)
        fprintf(f, "%d,%d,%d,%s,0.%03d\n", next(WIDTH + 30) - 30, next(HEIGHT + 30) - 30,
                32 + next(200), odd[next(4)], next(1000));
    EXPECT(fclose(f) == 0);
}

/* Values and coverage of all cells, [value][row][2][column]; owned by the caller. */
static float *map_of(const char *path, enum weights weights, int64_t cell, int64_t memory,
                     size_t *n)
{
    const struct score_map_setup setup = {.path = path,
                                          .file = {.limit = -1},
                                          .weights = weights,
                                          .width = WIDTH,
                                          .height = HEIGHT,
                                          .cell = cell,
                                          .side = SCORES_SIDE,
                                          .memory = memory};
    struct score_map m;
    struct err e = {0};
    const int bad = score_map_make(&setup, &m, &e);
    EXPECT(!bad && m.n == 2 && m.patches == PATCHES);
    *n = bad ? 0 : 2 * (size_t)(m.n * m.rows * m.cols);
    float *out = memory_need(*n + 1, sizeof *out), *at = out;
    for (int v = 0; !bad && v < m.n; v++)
        for (int64_t row = 0; row < m.rows; row++, at += 2 * m.cols)
            EXPECT(!score_map_row(&m, v, row, at, at + m.cols, &e));
    score_map_free(&m);
    return out;
}

static void test_bands_give_the_map_of_one_pass(void)
{
    static const int64_t cells[] = {32, 50, 700, 4096};
    char path[] = "/tmp/test-scores-XXXXXX";
    write_table(path);
    for (int c = 0; c < 4; c++)
        for (int w = WEIGHTS_BOX; w <= WEIGHTS_GAUSS; w++) {
            size_t n, m;
            float *whole = map_of(path, (enum weights)w, cells[c], ENOUGH, &n);
            for (int64_t memory = LEAST; memory <= LITTLE; memory *= LITTLE) {
                float *bands = map_of(path, (enum weights)w, cells[c], memory, &m);
                EXPECT(n > 0 && m == n && !memcmp(whole, bands, n * sizeof *whole));
                free(bands);
            }
            free(whole);
        }
    unlink(path);
}

int main(void)
{
    return UNIT_RUN("scores", UNIT(bands_give_the_map_of_one_pass));
}
