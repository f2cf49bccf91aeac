/* test_spectrum - maps of windows and tissue windows. */
#include "process/engine/job_windows.h"
#include "process/spectrum/spectrum.h"
#include "tests/unit.h"

#include <math.h>

/* Windows whose values spread over less than one bin have a small std, not none. */
static void test_std_of_nearly_flat_windows(void)
{
    const struct result_params p = spectrum_defaults();
    const uint64_t n = (uint64_t)(p.window * p.window);
    float mean, std;
    for (uint64_t other = 1; other < n; other *= 2) { /* so many values are one bin higher */
        const struct spectrum_window w = {.n = n,
                                          .sum = 700 * n + other,
                                          .squares =
                                              700 * 700 * n + (701 * 701 - 700 * 700) * other};
        const double q = (double)other / (double)n;
        spectrum_window_moments(&p, &w, &mean, &std);
        EXPECT(fabs((double)mean - (70.05 + 0.1 * q)) < 1e-5);
        EXPECT(fabs((double)std - 0.1 * sqrt(q * (1 - q))) < 1e-6);
        EXPECT(std > 0);
    }
    const struct spectrum_window flat = {.n = n, .sum = 700 * n, .squares = 700 * 700 * n};
    spectrum_window_moments(&p, &flat, &mean, &std);
    EXPECT(std >= 0 && std < 1e-5f);
}

static void test_maps_of_a_window(void)
{
    const struct result_params p = spectrum_defaults();
    float mean[6] = {0}, std[6] = {0}, others[RESULT_MAPS][6];
    struct result_map maps[RESULT_MAPS];
    for (int m = 0; m < RESULT_MAPS; m++)
        maps[m] = (struct result_map){.values = others[m]};
    maps[RESULT_MEAN].values = mean;
    maps[RESULT_STD].values = std;
    struct spectrum_features features = {.values = {4, 4, 4, 4, 4, 4, 4}};
    const struct spectrum_band d = {.nx = 3, .ny = 2, .maps = maps, .features = &features};
    const struct spectrum_window w = {.n = 4, .sum = 500, .squares = 3 * 10000 + 40000};
    spectrum_put_window(&p, &d, 4, &w);
    spectrum_put_window(&p, &d, 5, &(struct spectrum_window){0});
    EXPECT(fabsf(mean[4] - 12.55f) < 1e-5f && fabsf(std[4] - sqrtf(18.75f)) < 1e-5f);
    EXPECT(isnan(mean[5]) && isnan(std[5]) && mean[3] == 0 && std[3] == 0);
}

/* Px of tissue in a window, one by one. */
static int64_t tissue_px(const uint8_t *mask, int64_t cols, int64_t rows, int64_t cell, int64_t x,
                         int64_t y, int64_t n)
{
    int64_t px = 0;
    for (int64_t v = y; v < y + n; v++)
        for (int64_t u = x; u < x + n; u++)
            px += v / cell < rows && u / cell < cols && mask[v / cell * cols + u / cell];
    return px;
}

static void check_tissue(int64_t cols, int64_t rows, int64_t stride, double least)
{
    enum { CELL = 32, NX = 9, NY = 7 };
    struct result_params p = spectrum_defaults();
    struct err e = {0};
    uint8_t mask[32 * 32], wanted[NX * NY], percent[NX * NY];
    int counted = 0;
    p.window = 64;
    p.stride = stride;
    p.min_tissue = least;
    for (int64_t k = 0; k < cols * rows; k++)
        mask[k] = k * k % 7 < 3;
    EXPECT(!tissue_windows_find(&p, mask, cols, rows, CELL, NX, NY, wanted, percent, &e));
    for (int64_t j = 0; j < NY; j++)
        for (int64_t i = 0; i < NX; i++) {
            const int64_t px = tissue_px(mask, cols, rows, CELL, i * stride, j * stride, 64);
            EXPECT(wanted[j * NX + i] == ((double)px >= least * 64 * 64));
            EXPECT(percent[j * NX + i] == (px > 0 && px < 41 ? 1 : px * 100 / 4096));
            counted += wanted[j * NX + i];
        }
    EXPECT(counted > 0 && (least == 0 || counted < NX * NY));
}

static void test_tissue_windows(void)
{
    check_tissue(20, 16, 64, 0.75);
    check_tissue(20, 16, 37, 0.7);
    check_tissue(20, 16, 11, 0.72);
    check_tissue(11, 9, 40, 0.7); /* windows reach beyond the mask */
    check_tissue(20, 16, 37, 0);
}

int main(void)
{
    return UNIT_RUN("test_spectrum", UNIT(std_of_nearly_flat_windows), UNIT(maps_of_a_window),
                    UNIT(tissue_windows));
}
