/*
 * jpeg_past.h - how a slide's JPEG tiles were compressed: quality, subsampling, and whether they
 * had been compressed before.
 *
 * quality      The IJG quality (ITU-T T.81, table K.1, scaled as libjpeg does) whose luma table is
 *              nearest to that of the tile, by the sum of absolute differences. Of several tiles
 *              the lowest.
 * subsampling  "4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1" or "gray"; "other" for other factors, or
 *              if the tiles differ.
 * twice        0 to 1. A JPEG that was decoded and compressed again less strongly, on the same grid
 *              of blocks, has gaps at regular distances among its quantised coefficients.
 *              Let n_k be the number of luma blocks in which coefficient z is k or -k, k = 1..64,
 *              and S(f) = sum n_k cos(2 pi f k) / sum n_k for f = 0, 1/256 .. 1/2. S falls for
 *              coefficients that were quantised once, and rises towards f = (second quantiser) /
 *              (first one) for others. The score is the mean over z = 1..9 of the largest rise,
 *              among those z with at least 500 blocks; at most 1. (T. Pevny and J. Fridrich,
 *              Detection of double-compression in JPEG images, IEEE Trans. Inf. Forensics Secur.
 *              3, 247, 2008, describes such histograms.) An earlier compression leaves
 *              no trace if it was finer than the last one or used another grid of blocks.
 *
 * One thread at a time.
 */
#ifndef WSI_JPEG_PAST_H
#define WSI_JPEG_PAST_H

#include "common/base/err.h"
#include "common/codec/jpeg_decoder.h"
#include "common/codec/jpeg_stream.h"

#include <stdint.h>

/* What tiles show. Starts as {0}. */
struct jpeg_past {
    int64_t tiles;
    int quality; /* 1 to 100 */
    char subsampling[8];
    struct jpeg_counts counts;
};

/* Adds a whole tile, and describes its blocks. 0, JPEG_NO_MEMORY, or JPEG_DAMAGED: it is left out.
 */
int jpeg_past_add(struct jpeg_past *p, struct jpeg_decoder *d, const struct jpeg_chunk *tile,
                  struct jpeg_blocks *blocks, struct err *e);
/* Adds what another thread has found; the order does not matter. */
void jpeg_past_join(struct jpeg_past *p, const struct jpeg_past *other);
/* 0 to 1; NaN if the tiles show too little. */
double jpeg_past_twice(const struct jpeg_past *p);

#endif
