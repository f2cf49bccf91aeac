/* sources.c - see sources.h. */
#include "convert/readers/sources.h"

#include "common/base/clock.h"
#include "common/base/folder.h"
#include "common/base/path.h"
#include "common/base/read_at.h"
#include "common/codec/codec.h"
#include "convert/readers/dicom.h"
#include "convert/readers/slide_damage.h"
#include "convert/readers/tiff_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
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
    struct tiff_directory d;
    int r = 0;
    errno = 0;
    while (r == 0 && at && (*left)-- > 0 && tiff_file_directory(t, at, &d)) {
        uint64_t sub;
        const struct tiff_tag *subs = tiff_directory_tag(&d, TIFF_FILE_SUBS);
        const uint64_t n = subs ? subs->count : 0;
        r = add_directory(t, &d, crc, e);
        for (uint64_t k = 0; r == 0 && k < n; k++) {
            if (*left <= 0 || !tiff_file_values(t, subs, k, 1, &sub) || sub == 0)
                break; /* the count may be any number */
            r = add_directories(t, sub, left, crc, e);
        }
        at = d.next;
        tiff_directory_free(&d);
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

static int add_dicom(const char *path, int fd, uint32_t *crc, struct err *e)
{
    struct dicom_file f;
    uint8_t item[8];
    uint64_t pixels = 0;
    const bool read = dicom_file_open(&f, path) && dicom_file_walk(&f, find_pixels, &pixels);
    const bool tabled = read && pixels && dicom_file_bytes(&f, pixels, item, sizeof item);
    const uint32_t table = tabled ? dicom_u32(item + 4) : 0;
    const int code = f.code;
    dicom_file_close(&f);
    errno = code;
    if (code)
        return err_sys(e, "cannot be read");
    return add_bytes(fd, 0, pixels ? pixels + 8 + (table < MOST_TABLE ? table : 0) : PORTION, crc,
                     e);
}

static int add_index(const char *path, int fd, int64_t bytes, uint32_t *crc, struct err *e)
{
    struct tiff_file t;
    int left = MOST_DIRECTORIES;
    if (dicom_is(path))
        return add_dicom(path, fd, crc, e);
    errno = 0;
    if (tiff_file_open(&t, path)) {
        const int r = add_directories(&t, t.first, &left, crc, e);
        tiff_file_close(&t);
        return r;
    }
    if (slide_may_pass(errno))
        return err_sys(e, "cannot be read");
    const uint64_t n = (uint64_t)bytes, some = n < PORTION ? n : PORTION;
    return add_bytes(fd, 0, some, crc, e) || add_bytes(fd, n - some, some, crc, e) ? -1 : 0;
}

/* --- the list --- */

struct listing {
    struct sources *out;
    int64_t room;
    bool anonymous;
    struct err *e;
};

static int describe(const char *path, struct store_source *s, struct err *e)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(e, "%s: cannot open", path);
    int r = fstat(fd, &st) ? err_sys(e, "cannot read its size") : 0;
    if (r == 0) {
        s->bytes = st.st_size;
        s->mtime_ns = clock_ns(&st.st_mtim);
        r = add_index(path, fd, s->bytes, &s->index_crc32, e);
    }
    const int code = errno;
    close(fd);
    errno = code;
    return r ? err_add(e, "%s", path) : 0;
}

static int add_file(void *ctx, const char *path)
{
    struct listing *l = ctx;
    struct sources *out = l->out;
    if (out->n == STORE_MOST_SOURCES)
        return err_set(l->e, "%s: the slide has more than %d files", path, STORE_MOST_SOURCES);
    if (out->n == l->room) {
        l->room = 2 * l->room + 4;
        struct store_source *more = realloc(out->list, (size_t)l->room * sizeof *more);
        if (!more)
            return err_set(l->e, "out of memory");
        out->list = more;
    }
    struct store_source *s = &out->list[out->n];
    *s = (struct store_source){0};
    if (l->anonymous)
        snprintf(s->name, sizeof s->name, "%" PRId64, out->n + 1);
    else
        snprintf(s->name, sizeof s->name, "%s", path_base_name(path));
    if (describe(path, s, l->e))
        return -1;
    out->n++;
    return 0;
}

int sources_list(struct sources *out, struct slide *s, const char *path, bool anonymous,
                 struct err *e)
{
    struct listing l = {.out = out, .anonymous = anonymous, .e = e};
    *out = (struct sources){0};
    return s->reader->files ? s->reader->files(s, add_file, &l) : add_file(&l, path);
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

static int put_file_of(const char *folder, const char *name,
                       int (*put)(void *ctx, const char *path), void *ctx)
{
    struct stat st;
    char *path = folder_join(folder, name);
    const int r = path && !stat(path, &st) && S_ISREG(st.st_mode) ? put(ctx, path) : 0;
    free(path);
    return r;
}

/* The files of a MIRAX slide NAME.mrxs are in the folder NAME. */
static int put_folder(const char *folder, int (*put)(void *ctx, const char *path), void *ctx)
{
    struct dirent **names;
    const int n = scandir(folder, &names, NULL, by_name);
    int r = 0;
    for (int k = 0; k < n; k++) {
        r = r ? r : put_file_of(folder, names[k]->d_name, put, ctx);
        free(names[k]);
    }
    if (n >= 0)
        free(names);
    return r;
}

/* A VMS or VMU file has lines "ImageFile=NAME". */
static int put_named(const char *path, const char *folder, int (*put)(void *ctx, const char *path),
                     void *ctx)
{
    char line[1024];
    FILE *f = fopen(path, "re");
    int r = 0;
    for (long seen = 0; f && r == 0 && seen < MOST_TEXT && fgets(line, sizeof line, f);) {
        char *name = strchr(line, '=');
        seen += (long)strlen(line);
        line[strcspn(line, "\r\n")] = 0;
        if (name && name[1] && !strchr(name + 1, '/'))
            r = put_file_of(folder, name + 1, put, ctx);
    }
    if (f)
        fclose(f);
    return r;
}

int sources_companions(const char *path, int (*put)(void *ctx, const char *path), void *ctx)
{
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    const bool is_mrxs = dot && !strcasecmp(dot, ".mrxs");
    const bool is_vms = dot && (!strcasecmp(dot, ".vms") || !strcasecmp(dot, ".vmu"));
    char *folder = is_mrxs ? strndup(path, (size_t)(dot - path))
                   : slash ? strndup(path, (size_t)(slash - path + 1))
                           : strdup(".");
    int r = put(ctx, path);
    if (r == 0 && folder && is_mrxs)
        r = put_folder(folder, put, ctx);
    if (r == 0 && folder && is_vms)
        r = put_named(path, folder, put, ctx);
    free(folder);
    return r;
}
