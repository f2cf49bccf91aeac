/*
 * svs.c - Aperio SVS, read directly.
 *
 * libtiff reads the directories, once, on one thread; what is kept of a level is where each tile lies.
 * Tiles are then read with pread from one descriptor and decoded by each thread for itself (tile.h),
 * straight into the chunk that is stored: OpenSlide takes five times as long for the same pixels, in
 * its blitting.
 *
 * OpenSlide still tells what it knows of the slide as a whole (quickhash, properties, thumbnail), so that
 * stores say the same whichever reader made them. A slide that it refuses because of one bad tile is
 * read all the same, with what its description says. Aperio files in a compression that is not known
 * here go to OpenSlide altogether.
 */
#include "convert/slide.h"
#include "convert/tile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tiffio.h>
#include <unistd.h>

enum { LEAST_TILE = 8, MOST_TILE = 4096, MOST_DIRECTORIES = 1024, GAP_BYTES = 1 << 16 };

/* Where a tile's bytes lie. */
struct place {
    uint64_t offset, bytes;
};

struct thread {
    struct tile_decoder *decoder; /* made when first needed */
    uint8_t *bytes;               /* of one compressed tile */
    size_t size;
};

struct slide {
    char *path, *description;
    int fd;
    uint64_t file_bytes;
    struct slide_info info;
    struct tile_format format;
    uint8_t *tables, *icc;
    size_t icc_bytes;
    int64_t cols, rows;     /* tiles */
    struct place *places;   /* [rows][cols] */
    struct slide *whole;    /* what OpenSlide knows; NULL when it cannot open the file */
    int threads;
    struct thread *thread;  /* [threads] */
};

extern const struct slide_reader slide_svs, slide_openslide;

/* --- the description --- */

/* The value of "key = value" between bars, or NULL; *n its length. */
static const char *described(const char *description, const char *key, size_t *n)
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

/* A positive number, with a decimal point or comma; NaN without. */
static double described_number(const char *description, const char *key)
{
    char text[64], *end;
    size_t n;
    const char *v = described(description, key, &n);
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

/* --- directories --- */

static void keep_quiet(const char *module, const char *fmt, va_list ap)
{
    (void)module, (void)fmt, (void)ap;
}

static void *copy_of(const void *data, size_t n)
{
    void *copy = n ? malloc(n) : NULL;
    return copy ? memcpy(copy, data, n) : NULL;
}

/* The tag, or `otherwise` when it is absent. */
static int small_tag(TIFF *t, uint32_t tag, int otherwise)
{
    uint16_t v = 0;
    return TIFFGetFieldDefaulted(t, tag, &v) ? v : otherwise;
}

/* Goes to the directory of a level: the tiled ones are levels, in the order of the file. 1: there it is. */
static int go_to_level(TIFF *t, int64_t level)
{
    int64_t n = 0;
    for (int k = 0; k < MOST_DIRECTORIES; k++) {
        if (TIFFIsTiled(t) && n++ == level)
            return 1;
        if (!TIFFReadDirectory(t))
            return 0;
    }
    return 0;
}

/* Sizes and format of the level. 0 when they are not what this reader knows. */
static int take_format(TIFF *t, struct slide *s)
{
    uint32_t width = 0, height = 0, cols = 0, rows = 0, n = 0;
    const void *tables = NULL;
    if (!TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &width) || !TIFFGetField(t, TIFFTAG_IMAGELENGTH, &height) ||
        !TIFFGetField(t, TIFFTAG_TILEWIDTH, &cols) || !TIFFGetField(t, TIFFTAG_TILELENGTH, &rows) ||
        width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX || cols < LEAST_TILE ||
        rows < LEAST_TILE || cols > MOST_TILE || rows > MOST_TILE)
        return 0;
    s->info.width = width;
    s->info.height = height;
    s->info.tile_cols = cols;
    s->info.tile_rows = rows;
    s->cols = (s->info.width + cols - 1) / cols;
    s->rows = (s->info.height + rows - 1) / rows;
    s->format = (struct tile_format){.compression = small_tag(t, TIFFTAG_COMPRESSION, 0),
                                     .photometric = small_tag(t, TIFFTAG_PHOTOMETRIC, 0),
                                     .cols = cols, .rows = rows};
    if (!tile_is_known(s->format.compression, s->format.photometric) ||
        small_tag(t, TIFFTAG_SAMPLESPERPIXEL, 1) != 3 || small_tag(t, TIFFTAG_BITSPERSAMPLE, 1) != 8 ||
        small_tag(t, TIFFTAG_PLANARCONFIG, 1) != PLANARCONFIG_CONTIG)
        return 0;
    if (s->format.compression == TILE_JPEG && TIFFGetField(t, TIFFTAG_JPEGTABLES, &n, &tables) && n > 0) {
        s->format.tables = s->tables = copy_of(tables, n);
        s->format.tables_bytes = n;
    }
    return 1;
}

