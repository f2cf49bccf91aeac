/* convert.c - see convert.h. */
#include "convert/convert.h"

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/publish.h"
#include "common/base/stop.h"
#include "common/codec/jpeg_decoder.h"
#include "common/codec/jpeg_encoder.h"
#include "common/codec/jpeg_stream.h"
#include "common/regions/geojson.h"
#include "common/store/gray.h"
#include "common/store/store_image.h"
#include "common/store/store_read.h"
#include "common/store/store_write.h"
#include "convert/convert_options.h"
#include "convert/convert_tile.h"
#include "convert/plan.h"
#include "convert/privacy/identifiers.h"
#include "convert/readers/slide.h"
#include "convert/tissue/overview.h"
#include "convert/tissue/tissue.h"
#include "convert/tissue/tissue_mask.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    MANY_TILES = 4096,
    TRIED_TILES = 256, /* of that many and more */
    KEPT_DEPTH = 16,   /* kept tiles per thread on their way: small, and of very unequal cost */
};

#define MPP_TOLERANCE 0.1 /* relative, of the level that --mpp takes */

/* --- the rest of the store --- */

/* With --anonymous neither the store nor what is said of it has names of the slide's files. */
static void hide_names(const struct convert *c, char *text, size_t size)
{
    const struct anonymous a = {c->path, c->o->tissue_mask, c->o->name};
    if (a.shown)
        anonymous_mask_text(text, size, &a);
}

/* Records what is wrong with the file besides the tiles of the level. That is no damage. */
static void add_problem(struct convert *c, const struct err *problem)
{
    char *all = c->info.source_problem;
    const size_t room = sizeof c->info.source_problem, n = strlen(all);
    if (problem->msg[0])
        snprintf(all + n, room - n, "%s%s", n ? "; " : "", problem->msg);
    hide_names(c, all, room);
}

static int read_head(struct convert *c, struct err *e)
{
    struct err problem = {0};
    if (slide_extras_read(&c->extras, c->slide, &c->slide_info, c->o->keep_identifiers,
                          c->info.codec->id == CODEC_JPEG, &problem, e))
        return -1;
    add_problem(c, &problem);
    return 0;
}

/* The tissue map of a gray store needs the tiles in colour. */
static int add_colour(struct convert *c, struct err *e)
{
    for (int k = 0; k < c->depth; k++)
        if (!(c->items[k].rgb = memory_try(3 * (size_t)store_chunk_bytes(&c->info), 1, e)))
            return -1;
    return 0;
}

/* Why a slide gets no map. */
static const char no_map[] = "the slide has no bright background (fluorescence?)";

/* Makes the map before the tiles if it is needed then, or cheap; else it is made along with them.
 */
static int make_tissue(struct convert *c, struct err *e)
{
    if (tissue_create(&c->tissue, c->info.width, c->info.height, &c->o->tissue, e))
        return -1;
    if (c->mask)
        tissue_take(&c->tissue, c->mask);
    const bool must = (c->o->tissue_only && !c->mask) || (c->o->gray && c->slide_info.gray_is_luma);
    struct err problem = {0};
    const int r = overview_tissue(c->file, c->slide, &c->slide_info, convert_threads(c->o), must,
                                  &c->tissue, &problem, e);
    if (r < 0)
        return -1;
    add_problem(c, &problem);
    c->tissue_origin = r > 0 ? TISSUE_OVERVIEW : TISSUE_TILES;
    if (r > 0 && c->tissue.none && c->o->tissue_only)
        return err_set(e, "--tissue-only needs a tissue map, but %s; give --tissue-mask", no_map);
    return r > 0 || c->info.channels == 3 ? 0 : add_colour(c, e);
}

/* Does the map look wrong? The user's own is not doubted. */
static bool doubts_tissue(const struct convert *c, char *why, size_t size)
{
    const struct tissue *t = &c->tissue;
    if (c->o->tissue.by == TISSUE_BY_THRESHOLDS || c->mask)
        return false;
    if (store_doubts_tissue(t->fraction, why, size))
        return true;
    snprintf(why, size, "no tissue in pale, uneven areas (fat?)");
    return tissue_leaves_uneven(t);
}

