/*
 * convert_tile.h - a slide that is being converted, and its tiles, each to one chunk of the store.
 */
#ifndef WSI_CONVERT_TILE_H
#define WSI_CONVERT_TILE_H

#include "common/codec/jpeg_stream.h"
#include "common/store/store_write.h"
#include "convert/convert_options.h"
#include "convert/privacy/identifiers.h"
#include "convert/readers/slide.h"
#include "convert/readers/sources.h"
#include "convert/tile/scan_traits.h"
#include "convert/tissue/tissue.h"

enum {
    SAMPLE_TILES = 64,  /* of all, which show its glass */
    TISSUE_SAMPLE = 32, /* at most, with tissue, which show how it was compressed */
};

/* The source of the tissue map. */
enum tissue_origin {
    TISSUE_OVERVIEW, /* as few pixels as possible (overview.h), before the tiles */
    TISSUE_TILES,    /* the tiles that are converted */
};

/* One tile between source and sink. */
struct tile_task {
    int64_t col, row;
    enum store_status status;
    const uint8_t *stored; /* the chunk: in `pixels`, `packed` or `chunk`, or c->flat */
    size_t bytes;          /* of it */
    uint32_t crc32;
    uint8_t *pixels, *packed; /* both store_chunk_bytes; codec jpeg: pixels at 1/8 */
    uint8_t *rgb;             /* the tile in colour, for gray with TISSUE_TILES; else NULL */
    struct jpeg_chunk chunk;
    char other[80];              /* why the tile cannot be a chunk of kept tiles; "": it can */
    struct tissue_sums sums;     /* for TISSUE_TILES */
    struct jpeg_history history; /* of this tile, if it is in the sample */
    struct glass glass;          /* the same */
};

struct convert {
    const char *path;
    struct slide_file *file; /* the slide, opened once */
    const struct convert_options *o;
    struct slide *slide;
    struct slide_info slide_info;
    struct store_info info;
    struct store_writer *writer;
    struct slide_extras extras;
    struct sources sources;
    struct tissue tissue;
    uint8_t *mask; /* the tissue map from outside, or NULL */
    enum tissue_origin tissue_origin;
    int64_t columns, rows, next, done; /* tiles */
    int64_t cells, cells_before;       /* of tissue, in all tiles; in those before `next` */
    struct codec_work **codecs;        /* [threads] */
    struct jpeg_decoder **decoders;    /* [threads], for `history`; NULL: the tiles are not JPEG */
    struct glass glass;                /* of a sample of all tiles */
    struct jpeg_history sampled[SAMPLE_TILES]; /* of each of the same */
    struct jpeg_history history;               /* of a sample of the tissue */
    struct jpeg_chunk flat;                    /* kept tiles: a chunk of the background's colour */
    char other[sizeof((struct store_info *)0)->codec_reason]; /* why codec jpeg has failed */
    struct tile_task *items;                                  /* [depth] */
    int depth;
    void (*progress)(void *ctx, double fraction, double pixels);
    void *progress_ctx;
};

/* Puts all tiles into the store, in order. Sets c->other if a tile cannot be kept. */
int convert_tiles(struct convert *c, struct err *e);
/* Fills in c->history, when the tissue map is known: the tiles are JPEG. */
int convert_history(struct convert *c, struct err *e);

#endif
