/*
 * slide_openslide.c - every format that OpenSlide opens.
 *
 * Each thread has its own handle, opened when it first reads. OpenSlide's errors are sticky: after
 * a damaged tile the thread's handle is closed and opened again, and no other thread is affected.
 */
#include "convert/readers/frame/slide_reader.h"

#include "common/base/memory.h"
#include "common/store/gray.h"
#include "convert/readers/frame/slide_metadata.h"
#include "convert/readers/slide_ndpi.h"
#include "convert/readers/sources.h"
#include "convert/readers/tiff/tiff_file.h"
#include "convert/readers/tiff/tiff_pyramid.h"
#include "convert/tile/tile_format.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <openslide.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEP = 2048 };

/* The memory of one thread. */
struct scratch {
    openslide_t *handle; /* NULL until it is needed */
    uint32_t *argb;      /* pixels as OpenSlide returns them */
    size_t size;         /* of argb, pixels */
    char refusal[160];   /* OpenSlide's first error, or "" */
};

struct openslide_reader {
    struct slide slide;
    const struct slide_file *file;
    struct slide_info info;
    uint8_t *empty;    /* tiff_file_empty_tiles */
    double bounds[4];  /* of what was scanned, in px of the open level: x, y, and where it ends */
    double scanned[2]; /* where it begins exactly; 0 if the slide does not say */
    bool truncates;    /* starts of regions become whole pixels of the level, towards 0 */
    uint8_t *icc;      /* of a generic TIFF, whose tags OpenSlide 3 does not read; or NULL */
    size_t icc_bytes;
    bool tables_tell; /* what the file leaves out is in `empty`, not only transparent */
    int threads;
    struct scratch *scratch; /* [threads] */
};

static struct openslide_reader *from_slide(struct slide *s)
{
    return (struct openslide_reader *)s;
}

/* --- opening and closing --- */

static void reader_close(struct slide *s)
{
    struct openslide_reader *r = from_slide(s);
    if (!r)
        return;
    for (int t = 0; r->scratch && t < r->threads; t++) {
        if (r->scratch[t].handle)
            openslide_close(r->scratch[t].handle);
        free(r->scratch[t].argb);
    }
    slide_metadata_close(r->slide.metadata);
    free(r->scratch);
    free(r->empty);
    free(r->icc);
    free(r);
}

/* OpenSlide 3.4 returns uninitialised memory for levels of TIFF files that are smaller than one
 * tile, unless it decodes the tiles without libtiff. */
static int check_safe(const struct slide_file *file, const struct slide_info *i, struct err *e)
{
    enum { JPEG = 7, J2K_YCBCR = 33003, J2K_RGB = 33005 };
    if (strncmp(openslide_get_version(), "3.", 2) != 0 ||
        (i->width >= i->tile_cols && i->height >= i->tile_rows))
        return 0;
    const uint64_t c = tiff_file_compression(file, i);
    if (c == 0 || c == JPEG || c == J2K_YCBCR || c == J2K_RGB)
        return 0;
    return err_set(e,
                   "level %" PRId64 " is smaller than one of its tiles, and OpenSlide %s returns "
                   "random bytes for it; use %s",
                   i->level, openslide_get_version(),
                   i->levels > 1 ? "another level" : "write it in smaller tiles first");
}

static int take_number(void *ctx, const char *key, const char *value)
{
    static const char *const keys[] = {
        OPENSLIDE_PROPERTY_NAME_BOUNDS_X, OPENSLIDE_PROPERTY_NAME_BOUNDS_Y,
        OPENSLIDE_PROPERTY_NAME_BOUNDS_WIDTH, OPENSLIDE_PROPERTY_NAME_BOUNDS_HEIGHT};
    double *bounds = ctx;
    for (int k = 0; k < 4; k++)
        if (!strcmp(key, keys[k]))
            bounds[k] = strtod(value, NULL);
    return 0;
}

