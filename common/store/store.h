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
 * The writer makes a temporary file and publishes it when it is complete (publish.h). The reader
 * trusts nothing: every number is checked against the others and the file's size before it is used.
 * Messages of the reader name the file, those of the writer do not.
 *
 * Threads: several may read, each its own store; functions marked "any thread" also the same one.
 * Only one may write, or use the functions from store_read_extras() on that take a path.
 */
#ifndef WSI_STORE_H
#define WSI_STORE_H

#include "common/base/err.h"
#include "common/base/field.h"
#include "common/base/glass_numbers.h"
#include "common/codec/codec.h"
#include "common/codec/jpeg_stream.h"

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
    int64_t chunk_rows, chunk_cols;
    int64_t stripe_rows;      /* a multiple of chunk_rows */
    int64_t group_rows;       /* a multiple of stripe_rows; the last group may have fewer */
    int64_t group_count;      /* ceil(height / group_rows) */
    char source_problem[256]; /* what is wrong with the file apart from its tiles; "": nothing */
    int64_t source_tag;       /* 16 bits of the slide's folder: distinguishes slides of one name */
    bool identifiers;         /* identifying properties were kept */
    bool tissue_only;         /* chunks without tissue were left out */
    int64_t tiles_missing, tiles_damaged, tiles_left_out; /* over all groups */
    int64_t content_crc32; /* store_content_crc32(), of a store that is complete */
    const struct codec *codec;
    char library[64];         /* that read the tiles, such as "OpenSlide 3.4.1"; "": our own */
    char tissue_rule[96];     /* how the tissue map was made; "": there is none */
    char tissue_missing[96];  /* why there is no tissue map; "": there is one, or none was wanted */
    char tissue_doubt[96];    /* what the map shows that makes it doubtful; "": nothing */
    char colour_conflict[96]; /* what tiles and file state about the colours; "": the same */
    int64_t jpeg_quality;     /* of the slide's tiles, 1 to 100; 0: unknown (attribute absent) */
    char jpeg_subsampling[8]; /* "4:2:0" ...; "": unknown (attribute absent) */
    double jpeg_twice;        /* 0 to 1; NaN: unknown (attribute absent); only with a quality */
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
/* What to do about it. */
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

/* --- writing --- */

struct store_writer;

/* Begins the store that will be published as `path`. info->tiles_* are ignored: the writer counts.
 * NULL on failure. */
struct store_writer *store_create(const char *path, const struct store_info *info, struct err *e);
int store_put_property(struct store_writer *w, const char *key, const char *value, struct err *e);
/* `threads`: how many may pack it. */
int store_put_thumbnail(struct store_writer *w, const uint8_t *rgb, int64_t width, int64_t height,
                        int threads, struct err *e);
/* The same for a thumbnail that is compressed already; for stores of codec jpeg. */
int store_put_kept_thumbnail(struct store_writer *w, const struct jpeg_strips *s, struct err *e);
int store_put_icc(struct store_writer *w, const void *profile, size_t bytes, struct err *e);
/* The n files that it is made from, at least one. */
int store_put_sources(struct store_writer *w, const struct store_source *s, int64_t n,
                      struct err *e);
int store_put_tissue(struct store_writer *w, const struct store_tissue *t, int threads,
                     struct err *e);
/* Records that the slide contradicts itself about its colours, and what was believed. */
int store_put_colour_conflict(struct store_writer *w, const char *what, struct err *e);
/* Records how the slide's tiles were compressed: the numbers of store_info. */
int store_put_jpeg(struct store_writer *w, int64_t quality, const char *subsampling, double twice,
                   struct err *e);
/* Records what the glass shows; NaN: it is not known. */
int store_put_glass(struct store_writer *w, const double glass[GLASS_NUMBERS], struct err *e);
/* Records that there is no tissue map, and why. */
int store_put_no_tissue(struct store_writer *w, const char *why, struct err *e);
/* Records that the map is doubtful, and why. */
int store_put_tissue_doubt(struct store_writer *w, const char *why, struct err *e);
/* The next chunk in row-major order over the whole slide: its n stored bytes, 0 for STORE_LEFT_OUT.
 */
int store_put_chunk(struct store_writer *w, const void *bytes, size_t n, uint32_t crc32,
                    enum store_status status, struct err *e);
/* What the store holds so far, with its counts of tiles. Valid until store_commit or store_abort.
 */
const struct store_info *store_written(const struct store_writer *w);
/* Finishes, publishes and frees. On failure the final name is untouched, with the one exception
 * that publish_commit() has. *bytes gets the file's size. */
