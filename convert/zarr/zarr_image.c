/* zarr_image.c - see zarr_image.h. */
#include "convert/zarr/zarr_image.h"

#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/publish.h"
#include "common/store/store_read.h"
#include "convert/zarr/zarr_levels.h"
#include "convert/zarr/zarr_shard.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char store_ending[] = ".h5", image_ending[] = ".ome.zarr";
/* Level 0 in the image, and from there to the folder of the image. */
static const char shard_0[] = "0/c/0/0/0", up[] = "../../../../..";

struct image {
    const char *store_path;
    char *path, *part; /* its name, and that until it is whole */
    struct store *store;
    const struct store_info *i;
    struct store_chunk *list; /* [rows][columns] of chunks */
    int64_t chunks;
    int levels;
    bool fresh; /* this run has made the store */
};

char *zarr_image_path(const char *store)
{
    const size_t n = strlen(store), ending = strlen(store_ending);
    const bool ends = n > ending && !strcmp(store + n - ending, store_ending);
    return memory_print("%.*s%s", (int)(ends ? n - ending : n), store, image_ending);
}

int zarr_image_check(struct err *e)
{
    const struct codec *zstd = codec_find("zstd");
    return zstd && zstd->offered ? 0
                                 : err_set(e, "--zarr needs Zstandard, which this build lacks; "
                                              "build it with libzstd");
}

/* --- zarr.json --- */

/* What makes the bytes of a chunk of its pixels [rows][columns][channels], as Zarr's registry or
 * the Python package imagecodecs names it. */
static const char *chunk_codecs(const char *codec)
{
    static const char *const names[][2] = {
        {"none", "{\"name\": \"bytes\"}"},
        {"zstd", "{\"name\": \"bytes\"}, {\"name\": \"zstd\", \"configuration\": {\"level\": 1, "
                 "\"checksum\": false}}"},
        {"deflate", "{\"name\": \"bytes\"}, {\"name\": \"imagecodecs_zlib\", \"configuration\": "
                    "{\"level\": 1}}"},
        {"lz4", "{\"name\": \"bytes\"}, {\"name\": \"imagecodecs_lz4h5\"}"},
        {"jpeg", "{\"name\": \"imagecodecs_jpeg\"}"},
        {"j2k", "{\"name\": \"imagecodecs_jpeg2k\"}"}};
    size_t k = 0;
    while (strcmp(names[k][0], codec) != 0)
        k++;
    return names[k][1];
}

