/*
 * slide_openslide.c - every format that OpenSlide opens.
 *
 * Each thread has a handle of its own, opened when it first reads: OpenSlide's errors are sticky, so
 * after a bad tile the thread's handle is closed and opened again, and no other thread notices.
 */
#include "convert/slide.h"

#include "common/gray.h"

#include <inttypes.h>
#include <math.h>
#include <openslide.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OTHER_TILE = 256, MOST_TILE = 4096, MOST_THUMBNAIL = 1 << 26, MOST_STEP = 2048 };

struct slide {
    char *path;
    struct slide_info info;
    int threads;
    openslide_t **handles; /* [threads], NULL until first used; the first is open from the start */
    uint32_t **argb;       /* [threads]: pixels as OpenSlide gives them */
    size_t *argb_size;     /* [threads] */
};

extern const struct slide_reader slide_openslide;

const char *slide_libraries(void)
{
    static char text[64];
    snprintf(text, sizeof text, "OpenSlide %s", openslide_get_version());
    return text;
}

static const char *property(openslide_t *o, const char *key)
{
    const char *value = openslide_get_property_value(o, key);
    return value ? value : "";
}

/* A positive number, or NaN. */
static double number(openslide_t *o, const char *key)
{
    const char *text = property(o, key);
    char *end;
    double v = strtod(text, &end);
    return end != text && !*end && isfinite(v) && v > 0 ? v : NAN;
}

/* A tile's side as the slide tells it; 256 where it has none, or none that makes a sensible chunk. */
static int64_t tile_side(openslide_t *o, int64_t level, const char *side)
{
    char key[64];
    snprintf(key, sizeof key, "openslide.level[%" PRId64 "].tile-%s", level, side);
    const double v = number(o, key);
    return v >= 16 && v <= MOST_TILE ? (int64_t)v : OTHER_TILE;
}

static void background(openslide_t *o, uint8_t rgb[3])
{
    unsigned r, g, b;
    memset(rgb, 255, 3);
    if (sscanf(property(o, OPENSLIDE_PROPERTY_NAME_BACKGROUND_COLOR), "%2x%2x%2x", &r, &g, &b) == 3) {
        rgb[0] = (uint8_t)r;
        rgb[1] = (uint8_t)g;
        rgb[2] = (uint8_t)b;
    }
}

/* OpenSlide 3.4 returns uninitialised memory for levels of generic TIFF smaller than one tile. */
static bool is_unsafe(const struct slide_info *i)
{
    return !strncmp(openslide_get_version(), "3.", 2) && !strcmp(i->vendor, "generic-tiff") &&
           i->level > 0 && (i->width < i->tile_cols || i->height < i->tile_rows);
}

static int describe(openslide_t *o, int64_t level, struct slide_info *i, struct err *e)
{
    const int32_t levels = openslide_get_level_count(o);
    if (level >= levels)
        return err_set(e, "has levels 0 to %d, not %" PRId64, levels - 1, level);
    *i = (struct slide_info){.level = level};
    openslide_get_level_dimensions(o, (int32_t)level, &i->width, &i->height);
    i->downsample = openslide_get_level_downsample(o, (int32_t)level);
    i->levels = levels < SLIDE_LEVELS ? levels : SLIDE_LEVELS;
    for (int32_t k = 0; k < i->levels; k++)
        i->downsamples[k] = openslide_get_level_downsample(o, k);
    if (i->width < 1 || i->height < 1 || i->width > INT32_MAX || i->height > INT32_MAX)
        return err_set(e, "its size of %" PRId64 " x %" PRId64 " px cannot be", i->width, i->height);
    snprintf(i->vendor, sizeof i->vendor, "%s", property(o, OPENSLIDE_PROPERTY_NAME_VENDOR));
    snprintf(i->quickhash, sizeof i->quickhash, "%s", property(o, OPENSLIDE_PROPERTY_NAME_QUICKHASH1));
    /* OpenSlide 3.4 takes an Aperio file's second picture for the thumbnail, even if it is the label */
    i->has_thumbnail = strcmp(i->vendor, "aperio") != 0;
    i->tile_cols = tile_side(o, level, "width");
    i->tile_rows = tile_side(o, level, "height");
    i->mpp_x = number(o, OPENSLIDE_PROPERTY_NAME_MPP_X);
    i->mpp_y = number(o, OPENSLIDE_PROPERTY_NAME_MPP_Y);
    i->objective_power = number(o, OPENSLIDE_PROPERTY_NAME_OBJECTIVE_POWER);
    background(o, i->background);
    if (is_unsafe(i))
        return err_set(e, "level %" PRId64 " is smaller than one of its tiles, and OpenSlide %s "
                       "returns random bytes for it; take another level, or OpenSlide 4",
                       level, openslide_get_version());
    return 0;
}