static int put_tissue(struct convert *c, struct err *e)
{
    if (c->tissue_origin == TISSUE_TILES)
        tissue_finish(&c->tissue);
    if (store_put_background(c->writer, tissue_background(&c->tissue), e))
        return -1;
    if (c->tissue.none)
        return store_put_no_tissue(c->writer, no_map, e);
    const struct store_tissue t = {.cols = c->tissue.cols,
                                   .rows = c->tissue.rows,
                                   .mask = c->tissue.mask,
                                   .glass = c->tissue.glass,
                                   .dark = c->tissue.dark,
                                   .fraction = c->tissue.fraction};
    char doubt[sizeof c->info.tissue_doubt];
    if (store_put_tissue(c->writer, &t, convert_threads(c->o), e))
        return -1;
    return doubts_tissue(c, doubt, sizeof doubt) ? store_put_tissue_doubt(c->writer, doubt, e) : 0;
}

/* A slide without a thumbnail gets one made of the means of the cells of its tissue map. */
static int put_view(struct convert *c, struct err *e)
{
    uint8_t *rgb = NULL;
    int64_t width, height;
    if (c->extras.thumbnail || c->extras.strips.n > 0 || c->mask)
        return 0;
    const int r = tissue_view(&c->tissue, &rgb, &width, &height, e);
    const int bad =
        r > 0 ? store_put_thumbnail(c->writer, rgb, width, height, convert_threads(c->o), e) : r;
    free(rgb);
    return bad;
}

/* Records that the tiles and the file state different colours. */
static int put_colour_conflict(struct convert *c, struct err *e)
{
    const struct slide_reader *r = c->slide->reader;
    const char *what = r->colour_conflict ? r->colour_conflict(c->slide) : NULL;
    return what ? store_put_colour_conflict(c->writer, what, e) : 0;
}

static int put_past(struct convert *c, struct err *e)
{
    const struct jpeg_history *p = &c->history;
    if (c->decoders && convert_history(c, e))
        return -1;
    return p->tiles
               ? store_put_jpeg(c->writer, p->quality, p->subsampling, jpeg_history_twice(p), e)
               : 0;
}

/* Without a map that knows the gray of glass there is none. */
static int put_glass(struct convert *c, struct err *e)
{
    double numbers[GLASS_NUMBERS];
    glass_find(&c->glass, c->tissue.glass > 0 && !c->tissue.none ? c->tissue.dark : INFINITY,
               numbers);
    return store_put_glass(c->writer, numbers, e);
}

/* Opens the decoders that show how the tiles were compressed. */
static int open_decoders(struct convert *c, struct err *e)
{
    if (!c->slide->reader->read_kept || c->slide_info.no_jpeg[0])
        return 0;
    if (!(c->decoders = memory_try_zero((size_t)c->o->threads, sizeof *c->decoders, e)))
        return -1;
    for (int t = 0; t < c->o->threads; t++)
        if (!(c->decoders[t] = jpeg_decoder_create(e)))
            return -1;
    return 0;
}

/* Makes the chunk of tiles that are missing or damaged: a JPEG, or for codec j2k pixels. */
static int make_flat(struct convert *c, struct err *e)
{
    const struct store_info *i = &c->info;
    const size_t n = (size_t)store_chunk_bytes(i);
    uint8_t gray;
    gray_bytes_from_rgb(c->slide_info.background, &gray, 1);
    if (i->codec->id == CODEC_JPEG)
        return jpeg_encode_flat(i->chunk_cols, i->chunk_rows,
                                i->channels == 3 ? c->slide_info.background : &gray,
                                (int)i->channels, &c->flat.bytes, &c->flat.n, e);
    if (!(c->flat.bytes = memory_try(n, 1, e)))
        return -1;
    for (size_t k = 0; k < n; k++)
        c->flat.bytes[k] = c->slide_info.background[k % 3];
    c->flat.n = n;
    return 0;
}

