/*
 * slide_dicom.c - DICOM whole-slide images with JPEG or JPEG 2000 tiles, read directly.
 *
 * dicom_slide.h finds the files of the slide, dicom_frames.h says where each tile lies, and
 * tile_file.h reads the tiles. OpenSlide before version 4 does not read DICOM, so what this reader
 * rejects is not left to it: every system gives one answer.
 *
 * The colours of a tile are those that the file states (photometric interpretation), unless its
 * stream states others itself (tile.h).
 */
#include "convert/readers/frame/tile_file.h"

#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/read_at.h"
#include "convert/readers/dicom/dicom_frames.h"
#include "convert/readers/dicom/dicom_slide.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PROFILE = 1 << 26, MOST_THUMBNAIL = 1 << 24 };

/*
 * The SHA-256 of a few bytes (FIPS 180-4), for quickhashes.
 *
 * OpenSlide's quickhash-1 of a DICOM slide is the SHA-256 of its series. It must be known in builds
 * whose OpenSlide does not read DICOM, too. A library for one call would be one more dependency.
 */

enum { SHA256_TEXT = 65, SHA256_MOST = 1 << 20 };

enum { BLOCK = 64 };

static const uint32_t ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t v, int bits)
{
    return v >> bits | v << (32 - bits);
}

/* The 64 words of a block's message schedule. */
static void schedule(const uint8_t *block, uint32_t w[64])
{
    for (int k = 0; k < 16; k++)
        w[k] = (uint32_t)block[4 * k] << 24 | (uint32_t)block[4 * k + 1] << 16 |
               (uint32_t)block[4 * k + 2] << 8 | block[4 * k + 3];
    for (int k = 16; k < 64; k++) {
        const uint32_t a = w[k - 15], b = w[k - 2];
        w[k] = w[k - 16] + w[k - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
}

static void add_block(uint32_t hash[8], const uint8_t *block)
{
    uint32_t w[64], s[8]; /* s: the working variables a to h */
    schedule(block, w);
    memcpy(s, hash, sizeof s);
    for (int k = 0; k < 64; k++) {
        const uint32_t e = turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25);
        const uint32_t a = turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22);
        const uint32_t t1 = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + ROUNDS[k] + w[k];
        const uint32_t t2 = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int k = 0; k < 8; k++)
        hash[k] += s[k];
}

/* The digest of n bytes, at most SHA256_MOST, as 64 hexadecimal digits. */
static void sha256_text(const void *bytes, size_t n, char text[SHA256_TEXT])
{
    uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t end[2 * BLOCK] = {0};
    const uint8_t *p = bytes;
    const size_t left = n % BLOCK, ends = left < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    assert(n <= SHA256_MOST);
    for (size_t at = 0; at + BLOCK <= n; at += BLOCK)
        add_block(hash, p + at);
    memcpy(end, p + (n - left), left);
    end[left] = 0x80;
    for (size_t k = 0; k < 4; k++) /* the length in bits, big endian */
        end[ends - 1 - k] = (uint8_t)(8 * n >> 8 * k);
    for (size_t at = 0; at < ends; at += BLOCK)
        add_block(hash, end + at);
    for (int k = 0; k < 8; k++)
        snprintf(text + 8 * k, 9, "%08x", hash[k]);
}

struct dicom_reader {
    struct tiled_slide common;
    const struct slide_file *file;
    struct dicom_slide files;
    struct slide_info info;
    struct tile_place *places;
};

static struct dicom_reader *from_slide(struct slide *s)
{
    return (struct dicom_reader *)s;
}

/* --- opening and closing --- */

static void dicom_close(struct slide *s)
{
    struct dicom_reader *d = from_slide(s);
    tile_file_close(d->common.tiles);
    dicom_slide_free(&d->files);
    free(d->places);
    free(d);
}

