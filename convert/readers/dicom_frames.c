/* dicom_frames.c - see dicom_frames.h. */
#include "convert/readers/dicom_frames.h"

#include "common/codec/jpeg_marker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEAD = 8,             /* bytes of an item's tag and length */
    TAIL = 16,            /* bytes of a frame that are searched for its end */
    MOST_TILES = 1 << 25, /* of TILED_SPARSE, where the frames do not bound them */
    TABLE_ENTRIES = 8192, /* read at once */
};

struct frames {
    const struct dicom_instance *i;
    struct dicom_file file;
    int64_t n;
    struct tile_place *places; /* [n] */
    uint64_t first;            /* offset of the first fragment's item */
};

int64_t dicom_frames_cols(const struct dicom_instance *i)
{
    return (i->width + i->cols - 1) / i->cols;
}

int64_t dicom_frames_rows(const struct dicom_instance *i)
{
    return (i->height + i->rows - 1) / i->rows;
}

/* --- where the frames lie --- */

/* Reads an item's head. False: there is none at this offset. */
static bool item_at(struct frames *f, uint64_t at, uint32_t *tag, uint32_t *length)
{
    uint8_t head[HEAD];
    if (!dicom_file_bytes(&f->file, at, head, sizeof head))
        return false;
    *tag = DICOM_TAG(dicom_u16(head), dicom_u16(head + 2));
    *length = dicom_u32(head + 4);
    return true;
}

/* Frames from `from` on are lost: no place in the file. */
static void lose(struct frames *f, int64_t from)
{
    for (int64_t k = from; k < f->n; k++)
        f->places[k] = (struct tile_place){f->file.bytes, HEAD + 1};
}

/* Where the items end that begin at `at`: at the delimiter, or where the file ends. */
static uint64_t end_of_items(struct frames *f, uint64_t at)
{
    uint32_t tag, length;
    while (item_at(f, at, &tag, &length) && tag == DICOM_ITEM)
        at += HEAD + (uint64_t)length;
    return at;
}

/* Entries of a table of 32- or 64-bit numbers, in pieces. False: they are not in the file. */
static bool read_table(struct frames *f, uint64_t at, size_t width, int64_t n, uint64_t *out)
{
    uint8_t piece[TABLE_ENTRIES];
    const int64_t most = (int64_t)(sizeof piece / width);
    for (int64_t k = 0; k < n; k += most) {
        const int64_t some = n - k < most ? n - k : most;
        if (!dicom_file_bytes(&f->file, at + (uint64_t)k * width, piece, (size_t)some * width))
            return false;
        for (int64_t j = 0; j < some; j++)
            out[k + j] = width == 4 ? dicom_u32(piece + 4 * j) : dicom_u64(piece + 8 * j);
    }
    return true;
}

/* Can there be a fragment at this offset? Behind the end of a file that is cut off anything can. */
static bool may_be_fragment(struct frames *f, uint64_t at)
{
    uint32_t tag, length;
    return at >= f->file.bytes || (item_at(f, at, &tag, &length) && tag == DICOM_ITEM);
}

/* Basic table: a frame ends where the next one begins. False: the offsets contradict themselves. */
static bool from_basic_table(struct frames *f, const uint64_t *offsets)
{
    if (offsets[0] != 0)
        return false;
    for (int64_t k = 1; k < f->n; k++) {
        if (offsets[k] < offsets[k - 1] + HEAD)
            return false;
        f->places[k - 1] =
            (struct tile_place){f->first + offsets[k - 1], offsets[k] - offsets[k - 1]};
    }
    const uint64_t last = f->first + offsets[f->n - 1];
    if (!may_be_fragment(f, last))
        return false;
    const uint64_t end = end_of_items(f, last);
    f->places[f->n - 1] = (struct tile_place){last, end > last ? end - last : HEAD + 1};
    return true;
}

