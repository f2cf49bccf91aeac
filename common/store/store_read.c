/*
 * store_read.c - reads a store; see store_read.h.
 *
 * What is long is read past the library and its lock: the tables of the chunks, once per group,
 * behind the guard (guard.h), then the chunks' bytes, on any thread. HDF5's own index of the chunks
 * is for other programs; store_check() compares it with the tables.
 */
#include "common/store/store_read.h"
#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/hdf5/guard.h"
#include "common/hdf5/h5_attr.h"
#include "common/hdf5/h5_file.h"
#include "common/hdf5/h5_library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct store {
    struct store_info info;
    char *path;
    int fd;
    int direct_fd;  /* -1: reads go through the page cache */
    uint64_t bytes; /* of the file */
    hid_t file, groups;
};

/* A property that is a place in px; 0 without one. */
static int get_bound(hid_t properties, const char *key, int64_t *px, struct err *e)
{
    char text[32];
    const int has = h5_has(properties, key, e);
    if (has < 0 || (has && h5_get_text(properties, key, text, sizeof text, e)))
        return -1;
    *px = has ? strtoll(text, NULL, 10) : 0;
    if (*px < 0 || *px > STORE_MOST_BOUNDS)
        *px = 0;
    return 0;
}

static int get_bounds(hid_t f, struct store_info *i, struct err *e)
{
    hid_t g = h5_open_group(f, "properties", e);
    const int bad = g < 0 || get_bound(g, STORE_BOUNDS_X, &i->bounds_x, e) ||
                    get_bound(g, STORE_BOUNDS_Y, &i->bounds_y, e);
    h5_close(g);
    return bad ? err_add(e, "properties") : 0;
}

static int get_head(hid_t f, struct store_info *i, struct err *e)
{
    char codec[32];
    if (get_bounds(f, i, e))
        return -1;
    if (h5_get_text(f, "codec", codec, sizeof codec, e))
        return -1;
    if (!(i->codec = codec_find(codec)))
        return err_set(e, "this version does not know the codec %s", codec);
    return h5_get_fields(f, store_fields, FIELD_ALL, i, e) || store_check_info(i, e) ? -1 : 0;
}

static const struct h5_format format = {STORE_FORMAT, STORE_VERSION, "", 0};

static struct store *open_store(const char *path, struct err *e)
{
    struct stat st, now;
    struct store *s = memory_need(1, sizeof *s);
    s->path = memory_copy(path);
    s->fd = s->direct_fd = -1;
    s->groups = -1;
    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* before HDF5 opens it by its name */
    s->file = h5_open(path, &format, e);
    if (s->file < 0)
        goto fail;
    if (get_head(s->file, &s->info, e) || (s->groups = h5_open_group(s->file, "groups", e)) < 0) {
        if (!h5_is_newer(s->file, path, &format, e))
            err_add(e, "%s: not a valid store", path);
        goto fail;
    }
    if (s->fd < 0 || fstat(s->fd, &st)) {
        err_sys(e, "%s: cannot open", path);
        goto fail;
    }
    s->bytes = (uint64_t)st.st_size;
    if (stat(path, &now)) {
        const int code = errno;
        err_blame(e, ERR_TROUBLE, "%s: cannot be opened now: %s", path, strerror(code));
        goto fail;
    }
    if (now.st_ino != st.st_ino || now.st_dev != st.st_dev) {
        err_blame(e, ERR_TROUBLE, "%s: changed while it was read; run again", path);
        goto fail;
    }
    return s;
fail:
    store_close(s);
    return NULL;
}

struct store *store_open(const char *path, struct err *e)
{
    h5_lock();
    struct store *s = open_store(path, e);
    h5_unlock();
    return s;
}

const struct store_info *store_info(const struct store *s)
{
    return &s->info;
}

const char *store_path(const struct store *s)
{
    return s->path;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    h5_lock();
    h5_close(s->groups);
    if (s->file >= 0)
        H5Fclose(s->file);
    h5_unlock();
    if (s->fd >= 0)
        close(s->fd);
    if (s->direct_fd >= 0)
        close(s->direct_fd);
    free(s->path);
    free(s);
}

/* Reads at least `least` and at most `most` bytes. */
static int read_all(const struct store *s, int fd, uint64_t offset, unsigned char *to, size_t least,
                    size_t most, struct err *e)
{
    if (read_at_least(fd, offset, to, least, most) >= least)
        return 0;
    return errno ? err_sys(e, "%s: cannot read", s->path)
                 : err_set(e, "%s: the file ends too early; it has been truncated", s->path);
}