/* A level whose chunks have rows x cols px. The axes of OME-Zarr begin with the channels. */
static void print_level(FILE *f, const struct store_info *i, int64_t height, int64_t width,
                        int64_t rows, int64_t cols, const char *codec)
{
    const int64_t c = i->channels;
    fprintf(f,
            "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": [%" PRId64 ", %" PRId64
            ", %" PRId64 "],\n \"data_type\": \"uint8\", \"fill_value\": 255, \"dimension_names\": "
            "[\"c\", \"y\", \"x\"],\n",
            c, height, width);
    fprintf(
        f,
        " \"chunk_grid\": {\"name\": \"regular\", \"configuration\": {\"chunk_shape\": [%" PRId64
        ", %" PRId64 ", %" PRId64 "]}},\n \"chunk_key_encoding\": {\"name\": \"default\", "
        "\"configuration\": {\"separator\": \"/\"}},\n",
        c, (height + rows - 1) / rows * rows, (width + cols - 1) / cols * cols);
    fprintf(f,
            " \"codecs\": [{\"name\": \"sharding_indexed\", \"configuration\": {\"chunk_shape\": "
            "[%" PRId64 ", %" PRId64 ", %" PRId64 "],\n  \"codecs\": [{\"name\": \"transpose\", "
            "\"configuration\": {\"order\": [1, 2, 0]}}, %s],\n",
            c, rows, cols, chunk_codecs(codec));
    fputs(
        "  \"index_codecs\": [{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}, "
        "{\"name\": \"crc32c\"}],\n  \"index_location\": \"end\"}}],\n \"attributes\": {}}\n",
        f);
}

/* The middle of a pixel of level k lies (2^k - 1) / 2 px behind that of level 0. */
static void print_scales(FILE *f, int levels, double mpp_x, double mpp_y)
{
    for (int k = 0; k < levels; k++) {
        const double n = ldexp(1, k), behind = (n - 1) / 2;
        fprintf(f,
                "%s\n  {\"path\": \"%d\", \"coordinateTransformations\": [{\"type\": \"scale\", "
                "\"scale\": [1, ",
                k ? "," : "", k);
        json_write_number(f, mpp_y * n);
        fputs(", ", f);
        json_write_number(f, mpp_x * n);
        fputs("]}, {\"type\": \"translation\", \"translation\": [0, ", f);
        json_write_number(f, mpp_y * behind);
        fputs(", ", f);
        json_write_number(f, mpp_x * behind);
        fputs("]}]}", f);
    }
}

static void print_channels(FILE *f, int64_t channels)
{
    static const char *const rgb[][2] = {
        {"red", "FF0000"}, {"green", "00FF00"}, {"blue", "0000FF"}};
    static const char *const gray[][2] = {{"gray", "FFFFFF"}};
    const char *const(*names)[2] = channels == 3 ? rgb : gray;
    for (int64_t c = 0; c < channels; c++)
        fprintf(f,
                "%s\n  {\"label\": \"%s\", \"color\": \"%s\", \"active\": true, \"window\": "
                "{\"start\": 0, \"end\": 255, \"min\": 0, \"max\": 255}}",
                c ? "," : "", names[c][0], names[c][1]);
}

/* By which an image is known, and the store that it was made of. */
static char *content_of(const struct store_info *i)
{
    return memory_print("\"wsi2h5\": {\"content_crc32\": %" PRId64 "}", i->content_crc32);
}

static void print_image(FILE *f, const struct image *m)
{
    const struct store_info *i = m->i;
    const bool known = i->mpp_x > 0 && i->mpp_y > 0;
    const char *unit = known ? ", \"unit\": \"micrometer\"" : "";
    const char *name = path_base_name(m->store_path);
    char *content = content_of(i);
    fprintf(f,
            "{\"zarr_format\": 3, \"node_type\": \"group\", \"attributes\": {%s, \"ome\": {"
            "\"version\": \"0.5\",\n \"multiscales\": [{\"name\": ",
            content);
    json_write_string(f, name);
    fprintf(f,
            ", \"type\": \"mean\", \"axes\": [{\"name\": \"c\", \"type\": \"channel\"}, {\"name\": "
            "\"y\", \"type\": \"space\"%s}, {\"name\": \"x\", \"type\": \"space\"%s}],\n"
            "  \"datasets\": [",
            unit, unit);
    print_scales(f, m->levels, known ? i->mpp_x * i->downsample : 1,
                 known ? i->mpp_y * i->downsample : 1);
    fputs("]}],\n \"omero\": {\"name\": ", f);
    json_write_string(f, name);
    fputs(", \"rdefs\": {\"model\": \"color\"}, \"channels\": [", f);
    print_channels(f, i->channels);
    fputs("]}}}}\n", f);
    free(content);
}

/* A new file of the image, for writing. */
static FILE *create(const struct image *m, const char *name, struct err *e)
{
    char *path = memory_print("%s/%s", m->part, name);
    FILE *f = publish_create_stream(path);
    if (!f)
        err_sys(e, "cannot create %s", name);
    free(path);
    return f;
}

static int finish(FILE *f, const char *name, struct err *e)
{
    const bool bad = fflush(f) || fsync(fileno(f));
    return (fclose(f) || bad) ? err_sys(e, "cannot write %s", name) : 0;
}

static int put_level(const struct image *m, int k, int64_t height, int64_t width, struct err *e)
{
    char name[32];
    const struct store_info *i = m->i;
    snprintf(name, sizeof name, "%d/zarr.json", k);
    FILE *f = create(m, name, e);
    if (!f)
        return -1;
    if (k == 0)
        print_level(f, i, height, width, i->chunk_rows, i->chunk_cols, i->codec->name);
    else
        print_level(f, i, height, width, ZARR_SIDE, ZARR_SIDE,
                    zarr_levels_are_jpeg(i) ? "jpeg" : "zstd");
    return finish(f, name, e);
}

static int put_root(const struct image *m, struct err *e)
{
    FILE *f = create(m, "zarr.json", e);
    if (!f)
        return -1;
    print_image(f, m);
    return finish(f, "zarr.json", e);
}

/* --- what exists --- */

/* The beginning of the image's zarr.json, to be free()d; "" if there is none. */
static char *read_root(const struct image *m)
{
    enum { MOST = 4096 };
    char *text = memory_need(MOST, 1), *path = memory_print("%s/zarr.json", m->path);
    FILE *f = fopen(path, "rb");
    if (f) {
        text[fread(text, 1, MOST - 1, f)] = 0;
        fclose(f);
    }
    free(path);
    return text;
}

/* Is level 0 the store: a link to it, or a copy? */
static bool holds_store(const struct image *m)
{
    struct stat store, shard;
    char *path = memory_print("%s/%s", m->path, shard_0);
    const bool both = stat(path, &shard) == 0 && stat(m->store_path, &store) == 0;
    const bool linked = both && shard.st_dev == store.st_dev && shard.st_ino == store.st_ino;
    const bool copy = both && S_ISREG(shard.st_mode) && shard.st_size == store.st_size;
    free(path);
    return linked || copy;
}

static bool is_current(const struct image *m)
{
    char *text = read_root(m), *content = content_of(m->i);
    const bool same = !m->fresh && strstr(text, content) && holds_store(m);
    free(content);
    free(text);
    return same;
}

static bool is_ours(const struct image *m)
{
    struct stat st;
    char *text = read_root(m);
    const bool ours = lstat(m->path, &st) == 0 && S_ISDIR(st.st_mode) &&
                      strstr(text, "\"wsi2h5\"") && strstr(text, "\"content_crc32\"");
    free(text);
    return ours;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

/* A folder and all below it; links are not followed. */
static int remove_tree(const char *path, struct err *e)
{
    enum { DESCRIPTORS = 8 };
    struct stat st;
    if (lstat(path, &st))
        return 0;
    return nftw(path, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS)
               ? err_sys(e, "cannot remove %s", path)
               : 0;
}

/* --- making it --- */

/* Does the chunk have no pixels but 255, which Zarr shows where nothing is stored? */
static bool is_white(const struct image *m, const struct store_chunk *c, uint8_t **white,
                     struct err *e)
{
    const size_t n = (size_t)store_chunk_bytes(m->i);
    if (!*white && (*white = memory_try(n, 1, e)))
        memset(*white, 255, n);
    return *white && c->bytes == n && c->crc32 == codec_crc32(*white, n);
}

static int put_places(const struct image *m, unsigned char *index, struct err *e)
{
    uint8_t *white = NULL;
    const bool packs = m->i->codec->id != CODEC_NONE;
    int bad = 0;
    for (int64_t k = 0; k < m->chunks && !bad; k++) {
        const struct store_chunk *c = &m->list[k];
        if (c->bytes == 0 || (packs && c->raw && is_white(m, c, &white, e)))
            continue;
        if (packs && c->raw)
            bad =
                err_set(e, "some tiles are stored without compression, which Zarr cannot mix with "
                           "others; convert the slide with --codec none or keep");
        zarr_index_put(index, k, c->offset, c->bytes);
    }
    free(white);
    return bad;
}

static int append_index(const struct image *m, struct err *e)
{
    unsigned char *index = zarr_index_create(m->chunks, e);
    const int bad = !index || put_places(m, index, e) ||
                    zarr_index_append(m->store_path, index, zarr_index_end(index, m->chunks), e);
    free(index);
    return bad ? -1 : 0;
}

/* The folder of level k. */
static int make_folder(const struct image *m, int k, struct err *e)
{
    char *path = memory_print("%s/%d/c/0/0", m->part, k);
    const int bad = folder_make(path, e);
    free(path);
    return bad;
}

/* A hard link to the store; where the file system has none, a symbolic one. */
static int link_store(const struct image *m, struct err *e)
{
    char *path = memory_print("%s/%s", m->part, shard_0);
    char *to = memory_print("%s/%s", up, path_base_name(m->store_path));
    const bool bad =
        linkat(AT_FDCWD, m->store_path, AT_FDCWD, path, AT_SYMLINK_FOLLOW) && symlink(to, path);
    free(to);
    free(path);
    return bad ? err_sys(e, "cannot make a link to the store") : 0;
}

static int fill(const struct image *m, int threads, const atomic_int *threads_now, struct err *e)
{
    int64_t height = m->i->height, width = m->i->width;
    for (int k = 0; k < m->levels; k++, height -= height / 2, width -= width / 2)
        if (make_folder(m, k, e) || put_level(m, k, height, width, e))
            return -1;
    return link_store(m, e) ||
                   zarr_levels_write(m->store, m->list, m->part, threads, threads_now, e) ||
                   put_root(m, e)
               ? -1
               : 0;
}

/* The unfinished image has a fixed name and a lock, so that runs make it one after the other and
 * what a killed run has left is used again. Returns its descriptor, or -1. */
static int lock_part(const struct image *m, struct err *e)
{
    for (;;) {
        struct stat mine, there;
        if (mkdir(m->part, 0777) && errno != EEXIST)
            return err_sys(e, "cannot create it");
        const int fd = open(m->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0)
            return err_sys(e, "cannot create it");
        const bool locked = flock(fd, LOCK_EX) == 0; /* where the disk knows no locks: without */
        if (!locked || (fstat(fd, &mine) == 0 && lstat(m->part, &there) == 0 &&
                        mine.st_ino == there.st_ino && mine.st_dev == there.st_dev))
            return fd;
        close(fd); /* another run has renamed it */
    }
}

static int empty_part(const struct image *m, struct err *e)
{
    for (int k = 0; k < 64; k++) {
        char *level = memory_print("%s/%d", m->part, k);
        const int bad = remove_tree(level, e);
        free(level);
        if (bad)
            return -1;
    }
    char *root = memory_print("%s/zarr.json", m->part);
    unlink(root);
    free(root);
    return 0;
}

static int make(const struct image *m, int threads, const atomic_int *threads_now, struct err *e)
{
    if (empty_part(m, e) || fill(m, threads, threads_now, e) || remove_tree(m->path, e))
        return -1;
    return rename(m->part, m->path) ? err_sys(e, "cannot rename it")
                                    : publish_sync_folder_of(m->path, e);
}

static int make_alone(const struct image *m, int threads, const atomic_int *threads_now, bool *made,
                      struct err *e)
{
    struct err ignored;
    const int fd = lock_part(m, e);
    if (fd < 0)
        return -1;
    *made = !is_current(m); /* another run may have made it meanwhile */
    const int bad = *made ? make(m, threads, threads_now, e) : 0;
    if (bad || !*made)
        remove_tree(m->part, &ignored);
    close(fd);
    return bad;
}

static int read_list(struct image *m, struct err *e)
{
    const int64_t columns = store_chunk_columns(m->i);
    m->chunks = columns * ((m->i->height + m->i->chunk_rows - 1) / m->i->chunk_rows);
    struct store_chunk *to = m->list = memory_try((size_t)m->chunks, sizeof *m->list, e);
    for (int64_t g = 0; to && g < m->i->group_count; g++) {
        if (store_map_group(m->store, g, to, e))
            return -1;
        to += columns * store_group_chunk_rows(m->i, g);
    }
    return to ? 0 : -1;
}

static int prepare(struct image *m, struct err *e)
{
    struct stat st;
    const struct store_info *i = m->i;
    if ((i->chunk_rows % 2 && i->chunk_rows < i->height) ||
        (i->chunk_cols % 2 && i->chunk_cols < i->width))
        return err_set(e,
                       "tiles of an odd size, %" PRId64 " x %" PRId64 " px; `wsi-store zarr` "
                       "makes it of the store",
                       i->chunk_cols, i->chunk_rows);
    if (lstat(m->path, &st) == 0 && !is_ours(m))
        return err_set(e, "exists and is no image made by wsi2h5; not overwritten; remove it or "
                          "name another output");
    m->levels = zarr_levels(i);
    return read_list(m, e) || append_index(m, e) ? -1 : 0;
}

static char *part_of(const char *image)
{
    const char *name = path_base_name(image);
    return memory_print("%.*s.%s.part", (int)(name - image), image, name);
}

void zarr_image_clean(const char *store)
{
    struct err ignored;
    char *path = zarr_image_path(store), *part = part_of(path);
    const int fd = open(part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) /* nobody is making it */
        remove_tree(part, &ignored);
    if (fd >= 0)
        close(fd);
    free(part);
    free(path);
}

int zarr_image_make(const char *store, bool fresh, int threads, const atomic_int *threads_now,
                    bool *made, struct err *e)
{
    struct image m = {.store_path = store, .fresh = fresh, .path = zarr_image_path(store)};
    *made = false;
    m.part = part_of(m.path);
    m.store = store_open(store, e);
    int bad = m.store ? 0 : -1;
    m.i = m.store ? store_info(m.store) : NULL;
    if (!bad && (bad = prepare(&m, e)) == 0 && !is_current(&m))
        bad = make_alone(&m, threads, threads_now, made, e);
    if (bad)
        err_add(e, "%s", m.path);
    store_close(m.store);
    free(m.list);
    free(m.part);
    free(m.path);
    return bad;
}
