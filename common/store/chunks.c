/* chunks.c - see chunks.h. */
#include "common/store/chunks.h"

#include "common/base/clock.h"
#include "common/codec/j2k.h"
#include "common/codec/jpeg_decoder.h"

#include <stdlib.h>
#include <string.h>

/* Read in one go through the page cache. The CRC is computed while the bytes are still in the
 * processor's own caches. Past the page cache, one large read is better. */
enum { READ_BYTES = 1 << 18 };

struct chunks chunks_of(const struct store *s, const struct store_chunk *list, int64_t first_row)
{
    const struct store_info *i = store_info(s);
    return (struct chunks){.store = s,
                           .list = list,
                           .params = store_codec_params(i),
                           .columns = store_chunk_columns(i),
                           .first_row = first_row};
}

static const struct store_chunk *chunk_at(const struct chunks *c, int64_t row, int64_t col)
{
    return &c->list[row * c->columns + col];
}

/* --- extents --- */

/* Does b follow a in the file, or were both left out? */
static bool joins(const struct store_chunk *a, const struct store_chunk *b)
{
    if (a->bytes == 0 || b->bytes == 0)
        return a->bytes == b->bytes;
    return b->offset == a->offset + a->bytes;
}

struct chunks_extent chunks_extent_at(const struct chunks *c, int64_t row, int64_t col,
                                      int64_t most)
{
    const struct store_chunk *first = chunk_at(c, row, col);
    int64_t n = 1;
    while (n < most && col + n < c->columns && joins(&first[n - 1], &first[n]))
        n++;
    return (struct chunks_extent){row, col, n};
}

int64_t chunks_that_fit(const struct chunks *c, struct chunks_extent x, size_t bytes)
{
    const struct store_chunk *first = chunk_at(c, x.row, x.col);
    size_t sum = first[0].bytes;
    int64_t k = 1;
    while (k < x.n && sum + first[k].bytes <= bytes)
        sum += first[k++].bytes;
    return k;
}

size_t chunks_stored_bytes(const struct chunks *c, struct chunks_extent x)
{
    const struct store_chunk *first = chunk_at(c, x.row, x.col);
    size_t sum = 0;
    for (int64_t k = 0; k < x.n; k++)
        sum += first[k].bytes;
    return sum;
}

bool chunks_range(const struct chunks *c, int64_t row, int64_t rows, uint64_t *offset,
                  uint64_t *bytes)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (int64_t k = row * c->columns; k < (row + rows) * c->columns; k++) {
        const struct store_chunk *one = &c->list[k];
        if (one->bytes == 0)
            continue;
        low = one->offset < low ? one->offset : low;
        high = one->offset + one->bytes > high ? one->offset + one->bytes : high;
    }
    *offset = low;
    *bytes = high > low ? high - low : 0;
    return high > low;
}

void chunks_prefetch(const struct chunks *c, int64_t row, int64_t rows)
{
    uint64_t offset, bytes;
    if (chunks_range(c, row, rows, &offset, &bytes))
        store_prefetch(c->store, offset, bytes);
}

/* --- scratch --- */

static int no_memory(const struct chunks *c, struct err *e)
{
    return err_blame(e, ERR_MEMORY, "%s: out of memory", store_path(c->store));
}

/* Makes room for `want` bytes, in whole pages. The contents are lost. */
static int grow(const struct chunks *c, unsigned char **memory, size_t *size, size_t want,
                struct err *e)
{
    if (want <= *size)
        return 0;
    free(*memory);
    *size = 0;
    want = (want + STORE_PAGE - 1) / STORE_PAGE * STORE_PAGE;
    if (!(*memory = aligned_alloc(STORE_PAGE, want)))
        return no_memory(c, e);
    *size = want;
    return 0;
}

static int grow_pixels(const struct chunks *c, struct chunks_scratch *s, struct err *e)
{
    return grow(c, &s->pixels, &s->pixels_size, codec_pixel_bytes(&c->params), e);
}

void chunks_scratch_free(struct chunks_scratch *s)
{
    free(s->stored);
    free(s->pixels);
    codec_free(s->codec);
    *s = (struct chunks_scratch){0};
}

