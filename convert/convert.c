/* convert.c - see convert.h. */
#include "convert/convert.h"

#include "common/cli.h"
#include "common/gray.h"
#include "common/jpeg_chunk.h"
#include "common/jpeg_decoder.h"
#include "common/pipe.h"
#include "common/publish.h"
#include "common/stop.h"
#include "convert/head.h"
#include "convert/overview.h"
#include "convert/plan.h"
#include "convert/resolution.h"
#include "convert/slide.h"
#include "convert/tissue.h"
#include "convert/tissue_mask.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum {
    SAMPLED_ROWS = 4, /* every fourth row is enough for a cell's mean colour */
    KEPT_DEPTH = 16,  /* kept tiles per thread on their way: small, and of very unequal cost */
};

/* What the tissue map is made of. */
enum tissue_origin {
    TISSUE_NONE,     /* there is no map */
    TISSUE_OVERVIEW, /* as few pixels as possible (overview.h), or a mask; before the tiles */
    TISSUE_TILES,    /* the tiles that are converted */
};

/* One tile between source and sink. */
struct item {
    int64_t col, row;
    enum store_status status;
    const uint8_t *stored; /* the chunk: in `pixels`, `packed` or `chunk`, or c->flat */
    size_t bytes;          /* of it */
    bool raw;              /* it is the pixels, although there is a codec */
    uint32_t crc32;
    uint8_t *pixels, *packed; /* both store_chunk_bytes; codec jpeg: pixels at 1/8 */
    uint8_t *rgb;             /* the tile in colour, for gray with TISSUE_TILES; else NULL */
    struct jpeg_chunk chunk;
    char other[80];          /* why the tile cannot be a chunk of codec jpeg; "": it can */
    struct tissue_sums sums; /* for TISSUE_TILES */
};

struct convert {
    const char *path;
    const struct convert_options *o;
    struct slide *slide;
    struct slide_info slide_info;
    struct store_info info;
    struct store_writer *writer;
    struct head head;
    struct tissue tissue;
    uint8_t *mask; /* the tissue map from outside, or NULL */
    enum tissue_origin tissue_origin;
    int64_t columns, rows, next, done; /* tiles */
    struct codec_work **codecs;        /* [threads] */
    struct jpeg_chunk flat;            /* codec jpeg: a chunk of the background's colour */
    char other[sizeof((struct store_info *)0)->codec_reason]; /* why codec jpeg has failed */
    struct item *items;                                       /* [depth] */
    int depth;
    void (*progress)(void *ctx, double fraction, double pixels);
    void *progress_ctx;
};

/* --- the pipe --- */

static int source(void *ctx, void *slot, int64_t number, int64_t *after, struct err *e)
{
    struct convert *c = ctx;
    struct item *it = slot;
    (void)number, (void)after;
    if (stop_check(e))
        return -1;
    if (c->next == c->columns * c->rows)
        return PIPE_END;
    it->col = c->next % c->columns;
    it->row = c->next / c->columns;
    const int64_t stripe = c->info.stripe_rows / c->info.chunk_rows;
    if (it->col == 0 && it->row % stripe == 0 && c->slide->reader->prefetch)
        c->slide->reader->prefetch(c->slide, it->row, 2 * stripe); /* this stripe and the next */
    c->next++;
    return PIPE_ITEM;
}

/* Beyond the slide's edge a tile holds whatever its encoder wrote there. Makes that white. */
static void blank_padding(const struct store_info *i, struct item *it)
{
    const int64_t width = i->width - it->col * i->chunk_cols;
    const int64_t height = i->height - it->row * i->chunk_rows;
    const size_t pitch = (size_t)(i->chunk_cols * i->channels);
    const size_t used = width < i->chunk_cols ? (size_t)(width * i->channels) : pitch;
    for (int64_t y = 0; y < i->chunk_rows; y++) {
        const size_t from = y < height ? used : 0;
        memset(it->pixels + (size_t)y * pitch + from, 255, pitch - from);
    }
}