static int take_places(TIFF *t, struct slide *s, struct err *e)
{
    const int64_t n = s->cols * s->rows;
    if (n != (int64_t)TIFFNumberOfTiles(t) || (s->format.tables_bytes && !s->tables))
        return err_set(e, "its list of tiles does not fit its size");
    s->places = malloc((size_t)n * sizeof *s->places);
    if (!s->places)
        return err_set(e, "out of memory");
    for (int64_t k = 0; k < n; k++)
        s->places[k] = (struct place){TIFFGetStrileOffset(t, (uint32_t)k),
                                      TIFFGetStrileByteCount(t, (uint32_t)k)};
    return 0;
}

/* Is the second directory the thumbnail? It has strips, no mark of label (1) or macro (9), and the slide's
 * proportions. */
static int is_thumbnail_next(TIFF *t, uint32_t width, uint32_t height)
{
    uint32_t type = 0, w = 0, h = 0;
    if (!TIFFReadDirectory(t))
        return 0;
    TIFFGetField(t, TIFFTAG_SUBFILETYPE, &type);
    const int good = !TIFFIsTiled(t) && type == 0 && TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &w) &&
                     TIFFGetField(t, TIFFTAG_IMAGELENGTH, &h) && w > 0 && h > 0 &&
                     fabs((double)w / (double)h * ((double)height / (double)width) - 1) < 0.1;
    return TIFFSetDirectory(t, 0) && good;
}

/* 1: an Aperio file with the level open in t. 0: something else. */
static int take_directories(TIFF *t, struct slide *s, int64_t level, struct err *e)
{
    const char *description = NULL;
    const void *icc = NULL;
    uint32_t n = 0, width = 0, height = 0;
    if (!TIFFIsTiled(t) || !TIFFGetField(t, TIFFTAG_IMAGEDESCRIPTION, &description) ||
        strncmp(description, "Aperio", 6) || !TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &width) ||
        !TIFFGetField(t, TIFFTAG_IMAGELENGTH, &height))
        return 0;
    if (!(s->description = strdup(description)))
        return err_set(e, "out of memory");
    if (TIFFGetField(t, TIFFTAG_ICCPROFILE, &n, &icc) && n > 0 && (s->icc = copy_of(icc, n)))
        s->icc_bytes = n;
    s->info.has_thumbnail = is_thumbnail_next(t, width, height);
    if (!go_to_level(t, level) || !take_format(t, s))
        return 0;
    if (take_places(t, s, e))
        return -1;
    s->info.downsample = ((double)width / (double)s->info.width + (double)height / (double)s->info.height) / 2;
    return 1;
}

/* --- opening and closing --- */

static void svs_close(struct slide *s)
{
    if (!s)
        return;
    for (int t = 0; s->thread && t < s->threads; t++) {
        tile_free(s->thread[t].decoder);
        free(s->thread[t].bytes);
    }
    if (s->whole)
        slide_openslide.close(s->whole);
    if (s->fd >= 0)
        close(s->fd);
    free(s->thread);
    free(s->places);
    free(s->tables);
    free(s->icc);
    free(s->description);
    free(s->path);
    free(s);
}

