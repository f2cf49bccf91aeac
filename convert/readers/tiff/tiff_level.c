/* tiff_level.c - see tiff_level.h. */
#include "convert/readers/tiff/tiff_level.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "convert/readers/frame/slide_file.h"
#include "convert/readers/frame/slide_reader.h"
#include "convert/readers/tiff/tiff_file.h"
#include "convert/readers/tiff/tiff_mask.h"
#include "convert/readers/tiff/tiff_picture.h"
#include "convert/readers/tiff/tiff_samples.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- an Aperio description --- */

enum { MOST_KEYS = 512, MOST_LENGTH = 120 };

/* The value of "key = value" between bars, or NULL; *n is its length. */
static const char *find(const char *description, const char *key, size_t *n)
{
    const size_t length = strlen(key);
    for (const char *s = description; s && *s; s = strchr(s, '|')) {
        s += *s == '|';
        s += strspn(s, " ");
        if (strncmp(s, key, length))
            continue;
        const char *v = s + length + strspn(s + length, " ");
        if (*v != '=')
            continue;
        v += 1 + strspn(v + 1, " ");
        *n = strcspn(v, "|;\r\n");
        return v;
    }
    return NULL;
}

double svs_description_number(const char *description, const char *key)
{
    char text[64], *end;
    size_t n;
    const char *v = find(description, key, &n);
    if (!v || n == 0 || n >= sizeof text)
        return NAN;
    memcpy(text, v, n);
    for (text[n] = 0; n > 0 && text[n - 1] == ' ';)
        text[--n] = 0;
    char *comma = strchr(text, ',');
    if (comma)
        *comma = '.';
    const double x = strtod(text, &end);
    return end != text && !*end && isfinite(x) && x > 0 ? x : NAN;
}

bool svs_description_size(const char *description, int64_t *width, int64_t *height)
{
    int x, y, w, h;
    const char *line = strchr(description, '\n');
    const size_t n = line ? strcspn(line, "[|") : 0;
    if (!line || line[n] != '[' || sscanf(line + n, "[%9d,%9d%*1[ ,]%9dx%9d]", &x, &y, &w, &h) != 4)
        return false;
    *width = w;
    *height = h;
    return w > 0 && h > 0;
}

/* Splits the description at its bars, in place. Returns the number of "key = value" parts. */
static size_t split(char *description, char *keys[MOST_KEYS], char *values[MOST_KEYS])
{
    size_t n = 0;
    for (char *part; n < MOST_KEYS && (part = strsep(&description, "|"));) {
        char *equals = strstr(part, " = ");
        if (!equals || equals == part || equals - part > MOST_LENGTH)
            continue;
        *equals = 0;
        keys[n] = part;
        values[n++] = equals + 3;
    }
    return n;
}

/* Does the key come again? Then the later value counts, as in OpenSlide. */
static int comes_again(char *const keys[], size_t k, size_t n)
{
    for (size_t later = k + 1; later < n; later++)
        if (!strcmp(keys[k], keys[later]))
            return 1;
    return 0;
}

int svs_description_properties(const char *description,
                               int (*put)(void *ctx, const char *key, const char *value), void *ctx)
{
    char *keys[MOST_KEYS], *values[MOST_KEYS], *copy = memory_copy(description);
    int r = put(ctx, "tiff.ImageDescription", description);
    const size_t n = split(copy, keys, values);
    for (size_t k = 0; k < n && r == 0; k++) {
        char key[MOST_LENGTH + 16];
        snprintf(key, sizeof key, "aperio.%s", keys[k]);
        if (!comes_again(keys, k, n))
            r = put(ctx, key, values[k]);
    }
    free(copy);
    return r;
}

/* --- thumbnail --- */

/* The strips are the tiles of a level of one column. */

/* Opens strips of so many rows, from strip `first` on. */
static struct tiled_slide open_strips(const struct slide_file *file, const struct svs_strips *s,
                                      int64_t first, int64_t rows)
{
    struct tile_grid g = {
        .format = s->format, .cols = 1, .rows = s->n - first, .places = s->places + first};
    g.format.rows = rows;
    return (struct tiled_slide){.tiles = tile_file_open(file, &g, 1)};
}