/* Sums the tile at (x, y) px for the tissue map. */
static int sum_tissue(const struct convert *c, struct item *it, int64_t x, int64_t y, struct err *e)
{
    const struct store_info *i = &c->info;
    const int64_t cols = i->width - x < i->chunk_cols ? i->width - x : i->chunk_cols;
    const int64_t rows = i->height - y < i->chunk_rows ? i->height - y : i->chunk_rows;
    if (it->status == STORE_DAMAGED)
        return tissue_sum_damaged(&it->sums, cols, rows, x, y, 1, e);
    return tissue_sum(&it->sums, it->rgb ? it->rgb : it->pixels, cols, rows, i->chunk_cols, x, y, 1,
                      SAMPLED_ROWS, e);
}

static int check_damage(const struct convert *c, const struct item *it, struct err *e)
{
    if (it->status != STORE_DAMAGED || !c->o->refuse_damage)
        return 0;
    return err_set(e,
                   "tile (%" PRId64 ", %" PRId64 ") of level %" PRId64 " is damaged; rejected "
                   "because of --on-damage fail",
                   it->row, it->col, c->info.level);
}

/* With it->rgb, the tile in colour too. */
static int read_pixels(const struct convert *c, struct item *it, int thread, struct err *e)
{
    const struct slide_reader *reader = c->slide->reader;
    if (!it->rgb)
        return reader->read(c->slide, thread, it->col, it->row, (int)c->info.channels, it->pixels,
                            &it->status, e);
    if (reader->read(c->slide, thread, it->col, it->row, 3, it->rgb, &it->status, e))
        return -1;
    gray_bytes_from_rgb(it->rgb, it->pixels, (size_t)(c->info.chunk_rows * c->info.chunk_cols));
    return 0;
}

/* Decodes a tile and packs its pixels. */
static int pack_tile(const struct convert *c, struct item *it, int thread, struct err *e)
{
    const int64_t x = it->col * c->info.chunk_cols, y = it->row * c->info.chunk_rows;
    const struct codec_params params = store_codec_params(&c->info);
    size_t packed;
    if (read_pixels(c, it, thread, e) || check_damage(c, it, e))
        return -1;
    if (c->tissue_origin == TISSUE_TILES && sum_tissue(c, it, x, y, e))
        return -1;
    blank_padding(&c->info, it);
    if (codec_encode(c->codecs[thread], &params, it->pixels, it->packed, &packed, e))
        return -1;
    it->raw = packed == 0;
    it->bytes = packed ? packed : codec_pixel_bytes(&params);
    it->stored = packed ? it->packed : it->pixels;
    return 0;
}

/* As sum_tissue, from pixels at 1/8; tiles whose sides are no multiples of 8 are decoded as a
 * whole. */
static int sum_tissue_eighth(const struct convert *c, struct item *it, int thread, struct err *e)
{
    const struct store_info *i = &c->info;
    const int64_t x = it->col * i->chunk_cols, y = it->row * i->chunk_rows;
    const int64_t cols = i->width - x < i->chunk_cols ? i->width - x : i->chunk_cols;
    const int64_t rows = i->height - y < i->chunk_rows ? i->height - y : i->chunk_rows;
    if (it->status != STORE_WHOLE || !c->slide_info.has_eighth)
        return read_pixels(c, it, thread, e) || sum_tissue(c, it, x, y, e) ? -1 : 0;
    return tissue_sum(&it->sums, it->pixels, (cols + 7) / 8, (rows + 7) / 8, i->chunk_cols / 8,
                      x / 8, y / 8, 8, 1, e);
}

/* Takes a tile as it is; it is decoded at 1/8, which shows damage. */
static int keep_tile(const struct convert *c, struct item *it, int thread, struct err *e)
{
    struct err why = {""};
    const int r = c->slide->reader->read_jpeg(c->slide, thread, it->col, it->row, &it->chunk,
                                              it->pixels, &it->status, &why);
    it->other[0] = 0;
    if (r == SLIDE_OTHER)
        snprintf(it->other, sizeof it->other, "%.79s", why.msg);
    if (r)
        return r < 0 ? err_set(e, "%s", why.msg) : 0; /* the sink gives up */
    if (check_damage(c, it, e))
        return -1;
    const struct jpeg_chunk *stored = it->status == STORE_WHOLE ? &it->chunk : &c->flat;
    it->stored = stored->bytes;
    it->bytes = stored->n;
    return c->tissue_origin == TISSUE_TILES ? sum_tissue_eighth(c, it, thread, e) : 0;
}