/* The scanned area of the open level; all of it if the slide does not say. */
static void take_bounds(struct openslide_reader *r)
{
    double b[4] = {NAN, NAN, NAN, NAN}; /* x, y, width, height, level 0 */
    slide_metadata_properties(&r->slide, take_number, b);
    const bool stated = b[0] >= 0 && b[1] >= 0 && b[2] >= 1 && b[3] >= 1;
    for (int k = 0; k < 2; k++) {
        r->scanned[k] = stated ? b[k] / r->info.downsample : 0;
        r->bounds[k] = stated ? floor(b[k] / r->info.downsample) - 1 : 0;
        r->bounds[2 + k] =
            stated ? ceil((b[k] + b[2 + k]) / r->info.downsample) + 1 : (double)INT64_MAX;
    }
}

/* Does the format list its tiles, so that OpenSlide shows those that are left out as background? */
static bool lists_tiles(const char *vendor)
{
    return !strcmp(vendor, "generic-tiff") || !strcmp(vendor, "aperio") ||
           !strcmp(vendor, "philips");
}

/* Is OpenSlide's level one of the slide? In SVS it takes labels in tiles and other focal planes for
 * levels. */
static bool has_level(const struct tiff_pyramid *p, int64_t level)
{
    for (int64_t k = 0; k < p->levels; k++)
        if (p->seen[k] == level)
            return true;
    return false;
}

/* Reads the directories of a TIFF as slide_tiff.c does. */
static int take_tiff(struct openslide_reader *r, struct slide_info *i, struct err *e)
{
    const struct tiff_pyramid *p;
    bool lost;
    const int found = lists_tiles(i->vendor) ? tiff_pyramid_check(&p, r->file, e) : 0;
    if (found > 0 && p->kind <= TIFF_PHILIPS) {
        int64_t levels = 0;
        while (levels < i->levels && has_level(p, levels))
            levels++;
        i->levels = levels > 0 ? levels : i->levels;
        i->mpp_x = i->mpp_x > 0 ? i->mpp_x : p->mpp_x;
        i->mpp_y = i->mpp_y > 0 ? i->mpp_y : p->mpp_y;
        return i->level < i->levels ? 0 : slide_reject_level(i->levels, i->level, e);
    }
    if (found <= 0)
        return found;
    i->mpp_x = p->mpp_x;
    i->mpp_y = p->mpp_y;
    r->icc = tiff_file_icc(tiff_file_of(r->file), p->at[0], &r->icc_bytes, &lost);
    if (lost)
        snprintf(i->problem, sizeof i->problem, "its ICC profile cannot be read");
    return 0;
}

/* The format may have other planes, of which OpenSlide shows the main one. Returns the number of
 * pictures that a Leica slide states besides its macro. */
static int note_planes(const struct slide_file *file, struct slide_info *i)
{
    int pictures = -1;
    const struct tiff_file *t = strcmp(i->vendor, "leica") ? NULL : tiff_file_of(file);
    const struct tiff_directory *d = t ? tiff_file_directory(t, t->first) : NULL;
    const struct tiff_tag *tag = d ? tiff_directory_tag(d, TIFF_FILE_DESCRIPTION) : NULL;
    const int ndpi = ndpi_planes(file, i->width, i->height);
    if (ndpi > 1)
        ndpi_note_planes(ndpi, i);
    char *text = tag ? tiff_file_bytes(t, tag, 1 << 26) : NULL;
    if (text && strstr(text, " z=\"1\""))
        snprintf(i->note, sizeof i->note,
                 "it has several focal planes, of which plane 0 is stored");
    for (const char *at = text; at && (at = strstr(at, "<image ")); at++)
        pictures++;
    free(text);
    return pictures;
}

/* Where to begin reading, along one axis. */
struct start {
    int64_t k;    /* px of the level */
    int64_t at;   /* the same in px of level 0, as OpenSlide takes it */
    bool between; /* OpenSlide shows what lies between two pixels of the level */
};

/*
 * Where to begin reading a coarser level, so that its pixel x comes out as it is stored. OpenSlide
 * takes level-0 coordinates, and downsamples are not whole numbers, so most starts lie between the
 * level's pixels. There it interpolates, unless they are nearer to a pixel than cairo's fixed-point
 * numbers resolve: this steps back to such a pixel.
 * Of Leica's format it truncates the distance to where a scanned area begins: so the start must not
 * lie before the pixel, and for one on the left of the area or above it, not behind it.
 */
