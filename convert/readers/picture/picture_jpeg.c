/* picture_jpeg.c - JPEG files as pictures; see picture.h. */
#include "convert/readers/picture/picture.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/codec/jpeg_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct jpeg_file {
    struct jpeg_rows *rows;
    uint8_t *line; /* [cols][3] */
};

static void close_jpeg(void *ctx)
{
    struct jpeg_file *j = ctx;
    jpeg_rows_close(j->rows);
    free(j->line);
    free(j);
}

int picture_from_jpeg(int r)
{
    return r == 0                                          ? 0
           : r == JPEG_ROWS_OTHER                          ? PICTURE_OTHER
           : r == JPEG_NO_MEMORY || r == JPEG_ROWS_TROUBLE ? -1
                                                           : PICTURE_DAMAGED;
}

int picture_put_jpeg(struct picture *p, const struct picture_segment *s, struct jpeg_rows *rows,
                     uint8_t *line, struct err *e)
{
    int bad = 0;
    for (int64_t y = 0; y < s->rows && !bad; y++) {
        bad = picture_from_jpeg(jpeg_rows_next(rows, line, e));
        bad = bad ? bad : picture_put(p, line, e);
    }
    bad = bad ? bad : picture_from_jpeg(jpeg_rows_end(rows, line, e));
    if (bad == PICTURE_DAMAGED && !jpeg_rows_are_cut(rows))
        picture_keep(p, 0); /* the first wrong row is not known */
    return bad;
}

static int decode(void *ctx, const struct picture_segment *s, struct picture *p, struct err *e)
{
    const struct jpeg_file *j = ctx;
    return picture_put_jpeg(p, s, j->rows, j->line, e);
}

/* --- the ICC profile: up to 255 pieces in markers APP2, each with its number and how many --- */

enum { APP2 = 0xe2, SOS = 0xda, PIECE_HEAD = 14, MOST_PIECES = 255, MOST_MARKERS = 100000 };

struct pieces {
    struct {
        uint64_t at;
        size_t bytes;
    } list[MOST_PIECES + 1]; /* by number, from 1; at 0: missing */
    int n;                   /* number of pieces that the file states */
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

/* False: the file cannot be read, or a marker is missing. */
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

/* 0, also without a profile that is whole, or -1. */
static int take_icc(const struct slide_file *file, struct picture_form *f, struct err *e)
{
    struct pieces p = {.n = 0};
    errno = 0;
    const bool found = find_pieces(file, &p);
    if (!found && errno)
        return err_sys(e, "cannot read");
    const size_t all = found ? bytes_of(&p) : 0;
    if (all == 0)
        return 0;
    if (!(f->icc = memory_try(all, 1, e)))
        return -1;
    for (int k = 1; k <= p.n; k++)
        f->icc_bytes += read_at(file->fd, p.list[k].at, f->icc + f->icc_bytes, p.list[k].bytes);
    return f->icc_bytes == all ? 0 : err_sys(e, "cannot read");
}

/* --- opening --- */

static const char *conflict_of(const struct jpeg_rows_picture *s)
{
    return s->is_subsampled ? "the JPEG states RGB, but has subsampled chroma; read as YCbCr"
           : s->is_other    ? "the JPEG states RGB as well as YCbCr; read as YCbCr"
                            : NULL;
}

int picture_open_jpeg(struct picture_form *f, const struct slide_file *file, struct err *e)
{
    const struct jpeg_rows_input in = {.fd = file->fd,
                                       .bytes = file->bytes,
                                       .colours = JPEG_FILE,
                                       .most_bytes = PICTURE_MOST_BYTES};
    struct jpeg_rows_picture s = {0};
    struct jpeg_file *j = memory_need(1, sizeof *j);
    int bad = picture_from_jpeg(jpeg_rows_open(&j->rows, &in, &s, e));
    *f = picture_form_of(s.cols, s.rows, s.channels);
    if (!bad && (!(j->line = memory_try((size_t)s.cols, 3, e)) || take_icc(file, f, e)))
        bad = -1;
    f->mpp_x = s.um_x;
    f->mpp_y = s.um_y;
    f->conflict = conflict_of(&s);
    f->decode = decode;
    f->close = close_jpeg;
    f->ctx = j;
    return bad;
}
