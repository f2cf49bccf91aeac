/* sources.c - see sources.h. */
#include "convert/readers/sources.h"

#include "common/base/clock.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/read_at.h"
#include "common/codec/codec.h"
#include "convert/readers/dicom/dicom_file.h"
#include "convert/readers/frame/slide_file.h"
#include "convert/readers/tiff/tiff_file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    PORTION = 1 << 16,
    MOST_TABLE = 1 << 24, /* bytes of the basic table of offsets of a DICOM file */
    MOST_DIRECTORIES = 1024,
    MOST_TEXT = 1 << 16, /* bytes of a VMS file */
};

/* --- the index of a file --- */

/* Adds bytes of the file to the CRC, as far as it has them. */
static int add_bytes(int fd, uint64_t at, uint64_t n, uint32_t *crc, struct err *e)
{
    uint8_t bytes[PORTION];
    while (n > 0) {
        const size_t some = n < sizeof bytes ? (size_t)n : sizeof bytes;
        const size_t got = read_at(fd, at, bytes, some);
        *crc = codec_crc32_more(*crc, bytes, got);
        if (got < some)
            return errno ? err_sys(e, "cannot be read") : 0;
        at += got;
        n -= got;
    }
    return 0;
}

static int add_directory(const struct tiff_file *t, const struct tiff_directory *d, uint32_t *crc,
                         struct err *e)
{
    for (size_t k = 0; k < d->n; k++) {
        const struct tiff_tag *tag = &d->tags[k];
        const uint64_t entry[3] = {tag->number, tag->type, tag->count};
        *crc = codec_crc32_more(*crc, entry, sizeof entry);
        if (tag->at < t->bytes && add_bytes(t->fd, tag->at, tiff_tag_bytes(tag), crc, e))
            return -1;
    }
    return 0;
}

/* The directories of the list that begins at `at`. */
static int add_directories(const struct tiff_file *t, uint64_t at, int *left, uint32_t *crc,
                           struct err *e)
{
    const struct tiff_directory *d;
    int r = 0;
    errno = 0;
    while (r == 0 && at && (*left)-- > 0 && (d = tiff_file_directory(t, at))) {
        uint64_t sub;
        const struct tiff_tag *subs = tiff_directory_tag(d, TIFF_FILE_SUBS);
        const uint64_t n = subs ? subs->count : 0;
        r = add_directory(t, d, crc, e);
        for (uint64_t k = 0; r == 0 && k < n; k++) {
            if (*left <= 0 || !tiff_file_values(t, subs, k, 1, &sub) || sub == 0)
                break; /* the count may be any number */
            r = add_directories(t, sub, left, crc, e);
        }
        at = d->next;
    }
    return r == 0 && slide_may_pass(errno) ? err_sys(e, "cannot be read") : r;
}

static enum dicom_step find_pixels(void *ctx, struct dicom_file *f, const struct dicom_element *e,
                                   const struct dicom_path *p)
{
    (void)f;
    if (p->depth || e->tag != DICOM_PIXELS)
        return DICOM_SKIP;
    *(uint64_t *)ctx = e->at;
    return DICOM_STOP;
}

static int add_dicom(const struct slide_file *file, uint32_t *crc, struct err *e)
{
    struct dicom_file f;
    uint8_t item[8];
    uint64_t pixels = 0;
    const bool read = dicom_file_open(&f, file) && dicom_file_walk(&f, find_pixels, &pixels);
    const bool tabled = read && pixels && dicom_file_bytes(&f, pixels, item, sizeof item);
    const uint32_t table = tabled ? dicom_u32(item + 4) : 0;
    errno = f.code;
    if (f.code)
        return err_sys(e, "cannot be read");
    return add_bytes(file->fd, 0, pixels ? pixels + 8 + (table < MOST_TABLE ? table : 0) : PORTION,
                     crc, e);
}

static int add_index(const struct slide_file *file, uint32_t *crc, struct err *e)
{
    int left = MOST_DIRECTORIES;
    if (dicom_is(file))
        return add_dicom(file, crc, e);
    errno = 0;
    const struct tiff_file *t = tiff_file_of(file);
    if (t)
        return add_directories(t, t->first, &left, crc, e);
    if (slide_may_pass(errno))
        return err_sys(e, "cannot be read");
    const uint64_t n = file->bytes, some = n < PORTION ? n : PORTION;
    return add_bytes(file->fd, 0, some, crc, e) || add_bytes(file->fd, n - some, some, crc, e) ? -1
                                                                                               : 0;
}

/* --- the list --- */

struct listing {
    struct sources *out;
    const struct slide_file *file; /* the slide's own */
    bool anonymous, blames_own;
    struct err *e;
};

