/* slide_metadata.c - see slide_metadata.h. */
#include "convert/readers/frame/slide_metadata.h"

#include "common/base/memory.h"
#include "common/store/store.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <openslide.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OTHER_TILE = 256, MOST_TILE = 4096, MOST_PIXELS = 1 << 26 };

struct slide_metadata {
    const struct slide_file *file;
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

/* A tile's side as the slide states it; 256 where it has none, or none that makes a sensible chunk.
 */
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

static void describe_levels(openslide_t *o, struct slide_info *i)
{
    const int32_t levels = openslide_get_level_count(o);
    openslide_get_level_dimensions(o, (int32_t)i->level, &i->width, &i->height);
    i->downsample = openslide_get_level_downsample(o, (int32_t)i->level);
    i->levels = levels < SLIDE_LEVELS ? levels : SLIDE_LEVELS;
    for (int32_t k = 0; k < i->levels; k++)
        i->downsamples[k] = openslide_get_level_downsample(o, k);
}

/* As a store's reader takes it. */
static int64_t bound(openslide_t *o, const char *key)
{
    const double px = number(o, key);
    return px <= STORE_MOST_BOUNDS ? (int64_t)px : 0;
}

static void describe_slide(openslide_t *o, struct slide_info *i)
{
    snprintf(i->vendor, sizeof i->vendor, "%s", property(o, OPENSLIDE_PROPERTY_NAME_VENDOR));
    snprintf(i->quickhash, sizeof i->quickhash, "%s",
             property(o, OPENSLIDE_PROPERTY_NAME_QUICKHASH1));
    /* OpenSlide 3.4 takes an Aperio file's second picture for the thumbnail, even if it is the
     * label */
    i->has_thumbnail = strcmp(i->vendor, "aperio") != 0;
    i->tile_cols = tile_side(o, i->level, "width");
    i->tile_rows = tile_side(o, i->level, "height");
    i->mpp_x = number(o, OPENSLIDE_PROPERTY_NAME_MPP_X);
    i->mpp_y = number(o, OPENSLIDE_PROPERTY_NAME_MPP_Y);
    i->objective_power = number(o, OPENSLIDE_PROPERTY_NAME_OBJECTIVE_POWER);
    i->bounds_x = bound(o, STORE_BOUNDS_X);
    i->bounds_y = bound(o, STORE_BOUNDS_Y);
    background(o, i->background);
}

static int describe(openslide_t *o, int64_t level, struct slide_info *i, struct err *e)
{
    const int32_t levels = openslide_get_level_count(o);
    if (level >= levels)
        return slide_reject_level(levels, level, e);
    *i = (struct slide_info){.level = level};
    describe_levels(o, i);
    if (i->width < 1 || i->height < 1 || i->width > INT32_MAX || i->height > INT32_MAX)
        return err_set(e, "has an invalid size of %" PRId64 " x %" PRId64 " px", i->width,
                       i->height);
    describe_slide(o, i);
    return 0;
}

/* --- the handle --- */

static void ignore(const char *domain, int level, const char *text, void *ctx)
{
    (void)domain, (void)level, (void)text, (void)ctx;
}

/* OpenSlide's GLib prints complaints about odd descriptions. It is there if OpenSlide is, but its
 * headers may not be. */
static void silence(void)
{
    typedef void handler(const char *, int, const char *, void *);
    handler *(*set)(handler *, void *);
    *(void **)&set = dlsym(RTLD_DEFAULT, "g_log_set_default_handler");
    if (set)
        set(ignore, NULL);
}

/* One try. NULL: *r is 0 for an unknown format, SLIDE_DAMAGED, or -1. *passing: a call failed with
 * an error that may pass. */
static openslide_t *try_handle(const char *path, int *r, bool *passing, struct err *e)
{
    errno = 0;
    openslide_t *o = openslide_open(path);
    const int code = errno;
    const char *error = o ? openslide_get_error(o) : NULL;
    *passing = slide_may_pass(code);
    *r = 0;
    if (o && !error)
        return o;
    if (*passing) {
        errno = code;
        *r = err_sys(e, "OpenSlide cannot open it now");
    } else if (o) {
        err_set(e, "OpenSlide cannot open it: %s", error);
        *r = SLIDE_DAMAGED;
    }
    if (o)
        openslide_close(o);
    return NULL;
}

/* As try_handle. OpenSlide asks one format after the other, so a call that fails once can make it
 * take the slide for another format, or for none: such answers are asked for twice. */
static openslide_t *ask_twice(const char *path, int *r, struct err *e)
{
    bool passing;
    openslide_t *o = try_handle(path, r, &passing, e);
    if (o ? !passing : *r == -1)
        return o;
    if (o)
        openslide_close(o);
    return try_handle(path, r, &passing, e);
}

/* As ask_twice, if the path still leads to the file. */
static openslide_t *open_handle(const struct slide_file *file, int *r, struct err *e)
{
    openslide_t *o = ask_twice(file->path, r, e);
    if (slide_file_confirm(file, e) == 0)
        return o;
    const int code = errno;
    if (o)
        openslide_close(o);
    errno = code;
    *r = -1;
    return NULL;
}

int slide_metadata_open(struct slide_metadata **out, const struct slide_file *file, int64_t level,
                        struct slide_info *info, struct err *e)
{
    int r;
    silence();
    openslide_t *o = open_handle(file, &r, e);
    if (!o)
        return r;
    struct slide_metadata *m = memory_need(1, sizeof *m);
    *m = (struct slide_metadata){.file = file, .handle = o};
    if (describe(o, level, info, e)) {
        slide_metadata_close(m);
        return -1;
    }
    memcpy(m->background, info->background, 3);
    *out = m;
    return 1;
}

/* Do two handles show the same slide? */
static bool agree(openslide_t *a, openslide_t *b)
{
    const int32_t levels = openslide_get_level_count(a);
    bool same = levels == openslide_get_level_count(b) &&
                !strcmp(property(a, OPENSLIDE_PROPERTY_NAME_VENDOR),
                        property(b, OPENSLIDE_PROPERTY_NAME_VENDOR)) &&
                !strcmp(property(a, OPENSLIDE_PROPERTY_NAME_QUICKHASH1),
                        property(b, OPENSLIDE_PROPERTY_NAME_QUICKHASH1));
    for (int32_t k = 0; same && k < levels; k++) {
        int64_t aw, ah, bw, bh;
        openslide_get_level_dimensions(a, k, &aw, &ah);
        openslide_get_level_dimensions(b, k, &bw, &bh);
        same = aw == bw && ah == bh;
    }
    return same;
}

int slide_metadata_confirm(const struct slide_metadata *m, struct err *e)
{
    int r;
    openslide_t *again = open_handle(m->file, &r, e);
    const bool same = again && agree(m->handle, again);
    if (again)
        openslide_close(again);
    if (same)
        return 0;
    errno = EIO;
    return err_set(e, "OpenSlide does not read it the same way twice; try again");
}

void slide_metadata_close(struct slide_metadata *m)
{
    if (!m)
        return;
    if (m->handle)
        openslide_close(m->handle);
    free(m);
}

/* The handle, opened again if an error has closed it. NULL on failure. */
static openslide_t *handle(struct slide_metadata *m, struct err *e)
{
    int r = 0;
    if (!m->handle)
        m->handle = open_handle(m->file, &r, e);
    return m->handle;
}

static void drop_handle(struct slide_metadata *m)
{
    openslide_close(m->handle);
    m->handle = NULL;
}

/* --- what it knows --- */

int slide_metadata_properties(struct slide *s,
                              int (*put)(void *ctx, const char *key, const char *value), void *ctx)
{
    openslide_t *o = handle(s->metadata, NULL);
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
        if (clear == 0) {
            rgb[0] = (uint8_t)(p >> 16);
            rgb[1] = (uint8_t)(p >> 8);
            rgb[2] = (uint8_t)p;
            continue;
        }
        for (int c = 0; c < 3; c++) {
            const uint32_t v = (p >> (16 - 8 * c) & 255) + (clear * background[c] + 127) / 255;
            rgb[c] = (uint8_t)(v > 255 ? 255 : v);
        }
    }
}