/* YBR_RCT is the lossless transform of JPEG 2000, which is no YCbCr: such tiles are RGB. */
static struct tile_format format_of(const struct dicom_instance *i)
{
    const bool is_rgb = !strcmp(i->photometric, "RGB") || !strcmp(i->photometric, "YBR_RCT") ||
                        dicom_instance_is_gray(i);
    const bool is_j2k = dicom_instance_is_j2k(i);
    return (struct tile_format){.compression = dicom_instance_is_native(i) ? TILE_NONE
                                               : !is_j2k                   ? TILE_JPEG
                                               : is_rgb                    ? TILE_J2K_RGB
                                                                           : TILE_J2K_YCBCR,
                                .photometric = dicom_instance_is_gray(i) ? TILE_PHOTOMETRIC_GRAY
                                               : is_rgb                  ? TILE_PHOTOMETRIC_RGB
                                                                         : TILE_PHOTOMETRIC_YCBCR,
                                .stream_decides = !dicom_instance_is_gray(i),
                                .transformed = !strcmp(i->photometric, "YBR_ICT"),
                                .cols = i->cols,
                                .rows = i->rows};
}

/* The tiles of a level, or of the thumbnail. As dicom_frames_read. */
static int open_tiles(const struct dicom_level *l, int threads, struct tile_place **places,
                      struct tile_file **tiles, int *bad, struct dicom_frames_said *said,
                      struct err *e)
{
    const struct dicom_instance *i = dicom_slide_instance(l);
    const struct slide_file *others[TILE_FILES];
    struct tile_grid g = {.format = format_of(i),
                          .cols = dicom_frames_cols(i),
                          .rows = dicom_frames_rows(i),
                          .width = i->width,
                          .height = i->height,
                          .others = others,
                          .n_others = l->n - 1,
                          .unwrap = dicom_instance_is_native(i) ? NULL : dicom_frames_join,
                          .background = {255, 255, 255}};
    const int r = dicom_frames_read(l->parts, l->n, places, bad, said, e);
    g.places = *places;
    for (int k = 1; k < l->n; k++)
        others[k - 1] = l->parts[k].file;
    if (r > 0)
        *tiles = tile_file_open(l->parts[0].file, &g, threads);
    return r;
}

static void describe(struct dicom_reader *d, int64_t level, const struct dicom_frames_said *said)
{
    const struct dicom_instance *i = dicom_slide_instance(&d->files.levels[level]);
    const struct dicom_instance *base = dicom_slide_instance(&d->files.levels[0]);
    const bool is_j2k = dicom_instance_is_j2k(i), is_native = dicom_instance_is_native(i);
    const bool is_jpeg = !is_j2k && !is_native, is_gray = dicom_instance_is_gray(i);
    d->info = (struct slide_info){.level = level,
                                  .vendor = "dicom",
                                  .downsample = dicom_slide_downsample(&d->files, level),
                                  .levels = d->files.n,
                                  .has_eighth = is_jpeg && i->cols % 8 == 0 && i->rows % 8 == 0,
                                  .gray_is_luma =
                                      is_jpeg && !is_gray && strcmp(i->photometric, "RGB") != 0,
                                  .is_gray = is_gray,
                                  .is_j2k = is_j2k && !is_gray,
                                  .has_thumbnail = d->files.thumbnail.n > 0,
                                  .width = i->width,
                                  .height = i->height,
                                  .tile_cols = i->cols,
                                  .tile_rows = i->rows,
                                  .objective_power = base->objective_power,
                                  .background = {255, 255, 255}};
    snprintf(d->info.tile_compression, sizeof d->info.tile_compression, "%s",
             is_native ? "uncompressed"
             : is_j2k  ? "JPEG 2000"
                       : "JPEG");
    if (is_j2k)
        snprintf(d->info.no_jpeg, sizeof d->info.no_jpeg, "its %s",
                 is_gray ? "JPEG 2000 tiles are gray" : "tiles are JPEG 2000");
    if (is_native)
        snprintf(d->info.no_jpeg, sizeof d->info.no_jpeg, "its tiles are uncompressed");
    for (int64_t k = 0; k < d->files.n; k++)
        d->info.downsamples[k] = dicom_slide_downsample(&d->files, k);
    dicom_instance_mpp(base, &d->info.mpp_x, &d->info.mpp_y);
    sha256_text(base->series, strlen(base->series) + 1, d->info.quickhash);
    int n = snprintf(d->info.note, sizeof d->info.note, "%.120s", said->note.msg);
    if (dicom_slide_lacks_base(&d->files))
        snprintf(d->info.note + n, sizeof d->info.note - (size_t)n,
                 "%sthe file of its level 0 is not in the folder; level 0 of the store is the "
                 "largest that is, resampled to %" PRId64 " x %" PRId64 " px of %.4g um",
                 n ? "; " : "", base->width, base->height, d->info.mpp_x);
    snprintf(d->info.problem, sizeof d->info.problem, "%.200s", said->problem.msg);
}