static int work(void *ctx, void *slot, int thread, struct err *e)
{
    struct convert *c = ctx;
    struct item *it = slot;
    const struct store_info *i = &c->info;
    it->status = STORE_LEFT_OUT;
    it->stored = NULL;
    it->bytes = 0;
    it->raw = false;
    if (c->o->tissue_only && !tissue_any(&c->tissue, it->col * i->chunk_cols,
                                         it->row * i->chunk_rows, i->chunk_cols, i->chunk_rows))
        return 0;
    if (i->codec->id == CODEC_JPEG ? keep_tile(c, it, thread, e) : pack_tile(c, it, thread, e))
        return -1;
    it->crc32 = codec_crc32(it->stored, it->bytes);
    return 0;
}

static int sink(void *ctx, void *slot, struct err *e)
{
    struct convert *c = ctx;
    struct item *it = slot;
    if (it->other[0]) {
        snprintf(c->other, sizeof c->other, "tile (%" PRId64 ", %" PRId64 ") is %s", it->row,
                 it->col, it->other);
        return err_set(e, "%s", c->other);
    }
    if (store_put_chunk(c->writer, it->stored, it->bytes, it->raw, it->crc32, it->status, e))
        return -1;
    if (c->tissue_origin == TISSUE_TILES && tissue_add(&c->tissue, &it->sums, e))
        return -1;
    c->done++;
    if (c->progress)
        c->progress(c->progress_ctx, (double)c->done / (double)(c->columns * c->rows),
                    (double)c->info.width * (double)c->info.height);
    return 0;
}

/* --- the rest of the store --- */

/* Records damage that is not in the tiles. */
static int add_problem(struct convert *c, const struct err *damage, struct err *e)
{
    char *all = c->info.source_problem;
    const size_t room = sizeof c->info.source_problem, n = strlen(all);
    if (!damage->msg[0])
        return 0;
    if (c->o->refuse_damage)
        return err_set(e, "%s; rejected because of --on-damage fail", damage->msg);
    snprintf(all + n, room - n, "%s%s", n ? "; " : "", damage->msg);
    return 0;
}

static int read_head(struct convert *c, struct err *e)
{
    struct err damage = {""};
    return head_read(&c->head, c->slide, &c->slide_info, c->o->keep_identifiers,
                     c->info.codec->id == CODEC_JPEG, &damage, e) ||
                   add_problem(c, &damage, e)
               ? -1
               : 0;
}

/* The tissue map of a gray store needs the tiles in colour. */
static int add_colour(struct convert *c, struct err *e)
{
    for (int k = 0; k < c->depth; k++)
        if (!(c->items[k].rgb = malloc(3 * (size_t)store_chunk_bytes(&c->info))))
            return err_set(e, "out of memory");
    return 0;
}

/* Why a slide gets no map. */
static const char no_map[] = "the slide has no bright background (fluorescence?)";

/* Makes the map before the tiles if it is needed then, or cheap; else it is made along with them.
 */
static int make_tissue(struct convert *c, struct err *e)
{
    if (c->o->no_tissue)
        return 0;
    if (tissue_create(&c->tissue, c->info.width, c->info.height, &c->o->tissue, e))
        return -1;
    if (c->mask) {
        tissue_take(&c->tissue, c->mask);
        c->tissue_origin = TISSUE_OVERVIEW;
        return 0;
    }
    const bool must = c->o->tissue_only || (c->o->gray && c->slide_info.gray_is_luma);
    struct err damage = {""};
    const int r = overview_tissue(c->path, c->slide, &c->slide_info, c->o->threads, must,
                                  &c->tissue, &damage, e);
    if (r < 0 || add_problem(c, &damage, e))
        return -1;
    c->tissue_origin = r > 0 ? TISSUE_OVERVIEW : TISSUE_TILES;
    if (r > 0 && c->tissue.none && c->o->tissue_only)
        return err_set(e, "--tissue-only needs a tissue map, but %s; give --tissue-mask",
                       no_map);
    return r > 0 || c->info.channels == 3 ? 0 : add_colour(c, e);
}

