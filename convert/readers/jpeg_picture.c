/* jpeg_picture.c - a JPEG file as rows; see rows.h. */
#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/codec/jpeg_rows.h"
#include "convert/readers/rows.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct stream_rows {
    struct rows rows;
    struct jpeg_rows *jpeg;
};

static int result_of(int r)
{
    return r == 0                                          ? 0
           : r == JPEG_ROWS_OTHER                          ? ROWS_OTHER
           : r == JPEG_NO_MEMORY || r == JPEG_ROWS_TROUBLE ? -1
                                                           : ROWS_DAMAGED;
}

static int stream_next(struct rows *r, uint8_t *out, struct err *e)
{
    return result_of(jpeg_rows_next(((struct stream_rows *)r)->jpeg, out, e));
}

static void stream_close(struct rows *r)
{
    jpeg_rows_close(((struct stream_rows *)r)->jpeg);
    free(r);
}

int jpeg_stream_open(struct rows **out, const struct jpeg_rows_input *in, struct rows_picture *p,
                     struct err *e)
{
    static const struct rows_kind kind = {stream_next, stream_close};
    struct stream_rows *r = memory_need(1, sizeof *r);
    r->rows.kind = &kind;
    const int bad = result_of(jpeg_rows_open(&r->jpeg, in, &p->cols, &p->rows, &p->channels, e));
    *out = bad ? NULL : &r->rows;
    if (bad) {
        const int code = errno;
        free(r);
        errno = code;
    }
    return bad;
}

int jpeg_picture_open(struct rows **out, const struct slide_file *file, struct rows_picture *p,
                      struct err *e)
{
    const struct jpeg_rows_input in = {
        .fd = file->fd, .bytes = file->bytes, .colours = JPEG_FILE, .most_bytes = ROWS_MOST_BYTES};
    return jpeg_stream_open(out, &in, p, e);
}

/* --- the ICC profile: up to 255 pieces in markers APP2, each with its number and how many --- */

enum { APP2 = 0xe2, SOS = 0xda, PIECE_HEAD = 14, MOST_PIECES = 255, MOST_MARKERS = 100000 };

struct pieces {
    struct {
        uint64_t at;
        size_t bytes;
    } list[MOST_PIECES + 1]; /* by number, from 1; at 0: it is not there */
    int n;                   /* how many there are to be */
};

static void take_piece(struct pieces *p, const uint8_t head[4 + PIECE_HEAD], uint64_t at, size_t n)
{
    const int number = head[4 + 12], all = head[4 + 13];
    if (n < PIECE_HEAD || memcmp(head + 4, "ICC_PROFILE", 12) != 0 || number < 1)
        return;
    p->list[number].at = at + PIECE_HEAD;
    p->list[number].bytes = n - PIECE_HEAD;
    p->n = all;
}

/* False: the file cannot be read, or has no markers where they have to be. */
static bool find_pieces(const struct slide_file *f, struct pieces *p)
{
    uint8_t head[4 + PIECE_HEAD];
    uint64_t at = 2;
    for (int k = 0; k < MOST_MARKERS; k++) {
        memset(head, 0, sizeof head);
        if (read_at(f->fd, at, head, sizeof head) < 4 || head[0] != 0xff)
            return false;
        const size_t n = (size_t)head[2] << 8 | head[3]; /* with these two bytes */
        if (head[1] == SOS || n < 2)
            return n >= 2;
        if (head[1] == APP2)
            take_piece(p, head, at + 4, n - 2);
        at += 2 + n;
    }
    return true;
}

static size_t bytes_of(const struct pieces *p)
{
    size_t all = 0;
    for (int k = 1; k <= p->n; k++) {
        if (!p->list[k].at)
            return 0;
        all += p->list[k].bytes;
    }
    return all;
}

int jpeg_picture_icc(const struct slide_file *file, uint8_t **icc, size_t *bytes, struct err *e)
{
    struct pieces p = {.n = 0};
    errno = 0;
    const bool found = find_pieces(file, &p);
    if (!found && errno)
        return err_sys(e, "cannot read");
    const size_t all = found ? bytes_of(&p) : 0;
    if (all == 0)
        return 0;
    if (!(*icc = memory_try(all, 1, e)))
        return -1;
    *bytes = 0;
    for (int k = 1; k <= p.n; k++)
        *bytes += read_at(file->fd, p.list[k].at, *icc + *bytes, p.list[k].bytes);
    return *bytes == all ? 1 : err_sys(e, "cannot read");
}
