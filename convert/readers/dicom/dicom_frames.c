/* dicom_frames.c - see dicom_frames.h. */
#include "convert/readers/dicom/dicom_frames.h"

#include "common/base/memory.h"
#include "common/codec/jpeg_stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEAD = 8,             /* bytes of an item's tag and length */
    TAIL = 16,            /* bytes of a frame that are searched for its end */
    MOST_TILES = 1 << 25, /* of TILED_SPARSE, where the frames do not bound them */
    TABLE_BYTES = 8192,   /* read at once */
};

static const uint64_t MOST_OFFSET = (uint64_t)1 << 62;

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
    uint8_t piece[TABLE_BYTES];
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

/* A frame ends where the next one begins. False: the offsets contradict themselves. */
static bool take_offsets(struct frames *f, const uint64_t *offsets)
{
    if (offsets[0] != 0)
        return false;
    for (int64_t k = 1; k < f->n; k++) {
        if (offsets[k] < offsets[k - 1] + HEAD || offsets[k] > MOST_OFFSET)
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

static bool from_basic_table(struct frames *f, uint64_t at, uint64_t *room)
{
    return read_table(f, at, 4, f->n, room) && take_offsets(f, room);
}

/* Is this the length of a frame of one fragment? Without an odd frame's padding, or, as wsidicom
 * writes, with it and the item's head. Nothing is known of a frame behind the end of the file. */
static bool is_length(const struct frames *f, const struct tile_place *p, uint64_t length)
{
    return p->offset >= f->file.bytes || length == p->bytes ||
           (length <= p->bytes && HEAD + length + (length & 1) == p->bytes);
}

/* Extended table: offsets and lengths of 64 bits. */
static bool from_extended_table(struct frames *f, uint64_t *room)
{
    const struct dicom_place *o = &f->i->extended_offsets, *l = &f->i->extended_lengths;
    const uint64_t n = 8 * (uint64_t)f->n;
    if (o->bytes != n || l->bytes != n || !read_table(f, o->at, 8, f->n, room) ||
        !take_offsets(f, room) || !read_table(f, l->at, 8, f->n, room))
        return false;
    for (int64_t k = 0; k < f->n; k++)
        if (!is_length(f, &f->places[k], room[k]))
            return false;
    return true;
}

/* --- frames without a table --- */

/* Does a JPEG or JPEG 2000 stream begin in an item? The latter can be a whole JP2 file. */
static bool begins_stream(struct frames *f, uint64_t item)
{
    static const uint8_t jpeg[] = {0xff, MARKER_SOI}, j2k[] = {0xff, 0x4f, 0xff, 0x51},
                         jp2[] = {0, 0, 0, 12, 'j', 'P', ' ', ' '};
    uint8_t mark[sizeof jp2];
    if (!dicom_instance_is_j2k(f->i))
        return dicom_file_bytes(&f->file, item + HEAD, mark, sizeof jpeg) &&
               !memcmp(mark, jpeg, sizeof jpeg);
    return dicom_file_bytes(&f->file, item + HEAD, mark, sizeof mark) &&
           (!memcmp(mark, j2k, sizeof j2k) || !memcmp(mark, jp2, sizeof jp2));
}

/* Does the stream end in the item that ends at this offset? Both kinds end with one marker, and
 * padding may follow. */
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

/* Frames that are not compressed follow each other. */
static int from_native(struct frames *f)
{
    const uint64_t bytes = (uint64_t)(f->i->samples * f->i->cols * f->i->rows);
    for (int64_t k = 0; k < f->n; k++)
        f->places[k] = (struct tile_place){f->i->pixels.at + (uint64_t)k * bytes, bytes};
    return 1;
}

static int find_frames(struct frames *f, uint64_t *room, struct err *problem, struct err *e)
{
    uint32_t tag, length;
    const uint64_t table = f->i->pixels.at + HEAD;
    if (dicom_instance_is_native(f->i))
        return from_native(f);
    if (!item_at(f, f->i->pixels.at, &tag, &length) || tag != DICOM_ITEM)
        return err_set(e, "damaged: its table of frames is missing; copy the file again");
    f->first = table + length;
    const bool extended = f->i->extended_offsets.bytes > 0;
    if (f->first > f->file.bytes)
        return err_set(e, "damaged: its table of frames is cut off; copy the file again");
    if (extended && length == 0 && from_extended_table(f, room))
        return 1;
    if (!extended && length == 4 * (uint64_t)f->n && from_basic_table(f, table, room))
        return 1;
    if (extended || length > 0)
        err_set(problem, "its table of the frames' offsets is damaged");
    return from_items(f, e);
}

/* --- where the tiles lie --- */

#define POSITION DICOM_TAG(0x0048, 0x021a)
#define POSITION_COLUMN DICOM_TAG(0x0048, 0x021e)
#define POSITION_ROW DICOM_TAG(0x0048, 0x021f)
#define SHARED DICOM_TAG(0x5200, 0x9229)
#define PER_FRAME DICOM_TAG(0x5200, 0x9230)
#define Z_OFFSET DICOM_TAG(0x0040, 0x074a)

struct tiles {
    int64_t cols, rows;
    struct tile_place *places; /* [rows][cols] */
    int64_t outside;           /* frames that are not in their file */
    bool contradicts;          /* TILED_FULL, but a frame states another place */
};

/* Where the frames of a part say that they lie: PlanePositionSlideSequence, one per frame. */
struct positions {
    const struct dicom_instance *i;
    int64_t (*at)[2];   /* [i->frames]: column and row of its first pixel, from 1; NULL: none */
    int64_t stated;     /* frames that state both */
    char z[DICOM_WORD]; /* of the frames, "" when not known yet */
    bool several_planes;
};

static const int64_t ABSENT = INT64_MIN; /* a column or a row that is not stated */

static bool is_full(const struct dicom_instance *i)
{
    return !strcmp(i->organization, "TILED_FULL");
}

/* Do the positions place the frames? */
static bool is_by_position(const struct positions *p)
{
    return !strcmp(p->i->organization, "TILED_SPARSE") || (!is_full(p->i) && p->stated > 0);
}

static void take_z(struct positions *p, struct dicom_file *f, const struct dicom_element *e)
{
    char z[DICOM_WORD];
    if (!dicom_file_text(f, e, z, sizeof z))
        return;
    p->several_planes = p->several_planes || (p->z[0] && strtod(z, NULL) != strtod(p->z, NULL));
    memcpy(p->z, z, sizeof z);
}

/* The position of a single frame may be among what all frames share. */
static enum dicom_step take_position(void *ctx, struct dicom_file *f, const struct dicom_element *e,
                                     const struct dicom_path *path)
{
    struct positions *p = ctx;
    uint8_t number[4];
    if (e->tag == DICOM_PIXELS)
        return DICOM_STOP;
    if (path->depth == 0)
        return e->tag == PER_FRAME || (e->tag == SHARED && p->i->frames == 1) ? DICOM_ENTER
                                                                              : DICOM_SKIP;
    if (path->depth == 1)
        return e->tag == POSITION ? DICOM_ENTER : DICOM_SKIP;
    if (e->tag == Z_OFFSET)
        take_z(p, f, e);
    const bool is_column = e->tag == POSITION_COLUMN, is_row = e->tag == POSITION_ROW;
    const int64_t frame = path->items[0];
    if ((!is_column && !is_row) || frame >= p->i->frames || e->length != 4 ||
        !dicom_file_bytes(f, e->at, number, sizeof number))
        return DICOM_SKIP;
    p->at[frame][is_row] = (int32_t)dicom_u32(number);
    p->stated += is_row && p->at[frame][0] != ABSENT; /* the column comes first */
    return DICOM_SKIP;
}

/* Reads what the frames of a part state. What those of TILED_FULL state is not needed. */
static int read_positions(const struct dicom_part *part, struct positions *p, struct err *e)
{
    struct dicom_file file;
    const size_t n = (size_t)part->instance.frames;
    *p = (struct positions){.i = &part->instance};
    if (n > 1 && part->instance.frame_positions.bytes == 0)
        return 0;
    if (!(p->at = memory_try(n, sizeof *p->at, e)))
        return -1;
    for (size_t k = 0; k < n; k++)
        p->at[k][0] = p->at[k][1] = ABSENT;
    const bool good =
        dicom_file_open(&file, part->file) && dicom_file_walk(&file, take_position, p);
    errno = file.code;
    if (file.code)
        return err_sys(e, "cannot read the positions of its frames");
    if (is_full(p->i))
        return 0;
    if (!good)
        return err_set(e, "damaged: the positions of its frames cannot be read; copy the file "
                          "again");
    if (p->several_planes)
        return err_set(e, "its frames lie in several focal planes; export the plane that is to be "
                          "converted as a series of its own");
    return 0;
}

/*
 * Puts the frames of a part into their tiles: where they say that they lie, unless the organization
 * is TILED_FULL or none of them says so; then in rows, one after the other. Tiles without a frame
 * are missing.
 */
static int place_frames(const struct frames *f, const struct positions *p, struct tiles *t,
                        struct err *e)
{
    const struct dicom_instance *i = f->i;
    const int64_t first = i->concatenation[0] ? i->first_frame : 0;
    for (int64_t k = 0; k < f->n; k++) {
        const int64_t x = p->at ? p->at[k][0] : ABSENT, y = p->at ? p->at[k][1] : ABSENT;
        int64_t tile = first + k;
        if (!is_by_position(p)) {
            if (tile < 0 || tile >= t->cols * t->rows)
                return err_set(e, "damaged: its frames are more than the picture's tiles; copy the "
                                  "file again");
            t->contradicts |= x != ABSENT && x != tile % t->cols * i->cols + 1;
            t->contradicts |= y != ABSENT && y != tile / t->cols * i->rows + 1;
        } else {
            if (x == ABSENT || y == ABSENT)
                return err_set(e,
                               "frame %" PRId64 " of %" PRId64
                               " does not state where it lies; export the slide again",
                               k + 1, f->n);
            if (x < 1 || y < 1 || x > i->width || y > i->height)
                return err_set(e,
                               "frame %" PRId64 " states column %" PRId64 ", row %" PRId64
                               ", outside the picture of %" PRId64 " x %" PRId64
                               " px; export the slide again",
                               k + 1, x, y, i->width, i->height);
            if ((x - 1) % i->cols || (y - 1) % i->rows)
                return err_set(e,
                               "frame %" PRId64 " states column %" PRId64 ", row %" PRId64
                               ", where no tile of %" PRId64 " x %" PRId64
                               " px begins; export the slide with its tiles on a grid",
                               k + 1, x, y, i->cols, i->rows);
            tile = (y - 1) / i->rows * t->cols + (x - 1) / i->cols;
            if (t->places[tile].offset > 0)
                return err_set(e,
                               "frame %" PRId64 " states column %" PRId64 ", row %" PRId64
                               ", where another frame lies; export the slide again",
                               k + 1, x, y);
        }
        t->places[tile] = f->places[k];
    }
    return 1;
}

/* Makes places that no file holds, and empty frames, recognisable, and names the file of the rest.
 */
static void settle_frames(struct frames *f, int part, struct tiles *t)
{
    for (int64_t k = 0; k < f->n; k++) {
        struct tile_place *p = &f->places[k];
        const bool outside = p->offset > f->file.bytes || p->bytes > f->file.bytes - p->offset;
        if (p->bytes == HEAD)
            p->bytes = 0;
        else if (outside)
            *p = (struct tile_place){f->file.bytes, HEAD + 1};
        t->outside += p->bytes > 0 && outside;
        p->offset |= (uint64_t)part << TILE_FILE_BITS;
    }
}

/* Where the frames of an open part lie. As dicom_frames_read. */
static int read_frames(struct frames *f, struct err *problem, struct err *e)
{
    if (f->n < 1 || (uint64_t)f->n > f->file.bytes / HEAD || f->file.bytes >> TILE_FILE_BITS)
        return err_set(e, "damaged: it states %" PRId64 " frames; copy the file again", f->n);
    uint64_t *room = memory_try_zero((size_t)f->n, sizeof *room, e);
    f->places = memory_try((size_t)f->n, sizeof *f->places, e);
    const int r = room && f->places ? find_frames(f, room, problem, e) : -1;
    free(room);
    if (f->file.code) {
        errno = f->file.code;
        return err_sys(e, "cannot read its table of frames");
    }
    return r;
}

static int read_part(const struct dicom_part *p, int number, const struct positions *stated,
                     struct tiles *t, struct err *problem, struct err *e)
{
    const struct dicom_instance *i = &p->instance;
    struct frames f = {.i = i, .n = i->frames};
    const bool good = dicom_file_open(&f.file, p->file);
    errno = f.file.code;
    int r = good ? read_frames(&f, problem, e) : err_sys(e, "cannot read its header");
    if (r > 0)
        settle_frames(&f, number, t);
    if (r > 0)
        r = place_frames(&f, stated, t, e);
    const int code = errno;
    free(f.places);
    errno = code;
    return r;
}

/* --- the parts of a level --- */

static int lack_part(const struct dicom_instance *i, int64_t from, int64_t to, struct err *e)
{
    return err_set(e,
                   "the file with frames %" PRId64 " to %" PRId64 " of its level of %" PRId64
                   " x %" PRId64 " px is missing; copy it to the same folder",
                   from + 1, to, i->width, i->height);
}

/* Are the numbers of frames such that the files can hold them? */
static int check_counts(const struct dicom_part *parts, int n, struct err *e)
{
    for (int k = 0; k < n; k++) {
        const struct dicom_instance *p = &parts[k].instance;
        if (p->frames < 1 || (uint64_t)p->frames > p->bytes / HEAD)
            return err_set(e, "damaged: it states %" PRId64 " frames; copy the file again",
                           p->frames);
    }
    return 1;
}

/* Do the frames of the parts follow each other, from the first to the last? */
static int check_parts(const struct dicom_part *parts, int n, const struct positions *stated,
                       const struct tiles *t, struct err *e)
{
    const struct dicom_instance *i = &parts[0].instance;
    const bool by_position = is_by_position(&stated[0]);
    int64_t frames = 0;
    for (int k = 0; k < n; frames += parts[k++].instance.frames) {
        const struct dicom_instance *p = &parts[k].instance;
        if (is_by_position(&stated[k]) != by_position)
            return err_set(e,
                           "damaged: of the files of its level of %" PRId64 " x %" PRId64
                           " px some state where their frames lie, others do not; copy the files "
                           "again",
                           i->width, i->height);
        if (p->concatenation[0] && p->first_frame > frames)
            return lack_part(i, frames, p->first_frame, e);
        if (p->concatenation[0] && p->first_frame < frames)
            return err_set(e,
                           "damaged: two files of its level of %" PRId64 " x %" PRId64
                           " px have frame %" PRId64 "; copy the files again",
                           i->width, i->height, p->first_frame + 1);
    }
    if (i->concatenation[0] && i->parts > n)
        return err_set(e,
                       "its level of %" PRId64 " x %" PRId64 " px has %" PRId64
                       " files, of which only %d are in the folder; copy all of them there",
                       i->width, i->height, i->parts, n);
    if (by_position || (t->rows <= frames / t->cols && t->rows * t->cols == frames))
        return 1;
    if (i->concatenation[0] && t->rows > frames / t->cols)
        return lack_part(i, frames, t->rows * t->cols, e);
    return err_set(e,
                   "damaged: it has %" PRId64 " frames, but a picture of this size has %" PRId64
                   " x %" PRId64 " tiles; copy the file again",
                   frames, t->cols, t->rows);
}

/* A small file that states many tiles is no slide: a TIFF lists its tiles with 8 bytes each. */
static int make_places(const struct dicom_part *parts, int n, struct tiles *t, struct err *e)
{
    uint64_t bytes = 0;
    for (int k = 0; k < n; k++)
        bytes += parts[k].instance.bytes;
    const int64_t listed = (int64_t)(bytes / HEAD);
    if (t->rows > (listed < MOST_TILES ? listed : MOST_TILES) / t->cols)
        return err_set(e,
                       "damaged: %" PRId64 " x %" PRId64 " tiles are more than a file of %" PRIu64
                       " bytes can hold; copy the file again",
                       t->cols, t->rows, bytes);
    t->places = memory_try_zero((size_t)(t->cols * t->rows), sizeof *t->places, e);
    return t->places ? 1 : -1;
}

int dicom_frames_read(const struct dicom_part *parts, int n, struct tile_place **places, int *bad,
                      struct dicom_frames_said *said, struct err *e)
{
    const struct dicom_instance *i = &parts[0].instance;
    struct tiles t = {.cols = dicom_frames_cols(i), .rows = dicom_frames_rows(i)};
    struct positions *stated = memory_need((size_t)n, sizeof *stated);
    *bad = n == 1 ? 0 : -1;
    int r = check_counts(parts, n, e);
    for (int k = 0; k < n && r > 0; k++)
        if (read_positions(&parts[k], &stated[k], e))
            r = -1, *bad = k;
    if (r > 0)
        r = check_parts(parts, n, stated, &t, e);
    if (r > 0)
        r = make_places(parts, n, &t, e);
    for (int k = 0; k < n && r > 0; k++)
        if ((r = read_part(&parts[k], k, &stated[k], &t, &said->problem, e)) <= 0)
            *bad = k;
    if (r > 0 && t.contradicts)
        err_set(&said->note,
                "TILED_FULL, but its frames state other places; read in rows, as TILED_FULL says; "
                "check the picture");
    if (r > 0 && 2 * t.outside > t.cols * t.rows) /* a file that lacks so much is rejected */
        r = err_set(e,
                    "damaged: %" PRId64 " of %" PRId64
                    " tiles lie beyond the end of the file; copy the file again",
                    t.outside, t.cols * t.rows);
    const int code = errno;
    for (int k = 0; k < n; k++)
        free(stated[k].at);
    free(stated);
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