int store_read(const struct store *s, uint64_t offset, void *out, size_t n, struct err *e)
{
    return read_all(s, s->fd, offset, out, n, n, e);
}

int store_read_pages(const struct store *s, uint64_t offset, unsigned char *room, size_t n,
                     const unsigned char **out, struct err *e)
{
    const size_t skip = offset % STORE_PAGE;
    if (s->direct_fd < 0) {
        *out = room;
        return store_read(s, offset, room, n, e);
    }
    *out = room + skip;
    return read_all(s, s->direct_fd, offset - skip, room, skip + n,
                    (skip + n + STORE_PAGE - 1) / STORE_PAGE * STORE_PAGE, e);
}

/* Does mincore() tell this process which pages of the file are resident? */
static bool may_ask(const struct store *s)
{
    struct stat st;
    char same[64];
    snprintf(same, sizeof same, "/proc/self/fd/%d", s->fd);
    return (fstat(s->fd, &st) == 0 && st.st_uid == geteuid()) ||
           faccessat(AT_FDCWD, same, W_OK, AT_EACCESS) == 0;
}

/* Is the page that begins at `offset` cached? 1, 0 or -1. `map`: the file; NULL: mincore() does not
 * answer. */
static int page_is_cached(const struct store *s, unsigned char *map, uint64_t offset)
{
    unsigned char in = 0;
    char byte;
    struct iovec one = {&byte, 1};
    if (map && mincore(map + offset, 1, &in) == 0)
        return in & 1;
    const ssize_t got = preadv2(s->fd, &one, 1, (off_t)offset, RWF_NOWAIT);
    return got >= 0 ? got > 0 : errno == EAGAIN ? 0 : -1;
}

int store_cached_pages(const struct store *s, uint64_t offset, uint64_t bytes, int n)
{
    unsigned char *map = MAP_FAILED;
    int cached = 0;
    if (may_ask(s))
        map = mmap(NULL, s->bytes, PROT_READ, MAP_SHARED, s->fd, 0);
    for (int k = 0; k < n && cached >= 0; k++) {
        const uint64_t at = (offset + bytes / (uint64_t)n * (uint64_t)k) / STORE_PAGE * STORE_PAGE;
        const int is = page_is_cached(s, map == MAP_FAILED ? NULL : map, at);
        cached = is < 0 ? -1 : cached + is;
    }
    if (map != MAP_FAILED)
        munmap(map, s->bytes);
    return cached;
}

bool store_is_cached(const struct store *s)
{
    enum { ASKED = 256 };
    return 2 * store_cached_pages(s, 0, s->bytes, ASKED) > ASKED;
}

int store_read_directly(struct store *s, struct err *e)
{
    char same[64]; /* the file that is open, whichever file has its name by now */
    snprintf(same, sizeof same, "/proc/self/fd/%d", s->fd);
    if (s->direct_fd < 0 && (s->direct_fd = open(same, O_RDONLY | O_CLOEXEC | O_DIRECT)) < 0)
        return err_sys(e, "%s: cannot be read without the page cache", s->path);
    return 0;
}

bool store_reads_directly(const struct store *s)
{
    return s->direct_fd >= 0;
}

int store_direct_fd(const struct store *s)
{
    return s->direct_fd;
}

void store_prefetch(const struct store *s, uint64_t offset, uint64_t n)
{
    if (s->direct_fd < 0)
        posix_fadvise(s->fd, (off_t)offset, (off_t)n, POSIX_FADV_WILLNEED);
}

/* --- where the chunks lie --- */

/* The tables of a group, [chunk rows][chunk columns]. */
enum { STATUS, OFFSET, BYTES, CRC32, TABLES };
static const struct {
    const char *name;
    int value_bytes;
} tables[TABLES] = {{"tile_status", 1}, {"tile_offset", 8}, {"tile_bytes", 4}, {"tile_crc32", 4}};

static int check_chunk(const struct store *s, const struct store_chunk *c, int64_t k, struct err *e)
{
    const struct codec_params p = store_codec_params(&s->info);
    const uint64_t whole = (uint64_t)store_chunk_bytes(&s->info), most = codec_most_bytes(&p);
    if (c->status > STORE_LEFT_OUT || (c->bytes > 0) == (c->status == STORE_LEFT_OUT))
        return err_set(e, "chunk %lld: its status contradicts its data", (long long)k);
    if (c->bytes == 0)
        return c->offset == 0 ? 0
                              : err_set(e, "chunk %lld has a place, but no bytes", (long long)k);
    if (c->bytes > most || ((c->raw || p.codec->id == CODEC_NONE) && c->bytes != whole))
        return err_set(e, "chunk %lld is %s than it can be (%llu bytes)", (long long)k,
                       c->bytes > whole ? "larger" : "smaller", (unsigned long long)c->bytes);
    return c->offset <= s->bytes && c->bytes <= s->bytes - c->offset
               ? 0
               : err_set(e,
                         "chunk %lld lies outside the file, which another program, such as "
                         "h5repack, has rewritten, or which is damaged; " ERR_MAKE_AGAIN,
                         (long long)k);
}