/* Extended table: offsets of 64 bits, and lengths without an odd frame's padding. Each frame is one
 * fragment, so that it begins where the one before ends. */
static bool from_extended_table(struct frames *f, uint64_t *room)
{
    const struct dicom_place *o = &f->i->extended_offsets, *l = &f->i->extended_lengths;
    const uint64_t n = 8 * (uint64_t)f->n;
    uint64_t at = f->first;
    if (o->bytes != n || l->bytes != n || !read_table(f, l->at, 8, f->n, room))
        return false;
    for (int64_t k = 0; k < f->n; k++) {
        if (room[k] > f->file.bytes)
            return false;
        f->places[k] = (struct tile_place){at, HEAD + room[k] + (room[k] & 1)};
        at += f->places[k].bytes;
    }
    if (!read_table(f, o->at, 8, f->n, room))
        return false;
    for (int64_t k = 0; k < f->n; k++)
        if (room[k] != f->places[k].offset - f->first)
            return false;
    return may_be_fragment(f, f->places[f->n - 1].offset);
}

/* --- frames without a table --- */

/* Does a JPEG or JPEG 2000 stream begin in an item? */
static bool begins_stream(struct frames *f, uint64_t item)
{
    static const uint8_t jpeg[] = {0xff, MARKER_SOI}, j2k[] = {0xff, 0x4f, 0xff, 0x51};
    const bool is_j2k = dicom_instance_is_j2k(f->i);
    const size_t n = is_j2k ? sizeof j2k : sizeof jpeg;
    uint8_t mark[sizeof j2k];
    return dicom_file_bytes(&f->file, item + HEAD, mark, n) &&
           !memcmp(mark, is_j2k ? j2k : jpeg, n);
}

/* Both kinds end with one marker. Does the stream end in the item that ends at this offset? Padding may follow. */
static bool ends_stream(struct frames *f, uint64_t end)
{
    uint8_t tail[TAIL];
    if (!dicom_file_bytes(&f->file, end - TAIL, tail, TAIL))
        return false;
    for (int k = 0; k + 1 < TAIL; k++)
        if (tail[k] == 0xff && tail[k + 1] == MARKER_EOI)
            return true;
    return false;
}

/* Does an item go on with the frame of the items before it? An empty item is an empty frame. */
static bool goes_on(struct frames *f, const struct tile_place *before, uint64_t item,
                    uint32_t length)
{
    return length > 0 && before->bytes > HEAD && !begins_stream(f, item) && !ends_stream(f, item);
}

/* Without a table the streams show where frames begin. What follows the last item decides
 * whether frames at the end are lost, or some in between. */
static int from_items(struct frames *f, struct err *e)
{
    uint64_t at = f->first;
    uint32_t tag = 0, length;
    int64_t k = 0;
    for (; item_at(f, at, &tag, &length) && tag == DICOM_ITEM && length != DICOM_UNDEFINED;
         at += HEAD + (uint64_t)length) {
        if (k > 0 && goes_on(f, &f->places[k - 1], at, length))
            f->places[k - 1].bytes += HEAD + (uint64_t)length;
        else if (k < f->n)
            f->places[k++] = (struct tile_place){at, HEAD + (uint64_t)length};
        else
            return err_set(e,
                           "damaged: it has more frames than the %" PRId64
                           " that it states; copy the file again",
                           f->n);
    }
    if (k < f->n && tag == DICOM_SEQUENCE_END)
        return err_set(e,
                       "damaged: it has %" PRId64 " frames, but states %" PRId64
                       ", and which are missing is unknown; copy the file again",
                       k, f->n);
    lose(f, k);
    return 1;
}

