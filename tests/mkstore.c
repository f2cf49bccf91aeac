/*
 * mkstore - a large store laid from the chunks of a small one, over and over.
 *
 *   mkstore SMALL.h5 WIDTH HEIGHT CODEC OUT.h5      only whole chunks of the small one are used
 */
#include "common/codec/codec.h"
#include "common/store/store_read.h"
#include "common/store/store_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct packed {
    unsigned char *bytes;
    size_t n;
    uint32_t crc32;
};

static int fail(const struct err *e)
{
    fprintf(stderr, "mkstore: %s\n", e->msg);
    return 1;
}

/* A chunk of the small store, unpacked and packed again; jpeg chunks are copied. */
static int pack(struct store *s, const struct store_chunk *c, const struct codec *codec,
                struct codec_work *w, struct packed *p, struct err *e)
{
    const struct codec_params p_from = store_codec_params(store_info(s));
    struct codec_params p_to = p_from;
    const size_t whole = codec_pixel_bytes(&p_from);
    p_to.codec = codec;
    unsigned char *stored = malloc(c->bytes + 1), *pixels = malloc(whole), *out = malloc(whole);
    if (!stored || !pixels || !out)
        return err_set(e, "out of memory");
    if (store_read(s, c->offset, stored, c->bytes, e))
        return -1;
    if (codec->id == CODEC_JPEG) {
        *p = (struct packed){stored, c->bytes, c->crc32};
        return p_from.codec->id == CODEC_JPEG ? 0
                                              : err_set(e, "%s is no jpeg store", store_path(s));
    }
    if (c->raw)
        memcpy(pixels, stored, whole);
    else if (codec_decode(w, &p_from, stored, c->bytes, pixels))
        return err_set(e, "cannot unpack");
    if (codec_encode(w, &p_to, pixels, out, &p->n, e))
        return -1;
    p->bytes = p->n > 0 ? out : pixels;
    p->n = p->n > 0 ? p->n : whole;
    p->crc32 = codec_crc32(p->bytes, p->n);
    free(stored);
    return 0;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    if (argc != 6)
        return fprintf(stderr, "usage: mkstore SMALL.h5 WIDTH HEIGHT CODEC OUT.h5\n"), 2;
    struct store *s = store_open(argv[1], &e);
    if (!s)
        return fail(&e);
    struct store_info i = *store_info(s);
    const int64_t columns = store_chunk_columns(&i), rows = i.height / i.chunk_rows,
                  used = i.width / i.chunk_cols;
    struct store_chunk *chunks = calloc((size_t)((rows + i.group_rows) * columns), sizeof *chunks);
    struct packed *packed = calloc((size_t)(rows * used), sizeof *packed);
    int64_t listed = 0;
    for (int64_t g = 0; g < i.group_count; g++) {
        if (store_map_group(s, g, chunks + listed, &e))
            return fail(&e);
        listed += store_group_chunk_rows(&i, g) * columns;
    }
    const struct codec *codec = codec_find(argv[4]);
    struct codec_work *w = codec_create();
    if (!codec)
        err_set(&e, "no codec %s", argv[4]);
    if (!codec || !w)
        return fail(&e);
    for (int64_t k = 0; k < rows * used; k++)
        if (pack(s, &chunks[k / used * columns + k % used], codec, w, &packed[k], &e))
            return fail(&e);
    i.width = atoll(argv[2]);
    i.height = atoll(argv[3]);
    i.codec = codec;
    i.stripe_rows = (1024 + i.chunk_rows - 1) / i.chunk_rows * i.chunk_rows;
    const int64_t stripe = i.stripe_rows * i.width * i.channels;
    i.group_rows =
        i.stripe_rows * ((INT64_C(256) << 20) / stripe > 1 ? (INT64_C(256) << 20) / stripe : 1);
    i.group_count = (i.height + i.group_rows - 1) / i.group_rows;
    struct store_source *sources = NULL;
    const int64_t n = store_read_sources(argv[1], &sources, &e);
    struct store_writer *out = n < 0 ? NULL : store_create(argv[5], &i, &e);
    if (!out || store_put_sources(out, sources, n, &e))
        return fail(&e);
    for (int64_t r = 0; r < (i.height + i.chunk_rows - 1) / i.chunk_rows; r++)
        for (int64_t c = 0; c < store_chunk_columns(&i); c++) {
            const struct packed *p = &packed[r % rows * used + c % used];
            if (store_put_chunk(out, p->bytes, p->n, p->crc32, STORE_WHOLE, &e))
                return fail(&e);
        }
    int64_t bytes;
    return store_commit(out, NULL, &bytes, &e) ? fail(&e) : 0;
}
