/*
 * slide_pixels - the pixels of a slide as OpenSlide returns them, for comparison with stores.
 *
 *   slide_pixels SLIDE [LEVEL]     writes height x width x 3 bytes of RGB to stdout, and "width
 *                                  height" to stderr
 *
 * It shares no code with the converter. Level 0 is read in strips of full width and an odd height,
 * which have nothing to do with tiles. A coarser level is read as a whole from its corner, because
 * OpenSlide interpolates from everywhere else.
 */
#include <inttypes.h>
#include <math.h>
#include <openslide.h>
#include <stdio.h>
#include <stdlib.h>

enum { STRIP_ROWS = 317 };

static int fail(const char *path, const char *what)
{
    fprintf(stderr, "slide_pixels: %s: %s\n", path, what);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return fail("usage", "slide_pixels SLIDE [LEVEL]");
    const int32_t level = argc > 2 ? (int32_t)atoi(argv[2]) : 0;
    openslide_t *o = openslide_open(argv[1]);
    if (!o || openslide_get_error(o))
        return fail(argv[1], o ? openslide_get_error(o) : "not a slide");
    int64_t width, height;
    unsigned background = 0xffffff;
    const char *color = openslide_get_property_value(o, "openslide.background-color");
    openslide_get_level_dimensions(o, level, &width, &height);
    const double downsample = openslide_get_level_downsample(o, level);
    if (color)
        background = (unsigned)strtoul(color, NULL, 16);
    const int64_t strip = level ? height : STRIP_ROWS;
    uint32_t *argb = malloc((size_t)(width * strip) * sizeof *argb);
    unsigned char *line = malloc((size_t)width * 3);
    if (!argb || !line)
        return fail(argv[1], "out of memory");
    for (int64_t y = 0; y < height; y += strip) {
        const int64_t rows = height - y < strip ? height - y : strip;
        openslide_read_region(o, argb, 0, llround((double)y * downsample), level, width, rows);
        if (openslide_get_error(o))
            return fail(argv[1], openslide_get_error(o));
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t x = 0; x < width; x++)
                for (int c = 0; c < 3; c++) {
                    const int shift = 16 - 8 * c;
                    const uint32_t p = argb[r * width + x];
                    const double clear = (255 - (p >> 24)) / 255.0;
                    const double under = clear * (background >> shift & 255);
                    line[3 * x + c] = (unsigned char)lround((p >> shift & 255) + under);
                }
            if (fwrite(line, 3, (size_t)width, stdout) != (size_t)width)
                return fail(argv[1], "cannot write");
        }
    }
    fprintf(stderr, "%" PRId64 " %" PRId64 "\n", width, height);
    free(argb);
    free(line);
    openslide_close(o);
    return fflush(stdout) ? fail(argv[1], "cannot write") : 0;
}