/* What a failed read of a part of the slide means, by errno. Closes the handle. */
static int failed(struct slide_metadata *m, int code, const char *what, struct err *e)
{
    const char *error = openslide_get_error(m->handle);
    err_set(e, "its %s cannot be read%s%s", what, error ? ": " : "", error ? error : "");
    drop_handle(m);
    errno = code;
    return slide_may_pass(code) ? err_sys(e, "cannot read its %s now", what) : SLIDE_DAMAGED;
}

/* Reads the thumbnail of n pixels into rgb, through argb. */
static int read_thumbnail(struct slide_metadata *m, size_t n, uint32_t *argb, uint8_t *rgb,
                          struct err *e)
{
    if (!argb || !rgb)
        return -1;
    errno = 0;
    openslide_read_associated_image(m->handle, "thumbnail", argb);
    if (openslide_get_error(m->handle))
        return failed(m, errno, "thumbnail", e);
    slide_compose(argb, n, m->background, rgb);
    return 1;
}

int slide_metadata_thumbnail(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height,
                             struct err *e)
{
    struct slide_metadata *m = s->metadata;
    openslide_t *o = handle(m, e);
    if (!o)
        return -1;
    openslide_get_associated_image_dimensions(o, "thumbnail", width, height);
    if (*width < 1 || *height < 1 || *width > MOST_PIXELS / *height)
        return 0;
    const size_t n = (size_t)(*width * *height);
    uint32_t *argb = memory_try(n, sizeof *argb, e);
    *rgb = memory_try(n, 3, e);
    const int r = read_thumbnail(m, n, argb, *rgb, e);
    free(argb);
    if (r <= 0) {
        free(*rgb);
        *rgb = NULL;
    }
    return r;
}

int slide_metadata_icc(struct slide *s, uint8_t **profile, size_t *bytes, struct err *e)
{
#ifdef HAVE_OPENSLIDE4
    struct slide_metadata *m = s->metadata;
    openslide_t *o = handle(m, e);
    if (!o)
        return -1;
    const int64_t n = openslide_get_icc_profile_size(o);
    if (n < 1 || n > MOST_PIXELS)
        return 0;
    if (!(*profile = memory_try((size_t)n, 1, e)))
        return -1;
    *bytes = (size_t)n;
    errno = 0;
    openslide_read_icc_profile(o, *profile);
    if (!openslide_get_error(o))
        return 1;
    free(*profile);
    *profile = NULL;
    return failed(m, errno, "ICC profile", e);
#else
    (void)s, (void)profile, (void)bytes, (void)e; /* OpenSlide 3 does not read profiles */
    return 0;
#endif
}