/* Strip k as a chunk, if it is not damaged. 1, 0 or -1. */
static int keep_strip(struct tiled_slide *t, int64_t k, struct jpeg_strips *out, struct err *e)
{
    struct jpeg_chunk chunk = {0};
    enum store_status status = STORE_DAMAGED;
    int r = tile_file_read_kept(&t->slide, 0, 0, k, &chunk, NULL, &status, e);
    if (r == 0 && status == STORE_WHOLE) {
        jpeg_strips_add(out, &chunk);
        r = 1;
    } else if (r == SLIDE_OTHER)
        r = 0;
    free(chunk.bytes);
    return r;
}

/* A last strip of fewer rows as pixels. 1, 0 or -1. */
static int keep_pixels(const struct slide_file *file, const struct svs_strips *s,
                       struct jpeg_strips *out, struct err *e)
{
    const size_t bytes = (size_t)(3 * out->width * out->rows);
    struct jpeg_chunk chunk = {.bytes = memory_try_zero(1, bytes, e), .n = bytes, .room = bytes};
    enum store_status status = STORE_DAMAGED;
    struct tiled_slide t = open_strips(file, s, s->n - 1, s->height - (s->n - 1) * out->rows);
    int r = chunk.bytes ? 0 : -1;
    if (r == 0)
        r = tile_file_read(&t.slide, 0, 0, 0, 3, chunk.bytes, &status, e);
    if (r == 0 && status == STORE_WHOLE) {
        jpeg_strips_add(out, &chunk);
        r = 1;
    }
    tile_file_close(t.tiles);
    free(chunk.bytes);
    return r;
}

static int keep(const struct slide_file *file, const struct svs_strips *s, struct jpeg_strips *out,
                struct err *e)
{
    struct tiled_slide t = open_strips(file, s, 0, out->rows);
    int r = 1;
    for (int64_t k = 0; r > 0 && k < s->n; k++)
        r = jpeg_strips_is_raw(out, k) ? keep_pixels(file, s, out, e) : keep_strip(&t, k, out, e);
    tile_file_close(t.tiles);
    return r;
}

int svs_thumbnail_keep(const struct slide_file *file, const struct svs_strips *s,
                       struct jpeg_strips *out, struct err *e)
{
    *out =
        (struct jpeg_strips){.width = s->format.cols, .height = s->height, .rows = s->format.rows};
    errno = 0;
    int r = s->n > 0 ? keep(file, s, out, e) : 0;
    if (r < 0 && !slide_may_pass(errno)) /* tables that are damaged */
        r = 0;
    if (r <= 0) {
        const int code = errno;
        jpeg_strips_free(out);
        errno = code;
    }
    return r;
}

/* --- the directory --- */

enum { LEAST_TILE = 8, MOST_TILE = 4096, MOST_THUMBNAIL = 1 << 26, MOST_SIDE = 1 << 14 };

static bool take_sizes(const struct tiff_reading *r, struct tiff_level *l)
{
    const uint64_t width = tiff_value(r, TIFF_FILE_WIDTH, 0),
                   height = tiff_value(r, TIFF_FILE_LENGTH, 0);
    const bool in_strips = !tiff_directory_tag(r->d, TIFF_FILE_TILE_WIDTH);
    const uint64_t cols = in_strips ? PICTURE_TILE : tiff_value(r, TIFF_FILE_TILE_WIDTH, 0);
    const uint64_t rows = in_strips ? PICTURE_TILE : tiff_value(r, TIFF_FILE_TILE_LENGTH, 0);
    if (width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX || cols < LEAST_TILE ||
        rows < LEAST_TILE || cols > INT32_MAX || rows > INT32_MAX)
        return false;
    l->is_picture = in_strips || cols > MOST_TILE || rows > MOST_TILE;
    l->in_strips = in_strips;
    l->orientation = tiff_small(r, TIFF_FILE_ORIENTATION, 1);
    l->width = (int64_t)width;
    l->height = (int64_t)height;
    l->format.cols = (int64_t)cols;
    l->format.rows = (int64_t)rows;
    l->cols = (l->width + l->format.cols - 1) / l->format.cols;
    l->rows = (l->height + l->format.rows - 1) / l->format.rows;
    return true;
}

