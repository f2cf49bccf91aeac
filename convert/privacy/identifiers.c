/* identifiers.c - see identifiers.h. */
#include "convert/privacy/identifiers.h"

#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/csv.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/publish.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"
#include "convert/readers/slide.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- properties --- */

enum { NUMBER, WORD, HASH }; /* kinds of values */
enum { MOST_NUMBER = 24, MOST_WORD = 16, MOST_HASH = 64, MOST_TAGS = 200, HEADER = 128 };

static const struct {
    const char *key; /* '#' stands for digits */
    int kind;
} allowed[] = {
    {"openslide.vendor", WORD},
    {"openslide.quickhash-1", HASH},
    {"openslide.background-color", HASH},
    {"openslide.mpp-x", NUMBER},
    {"openslide.mpp-y", NUMBER},
    {"openslide.objective-power", NUMBER},
    {"openslide.level-count", NUMBER},
    {"openslide.level[#].downsample", NUMBER},
    {"openslide.level[#].width", NUMBER},
    {"openslide.level[#].height", NUMBER},
    {"openslide.level[#].tile-width", NUMBER},
    {"openslide.level[#].tile-height", NUMBER},
    {"openslide.bounds-x", NUMBER},
    {"openslide.bounds-y", NUMBER},
    {"openslide.bounds-width", NUMBER},
    {"openslide.bounds-height", NUMBER},
    {"openslide.icc-size", NUMBER},
    {"aperio.AppMag", NUMBER},
    {"aperio.MPP", NUMBER},
    {"aperio.StripeWidth", NUMBER},
    {"aperio.Left", NUMBER},
    {"aperio.Top", NUMBER},
    {"aperio.OriginalWidth", NUMBER},
    {"aperio.OriginalHeight", NUMBER},
    {"aperio.Originalheight", NUMBER}, /* as some scanners write it */
    {"aperio.Filtered", NUMBER},
    {"aperio.Focus Offset", NUMBER},
    {"aperio.LineAreaXOffset", NUMBER},
    {"aperio.LineAreaYOffset", NUMBER},
    {"aperio.LineCameraSkew", NUMBER},
    {"aperio.DisplayColor", NUMBER},
    {"aperio.Exposure Time", NUMBER},
    {"aperio.Exposure Scale", NUMBER},
    {"aperio.Gamma", NUMBER},
    {"hamamatsu.SourceLens", NUMBER},
    {"hamamatsu.XOffsetFromSlideCentre", NUMBER},
    {"hamamatsu.YOffsetFromSlideCentre", NUMBER},
    {"leica.aperture", NUMBER},
    {"leica.objective", NUMBER},
    {"mirax.GENERAL.OBJECTIVE_MAGNIFICATION", NUMBER},
    {"mirax.LAYER_#_LEVEL_#_SECTION.MICROMETER_PER_PIXEL_X", NUMBER},
    {"mirax.LAYER_#_LEVEL_#_SECTION.MICROMETER_PER_PIXEL_Y", NUMBER},
    {"ventana.Magnification", NUMBER},
    {"ventana.ScanRes", NUMBER},
    {"tiff.Orientation", NUMBER},
    {"wsi2h5.focal-planes", NUMBER},
    {"tiff.ResolutionUnit", WORD},
    {"tiff.XResolution", NUMBER},
    {"tiff.YResolution", NUMBER},
};

static bool matches(const char *pattern, const char *key)
{
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (*pattern != *key++)
                return false;
            continue;
        }
        const size_t digits = strspn(key, "0123456789");
        if (digits < 1 || digits > 3)
            return false;
        key += digits;
    }
    return !*key;
}

/* Is the whole value of these characters, and not too long to be what it should be? */
static bool consists_of(const char *value, const char *characters, size_t most)
{
    const size_t n = strlen(value);
    return n > 0 && n <= most && strspn(value, characters) == n;
}

static bool is_number(const char *value)
{
    return consists_of(value, "0123456789+-.,eE", MOST_NUMBER) &&
           (isdigit((unsigned char)value[0]) || strchr("+-.", value[0]));
}

