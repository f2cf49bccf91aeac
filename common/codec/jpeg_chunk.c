/* jpeg_chunk.c - see jpeg_chunk.h. */
#include "common/codec/jpeg_chunk.h"

#include "common/codec/jpeg_header.h"
#include "common/codec/jpeg_marker.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEAD = 2 + 16, /* bytes of SOI and the APP14 marker */
};

/* The bytes of a stream that are not copied yet. */
struct source {
    const uint8_t *at, *end;
};

static void put(struct jpeg_chunk *c, const uint8_t *bytes, size_t n)
{
    memcpy(c->bytes + c->n, bytes, n);
    c->n += n;
}

static void put_head(struct jpeg_chunk *c, bool ycbcr)
{
    /* version 100, no flags */
    static const uint8_t head[HEAD] = {0xff, MARKER_SOI, 0xff, MARKER_APP14, 0, 14, 'A', 'd', 'o',
                                       'b',  'e',        0,    100,          0, 0,  0,   0,   0};
    c->n = 0;
    put(c, head, sizeof head);
    c->bytes[HEAD - 1] = ycbcr;
}

static int other(struct err *e, const char *what)
{
    err_set(e, "%s", what);
    return JPEG_CHUNK_OTHER;
}

/* Steps over a marker and the fill bytes before it. Returns its code, or 0 where there is none. */
static int next_marker(struct source *s)
{
    if (s->end - s->at < 2 || s->at[0] != 0xff)
        return 0;
    while (s->end - s->at >= 2 && s->at[1] == 0xff)
        s->at++;
    if (s->end - s->at < 2)
        return 0;
    s->at += 2;
    return s->at[-1];
}

/* Steps over a segment, whose marker has been read, and copies it if `keep`. */
static int take_segment(struct source *s, struct jpeg_chunk *c, int marker, bool keep,
                        struct err *e)
{
    const size_t left = (size_t)(s->end - s->at);
    const size_t n = left < 2 ? 0 : (size_t)s->at[0] << 8 | s->at[1];
    if (n < 2 || n > left)
        return other(e, "a JPEG segment that is truncated");
    if (keep) {
        const uint8_t code[2] = {0xff, (uint8_t)marker};
        put(c, code, 2);
        put(c, s->at, n);
    }
    s->at += n;
    return 0;
}

/* Would libjpeg warn of an application segment, so that its tile is damaged? Of JFIF it knows
 * version 1, of Adobe's marker the transforms 0 and 1. */
static bool is_damage(int marker, const struct source *s)
{
    const size_t left = (size_t)(s->end - s->at);
    const size_t n = left < 2 ? 0 : (size_t)s->at[0] << 8 | s->at[1];
    if (n > left)
        return false;
    return (marker == MARKER_APP0 && n >= 16 && !memcmp(s->at + 2, "JFIF", 5) && s->at[7] != 1) ||
           (marker == MARKER_APP14 && n >= 14 && !memcmp(s->at + 2, "Adobe", 5) && s->at[13] > 1);
}

static bool carries_text(int marker)
{
    return marker == MARKER_COM || (marker >= MARKER_APP0 && marker <= MARKER_APP15);
}

/* The tables of tag 347. libjpeg forgets a restart interval at the next SOI, so DRI is not copied.
 */
static int copy_tables(struct source *s, struct jpeg_chunk *c, struct err *e)
{
    int marker = next_marker(s);
    if (marker != MARKER_SOI)
        return other(e, "JPEG tables without SOI");
    while ((marker = next_marker(s)) != MARKER_EOI) {
        const bool keep = marker == MARKER_DQT || marker == MARKER_DHT;
        if (!keep && marker != MARKER_DRI && !carries_text(marker))
            return other(e, "JPEG tables with an unexpected marker");
        if (take_segment(s, c, marker, keep, e))
            return JPEG_CHUNK_OTHER;
    }
    return 0;
}

/* The tile's segments up to its entropy-coded data. */
static int copy_headers(struct source *s, struct jpeg_chunk *c, struct err *e)
{
    int marker = next_marker(s);
    if (marker != MARKER_SOI)
        return other(e, "not a JPEG stream");
    do {
        marker = next_marker(s);
        const bool keep = marker == MARKER_DQT || marker == MARKER_DHT || marker == MARKER_DRI ||
                          marker == MARKER_SOF0 || marker == MARKER_SOS;
        if (!keep && (marker <= MARKER_SOF0 || marker > MARKER_SOF15) && !carries_text(marker))
            return other(e, "a JPEG with an unexpected marker");
        if (!keep && !carries_text(marker))
            return other(e, "JPEG that is not baseline");
        if (is_damage(marker, s))
            return other(e, "a JPEG with an unknown version or colour transform");
        if (take_segment(s, c, marker, keep, e))
            return JPEG_CHUNK_OTHER;
    } while (marker != MARKER_SOS);
    return 0;
}

/* The entropy-coded data, up to and with EOI. */
static int copy_data(struct source *s, struct jpeg_chunk *c, struct err *e)
{
    const uint8_t *p = s->at;
    while ((p = memchr(p, 0xff, (size_t)(s->end - p))) && s->end - p >= 2) {
        const int code = p[1];
        if (code == MARKER_EOI) {
            put(c, s->at, (size_t)(p + 2 - s->at));
            return 0;
        }
        if (code != 0 && code != 0xff && (code < MARKER_RST0 || code > MARKER_RST7))
            return other(e, "a marker within JPEG data");
        p += code == 0xff ? 1 : 2;
    }
    return other(e, "a JPEG that ends early");
}

static int grow(struct jpeg_chunk *c, size_t most, struct err *e)
{
    if (most <= c->room)
        return 0;
    free(c->bytes);
    c->room = 0;
    if (!(c->bytes = malloc(most))) {
        err_set(e, "out of memory");
        return JPEG_NO_MEMORY;
    }
    c->room = most;
    return 0;
}

int jpeg_chunk_make(struct jpeg_chunk *c, const struct jpeg_stream *s, bool ycbcr, struct err *e)
{
    struct jpeg_header header;
    struct source tables = {s->tables, s->tables ? s->tables + s->tables_bytes : NULL};
    struct source tile = {s->bytes, s->bytes + s->n};
    if (grow(c, HEAD + s->tables_bytes + s->n, e))
        return JPEG_NO_MEMORY;
    put_head(c, ycbcr);
    if ((s->tables && copy_tables(&tables, c, e)) || copy_headers(&tile, c, e) ||
        copy_data(&tile, c, e))
        return JPEG_CHUNK_OTHER;
    return jpeg_header_read(&header, c->bytes, c->n, e) ? JPEG_CHUNK_OTHER : 0;
}

/* --- strips --- */

bool jpeg_strips_is_raw(const struct jpeg_strips *s, int64_t k)
{
    return (k + 1) * s->rows > s->height;
}

int jpeg_strips_add(struct jpeg_strips *s, struct jpeg_chunk *c, struct err *e)
{
    if (s->n == s->room) {
        const int64_t room = 2 * s->room + 16;
        struct jpeg_chunk *list = realloc(s->list, (size_t)room * sizeof *list);
        if (!list)
            return err_set(e, "out of memory");
        s->list = list;
        s->room = room;
    }
    s->list[s->n++] = *c;
    *c = (struct jpeg_chunk){0};
    return 0;
}

void jpeg_strips_free(struct jpeg_strips *s)
{
    for (int64_t k = 0; k < s->n; k++)
        free(s->list[k].bytes);
    free(s->list);
    *s = (struct jpeg_strips){0};
}
