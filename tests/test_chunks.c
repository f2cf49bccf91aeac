/* test_chunks - reading the chunks of a store: extents, CRCs, unpacking, stored bytes. */
#include "common/store/chunks.h"
#include "common/store/store_write.h"
#include "tests/unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 4, COLUMNS = 5, CHUNK = 64, BYTES = CHUNK * CHUNK * 3 };
enum { LEFT_OUT_FROM = 13, LEFT_OUT_TO = 15, NOISE = 7 }; /* numbers of chunks */

static char path[] = "/tmp/test_chunks-XXXXXX";

/* Chunk k: smooth, but for one that no codec makes smaller. */
static void paint(int k, uint8_t *pixels)
{
    unsigned state = 1;
    for (int n = 0; n < BYTES; n++) {
        state = state * 1664525u + 1013904223u;
        pixels[n] = (uint8_t)(k == NOISE ? state >> 24 : (unsigned)(k + n / 50));
    }
    if (k >= LEFT_OUT_FROM && k < LEFT_OUT_TO)
        memset(pixels, 255, BYTES);
}

static int put(struct store_writer *w, const struct codec_params *p, struct codec_work *c, int k,
               struct err *e)
{
    uint8_t pixels[BYTES], packed[BYTES];
    size_t n;
    paint(k, pixels);
    if (k >= LEFT_OUT_FROM && k < LEFT_OUT_TO)
        return store_put_chunk(w, NULL, 0, 0, STORE_LEFT_OUT, e);
    if (codec_encode(c, p, pixels, packed, &n, e))
        return -1;
    const uint8_t *bytes = n ? packed : pixels;
    n = n ? n : BYTES;
    return store_put_chunk(w, bytes, n, codec_crc32(bytes, n), STORE_WHOLE, e);
}

/* A store of two groups of two rows of chunks. */
static int write_store(const char *codec, struct err *e)
{
    struct store_info i = {.source_name = "s",
                           .vendor = "v",
                           .reader = "r",
                           .downsample = 1,
                           .width = COLUMNS * CHUNK,
                           .height = ROWS * CHUNK,
                           .channels = 3,
                           .mpp_x = 1,
                           .mpp_y = 1,
                           .objective_power = 20,
                           .chunk_rows = CHUNK,
                           .chunk_cols = CHUNK,
                           .stripe_rows = CHUNK,
                           .group_rows = 2 * CHUNK,
                           .group_count = 2,
                           .codec = codec_find(codec)};
    const struct codec_params p = store_codec_params(&i);
    struct codec_work *c = codec_create();
    struct store_writer *w = c ? store_create(path, &i, e) : NULL;
    int64_t bytes;
    int r = w ? 0 : -1;
    for (int k = 0; k < ROWS * COLUMNS && r == 0; k++)
        r = put(w, &p, c, k, e);
    codec_free(c);
    if (r == 0)
        return store_commit(w, NULL, &bytes, e);
    store_abort(w);
    return -1;
}

static struct store *open_store(struct chunks *c, struct store_chunk *list, struct err *e)
{
    struct store *s = store_open(path, e);
    for (int64_t g = 0; s && g < 2; g++)
        EXPECT(!store_map_group(s, g, list + 2 * COLUMNS * g, e));
    *c = chunks_of(s, list, 0);
    return s;
}

struct seen {
    int row, next; /* the column that must come next */
};

static void look(void *ctx, int64_t col, const uint8_t *pixels)
{
    struct seen *s = ctx;
    uint8_t want[BYTES];
    EXPECT(col == s->next++);
    paint(s->row * COLUMNS + (int)col, want);
    EXPECT(!memcmp(pixels, want, BYTES));
}

/* The stored bytes of x, one chunk after the other, have the CRCs of the list. */
static void check_stored(const struct chunks *c, struct chunks_extent x, const uint8_t *at)
{
    for (int64_t k = 0; k < x.n; k++) {
        const struct store_chunk *one = &c->list[x.row * COLUMNS + x.col + k];
        EXPECT(one->bytes == 0 || codec_crc32(at, one->bytes) == one->crc32);
        at += one->bytes;
    }
}

static void check_row(const struct chunks *c, struct chunks_scratch *s, int row, uint8_t *memory)
{
    struct err e = {0};
    uint8_t want[BYTES];
    const uint8_t *at = NULL;
    for (int64_t col = 0; col < COLUMNS;) {
        const struct chunks_extent x = chunks_extent_at(c, row, col, COLUMNS);
        struct seen seen = {row, (int)col};
        EXPECT(!chunks_visit(c, s, x, look, &seen, &e) && seen.next == x.col + x.n);
        EXPECT(!chunks_load(c, s, x, memory, &at, &e));
        for (int64_t k = 0; k < x.n; k++) {
            paint(row * COLUMNS + (int)(col + k), want);
            EXPECT(!memcmp(at + k * BYTES, want, BYTES));
        }
        EXPECT(!chunks_load_stored(c, s, x, memory, &at, &e));
        check_stored(c, x, at);
        col += x.n;
    }
}

