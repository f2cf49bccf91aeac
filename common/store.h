/*
 * store.h - the patch store: one slide (one level of it) as one HDF5 file.
 *
 *   /                     attributes: struct store_info below; `format` "wsi-patch-store",
 *                         `format_version` 1, `creator`, and `complete` (uint8 1), written last
 *   /groups/00001 ...     a group: a whole number of stripes of full slide width; the last one is
 *                         cut at the slide's edge. Attributes first_row, rows, stripes
 *     pixels              uint8 [rows][width][channels] in chunks [chunk_rows][chunk_cols][channels],
 *                         which lie in the file in row-major order; fill value 255. Chunks at the
 *                         right and lower edge are stored whole, 255 beyond the slide
 *     tile_status         uint8  [chunk rows][chunk columns]: enum store_status
 *     tile_crc32          uint32 [chunk rows][chunk columns]: CRC-32 of the chunk's stored bytes;
 *                         0 where nothing is stored
 *   /pixels               virtual dataset [height][width][channels] over all groups, for people
 *   /tissue/mask          uint8 [ceil(height / 32)][ceil(width / 32)], 1 = tissue; attributes cell,
 *                         otsu_h, otsu_s, tissue_fraction. Absent when it was not asked for
 *   /properties           the slide's properties as attributes
 *   /associated/thumbnail uint8 [h][w][3]
 *   /icc_profile          uint8 [n]
 *
 * codec deflate: HDF5 filter 1, so each chunk is a zlib stream; a chunk that would not get smaller is
 * stored as it is with the filter masked out, which is the only way a chunk can have exactly
 * chunk_rows * chunk_cols * channels stored bytes.
 *
 * The writer makes a temporary file and publishes it when it is whole (publish.h). The reader trusts
 * nothing: every number is checked against the others and the file's size before it is used.
 *
 * No two calls into this module may run at once, but for store_read (any thread).
 */
#ifndef WSI_STORE_H
#define WSI_STORE_H

#include "common/codec.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_FORMAT "wsi-patch-store"
enum { STORE_VERSION = 1 }; /* the newest format_version that is written and read */

enum store_status {
    STORE_WHOLE = 0,
    STORE_MISSING = 1,  /* missing in the slide, filled with the background colour */
    STORE_DAMAGED = 2,  /* damaged in the slide, filled with the background colour */
    STORE_LEFT_OUT = 3, /* background left out: nothing stored, reads as 255 */
};

struct store_info {
    char source_name[512];    /* base name of the slide's file */
    int64_t source_bytes;     /* its size */
    char quickhash[80];       /* OpenSlide's quickhash-1, "" when there is none */
    char vendor[64];          /* OpenSlide's name of the format */
    char reader[32];          /* the reader that decoded it */
    int64_t level;            /* the slide's level that is stored, from 0 */
    double downsample;        /* level-0 pixels per stored pixel */
    int64_t width, height;    /* of the stored level, px */
    int64_t channels;         /* 3 RGB, 1 gray */
    double mpp_x, mpp_y;      /* um per LEVEL-0 pixel, NaN when unknown (attribute absent) */
    double objective_power;   /* NaN when unknown (attribute absent) */
    int64_t chunk_rows, chunk_cols;
    int64_t stripe_rows;      /* a multiple of chunk_rows */
    int64_t group_rows;       /* a multiple of stripe_rows, but for the last group */
    int64_t group_count;      /* ceil(height / group_rows) */
    char source_problem[256]; /* what was wrong with the file beside its tiles; "" for nothing */
    int64_t source_tag;       /* 16 bits made of the slide's folder, to tell namesakes apart */
    bool identifiers;         /* identifying properties were kept */
    bool tissue_only;         /* chunks without tissue were left out */
    int64_t tiles_missing, tiles_damaged, tiles_left_out; /* over all groups */
    const struct codec *codec;
};

enum { STORE_CELL = 32 }; /* px of a cell of the tissue map */

struct store_tissue {
    int64_t cols, rows; /* ceil(width / 32), ceil(height / 32) */
    uint8_t *mask;      /* [rows][cols], 1 = tissue */
    double otsu_h, otsu_s, fraction;
};

/* Groups are counted from 0 here; their names count from 1. All in px or chunks. */
int64_t store_group_height(const struct store_info *i, int64_t group);
int64_t store_group_chunk_rows(const struct store_info *i, int64_t group);
int64_t store_chunk_columns(const struct store_info *i);
int64_t store_chunk_bytes(const struct store_info *i);
/* What the store's chunks are packed with, and what they unpack to. */
struct codec_params store_codec_params(const struct store_info *i);
/* Checks that the numbers fit together and nothing can overflow; -1 says what is wrong. */
int store_check_info(const struct store_info *i, struct err *e);

/* --- writing --- */

struct store_writer;

/* Begins the store that will stand at `path`. info->tiles_* are ignored: the writer counts. NULL on
 * failure. */