/* What is known of the slide as a whole. 0: OpenSlide sees another level than we do. */
static int take_whole(struct slide *s, int64_t level)
{
    struct slide_info w;
    struct err why = {""};
    struct slide_info *i = &s->info;
    i->level = level;
    i->has_eighth = s->format.compression == TILE_JPEG && i->tile_cols % 8 == 0 && i->tile_rows % 8 == 0;
    memset(i->background, 255, 3);
    snprintf(i->vendor, sizeof i->vendor, "aperio");
    const int known = slide_openslide.open(&s->whole, s->path, level, 1, &w, &why);
    if (known <= 0)
        snprintf(i->problem, sizeof i->problem, "%.200s", known < 0 ? why.msg : "OpenSlide does not know it");
    if (known > 0) {
        if (strcmp(w.vendor, "aperio") || w.width != i->width || w.height != i->height)
            return 0;
        memcpy(i->quickhash, w.quickhash, sizeof i->quickhash);
        memcpy(i->background, w.background, 3);
        i->downsample = w.downsample;
        i->levels = w.levels;
        memcpy(i->downsamples, w.downsamples, sizeof i->downsamples);
    }
    i->mpp_x = i->mpp_y = described_number(s->description, "MPP");
    i->objective_power = described_number(s->description, "AppMag");
    return 1;
}

