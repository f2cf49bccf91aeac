/*
 * store_read.h - reads a store (store.h).
 *
 * The reader trusts nothing: every number is checked against the others and the file's size before
 * it is used. Its messages name the file.
 *
 * Threads: several may read, each its own store; functions marked "any thread" also the same one.
 * Only one at a time may use those that take a path, but for store_open().
 */
#ifndef WSI_STORE_READ_H
#define WSI_STORE_READ_H

#include "common/store/store.h"

#ifdef __cplusplus
extern "C" {
#endif

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
/* The contents of a store besides its pixels. */
struct store_extras {
    char creator[64];     /* "wsi2h5 1.0.0" */
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
/* Can the file be read, and does it say that it is something else? What cannot be read is not
 * foreign: it may be a damaged store. */
bool store_is_foreign(const char *path);

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
