/* stub_jpeg.c - what takes the place of the kernels that decode JPEG; see stub.h. */
#include "tests/stub.h"

#include "common/codec/jpeg_decoder.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_HEADER = 1 << 16, MARK = 0x4a504547 };

static struct jpeg_header h; /* of the tile that stream_of() looked at */

/* Where the stream of a tile begins: the nearest header before its entropy-coded data. */
static const uint8_t *stream_of(const struct jpeg_batch *b, const struct jpeg_tile *t)
{
    const uint8_t *coded = b->d_stored + t->stored, *p = coded;
    struct err no;
    while (p > b->d_stored && coded - p < MOST_HEADER) {
        p--;
        if (p[0] == 0xff && p[1] == 0xd8 &&
            jpeg_header_read(&h, p, (size_t)(coded - p) + t->bytes, &no) == 0 &&
            h.scan_offset == (size_t)(coded - p))
            return p;
    }
    stub_die("a tile without a header before its data");
}

/* Decodes it to out. Returns whether libjpeg can. */
static bool decode(const struct jpeg_batch *b, const struct jpeg_tile *t, uint8_t *out)
{
    static struct jpeg_decoder *decoder;
    const uint8_t *p = stream_of(b, t), *coded = b->d_stored + t->stored;
    const struct jpeg_picture picture = {.cols = b->geometry.width,
                                         .rows = b->geometry.height,
                                         .colours = JPEG_MARKED,
                                         .channels = jpeg_channels(&b->geometry)};
    const struct jpeg_stream s = {.bytes = p, .n = (size_t)(coded - p) + t->bytes};
    struct err no;
    if (!decoder && !(decoder = jpeg_decoder_create(&no)))
        return false;
    return jpeg_decode(decoder, &picture, &s, out, &no) == 0;
}

/* WSI_STUB_REFUSE=N: every N-th tile. */
static bool is_refused(const struct jpeg_tile *t)
{
    const char *text = getenv("WSI_STUB_REFUSE");
    const unsigned n = text ? (unsigned)atoi(text) : 0;
    return n && t->place % n == 0;
}

static void strip(const struct jpeg_batch *b, const struct jpeg_tile *t, int k, int device)
{
    stub_check_memory(b->d_stored + t->stored, t->bytes, device, "stored bytes of a tile");
    stub_check_memory(b->d_stripped + t->stripped, t->bytes, device, "stripped bytes of a tile");
    stub_check_memory(b->d_bytes + k, 4, device, "numbers of stripped bytes");
    stub_check(t->stripped % 16 == 0 && t->entries % 4 == 0, "places of a tile's data");
    memcpy(b->d_stripped + t->stripped, b->d_stored + t->stored, t->bytes);
    b->d_bytes[k] = t->bytes;
    b->d_status[t->number] = is_refused(t) ? JPEG_FOR_HOST : JPEG_DECODED;
}

static void own_tables(const struct jpeg_batch *b, const struct jpeg_tile *t, int k, int device)
{
    const uint8_t *coded = b->d_stored + t->stored;
    stub_check_memory(b->d_own + k, sizeof *b->d_own, device, "tables of a tile's own");
    stream_of(b, t);
    for (int p = 0; p < b->pairs; p++)
        stub_check(coded - t->dht[p][0] == h.dc[b->d_sets[t->set].dc[p]].stored &&
                       coded - t->dht[p][1] == h.ac[b->d_sets[t->set].ac[p]].stored,
                   "places of a tile's Huffman tables");
    b->d_own[k].first[0][0][0] = (int32_t)t->number;
}

static void huffman(const struct jpeg_batch *b, const struct jpeg_tile *t, int k, int device)
{
    uint32_t *entries = b->d_entries + t->entries;
    const int64_t rows = b->geometry.mcu_rows + 1;
    stub_check_memory(entries, ((size_t)t->most + JPEG_MARGIN) * sizeof *entries, device,
                      "entries");
    stub_check_memory(b->d_rows + k * rows, (size_t)rows * 4, device, "rows of MCUs");
    stub_check(!memcmp(b->d_stripped + t->stripped, b->d_stored + t->stored, t->bytes),
               "stripped bytes of a tile were overwritten");
    stub_check(!b->d_own || b->d_own[k].first[0][0][0] == (int32_t)t->number,
               "tables of another tile");
    entries[0] = MARK + t->number;
    entries[t->most + JPEG_MARGIN - 1] = MARK - t->number;
}

/* Tiles that are cut into runs: their pixels come from planes. */
static void samples(const struct jpeg_batch *b, const struct jpeg_tile *t, int k, int device)
{
    const size_t bytes = jpeg_planes_bytes(&b->geometry);
    uint8_t *planes = b->d_planes + (size_t)k * bytes;
    stub_check_memory(planes, bytes, device, "planes of a tile");
    memset(planes, (int)(t->number & 255), bytes);
}

static void pixels(const struct jpeg_batch *b, const struct jpeg_tile *t, int k, int device)
{
    const size_t planes = jpeg_planes_bytes(&b->geometry);
    uint8_t *out = b->d_pixels + (size_t)t->place * jpeg_tile_bytes(&b->geometry),
            *decoded = malloc(jpeg_tile_bytes(&b->geometry));
    const uint32_t *entries = b->d_entries + t->entries;
    stub_check(decoded != NULL, "no memory for the stub itself");
    stub_check_memory(out, jpeg_tile_bytes(&b->geometry), device, "pixels of a tile");
    stub_check(entries[0] == MARK + t->number &&
                   entries[t->most + JPEG_MARGIN - 1] == MARK - t->number,
               "entries of a tile were overwritten");
    stub_check(!planes || b->d_planes[(size_t)k * planes + planes - 1] == (uint8_t)t->number,
               "planes of a tile were overwritten");
    if (b->d_status[t->number] == JPEG_DECODED && stub.quick)
        *out = 0;
    else if (b->d_status[t->number] == JPEG_DECODED && decode(b, t, decoded))
        memcpy(out, decoded, jpeg_tile_bytes(&b->geometry));
    else
        b->d_status[t->number] = JPEG_FOR_HOST;
    free(decoded);
}

void stub_run_jpeg(const struct op *o, int device)
{
    const struct jpeg_batch *b = &o->jpeg;
    stub_check_memory(b->d_tiles, (size_t)b->n * sizeof *b->d_tiles, device, "tiles");
    stub_check(b->n > 0, "a batch without tiles");
    for (int k = 0; k < b->n; k++) {
        const struct jpeg_tile *t = &b->d_tiles[k];
        const struct jpeg_set *set = b->d_sets + t->set;
        stub_check_memory(set, sizeof *set, device, "tables");
        stub_check(set->pairs == b->pairs && (b->d_own || t->set == b->d_tiles[0].set),
                   "tables of another header");
        stub_check_memory(b->d_status + t->number, 1, device, "status of a tile");
        if (o->what == STRIP)
            strip(b, t, k, device);
        else if (o->what == HUFFMAN)
            huffman(b, t, k, device);
        else if (o->what == OWN_TABLES)
            own_tables(b, t, k, device);
        else if (o->what == SAMPLES)
            samples(b, t, k, device);
        else
            pixels(b, t, k, device);
    }
}