static void reader_close(struct slide *s)
{
    if (!s)
        return;
    for (int t = 0; t < s->threads; t++) {
        if (s->handles && s->handles[t])
            openslide_close(s->handles[t]);
        if (s->argb)
            free(s->argb[t]);
    }
    free(s->handles);
    free(s->argb);
    free(s->argb_size);
    free(s->path);
    free(s);
}

/* A handle without an error, or NULL. */
static openslide_t *open_handle(const char *path, struct err *e)
{
    openslide_t *o = openslide_open(path);
    const char *error = o ? openslide_get_error(o) : NULL;
    if (!error)
        return o;
    err_set(e, "OpenSlide cannot open it: %s", error);
    openslide_close(o);
    return NULL;
}

static int reader_open(struct slide **out, const char *path, int64_t level, int threads,
                       struct slide_info *info, struct err *e)
{
    struct err why = {""};
    openslide_t *o = open_handle(path, &why);
    if (!o)
        return why.msg[0] ? err_set(e, "%s", why.msg) : 0;
    struct slide *s = calloc(1, sizeof *s);
    if (s) {
        s->threads = threads;
        s->path = strdup(path);
        s->handles = calloc((size_t)threads, sizeof(openslide_t *));
        s->argb = calloc((size_t)threads, sizeof *s->argb);
        s->argb_size = calloc((size_t)threads, sizeof *s->argb_size);
    }
    if (!s || !s->path || !s->handles || !s->argb || !s->argb_size) {
        openslide_close(o);
        reader_close(s);
        return err_set(e, "out of memory");
    }
    s->handles[0] = o;
    if (describe(o, level, &s->info, e)) {
        reader_close(s);
        return -1;
    }
    *info = s->info;
    *out = s;
    return 1;
}

/* Premultiplied ARGB over the background: exact for opaque and for empty pixels. */
static void compose(const uint32_t *argb, size_t n, const uint8_t background[3], uint8_t *rgb)
{
    for (size_t k = 0; k < n; k++, rgb += 3) {
        const uint32_t p = argb[k], clear = 255 - (p >> 24);
        for (int c = 0; c < 3; c++) {
            const uint32_t v = (p >> (16 - 8 * c) & 255) + (clear * background[c] + 127) / 255;
            rgb[c] = (uint8_t)(v > 255 ? 255 : v);
        }
    }
}

/* One row of ARGB as RGB or gray; in pieces that stay in the first cache. */
static void put_row(const struct slide_info *i, const uint32_t *argb, int64_t columns, int channels,
                    uint8_t *out)
{
    uint8_t rgb[256 * 3];
    if (channels == 3) {
        compose(argb, (size_t)columns, i->background, out);
        return;
    }
    for (int64_t x = 0; x < columns; x += 256) {
        const size_t n = (size_t)(columns - x < 256 ? columns - x : 256);
        compose(argb + x, n, i->background, rgb);
        gray_bytes_from_rgb(rgb, out + x, n);
    }
}

/* The thread's handle, opened when first needed. */
static openslide_t *thread_handle(struct slide *s, int thread, struct err *e)
{
    if (!s->handles[thread]) {
        struct err why = {""};
        s->handles[thread] = open_handle(s->path, &why);
        if (!s->handles[thread])
            err_set(e, "%s: can no longer be read%s%s", s->path, why.msg[0] ? ": " : "", why.msg);
    }
    return s->handles[thread];
}

/*
 * Where to begin reading a coarser level, so that its pixel x comes out as it is stored. OpenSlide takes
 * level-0 coordinates and interpolates where they lie between the level's pixels; downsamples are not
 * whole numbers, so most do. Steps back to a pixel that lies near enough on a level-0 pixel.
 */
static int64_t step_back(double downsample, int64_t x)
{
    int64_t best = x;
    double least = 1;
    for (int64_t k = x; k >= 0 && k > x - MOST_STEP; k--) {
        const double off = fabs((double)llround((double)k * downsample) / downsample - (double)k);
        if (off < least) {
            least = off;
            best = k;
        }
        if (least < 1.0 / 512)
            break;
    }
    return best;
}

/* The thread's pixels of OpenSlide, grown when needed. */
static uint32_t *thread_pixels(struct slide *s, int thread, size_t n, struct err *e)
{
    if (n > s->argb_size[thread]) {
        free(s->argb[thread]);
        s->argb[thread] = malloc(n * sizeof(uint32_t));
        s->argb_size[thread] = s->argb[thread] ? n : 0;
    }
    if (!s->argb[thread])
        err_set(e, "out of memory");
    return s->argb[thread];
}

