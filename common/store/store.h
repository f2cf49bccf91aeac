/*
 * store.h - the patch store: one level of one slide as one HDF5 file.
 *
 *   /groups/NNNNN/pixels        the pixels in chunks: u8 [rows][width][channels]
 *   /groups/NNNNN/tile_status   u8 [chunk rows][chunk columns]: enum store_status
 *   /groups/NNNNN/tile_offset   u64, the same shape: where the stored bytes lie in the file
 *   /groups/NNNNN/tile_bytes    u32: how many there are; 0: nothing is stored
 *   /groups/NNNNN/tile_crc32    u32: their CRC-32
 *   /pixels                     a virtual dataset over all groups, for people
 *   /sources/NNNNN              a file that the store was made from: attributes only
 *   /tissue/mask, /properties, /associated/thumbnail, /icc_profile
 *
 * common/FORMAT.md specifies the format. A group is a whole number of stripes of full slide width,
 * a stripe is a whole number of chunk rows. Chunks lie in the file in row-major order.
 *
 * This file: what is known of a store, for those who write one (store_write.h) and those who read
 * one (store_read.h). Functions here compute; any thread.
 */
#ifndef WSI_STORE_H
#define WSI_STORE_H

#include "common/base/err.h"
#include "common/base/field.h"
#include "common/base/glass_numbers.h"
#include "common/codec/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STORE_FORMAT "wsi-patch-store"
enum { STORE_VERSION = 1 }; /* the only format_version */

enum store_status {
    STORE_WHOLE = 0,
    STORE_MISSING = 1,  /* missing in the slide, filled with the background colour */
    STORE_DAMAGED = 2,  /* damaged in the slide, filled with the background colour */
    STORE_LEFT_OUT = 3, /* background left out: nothing stored, reads as 255 */
};

#define STORE_BOUNDS_X "openslide.bounds-x"
#define STORE_BOUNDS_Y "openslide.bounds-y"
#define STORE_MOST_BOUNDS 1000000000

struct store_info {
    char source_name[512];  /* base name of the slide's file */
    int64_t source_bytes;   /* its size */
    char quickhash[80];     /* OpenSlide's quickhash-1, "" if there is none */
    char vendor[64];        /* OpenSlide's name of the format */
    char reader[32];        /* the reader that decoded it */
    int64_t level;          /* the slide's level that is stored, from 0 */
    double downsample;      /* level-0 pixels per stored pixel */
    int64_t width, height;  /* of the stored level, px */
    int64_t channels;       /* 3 RGB, 1 gray */
    double mpp_x, mpp_y;    /* um per LEVEL-0 pixel, NaN if unknown (attribute absent) */
    double objective_power; /* NaN if unknown (attribute absent) */
    /* Corner of what was scanned, level-0 px: openslide.bounds-x, -y of /properties; 0 without. */
    int64_t bounds_x, bounds_y;
    int64_t chunk_rows, chunk_cols;
    int64_t stripe_rows;      /* a multiple of chunk_rows */
    int64_t group_rows;       /* a multiple of stripe_rows; the last group may have fewer */
    int64_t group_count;      /* ceil(height / group_rows) */
    char interpolated[128];   /* why pixels are not those of the level everywhere; "": they are */
    char source_problem[256]; /* what is wrong besides the level's tiles; "": nothing */
    int64_t source_tag;       /* 16 bits of the slide's folder: distinguishes slides of one name */
    bool identifiers;         /* identifying properties were kept */
    bool tissue_only;         /* chunks without tissue were left out */
    int64_t tiles_missing, tiles_damaged, tiles_left_out; /* over all groups */
    int64_t content_crc32; /* store_content_crc32(), of a store that is complete */
    const struct codec *codec;
    char library[64];         /* that read the tiles, such as "OpenSlide 3.4.1"; "": our own */
    char tissue_rule[96];     /* how the tissue map was made; "": there is none */
    char tissue_missing[96];  /* why there is no tissue map; "": there is one, or none was wanted */
    char background[8];       /* "bright", or "dark" as in fluorescence; "": unknown (absent) */
    char tissue_doubt[96];    /* what the map shows that makes it doubtful; "": nothing */
    char colour_conflict[96]; /* what tiles and file state about the colours; "": the same */
    /* Of the file's own tiles: "JPEG", "JPEG 2000", "deflate" ..., "no tiles"; "": not known (absent)
     */
    char tile_compression[24];
    int64_t jpeg_quality;        /* of the slide's tiles, 1 to 100; 0: unknown (attribute absent) */
    char jpeg_subsampling[8];    /* "4:2:0" ...; "": unknown (attribute absent) */
    double jpeg_twice;           /* 0 to 1; NaN: unknown (attribute absent); only with a quality */
    double glass[GLASS_NUMBERS]; /* base/glass_numbers.h; NaN: unknown (attribute absent) */
    char codec_reason[160];      /* why not the codec that the user chose; "": it is that one */
};

