/* jpeg_picture.c - a JPEG file as rows; see rows.h. */
#include "common/codec/jpeg_rows.h"
#include "convert/readers/rows.h"

#include <stdlib.h>

struct jpeg_picture_rows {
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

static int next(struct rows *r, uint8_t *out, struct err *e)
{
    return result_of(jpeg_rows_next(((struct jpeg_picture_rows *)r)->jpeg, out, e));
}

static void close_rows(struct rows *r)
{
    jpeg_rows_close(((struct jpeg_picture_rows *)r)->jpeg);
    free(r);
}

int jpeg_picture_open(struct rows **out, const struct slide_file *file, struct rows_picture *p,
                      struct err *e)
{
    static const struct rows_kind kind = {next, close_rows};
    const struct jpeg_rows_input in = {.fd = file->fd,
                                       .bytes = slide_file_bytes(file),
                                       .colours = JPEG_FILE,
                                       .most_bytes = ROWS_MOST_BYTES};
    struct jpeg_picture_rows *r = malloc(sizeof *r);
    *out = NULL;
    if (!r)
        return err_set(e, "out of memory");
    r->rows.kind = &kind;
    const int bad = result_of(jpeg_rows_open(&r->jpeg, &in, &p->cols, &p->rows, &p->channels, e));
    if (bad) {
        free(r);
        return bad;
    }
    *out = &r->rows;
    return 0;
}
