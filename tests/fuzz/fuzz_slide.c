/*
 * fuzz_slide.c - a tiled TIFF or DICOM file from bytes: its directories or header, some tiles of
 * levels 0 and 1 as RGB, gray, at 1/8 and as chunks of codec jpeg, properties, thumbnail and ICC
 * profile. Without OpenSlide: only this project's readers. Of an NDPI file, which needs OpenSlide,
 * the tiles of the first level. An input that begins with FUZZ_SERIES is several files of one
 * folder: the parts and levels of a DICOM series. Of a PNG the checksums are made right first,
 * unless its last byte is odd: random bytes would never get past them.
 */
#include "common/codec/jpeg_stream.h"
#include "convert/privacy/identifiers.h"
#include "convert/readers/slide.h"
#include "convert/readers/slide_ndpi.h"
#include "convert/readers/tiff/tiff_file.h"
#include "convert/tile/tile_lossless.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIXELS = 1 << 20 }; /* of a tile; larger ones only cost time */

static int put(void *ctx, const char *key, const char *value)
{
    *(size_t *)ctx += strlen(key) + strlen(value) + identifiers_allow(key, value);
    return 0;
}

/* One tile in every form that its reader has. */
static void read_tile(struct slide *s, const struct slide_info *i, int64_t col, int64_t row,
                      uint8_t *room)
{
    enum store_status status;
    struct err e;
    for (int channels = 1; channels <= 3; channels += 2)
        if (s->reader->read(s, 0, col, row, channels, room, &status, &e) == 0)
            FUZZ_MUST(status <= STORE_DAMAGED);
    if (i->has_eighth && s->reader->read_eighth(s, 0, col, row, room, &status, &e) == 0)
        FUZZ_MUST(status <= STORE_DAMAGED);
}

/* The tile as a chunk of codec jpeg or j2k. */
static void keep_tile(struct slide *s, const struct slide_info *i, int64_t col, int64_t row,
                      uint8_t *room)
{
    enum store_status status;
    struct jpeg_chunk chunk = {0};
    struct err e;
    if (s->reader->read_kept && (i->is_j2k || !i->no_jpeg[0]) &&
        s->reader->read_kept(s, 0, col, row, &chunk, room, &status, &e) == 0 &&
        status == STORE_WHOLE)
        FUZZ_MUST(chunk.n > 4 && (i->is_j2k || (chunk.bytes[0] == 0xff && chunk.bytes[1] == 0xd8)));
    free(chunk.bytes);
}

static void read_tiles(struct slide *s, const struct slide_info *i)
{
    const int64_t pixels = i->tile_cols * i->tile_rows;
    const int64_t cols = (i->width + i->tile_cols - 1) / i->tile_cols;
    const int64_t rows = (i->height + i->tile_rows - 1) / i->tile_rows;
    uint8_t *room = pixels <= MOST_PIXELS ? malloc((size_t)(3 * pixels)) : NULL;
    if (!room)
        return;
    if (s->reader->prefetch)
        s->reader->prefetch(s, 0, rows < 4 ? rows : 4);
    read_tile(s, i, 0, 0, room);
    keep_tile(s, i, 0, 0, room);
    keep_tile(s, i, cols - 1, rows - 1, room);
    read_tile(s, i, cols / 2, rows / 2, room);
    read_tile(s, i, cols - 1, rows - 1, room);
    free(room);
}

static void read_level(const struct slide_file *file, int64_t level)
{
    struct slide_info i;
    struct err damage = {0}, e = {0};
    struct slide_extras extras = {0};
    size_t bytes = 0;
    struct slide *s = slide_open(file, level, 1, &i, &e);
    if (!s)
        return;
    FUZZ_MUST(i.width > 0 && i.height > 0 && i.tile_cols > 0 && i.tile_rows > 0);
    FUZZ_MUST(isnan(i.mpp_x) || i.mpp_x > 0);
    fuzz_accepted += level == 0;
    read_tiles(s, &i);
    s->reader->properties(s, put, &bytes);
    slide_extras_read(&extras, s, &i, false, true, &damage, &e);
    slide_extras_free(&extras);
    slide_close(s);
}

/* The size that the first directory states. */
static bool stated_size(const struct slide_file *file, int64_t *width, int64_t *height)
{
    if (!ndpi_is(file))
        return false;
    const struct tiff_file *t = tiff_file_of(file);
    const struct tiff_directory *d = tiff_file_directory(t, t->first);
    *width = (int64_t)tiff_file_value(t, d, TIFF_FILE_WIDTH, 0);
    *height = (int64_t)tiff_file_value(t, d, TIFF_FILE_LENGTH, 0);
    return true;
}

static void read_ndpi(const struct slide_file *file)
{
    struct ndpi_level l;
    struct tile_bytes tile = {0};
    struct err e;
    int64_t width, height;
    if (!stated_size(file, &width, &height) || ndpi_level_read(&l, file, width, height, &e) <= 0)
        return;
    const int64_t rows = (l.height + l.rows - 1) / l.rows;
    fuzz_accepted++;
    ndpi_level_prefetch(&l, 0, rows < 4 ? rows : 4);
    for (int64_t k = 0; k < 4; k++)
        if (ndpi_level_gather(&l, k % l.across, k % 2 ? rows - 1 : 0, &tile, &e) == 0)
            FUZZ_MUST(tile.n <= tile.size && tile.bytes[tile.n - 1] == 0xd9);
    free(tile.bytes);
    ndpi_level_free(&l);
}

static uint32_t crc_of(const uint8_t *p, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t k = 0; k < 8 * n; k++)
        crc = crc >> 1 ^ (((crc ^ (uint32_t)(p[k / 8] >> k % 8)) & 1) ? 0xedb88320 : 0);
    return ~crc;
}

/* A copy of a PNG with the right checksums, or NULL. To be free()d. */
static uint8_t *right_checksums(const uint8_t *data, size_t n)
{
    uint8_t *png =
        n > 8 && !memcmp(data, "\x89PNG\r\n\x1a\n", 8) && data[n - 1] % 2 == 0 ? malloc(n) : NULL;
    if (png)
        memcpy(png, data, n);
    for (size_t at = 8, bytes; png && n - at >= 12; at += 12 + bytes) {
        bytes = (size_t)png[at] << 24 | (size_t)png[at + 1] << 16 | (size_t)png[at + 2] << 8 |
                png[at + 3];
        if (bytes > n - at - 12)
            break;
        const uint32_t crc = crc_of(png + at + 4, 4 + bytes);
        for (int k = 0; k < 4; k++)
            png[at + 8 + bytes + (size_t)k] = (uint8_t)(crc >> (24 - 8 * k));
    }
    return png;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[FUZZ_PATH];
    tile_lossless_silence();
    uint8_t *png = right_checksums(data, n);
    fuzz_files(png ? png : data, n, path);
    free(png);
    struct slide_file *file = slide_file_open(path, NULL);
    if (!file)
        return 0;
    for (int64_t level = 0; level < 2; level++)
        read_level(file, level);
    read_ndpi(file);
    slide_file_close(file);
    return 0;
}
