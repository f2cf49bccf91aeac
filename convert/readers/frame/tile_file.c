/* tile_file.c - see tile_file.h. */
#include "convert/readers/frame/tile_file.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/store/gray.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { GAP_BYTES = 1 << 16 }; /* tiles this near to each other are prefetched in one go */

/* The memory of one thread. */
struct scratch {
    struct tile_decoder *decoder; /* NULL until it is needed */
    struct tile_bytes tile;       /* compressed */
    uint8_t *planes;              /* [3][rows][cols] of a tile, in_planes; else NULL */
    struct err refusal;           /* of the first tile that the decoder has refused, or "" */
    int64_t refused;              /* its number, row by row */
};

struct tile_file {
    struct tile_grid grid;
    const struct slide_file **files; /* [n_files] */
    int n_files;
    int threads;
    struct scratch *scratch; /* [threads] */
};

/* --- opening and closing --- */

struct tile_file *tile_file_open(const struct slide_file *file, const struct tile_grid *g,
                                 int threads)
{
    struct tile_file *t = memory_need(1, sizeof *t);
    t->grid = *g;
    t->files = memory_need((size_t)g->n_others + 1, sizeof *t->files);
    t->scratch = memory_need((size_t)threads, sizeof *t->scratch);
    t->threads = threads;
    t->grid.others = NULL; /* need not exist any longer */
    t->files[t->n_files++] = file;
    for (int k = 0; k < g->n_others; k++)
        t->files[t->n_files++] = g->others[k];
    return t;
}

void tile_file_close(struct tile_file *t)
{
    if (!t)
        return;
    for (int k = 0; k < t->threads; k++) {
        tile_free(t->scratch[k].decoder);
        free(t->scratch[k].tile.bytes);
        free(t->scratch[k].planes);
    }
    free(t->files);
    free(t->scratch);
    free(t);
}

/* --- tiles --- */

int tile_bytes_grow(struct tile_bytes *b, size_t n, struct err *e)
{
    if (n <= b->size)
        return 0;
    free(b->bytes);
    b->size = 0;
    if (!(b->bytes = memory_try(n, 1, e)))
        return -1;
    b->size = n;
    return 0;
}

enum { PLANES = 3 };

/* A tile that is gathered has some place. */
static struct tile_place place_at(const struct tile_file *t, int64_t col, int64_t row)
{
    const struct tile_grid *g = &t->grid;
    return g->gather ? (struct tile_place){0, 1} : g->places[row * g->cols + col];
}

static struct tile_place plane_at(const struct tile_file *t, int plane, int64_t col, int64_t row)
{
    const struct tile_grid *g = &t->grid;
    return g->places[(plane * g->rows + row) * g->cols + col];
}

/* Bytes of a tile, with all its planes; 0: the slide does not have it. */
static uint64_t bytes_of(const struct tile_file *t, int64_t col, int64_t row)
{
    uint64_t bytes = 0;
    for (int k = 0; k < PLANES && t->grid.in_planes; k++)
        bytes += plane_at(t, k, col, row).bytes;
    return t->grid.in_planes ? bytes : place_at(t, col, row).bytes;
}

/* The file of a place, and *at, the offset in it. NULL: there is no such file. */
static const struct slide_file *file_of(const struct tile_file *t, const struct tile_place *p,
                                        uint64_t *at)
{
    const uint64_t k = p->offset >> TILE_FILE_BITS;
    *at = p->offset - (k << TILE_FILE_BITS);
    return k < (uint64_t)t->n_files ? t->files[k] : NULL;
}

/* Can the bytes lie there? More than twice the pixels' size is no tile. */
static bool is_possible(const struct tile_file *t, const struct tile_place *p)
{
    const struct tile_format *f = &t->grid.format;
    const uint64_t most = 6 * (uint64_t)(f->cols * f->rows) + 65536;
    uint64_t at;
    const struct slide_file *file = file_of(t, p, &at);
    return file && p->bytes <= most && at <= file->bytes && p->bytes <= file->bytes - at;
}