/* Are the samples bytes, in the usual order? */
static bool has_plain_bytes(const struct tiff_reading *r)
{
    enum { UNSIGNED = 1, UNDEFINED = 4 };
    const int kind = tiff_small(r, TIFF_FILE_SAMPLE_FORMAT, UNSIGNED);
    return tiff_small(r, TIFF_FILE_BITS, 1) == 8 && (kind == UNSIGNED || kind == UNDEFINED) &&
           tiff_small(r, TIFF_FILE_FILL_ORDER, 1) == 1 && tiff_small(r, TIFF_FILE_INK_SET, 1) == 1;
}

/* Does the directory have a tile for each of R, G and B? So Bio-Formats writes OME-TIFF; it states
 * YCbCr where these are JPEG. In other files YCbCr in planes may be what it states. */
static bool has_planes(const struct tiff_reading *r, enum tiff_kind kind,
                       const struct tile_format *f)
{
    return tiff_small(r, TIFF_FILE_PLANES, 1) == 2 && tiff_small(r, TIFF_FILE_SAMPLES, 1) == 3 &&
           (f->photometric == TILE_PHOTOMETRIC_RGB ||
            (f->photometric == TILE_PHOTOMETRIC_YCBCR && f->compression == TILE_JPEG &&
             kind == TIFF_OME));
}

/* The format of tiles or strips. False when this reader does not know it. */
static bool take_format(const struct tiff_reading *r, enum tiff_kind kind, struct tile_format *f,
                        bool *in_planes, uint8_t **owned)
{
    f->photometric = (int)(tiff_file_photometric(r->t, r->d) & UINT16_MAX);
    f->compression = tiff_compression(r, kind == TIFF_APERIO);
    f->predictor = tiff_small(r, TIFF_FILE_PREDICTOR, 1);
    f->samples = tiff_small(r, TIFF_FILE_SAMPLES, 1);
    *in_planes = has_planes(r, kind, f);
    f->alpha_at = tiff_alpha(r, tile_colours(f), f->samples, &f->is_multiplied);
    if (*in_planes) {
        f->photometric = TILE_PHOTOMETRIC_GRAY;
        f->samples = 1;
    } else if (tiff_small(r, TIFF_FILE_PLANES, 1) != 1)
        return false;
    if (f->photometric == TILE_PHOTOMETRIC_PALETTE)
        f->palette = *owned = tiff_palette(r);
    if (!tile_is_known(f) || (f->samples && f->samples < tile_colours(f)) ||
        f->samples > TIFF_MOST_SAMPLES || !has_plain_bytes(r))
        return false;
    if (f->compression == TILE_JPEG)
        f->tables = *owned = tiff_tables(r, &f->tables_bytes);
    return true;
}

/* --- tiles --- */

static int64_t n_places(const struct tiff_level *l)
{
    return l->cols * l->rows * (l->in_planes ? 3 : 1);
}

/* Compares the size of level 0 with the description. Only a size that needs as many tiles is
 * damage: some programs cut slides and keep the description. */
static int check_description(const struct tiff_level *l, struct err *e)
{
    int64_t width, height;
    const int64_t cols = l->format.cols, rows = l->format.rows;
    if (!svs_description_size(l->pyramid->description, &width, &height) ||
        (width == l->width && height == l->height) || (width + cols - 1) / cols != l->cols ||
        (height + rows - 1) / rows != l->rows)
        return 0;
    return err_set(e,
                   "damaged: %" PRId64 " x %" PRId64 " px, but its description says %" PRId64
                   " x %" PRId64 "; copy the slide again",
                   l->width, l->height, width, height);
}

/* A file that lacks more than half of its tiles is rejected. */
static int check_places(const struct tiff_level *l, uint64_t file_bytes, struct err *e)
{
    const int64_t n = n_places(l);
    int64_t outside = 0;
    for (int64_t k = 0; k < n; k++)
        outside +=
            l->places[k].bytes > 0 && (l->places[k].offset > file_bytes ||
                                       l->places[k].bytes > file_bytes - l->places[k].offset);
    if (2 * outside <= n)
        return 0;
    return err_set(e,
                   "damaged: %" PRId64 " of %" PRId64
                   " tiles lie beyond the end of the file; copy the "
                   "slide again",
                   outside, n);
}

static int take_places(const struct tiff_reading *r, struct tiff_level *l, struct err *e)
{
    const int64_t n = n_places(l);
    if (tiff_file_check_tables(r->d, l->width, l->height, n, e) ||
        tiff_places(r, false, n, &l->places, e))
        return -1;
    return check_places(l, r->t->bytes, e);
}