/* Buffers for `depth` tiles. */
static int open_buffers(struct convert *c, int depth, struct err *e)
{
    const size_t whole = (size_t)store_chunk_bytes(&c->info);
    const bool keeps = c->info.codec->keeps;
    c->depth = depth;
    c->codecs = memory_need((size_t)c->o->threads, sizeof *c->codecs);
    c->items = memory_need((size_t)c->depth, sizeof *c->items);
    for (int t = 0; t < c->o->threads; t++)
        c->codecs[t] = codec_create();
    for (int k = 0; k < c->depth; k++) {
        if (!(c->items[k].pixels = memory_try_zero(1, whole, e)) ||
            (!keeps && !(c->items[k].packed = memory_try(1, whole, e))))
            return -1;
    }
    if (open_decoders(c, e))
        return -1;
    return keeps ? make_flat(c, e) : 0;
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
        glass_free(&c->items[k].glass);
    }
    for (int t = 0; c->decoders && t < c->o->threads; t++)
        jpeg_decoder_free(c->decoders[t]);
    tissue_free(&c->tissue);
    glass_free(&c->glass);
    slide_extras_free(&c->extras);
    free(c->decoders);
    free(c->flat.bytes);
    free(c->codecs);
    free(c->items);
    c->tissue = (struct tissue){0};
    c->extras = (struct slide_extras){0};
    c->flat = (struct jpeg_chunk){0};
    c->codecs = NULL;
    c->decoders = NULL;
    c->history = (struct jpeg_history){0};
    memset(c->sampled, 0, sizeof c->sampled);
    c->items = NULL;
    c->next = c->done = 0;
}

static int reject_refused(const char *tiles, const char *why, struct err *e)
{
    return err_set(e,
                   "unsupported, or damaged throughout: none of %s can be decoded (%s); if other "
                   "programs show it, write it as a TIFF of JPEG tiles",
                   tiles, why);
}

/* A slide of many tiles of which the decoder refuses each is rejected before all are tried. The
 * first tile is whole, as a rule, and then it is the only one that is read here. */
static int try_tiles(const struct convert *c, struct err *e)
{
    const struct slide_reader *r = c->slide->reader;
    const int64_t all = c->columns * c->rows;
    enum store_status status = STORE_DAMAGED;
    if (all < MANY_TILES || c->slide_info.in_order || !r->refusal)
        return 0;
    uint8_t *room = memory_try(1, (size_t)store_chunk_bytes(&c->info), e);
    int bad = room ? 0 : -1;
    for (int k = 0; k < TRIED_TILES && bad == 0 && status == STORE_DAMAGED; k++) {
        const int64_t n = all * k / TRIED_TILES;
        bad = r->read(c->slide, 0, n % c->columns, n / c->columns, (int)c->info.channels, room,
                      &status, e);
    }
    free(room);
    const char *why = status == STORE_DAMAGED && bad == 0 ? r->refusal(c->slide) : "";
    return bad || !*why ? bad : reject_refused("256 tiles spread over it", why, e);
}

/* Everything that is needed before the tiles. */
static int begin(struct convert *c, struct err *e)
{
    const int threads = c->o->threads;
    const bool keeps = c->info.codec->keeps;
    return open_buffers(c, keeps ? KEPT_DEPTH * threads : 2 * threads + 2, e) || try_tiles(c, e) ||
                   read_head(c, e) || make_tissue(c, e)
               ? -1
               : 0;
}

/* A slide of which nothing has arrived is no slide with damage, but one that cannot be read: all
 * tiles of a broken copy do not fail alike. */
