/* tiff_samples.c - see tiff_samples.h. */
#include "convert/readers/tiff/tiff_samples.h"

#include "common/base/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t tiff_value(const struct tiff_reading *r, uint16_t tag, uint64_t otherwise)
{
    return tiff_file_value(r->t, r->d, tag, otherwise);
}

int tiff_small(const struct tiff_reading *r, uint16_t tag, int otherwise)
{
    const uint64_t v = tiff_value(r, tag, (uint64_t)otherwise);
    return v <= UINT16_MAX ? (int)v : 0;
}

/* --- samples --- */

int tiff_compression(const struct tiff_reading *r, bool is_aperio)
{
    enum { JP2_LOSSY = 33004, JP2_OTHER = 34712 };
    const int c = tiff_small(r, TIFF_FILE_COMPRESSION, 1);
    if (is_aperio || (c != TILE_J2K_YCBCR && c != TILE_J2K_RGB && c != JP2_LOSSY && c != JP2_OTHER))
        return c;
    return tiff_file_photometric(r->t, r->d) == TILE_PHOTOMETRIC_YCBCR ? TILE_J2K_YCBCR
                                                                       : TILE_J2K_RGB;
}

uint8_t *tiff_palette(const struct tiff_reading *r)
{
    enum { COLOURS = 256, ALL = 3 * COLOURS };
    uint64_t v[ALL], most = 0;
    const struct tiff_tag *tag = tiff_directory_tag(r->d, TIFF_FILE_PALETTE);
    if (!tag || tag->count != ALL || !tiff_file_values(r->t, tag, 0, ALL, v))
        return NULL;
    uint8_t *palette = memory_need(ALL, 1);
    for (int k = 0; k < ALL; k++)
        most = v[k] > most ? v[k] : most;
    for (int k = 0; k < ALL; k++)
        palette[3 * (k % COLOURS) + k / COLOURS] = (uint8_t)(most > UINT8_MAX ? v[k] >> 8 : v[k]);
    return palette;
}

uint8_t *tiff_tables(const struct tiff_reading *r, size_t *bytes)
{
    enum { MOST_TABLES = 1 << 20 };
    const struct tiff_tag *tag = tiff_directory_tag(r->d, TIFF_FILE_JPEG_TABLES);
    char *tables = tag ? tiff_file_bytes(r->t, tag, MOST_TABLES) : NULL;
    *bytes = tables ? (size_t)tiff_tag_bytes(tag) : 0;
    return (uint8_t *)tables;
}

int tiff_alpha(const struct tiff_reading *r, int colours, int samples, bool *is_multiplied)
{
    uint64_t kind;
    const struct tiff_tag *tag = tiff_directory_tag(r->d, TIFF_FILE_EXTRA_SAMPLES);
    for (int k = colours; tag && k < samples; k++)
        if (tiff_file_values(r->t, tag, (uint64_t)(k - colours), 1, &kind) &&
            (kind == 1 || kind == 2)) {
            *is_multiplied = kind == 1;
            return k;
        }
    return 0;
}

int tiff_check_channels(int colours, int samples, bool has_alpha, bool leave, struct err *e)
{
    if (samples <= colours || has_alpha || (colours > 1 && leave))
        return 0;
    return err_set(e,
                   "its pixels have %d samples of %s, and ExtraSamples states no alpha: they are "
                   "channels; write the one that matters to a file of its own first",
                   samples, colours == 1 ? "gray" : "colour");
}

void tiff_note_left_out(int n, char *note, size_t size)
{
    if (n > 0)
        snprintf(note, size, "%d sample%s per pixel beside the colours %s left out", n,
                 n == 1 ? "" : "s", n == 1 ? "is" : "are");
}

void tiff_note_unitless(double px, struct slide_info *i)
{
    if (px > 0)
        slide_note(i,
                   "it states %.6g px per unit, but no unit of length that is known, so um per px "
                   "are unknown; --mpp-override X gives them",
                   px);
}

/* --- strips and tiles --- */

/* The values of a table of n segments, or NULL without one. */
static uint64_t *table(const struct tiff_reading *r, uint16_t number, uint16_t otherwise, int64_t n)
{
    const struct tiff_tag *tag = tiff_directory_tag(r->d, number);
    tag = tag ? tag : tiff_directory_tag(r->d, otherwise);
    if (!tag || tag->count < (uint64_t)n || (uint64_t)n > r->t->bytes)
        return NULL;
    uint64_t *v = malloc((size_t)n * sizeof *v);
    if (v && tiff_file_values(r->t, tag, 0, (size_t)n, v))
        return v;
    free(v);
    return NULL;
}

int tiff_places(const struct tiff_reading *r, bool strips, int64_t n, struct tile_place **places,
                struct err *e)
{
    uint64_t *at = table(r, strips ? TIFF_FILE_STRIP_OFFSETS : TIFF_FILE_TILE_OFFSETS,
                         TIFF_FILE_STRIP_OFFSETS, n);
    uint64_t *bytes =
        table(r, strips ? TIFF_FILE_STRIP_BYTES : TIFF_FILE_TILE_BYTES, TIFF_FILE_STRIP_BYTES, n);
    const bool stated = tiff_directory_tag(r->d, TIFF_FILE_STRIP_BYTES) ||
                        tiff_directory_tag(r->d, TIFF_FILE_TILE_BYTES);
    struct tile_place *list = at && (bytes || !stated) ? malloc((size_t)n * sizeof *list) : NULL;
    for (int64_t k = 0; list && k < n; k++) {
        const uint64_t end = k + 1 < n && at[k + 1] > at[k] ? at[k + 1] : r->t->bytes;
        list[k] = (struct tile_place){at[k], bytes ? bytes[k] : end > at[k] ? end - at[k] : 0};
    }
    free(at);
    free(bytes);
    *places = list;
    if (list)
        return 0;
    if (slide_may_pass(errno))
        return err_sys(e, "cannot read its directories");
    err_set(e, "damaged: its tables do not have %" PRId64 " entries; copy the slide again", n);
    return PICTURE_DAMAGED;
}
