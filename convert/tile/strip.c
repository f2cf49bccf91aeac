/* strip.c - see strip.h. */
#include "convert/tile/strip.h"

#include "common/base/read_at.h"

#include <errno.h>
#include <string.h>

enum { TAGS = 12, HEAD = 16, ENTRY = 20 };
_Static_assert(HEAD + 8 + ENTRY * TAGS + 8 <= sizeof((struct strip *)0)->head, "the directory");

bool strip_is_known(uint64_t compression)
{
    const struct tile_compression *c = tile_compression(compression);
    return c && c->through_libtiff && TIFFIsCODECConfigured((uint16_t)compression);
}

/* --- what libtiff calls --- */

static tmsize_t strip_read(thandle_t handle, void *to, tmsize_t n)
{
    struct strip *r = handle;
    uint8_t *out = to;
    size_t left = (size_t)n;
    if (r->position < sizeof r->head) {
        const size_t some =
            sizeof r->head - r->position < left ? sizeof r->head - r->position : left;
        memcpy(out, r->head + r->position, some);
        r->position += some;
        out += some;
        left -= some;
    }
    const uint64_t from = r->position - sizeof r->head;
    if (left > 0 && r->position >= sizeof r->head && from < r->bytes) {
        const size_t some = r->bytes - from < left ? (size_t)(r->bytes - from) : left;
        errno = 0;
        const size_t got = read_at(r->fd, r->at + from, out, some);
        if (got < some && errno)
            r->trouble = errno;
        r->position += got;
        left -= got;
    }
    return r->trouble ? -1 : n - (tmsize_t)left;
}

static tmsize_t strip_write(thandle_t handle, void *from, tmsize_t n)
{
    (void)handle, (void)from, (void)n;
    return -1;
}

static toff_t strip_size(thandle_t handle)
{
    return sizeof((struct strip *)handle)->head + ((struct strip *)handle)->bytes;
}

static toff_t strip_seek(thandle_t handle, toff_t to, int whence)
{
    struct strip *r = handle;
    r->position = to + (whence == SEEK_CUR   ? r->position
                        : whence == SEEK_END ? strip_size(handle)
                                             : 0);
    return r->position;
}

static int strip_end(thandle_t handle)
{
    (void)handle;
    return 0;
}

/* --- the directory --- */

static uint8_t *put(uint8_t *p, uint64_t value, int bytes)
{
    for (int k = 0; k < bytes; k++)
        *p++ = (uint8_t)(value >> 8 * k);
    return p;
}

static uint8_t *put_tag(uint8_t *p, uint32_t tag, uint64_t count, uint64_t value)
{
    const int type =
        tag == TIFFTAG_STRIPOFFSETS || tag == TIFFTAG_STRIPBYTECOUNTS ? TIFF_LONG8
        : tag == TIFFTAG_IMAGEWIDTH || tag == TIFFTAG_IMAGELENGTH || tag == TIFFTAG_ROWSPERSTRIP
            ? TIFF_LONG
            : TIFF_SHORT;
    return put(put(put(put(p, tag, 2), (uint64_t)type, 2), count, 8), value, 8);
}

static void make_head(struct strip *s, const struct tile_format *f, int64_t rows, int fill_order)
{
    const uint64_t samples = (uint64_t)f->samples, length = (uint64_t)rows;
    const uint64_t photometric = samples < 3 ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB;
    uint8_t *p = s->head;
    memcpy(p, "II+\0\x08\0\0\0", 8);
    p = put(put(p + 8, HEAD, 8), TAGS, 8);
    p = put_tag(p, TIFFTAG_IMAGEWIDTH, 1, (uint64_t)f->cols);
    p = put_tag(p, TIFFTAG_IMAGELENGTH, 1, length);
    p = put_tag(p, TIFFTAG_BITSPERSAMPLE, 1, 8); /* of each */
    p = put_tag(p, TIFFTAG_COMPRESSION, 1, (uint64_t)f->compression);
    p = put_tag(p, TIFFTAG_PHOTOMETRIC, 1, photometric);
    p = put_tag(p, TIFFTAG_FILLORDER, 1, (uint64_t)fill_order);
    p = put_tag(p, TIFFTAG_STRIPOFFSETS, 1, sizeof s->head);
    p = put_tag(p, TIFFTAG_SAMPLESPERPIXEL, 1, samples);
    p = put_tag(p, TIFFTAG_ROWSPERSTRIP, 1, length);
    p = put_tag(p, TIFFTAG_STRIPBYTECOUNTS, 1, s->bytes);
    p = put_tag(p, TIFFTAG_PLANARCONFIG, 1, PLANARCONFIG_CONTIG);
    p = put_tag(p, TIFFTAG_PREDICTOR, 1, (uint64_t)f->predictor);
    put(p, 0, 8);
}

int strip_open(struct strip *s, const struct tile_format *f, int64_t rows, int fill_order, int fd,
               uint64_t at, uint64_t bytes)
{
    *s = (struct strip){.fd = fd, .at = at, .bytes = bytes};
    make_head(s, f, rows, fill_order);
    s->tiff = TIFFClientOpen("a strip", "rm", s, strip_read, strip_write, strip_seek, strip_end,
                             strip_size, NULL, NULL);
    return s->tiff ? 0 : -1;
}

void strip_close(struct strip *s)
{
    if (s->tiff)
        TIFFClose(s->tiff);
    s->tiff = NULL;
}
