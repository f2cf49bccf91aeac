/*
 * bench_peers - the bare libraries on the same data: what our programs are measured beside.
 *
 *   bench_peers openslide SLIDE ROWS    reads the top ROWS rows, tile by tile: MP/s
 *   bench_peers fftw SECONDS            256 x 256 real-to-complex transforms, one thread: windows/s
 *
 * Prints one number. One thread each.
 */
#include <fftw3.h>
#include <inttypes.h>
#include <openslide.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int bench_openslide(const char *path, int64_t rows)
{
    int64_t width, height;
    openslide_t *o = openslide_open(path);
    if (!o || openslide_get_error(o))
        return fprintf(stderr, "%s: cannot be opened\n", path), 1;
    const char *side = openslide_get_property_value(o, "openslide.level[0].tile-width");
    const int64_t tile = side ? atoll(side) : 256;
    openslide_get_level0_dimensions(o, &width, &height);
    rows = rows < height ? rows : height;
    uint32_t *argb = malloc((size_t)(tile * tile) * sizeof *argb);
    const double begun = now();
    for (int64_t y = 0; y < rows; y += tile)
        for (int64_t x = 0; x < width; x += tile)
            openslide_read_region(o, argb, x, y, 0, tile, tile);
    printf("%.1f\n", (double)width * (double)rows / 1e6 / (now() - begun));
    free(argb);
    openslide_close(o);
    return 0;
}

static int bench_fftw(double seconds)
{
    enum { N = 256, BATCH = 64 };
    float *in = fftwf_malloc(sizeof(float) * N * N);
    fftwf_complex *out = fftwf_malloc(sizeof(fftwf_complex) * N * (N / 2 + 1));
    fftwf_plan plan = fftwf_plan_dft_r2c_2d(N, N, in, out, FFTW_ESTIMATE);
    for (int k = 0; k < N * N; k++)
        in[k] = (float)((unsigned)k * 2654435761u >> 24) - 128;
    const double begun = now();
    long done = 0;
    for (; now() - begun < seconds; done += BATCH)
        for (int k = 0; k < BATCH; k++)
            fftwf_execute_dft_r2c(plan, in, out);
    printf("%.0f\n", (double)done / (now() - begun));
    fftwf_destroy_plan(plan);
    fftwf_free(in);
    fftwf_free(out);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "openslide"))
        return bench_openslide(argv[2], atoll(argv[3]));
    if (argc == 3 && !strcmp(argv[1], "fftw"))
        return bench_fftw(atof(argv[2]));
    fputs("usage: bench_peers openslide SLIDE ROWS | fftw SECONDS\n", stderr);
    return 2;
}