/* --- one step each --- */

static int read_to(const struct chunks *c, struct chunks_scratch *s, struct chunks_extent x,
                   uint8_t *memory, const uint8_t **stored, struct err *e)
{
    const double begun = clock_now();
    const size_t bytes = chunks_stored_bytes(c, x);
    const uint64_t offset = chunk_at(c, x.row, x.col)->offset;
    *stored = memory;
    if (bytes > 0 && store_read_pages(c->store, offset, memory, bytes, stored, e))
        return -1;
    s->read_seconds += clock_now() - begun;
    return 0;
}

int chunks_read(const struct chunks *c, struct chunks_scratch *s, struct chunks_extent x,
                const uint8_t **stored, struct err *e)
{
    const size_t want = chunks_stored_bytes(c, x) + CHUNKS_MARGIN;
    if (grow(c, &s->stored, &s->stored_size, want, e))
        return -1;
    return read_to(c, s, x, s->stored, stored, e);
}

/* "FILE: WHAT chunk at row R, column C of group G; convert the slide again with --force" */
static int damaged(const struct chunks *c, int64_t row, int64_t col, const char *what,
                   struct err *e)
{
    const struct store_info *i = store_info(c->store);
    const int64_t rows = i->group_rows / i->chunk_rows, at = c->first_row + row;
    err_set(e,
            "%s: %s chunk at row %lld, column %lld of group %lld; convert the slide again with "
            "--force",
            store_path(c->store), what, (long long)(at % rows), (long long)col,
            (long long)(at / rows) + 1);
    return CHUNKS_DAMAGED;
}

int chunks_mismatch(const struct chunks *c, int64_t row, int64_t col, struct err *e)
{
    return damaged(c, row, col, "CRC mismatch in", e);
}

int chunks_check(const struct chunks *c, int64_t row, int64_t col, const uint8_t *stored,
                 struct err *e)
{
    const struct store_chunk *one = chunk_at(c, row, col);
    if (one->bytes == 0 || codec_crc32(stored, one->bytes) == one->crc32)
        return 0;
    return chunks_mismatch(c, row, col, e);
}

/* Of the codecs only jpeg and j2k can be missing from a build, or have a library that cannot be
 * used. */
static int no_library(const struct chunks *c, struct err *e)
{
    struct err why = {0};
    if (c->params.codec->id == CODEC_J2K)
        j2k_decoder_free(j2k_decoder_create(&why));
    else
        jpeg_is_available(&why);
    return err_set(e, "%s: codec %s cannot be unpacked: %s", store_path(c->store),
                   c->params.codec->name, why.msg);
}

/* The pixels of a checked chunk: in place, or at `room`. */
static int unpack_to(const struct chunks *c, struct chunks_scratch *s, int64_t row, int64_t col,
                     const uint8_t *stored, uint8_t *room, const uint8_t **pixels, struct err *e)
{
    const struct store_chunk *one = chunk_at(c, row, col);
    *pixels = room;
    if (one->bytes == 0) {
        memset(room, 255, codec_pixel_bytes(&c->params));
        return 0;
    }
    if (one->raw) {
        *pixels = stored;
        return 0;
    }
    if (!s->codec)
        s->codec = codec_create();
    const int r = codec_decode(s->codec, &c->params, stored, one->bytes, room);
    if (r == CODEC_NO_MEMORY)
        return no_memory(c, e);
    if (r == CODEC_NO_LIBRARY)
        return no_library(c, e);
    return r == 0 ? 0 : damaged(c, row, col, "cannot unpack", e);
}

int chunks_unpack(const struct chunks *c, struct chunks_scratch *s, int64_t row, int64_t col,
                  const uint8_t *stored, const uint8_t **pixels, struct err *e)
{
    if (grow_pixels(c, s, e))
        return -1;
    return unpack_to(c, s, row, col, stored, s->pixels, pixels, e);
}

/* --- whole extents --- */

/* The first chunks of an extent that are read in one go. */
static struct chunks_extent next_read(const struct chunks *c, struct chunks_extent x)
{
    if (!store_reads_directly(c->store))
        x.n = chunks_that_fit(c, x, READ_BYTES);
    return x;
}

