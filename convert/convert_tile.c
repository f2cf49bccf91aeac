/* convert_tile.c - see convert_tile.h. */
#include "convert/convert_tile.h"

#include "common/base/pipe.h"
#include "common/base/stop.h"
#include "common/store/gray.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Beyond the slide's edge a tile holds whatever its encoder wrote there. Makes that white. */
static void blank_padding(const struct store_info *i, struct tile_task *it)
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

/* Where a tile is and how much of it lies on the slide, px. */
struct part {
    int64_t x, y, cols, rows;
};

static struct part part_of(const struct store_info *i, const struct tile_task *it)
{
    const int64_t x = it->col * i->chunk_cols, y = it->row * i->chunk_rows;
    return (struct part){x, y, i->width - x < i->chunk_cols ? i->width - x : i->chunk_cols,
                         i->height - y < i->chunk_rows ? i->height - y : i->chunk_rows};
}

/* Sums a tile for the tissue map. */
static void sum_tissue(const struct convert *c, struct tile_task *it)
{
    const struct part p = part_of(&c->info, it);
    if (it->status == STORE_DAMAGED)
        tissue_sum_damaged(&it->sums, p.cols, p.rows, p.x, p.y, 1);
    else
        tissue_sum(&it->sums, it->rgb ? it->rgb : it->pixels, p.cols, p.rows, c->info.chunk_cols,
                   p.x, p.y, 1, TISSUE_STEP);
}

static int check_damage(const struct convert *c, const struct tile_task *it, struct err *e)
{
    if (it->status != STORE_DAMAGED || !c->o->refuse_damage)
        return 0;
    return err_set(e,
                   "tile (%" PRId64 ", %" PRId64 ") of level %" PRId64 " is damaged; rejected "
                   "because of --on-damage fail",
                   it->row, it->col, c->info.level);
}

/* With it->rgb, the tile in colour too. */
static int read_pixels(const struct convert *c, struct tile_task *it, int thread, struct err *e)
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

/* Does the tissue map take the tile at 1/8? Pixels at 1/8 of a tile that reaches beyond the slide can
 * hold what lies there: a block of chroma covers up to 32 px. */
static bool is_summed_at_eighth(const struct convert *c, const struct tile_task *it)
{
    const struct part p = part_of(&c->info, it);
    return c->slide_info.has_eighth && p.cols == c->info.chunk_cols && p.rows == c->info.chunk_rows;
}

/* Sums the pixels at 1/8 of a tile that lies wholly on the slide for the tissue map. */
static void sum_eighth(const struct convert *c, struct tile_task *it, const uint8_t *eighth)
{
    const int64_t cols = c->info.chunk_cols / 8, rows = c->info.chunk_rows / 8;
    tissue_sum(&it->sums, eighth, cols, rows, cols, it->col * cols, it->row * rows, 8, 1);
}

/* A tile that was decoded. Where tiles can be decoded at 1/8 the map is made from that, as that of
 * codec jpeg is: a slide has one tissue map, whatever the codec. */
static int sum_decoded(const struct convert *c, struct tile_task *it, int thread, struct err *e)
{
    enum store_status status;
    if (it->status != STORE_WHOLE || !is_summed_at_eighth(c, it)) {
        sum_tissue(c, it);
        return 0;
    }
    if (c->slide->reader->read_eighth(c->slide, thread, it->col, it->row, it->packed, &status, e))
        return -1;
    sum_eighth(c, it, it->packed);
    return 0;
}

/* Decodes a tile and packs its pixels. */
static int pack_tile(const struct convert *c, struct tile_task *it, int thread, struct err *e)
{
    const struct codec_params params = store_codec_params(&c->info);
    size_t packed;
    if (read_pixels(c, it, thread, e) || check_damage(c, it, e))
        return -1;
    if (c->tissue_origin == TISSUE_TILES && sum_decoded(c, it, thread, e))
        return -1;
    blank_padding(&c->info, it);
    if (codec_encode(c->codecs[thread], &params, it->pixels, it->packed, &packed, e))
        return -1;
    it->bytes = packed ? packed : codec_pixel_bytes(&params);
    it->stored = packed ? it->packed : it->pixels;
    return 0;
}

/* As sum_tissue, of a tile that is kept; it->pixels has its pixels at 1/8 where the map takes these.
 * Other tiles, and JPEG 2000, are decoded as a whole. */
static int sum_kept(const struct convert *c, struct tile_task *it, int thread, struct err *e)
{
    if (it->status == STORE_WHOLE && is_summed_at_eighth(c, it))
        sum_eighth(c, it, it->pixels);
    else if (read_pixels(c, it, thread, e))
        return -1;
    else
        sum_tissue(c, it);
    return 0;
}