static void check_codec(const char *codec, bool direct)
{
    struct err e = {0};
    struct store_chunk list[ROWS * COLUMNS];
    struct chunks c;
    struct chunks_scratch s = {0};
    uint8_t *memory =
        aligned_alloc(STORE_PAGE, COLUMNS * BYTES / 4096 * 4096 + 4096 + CHUNKS_MARGIN);
    EXPECT(!write_store(codec, &e));
    struct store *store = open_store(&c, list, &e);
    if (store && (!direct || !store_read_directly(store, &e)))
        for (int row = 0; row < ROWS; row++)
            check_row(&c, &s, row, memory);
    chunks_scratch_free(&s);
    store_close(store);
    free(memory);
}

static void test_pixels_and_stored_bytes(void)
{
    static const char *const codecs[] = {"none", "deflate", "lz4", "zstd"};
    for (size_t k = 0; k < sizeof codecs / sizeof *codecs; k++)
        if (codec_find(codecs[k])) {
            check_codec(codecs[k], false);
            check_codec(codecs[k], true);
        }
}

static void test_extents(void)
{
    struct err e = {0};
    struct store_chunk list[ROWS * COLUMNS];
    struct chunks c;
    EXPECT(!write_store("none", &e));
    struct store *store = open_store(&c, list, &e);
    EXPECT(chunks_extent_at(&c, 0, 0, 99).n == COLUMNS); /* never beyond its row */
    EXPECT(chunks_extent_at(&c, 0, 2, 2).n == 2 && chunks_extent_at(&c, 0, 4, 0).n == 1);
    EXPECT(chunks_extent_at(&c, 2, 0, 99).n == 3); /* then two that were left out */
    EXPECT(chunks_extent_at(&c, 2, 3, 99).n == 2);
    list[1].offset++; /* a gap */
    EXPECT(chunks_extent_at(&c, 0, 0, 99).n == 1);
    list[1].offset--;
    const struct chunks_extent x = {0, 0, COLUMNS};
    EXPECT(chunks_stored_bytes(&c, x) == COLUMNS * BYTES);
    EXPECT(chunks_that_fit(&c, x, 0) == 1 && chunks_that_fit(&c, x, 2 * BYTES) == 2);
    EXPECT(chunks_that_fit(&c, x, SIZE_MAX) == COLUMNS);
    uint64_t offset, bytes;
    EXPECT(chunks_range(&c, 0, 1, &offset, &bytes));
    EXPECT(offset == list[0].offset && bytes == COLUMNS * BYTES);
    for (int k = 0; k < COLUMNS; k++)
        list[k].bytes = 0;
    EXPECT(!chunks_range(&c, 0, 1, &offset, &bytes));
    store_close(store);
}

static void flip_byte(uint64_t at)
{
    unsigned char byte = 0;
    const int fd = open(path, O_RDWR);
    EXPECT(pread(fd, &byte, 1, (off_t)at) == 1);
    byte ^= 1;
    EXPECT(pwrite(fd, &byte, 1, (off_t)at) == 1);
    close(fd);
}

/* A damaged chunk is named by its place in its group, whatever reads it. */
static void test_a_damaged_chunk(void)
{
    struct err e = {0};
    struct store_chunk list[ROWS * COLUMNS];
    struct chunks c;
    struct chunks_scratch s = {0};
    uint8_t *memory =
        aligned_alloc(STORE_PAGE, COLUMNS * BYTES / 4096 * 4096 + 4096 + CHUNKS_MARGIN);
    const uint8_t *at;
    char want[256];
    EXPECT(!write_store("deflate", &e));
    struct store *store = open_store(&c, list, &e);
    const struct chunks_extent x = chunks_extent_at(&c, 3, 0, COLUMNS);
    struct seen seen = {3, 0};
    flip_byte(list[3 * COLUMNS + 2].offset + 5);
    snprintf(want, sizeof want,
             "%s: CRC mismatch in chunk at row 1, column 2 of group 2; convert the "
             "slide again",
             path);
    EXPECT(chunks_visit(&c, &s, x, look, &seen, &e) && !strcmp(e.msg, want) && seen.next == 2);
    EXPECT(chunks_load(&c, &s, x, memory, &at, &e) && !strcmp(e.msg, want));
    EXPECT(chunks_load_stored(&c, &s, x, memory, &at, &e) && !strcmp(e.msg, want));
    EXPECT(!chunks_read(&c, &s, (struct chunks_extent){3, 2, 1}, &at, &e));
    EXPECT(chunks_check(&c, 3, 2, at, &e) == CHUNKS_DAMAGED && !strcmp(e.msg, want));
    list[3 * COLUMNS + 2].crc32 = codec_crc32(at, list[3 * COLUMNS + 2].bytes);
    EXPECT(chunks_unpack(&c, &s, 3, 2, at, &at, &e) == CHUNKS_DAMAGED);
    EXPECT(strstr(e.msg, "cannot unpack chunk at row 1, column 2 of group 2"));
    chunks_scratch_free(&s);
    store_close(store);
    free(memory);
}

int main(void)
{
    const int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    const int status =
        UNIT_RUN("chunks", UNIT(pixels_and_stored_bytes), UNIT(extents), UNIT(a_damaged_chunk));
    unlink(path);
    return status;
}