static int svs_open(struct slide **out, const char *path, int64_t level, int threads,
                    struct slide_info *info, struct err *e)
{
    struct stat st;
    TIFFSetErrorHandler(keep_quiet);
    TIFFSetWarningHandler(keep_quiet);
    TIFF *t = TIFFOpen(path, "rm");
    if (!t)
        return 0;
    struct slide *s = calloc(1, sizeof *s);
    int r = s ? 1 : err_set(e, "out of memory");
    if (s) {
        s->fd = -1;
        s->threads = threads;
        s->path = strdup(path);
        s->thread = calloc((size_t)threads, sizeof *s->thread);
        r = s->path && s->thread ? take_directories(t, s, level, e) : err_set(e, "out of memory");
    }
    TIFFClose(t);
    if (r > 0)
        r = take_whole(s, level);
    if (r > 0 && ((s->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 || fstat(s->fd, &st)))
        r = err_sys(e, "cannot open");
    if (r <= 0) {
        svs_close(s);
        return r;
    }
    s->file_bytes = (uint64_t)st.st_size;
    *info = s->info;
    *out = s;
    return 1;
}

/* --- tiles --- */

/* Can the bytes lie there? More than twice the pixels is no tile. */
static bool is_possible(const struct slide *s, const struct place *p)
{
    const uint64_t most = 6 * (uint64_t)(s->format.cols * s->format.rows) + 65536;
    return p->bytes <= most && p->offset <= s->file_bytes && p->bytes <= s->file_bytes - p->offset;
}

/* 0, 1: the bytes are not all there, -1. */
static int read_bytes(const struct slide *s, struct thread *t, const struct place *p, struct err *e)
{
    if (p->bytes > t->size) {
        free(t->bytes);
        t->size = 0;
        if (!(t->bytes = malloc(p->bytes)))
            return err_set(e, "out of memory");
        t->size = p->bytes;
    }
    for (size_t done = 0; done < p->bytes;) {
        const ssize_t n = pread(s->fd, t->bytes + done, p->bytes - done, (off_t)(p->offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "cannot read");
        if (n == 0)
            return 1;
        done += (size_t)n;
    }
    return 0;
}

/* n pixels of background. */
static void fill(const struct slide *s, int channels, size_t n, uint8_t *out)
{
    const uint8_t *b = s->info.background;
    const uint8_t gray = (uint8_t)((299 * b[0] + 587 * b[1] + 114 * b[2] + 500) / 1000);
    if (channels == 1)
        memset(out, gray, n);
    for (size_t k = 0; channels == 3 && k < n; k++)
        memcpy(out + 3 * k, b, 3);
}

/* Has the thread's decoder and a tile's bytes ready. 0; 1: they cannot be had; -1. */
static int fetch(struct slide *s, struct thread *t, const struct place *p, struct err *e)
{
    if (!t->decoder && !(t->decoder = tile_create(&s->format, e)))
        return -1;
    return p->bytes > 0 && is_possible(s, p) ? read_bytes(s, t, p, e) : 1;
}

static int svs_read(struct slide *s, int thread, int64_t col, int64_t row, int channels, uint8_t *out,
                    enum store_status *status, struct err *e)
{
    const struct place *p = &s->places[row * s->cols + col];
    struct thread *t = &s->thread[thread];
    const int bad = fetch(s, t, p, e);
    if (bad < 0)
        return -1;
    *status = STORE_WHOLE;
    if (bad || tile_decode(t->decoder, t->bytes, p->bytes, channels, out, NULL)) {
        *status = p->bytes == 0 ? STORE_MISSING : STORE_DAMAGED;
        fill(s, channels, (size_t)(s->format.cols * s->format.rows), out);
    }
    return 0;
}

static int svs_read_eighth(struct slide *s, int thread, int64_t col, int64_t row, uint8_t *rgb,
                           struct err *e)
{
    const struct place *p = &s->places[row * s->cols + col];
    struct thread *t = &s->thread[thread];
    const int bad = fetch(s, t, p, e);
    if (bad < 0)
        return -1;
    if (bad || tile_decode_eighth(t->decoder, t->bytes, p->bytes, rgb, NULL))
        fill(s, 3, (size_t)(s->format.cols / 8 * (s->format.rows / 8)), rgb);
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Has the kernel read the tiles of some rows: in the order of the file, neighbours in one go. */
static void svs_prefetch(struct slide *s, int64_t row, int64_t rows)
{
    const int64_t end = row + rows < s->rows ? row + rows : s->rows;
    size_t n = 0;
    struct place *p = malloc((size_t)((end - row) * s->cols) * sizeof *p);
    for (int64_t k = row * s->cols; p && k < end * s->cols; k++)
        if (s->places[k].bytes > 0 && is_possible(s, &s->places[k]))
            p[n++] = s->places[k];
    if (n > 1)
        qsort(p, n, sizeof *p, by_offset);
    for (size_t a = 0, b; a < n; a = b) {
        uint64_t stop = p[a].offset + p[a].bytes;
        for (b = a + 1; b < n && p[b].offset <= stop + GAP_BYTES; b++)
            if (p[b].offset + p[b].bytes > stop)
                stop = p[b].offset + p[b].bytes;
        posix_fadvise(s->fd, (off_t)p[a].offset, (off_t)(stop - p[a].offset), POSIX_FADV_WILLNEED);
    }
    free(p);
}

/* --- the rest --- */

/* What the description says, where OpenSlide says nothing. */
static int put_description(const struct slide *s, int (*put)(void *ctx, const char *key, const char *value),
                           void *ctx)
{
    int r = put(ctx, "tiff.ImageDescription", s->description);
    char *copy = strdup(s->description), *rest = copy;
    for (char *part; copy && r == 0 && (part = strsep(&rest, "|"));) {
        char key[128], *equals = strstr(part, " = ");
        if (!equals || equals == part)
            continue;
        snprintf(key, sizeof key, "aperio.%.*s", (int)(equals - part), part);
        r = put(ctx, key, equals + 3);
    }
    free(copy);
    return r;
}

static int svs_properties(struct slide *s, int (*put)(void *ctx, const char *key, const char *value),
                          void *ctx)
{
    return s->whole ? slide_openslide.properties(s->whole, put, ctx) : put_description(s, put, ctx);
}

static int svs_thumbnail(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height)
{
    return s->whole ? slide_openslide.thumbnail(s->whole, rgb, width, height) : 0;
}

static int svs_icc(struct slide *s, uint8_t **profile, size_t *bytes)
{
    *profile = copy_of(s->icc, s->icc_bytes);
    *bytes = s->icc_bytes;
    return *profile != NULL;
}

const struct slide_reader slide_svs = {
    .name = "svs", .open = svs_open, .read = svs_read,
    .read_eighth = svs_read_eighth, .prefetch = svs_prefetch,
    .properties = svs_properties, .thumbnail = svs_thumbnail, .icc = svs_icc, .close = svs_close,
};