static int add_file(void *ctx, const struct slide_file *file)
{
    struct listing *l = ctx;
    struct sources *out = l->out;
    if (out->n == STORE_MOST_SOURCES)
        return err_set(l->e, "the slide has more than %d files", STORE_MOST_SOURCES);
    out->list = memory_grow(out->list, out->n, sizeof *out->list);
    struct store_source *s = &out->list[out->n];
    *s = (struct store_source){0};
    if (l->anonymous)
        snprintf(s->name, sizeof s->name, "%" PRId64, out->n + 1);
    else
        snprintf(s->name, sizeof s->name, "%s", path_base_name(file->path));
    s->bytes = file->st.st_size;
    s->mtime_ns = clock_ns(&file->st.st_mtim);
    if (add_index(file, &s->index_crc32, l->e)) {
        l->blames_own = file == l->file;
        return err_add(l->e, "%s", file->path);
    }
    out->n++;
    return 0;
}

int sources_list(struct sources *out, struct slide *s, const struct slide_file *file,
                 bool anonymous, struct err *e)
{
    struct listing l = {.out = out, .file = file, .anonymous = anonymous, .e = e};
    *out = (struct sources){0};
    const int r = s->reader->files ? s->reader->files(s, add_file, &l, e) : add_file(&l, file);
    return r && !l.blames_own ? err_add(e, "%s", file->path) : r;
}

void sources_free(struct sources *s)
{
    free(s->list);
    *s = (struct sources){0};
}

/* --- files that belong to a slide's file --- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Where the files of a slide go. */
struct taker {
    int (*put)(void *ctx, const struct slide_file *file);
    void *ctx;
    struct err *e;
};

/* A name that leads to no file is passed over. */
static int put_file_of(const char *folder, const char *name, const struct taker *t)
{
    char *path = folder_join(folder, name);
    struct slide_file *file = slide_file_open(path, t->e);
    const bool none = !file && (errno == 0 || errno == ENOENT);
    const int r = file ? t->put(t->ctx, file) : none ? 0 : -1;
    slide_file_close(file);
    free(path);
    return r;
}

/* The files of a MIRAX slide NAME.mrxs are in the folder NAME. */
static int put_folder(const char *folder, const struct taker *t)
{
    struct dirent **names;
    const int n = scandir(folder, &names, NULL, by_name);
    int r = n < 0 ? err_sys(t->e, "%s: cannot be listed", folder) : 0;
    for (int k = 0; k < n; k++) {
        r = r ? r : put_file_of(folder, names[k]->d_name, t);
        free(names[k]);
    }
    if (n >= 0)
        free(names);
    return r;
}

/* The folder of a MIRAX slide; NULL for other slides. */
static char *mirax_folder(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && !strcasecmp(dot, ".mrxs") ? memory_copy_part(path, (size_t)(dot - path)) : NULL;
}

int sources_check_mirax(const struct slide_file *file, struct err *e)
{
    static const char *const names[] = {"", "Slidedat.ini", "Index.dat"};
    char *folder = mirax_folder(file->path);
    int r = 0;
    for (size_t k = 0; folder && r == 0 && k < sizeof names / sizeof *names; k++) {
        char *path = folder_join(folder, names[k]);
        if (access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR))
            r = err_set(e, "a MIRAX slide whose %s%s%s is missing; copy it beside the .mrxs file",
                        *names[k] ? names[k] : "folder ", *names[k] ? " in the folder " : "",
                        path_base_name(folder));
        free(path);
    }
    free(folder);
    errno = 0;
    return r;
}

/* A VMS or VMU file has lines "ImageFile=NAME". */
static int put_named(const struct slide_file *file, const char *folder, const struct taker *t)
{
    char *text = memory_need(1, MOST_TEXT + 1), *rest = NULL;
    int r = 0;
    if (read_at(file->fd, 0, text, MOST_TEXT) < MOST_TEXT && errno)
        r = err_sys(t->e, "%s: cannot be read", file->path);
    for (char *line = strtok_r(text, "\r\n", &rest); line && r == 0;
         line = strtok_r(NULL, "\r\n", &rest)) {
        const char *name = strchr(line, '=');
        if (name && name[1] && !strchr(name + 1, '/'))
            r = put_file_of(folder, name + 1, t);
    }
    free(text);
    return r;
}

int sources_companions(const struct slide_file *file,
                       int (*put)(void *ctx, const struct slide_file *file), void *ctx,
                       struct err *e)
{
    const struct taker t = {put, ctx, e};
    const char *path = file->path, *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    const bool is_vms = dot && (!strcasecmp(dot, ".vms") || !strcasecmp(dot, ".vmu"));
    char *mirax = mirax_folder(path);
    const bool is_mrxs = mirax != NULL;
    char *folder = is_mrxs ? mirax
                   : slash ? memory_copy_part(path, (size_t)(slash - path + 1))
                           : memory_copy(".");
    int r = put(ctx, file);
    if (r == 0 && is_mrxs)
        r = put_folder(folder, &t);
    if (r == 0 && is_vms)
        r = put_named(file, folder, &t);
    free(folder);
    return r;
}