/* Is the first tile that exists a JFIF stream? Those are YCbCr. */
static bool has_jfif(const struct tiff_reading *r, const struct tiff_level *l)
{
    uint8_t head[11];
    const int64_t n = l->cols * l->rows;
    int64_t k = 0;
    while (k < n && l->places[k].bytes < sizeof head)
        k++;
    return k < n && read_at(r->t->fd, l->places[k].offset, head, sizeof head) == sizeof head &&
           !memcmp(head, "\xff\xd8\xff\xe0", 4) && !memcmp(head + 6, "JFIF", 5);
}

/* Bio-Formats writes YCbCr streams and states RGB; it and tifffile read such files as YCbCr. */
static void correct_colours(const struct tiff_reading *r, struct tiff_level *l)
{
    l->is_jfif = l->pyramid->kind == TIFF_OME && l->format.compression == TILE_JPEG &&
                 l->format.photometric == TILE_PHOTOMETRIC_RGB && has_jfif(r, l);
    if (l->is_jfif)
        l->format.photometric = TILE_PHOTOMETRIC_YCBCR;
}

/* Tiles of which the mask shows nothing were never scanned. 1 or -1. */
static int take_mask(struct tiff_level *l, int64_t level, struct err *e)
{
    const int64_t n = l->cols * l->rows, all = n_places(l);
    bool *shown;
    if (tiff_mask_read(l->file, l->pyramid->masks[level], l->width, l->format.cols, l->format.rows,
                       &shown, e))
        return -1;
    for (int64_t k = 0; shown && k < all; k++)
        if (!shown[k % n])
            l->places[k].bytes = 0;
    free(shown);
    return 1;
}

/* The tiles of the open level. 1, 0 or -1. */
static int take_tiles(const struct tiff_reading *r, struct tiff_level *l, int64_t level,
                      struct err *e)
{
    const enum tiff_kind kind = l->pyramid->kind;
    if (!take_sizes(r, l))
        return 0;
    const bool known = take_format(r, kind, &l->format, &l->in_planes, &l->tables);
    const struct tile_format *f = &l->format;
    const bool planes = tiff_small(r, TIFF_FILE_PLANES, 1) == 2;
    if (tiff_check_channels(tile_colours(f), f->samples, f->alpha_at, known || planes, e))
        return -1;
    if (!known) {
        if (!l->is_picture && l->orientation == 1 && !planes)
            return 0;
        l->is_picture = true; /* OpenSlide mirrors each tile on its own */
    }
    if ((level == 0 && kind == TIFF_APERIO && check_description(l, e)) ||
        (!l->is_picture && take_places(r, l, e)))
        return -1;
    if (!l->is_picture)
        correct_colours(r, l);
    return l->is_picture ? 1 : take_mask(l, level, e);
}

/* --- what belongs to the whole slide --- */

/* Is it the thumbnail? It has strips, the slide's proportions, and a description of Aperio. Neither
 * that nor NewSubfileType, which is 1 for labels and 9 for macros, calls it another picture. */
static bool is_thumbnail(const struct tiff_reading *r, double width, double height)
{
    char text[8];
    tiff_file_text(r->t, r->d, TIFF_FILE_DESCRIPTION, text, sizeof text);
    const double w = (double)tiff_value(r, TIFF_FILE_WIDTH, 0),
                 h = (double)tiff_value(r, TIFF_FILE_LENGTH, 0);
    return !tiff_directory_tag(r->d, TIFF_FILE_TILE_WIDTH) &&
           tiff_value(r, TIFF_FILE_SUBFILE, 0) == 0 && !strncmp(text, "Aperio", 6) &&
           !tiff_pyramid_is_associated(r->t, r->d) && w > 0 && h > 0 &&
           fabs(w / h * (height / width) - 1) < 0.1;
}