static int fill_in(const struct store *s, void *const table[TABLES], struct store_chunk *out,
                   int64_t n, struct err *e)
{
    for (int64_t k = 0; k < n; k++) {
        out[k] = (struct store_chunk){.offset = ((const uint64_t *)table[OFFSET])[k],
                                      .bytes = ((const uint32_t *)table[BYTES])[k],
                                      .crc32 = ((const uint32_t *)table[CRC32])[k],
                                      .status = ((const uint8_t *)table[STATUS])[k]};
        out[k].raw = store_is_raw(&s->info, out[k].bytes, out[k].status);
        if (check_chunk(s, &out[k], k, e))
            return -1;
    }
    return 0;
}

/* Is the filter that of the codec? That of kept tiles is mandatory, and its values state the
 * chunk's shape. */
static bool is_filter(hid_t dcpl, const struct store_info *i)
{
    unsigned flags = 0, config, v[4] = {0};
    size_t n = 4;
    if (H5Pget_filter2(dcpl, 0, &flags, &n, v, 0, NULL, &config) != i->codec->h5_filter)
        return false;
    return !i->codec->keeps ||
           (!(flags & H5Z_FLAG_OPTIONAL) && n == 4 && v[1] == (unsigned)i->chunk_cols &&
            v[2] == (unsigned)i->chunk_rows && v[3] == (i->channels == 3));
}

/* The layout must be the one that the writer makes. */
static int check_layout(hid_t pixels, const struct store_info *i, struct err *e)
{
    hsize_t chunk[3] = {0, 0, 0};
    hid_t dcpl = H5Dget_create_plist(pixels);
    int filters = dcpl < 0 ? -1 : H5Pget_nfilters(dcpl);
    bool good = filters == (i->codec->id != CODEC_NONE) && H5Pget_layout(dcpl) == H5D_CHUNKED &&
                H5Pget_chunk(dcpl, 3, chunk) == 3;
    if (good && filters == 1)
        good = is_filter(dcpl, i);
    H5Pclose(dcpl);
    good = good && chunk[0] == (hsize_t)i->chunk_rows && chunk[1] == (hsize_t)i->chunk_cols &&
           chunk[2] == (hsize_t)i->channels;
    return good ? 0 : err_set(e, "the layout of pixels does not match the store's attributes");
}

static int check_pixels(hid_t group, const struct store_info *i, int64_t height, struct err *e)
{
    const hsize_t dims[3] = {(hsize_t)height, (hsize_t)i->width, (hsize_t)i->channels};
    hid_t pixels = h5_open_array(group, "pixels", H5T_NATIVE_UINT8, 3, dims, e);
    if (pixels < 0)
        return -1;
    const int r = check_layout(pixels, i, e);
    H5Dclose(pixels);
    return r;
}

/* Where the headers of the tables lie. */
static int find_tables(hid_t group, uint64_t places[TABLES], struct err *e)
{
    for (int k = 0; k < TABLES; k++)
        if (h5_find(group, tables[k].name, &places[k], e))
            return -1;
    return 0;
}

static int check_group(hid_t group, const struct store_info *i, int64_t number, struct err *e)
{
    const int64_t first = number * i->group_rows, height = store_group_height(i, number);
    const int64_t stripes = (height + i->stripe_rows - 1) / i->stripe_rows;
    int64_t v;
    return h5_get_int(group, "first_row", first, first, &v, e) ||
                   h5_get_int(group, "rows", height, height, &v, e) ||
                   h5_get_int(group, "stripes", stripes, stripes, &v, e)
               ? -1
               : check_pixels(group, i, height, e);
}

/* Opens a group, counted from 0; -1 on failure. Its name, counted from 1, goes to *name. */
static hid_t open_group(const struct store *s, int64_t number, char name[32], struct err *e)
{
    snprintf(name, 32, "%05lld", (long long)number + 1);
    return h5_open_group(s->groups, name, e);
}