struct store_writer *store_create(const char *path, const struct store_info *info, struct err *e);
int store_put_property(struct store_writer *w, const char *key, const char *value, struct err *e);
int store_put_thumbnail(struct store_writer *w, const uint8_t *rgb, int64_t width, int64_t height,
                        struct err *e);
int store_put_icc(struct store_writer *w, const void *profile, size_t bytes, struct err *e);
/* Where the tissue is; see struct store_tissue. */
int store_put_tissue(struct store_writer *w, const struct store_tissue *t, struct err *e);
/* The next chunk in row-major order over the whole slide: n stored bytes (n equal to
 * store_chunk_bytes: stored as it is). STORE_LEFT_OUT has no bytes. */
int store_put_chunk(struct store_writer *w, const void *bytes, size_t n, uint32_t crc32,
                    enum store_status status, struct err *e);
/* What the store holds so far, with its counts of tiles. Valid until store_commit or store_abort. */
const struct store_info *store_written(const struct store_writer *w);
/* Finishes, publishes and frees. On failure the final name is untouched, with the one exception that
 * publish_commit() has. *bytes gets the file's size. */
int store_commit(struct store_writer *w, int64_t *bytes, struct err *e);
/* Drops everything. NULL is fine. */
void store_abort(struct store_writer *w);

/* --- reading --- */

struct store;

struct store_chunk {
    uint64_t offset; /* in the file */
    uint32_t bytes;  /* stored; 0: nothing is stored */
    uint32_t crc32;  /* of the stored bytes */
    uint8_t status;  /* enum store_status */
    bool raw;        /* the stored bytes are the pixels: not packed (HDF5: filter masked out) */
};

/* Opens a finished store. The message of a failure names the file. NULL on failure. */
struct store *store_open(const char *path, struct err *e);
const struct store_info *store_info(const struct store *s);
const char *store_path(const struct store *s);
/* What a store holds besides its pixels. */
struct store_extras {
    int64_t version;        /* format_version */
    char creator[64];       /* "wsi2h5 0.2.0" */
    int64_t stored_bytes;   /* of all chunks, as stored */
    bool thumbnail, icc_profile;
};
int store_read_extras(const struct store *s, struct store_extras *x, struct err *e);
/* Lists the chunks of a group: out[chunk rows of the group][chunk columns]. */
int store_map_group(struct store *s, int64_t group, struct store_chunk *out, struct err *e);
/* Reads the tissue map; t->mask is to be free()d. 1, or 0 when the store has none. */
int store_read_tissue(struct store *s, struct store_tissue *t, struct err *e);
/* Reads everything that is neither pixels nor the tables of a group, and checks it: tissue map, properties,
 * thumbnail, ICC profile. (Opening a store checks its attributes, store_map_group() the tables.) */
int store_check(struct store *s, struct err *e);
/* Reads n bytes at an offset; any thread. */
int store_read(const struct store *s, uint64_t offset, void *out, size_t n, struct err *e);
enum { STORE_PAGE = 4096 };
/* Is the page with this byte in the page cache? 1, 0, or -1 if the kernel does not say. (mincore() is
 * only the second choice: since Linux 5.2 it calls every page of a file resident that the process
 * neither owns nor may write.) Any thread. */
int store_page_is_cached(const struct store *s, uint64_t offset);
/* Is most of the file known to be in the page cache? */
bool store_is_cached(const struct store *s);
/* From here on reads go past the page cache (O_DIRECT). -1 where the file system cannot. */
int store_read_directly(struct store *s, struct err *e);
bool store_reads_directly(const struct store *s);
/* As store_read(), in whole pages where reads are direct: `area` begins on a STORE_PAGE and has room for
 * n + 2 STORE_PAGE bytes; *out is where in it the bytes are. */
int store_read_pages(const struct store *s, uint64_t offset, unsigned char *area, size_t n,
                     const unsigned char **out, struct err *e);
/* Asks the kernel to read ahead, unless reads are direct; never fails. */
void store_prefetch(const struct store *s, uint64_t offset, uint64_t n);
void store_close(struct store *s);

/* Does the file say that it is a store? It may be unfinished or damaged. */
bool store_is(const char *path);

/* What is at `path`, where a store is about to be made? */
enum store_found {
    STORE_NONE,       /* nothing */
    STORE_IS_STORE,   /* a complete store; *info is filled in */
    STORE_UNFINISHED, /* a store that is truncated, damaged or without its mark */
    STORE_UNKNOWN,    /* a store that cannot be judged: of a newer version, or rewritten by another tool */
    STORE_OTHER_FILE, /* anything else, not ours to replace */
    STORE_ERROR,      /* it cannot be read now (descriptors, memory, permissions, the disk): try again */
};
/* `e` says why for STORE_UNKNOWN and STORE_ERROR. */
enum store_found store_look(const char *path, struct store_info *info, struct err *e);

#endif