/* The strips of the thumbnail; none if they are no JPEG streams. */
static int take_strips(const struct tiff_reading *r, struct svs_strips *s, struct err *e)
{
    const uint64_t width = tiff_value(r, TIFF_FILE_WIDTH, 0),
                   height = tiff_value(r, TIFF_FILE_LENGTH, 0);
    const uint64_t rows = tiff_value(r, TIFF_FILE_ROWS_PER_STRIP, height);
    bool in_planes;
    if (width > MOST_SIDE || height > MOST_SIDE || rows < 1 ||
        !take_format(r, TIFF_APERIO, &s->format, &in_planes, &s->tables) ||
        !tile_may_be_kept(&s->format) || tile_is_gray(&s->format))
        return 0;
    s->format.cols = (int64_t)width;
    s->format.rows = (int64_t)(rows < height ? rows : height);
    s->height = (int64_t)height;
    const int64_t n = (s->height + s->format.rows - 1) / s->format.rows;
    if (tiff_places(r, true, n, &s->places, e))
        return errno ? -1 : 0;
    s->n = n;
    return 0;
}

/* The second directory, or NULL without one. */
static const struct tiff_directory *second_directory(const struct tiff_file *t)
{
    const struct tiff_directory *d = tiff_file_directory(t, t->first);
    return d && d->next ? tiff_file_directory(t, d->next) : NULL;
}

/* The thumbnail of Aperio, in the second directory. */
static int take_aperio(const struct tiff_file *t, struct tiff_level *l, double width, double height,
                       struct err *e)
{
    const struct tiff_reading r = {t, second_directory(t)};
    l->has_thumbnail = r.d && is_thumbnail(&r, width, height);
    return l->has_thumbnail ? take_strips(&r, &l->thumbnail, e) : 0;
}

/* Level 0: the profile, and Aperio's thumbnail. 1, 0 or -1. */
static int take_slide(const struct tiff_file *t, struct tiff_level *l, struct err *e)
{
    const struct tiff_reading r = {t, tiff_file_directory(t, l->pyramid->at[0])};
    if (!r.d)
        return 0;
    const double width = (double)tiff_value(&r, TIFF_FILE_WIDTH, 0);
    const double height = (double)tiff_value(&r, TIFF_FILE_LENGTH, 0);
    l->icc = tiff_file_icc(t, l->pyramid->at[0], &l->icc_bytes, &l->lost_icc);
    return l->pyramid->kind == TIFF_APERIO && take_aperio(t, l, width, height, e) ? -1 : 1;
}

/* --- as a whole --- */

static int read_level(struct tiff_level *l, const struct tiff_file *t, int64_t level, struct err *e)
{
    const struct tiff_pyramid *p = l->pyramid;
    const int bad = take_slide(t, l, e);
    if (bad <= 0)
        return bad;
    if (level >= p->levels)
        return slide_reject_level(p->levels, level, e);
    const struct tiff_reading r = {t, tiff_file_directory(t, p->at[level])};
    return r.d ? take_tiles(&r, l, level, e) : err_set(e, "its directory cannot be read again");
}

int tiff_level_read(struct tiff_level *l, const struct slide_file *file, int64_t level, bool aperio,
                    struct err *e)
{
    *l = (struct tiff_level){.file = file};
    errno = 0;
    int r = tiff_pyramid_is_aperio(file) == aperio ? tiff_pyramid_of(&l->pyramid, file, e) : 0;
    r = r > 0 ? read_level(l, tiff_file_of(file), level, e) : r;
    const int code = errno;
    if (slide_may_pass(code))
        r = err_sys(e, "cannot read its directories");
    if (r <= 0)
        tiff_level_free(l);
    errno = code;
    return r;
}

bool tiff_level_thumbnail(const struct slide_file *file, uint8_t **rgb, int64_t *width,
                          int64_t *height)
{
    struct err why = {0};
    struct picture_form f = {0};
    errno = 0;
    *rgb = NULL;
    const struct tiff_file *t = tiff_file_of(file);
    const struct tiff_directory *d = t ? second_directory(t) : NULL;
    const bool known =
        d && tiff_picture_open(&f, file, d->at, &why) == 0 && f.width <= MOST_THUMBNAIL / f.height;
    *width = f.width;
    *height = f.height;
    struct picture *p = known ? picture_open(&f) : NULL;
    if (p)
        *rgb = picture_rgb(p, &why);
    const int code = errno;
    if (p)
        picture_close(p);
    else
        picture_form_free(&f);
    errno = code;
    return *rgb != NULL;
}

void tiff_level_free(struct tiff_level *l)
{
    free(l->places);
    free(l->tables);
    free(l->thumbnail.places);
    free(l->thumbnail.tables);
    free(l->icc);
    *l = (struct tiff_level){0};
}