/* Aperio slides have no transparent pixels: OpenSlide makes them of a tile that is missing. */
static bool is_missing(const struct slide_info *i, const uint32_t *argb, int64_t columns, int64_t rows,
                       int64_t pitch)
{
    if (strcmp(i->vendor, "aperio"))
        return false;
    for (int64_t y = 0; y < rows; y++)
        for (int64_t x = 0; x < columns; x++)
            if (argb[y * pitch + x] >> 24)
                return false;
    return true;
}

static int reader_read(struct slide *s, int thread, int64_t col, int64_t row, int channels, uint8_t *out,
                       enum store_status *status, struct err *e)
{
    const struct slide_info *i = &s->info;
    const int64_t x = col * i->tile_cols, y = row * i->tile_rows;
    const int64_t columns = i->width - x < i->tile_cols ? i->width - x : i->tile_cols;
    const int64_t rows = i->height - y < i->tile_rows ? i->height - y : i->tile_rows;
    const int64_t x0 = step_back(i->downsample, x), y0 = step_back(i->downsample, y);
    const int64_t pitch = x - x0 + columns;
    openslide_t *o = thread_handle(s, thread, e);
    uint32_t *argb = thread_pixels(s, thread, (size_t)(pitch * (y - y0 + rows)), e);
    if (!o || !argb)
        return -1;
    openslide_read_region(o, argb, llround((double)x0 * i->downsample),
                          llround((double)y0 * i->downsample), (int32_t)i->level, pitch,
                          y - y0 + rows);
    argb += (y - y0) * pitch + x - x0;
    *status = openslide_get_error(o) ? STORE_DAMAGED : STORE_WHOLE;
    if (*status == STORE_DAMAGED) {
        openslide_close(o);
        s->handles[thread] = NULL;
        memset(s->argb[thread], 0, (size_t)(pitch * (y - y0 + rows)) * sizeof *argb); /* transparent */
    } else if (is_missing(i, argb, columns, rows, pitch))
        *status = STORE_MISSING;
    for (int64_t k = 0; k < rows; k++)
        put_row(i, argb + k * pitch, columns, channels, out + k * i->tile_cols * channels);
    return 0;
}

static int reader_properties(struct slide *s,
                             int (*put)(void *ctx, const char *key, const char *value), void *ctx)
{
    openslide_t *o = thread_handle(s, 0, NULL);
    const char *const *names = o ? openslide_get_property_names(o) : NULL;
    for (; names && *names; names++) {
        int r = put(ctx, *names, property(o, *names));
        if (r)
            return r;
    }
    return 0;
}

static int reader_thumbnail(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height)
{
    openslide_t *o = thread_handle(s, 0, NULL);
    if (!o)
        return 0;
    openslide_get_associated_image_dimensions(o, "thumbnail", width, height);
    if (*width < 1 || *height < 1 || *width > MOST_THUMBNAIL / *height)
        return 0;
    const size_t n = (size_t)(*width * *height);
    uint32_t *argb = malloc(n * sizeof(uint32_t));
    *rgb = malloc(3 * n);
    if (argb && *rgb)
        openslide_read_associated_image(o, "thumbnail", argb);
    if (!argb || !*rgb || openslide_get_error(o)) {
        free(argb);
        free(*rgb);
        *rgb = NULL;
        if (openslide_get_error(o)) { /* sticky: the next read opens another */
            openslide_close(o);
            s->handles[0] = NULL;
        }
        return 0;
    }
    compose(argb, n, s->info.background, *rgb);
    free(argb);
    return 1;
}

static int reader_icc(struct slide *s, uint8_t **profile, size_t *bytes)
{
#ifdef HAVE_OPENSLIDE4
    openslide_t *o = thread_handle(s, 0, NULL);
    const int64_t n = o ? openslide_get_icc_profile_size(o) : 0;
    if (n < 1 || n > MOST_THUMBNAIL || !(*profile = malloc((size_t)n)))
        return 0;
    openslide_read_icc_profile(o, *profile);
    *bytes = (size_t)n;
    return 1;
#else
    (void)s, (void)profile, (void)bytes; /* OpenSlide 3 does not tell */
    return 0;
#endif
}

const struct slide_reader slide_openslide = {
    .name = "openslide", .open = reader_open, .read = reader_read,
    .properties = reader_properties, .thumbnail = reader_thumbnail, .icc = reader_icc,
    .close = reader_close,
};