static int check_arrival(const struct convert *c, struct err *e)
{
    const struct store_info *i = store_written(c->writer);
    const int64_t all = c->columns * c->rows;
    const struct slide_reader *r = c->slide->reader;
    const char *why = r->refusal ? r->refusal(c->slide) : "";
    if (i->tiles_missing + i->tiles_damaged < all)
        return 0;
    if (i->tiles_damaged == 0)
        return err_set(e, "nothing of it was scanned: all its tiles are missing");
    if (*why)
        return reject_refused(c->slide_info.in_order ? "its pixels" : "its tiles", why, e);
    return err_set(e, "none of its tiles can be read; copy the slide again");
}

/*
 * Is there room on the disk for a store? Asked before it is begun.
 */

/* A lower bound of the store's size. Deflate needs about four times the bytes of a JPEG slide, and
 * seldom more than 0.45 of the pixels'. The estimate is careful, so that nothing is rejected
 * wrongly. */
static double least_bytes(const struct store_info *i, const struct tissue *only)
{
    const int64_t columns = store_chunk_columns(i);
    const int64_t rows = (i->height + i->chunk_rows - 1) / i->chunk_rows;
    int64_t stored = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t col = 0; col < columns; col++)
            stored += !only || tissue_count(only, col * i->chunk_cols, row * i->chunk_rows,
                                            i->chunk_cols, i->chunk_rows);
    const double pixels = (double)stored * (double)store_chunk_bytes(i);
    const double packed = 4.0 * (double)i->source_bytes * (double)stored / (double)(columns * rows);
    if (i->codec->id == CODEC_NONE)
        return pixels;
    if (i->codec->keeps) /* the slide has other levels and pictures, too */
        return i->level == 0 ? packed / 8 : 0;
    /* lz4 and zstd come within a tenth of deflate */
    return 0.5 *
           (packed < 0.45 * pixels && i->level == 0 ? packed : 0.45 * pixels / (i->level ? 2 : 1));
}

/* `only`: chunks without tissue are left out; NULL: none are. -1: there is too little room for any
 * store of this slide. */
static int space_check(const struct store_info *i, const struct tissue *only, const char *target,
                       struct err *e)
{
    struct statvfs fs;
    char need[32], there[32];
    const char *slash = strrchr(target, '/');
    char *folder =
        slash ? memory_copy_part(target, (size_t)(slash - target) + 1) : memory_copy(".");
    const bool known = statvfs(folder, &fs) == 0;
    free(folder);
    if (!known)
        return 0; /* creating the file will report the error */
    const double least = least_bytes(i, only), space = (double)fs.f_bavail * (double)fs.f_frsize;
    if (space >= least)
        return 0;
    return err_blame(
        e, ERR_DISK,
        "too little disk space left: at least %s are needed, %s are free; free some, or name "
        "another output",
        number_size(need, least), number_size(there, space));
}

static int confirm_file(void *ctx, const struct slide_file *file)
{
    struct err *e = ctx;
    return slide_file_confirm(file, e) ? err_add(e, "%s", file->path) : 0;
}

/* Are the files as they were when they were opened? Libraries open them anew. */
static int confirm_files(struct convert *c, struct err *e)
{
    const struct slide_reader *r = c->slide->reader;
    return r->files ? r->files(c->slide, confirm_file, e, e) : slide_file_confirm(c->file, e);
}