static struct start find_start(const struct openslide_reader *r, int64_t x, int axis)
{
    const double downsample = r->info.downsample;
    struct start best = {x, llround((double)x * downsample), false};
    double least = 1;
    if (r->truncates) {
        const bool before = (double)x <= r->scanned[axis];
        while (!before && (double)best.at / downsample < (double)x)
            best.at++;
        while (before && (double)best.at / downsample > (double)x)
            best.at--;
        return best;
    }
    for (int64_t k = x; k >= 0 && k > x - MOST_STEP && least >= 1.0 / 512; k--) {
        const int64_t at = llround((double)k * downsample);
        const double off = fabs((double)at / downsample - (double)k);
        if (off < least) {
            least = off;
            best = (struct start){k, at, off >= 1.0 / 512};
        }
    }
    return best;
}

/* Says so if some tiles of the open level cannot be read as they are stored. */
static void note_interpolation(const struct openslide_reader *r, int areas, struct slide_info *i)
{
    const bool shifts = r->truncates && areas > 1 && fmod(i->downsample, 1) != 0;
    bool between = false;
    for (int64_t x = 0; x < i->width && !between && !shifts; x += i->tile_cols)
        between = find_start(r, x, 0).between;
    for (int64_t y = 0; y < i->height && !between && !shifts; y += i->tile_rows)
        between = find_start(r, y, 1).between;
    if (between || shifts)
        snprintf(i->interpolated, sizeof i->interpolated,
                 "its downsample is %.6g, and OpenSlide %s", i->downsample,
                 between ? "reads from whole pixels of level 0"
                         : "can shift one of its scanned areas by a pixel");
}

static int pass_over(void *ctx, const struct slide_file *file)
{
    (void)ctx, (void)file;
    return 0;
}

/* OpenSlide does not name the file that it cannot open now. */
static void name_unreadable(const struct slide_file *file, struct err *e)
{
    struct err named = {0};
    const int code = errno;
    if (sources_companions(file, pass_over, NULL, &named))
        err_copy(e, &named);
    errno = code;
}

/* OpenSlide refuses the file. What it does not support, by its words or by the compression, gets a
 * remedy, and a compression its name. */
static void add_remedy(const struct slide_file *file, struct err *e)
{
    enum { JPEG = 7 };
    const struct err why = *e;
    const struct tiff_file *t = tiff_file_of(file);
    const struct tiff_directory *d = t ? tiff_file_directory(t, t->first) : NULL;
    const uint64_t kind = d ? tiff_file_value(t, d, TIFF_FILE_COMPRESSION, JPEG) : JPEG;
    char name[64];
    if (!strcasestr(why.msg, "support") && tile_compression(kind))
        return;
    tiff_file_name_compression(kind, name, sizeof name);
    err_set(e,
            "%s%s%s; write the slide in another format first, for example with the scanner's "
            "software",
            why.msg, kind == JPEG ? "" : "; its pixels are ", kind == JPEG ? "" : name);
}

static int reader_open(struct slide **out, const struct slide_file *file, int64_t level,
                       int threads, struct slide_info *info, struct err *e)
{
    struct slide_metadata *m = NULL;
    const struct tiff_pyramid *p;
    const int strips = tiff_pyramid_strips(&p, file, e);
    if (strips) /* OpenSlide would take a level in tiles for the slide */
        return strips < 0 ? -1 : 0;
    const int found = slide_metadata_open(&m, file, level, info, e);
    info->library = slide_metadata_library();
    if (found == -1)
        name_unreadable(file, e);
    if (found == SLIDE_DAMAGED)
        add_remedy(file, e);
    if (found <= 0)
        return found == -1 || sources_check_mirax(file, e) || found ? -1 : 0;
    if (tiff_file_check_level(file, info, e) || check_safe(file, info, e) ||
        slide_metadata_confirm(m, e)) {
        slide_metadata_close(m);
        return -1;
    }
    struct openslide_reader *r = memory_need(1, sizeof *r);
    *r = (struct openslide_reader){.slide = {&slide_openslide, m},
                                   .file = file,
                                   .info = *info,
                                   .threads = threads,
                                   .scratch = memory_need((size_t)threads, sizeof *r->scratch)};
    if (take_tiff(r, info, e)) {
        reader_close(&r->slide);
        return -1;
    }
    errno = 0;
    r->empty = tiff_file_empty_tiles(file, info);
    if (!r->empty && slide_may_pass(errno)) {
        err_sys(e, "cannot read its directories");
        reader_close(&r->slide);
        return -1;
    }
    take_bounds(r);
    r->truncates = !strcmp(info->vendor, "leica");
    ndpi_take_mpp(file, info);
    note_interpolation(r, note_planes(file, info), info);
    r->tables_tell = lists_tiles(info->vendor);
    tiff_file_obstacle(file, info, info->no_jpeg, sizeof info->no_jpeg);
    *out = &r->slide;
    return 1;
}