/* Can the level be read directly? As slide_reader.open. */
static int check_level(const struct dicom_slide *s, int64_t level, struct err *e)
{
    if (level >= s->n)
        return slide_reject_level(s->n, level, e);
    const struct dicom_instance *i = dicom_slide_instance(&s->levels[level]);
    const char *obstacle = dicom_instance_obstacle(i);
    if (dicom_instance_check_single(i, e))
        return -1;
    if (!obstacle)
        return 1;
    err_set(e, "%s (level %" PRId64 ": %s, %s, %" PRId64 " samples of %" PRId64 " bits)", obstacle,
            level, dicom_instance_syntax(i), i->photometric, i->samples, i->bits_stored);
    return 0;
}

static int open_level(struct dicom_reader *d, int64_t level, int threads, struct err *e)
{
    struct dicom_frames_said said = {0};
    const struct dicom_level *l = &d->files.levels[level];
    int bad;
    const int r = open_tiles(l, threads, &d->places, &d->common.tiles, &bad, &said, e);
    if (r > 0)
        describe(d, level, &said);
    if (r < 0 && bad >= 0 && l->parts[bad].file != d->file)
        err_add(e, "%s of its series", l->parts[bad].file->path);
    return r;
}

static int dicom_open(struct slide **out, const struct slide_file *file, int64_t level, int threads,
                      struct slide_info *info, struct err *e)
{
    struct dicom_reader *d = memory_need(1, sizeof *d);
    d->file = file;
    d->common.slide.reader = &slide_dicom;
    errno = 0;
    int r = dicom_slide_find(&d->files, file, e);
    if (r > 0)
        r = check_level(&d->files, level, e);
    if (r > 0)
        r = open_level(d, level, threads, e);
    if (r <= 0) {
        const int code = errno;
        dicom_close(&d->common.slide);
        errno = code;
        return r;
    }
    *info = d->info;
    *out = &d->common.slide;
    return 1;
}

/* --- metadata --- */

struct put {
    int (*put)(void *ctx, const char *key, const char *value);
    void *ctx;
    int r; /* of the last call */
};

static void put_text(struct put *p, const char *key, const char *value)
{
    if (p->r == 0)
        p->r = p->put(p->ctx, key, value);
}

/* A number as OpenSlide writes it; nothing for NaN. */
static void put_number(struct put *p, const char *key, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    if (!isnan(value))
        put_text(p, key, text);
}

static void put_level(struct put *p, const struct dicom_slide *s, int64_t level)
{
    const struct dicom_instance *i = dicom_slide_instance(&s->levels[level]);
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"downsample", dicom_slide_downsample(s, level)},
                   {"width", (double)i->width},
                   {"height", (double)i->height},
                   {"tile-width", (double)i->cols},
                   {"tile-height", (double)i->rows}};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        char key[80];
        snprintf(key, sizeof key, "openslide.level[%" PRId64 "].%s", level, numbers[k].name);
        put_number(p, key, numbers[k].value);
    }
}

/* Named as OpenSlide names them. OpenSlide 4, which knows more, reads every file of the folder for
 * each of its slides. */
static int dicom_properties(struct slide *s,
                            int (*put)(void *ctx, const char *key, const char *value), void *ctx)
{
    const struct dicom_reader *d = from_slide(s);
    struct put p = {put, ctx, 0};
    put_text(&p, "openslide.vendor", d->info.vendor);
    put_text(&p, "openslide.quickhash-1", d->info.quickhash);
    put_number(&p, "openslide.level-count", (double)d->files.n);
    put_number(&p, "openslide.mpp-x", d->info.mpp_x);
    put_number(&p, "openslide.mpp-y", d->info.mpp_y);
    put_number(&p, "openslide.objective-power", d->info.objective_power);
    for (int64_t k = 0; k < d->files.n; k++)
        put_level(&p, &d->files, k);
    return p.r;
}

static int damaged(struct err *e, const char *what)
{
    err_set(e, "%s", what);
    return SLIDE_DAMAGED;
}