bool identifiers_allow(const char *key, const char *value)
{
    for (size_t k = 0; k < sizeof allowed / sizeof *allowed; k++)
        if (matches(allowed[k].key, key))
            switch (allowed[k].kind) {
            case NUMBER: return is_number(value);
            case WORD: return consists_of(value, "abcdefghijklmnopqrstuvwxyz-", MOST_WORD);
            default: return consists_of(value, "0123456789abcdefABCDEF", MOST_HASH);
            }
    return false;
}

/* --- ICC profiles: a header of 128 bytes, a table of tags, their data --- */

static uint32_t u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

struct icc_tag {
    uint32_t signature, at, bytes;
};

static struct icc_tag tag_at(const uint8_t *profile, uint32_t k)
{
    const uint8_t *p = profile + HEADER + 4 + 12 * k;
    return (struct icc_tag){u32(p), u32(p + 4), u32(p + 8)};
}

static bool is_valid(const uint8_t *profile, size_t n)
{
    if (n < HEADER + 4 || n > UINT32_MAX || memcmp(profile + 36, "acsp", 4))
        return false;
    const uint32_t tags = u32(profile + HEADER);
    if (tags > MOST_TAGS || HEADER + 4 + 12 * (size_t)tags > n)
        return false;
    for (uint32_t k = 0; k < tags; k++) {
        const struct icc_tag t = tag_at(profile, k);
        if (t.at < HEADER + 4 + 12 * tags || t.at > n || t.bytes < 8 || t.bytes > n - t.at)
            return false;
    }
    return true;
}

/* Tags whose data is numbers: colorants, curves, tables, measuring conditions. */
static bool is_colour(const uint8_t *data)
{
    static const char *const types[] = {"XYZ ", "curv", "para", "mft1", "mft2", "mAB ", "mBA ",
                                        "mpet", "sf32", "uf32", "ui08", "ui16", "ui32", "ui64",
                                        "chrm", "meas", "view", "sig ", "clrt", "clro", "cicp"};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (!memcmp(data, types[k], 4))
            return true;
    return false;
}

/* How many bytes at the beginning of a text tag are its structure. */
static size_t structure_bytes(const uint8_t *data, size_t n)
{
    if (!memcmp(data, "mluc", 4) && n >= 16) {
        const size_t records = u32(data + 8);
        return records <= (n - 16) / 12 ? 16 + 12 * records : 16;
    }
    return !memcmp(data, "desc", 4) && n >= 12 ? 12 : 8;
}

bool identifiers_blank_icc(uint8_t *profile, size_t n)
{
    static const uint8_t date[12] = {2000 >> 8, 2000 & 255, 0, 1, 0, 1};
    if (!is_valid(profile, n))
        return false;
    uint8_t *keep = calloc(n, 1); /* 1: this byte is not blanked */
    if (!keep)
        return false;
    const uint32_t tags = u32(profile + HEADER);
    memset(keep, 1, HEADER + 4 + 12 * (size_t)tags);
    for (uint32_t k = 0; k < tags; k++) {
        const struct icc_tag t = tag_at(profile, k);
        const uint8_t *data = profile + t.at;
        memset(keep + t.at, 1, is_colour(data) ? t.bytes : structure_bytes(data, t.bytes));
    }
    for (size_t k = 0; k < n; k++)
        profile[k] = keep[k] ? profile[k] : 0;
    memcpy(profile + 24, date, sizeof date);
    memset(profile + 48, 0, 8);  /* manufacturer and model of the device */
    memset(profile + 84, 0, 44); /* ID, reserved bytes */
    free(keep);
    return true;
}

/* --- names --- */

enum { HASH_DIGITS = 16, LEAST_STEM = 3, MOST_KEY_FILE = 1 << 30 };

int anonymous_name(const char *path, char name[ANONYMOUS_NAME], struct err *e)
{
    struct slide_info i;
    struct slide_file *file = slide_file_open(path, e);
    struct slide *s = file ? slide_open(file, 0, 1, &i, e) : NULL;
    slide_close(s);
    slide_file_close(file);
    if (!s)
        return -1;
    if (strlen(i.quickhash) < HASH_DIGITS)
        return err_set(e,
                       "%s: has no quickhash%s%s, so it cannot be named by it; --anonymous needs a "
                       "slide that OpenSlide opens",
                       path, i.problem[0] ? ": " : "", i.problem);
    snprintf(name, ANONYMOUS_NAME, "slide-%.*s", HASH_DIGITS, i.quickhash);
    return 0;
}