/* Takes a tile as it is; it is decoded in part, which shows damage. Its pixels at 1/8 are needed only
 * for a tissue map that is made of them. */
static int keep_tile(const struct convert *c, struct tile_task *it, int thread, struct err *e)
{
    struct err why = {0};
    uint8_t *eighth =
        c->tissue_origin == TISSUE_TILES && is_summed_at_eighth(c, it) ? it->pixels : NULL;
    const int r = c->slide->reader->read_kept(c->slide, thread, it->col, it->row, &it->chunk,
                                              eighth, &it->status, &why);
    it->other[0] = 0;
    if (r == SLIDE_OTHER)
        snprintf(it->other, sizeof it->other, "%.79s", why.msg);
    if (r)
        return r < 0 ? err_copy(e, &why) : 0; /* the sink gives up */
    if (check_damage(c, it, e))
        return -1;
    if (c->tissue_origin == TISSUE_TILES && sum_kept(c, it, thread, e))
        return -1;
    const bool whole = it->status == STORE_WHOLE;
    const struct jpeg_chunk *stored = whole ? &it->chunk : &c->flat;
    it->stored = stored->bytes;
    it->bytes = stored->n;
    return 0;
}

/* So many points lie evenly among `all` things: the number of the first one that is not before
 * thing k. */
static int64_t point_from(int points, int64_t k, int64_t all)
{
    return (k * points + all - 1) / all; /* tiles: at most 2^40; cells: 2^50 */
}

/* Where the tile's numbers are in c->sampled, if it is one of SAMPLE_TILES that lie evenly among
 * all; else -1. */
static int64_t place_in_sample(const struct convert *c, const struct tile_task *it)
{
    const int64_t all = c->columns * c->rows, k = it->row * c->columns + it->col;
    const int64_t point = point_from(SAMPLE_TILES, k, all);
    return point < point_from(SAMPLE_TILES, k + 1, all) ? point : -1;
}

/* How a JPEG tile was compressed. `read`: it->chunk is to be read. */
static int measure_history(const struct convert *c, struct tile_task *it, int thread, bool read,
                           struct jpeg_blocks *blocks, struct err *e)
{
    struct err why = {0};
    const struct part p = part_of(&c->info, it);
    enum store_status status;
    it->history = (struct jpeg_history){0};
    if (read) {
        const int r = c->slide->reader->read_kept(c->slide, thread, it->col, it->row, &it->chunk,
                                                  NULL, &status, e);
        if (r || status != STORE_WHOLE)
            return r < 0 ? -1 : 0;
    }
    const int r = jpeg_history_add(&it->history, c->decoders[thread], &it->chunk, p.cols, p.rows,
                                   blocks, &why);
    if (r && blocks)
        blocks->cols = 0;
    return r == JPEG_NO_MEMORY ? err_copy(e, &why) : 0;
}

/* A tile of the sample: how it was compressed, and what its glass shows. */
static int measure_sample(const struct convert *c, struct tile_task *it, int thread, struct err *e)
{
    const struct part p = part_of(&c->info, it);
    const int channels = (int)c->info.channels;
    enum store_status status = it->status;
    it->glass.blocks.cols = it->glass.blocks.rows = 0;
    if (it->status != STORE_WHOLE || place_in_sample(c, it) < 0)
        return 0;
    if (c->decoders)
        return measure_history(c, it, thread, c->info.codec->id != CODEC_JPEG, &it->glass.blocks,
                               e) ||
                       glass_add(&it->glass, p.cols, p.rows, e)
                   ? -1
                   : 0;
    if (c->info.codec->keeps && c->slide->reader->read(c->slide, thread, it->col, it->row, channels,
                                                       it->pixels, &status, e))
        return -1;
    if (status != STORE_WHOLE)
        return 0;
    return glass_take_pixels(&it->glass, it->pixels, channels, c->info.chunk_cols, p.cols, p.rows,
                             e) ||
                   glass_add(&it->glass, p.cols, p.rows, e)
               ? -1
               : 0;
}

/* --- the pipe --- */

