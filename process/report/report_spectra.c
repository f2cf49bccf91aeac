/* report_spectra.c - see report_spectra.h. */
#include "process/report/report_spectra.h"

#include "common/base/cli.h"
#include "common/result/result_read.h"
#include "process/draw/colours.h"
#include "process/draw/html.h"
#include "process/draw/png_file.h"

#include <stdlib.h>

enum { SIDE = 128 }; /* px of a picture */

/* Mean bin number of a frequency of the whole plane, -N/2 <= v, u < N/2. */
static double mean_bin(const struct result_spectrum *x, int64_t n, int64_t v, int64_t u)
{
    const int64_t a = u < 0 ? -v : v, b = u < 0 ? -u : u; /* F(-v, -u) has the same magnitude */
    return (double)x->sums[((a + n) % n) * (n / 2 + 1) + b] / (double)x->windows;
}

/* The largest level of a block of frequencies, so that single peaks show. */
static uint8_t block_colour(const struct result_params *p, const struct result_spectrum *x,
                            int64_t row, int64_t col, int64_t block)
{
    const double width = (p->high_db - p->low_db) / (double)p->bins;
    double most = 0;
    for (int64_t v = row * block; v < (row + 1) * block; v++)
        for (int64_t u = col * block; u < (col + 1) * block; u++) {
            const double k = mean_bin(x, p->window, v - p->window / 2, u - p->window / 2);
            most = k > most ? k : most;
        }
    return (uint8_t)colours_number(p->low_db + width * (most + 0.5), REPORT_SPECTRUM_LOW,
                                   REPORT_SPECTRUM_HIGH, COLOURS_MAP);
}

static int put_png(FILE *f, const struct result_params *p, const struct result_spectrum *x,
                   struct err *e)
{
    const int64_t block = p->window > SIDE ? p->window / SIDE : 1, side = p->window / block;
    uint8_t *pixels = malloc((size_t)(side * side));
    if (!pixels)
        return err_set(e, "out of memory");
    for (int64_t y = 0; y < side; y++)
        for (int64_t c = 0; c < side; c++)
            pixels[y * side + c] = block_colour(p, x, y, c, block);
    const int bad = png_file_colours(f, pixels, side, side, COLOURS_PALETTE, 6, e);
    free(pixels);
    return bad;
}

static int put_spectrum(FILE *f, const struct result_params *p, const struct result_spectrum *x,
                        struct err *e)
{
    char *data = NULL;
    size_t n = 0;
    putc(' ', f);
    if (!x->sums || x->windows == 0)
        return 0;
    FILE *m = open_memstream(&data, &n);
    int bad = m ? put_png(m, p, x, e) : err_set(e, "out of memory");
    if (m && fclose(m) && !bad)
        bad = err_set(e, "out of memory");
    if (!bad)
        html_base64(f, (const uint8_t *)data, n);
    free(data);
    return bad;
}

int report_spectra_write(struct report_again *a, const struct report_slide *slide, FILE *f,
                         struct err *e)
{
    struct result_slide loaded;
    struct err why = {""};
    int bad = 0;
    if (slide->version < 2)
        return 0;
    if (report_load_again(a, slide, RESULT_WITH_SPECTRA, &loaded, &why)) {
        if (err_is_trouble(&why))
            return err_set(e, "%s", why.msg);
        cli_say("%s; the page does not show its spectra", why.msg);
        return 0;
    }
    for (int k = 0; k < FEATURES_SAMPLES && !bad; k++)
        bad = put_spectrum(f, result_params(a->open), &loaded.spectra[k], e);
    result_slide_free(&loaded);
    return bad;
}