/* Does the handle show the slide that was opened first? See slide_metadata_confirm(). */
static bool is_same_slide(const struct openslide_reader *r, openslide_t *o)
{
    int64_t width = 0, height = 0;
    const int32_t levels = openslide_get_level_count(o);
    openslide_get_level_dimensions(o, (int32_t)r->info.level, &width, &height);
    return (levels < SLIDE_LEVELS ? levels : SLIDE_LEVELS) == r->info.levels &&
           width == r->info.width && height == r->info.height;
}

/* The thread's handle, opened when it is needed. NULL on failure. */
static openslide_t *thread_handle(struct openslide_reader *r, struct scratch *t, struct err *e)
{
    if (t->handle)
        return t->handle;
    errno = 0;
    openslide_t *o = openslide_open(r->file->path);
    const char *error = o ? openslide_get_error(o) : NULL;
    if (o && !error && is_same_slide(r, o))
        return t->handle = o;
    error = error ? error : strerror(errno ? errno : EIO);
    err_blame(e, ERR_TROUBLE, "%s: OpenSlide can no longer read it: %s; try again", r->file->path,
              error);
    if (o)
        openslide_close(o);
    return NULL;
}

/* --- tiles --- */

/* One row of ARGB as RGB or gray, in portions that stay in the first-level cache. */
static void put_row(const struct slide_info *i, const uint32_t *argb, int64_t columns, int channels,
                    uint8_t *out)
{
    uint8_t rgb[256 * 3];
    if (channels == 3) {
        slide_compose(argb, (size_t)columns, i->background, out);
        return;
    }
    for (int64_t x = 0; x < columns; x += 256) {
        const size_t n = (size_t)(columns - x < 256 ? columns - x : 256);
        slide_compose(argb + x, n, i->background, rgb);
        gray_bytes_from_rgb(rgb, out + x, n);
    }
}

/* The thread's pixels, grown when needed. NULL when out of memory. */
static uint32_t *thread_pixels(struct scratch *t, size_t n, struct err *e)
{
    if (n > t->size) {
        free(t->argb);
        t->argb = memory_try(n, sizeof *t->argb, e);
        t->size = t->argb ? n : 0;
    }
    return t->argb;
}

/* A rectangle of the open level, and where to begin reading it. */
struct region {
    int64_t x, y, columns, rows; /* the tile, cut at the slide's edge */
    struct start from_x, from_y; /* where to begin, at most (x, y) */
    int64_t pitch, lines;        /* what is read, from there */
};

static struct region region_of(const struct openslide_reader *r, int64_t col, int64_t row)
{
    const struct slide_info *i = &r->info;
    struct region g = {.x = col * i->tile_cols, .y = row * i->tile_rows};
    g.columns = i->width - g.x < i->tile_cols ? i->width - g.x : i->tile_cols;
    g.rows = i->height - g.y < i->tile_rows ? i->height - g.y : i->tile_rows;
    g.from_x = find_start(r, g.x, 0);
    g.from_y = find_start(r, g.y, 1);
    g.pitch = g.x - g.from_x.k + g.columns;
    g.lines = g.y - g.from_y.k + g.rows;
    return g;
}

/* Is the tile empty in the file? OpenSlide 3 cannot read such tiles of generic TIFF; in Aperio
 * slides it fills them from other levels. */
static bool is_empty(const struct openslide_reader *r, int64_t col, int64_t row)
{
    const struct slide_info *i = &r->info;
    const int64_t cols = (i->width + i->tile_cols - 1) / i->tile_cols;
    const int64_t x = col * i->tile_cols, y = row * i->tile_rows;
    return (r->empty && r->empty[row * cols + col]) || (double)x >= r->bounds[2] ||
           (double)y >= r->bounds[3] || (double)(x + i->tile_cols) <= r->bounds[0] ||
           (double)(y + i->tile_rows) <= r->bounds[1];
}

