/* space.c - see space.h. */
#include "convert/space.h"

#include "common/base/number.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* A lower bound of the store's size. Deflate needs about four times the bytes of a JPEG slide, and
 * seldom more than 0.45 of the pixels'. The estimate is careful, so that nothing is rejected
 * wrongly. */
static double least_bytes(const struct store_info *i, const struct tissue *only)
{
    const int64_t columns = store_chunk_columns(i);
    const int64_t rows = (i->height + i->chunk_rows - 1) / i->chunk_rows;
    int64_t stored = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t col = 0; col < columns; col++)
            stored += !only || tissue_any(only, col * i->chunk_cols, row * i->chunk_rows,
                                          i->chunk_cols, i->chunk_rows);
    const double pixels = (double)stored * (double)store_chunk_bytes(i);
    const double packed = 4.0 * (double)i->source_bytes * (double)stored / (double)(columns * rows);
    if (i->codec->id == CODEC_NONE)
        return pixels;
    if (codec_keeps(i->codec)) /* the slide has other levels and pictures, too */
        return i->level == 0 ? packed / 8 : 0;
    /* lz4 and zstd come within a tenth of deflate */
    return 0.5 *
           (packed < 0.45 * pixels && i->level == 0 ? packed : 0.45 * pixels / (i->level ? 2 : 1));
}

int space_check(const struct store_info *i, const struct tissue *only, const char *target,
                struct err *e)
{
    struct statvfs fs;
    char need[32], there[32];
    const char *slash = strrchr(target, '/');
    char *folder = slash ? strndup(target, (size_t)(slash - target) + 1) : strdup("./");
    const bool known = folder && statvfs(folder, &fs) == 0;
    free(folder);
    if (!known)
        return 0; /* creating the file will report the error */
    const double least = least_bytes(i, only), space = (double)fs.f_bavail * (double)fs.f_frsize;
    if (space >= least)
        return 0;
    return err_set(
        e,
        "too little disk space left: at least %s are needed, %s are free; free some, or name "
        "another output",
        number_size(need, least), number_size(there, space));
}