int store_commit(struct store_writer *w, int64_t *bytes, struct err *e);
/* Drops everything. NULL is allowed. */
void store_abort(struct store_writer *w);

/* --- reading --- */

struct store;

struct store_chunk {
    uint64_t offset; /* in the file */
    uint32_t bytes;  /* stored; 0: nothing is stored */
    uint32_t crc32;  /* of the stored bytes */
    uint8_t status;  /* enum store_status */
    bool raw;        /* store_is_raw() */
};

/* Opens a complete store. NULL on failure. */
struct store *store_open(const char *path, struct err *e);
const struct store_info *store_info(const struct store *s);
const char *store_path(const struct store *s);
/* What a store holds besides its pixels. */
struct store_extras {
    char creator[64];     /* "wsi2h5 0.2.0" */
    int64_t stored_bytes; /* of all chunks, as stored */
    bool thumbnail, icc_profile;
};
int store_read_extras(const struct store *s, struct store_extras *x, struct err *e);
/* Lists the chunks of a group: out[chunk rows of the group][chunk columns]. */
int store_map_group(struct store *s, int64_t group, struct store_chunk *out, struct err *e);
/* Reads the tissue map; the caller frees t->mask. 1, 0 if the store has none, or -1. */
int store_read_tissue(struct store *s, struct store_tissue *t, struct err *e);
/* What the store at `path` was made from; the caller frees *out. Returns how many files, or -1. */
int64_t store_read_sources(const char *path, struct store_source **out, struct err *e);
bool store_same_sources(const struct store_source *a, int64_t n, const struct store_source *b,
                        int64_t m);
struct store_picture {
    int64_t width, height;
    uint8_t *rgb; /* [height][width][3]; the caller frees it */
};
/* 1, 0 if the store has none or this build cannot decode it, or -1. */
int store_read_thumbnail(struct store *s, struct store_picture *t, struct err *e);
/* Reads everything that is neither pixels nor the tables of a group, and checks it: tissue map,
 * properties, sources, thumbnail, ICC profile, the mappings of /pixels. (Opening a store checks its
 * attributes, store_map_group() the tables.) */
int store_check(struct store *s, struct err *e);
/* Reads n bytes at an offset; any thread. */
int store_read(const struct store *s, uint64_t offset, void *out, size_t n, struct err *e);
enum { STORE_PAGE = 4096 };
/* How many of n pages, spread evenly over a range of the file, are in the page cache? -1 if the
 * kernel does not say. mincore() answers for files that the process owns or may write; since Linux
 * 5.2 it calls every page of another file resident. Other files are asked with RWF_NOWAIT. Newer
 * kernels (seen with 6.18) then start to read the page, and call it cached if it arrives at once.
 * Any thread. */
int store_cached_pages(const struct store *s, uint64_t offset, uint64_t bytes, int n);
/* Is most of the file known to be in the page cache? */
bool store_is_cached(const struct store *s);
/* From now on reads bypass the page cache (O_DIRECT). -1 if the file system cannot do that. */
int store_read_directly(struct store *s, struct err *e);
bool store_reads_directly(const struct store *s);
/* The descriptor that direct reads use. */
int store_direct_fd(const struct store *s);
/* As store_read(), but reads whole pages if reads are direct. `room` is aligned to STORE_PAGE and
 * has n + 2 STORE_PAGE bytes; *out points to the n bytes in it. Any thread. */
int store_read_pages(const struct store *s, uint64_t offset, unsigned char *room, size_t n,
                     const unsigned char **out, struct err *e);
/* Asks the kernel to read ahead, unless reads are direct. Never fails. Any thread. */
void store_prefetch(const struct store *s, uint64_t offset, uint64_t n);
void store_close(struct store *s);

/* Does the file say that it is a store? It may be unfinished or damaged. */
bool store_is(const char *path);

/* What is at `path`, where a store is about to be made? */
enum store_found {
    STORE_NONE,       /* nothing */
    STORE_IS_STORE,   /* a complete store; *info is filled in */
    STORE_UNFINISHED, /* a store that is truncated, damaged or without its mark */
    STORE_UNKNOWN,    /* a store that cannot be judged: of a newer version, or rewritten by another
                         tool */
    STORE_OTHER_FILE, /* anything else, not ours to replace */
    STORE_ERROR, /* it cannot be read now (descriptors, memory, permissions, the disk): try again */
};
/* `e` says why for STORE_UNKNOWN and STORE_ERROR. */
enum store_found store_look(const char *path, struct store_info *info, struct err *e);

#ifdef __cplusplus
}
#endif
#endif