/* All that needs the library. */
static int look_at_group(const struct store *s, int64_t number, uint64_t places[TABLES],
                         struct err *e)
{
    char name[32];
    h5_lock();
    hid_t group = open_group(s, number, name, e);
    const int r =
        group < 0 || check_group(group, &s->info, number, e) || find_tables(group, places, e) ? -1
                                                                                              : 0;
    h5_close(group);
    h5_unlock();
    return r;
}

/* Reads a table of the group. */
static int read_table(const struct store *s, int k, uint64_t address, int64_t rows, int64_t columns,
                      void *out, struct err *e)
{
    const char *name = tables[k].name;
    const size_t n = (size_t)(rows * columns * tables[k].value_bytes);
    struct guard_table t;
    if (guard_table(s->fd, address, &t, e))
        return err_add(e, errno ? "%s" : "%s is damaged", name);
    if (t.rows != (uint64_t)rows || t.columns != (uint64_t)columns ||
        t.value_bytes != tables[k].value_bytes)
        return err_set(e, "%s has the wrong shape or type", name);
    if (read_at(s->fd, t.address, out, n) < n)
        return errno ? err_sys(e, "%s: cannot read", name)
                     : err_set(e, "%s: the file ends too early", name);
    return t.crc32 == codec_crc32(out, n)
               ? 0
               : err_set(e, "%s is damaged (CRC mismatch); " ERR_MAKE_AGAIN, name);
}

/* The place of chunk k of a group, for HDF5's index. */
static void place_of(const struct store_info *i, int64_t k, hsize_t at[3])
{
    const int64_t columns = store_chunk_columns(i);
    at[0] = (hsize_t)(k / columns * i->chunk_rows);
    at[1] = (hsize_t)(k % columns * i->chunk_cols);
    at[2] = 0;
}

/* Where HDF5's index has the first chunk that is stored. */
static int ask_index(const struct store *s, int64_t number, int64_t k, uint64_t *offset)
{
    char name[32];
    hsize_t at[3];
    place_of(&s->info, k, at);
    h5_lock();
    hid_t group = open_group(s, number, name, NULL);
    hid_t pixels = group < 0 ? -1 : h5_open_dataset(group, "pixels", NULL);
    const int r = pixels < 0 || H5Dget_chunk_info_by_coord(pixels, at, NULL, offset, NULL) < 0;
    h5_forget();
    h5_close(pixels);
    h5_close(group);
    h5_unlock();
    return r;
}

/* A program that copies HDF5's objects to another file, as h5repack does, moves the chunks and does
 * not know that tables have their places. The first chunk shows it. */
static int check_first(const struct store *s, int64_t number, const struct store_chunk *list,
                       int64_t n, struct err *e)
{
    int64_t k = 0;
    uint64_t offset;
    while (k < n && list[k].bytes == 0)
        k++;
    if (k == n)
        return 0;
    unsigned char *bytes = memory_try(list[k].bytes, 1, e);
    if (!bytes)
        return -1;
    const bool same = read_at(s->fd, list[k].offset, bytes, list[k].bytes) < list[k].bytes ||
                      codec_crc32(bytes, list[k].bytes) == list[k].crc32;
    free(bytes);
    return same || ask_index(s, number, k, &offset) || offset == list[k].offset
               ? 0
               : err_set(e, "another program, such as h5repack, has rewritten the file, and its "
                            "chunks lie elsewhere now; " ERR_MAKE_AGAIN);
}

static int map_group(const struct store *s, const uint64_t places[TABLES], int64_t number,
                     struct store_chunk *out, struct err *e)
{
    const struct store_info *i = &s->info;
    const int64_t rows = store_group_chunk_rows(i, number), columns = store_chunk_columns(i);
    void *table[TABLES] = {NULL};
    int r = 0;
    for (int k = 0; r == 0 && k < TABLES; k++) {
        table[k] = memory_try((size_t)(rows * columns), (size_t)tables[k].value_bytes, e);
        r = table[k] ? read_table(s, k, places[k], rows, columns, table[k], e) : -1;
    }
    if (r == 0)
        r = fill_in(s, table, out, rows * columns, e);
    for (int k = 0; k < TABLES; k++)
        free(table[k]);
    return r ? r : check_first(s, number, out, rows * columns, e);
}

int store_map_group(struct store *s, int64_t group, struct store_chunk *out, struct err *e)
{
    uint64_t places[TABLES];
    return look_at_group(s, group, places, e) || map_group(s, places, group, out, e)
               ? err_add(e, "%s: group %05lld", s->path, (long long)group + 1)
               : 0;
}