/* --- the key file --- */

/* "NAME,PATH\n" with the path quoted. */
static char *line_of(const char *name, const char *path)
{
    char *line = NULL;
    size_t n;
    FILE *f = memory_stream(&line, &n);
    fprintf(f, "%s,", name);
    csv_exact(f, path);
    putc('\n', f);
    memory_stream_end(f);
    return line;
}

/* 1: the file has the line, 0: it does not, -1. */
static int has_line(int fd, const char *line, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return err_sys(e, "cannot read");
    if (!S_ISREG(st.st_mode) || st.st_size > MOST_KEY_FILE)
        return err_set(e, "is not a key file");
    char *text = memory_need(1, (size_t)st.st_size + 1);
    const bool bad = read_at(fd, 0, text, (size_t)st.st_size) < (size_t)st.st_size && errno;
    const char *found = strstr(text, line);
    const int has = found && (found == text || found[-1] == '\n');
    free(text);
    return bad ? err_sys(e, "cannot read") : has;
}

/*
 * A lock that reaches all hosts, as flock() need not: the file KEY.lock, which one process creates,
 * holds for a moment and removes. It names the process, which also holds flock() on it: that shows
 * processes of other containers. One of this host that has ended holds no lock; one of another host
 * keeps others waiting for LONG, whichever clock is wrong.
 */

enum { LONG = 300, PAUSE = 20000, SAY_AFTER = 2 }; /* s, us, s */

static bool is_old(const char *path)
{
    struct stat st;
    char owner[PUBLISH_NAME] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    owner[fd < 0 ? 0 : read_at(fd, 0, owner, sizeof owner - 1)] = 0;
    const bool held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return (!held && publish_has_ended(owner)) ||
           (lstat(path, &st) == 0 && llabs((long long)(time(NULL) - st.st_mtime)) > LONG);
}

/* Another program may have done so meanwhile, and hold a lock of its own: that one is put back. */
static void drop_old(const char *lock)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return;
    char *own = memory_print("%s.%016" PRIx64, lock, number);
    if (rename(lock, own) == 0) {
        if (!is_old(own))
            (void)!link(own, lock);
        unlink(own);
    }
    free(own);
}

/* The descriptor that holds the lock, or -1. */
static int take_lock(const char *lock, struct err *e)
{
    const double begun = clock_now();
    char own[PUBLISH_NAME];
    publish_own_name(own);
    for (bool said = false;;) {
        const int fd = publish_create(lock, 0600);
        if (fd >= 0) {
            (void)!flock(fd, LOCK_EX | LOCK_NB);
            (void)!write(fd, own, strlen(own)); /* without it the age of the lock counts */
            return fd;
        }
        if (errno != EEXIST)
            return err_write(e, "cannot lock");
        if (stop_check(e))
            return -1;
        if (is_old(lock)) {
            drop_old(lock);
            continue;
        }
        if (!said && clock_now() - begun > SAY_AFTER) {
            cli_say("%s: another run holds this lock; waiting, at most %d s; if no other run is at "
                    "work, delete it",
                    lock, LONG);
            said = true;
        }
        usleep(PAUSE);
    }
}

static int add_line(int fd, const char *line, struct err *e)
{
    const size_t n = strlen(line);
    const int has = has_line(fd, line, e);
    if (has)
        return has < 0 ? -1 : 0;
    return write_whole(fd, line, n) || fsync(fd) ? err_write(e, "cannot write") : 0;
}

