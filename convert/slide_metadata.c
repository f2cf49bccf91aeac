/* slide_metadata.c - see slide_metadata.h. */
#include "convert/slide_metadata.h"

#include <inttypes.h>
#include <math.h>
#include <openslide.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OTHER_TILE = 256, MOST_TILE = 4096, MOST_PIXELS = 1 << 26 };

struct slide_metadata {
    char *path;
    openslide_t *handle; /* NULL after an error, until it is needed again */
    uint8_t background[3];
};

bool slide_metadata_available(void)
{
    return true;
}

const char *slide_metadata_library(void)
{
    static char text[64];
    snprintf(text, sizeof text, "OpenSlide %s", openslide_get_version());
    return text;
}

/* --- the description of a level --- */

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

/* A tile's side as the slide states it; 256 where it has none, or none that makes a sensible chunk. */
static int64_t tile_side(openslide_t *o, int64_t level, const char *side)
{
    char key[64];
    snprintf(key, sizeof key, "openslide.level[%" PRId64 "].tile-%s", level, side);
    const double v = number(o, key);
    return v >= 16 && v <= MOST_TILE ? (int64_t)v : OTHER_TILE;
}

static void background(openslide_t *o, uint8_t rgb[3])
{
    const char *text = property(o, OPENSLIDE_PROPERTY_NAME_BACKGROUND_COLOR);
    unsigned r, g, b;
    memset(rgb, 255, 3);
    if (sscanf(text, "%2x%2x%2x", &r, &g, &b) == 3) {
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

static void describe_levels(openslide_t *o, struct slide_info *i)
{
    const int32_t levels = openslide_get_level_count(o);
    openslide_get_level_dimensions(o, (int32_t)i->level, &i->width, &i->height);
    i->downsample = openslide_get_level_downsample(o, (int32_t)i->level);
    i->levels = levels < SLIDE_LEVELS ? levels : SLIDE_LEVELS;
    for (int32_t k = 0; k < i->levels; k++)
        i->downsamples[k] = openslide_get_level_downsample(o, k);
}

static void describe_slide(openslide_t *o, struct slide_info *i)
{
    snprintf(i->vendor, sizeof i->vendor, "%s", property(o, OPENSLIDE_PROPERTY_NAME_VENDOR));
    snprintf(i->quickhash, sizeof i->quickhash, "%s", property(o, OPENSLIDE_PROPERTY_NAME_QUICKHASH1));
    /* OpenSlide 3.4 takes an Aperio file's second picture for the thumbnail, even if it is the label */
    i->has_thumbnail = strcmp(i->vendor, "aperio") != 0;
    i->tile_cols = tile_side(o, i->level, "width");
    i->tile_rows = tile_side(o, i->level, "height");
    i->mpp_x = number(o, OPENSLIDE_PROPERTY_NAME_MPP_X);
    i->mpp_y = number(o, OPENSLIDE_PROPERTY_NAME_MPP_Y);
    i->objective_power = number(o, OPENSLIDE_PROPERTY_NAME_OBJECTIVE_POWER);
    background(o, i->background);
}

static int describe(openslide_t *o, int64_t level, struct slide_info *i, struct err *e)
{
    const int32_t levels = openslide_get_level_count(o);
    if (level >= levels)
        return err_set(e, "has levels 0 to %d, not %" PRId64, levels - 1, level);
    *i = (struct slide_info){.level = level};
    describe_levels(o, i);
    if (i->width < 1 || i->height < 1 || i->width > INT32_MAX || i->height > INT32_MAX)
        return err_set(e, "its size of %" PRId64 " x %" PRId64 " px cannot be", i->width, i->height);
    describe_slide(o, i);
    if (is_unsafe(i))
        return err_set(e, "level %" PRId64 " is smaller than one of its tiles, and OpenSlide %s "
                       "returns random bytes for it; take another level, or OpenSlide 4",
                       level, openslide_get_version());
    return 0;
}

/* --- the handle --- */

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

int slide_metadata_open(struct slide_metadata **out, const char *path, int64_t level,
                        struct slide_info *info, struct err *e)
{
    struct err why = {""};
    openslide_t *o = open_handle(path, &why);
    if (!o)
        return why.msg[0] ? err_set(e, "%s", why.msg) : 0;
    struct slide_metadata *m = calloc(1, sizeof *m);
    if (!m || !(m->path = strdup(path))) {
        openslide_close(o);
        free(m);
        return err_set(e, "out of memory");
    }
    m->handle = o;
    if (describe(o, level, info, e)) {
        slide_metadata_close(m);
        return -1;
    }
    memcpy(m->background, info->background, 3);
    *out = m;
    return 1;
}

void slide_metadata_close(struct slide_metadata *m)
{
    if (!m)
        return;
    if (m->handle)
        openslide_close(m->handle);
    free(m->path);
    free(m);
}

/* The handle, opened again if an error has closed it. NULL if that fails. */
static openslide_t *handle(struct slide_metadata *m)
{
    if (!m->handle)
        m->handle = open_handle(m->path, NULL);
    return m->handle;
}

static void drop_handle(struct slide_metadata *m)
{
    openslide_close(m->handle);
    m->handle = NULL;
}

/* --- what it knows --- */

int slide_metadata_properties(struct slide_metadata *m,
                              int (*put)(void *ctx, const char *key, const char *value),
                              void *ctx)
{
    openslide_t *o = handle(m);
    const char *const *names = o ? openslide_get_property_names(o) : NULL;
    for (; names && *names; names++) {
        int r = put(ctx, *names, property(o, *names));
        if (r)
            return r;
    }
    return 0;
}

void slide_compose(const uint32_t *argb, size_t n, const uint8_t background[3], uint8_t *rgb)
{
    for (size_t k = 0; k < n; k++, rgb += 3) {
        const uint32_t p = argb[k], clear = 255 - (p >> 24);
        for (int c = 0; c < 3; c++) {
            const uint32_t v = (p >> (16 - 8 * c) & 255) + (clear * background[c] + 127) / 255;
            rgb[c] = (uint8_t)(v > 255 ? 255 : v);
        }
    }
}

int slide_metadata_thumbnail(struct slide_metadata *m, uint8_t **rgb, int64_t *width, int64_t *height)
{
    openslide_t *o = handle(m);
    if (!o)
        return 0;
    openslide_get_associated_image_dimensions(o, "thumbnail", width, height);
    if (*width < 1 || *height < 1 || *width > MOST_PIXELS / *height)
        return 0;
    const size_t n = (size_t)(*width * *height);
    uint32_t *argb = malloc(n * sizeof(uint32_t));
    *rgb = malloc(3 * n);
    if (argb && *rgb)
        openslide_read_associated_image(o, "thumbnail", argb);
    const bool good = argb && *rgb && !openslide_get_error(o);
    if (good)
        slide_compose(argb, n, m->background, *rgb);
    if (openslide_get_error(o))
        drop_handle(m);
    free(argb);
    if (good)
        return 1;
    free(*rgb);
    *rgb = NULL;
    return 0;
}

int slide_metadata_icc(struct slide_metadata *m, uint8_t **profile, size_t *bytes)
{
#ifdef HAVE_OPENSLIDE4
    openslide_t *o = handle(m);
    const int64_t n = o ? openslide_get_icc_profile_size(o) : 0;
    if (n < 1 || n > MOST_PIXELS || !(*profile = malloc((size_t)n)))
        return 0;
    openslide_read_icc_profile(o, *profile);
    *bytes = (size_t)n;
    return 1;
#else
    (void)m, (void)profile, (void)bytes; /* OpenSlide 3 does not read profiles */
    return 0;
#endif
}