/* 0; 1: the file ends before the tile does; -1. */
static int read_bytes(const struct tile_file *t, struct tile_bytes *b, const struct tile_place *p,
                      struct err *e)
{
    uint64_t at;
    const struct slide_file *f = file_of(t, p, &at);
    if (tile_bytes_grow(b, p->bytes, e))
        return -1;
    b->n = read_at(f->fd, at, b->bytes, p->bytes);
    if (b->n < p->bytes)
        return errno ? err_sys(e, "cannot read") : 1;
    return t->grid.unwrap && !t->grid.unwrap(b->bytes, &b->n);
}

/* n pixels of background. */
static void fill(const struct tile_file *t, int channels, size_t n, uint8_t *out)
{
    const uint8_t *b = t->grid.background;
    uint8_t gray;
    gray_bytes_from_rgb(b, &gray, 1);
    if (channels == 1)
        memset(out, gray, n);
    for (size_t k = 0; channels == 3 && k < n; k++)
        memcpy(out + 3 * k, b, 3);
}

/* Prepares the thread's decoder for a tile. */
static int prepare(const struct tile_file *t, struct scratch *s, int64_t col, int64_t row,
                   struct err *e)
{
    const struct tile_grid *g = &t->grid;
    if (!s->decoder && !(s->decoder = tile_create(&g->format, e)))
        return -1;
    if (g->width > 0) {
        const int64_t cols = g->width - col * g->format.cols,
                      rows = g->height - row * g->format.rows;
        tile_may_end_at(s->decoder, cols < g->format.cols ? cols : g->format.cols,
                        rows < g->format.rows ? rows : g->format.rows);
    }
    return 0;
}

/* Reads the bytes of a place into s->tile. 0; 1: they are not in the file; -1. */
static int fetch_place(const struct tile_file *t, struct scratch *s, const struct tile_place *p,
                       struct err *e)
{
    return p->bytes > 0 && is_possible(t, p) ? read_bytes(t, &s->tile, p, e) : 1;
}

/* Prepares the thread's decoder and reads a tile into s->tile. 0; 1: it is not in the file; -1. */
static int fetch(const struct tile_file *t, struct scratch *s, int64_t col, int64_t row,
                 struct err *e)
{
    const struct tile_grid *g = &t->grid;
    if (prepare(t, s, col, row, e))
        return -1;
    if (g->gather)
        return g->gather(g->ctx, col, row, &s->tile, e);
    const struct tile_place p = place_at(t, col, row);
    return fetch_place(t, s, &p, e);
}

/* Keeps what the decoder says, if it refuses a tile. Returns `bad`. */
static int noted(const struct tile_file *t, struct scratch *s, int64_t col, int64_t row, int bad,
                 const struct err *e)
{
    const int64_t number = row * t->grid.cols + col;
    if (bad == TILE_DAMAGED && (!s->refusal.msg[0] || number < s->refused)) {
        s->refusal = *e;
        s->refused = number;
    }
    return bad;
}

/* What follows from decoding a tile: `bad` is 0, 1 (its bytes are not in the file), TILE_EMPTY,
 * TILE_DAMAGED or TILE_NO_MEMORY. The n pixels of a bad tile become background. */
static int settle(const struct tile_file *t, const struct tile_place *p, int bad, int channels,
                  size_t n, uint8_t *out, enum store_status *status)
{
    if (bad == TILE_NO_MEMORY)
        return -1;
    *status = bad == 0                             ? STORE_WHOLE
              : p->bytes == 0 || bad == TILE_EMPTY ? STORE_MISSING
                                                   : STORE_DAMAGED;
    if (bad)
        fill(t, channels, n, out);
    return 0;
}

static struct tile_file *tiles_of(const struct slide *s)
{
    return ((const struct tiled_slide *)s)->tiles;
}

/* Decodes the planes of a tile into s->planes. As settle()'s `bad`, or -1. */
static int read_planes(const struct tile_file *t, struct scratch *s, int64_t col, int64_t row,
                       struct err *e)
{
    const struct tile_format *f = &t->grid.format;
    const size_t n = (size_t)(f->cols * f->rows);
    int bad = prepare(t, s, col, row, e);
    if (bad == 0 && !s->planes && !(s->planes = memory_try(PLANES, n, e)))
        bad = -1;
    for (int k = 0; k < PLANES && bad == 0; k++) {
        const struct tile_place p = plane_at(t, k, col, row);
        bad = fetch_place(t, s, &p, e);
        if (bad)
            break;
        bad = noted(
            t, s, col, row,
            tile_decode(s->decoder, s->tile.bytes, s->tile.n, 1, s->planes + (size_t)k * n, e), e);
        if (bad == TILE_DAMAGED)
            return 1;
    }
    return bad;
}

