/* test_chunks - which chunks of a store are read together, and where they lie in the file. */
#include "common/store/chunks.h"
#include "common/store/store_write.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 4, COLUMNS = 5, CHUNK = 64, BYTES = CHUNK * CHUNK * 3 };
enum { LEFT_OUT_FROM = 13, LEFT_OUT_TO = 15 }; /* numbers of chunks */

static char path[] = "/tmp/test_chunks-XXXXXX";

static int put(struct store_writer *w, int k, struct err *e)
{
    uint8_t pixels[BYTES];
    memset(pixels, k, BYTES);
    if (k >= LEFT_OUT_FROM && k < LEFT_OUT_TO)
        return store_put_chunk(w, NULL, 0, 0, STORE_LEFT_OUT, e);
    return store_put_chunk(w, pixels, BYTES, codec_crc32(pixels, BYTES), STORE_WHOLE, e);
}

/* A store of two groups of two rows of chunks, without codec. */
static int write_store(struct err *e)
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
                           .codec = codec_find("none")};
    struct store_writer *w = store_create(path, &i, e);
    int64_t bytes;
    int r = w ? 0 : -1;
    for (int k = 0; k < ROWS * COLUMNS && r == 0; k++)
        r = put(w, k, e);
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

static void test_extents(void)
{
    struct err e = {0};
    struct store_chunk list[ROWS * COLUMNS];
    struct chunks c;
    EXPECT(!write_store(&e));
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

int main(void)
{
    const int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    const int status = UNIT_RUN("chunks", UNIT(extents));
    unlink(path);
    return status;
}