static int read_tissue(hid_t g, struct store_tissue *t, struct err *e)
{
    hsize_t dims[2] = {(hsize_t)t->rows, (hsize_t)t->cols};
    int64_t cell;
    hid_t ds = h5_open_array(g, "mask", H5T_NATIVE_UINT8, 2, dims, e);
    int r = ds < 0 || h5_get_int(ds, "cell", STORE_CELL, STORE_CELL, &cell, e) ||
                    h5_get_real(ds, "tissue_fraction", &t->fraction, e) || h5_check_seal(ds, e)
                ? -1
                : 0;
    h5_close(ds);
    if (r || !(t->mask = memory_try(1, (size_t)(t->rows * t->cols), e)))
        return -1;
    return h5_read_array(g, "mask", H5T_NATIVE_UINT8, 2, dims, t->mask, e);
}

static int find_tissue(struct store *s, struct store_tissue *t, struct err *e)
{
    *t = (struct store_tissue){.cols = (s->info.width + STORE_CELL - 1) / STORE_CELL,
                               .rows = (s->info.height + STORE_CELL - 1) / STORE_CELL};
    const int has = h5_has_link(s->file, "tissue", e);
    if (has <= 0)
        return has ? err_add(e, "%s", s->path) : 0;
    hid_t g = h5_open_group(s->file, "tissue", e);
    int r = g < 0 ? -1 : read_tissue(g, t, e);
    h5_close(g);
    if (r == 0)
        return 1;
    free(t->mask);
    t->mask = NULL;
    return err_add(e, "%s: tissue map", s->path);
}

int store_read_tissue(struct store *s, struct store_tissue *t, struct err *e)
{
    h5_lock();
    const int found = find_tissue(s, t, e);
    h5_unlock();
    return found;
}

bool store_is(const char *path)
{
    const enum h5_kind kind = h5_look(path, &format, NULL);
    return kind != H5_OTHER && kind != H5_UNREADABLE;
}

bool store_is_foreign(const char *path)
{
    return h5_look(path, &format, NULL) == H5_OTHER;
}

/* A thumbnail of this group. */
static int read_thumbnail(hid_t group, struct store_picture *t, struct err *e)
{
    enum { MOST = 1 << 14 };
    hsize_t dims[3];
    if (h5_get_shape(group, "thumbnail", 3, dims, e))
        return -1;
    if (dims[0] < 1 || dims[0] > MOST || dims[1] < 1 || dims[1] > MOST || dims[2] != 3)
        return err_set(e, "thumbnail has an invalid size");
    t->height = (int64_t)dims[0];
    t->width = (int64_t)dims[1];
    if (!(t->rgb = memory_try((size_t)(dims[0] * dims[1] * dims[2]), 1, e)))
        return -1;
    const int r = h5_read_array(group, "thumbnail", H5T_NATIVE_UINT8, 3, dims, t->rgb, e);
    if (r == 0)
        return 1;
    free(t->rgb);
    t->rgb = NULL;
    return r == H5_NO_LIBRARY ? 0 : -1;
}

/* Opens the group of the thumbnail. 1, 0: there is no thumbnail, or -1; *group may be open in any
 * case. */
static int find_thumbnail(hid_t file, hid_t *group, struct err *e)
{
    const int has = h5_has_link(file, "associated", e);
    *group = has > 0 ? h5_open_group(file, "associated", e) : -1;
    return has <= 0 ? has : *group < 0 ? -1 : h5_has_link(*group, "thumbnail", e);
}

int store_read_thumbnail(struct store *s, struct store_picture *t, struct err *e)
{
    hid_t group;
    h5_lock();
    int r = find_thumbnail(s->file, &group, e);
    if (r > 0)
        r = read_thumbnail(group, t, e);
    h5_close(group);
    h5_unlock();
    return r < 0 ? err_add(e, "%s", s->path) : r;
}

enum store_found store_look(const char *path, struct store_info *info, struct err *e)
{
    static const enum store_found found[] = {[H5_OTHER] = STORE_OTHER_FILE,
                                             [H5_UNREADABLE] = STORE_OTHER_FILE,
                                             [H5_UNFINISHED] = STORE_UNFINISHED,
                                             [H5_UNKNOWN] = STORE_UNKNOWN,
                                             [H5_ERROR] = STORE_ERROR};
    struct stat st;
    if (lstat(path, &st)) {
        if (errno == ENOENT)
            return STORE_NONE;
        err_sys(e, "%s", path);
        return STORE_ERROR;
    }
    const enum h5_kind kind = h5_look(path, &format, e);
    if (kind != H5_WHOLE)
        return found[kind];
    h5_watch();
    struct err why = {0};
    struct store *s = store_open(path, &why);
    if (!s) {
        err_copy(e, &why);
        return h5_system_failed() || err_is_trouble(&why) ? STORE_ERROR
               : why.kind == ERR_NEWER                    ? STORE_UNKNOWN
                                                          : STORE_UNFINISHED;
    }
    *info = s->info;
    store_close(s);
    return STORE_IS_STORE;
}