static int make_store(struct convert *c, const char *target, int64_t *bytes, struct err *e)
{
    if (begin(c, e) || space_check(&c->info, c->o->tissue_only ? &c->tissue : NULL, target, e))
        return -1;
    c->writer = store_create(target, &c->info, e);
    if (!c->writer)
        return -1;
    if (slide_extras_put(&c->extras, c->slide, c->o->keep_identifiers, convert_threads(c->o),
                         c->writer, e) ||
        store_put_sources(c->writer, c->sources.list, c->sources.n, e) || convert_tiles(c, e) ||
        check_arrival(c, e) || stop_check(e) || put_tissue(c, e) || put_view(c, e) ||
        put_colour_conflict(c, e) || put_past(c, e) || put_glass(c, e) || confirm_files(c, e)) {
        store_abort(c->writer);
        return -1;
    }
    return store_commit(c->writer, &c->info, bytes, e);
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

static int plan(struct convert *c, struct err *e)
{
    if (plan_store(c->path, &c->file->st, &c->slide_info, c->o, &c->info, e) ||
        sources_list(&c->sources, c->slide, c->file, c->o->name, e))
        return -1;
    c->columns = store_chunk_columns(&c->info);
    c->rows = (c->info.height + c->info.chunk_rows - 1) / c->info.chunk_rows;
    return 0;
}

static int take_mask(struct convert *c, struct err *e)
{
    const char *mask = c->o->tissue_mask;
    bool moves = !c->o->no_bounds;
    if (mask && !(c->mask = tissue_mask_read(mask, c->path, &c->info, &moves, e)))
        return -1;
    if (mask && moves)
        slide_note(&c->slide_info,
                   "places of the tissue mask count from %" PRId64 ", %" PRId64 " " GEOJSON_BOUNDS,
                   c->info.bounds_x, c->info.bounds_y);
    return 0;
}

/* Decides whether there is anything to do, and does it. */
static int convert(struct convert *c, const char *target, struct convert_report *report,
                   struct err *e)
{
    struct stat st;
    if (plan(c, e) || take_mask(c, e))
        return -1;
    memcpy(report->note, c->slide_info.note, sizeof report->note);
    struct err how = {0};
    const int verdict =
        plan_judge(c->path, target, &c->info, &c->sources, c->o, &report->info, &how, e);
    snprintf(report->other_options, sizeof report->other_options, "%.159s", how.msg);
    if (verdict < 0)
        return -1;
    if (verdict == PLAN_SKIP) {
        const struct store_info *old = &report->info;
        if (c->o->refuse_damage && old->tiles_damaged)
            return err_set(e,
                           "%s: its store %s has %" PRId64
                           " damaged tile%s; rejected because of --on-damage fail",
                           c->path, target, old->tiles_damaged, old->tiles_damaged == 1 ? "" : "s");
        if (old->codec_reason[0] && c->o->strict_codec)
            return err_set(e,
                           "%s: its store %s has codec %s (%s); rejected because of --strict-codec",
                           c->path, target, old->codec->name, old->codec_reason);
        report->outcome = CONVERT_SKIPPED;
        report->store_bytes = stat(target, &st) ? 0 : st.st_size;
        return 0;
    }
    report->was_stale = verdict == PLAN_REMAKE;
    if (make_any_store(c, target, &report->store_bytes, e))
        return err_add(e, "%s to %s", c->path, target);
    report->info = c->info;
    if (c->slide->reader->refusal && c->info.tiles_damaged > 0)
        snprintf(report->refusal, sizeof report->refusal, "%.159s",
                 c->slide->reader->refusal(c->slide));
    hide_names(c, report->refusal, sizeof report->refusal);
    return 0;
}

/* An image that shows the store which had this name before goes. */
static void check_image(const char *target, struct convert_report *report)
{
    struct err ignored = {0};
    int64_t content;
    char *image = store_image_find(target, &content);
    struct store *s = image ? store_open(target, &ignored) : NULL;
    if (s && store_info(s)->content_crc32 != content)
        report->image = store_image_remove(image) ? CONVERT_IMAGE_REMOVED : CONVERT_IMAGE_OLD;
    store_close(s);
    free(image);
}

static void convert_free(struct convert *c)
{
    close_buffers(c);
    sources_free(&c->sources);
    free(c->mask);
    slide_close(c->slide);
    slide_file_close(c->file);
    free(c);
}

/*
 * Opens the level of a slide that the options ask for, by number or by resolution.
 *
 * A level's resolution is the um per level-0 pixel times the downsample of the level. Nothing is
 * resampled: a slide without a fitting level is rejected, and the message lists what it has.
 */

/* Relative distance of the worse direction from the wanted resolution. */
static double distance(const struct slide_info *i, double downsample, double wanted)
{
    const double x = fabs(i->mpp_x * downsample - wanted), y = fabs(i->mpp_y * downsample - wanted);
    return (x > y ? x : y) / wanted;
}

/* "level 0 has 0.25, level 1 has 1" */
static void list_levels(const struct slide_info *i, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (int64_t k = 0; k < i->levels && n + 48 < size; k++)
        n += (size_t)snprintf(out + n, size - n, "%slevel %" PRId64 " has %.4g", k ? ", " : "", k,
                              sqrt(i->mpp_x * i->mpp_y) * i->downsamples[k]);
}

static int find_level(const char *path, const struct slide_info *i, const struct convert_options *o,
                      int64_t *level, struct err *e)
{
    char has[400];
    if (!(i->mpp_x > 0 && i->mpp_y > 0))
        return err_set(e,
                       "%s: the slide does not state its resolution; set it with --mpp-override, "
                       "in um per pixel of level 0",
                       path);
    *level = 0;
    for (int64_t k = 1; k < i->levels; k++)
        if (distance(i, i->downsamples[k], o->mpp) < distance(i, i->downsamples[*level], o->mpp))
            *level = k;
    if (distance(i, i->downsamples[*level], o->mpp) <= MPP_TOLERANCE + 1e-9)
        return 0;
    list_levels(i, has, sizeof has);
    return err_set(e,
                   "%s: no level has %g um/px within %g %%: %s; choose another --mpp or a --level",
                   path, o->mpp, MPP_TOLERANCE * 100, has);
}

static struct slide *open_level(const struct slide_file *file, int64_t level,
                                const struct convert_options *o, struct slide_info *info,
                                struct err *e)
{
    struct slide *s = slide_open(file, level, o->threads, info, e);
    if (s && o->mpp_override > 0)
        info->mpp_x = info->mpp_y = o->mpp_override;
    else if (s)
        slide_check_mpp(info);
    return s;
}

/*
 * With o->mpp > 0: the level whose resolution is nearest to it, if both directions lie within
 * MPP_TOLERANCE x o->mpp. Else level o->level. o->mpp_override > 0 replaces what the slide
 * states (um per level-0 pixel). On failure NULL with a message that names the file; then
 * slide_may_pass(errno) says whether the error may pass.
 */
static struct slide *resolution_open(const struct slide_file *file, const struct convert_options *o,
                                     struct slide_info *info, struct err *e)
{
    int64_t level = 0;
    if (!(o->mpp > 0))
        return open_level(file, o->level, o, info, e);
    struct slide *s = open_level(file, 0, o, info, e);
    if (!s)
        return NULL;
    const int r = find_level(file->path, info, o, &level, e);
    if (!r && level == 0)
        return s;
    slide_close(s);
    errno = 0;
    return r ? NULL : open_level(file, level, o, info, e);
}

static int open_slide(struct convert *c, struct err *e)
{
    c->file = slide_file_open(c->path, e);
    c->slide = c->file ? resolution_open(c->file, c->o, &c->slide_info, e) : NULL;
    if (!c->slide)
        return -1;
    struct slide_info *i = &c->slide_info;
    hide_names(c, i->note, sizeof i->note);
    hide_names(c, i->problem, sizeof i->problem);
    hide_names(c, i->no_jpeg, sizeof i->no_jpeg);
    return 0;
}

/* --- one slide --- */

int convert_slide(const char *path, const char *target, const struct convert_options *o,
                  void (*progress)(void *ctx, double fraction, double pixels), void *ctx,
                  struct convert_report *report, struct err *e)
{
    struct convert *c = memory_need(1, sizeof *c);
    const double begun = clock_now();
    *report = (struct convert_report){.outcome = CONVERT_DONE};
    c->path = path;
    c->o = o;
    c->progress = progress;
    c->progress_ctx = ctx;
    const int r = open_slide(c, e) || convert(c, target, report, e) ? -1 : 0;
    report->seconds = clock_now() - begun;
    if (r == 0)
        check_image(target, report);
    if (r || report->outcome == CONVERT_SKIPPED)
        publish_clean(target); /* what a killed run has left */
    convert_free(c);
    return r;
}
