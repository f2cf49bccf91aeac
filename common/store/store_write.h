/*
 * store_write.h - writes a store (store.h): chunk by chunk, in row-major order over the slide.
 *
 * The writer makes a temporary file and publishes it when it is complete (publish.h). Its messages
 * do not name the file. One thread at a time.
 */
#ifndef WSI_STORE_WRITE_H
#define WSI_STORE_WRITE_H

#include "common/codec/jpeg_stream.h"
#include "common/store/store.h"

#ifdef __cplusplus
extern "C" {
#endif

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
/* Records that the slide contradicts itself about its colours, and what was used. */
int store_put_colour_conflict(struct store_writer *w, const char *what, struct err *e);
/* Records how the slide's tiles were compressed: the numbers of store_info. */
int store_put_jpeg(struct store_writer *w, int64_t quality, const char *subsampling, double twice,
                   struct err *e);
/* Records what the glass shows; NaN: it is not known. */
int store_put_glass(struct store_writer *w, const double glass[GLASS_NUMBERS], struct err *e);
/* Records whether the background is "bright" or "dark"; "": it is not known. */
int store_put_background(struct store_writer *w, const char *background, struct err *e);
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
 * that publish_commit() has. *info gets what the store holds, with counts and checksum; NULL is
 * allowed. *bytes gets the file's size. */
int store_commit(struct store_writer *w, struct store_info *info, int64_t *bytes, struct err *e);
/* Drops everything. NULL is allowed. */
void store_abort(struct store_writer *w);

#ifdef __cplusplus
}
#endif
#endif