static int put_tissue(struct convert *c, struct err *e)
{
    if (c->tissue_origin == TISSUE_NONE)
        return 0;
    if (c->tissue_origin == TISSUE_TILES && tissue_finish(&c->tissue, e))
        return -1;
    if (c->tissue.none)
        return store_put_no_tissue(c->writer, no_map, e);
    const struct store_tissue t = {.cols = c->tissue.cols,
                                   .rows = c->tissue.rows,
                                   .mask = c->tissue.mask,
                                   .otsu_h = c->tissue.otsu_h,
                                   .otsu_s = c->tissue.otsu_s,
                                   .fraction = c->tissue.fraction};
    return store_put_tissue(c->writer, &t, c->o->threads, e);
}

/* A lower bound of the store's size. Deflate needs about four times the bytes of a JPEG slide, and
 * seldom more than 0.45 of the pixels'. The estimate is careful, so that nothing is rejected
 * wrongly. */
static double least_bytes(const struct convert *c)
{
    const struct store_info *i = &c->info;
    int64_t stored = 0;
    for (int64_t row = 0; row < c->rows; row++)
        for (int64_t col = 0; col < c->columns; col++)
            stored +=
                !c->o->tissue_only || tissue_any(&c->tissue, col * i->chunk_cols,
                                                 row * i->chunk_rows, i->chunk_cols, i->chunk_rows);
    const double pixels = (double)stored * (double)store_chunk_bytes(i);
    const double packed =
        4.0 * (double)i->source_bytes * (double)stored / (double)(c->columns * c->rows);
    if (i->codec->id == CODEC_NONE)
        return pixels;
    if (i->codec->id == CODEC_JPEG) /* the slide has other levels and pictures, too */
        return i->level == 0 ? packed / 8 : 0;
    /* lz4 and zstd come within a tenth of deflate */
    return 0.5 *
           (packed < 0.45 * pixels && i->level == 0 ? packed : 0.45 * pixels / (i->level ? 2 : 1));
}

static int check_space(const struct convert *c, const char *target, struct err *e)
{
    struct statvfs fs;
    char need[32], there[32];
    const char *slash = strrchr(target, '/');
    char *folder = slash ? strndup(target, (size_t)(slash - target) + 1) : strdup("./");
    const bool known = folder && statvfs(folder, &fs) == 0;
    free(folder);
    if (!known)
        return 0; /* creating the file will report the error */
    const double least = least_bytes(c), space = (double)fs.f_bavail * (double)fs.f_frsize;
    if (space >= least)
        return 0;
    return err_set(
        e,
        "too little disk space left: at least %s are needed, %s are free; free some, or name "
        "another output",
        cli_size(need, least), cli_size(there, space));
}

static int open_buffers(struct convert *c, struct err *e)
{
    const size_t whole = (size_t)store_chunk_bytes(&c->info);
    const bool keeps = c->info.codec->id == CODEC_JPEG;
    c->depth = keeps ? KEPT_DEPTH * c->o->threads : 2 * c->o->threads + 2;
    c->codecs = calloc((size_t)c->o->threads, sizeof *c->codecs);
    c->items = calloc((size_t)c->depth, sizeof *c->items);
    if (!c->codecs || !c->items)
        return err_set(e, "out of memory");
    for (int t = 0; t < c->o->threads; t++)
        if (!(c->codecs[t] = codec_create(e)))
            return -1;
    for (int k = 0; k < c->depth; k++) {
        c->items[k].pixels = calloc(1, whole);
        c->items[k].packed = keeps ? NULL : malloc(whole);
        if (!c->items[k].pixels || (!keeps && !c->items[k].packed))
            return err_set(e, "out of memory");
    }
    return keeps ? jpeg_make_flat(c->info.chunk_cols, c->info.chunk_rows, c->slide_info.background,
                                  &c->flat.bytes, &c->flat.n, e)
                 : 0;
}

/* Frees what make_store has made, so that it can be called again. */
static void close_buffers(struct convert *c)
{
    for (int t = 0; c->codecs && t < c->o->threads; t++)
        codec_free(c->codecs[t]);
    for (int k = 0; c->items && k < c->depth; k++) {
        free(c->items[k].pixels);
        free(c->items[k].packed);
        free(c->items[k].rgb);
        free(c->items[k].chunk.bytes);
        tissue_sums_free(&c->items[k].sums);
    }
    tissue_free(&c->tissue);
    head_free(&c->head);
    free(c->flat.bytes);
    free(c->codecs);
    free(c->items);
    c->tissue = (struct tissue){0};
    c->tissue_origin = TISSUE_NONE;
    c->head = (struct head){0};
    c->flat = (struct jpeg_chunk){0};
    c->codecs = NULL;
    c->items = NULL;
    c->next = c->done = 0;
}