/* The attributes of the root: one row each, from which writing, reading and JSON follow. The codec
 * has none, which lies between the first two sets. To add one, add a member and a row. */
enum {
    STORE_HEAD = 1,  /* known before the codec */
    STORE_REST = 2,  /* known when the store is begun */
    STORE_TILES = 4, /* known at its end; the others, when the slide has been looked at */
    STORE_JPEG = 8,
    STORE_COLOURS = 16,
    STORE_NO_TISSUE = 32,
    STORE_DOUBT = 64,
    STORE_GLASS = 128,
    STORE_BACKGROUND = 512,
    STORE_NUMBERS = 256 /* results depend on it: store_content_crc32() */
};
extern const struct field store_fields[];

/* A file that the store was made from. Any difference makes the store out of date. */
struct store_source {
    char name[256];       /* base name; of anonymous slides "1", "2" ... */
    int64_t bytes;        /* its size */
    int64_t mtime_ns;     /* modification time, ns since 1970 */
    uint32_t index_crc32; /* of what the reader uses as its index: sources.h */
};
enum { STORE_MOST_SOURCES = 1 << 16 };

/* From this jpeg_twice on a slide was most likely compressed twice: in three pictures of tissue it
 * was 0.03 at most for one compression, and 0.33 or more for quality 30 to 70, then 80. */
#define STORE_TWICE 0.2

enum { STORE_CELL = 32 }; /* px of a cell of the tissue map */

struct store_tissue {
    int64_t cols, rows; /* ceil(width / 32), ceil(height / 32) */
    uint8_t *mask;      /* [rows][cols], 1 = tissue */
    int64_t glass;      /* rule `saturation`: gray level of glass; 0: another rule */
    double dark;        /* the same: tissue is below this gray level */
    double fraction;
};

/* Is a tissue map with this share of tissue probably wrong? It is if it shows no glass or almost no
 * tissue; then `why` gets what it shows: "no glass", "no tissue" or "only 0.3 % tissue". A map that
 * misses most of the tissue cannot be known to do so. */
bool store_doubts_tissue(double fraction, char *why, size_t size);
/* The options that help. */
#define STORE_TISSUE_REMEDY "--tissue-thresholds 0,0.05 or --tissue-mask"

/* CRC-32 of what results depend on besides attributes; 0: there is none. `tiles` begins with 0 and
 * takes one tile after the other, row by row over the whole slide. */
struct store_content {
    uint32_t tissue;    /* of the cells of the mask */
    uint32_t thumbnail; /* its crc32 or stored_crc32 */
    uint32_t tiles;     /* of their status and crc32 */
};
void store_content_add(struct store_content *c, enum store_status status, uint32_t crc32);
/* The attribute content_crc32: one number for all that results depend on. Two stores of one slide
 * that have the same give the same result. */
uint32_t store_content_crc32(const struct store_info *i, const struct store_content *c);

/* Rows of px, rows of chunks, chunks per row, bytes of pixels per chunk. Groups count from 0 here;
 * their names count from 1. */
int64_t store_group_height(const struct store_info *i, int64_t group);
int64_t store_group_chunk_rows(const struct store_info *i, int64_t group);
int64_t store_chunk_columns(const struct store_info *i);
int64_t store_chunk_bytes(const struct store_info *i);
/* What the store's chunks are packed with, and what they unpack to. */
struct codec_params store_codec_params(const struct store_info *i);
/* Are the stored bytes of a chunk its pixels? So they are without a codec, and where packing made
 * a chunk no smaller. Kept JPEG 2000 tiles are replaced by pixels where the slide has none. */
bool store_is_raw(const struct store_info *i, uint64_t bytes, enum store_status status);
/* Checks that the numbers agree and that no product of them can overflow. */
int store_check_info(const struct store_info *i, struct err *e);

/* Prepares HDF5, and changes the environment for it: call it before threads are started. */
void store_init(void);

#ifdef __cplusplus
}
#endif
#endif
