/* mkslide_tiff.c - TIFF files and their directories; see mkslide.h. */
#include "tests/mkslide.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

void out_bytes(struct tiff_out *o, const void *data, size_t n)
{
    if (n && fwrite(data, 1, n, o->file) != n)
        die(1, "%s: cannot write: %s", o->path, strerror(errno));
    o->pos += n;
}

static void out_number(struct tiff_out *o, uint64_t v, uint32_t size)
{
    uint8_t b[8];
    for (uint32_t i = 0; i < size; i++)
        b[i] = (uint8_t)(v >> 8 * (o->big_endian ? size - 1 - i : i));
    out_bytes(o, b, size);
}

static void out_align(struct tiff_out *o)
{
    while (o->pos & (o->big ? 7 : 1))
        out_bytes(o, "", 1);
}

/*
 * OpenSlide 3.4.1 reads the first link of a classic file as 8 bytes, because of NDPI, and drops the
 * upper half; so it opens a big-endian file only if the link's copy stands in bytes 8 to 11.
 */
static bool out_twice(const struct tiff_out *o)
{
    return o->link_at == 4 && o->big_endian && !o->big;
}

void out_open(struct tiff_out *o)
{
    o->file = fopen(o->path, "wb");
    if (!o->file)
        die(1, "%s: %s", o->path, strerror(errno));
    out_bytes(o, o->big_endian ? "MM" : "II", 2);
    out_number(o, o->big ? 43 : 42, 2);
    if (o->big) {
        out_number(o, 8, 2);
        out_number(o, 0, 2);
    }
    o->link_at = o->pos;
    out_number(o, 0, o->big ? 8 : 4);
    if (out_twice(o))
        out_number(o, 0, 8);
}

void out_close(struct tiff_out *o)
{
    int failed = ferror(o->file);
    if (fclose(o->file) || failed)
        die(1, "%s: cannot write: %s", o->path, strerror(errno));
}

struct tag *dir_add(struct dir *d, uint32_t tag, uint16_t type, uint64_t count)
{
    struct tag *t = &d->tags[d->n++];
    *t = (struct tag){.tag = (uint16_t)tag, .type = type, .count = count};
    return t;
}

void dir_short(struct dir *d, uint32_t tag, uint64_t count, uint64_t a, uint64_t b, uint64_t c)
{
    struct tag *t = dir_add(d, tag, TIFF_SHORT, count);
    t->small[0] = a, t->small[1] = b, t->small[2] = c;
}

void dir_long(struct dir *d, uint32_t tag, uint64_t v)
{
    dir_add(d, tag, TIFF_LONG, 1)->small[0] = v;
}

void dir_bytes(struct dir *d, uint32_t tag, uint16_t type, const void *data, size_t n)
{
    dir_add(d, tag, type, n)->bytes = data;
}

void dir_text(struct dir *d, uint32_t tag, const char *text)
{
    dir_bytes(d, tag, TIFF_ASCII, text, strlen(text) + 1);
}

static int tag_compare(const void *a, const void *b)
{
    return (int)((const struct tag *)a)->tag - (int)((const struct tag *)b)->tag;
}

static uint32_t tag_size(const struct tag *t)
{
    return t->type == TIFF_SHORT ? 2 : t->type == TIFF_LONG ? 4 : t->type == TIFF_LONG8 ? 8 : 1;
}

static void tag_write(struct tiff_out *o, const struct tag *t)
{
    if (t->bytes)
        out_bytes(o, t->bytes, t->count);
    for (uint64_t i = 0; !t->bytes && i < t->count; i++)
        out_number(o, t->numbers ? t->numbers[i] : t->small[i], tag_size(t));
}

/* Values that do not fit go first, then the directory, then the link to it. */
void dir_write(struct tiff_out *o, struct dir *d)
{
    uint32_t word = o->big ? 8 : 4;
    uint64_t at[32], dir_at, next_at;
    qsort(d->tags, (size_t)d->n, sizeof d->tags[0], tag_compare);
    for (int i = 0; i < d->n; i++) {
        out_align(o);
        at[i] = o->pos;
        if (d->tags[i].count * tag_size(&d->tags[i]) > word)
            tag_write(o, &d->tags[i]);
    }
    out_align(o);
    dir_at = o->pos;
    out_number(o, (uint64_t)d->n, o->big ? 8 : 2);
    for (int i = 0; i < d->n; i++) {
        const struct tag *t = &d->tags[i];
        out_number(o, t->tag, 2);
        out_number(o, t->type, 2);
        out_number(o, t->count, word);
        uint64_t end = o->pos + word;
        if (t->count * tag_size(t) > word)
            out_number(o, at[i], word);
        else
            tag_write(o, t);
        while (o->pos < end)
            out_bytes(o, "", 1);
    }
    next_at = o->pos;
    out_number(o, 0, word);
    if (!o->big && o->pos > UINT32_MAX)
        die(1, "%s: larger than 4 GB, use --bigtiff", o->path);
    if (fseeko(o->file, (off_t)o->link_at, SEEK_SET))
        die(1, "%s: cannot seek: %s", o->path, strerror(errno));
    out_number(o, dir_at, word);
    if (out_twice(o))
        out_number(o, dir_at, word);
    if (fseeko(o->file, 0, SEEK_END))
        die(1, "%s: cannot seek: %s", o->path, strerror(errno));
    o->pos = next_at + word;
    o->link_at = next_at;
}

uint64_t dir_write_sub(struct tiff_out *o, struct dir *d)
{
    const uint64_t link_at = o->link_at, n = (uint64_t)d->n;
    dir_write(o, d);
    const uint64_t at = o->link_at - n * (o->big ? 20 : 12) - (o->big ? 8 : 2);
    o->link_at = link_at; /* the next directory's offset replaces this one's */
    return at;
}

/* What every directory has. */
void dir_image(struct dir *d, uint32_t subtype, uint32_t w, uint32_t h, uint16_t compression,
               uint16_t photometric, uint16_t planar)
{
    dir_long(d, TIFFTAG_SUBFILETYPE, subtype);
    dir_long(d, TIFFTAG_IMAGEWIDTH, w);
    dir_long(d, TIFFTAG_IMAGELENGTH, h);
    const uint16_t samples = photometric == PHOTOMETRIC_MINISBLACK ? 1 : 3;
    dir_short(d, TIFFTAG_BITSPERSAMPLE, samples, 8, 8, 8);
    dir_short(d, TIFFTAG_COMPRESSION, 1, compression, 0, 0);
    dir_short(d, TIFFTAG_PHOTOMETRIC, 1, photometric, 0, 0);
    dir_short(d, TIFFTAG_SAMPLESPERPIXEL, 1, samples, 0, 0);
    dir_short(d, TIFFTAG_PLANARCONFIG, 1, planar, 0, 0);
    dir_long(d, TIFFTAG_IMAGEDEPTH, 1);
}

void dir_places(struct dir *d, const struct tiff_out *o, bool tiled, uint64_t n,
                const uint64_t *offsets, const uint64_t *counts)
{
    uint16_t type = o->big ? TIFF_LONG8 : TIFF_LONG;
    struct tag *t = dir_add(d, tiled ? TIFFTAG_TILEOFFSETS : TIFFTAG_STRIPOFFSETS, type, n);
    t->numbers = offsets;
    t = dir_add(d, tiled ? TIFFTAG_TILEBYTECOUNTS : TIFFTAG_STRIPBYTECOUNTS, TIFF_LONG, n);
    t->numbers = counts;
}