static int source(void *ctx, void *slot, int64_t number, struct err *e)
{
    struct convert *c = ctx;
    struct tile_task *it = slot;
    (void)number;
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

/* Reads tile (it->col, it->row) and makes its chunk. */
static int work(void *ctx, void *slot, int thread, struct err *e)
{
    const struct convert *c = ctx;
    struct tile_task *it = slot;
    const struct store_info *i = &c->info;
    it->status = STORE_LEFT_OUT;
    it->stored = NULL;
    it->bytes = 0;
    it->history.tiles = 0;
    it->glass.n = 0;
    if (c->o->tissue_only && !tissue_count(&c->tissue, it->col * i->chunk_cols,
                                           it->row * i->chunk_rows, i->chunk_cols, i->chunk_rows))
        return 0;
    stop_library_begin();
    const int bad = i->codec->keeps ? keep_tile(c, it, thread, e) : pack_tile(c, it, thread, e);
    stop_library_end();
    if (bad)
        return -1;
    if (it->other[0] == 0 && measure_sample(c, it, thread, e))
        return -1;
    it->crc32 = codec_crc32(it->stored, it->bytes);
    return 0;
}

static int sink(void *ctx, void *slot, struct err *e)
{
    struct convert *c = ctx;
    struct tile_task *it = slot;
    if (it->other[0]) {
        snprintf(c->other, sizeof c->other, "tile (%" PRId64 ", %" PRId64 ") is %s", it->row,
                 it->col, it->other);
        return err_set(e, "%s", c->other);
    }
    if (store_put_chunk(c->writer, it->stored, it->bytes, it->crc32, it->status, e))
        return -1;
    if (c->tissue_origin == TISSUE_TILES && it->status != STORE_LEFT_OUT &&
        tissue_add(&c->tissue, &it->sums, e))
        return -1;
    const int64_t place = place_in_sample(c, it);
    if (place >= 0) {
        c->sampled[place] = it->history;
        if (glass_join(&c->glass, &it->glass, e))
            return -1;
    }
    c->done++;
    if (c->progress)
        c->progress(c->progress_ctx, (double)c->done / (double)(c->columns * c->rows),
                    (double)c->info.width * (double)c->info.height);
    return 0;
}

static int most(void *ctx)
{
    const struct convert *c = ctx;
    return convert_threads(c->o);
}

int convert_tiles(struct convert *c, struct err *e)
{
    static const struct pipe_ops ops = {.source = source, .work = work, .sink = sink, .most = most};
    return pipe_run(&ops, c, c->items, sizeof *c->items, c->depth, c->o->threads, e);
}

/* --- a sample of the tissue --- */

/* What a tile weighs: glass around the tissue must not count. Without tissue, or a map of it, all
 * tiles are alike. */
static int64_t cells_of(const struct convert *c, int64_t tile)
{
    const struct store_info *i = &c->info;
    return c->tissue.none || c->tissue.fraction <= 0
               ? 1
               : tissue_count(&c->tissue, tile % c->columns * i->chunk_cols,
                              tile / c->columns * i->chunk_rows, i->chunk_cols, i->chunk_rows);
}

/* The next tile that has one of TISSUE_SAMPLE points that lie evenly among the cells of tissue. */
static int source_of_tissue(void *ctx, void *slot, int64_t number, struct err *e)
{
    struct convert *c = ctx;
    struct tile_task *it = slot;
    (void)number;
    if (stop_check(e))
        return -1;
    for (bool found = false; !found; c->next++) {
        if (c->next == c->columns * c->rows)
            return PIPE_END;
        const int64_t before = c->cells_before;
        c->cells_before += cells_of(c, c->next);
        found = point_from(TISSUE_SAMPLE, before, c->cells) <
                point_from(TISSUE_SAMPLE, c->cells_before, c->cells);
        it->col = c->next % c->columns;
        it->row = c->next / c->columns;
    }
    return PIPE_ITEM;
}

/* Tiles of the sample of all tiles are known. */
static int work_on_tissue(void *ctx, void *slot, int thread, struct err *e)
{
    const struct convert *c = ctx;
    struct tile_task *it = slot;
    const int64_t place = place_in_sample(c, it);
    if (place >= 0 && c->sampled[place].tiles > 0) {
        it->history = c->sampled[place];
        return 0;
    }
    stop_library_begin();
    const int bad = measure_history(c, it, thread, true, NULL, e);
    stop_library_end();
    return bad;
}

static int sink_of_tissue(void *ctx, void *slot, struct err *e)
{
    struct convert *c = ctx;
    const struct tile_task *it = slot;
    (void)e;
    jpeg_history_join(&c->history, &it->history);
    return 0;
}

int convert_history(struct convert *c, struct err *e)
{
    static const struct pipe_ops ops = {
        .source = source_of_tissue, .work = work_on_tissue, .sink = sink_of_tissue, .most = most};
    c->next = c->cells = c->cells_before = 0;
    for (int64_t k = 0; k < c->columns * c->rows; k++)
        c->cells += cells_of(c, k);
    return pipe_run(&ops, c, c->items, sizeof *c->items, c->depth, c->o->threads, e);
}