/* With the lock. */
static int note_line(const char *key, const char *line, struct err *e)
{
    const int fd = open(key, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd >= 0          ? publish_make_private(fd, e)
            : errno == ELOOP ? err_set(e, "is a symbolic link; name the file itself")
                             : err_write(e, "cannot open");
    r = r ? r : add_line(fd, line, e);
    if (r == 0)
        r = publish_sync_folder_of(key, e);
    if (fd >= 0 && close(fd) && r == 0)
        r = err_write(e, "cannot write");
    return r;
}

int anonymous_note(const char *key, const char *name, const char *path, struct err *e)
{
    char *line = line_of(name, path), *lock = memory_print("%s.lock", key);
    const int fd = take_lock(lock, e);
    const int r = fd < 0 ? -1 : note_line(key, line, e);
    if (fd >= 0) {
        unlink(lock);
        close(fd);
    }
    free(line);
    free(lock);
    return r ? err_add(e, "the key file %s", key) : 0;
}

/* --- messages --- */

/* They stand for names until all are found, so that no name is looked for in what replaces one. */
#define SLIDE "\1"
#define OTHER "\2"
#define MASK "\3"
#define MASKS "\4" /* the folder of several */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Replaces each `what` that is no part of a longer word. */
static void replace_words(struct err *e, const char *what, const char *by)
{
    const size_t n = strlen(what);
    struct err out = {.kind = e->kind};
    size_t used = 0;
    for (const char *at = e->msg; *at && used < sizeof out.msg - 1;) {
        const bool begins = at == e->msg || !is_word(at[-1]) || !is_word(*what);
        if (n > 0 && begins && !strncmp(at, what, n) &&
            (!is_word(at[n]) || !is_word(what[n - 1]))) {
            used += (size_t)snprintf(out.msg + used, sizeof out.msg - used, "%s", by);
            at += n;
        } else
            out.msg[used++] = *at++;
    }
    out.msg[used < sizeof out.msg ? used : sizeof out.msg - 1] = 0;
    *e = out;
}

/* Replaces each path below a folder, up to where it must have ended: names may hold nearly anything. */
static void replace_below(struct err *e, const char *folder, const char *by)
{
    struct err shown;
    err_set(&shown, "%s/", folder);
    const size_t n = strlen(shown.msg);
    for (char *at = e->msg; (at = strstr(at, shown.msg)); at++) {
        if ((at > e->msg && (is_word(at[-1]) || strchr("/.-", at[-1]))) || !at[n] || at[n] == ' ')
            continue;
        char *end = at + n, rest[sizeof e->msg];
        while (*end && strncmp(end, ": ", 2) != 0 && strncmp(end, "; ", 2) != 0)
            end++;
        snprintf(rest, sizeof rest, "%s", end);
        snprintf(at, sizeof e->msg - (size_t)(at - e->msg), "%s%s", by, rest);
    }
}

/* Replaces the names in a folder: in whole paths, and alone. */
static void replace_names(struct err *e, const char *folder)
{
    struct dirent **names = NULL;
    const int n = scandir(folder, &names, NULL, alphasort);
    for (int k = n - 1; k >= 0; k--) { /* a longer name comes before its beginning */
        const char *name = names[k]->d_name;
        struct err shown;
        err_set(&shown, "%s/%s", folder, name);
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            replace_words(e, shown.msg, OTHER);
            err_set(&shown, "%s", name);
            if (strlen(shown.msg) >= LEAST_STEM)
                replace_words(e, shown.msg, OTHER);
        }
        free(names[k]);
    }
    free(names);
    replace_below(e, folder, OTHER);
}

/* A cut message can end within a name: its last word is not shown then. */
static void drop_cut_word(struct err *e)
{
    if (strlen(e->msg) < sizeof e->msg - 1)
        return;
    char *space = strrchr(e->msg, ' ');
    if (space)
        *space = 0;
}

void anonymous_mask(struct err *e, const struct anonymous *a)
{
    struct err shown; /* a path or name as messages show it */
    const char *base = path_base_name(a->path), *dot = strrchr(base, '.');
    char *folder = base - a->path > 1 ? memory_copy_part(a->path, (size_t)(base - a->path - 1))
                                      : memory_copy(base > a->path ? "/" : ".");
    char *stem = dot && dot > base ? memory_copy_part(a->path, (size_t)(dot - a->path))
                                   : memory_copy(a->path);
    drop_cut_word(e);
    err_set(&shown, "%s", a->path);
    err_replace(e, shown.msg, SLIDE);
    if (a->mask) {
        err_set(&shown, "%s", a->mask);
        for (size_t n = strlen(shown.msg); n > 1 && shown.msg[n - 1] == '/'; n--)
            shown.msg[n - 1] = 0;
        replace_below(e, shown.msg, MASK);
        replace_words(e, shown.msg, folder_is(a->mask) ? MASKS : MASK);
    }
    err_set(&shown, "%s", base);
    err_replace(e, shown.msg, SLIDE);
    if (dot && !strcasecmp(dot, ".mrxs"))
        replace_names(e, stem);
    else if (slide_has_series(a->path) || (dot && !strncasecmp(dot, ".vm", 3)))
        replace_names(e, folder);
    replace_below(e, folder, OTHER);
    err_set(&shown, "%s", path_base_name(stem));
    if (strlen(shown.msg) >= LEAST_STEM)
        err_replace(e, shown.msg, SLIDE);
    err_replace(e, SLIDE, a->shown);
    err_replace(e, OTHER, "another file");
    err_replace(e, MASK, "its tissue mask");
    err_replace(e, MASKS, "the folder of the masks");
    free(folder);
    free(stem);
}