static int make_store(struct convert *c, const char *target, int64_t *bytes, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink};
    if (open_buffers(c, e) || read_head(c, e) || make_tissue(c, e) || check_space(c, target, e))
        return -1;
    c->writer = store_create(target, &c->info, e);
    if (!c->writer)
        return -1;
    if (head_put(&c->head, c->slide, c->o->keep_identifiers, c->o->threads, c->writer, e) ||
        pipe_run_shared(&ops, c, c->items, sizeof *c->items, c->depth, c->o->threads, e) ||
        stop_check(e) || put_tissue(c, e)) {
        store_abort(c->writer);
        return -1;
    }
    c->info = *store_written(c->writer); /* with the counts of tiles */
    return store_commit(c->writer, bytes, e);
}

/* As make_store. If a tile cannot be kept as it is, begins again with the default codec. */
static int make_any_store(struct convert *c, const char *target, int64_t *bytes, struct err *e)
{
    const struct store_info planned = c->info;
    if (make_store(c, target, bytes, e) == 0)
        return 0;
    if (!c->other[0])
        return -1;
    close_buffers(c);
    c->info = planned;
    if (plan_fall_back(&c->info, c->o, c->other, e))
        return -1;
    return make_store(c, target, bytes, e);
}

/* Decides whether there is anything to do, and does it. */
static int convert(struct convert *c, const char *target, struct convert_report *report,
                   struct err *e)
{
    struct stat st;
    if (stat(c->path, &st))
        return err_sys(e, "%s: cannot read its size", c->path);
    if (plan_store(c->path, &st, &c->slide_info, c->o, &c->info, e) ||
        (c->o->tissue_mask &&
         !(c->mask = tissue_mask_read(c->o->tissue_mask, c->path, &c->info, e))))
        return -1;
    const int verdict = plan_judge(c->path, &st, target, &c->info, c->o->force, &report->info, e);
    if (verdict < 0)
        return -1;
    if (verdict == PLAN_SKIP) {
        const struct store_info *old = &report->info;
        if (c->o->refuse_damage && (old->tiles_damaged || old->source_problem[0]))
            return err_set(e,
                           "%s: its store %s has %" PRId64
                           " damaged tile%s%s%s; rejected because of "
                           "--on-damage fail",
                           c->path, target, old->tiles_damaged, old->tiles_damaged == 1 ? "" : "s",
                           old->source_problem[0] ? ": " : "", old->source_problem);
        if (old->codec_reason[0] && c->o->strict_codec)
            return err_set(e,
                           "%s: its store %s has codec %s (%s); rejected because of --strict-codec",
                           c->path, target, old->codec->name, old->codec_reason);
        report->outcome = CONVERT_SKIPPED;
        publish_clean(target); /* what a killed --force has left */
        report->store_bytes = stat(target, &st) ? 0 : st.st_size;
        return 0;
    }
    report->was_stale = verdict == PLAN_REMAKE;
    if (c->o->refuse_damage && c->slide_info.problem[0])
        return err_set(e, "%s: %s; rejected because of --on-damage fail", c->path,
                       c->slide_info.problem);
    c->columns = store_chunk_columns(&c->info);
    c->rows = (c->info.height + c->info.chunk_rows - 1) / c->info.chunk_rows;
    if (make_any_store(c, target, &report->store_bytes, e))
        return err_add(e, "%s to %s", c->path, target);
    report->info = c->info;
    return 0;
}

int convert_slide(const char *path, const char *target, const struct convert_options *o,
                  void (*progress)(void *ctx, double fraction, double pixels), void *ctx,
                  struct convert_report *report, struct err *e)
{
    struct convert c = {.path = path, .o = o, .progress = progress, .progress_ctx = ctx};
    const double begun = cli_now();
    *report = (struct convert_report){.outcome = CONVERT_DONE};
    c.slide = resolution_open(path, o, &c.slide_info, e);
    if (!c.slide)
        return -1;
    const int r = convert(&c, target, report, e);
    report->seconds = cli_now() - begun;
    close_buffers(&c);
    free(c.mask);
    slide_close(c.slide);
    return r;
}