static void join_planes(const uint8_t *planes, size_t n, int channels, uint8_t *out)
{
    for (size_t k = 0; k < n; k++) {
        const uint8_t rgb[PLANES] = {planes[k], planes[n + k], planes[2 * n + k]};
        if (channels == PLANES)
            memcpy(out + PLANES * k, rgb, PLANES);
        else
            gray_bytes_from_rgb(rgb, out + k, 1);
    }
}

static int read_joined(struct tile_file *t, struct scratch *s, int64_t col, int64_t row,
                       int channels, uint8_t *out, enum store_status *status, struct err *e)
{
    const size_t n = (size_t)(t->grid.format.cols * t->grid.format.rows);
    const struct tile_place all = {0, bytes_of(t, col, row)};
    const int bad = read_planes(t, s, col, row, e);
    if (bad < 0)
        return -1;
    if (bad == 0)
        join_planes(s->planes, n, channels, out);
    return settle(t, &all, bad, channels, n, out, status);
}

int tile_file_read(struct slide *slide, int thread, int64_t col, int64_t row, int channels,
                   uint8_t *out, enum store_status *status, struct err *e)
{
    struct tile_file *t = tiles_of(slide);
    const struct tile_format *f = &t->grid.format;
    const struct tile_place p = place_at(t, col, row);
    struct scratch *s = &t->scratch[thread];
    if (t->grid.in_planes)
        return read_joined(t, s, col, row, channels, out, status, e);
    int bad = fetch(t, s, col, row, e);
    if (bad < 0)
        return -1;
    if (bad == 0)
        bad = noted(t, s, col, row,
                    tile_decode(s->decoder, s->tile.bytes, s->tile.n, channels, out, e), e);
    return settle(t, &p, bad, channels, (size_t)(f->cols * f->rows), out, status);
}

int tile_file_read_eighth(struct slide *slide, int thread, int64_t col, int64_t row, uint8_t *rgb,
                          enum store_status *status, struct err *e)
{
    struct tile_file *t = tiles_of(slide);
    const struct tile_format *f = &t->grid.format;
    const struct tile_place p = place_at(t, col, row);
    struct scratch *s = &t->scratch[thread];
    int bad = fetch(t, s, col, row, e);
    if (bad < 0)
        return -1;
    if (bad == 0)
        bad = tile_decode_eighth(s->decoder, s->tile.bytes, s->tile.n, rgb, e);
    return settle(t, &p, bad, 3, (size_t)(f->cols / 8 * (f->rows / 8)), rgb, status);
}

int tile_file_read_kept(struct slide *slide, int thread, int64_t col, int64_t row,
                        struct jpeg_chunk *chunk, uint8_t *eighth, enum store_status *status,
                        struct err *e)
{
    struct tile_file *t = tiles_of(slide);
    const struct tile_place p = place_at(t, col, row);
    struct scratch *s = &t->scratch[thread];
    int bad = fetch(t, s, col, row, e);
    if (bad < 0)
        return -1;
    *status = p.bytes == 0 ? STORE_MISSING : STORE_DAMAGED;
    if (bad)
        return 0;
    bad =
        noted(t, s, col, row, tile_keep(s->decoder, s->tile.bytes, s->tile.n, chunk, eighth, e), e);
    if (bad == TILE_NO_MEMORY)
        return -1;
    if (bad == TILE_DAMAGED)
        return 0;
    *status = STORE_WHOLE;
    return bad == TILE_OTHER ? SLIDE_OTHER : 0;
}

bool tile_file_is_missing(const struct slide *s, int64_t col, int64_t row)
{
    return bytes_of(tiles_of(s), col, row) == 0;
}

const char *tile_file_refusal(const struct slide *s)
{
    const struct tile_file *t = tiles_of(s);
    const struct scratch *first = NULL;
    for (int k = 0; k < t->threads; k++)
        if (t->scratch[k].refusal.msg[0] && (!first || t->scratch[k].refused < first->refused))
            first = &t->scratch[k];
    return first ? first->refusal.msg : "";
}