/* --- what it was made from --- */

static int read_source(hid_t sources, int64_t number, struct store_source *s, struct err *e)
{
    char name[32];
    int64_t crc = 0;
    snprintf(name, sizeof name, "%05lld", (long long)number);
    hid_t g = h5_open_group(sources, name, e);
    if (g < 0)
        return -1;
    const int r = h5_get_text(g, "name", s->name, sizeof s->name, e) ||
                          h5_get_int(g, "bytes", 0, INT64_MAX, &s->bytes, e) ||
                          h5_get_int(g, "mtime_ns", INT64_MIN, INT64_MAX, &s->mtime_ns, e) ||
                          h5_get_int(g, "index_crc32", 0, UINT32_MAX, &crc, e) ||
                          h5_check_seal(g, e)
                      ? -1
                      : 0;
    H5Gclose(g);
    s->index_crc32 = (uint32_t)crc;
    return r;
}

static int64_t read_sources(hid_t file, struct store_source **out, struct err *e)
{
    int64_t n = 0;
    hid_t g = h5_open_group(file, "sources", e);
    int r = g < 0 ? -1 : h5_get_int(g, "count", 1, STORE_MOST_SOURCES, &n, e);
    if (r == 0 && !(*out = memory_try_zero((size_t)n, sizeof **out, e)))
        r = -1;
    for (int64_t k = 0; r == 0 && k < n; k++)
        r = read_source(g, k + 1, *out + k, e);
    h5_close(g);
    if (r == 0)
        return n;
    free(*out);
    *out = NULL;
    return err_add(e, "sources");
}

int64_t store_read_sources(const char *path, struct store_source **out, struct err *e)
{
    *out = NULL;
    hid_t file = h5_open(path, &format, e);
    if (file < 0)
        return -1;
    const int64_t n = read_sources(file, out, e);
    H5Fclose(file);
    return n < 0 ? err_add(e, "%s", path) : n;
}

bool store_same_sources(const struct store_source *a, int64_t n, const struct store_source *b,
                        int64_t m)
{
    bool same = n == m;
    for (int64_t k = 0; same && k < n; k++)
        same = a[k].bytes == b[k].bytes && a[k].mtime_ns == b[k].mtime_ns &&
               a[k].index_crc32 == b[k].index_crc32 && !strcmp(a[k].name, b[k].name);
    return same;
}

/* --- what it holds besides its pixels --- */

/* Bytes of all chunks of a group as stored. */
static int add_group(const struct store *s, int64_t number, int64_t *bytes, struct err *e)
{
    uint64_t places[TABLES];
    const int64_t rows = store_group_chunk_rows(&s->info, number);
    const int64_t columns = store_chunk_columns(&s->info);
    uint32_t *list = memory_try((size_t)(rows * columns), sizeof *list, e);
    const int r = !list || look_at_group(s, number, places, e) ||
                          read_table(s, BYTES, places[BYTES], rows, columns, list, e)
                      ? err_add(e, "group %05lld", (long long)number + 1)
                      : 0;
    for (int64_t k = 0; r == 0 && k < rows * columns; k++)
        *bytes += list[k];
    free(list);
    return r;
}

static int read_extras(const struct store *s, struct store_extras *x, struct err *e)
{
    for (int64_t k = 0; k < s->info.group_count; k++)
        if (add_group(s, k, &x->stored_bytes, e))
            return -1;
    if (h5_get_text(s->file, "creator", x->creator, sizeof x->creator, e))
        return -1;
    hid_t group = -1;
    const int icc = h5_has_link(s->file, "icc_profile", e);
    const int thumbnail = icc < 0 ? -1 : find_thumbnail(s->file, &group, e);
    h5_close(group);
    x->icc_profile = icc > 0;
    x->thumbnail = thumbnail > 0;
    return thumbnail < 0 ? -1 : 0;
}

int store_read_extras(const struct store *s, struct store_extras *x, struct err *e)
{
    *x = (struct store_extras){0};
    return read_extras(s, x, e) ? err_add(e, "%s", store_path(s)) : 0;
}

/* --- checks of everything but the chunks --- */