/* Copies a tile into a picture of width x height px. */
static void paste(const uint8_t *tile, const struct dicom_instance *i, int64_t col, int64_t row,
                  uint8_t *rgb)
{
    const int64_t x = col * i->cols, y = row * i->rows;
    const int64_t cols = i->width - x < i->cols ? i->width - x : i->cols;
    const int64_t rows = i->height - y < i->rows ? i->height - y : i->rows;
    for (int64_t k = 0; k < rows; k++)
        memcpy(rgb + 3 * ((y + k) * i->width + x), tile + 3 * k * i->cols, (size_t)(3 * cols));
}

/* 0, SLIDE_DAMAGED or -1. */
static int read_picture(struct tiled_slide *t, const struct dicom_instance *i, uint8_t *tile,
                        uint8_t *rgb, struct err *e)
{
    enum store_status status;
    for (int64_t row = 0; row < dicom_frames_rows(i); row++)
        for (int64_t col = 0; col < dicom_frames_cols(i); col++) {
            if (tile_file_read(&t->slide, 0, col, row, 3, tile, &status, e))
                return -1;
            if (status == STORE_DAMAGED)
                return damaged(e, "its thumbnail is damaged");
            paste(tile, i, col, row, rgb);
        }
    return 0;
}

static int dicom_thumbnail(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height,
                           struct err *e)
{
    const struct dicom_level *l = &from_slide(s)->files.thumbnail;
    const struct dicom_instance *i = l->n > 0 ? dicom_slide_instance(l) : NULL;
    struct tile_place *places = NULL;
    struct tiled_slide t = {.tiles = NULL};
    struct dicom_frames_said said = {0};
    int bad;
    if (!i || i->width < 1 || i->height < 1 || i->width > MOST_THUMBNAIL / i->height)
        return 0;
    errno = 0;
    int r = open_tiles(l, 1, &places, &t.tiles, &bad, &said, e);
    if (r < 0 && !slide_may_pass(errno))
        r = SLIDE_DAMAGED;
    uint8_t *tile = r > 0 ? memory_try(3, (size_t)(i->cols * i->rows), e) : NULL;
    *rgb = tile ? memory_try(3, (size_t)(i->width * i->height), e) : NULL;
    if (r > 0)
        r = *rgb ? read_picture(&t, i, tile, *rgb, e) : -1;
    tile_file_close(t.tiles);
    free(places);
    free(tile);
    *width = i->width;
    *height = i->height;
    if (r == 0 && *rgb)
        return 1;
    free(*rgb);
    *rgb = NULL;
    return r;
}

static int dicom_icc(struct slide *s, uint8_t **profile, size_t *bytes, struct err *e)
{
    const struct dicom_part *l = &from_slide(s)->files.levels[0].parts[0];
    const struct dicom_place *p = &l->instance.icc;
    if (p->bytes < 1)
        return 0;
    if (p->bytes > MOST_PROFILE)
        return damaged(e, "its ICC profile is larger than 64 MiB");
    *bytes = p->bytes;
    if (!(*profile = memory_try(p->bytes, 1, e)))
        return -1;
    if (read_at(l->file->fd, p->at, *profile, p->bytes) == p->bytes)
        return 1;
    const int code = errno;
    free(*profile);
    *profile = NULL;
    errno = code;
    return slide_may_pass(code) ? err_sys(e, "cannot read its ICC profile")
                                : damaged(e, "its ICC profile cannot be read");
}

static int dicom_files(struct slide *s, int (*put)(void *ctx, const struct slide_file *file),
                       void *ctx, struct err *e)
{
    (void)e; /* they are open */
    const struct dicom_slide *f = &from_slide(s)->files;
    int r = f->thumbnail.n > 0 ? put(ctx, f->thumbnail.parts[0].file) : 0;
    for (int64_t k = 0; k < f->n; k++)
        for (int j = 0; j < f->levels[k].n && r == 0; j++)
            r = put(ctx, f->levels[k].parts[j].file);
    return r;
}

const struct slide_reader slide_dicom = {
    .name = "dicom",
    .open = dicom_open,
    .read = tile_file_read,
    .read_eighth = tile_file_read_eighth,
    .read_kept = tile_file_read_kept,
    .is_missing = tile_file_is_missing,
    .refusal = tile_file_refusal,
    .colour_conflict = tile_file_colour_conflict,
    .prefetch = tile_file_prefetch,
    .files = dicom_files,
    .properties = dicom_properties,
    .thumbnail = dicom_thumbnail,
    .icc = dicom_icc,
    .close = dicom_close,
};