/* The same for every number of threads, if the tiles differ: the last of the enum. */
static enum tile_conflict conflict_of(const struct tile_file *t)
{
    enum tile_conflict found = TILE_AGREES;
    for (int k = 0; k < t->threads; k++)
        if (t->scratch[k].decoder && tile_conflict(t->scratch[k].decoder) > found)
            found = tile_conflict(t->scratch[k].decoder);
    return found;
}

const char *tile_file_colour_conflict(const struct slide *s)
{
    static const char *const texts[2][2] = {
        /* [the stream decides][the file states YCbCr] */
        {"the JPEG tiles state YCbCr, the photometric tag RGB; read as RGB",
         "the JPEG tiles state RGB, the photometric tag YCbCr; read as YCbCr"},
        {"the JPEG tiles state YCbCr, PhotometricInterpretation RGB; read as YCbCr",
         "the JPEG tiles state RGB, PhotometricInterpretation YBR; read as RGB"}};
    static const char *const j2k[2] = {
        /* [the file states a transform] */
        "the JPEG 2000 tiles state a colour transform, PhotometricInterpretation YBR_FULL; read as "
        "RGB",
        "the JPEG 2000 tiles state no colour transform, PhotometricInterpretation YBR_ICT; read as "
        "YCbCr"};
    static const char *const subsampled[] = {
        "the JPEG tiles state RGB, but have subsampled chroma; read as YCbCr",
        "the photometric tag states RGB, but the JPEG tiles have subsampled chroma; read as YCbCr",
        ("PhotometricInterpretation states RGB, but the JPEG tiles have subsampled chroma; read as "
         "YCbCr")};
    const struct tile_file *t = tiles_of(s);
    const struct tile_format *f = &t->grid.format;
    const enum tile_conflict conflict = conflict_of(t);
    const bool states_ycbcr = f->photometric == TILE_PHOTOMETRIC_YCBCR;
    return conflict == TILE_AGREES       ? NULL
           : conflict == TILE_SUBSAMPLED ? subsampled[states_ycbcr ? 0 : 1 + f->stream_decides]
           : tile_is_j2k(f)              ? j2k[f->transformed]
                                         : texts[f->stream_decides][states_ycbcr];
}

/* --- prefetching --- */

static int by_offset(const void *a, const void *b)
{
    const struct tile_place *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Asks the kernel for n tiles, sorted by offset: neighbours in one go. */
static void advise(const struct tile_file *t, const struct tile_place *p, size_t n)
{
    for (size_t a = 0, b; a < n; a = b) {
        uint64_t stop = p[a].offset + p[a].bytes;
        for (b = a + 1; b < n && p[b].offset <= stop + GAP_BYTES; b++)
            if (p[b].offset + p[b].bytes > stop)
                stop = p[b].offset + p[b].bytes;
        uint64_t at;
        const struct slide_file *f = file_of(t, &p[a], &at);
        posix_fadvise(f->fd, (off_t)at, (off_t)(stop - p[a].offset), POSIX_FADV_WILLNEED);
    }
}

/* Announces the places first .. end - 1. */
static void prefetch_places(const struct tile_file *t, int64_t first, int64_t end)
{
    const struct tile_place *places = t->grid.places;
    size_t n = 0;
    struct tile_place *p = malloc((size_t)(end - first) * sizeof *p);
    if (!p)
        return;
    for (int64_t k = first; k < end; k++)
        if (places[k].bytes > 0 && is_possible(t, &places[k]))
            p[n++] = places[k];
    qsort(p, n, sizeof *p, by_offset);
    advise(t, p, n);
    free(p);
}

void tile_file_prefetch(struct slide *s, int64_t row, int64_t rows)
{
    const struct tile_file *t = tiles_of(s);
    const struct tile_grid *g = &t->grid;
    const int64_t end = row + rows < g->rows ? row + rows : g->rows;
    for (int64_t k = 0; k < (g->in_planes ? PLANES : 1) && !g->gather; k++)
        prefetch_places(t, (k * g->rows + row) * g->cols, (k * g->rows + end) * g->cols);
}