/* Reads the profile, if there is one, so that its checksum is checked. */
static int check_icc(hid_t file, struct err *e)
{
    enum { MOST = 1 << 30 };
    hsize_t bytes;
    const int has = h5_has_link(file, "icc_profile", e);
    if (has <= 0)
        return has;
    if (h5_get_shape(file, "icc_profile", 1, &bytes, e))
        return -1;
    if (bytes < 1 || bytes > MOST)
        return err_set(e, "icc_profile has an invalid size");
    void *data = memory_try(1, (size_t)bytes, e);
    const int r =
        data ? h5_read_array(file, "icc_profile", H5T_NATIVE_UINT8, 1, &bytes, data, e) : -1;
    free(data);
    return r;
}

static int check_properties(hid_t file, struct err *e)
{
    hid_t g = h5_open_group(file, "properties", e);
    const int r = g < 0 ? -1 : h5_check_seal(g, e);
    h5_close(g);
    return r ? err_add(e, "properties") : 0;
}

/* Does mapping k of /pixels show all of group k + 1 where it belongs? */
static bool is_mapped(hid_t dcpl, const struct store_info *i, int64_t k)
{
    char name[64] = "", want[64], file[8] = "";
    hsize_t low[3] = {0}, high[3] = {0};
    hid_t where = H5Pget_virtual_vspace(dcpl, (size_t)k);
    hid_t part = H5Pget_virtual_srcspace(dcpl, (size_t)k);
    const int64_t first = k * i->group_rows, rows = store_group_height(i, k);
    const hsize_t end[3] = {(hsize_t)(first + rows), (hsize_t)i->width, (hsize_t)i->channels};
    snprintf(want, sizeof want, "/groups/%05lld/pixels", (long long)k + 1);
    bool good =
        H5Pget_virtual_filename(dcpl, (size_t)k, file, sizeof file) == 1 && !strcmp(file, ".") &&
        H5Pget_virtual_dsetname(dcpl, (size_t)k, name, sizeof name) > 0 && !strcmp(name, want) &&
        H5Sget_select_type(part) == H5S_SEL_ALL && H5Sget_simple_extent_ndims(where) == 3 &&
        H5Sget_select_bounds(where, low, high) >= 0 && low[0] == (hsize_t)first &&
        H5Sget_select_npoints(where) == (hssize_t)(rows * i->width * i->channels);
    for (int d = 0; good && d < 3; d++)
        good = high[d] == end[d] - 1 && (d == 0 || low[d] == 0);
    H5Sclose(where);
    H5Sclose(part);
    return good;
}

/* /pixels: its shape and its mappings. h5spec does not read it, but others do. */
static int check_view(hid_t file, const struct store_info *i, struct err *e)
{
    hsize_t dims[3] = {0};
    size_t n = 0;
    hid_t ds = h5_open_view(file, "pixels", e);
    if (ds < 0)
        return -1;
    hid_t space = H5Dget_space(ds), dcpl = H5Dget_create_plist(ds);
    bool good = H5Sget_simple_extent_ndims(space) == 3 &&
                H5Sget_simple_extent_dims(space, dims, NULL) == 3 &&
                dims[0] == (hsize_t)i->height && dims[1] == (hsize_t)i->width &&
                dims[2] == (hsize_t)i->channels && H5Pget_virtual_count(dcpl, &n) >= 0 &&
                n == (size_t)i->group_count;
    for (int64_t k = 0; good && k < i->group_count; k++)
        good = is_mapped(dcpl, i, k);
    H5Pclose(dcpl);
    H5Sclose(space);
    H5Dclose(ds);
    return good ? 0 : err_set(e, "pixels does not show the pixels of all groups: damaged");
}

static int check_file(hid_t file, const struct store_info *i, struct err *e)
{
    return check_properties(file, e) || check_icc(file, e) || check_view(file, i, e) ? -1 : 0;
}

/* Does HDF5's index have the chunk where the table has it? It walks over its entries for each
 * question, so it is asked for one chunk of a group. */
static bool is_in_index(const struct store_info *i, hid_t pixels, const struct store_chunk *c,
                        int64_t k)
{
    hsize_t at[3], bytes = 0;
    haddr_t offset = 0;
    unsigned mask = 0;
    const unsigned want = c->raw && i->codec->id != CODEC_NONE;
    place_of(i, k, at);
    return H5Dget_chunk_info_by_coord(pixels, at, &mask, &offset, &bytes) >= 0 &&
           offset == c->offset && bytes == c->bytes && mask == want;
}

/* Do HDF5's index, by which other programs read, and the tables say the same? All sizes are
 * compared, and the place of the last chunk. */