static int find_frames(struct frames *f, uint64_t *room, struct err *problem, struct err *e)
{
    uint32_t tag, length;
    const uint64_t table = f->i->pixels.at + HEAD;
    if (!item_at(f, f->i->pixels.at, &tag, &length) || tag != DICOM_ITEM)
        return err_set(e, "damaged: its table of frames is missing; copy the file again");
    f->first = table + length;
    const bool extended = f->i->extended_offsets.bytes > 0;
    if (f->first > f->file.bytes)
        return err_set(e, "damaged: its table of frames is cut off; copy the file again");
    if (extended && length == 0 && from_extended_table(f, room))
        return 1;
    if (!extended && length == 4 * (uint64_t)f->n && read_table(f, table, 4, f->n, room) &&
        from_basic_table(f, room))
        return 1;
    if (extended || length > 0)
        err_set(problem, "its table of the frames' offsets is damaged");
    return from_items(f, e);
}

/* --- where the tiles lie --- */

#define POSITION DICOM_TAG(0x0048, 0x021a)
#define POSITION_COLUMN DICOM_TAG(0x0048, 0x021e)
#define POSITION_ROW DICOM_TAG(0x0048, 0x021f)
#define PER_FRAME DICOM_TAG(0x5200, 0x9230)

struct tiles {
    const struct frames *frames;
    int64_t cols, rows;
    struct tile_place *places; /* [rows][cols] */
    int64_t next;              /* frame whose position is read */
    int64_t x, y;              /* of it, from 1; 0 when not known yet */
    bool bad;
};

/* Puts the frame whose position has been read into its place. */
static void place_frame(struct tiles *t)
{
    const struct dicom_instance *i = t->frames->i;
    const int64_t col = (t->x - 1) / i->cols, row = (t->y - 1) / i->rows;
    t->bad = t->x < 1 || t->y < 1 || (t->x - 1) % i->cols || (t->y - 1) % i->rows ||
             col >= t->cols || row >= t->rows || t->places[row * t->cols + col].bytes;
    if (!t->bad)
        t->places[row * t->cols + col] = t->frames->places[t->next];
    t->next++;
    t->x = t->y = 0;
}

static enum dicom_step take_position(void *ctx, struct dicom_file *f, const struct dicom_element *e,
                                     const struct dicom_path *p)
{
    struct tiles *t = ctx;
    uint8_t number[4];
    if (t->bad || e->tag == DICOM_PIXELS)
        return DICOM_STOP;
    if (p->depth < 2)
        return e->tag == (p->depth ? POSITION : PER_FRAME) ? DICOM_ENTER : DICOM_SKIP;
    if (p->depth != 2 || p->items[0] != t->next || e->length != 4 ||
        !dicom_file_bytes(f, e->at, number, sizeof number))
        return DICOM_SKIP;
    if (e->tag == POSITION_COLUMN)
        t->x = (int32_t)dicom_u32(number);
    if (e->tag == POSITION_ROW)
        t->y = (int32_t)dicom_u32(number);
    if (e->tag == POSITION_ROW && t->next < t->frames->n)
        place_frame(t);
    return DICOM_SKIP;
}

/* TILED_SPARSE. */
static int place_frames(struct frames *f, struct tiles *t, const char *path, struct err *e)
{
    struct dicom_file file;
    /* a TIFF lists its tiles with 8 bytes each */
    const int64_t listed = (int64_t)(f->file.bytes / HEAD);
    if (t->rows > (listed < MOST_TILES ? listed : MOST_TILES) / t->cols)
        return err_set(e,
                       "damaged: %" PRId64 " x %" PRId64 " tiles are more than a file of %" PRIu64
                       " bytes can hold; copy the file again",
                       t->cols, t->rows, f->file.bytes);
    t->places = calloc((size_t)(t->cols * t->rows), sizeof *t->places);
    if (!t->places)
        return err_set(e, "out of memory");
    const bool good = dicom_file_open(&file, path) && dicom_file_walk(&file, take_position, t);
    const int code = file.fd < 0 ? errno : file.code;
    dicom_file_close(&file);
    errno = code;
    if (code)
        return err_sys(e, "cannot read the positions of its frames");
    if (good && !t->bad && t->next == f->n)
        return 1;
    err_set(e, "the positions of its frames are missing, or are not those of a grid of tiles");
    return 0;
}