/* The rest of x after `done`, its first chunks. */
static struct chunks_extent after(struct chunks_extent x, struct chunks_extent done)
{
    return (struct chunks_extent){x.row, done.col + done.n, x.col + x.n - done.col - done.n};
}

/* Checks and unpacks the chunks of x, whose stored bytes are at `at`: each to its place in
 * `memory`, or, where that is NULL, one after the other to the scratch for visit. */
static int unpack_all(const struct chunks *c, struct chunks_scratch *s, struct chunks_extent x,
                      const uint8_t *at, uint8_t *memory,
                      void (*visit)(void *ctx, int64_t col, const uint8_t *pixels), void *ctx,
                      struct err *e)
{
    const size_t whole = codec_pixel_bytes(&c->params);
    const double begun = clock_now();
    for (int64_t col = x.col; col < x.col + x.n; at += chunk_at(c, x.row, col++)->bytes) {
        uint8_t *room = memory ? memory + (size_t)(col - x.col) * whole : s->pixels;
        const uint8_t *pixels;
        if (chunks_check(c, x.row, col, at, e) || unpack_to(c, s, x.row, col, at, room, &pixels, e))
            return -1;
        if (visit)
            visit(ctx, col, pixels);
        else if (pixels != room)
            memcpy(room, pixels, whole);
    }
    s->unpack_seconds += clock_now() - begun;
    return 0;
}

int chunks_visit(const struct chunks *c, struct chunks_scratch *s, struct chunks_extent x,
                 void (*visit)(void *ctx, int64_t col, const uint8_t *pixels), void *ctx,
                 struct err *e)
{
    const uint8_t *at;
    if (grow_pixels(c, s, e))
        return -1;
    for (struct chunks_extent part; x.n > 0; x = after(x, part)) {
        part = next_read(c, x);
        if (chunks_read(c, s, part, &at, e) || unpack_all(c, s, part, at, NULL, visit, ctx, e))
            return -1;
    }
    return 0;
}

/* Checks the CRCs of the chunks of x, whose stored bytes are at `at`. */
static int check_all(const struct chunks *c, struct chunks_scratch *s, struct chunks_extent x,
                     const uint8_t *at, struct err *e)
{
    const double begun = clock_now();
    for (int64_t col = x.col; col < x.col + x.n; at += chunk_at(c, x.row, col++)->bytes)
        if (chunks_check(c, x.row, col, at, e))
            return -1;
    s->unpack_seconds += clock_now() - begun;
    return 0;
}

int chunks_load_stored(const struct chunks *c, struct chunks_scratch *s, struct chunks_extent x,
                       uint8_t *memory, const uint8_t **stored, struct err *e)
{
    uint8_t *room = memory;
    const uint8_t *at;
    *stored = memory;
    for (struct chunks_extent part; x.n > 0; x = after(x, part)) {
        part = next_read(c, x);
        if (read_to(c, s, part, room, &at, e) || check_all(c, s, part, at, e))
            return -1;
        if (room == memory)
            *stored =
                at; /* past the page cache the only read, which begins on a page of the file */
        room += chunks_stored_bytes(c, part);
    }
    return 0;
}

static bool all_raw(const struct chunks *c, struct chunks_extent x)
{
    for (int64_t k = 0; k < x.n; k++)
        if (!chunk_at(c, x.row, x.col + k)->raw || chunk_at(c, x.row, x.col + k)->bytes == 0)
            return false;
    return true;
}

int chunks_load(const struct chunks *c, struct chunks_scratch *s, struct chunks_extent x,
                uint8_t *memory, const uint8_t **pixels, struct err *e)
{
    const size_t whole = codec_pixel_bytes(&c->params);
    const uint8_t *at;
    if (all_raw(c, x)) /* read to where they belong */
        return chunks_load_stored(c, s, x, memory, pixels, e);
    *pixels = memory;
    for (struct chunks_extent part; x.n > 0; x = after(x, part)) {
        part = next_read(c, x);
        if (chunks_read(c, s, part, &at, e) || unpack_all(c, s, part, at, memory, NULL, NULL, e))
            return -1;
        memory += (size_t)part.n * whole;
    }
    return 0;
}