/* Without a table, what one level does not show counts as missing in all. */
static bool reader_is_missing(const struct slide *s, int64_t col, int64_t row)
{
    const struct openslide_reader *r = (const struct openslide_reader *)s;
    return !r->tables_tell || is_empty(r, col, row);
}

/* Was nothing of the tile scanned? Its pixels are transparent then. */
static bool is_transparent(const uint32_t *argb, const struct region *g)
{
    for (int64_t y = 0; y < g->rows; y++)
        for (int64_t x = 0; x < g->columns; x++)
            if (argb[y * g->pitch + x] >> 24)
                return false;
    return true;
}

/*
 * Reads a region into argb [lines][pitch]. *status is STORE_DAMAGED when OpenSlide cannot. Without
 * memory OpenSlide's renderer leaves rows out and reports no error, so errno is checked, too.
 */
static int read_region(const struct openslide_reader *r, struct scratch *t, const struct region *g,
                       enum store_status *status, struct err *e)
{
    errno = 0;
    openslide_read_region(t->handle, t->argb, g->from_x.at, g->from_y.at, (int32_t)r->info.level,
                          g->pitch, g->lines);
    const int code = errno;
    const bool bad = openslide_get_error(t->handle);
    *status = bad ? STORE_DAMAGED : STORE_WHOLE;
    if (bad) {
        if (!t->refusal[0] && !slide_may_pass(code))
            snprintf(t->refusal, sizeof t->refusal, "%s", openslide_get_error(t->handle));
        openslide_close(t->handle);
        t->handle = NULL;
    }
    if (code != ENOMEM && !(bad && slide_may_pass(code)))
        return 0;
    errno = code;
    return err_sys(e, "OpenSlide cannot read it now");
}

static int reader_read(struct slide *s, int thread, int64_t col, int64_t row, int channels,
                       uint8_t *out, enum store_status *status, struct err *e)
{
    struct openslide_reader *r = from_slide(s);
    struct scratch *t = &r->scratch[thread];
    const struct slide_info *i = &r->info;
    const struct region g = region_of(r, col, row);
    const size_t n = (size_t)(g.pitch * g.lines);
    if (!thread_handle(r, t, e) || !thread_pixels(t, n, e))
        return -1;
    *status = STORE_MISSING;
    if (!is_empty(r, col, row) && read_region(r, t, &g, status, e))
        return -1;
    const uint32_t *argb = t->argb + (g.y - g.from_y.k) * g.pitch + g.x - g.from_x.k;
    if (*status != STORE_WHOLE)
        memset(t->argb, 0, n * sizeof *t->argb); /* transparent: background */
    else if (is_transparent(argb, &g))
        *status = STORE_MISSING;
    for (int64_t k = 0; k < g.rows; k++)
        put_row(i, argb + k * g.pitch, g.columns, channels, out + k * i->tile_cols * channels);
    return 0;
}

static const char *reader_refusal(const struct slide *s)
{
    const struct openslide_reader *r = (const struct openslide_reader *)s;
    for (int t = 0; t < r->threads; t++)
        if (r->scratch[t].refusal[0])
            return r->scratch[t].refusal;
    return "";
}

/* --- metadata --- */

static int reader_files(struct slide *s, int (*put)(void *ctx, const struct slide_file *file),
                        void *ctx, struct err *e)
{
    return sources_companions(from_slide(s)->file, put, ctx, e);
}

static int reader_icc(struct slide *s, uint8_t **profile, size_t *bytes, struct err *e)
{
    const struct openslide_reader *r = from_slide(s);
    if (!r->icc)
        return slide_metadata_icc(s, profile, bytes, e);
    if (!(*profile = memory_try(r->icc_bytes, 1, e)))
        return -1;
    memcpy(*profile, r->icc, r->icc_bytes);
    *bytes = r->icc_bytes;
    return 1;
}

const struct slide_reader slide_openslide = {
    .name = "openslide",
    .open = reader_open,
    .read = reader_read,
    .is_missing = reader_is_missing,
    .refusal = reader_refusal,
    .files = reader_files,
    .properties = slide_metadata_properties,
    .thumbnail = slide_metadata_thumbnail,
    .icc = reader_icc,
    .close = reader_close,
};