static bool is_sparse(const struct dicom_instance *i)
{
    return !strcmp(i->organization, "TILED_SPARSE") ||
           (!i->organization[0] && i->frame_positions.bytes > 0);
}

static int read_places(struct frames *f, struct tiles *t, const char *path, struct err *problem,
                       struct err *e)
{
    const struct dicom_instance *i = f->i;
    const bool sparse = is_sparse(i);
    if (!sparse && (t->rows > i->frames / t->cols || t->rows * t->cols != i->frames))
        return err_set(e,
                       "damaged: it has %" PRId64 " frames, but a picture of this size has %" PRId64
                       " x %" PRId64 " tiles; copy the file again",
                       i->frames, t->cols, t->rows);
    uint64_t *room = calloc((size_t)f->n, sizeof *room);
    f->places = malloc((size_t)f->n * sizeof *f->places);
    int r = room && f->places ? find_frames(f, room, problem, e) : err_set(e, "out of memory");
    free(room);
    if (f->file.code) {
        errno = f->file.code;
        return err_sys(e, "cannot read its table of frames");
    }
    if (r > 0 && sparse)
        return place_frames(f, t, path, e);
    t->places = f->places;
    f->places = NULL;
    return r;
}

/* A file that lacks more than half of its frames is rejected. Empty frames are missing tiles. */
static int check_places(const struct frames *f, struct tile_place *p, int64_t n, struct err *e)
{
    int64_t outside = 0;
    for (int64_t k = 0; k < n; k++) {
        p[k].bytes = p[k].bytes == HEAD ? 0 : p[k].bytes;
        outside += p[k].bytes > 0 &&
                   (p[k].offset > f->file.bytes || p[k].bytes > f->file.bytes - p[k].offset);
    }
    if (2 * outside <= n)
        return 1;
    return err_set(e,
                   "damaged: %" PRId64 " of %" PRId64
                   " tiles lie beyond the end of the file; copy the file again",
                   outside, n);
}

int dicom_frames_read(const struct dicom_instance *i, const char *path, struct tile_place **places,
                      struct err *problem, struct err *e)
{
    struct frames f = {.i = i, .n = i->frames};
    struct tiles t = {.frames = &f, .cols = dicom_frames_cols(i), .rows = dicom_frames_rows(i)};
    int r = -1;
    if (!dicom_file_open(&f.file, path))
        err_sys(e, "cannot open");
    else if (f.n < 1 || (uint64_t)f.n > f.file.bytes / HEAD)
        err_set(e, "damaged: it states %" PRId64 " frames; copy the file again", f.n);
    else
        r = read_places(&f, &t, path, problem, e);
    if (r > 0)
        r = check_places(&f, t.places, t.cols * t.rows, e);
    const int code = errno;
    dicom_file_close(&f.file);
    free(f.places);
    *places = r > 0 ? t.places : NULL;
    if (r <= 0)
        free(t.places);
    errno = code;
    return r;
}

/* --- fragments --- */

bool dicom_frames_join(uint8_t *bytes, size_t *n)
{
    size_t from = 0, to = 0;
    while (*n - from >= HEAD) {
        const uint32_t tag = DICOM_TAG(dicom_u16(bytes + from), dicom_u16(bytes + from + 2));
        const size_t length = dicom_u32(bytes + from + 4);
        from += HEAD;
        if (tag != DICOM_ITEM || length > *n - from)
            return false;
        memmove(bytes + to, bytes + from, length);
        from += length;
        to += length;
    }
    const bool good = from == *n && to > 0;
    if (to > 2 && bytes[to - 1] == 0 && bytes[to - 2] == MARKER_EOI && bytes[to - 3] == 0xff)
        to--;
    *n = to;
    return good;
}