void anonymous_mask_text(char *text, size_t size, const struct anonymous *a)
{
    struct err e = {0};
    if (!text[0])
        return;
    snprintf(e.msg, sizeof e.msg, "%s", text);
    anonymous_mask(&e, a);
    snprintf(text, size, "%.*s", (int)size - 1, e.msg);
}

/* --- what is stored besides tiles --- */

enum { MOST_KEY = 1000, MOST_VALUE = 60000 }; /* HDF5 takes no attribute of 64 KiB and more */

/* --- reading --- */

/* Adds a problem to those in *all. */
static void note(struct err *all, const struct err *one)
{
    const struct err before = *all;
    err_set(all, "%s%s%s", before.msg, before.msg[0] ? "; " : "", one->msg);
}

static int read_icc(struct slide_extras *h, struct slide *s, bool identifiers, struct err *problem,
                    struct err *e)
{
    struct err why = {0};
    const int r = s->reader->icc ? s->reader->icc(s, &h->icc, &h->icc_bytes, &why) : 0;
    if (r == SLIDE_DAMAGED)
        note(problem, &why);
    if (r == -1)
        return err_copy(e, &why);
    if (r > 0 && !identifiers && !identifiers_blank_icc(h->icc, h->icc_bytes)) {
        free(h->icc);
        h->icc = NULL;
    }
    return 0;
}

static int read_thumbnail(struct slide_extras *h, struct slide *s, bool keep, struct err *problem,
                          struct err *e)
{
    struct err why = {0};
    const int kept =
        keep && s->reader->thumbnail_jpeg ? s->reader->thumbnail_jpeg(s, &h->strips, e) : 0;
    if (kept)
        return kept < 0 ? -1 : 0;
    const int r = s->reader->thumbnail(s, &h->thumbnail, &h->width, &h->height, &why);
    if (r == SLIDE_DAMAGED)
        note(problem, &why);
    return r == -1 ? err_copy(e, &why) : 0;
}

int slide_extras_read(struct slide_extras *h, struct slide *s, const struct slide_info *i,
                      bool identifiers, bool keep, struct err *problem, struct err *e)
{
    *h = (struct slide_extras){0};
    if (read_icc(h, s, identifiers, problem, e))
        return -1;
    return i->has_thumbnail ? read_thumbnail(h, s, keep, problem, e) : 0;
}

void slide_extras_free(struct slide_extras *h)
{
    free(h->thumbnail);
    jpeg_strips_free(&h->strips);
    free(h->icc);
    *h = (struct slide_extras){0};
}

/* --- writing --- */

struct property_ctx {
    struct store_writer *writer;
    bool identifiers;
    struct err *e;
};

static int put_property(void *ctx, const char *key, const char *value)
{
    const struct property_ctx *p = ctx;
    if (strlen(key) > MOST_KEY || (!p->identifiers && !identifiers_allow(key, value)))
        return 0;
    if (strlen(value) <= MOST_VALUE)
        return store_put_property(p->writer, key, value, p->e);
    char *cut = memory_copy_part(value, MOST_VALUE);
    const int r = store_put_property(p->writer, key, cut, p->e);
    free(cut);
    return r;
}

int slide_extras_put(const struct slide_extras *h, struct slide *s, bool identifiers, int threads,
                     struct store_writer *w, struct err *e)
{
    struct property_ctx ctx = {w, identifiers, e};
    if ((s->reader->properties && s->reader->properties(s, put_property, &ctx)) ||
        (h->icc && store_put_icc(w, h->icc, h->icc_bytes, e)))
        return -1;
    if (h->strips.n > 0)
        return store_put_kept_thumbnail(w, &h->strips, e);
    return h->thumbnail ? store_put_thumbnail(w, h->thumbnail, h->width, h->height, threads, e) : 0;
}