static bool agrees(const struct store *s, hid_t pixels, const struct store_chunk *list, int64_t n)
{
    const struct store_info *i = &s->info;
    int64_t last = -1;
    for (int64_t k = 0; k < n; k++) {
        hsize_t at[3], bytes = 0;
        if (list[k].bytes == 0)
            continue;
        last = k;
        place_of(i, k, at);
        if (H5Dget_chunk_storage_size(pixels, at, &bytes) < 0 || bytes != list[k].bytes)
            return false;
    }
    return last < 0 || is_in_index(i, pixels, &list[last], last);
}

/* Also adds the group's tiles to the content. */
static int check_index(struct store *s, int64_t number, struct store_content *c, struct err *e)
{
    char name[32];
    const int64_t n = store_group_chunk_rows(&s->info, number) * store_chunk_columns(&s->info);
    struct store_chunk *list = memory_try_zero((size_t)n, sizeof *list, e);
    if (!list)
        return err_add(e, "%s", s->path);
    int r = store_map_group(s, number, list, e);
    hid_t group = r ? -1 : open_group(s, number, name, e);
    hid_t pixels = group < 0 ? -1 : h5_open_dataset(group, "pixels", e);
    if (pixels >= 0 && !agrees(s, pixels, list, n)) {
        h5_forget();
        r = err_set(
            e, "%s: group %s: HDF5's index of the chunks contradicts the tables; " ERR_MAKE_AGAIN,
            s->path, name);
    }
    for (int64_t k = 0; k < n; k++)
        store_content_add(c, list[k].status, list[k].crc32);
    h5_close(pixels);
    h5_close(group);
    free(list);
    return pixels < 0 ? -1 : r;
}

/* Reads the list, so that it is checked. */
static int check_sources(const struct store *s, struct err *e)
{
    struct store_source *sources;
    const int64_t n = store_read_sources(store_path(s), &sources, e);
    free(sources);
    return n < 0 ? -1 : 0;
}

/* The checksum of the values of a dataset, if it exists. */
static int get_crc(hid_t parent, const char *name, uint32_t *crc, struct err *e)
{
    int64_t value = 0;
    hid_t ds = h5_open_dataset(parent, name, e);
    const int stored = ds < 0 ? -1 : h5_has(ds, "stored_crc32", e);
    const int r = stored < 0
                      ? -1
                      : h5_get_int(ds, stored ? "stored_crc32" : "crc32", 0, UINT32_MAX, &value, e);
    h5_close(ds);
    *crc = (uint32_t)value;
    return r;
}

static int get_crcs(hid_t file, bool tissue, struct store_content *c, struct err *e)
{
    hid_t group = tissue ? h5_open_group(file, "tissue", e) : -1;
    int r = tissue && (group < 0 || get_crc(group, "mask", &c->tissue, e)) ? -1 : 0;
    h5_close(group);
    if (r)
        return -1;
    if ((r = find_thumbnail(file, &group, e)) > 0)
        r = get_crc(group, "thumbnail", &c->thumbnail, e);
    h5_close(group);
    return r;
}

/* Is content_crc32 that of what the store holds? */
static int check_content(struct store *s, bool tissue, struct store_content *c, struct err *e)
{
    h5_lock();
    const int r = get_crcs(s->file, tissue, c, e);
    h5_unlock();
    if (r)
        return err_add(e, "%s", s->path);
    return store_content_crc32(&s->info, c) == s->info.content_crc32
               ? 0
               : err_set(e,
                         "%s: content_crc32 is not that of its attributes, tissue map, thumbnail "
                         "and tiles: another program has changed it; " ERR_MAKE_AGAIN,
                         s->path);
}

int store_check(struct store *s, struct err *e)
{
    struct store_tissue t = {0};
    struct store_picture thumbnail = {0};
    struct store_content content = {0};
    const int r = store_read_tissue(s, &t, e) < 0 || check_sources(s, e)
                      ? -1
                      : store_read_thumbnail(s, &thumbnail, e);
    const bool tissue = t.mask != NULL;
    free(t.mask);
    free(thumbnail.rgb);
    hid_t file = r < 0 ? -1 : h5_open(store_path(s), &format, e);
    if (file < 0)
        return -1;
    const int bad = check_file(file, store_info(s), e);
    H5Fclose(file);
    if (bad)
        return err_add(e, "%s", store_path(s));
    for (int64_t k = 0; k < s->info.group_count; k++)
        if (check_index(s, k, &content, e))
            return -1;
    return check_content(s, tissue, &content, e);
}
