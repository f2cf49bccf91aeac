/* h5_library.c - see h5_library.h. */
#include "common/hdf5/h5_library.h"

#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/read_at.h"
#include "common/hdf5/guard_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void h5_init(void)
{
    static bool begun;
    if (begun)
        return;
    begun = true;
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1); /* locks fail on NFS and Lustre; we need none */
    H5dont_atexit();
    H5open();
    H5PLset_loading_state(0);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* else the library prints its errors */
}

/* The innermost entry of the error stack has the cause: keeps the last one with a text. */
static herr_t innermost(unsigned n, const H5E_error2_t *entry, void *out)
{
    (void)n;
    if (entry->desc && *entry->desc)
        snprintf(out, 512, "%s", entry->desc);
    return 0;
}

static _Thread_local bool system_failed;

/* The errno that the library states in an entry, "..., errno = 28, ...", behind names of files.
 * 0: none. */
static int errno_of(const H5E_error2_t *entry)
{
    static const char mark[] = "errno = ";
    const char *last = NULL;
    for (const char *at = entry->desc; at && (at = strstr(at, mark)); last = at)
        at += strlen(mark);
    return last ? atoi(last) : 0;
}

/* Notes an errno in *code, and the library's own codes of missing memory. */
static herr_t find_system_error(unsigned n, const H5E_error2_t *entry, void *code)
{
    (void)n;
    const int number = errno_of(entry);
    if (number)
        *(int *)code = number;
    if (number || entry->min_num == H5E_NOSPACE || entry->min_num == H5E_CANTALLOC)
        system_failed = true;
    return 0;
}

void h5_watch(void)
{
    system_failed = false;
}

bool h5_system_failed(void)
{
    return system_failed;
}

void h5_note_system_failure(void)
{
    system_failed = true;
}

/* Returns the errno of the errors that are forgotten, or 0. */
static int forget(void)
{
    int code = 0;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, find_system_error, &code);
    H5Eclear2(H5E_DEFAULT);
    return code;
}

void h5_forget(void)
{
    forget();
}

/* Cuts "... errno = 28, error message = 'No space left on device', buf = ..." down to the message.
 * `code`: that errno. */
static const char *plain_cause(char *cause, int code)
{
    char *text = strstr(cause, "error message = '");
    char *end = text ? strchr(text += strlen("error message = '"), '\'') : NULL;
    if (end)
        *end = 0;
    if (text && code == ENOSPC)
        return "no space left on the disk; free some and run again";
    if (text && code == EFBIG)
        return "File too large (the limit of file sizes: ulimit -f)";
    return text ? text : *cause ? cause : "HDF5 error";
}

int h5_error(struct err *e, const char *fmt, ...)
{
    char cause[512] = "";
    va_list ap;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, innermost, cause);
    const int code = forget();
    if (e) {
        va_start(ap, fmt);
        vsnprintf(e->msg, sizeof e->msg, fmt, ap);
        va_end(ap);
        const size_t n = strlen(e->msg);
        snprintf(e->msg + n, sizeof e->msg - n, ": %s", plain_cause(cause, code));
        err_clean(e->msg);
        e->kind = err_kind_of(code);
    }
    return -1;
}

int h5_write_failed(struct err *e, const char *name)
{
    h5_mark_broken();
    h5_error(e, "cannot write %s", name);
    return err_spare_input(e);
}

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static _Thread_local bool quiet; /* builds for threads print the errors of each thread by default */

void h5_lock(void)
{
    pthread_mutex_lock(&lock);
    h5_init();
    if (!quiet)
        quiet = H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0;
}

void h5_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static bool broken;

void h5_mark_broken(void)
{
    broken = true;
}

_Noreturn void h5_exit(int status)
{
    if ((fflush(stdout) || ferror(stdout)) && status == 0)
        status = 1;
    fflush(stderr);
    if (broken)
        _exit(status);
    exit(status); /* without H5close: everything has been closed, and checked, before */
}

const char *h5_library(void)
{
    static char text[64];
    unsigned major, minor, release;
    H5get_libversion(&major, &minor, &release);
    snprintf(text, sizeof text, "HDF5 %u.%u.%u", major, minor, release);
    return text;
}

/* --- plug-ins --- */

/* Where it is, from the folder of the programs: after `make install` or pip, and in a build folder.
 */
static const char *const places[] = {"../lib/wsi2h5/plugin", "."};

static bool get_folder(unsigned k, char folder[H5_PLUGIN_PATH])
{
    const ssize_t n = H5PLget(k, folder, H5_PLUGIN_PATH);
    return n > 0 && n < H5_PLUGIN_PATH;
}

bool h5_plugin_folder(char folder[H5_PLUGIN_PATH])
{
    h5_init();
    return get_folder(0, folder);
}

static bool has_plugin(const char *folder, const struct codec *c)
{
    char path[2 * H5_PLUGIN_PATH];
    snprintf(path, sizeof path, "%s/libh5%s.so", folder, c->name);
    return access(path, R_OK) == 0;
}

static bool is_found(const struct codec *c)
{
    unsigned n = 0;
    char folder[H5_PLUGIN_PATH];
    h5_init();
    if (H5PLsize(&n) < 0)
        return false;
    for (unsigned k = 0; k < n; k++)
        if (get_folder(k, folder) && has_plugin(folder, c))
            return true;
    return false;
}

/* The folder of the plug-in that came with this program. */
static bool own_folder(const struct codec *c, char full[H5_PLUGIN_PATH])
{
    char program[H5_PLUGIN_PATH], folder[H5_PLUGIN_PATH + 32];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    char *slash = strrchr(program, '/');
    if (!slash)
        return false;
    *slash = 0;
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        snprintf(folder, sizeof folder, "%s/%s", program, places[k]);
        if (has_plugin(folder, c) && realpath(folder, full))
            return true;
    }
    return false;
}

bool h5_plugin_command(const struct codec *c, const char *path, const int64_t size[3],
                       char **command)
{
    const int64_t n = size[1] < 4 ? size[1] : 4;
    enum { FIRST_REGISTERED = 256 }; /* filters below are HDF5's own */
    const bool found = c->h5_filter < FIRST_REGISTERED || is_found(c);
    char folder[H5_PLUGIN_PATH] = "";
    *command = NULL;
    if (!found && !own_folder(c, folder))
        return false;
    char *quoted = path_quoted(folder), *file = path_quoted(path);
    *command = memory_print("%s%s%sh5dump -d /pixels -s %" PRId64 ",%" PRId64 ",0 -c 1,%" PRId64
                            ",%" PRId64 " %s",
                            found ? "" : "HDF5_PLUGIN_PATH=", found ? "" : quoted, found ? "" : " ",
                            size[0] / 2, (size[1] - n) / 2, n, size[2], file);
    free(quoted);
    free(file);
    return found;
}

const char *h5_plugin_missing(const struct codec *c)
{
    static char text[256];
    snprintf(
        text, sizeof text,
        "h5dump and h5py cannot show pixels of codec %s: libh5%s.so is not beside this "
        "program; run make in the folder of its sources, or apt-get install hdf5-plugin-h5jpeg",
        c->name, c->name);
    return text;
}

/* --- the superblock --- */

/* Do the first bytes of the file hold this text? 1, 0, or -1: they cannot be read now. */
static int head_holds(int fd, size_t bytes, const char *text)
{
    unsigned char *head = memory_need(bytes, 1);
    const size_t n = read_at(fd, 0, head, bytes);
    const bool failed = n < bytes && errno;
    const bool found = n > 0 && memmem(head, n, text, strlen(text));
    free(head);
    return found ? 1 : failed ? -1 : 0;
}

enum h5_kind h5_judge(int fd, const char *format, enum h5_kind if_ours, enum h5_kind if_not)
{
    enum { HEAD = 1 << 17 };
    const int holds = head_holds(fd, HEAD, format);
    return holds < 0 ? H5_ERROR : holds ? if_ours : if_not;
}

/* How many bytes of HDF5's signature are right: a damaged one has most of them. */
static int signature_bytes(const unsigned char *b)
{
    static const unsigned char signature[] = "\x89HDF\r\n\x1a\n";
    int same = 0;
    for (int k = 0; k < 8; k++)
        same += b[k] == signature[k];
    return same;
}

/* Is a superblock what some program has written (II.A)? One with a wrong bit is not. Versions 2 and
 * 3 have a checksum; 0 and 1 have zeros and the sizes of offsets. */
static bool superblock_is_sound(const unsigned char b[48])
{
    if (signature_bytes(b) < 8 || b[8] > 3)
        return false;
    if (b[8] >= 2 && b[9] == 8)
        return guard_lookup3(b, 44) == guard_number(b + 44, 4);
    return b[8] >= 2 ? b[9] == 2 || b[9] == 4
                     : !(b[9] | b[10] | b[11] | b[12]) && (b[13] == 2 || b[13] == 4 || b[13] == 8);
}

/* A slide, or what has the name of a store or a result. */
static int not_hdf5(const char *path, struct err *e)
{
    const size_t n = strlen(path);
    if (n > 3 && !strcmp(path + n - 3, ".h5"))
        return err_set(e, "%s: not an HDF5 file; " ERR_MAKE_AGAIN, path);
    err_set(e, "%s: not an HDF5 file", path);
    return path_remedy(e, "convert first: wsi2h5 -o stores/", path);
}

/* A socket, or a device that is not there, is no file of ours. */
static int open_failed(struct h5_head *h, const char *path, struct err *e)
{
    if (errno != ENXIO && errno != ENODEV)
        return err_sys(e, "%s: cannot open", path);
    h->kind = H5_UNREADABLE;
    errno = 0;
    return err_set(e, "%s: not a regular file", path);
}

/* Looks at the superblock before the library does (HDF5 file format, II.A, versions 2 and 3). */
int h5_look_at_head(struct h5_head *h, const char *path, const char *format, struct err *e)
{
    enum { WRITER = 1, SWMR_WRITER = 4 }; /* flags of consistency, in version 3 */
    unsigned char b[48];
    struct stat st;
    h->kind = H5_ERROR;
    if ((h->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0 || fstat(h->fd, &st))
        return errno == EACCES ? err_blame(e, ERR_TROUBLE, "%s: cannot be opened now: %s", path,
                                           strerror(errno))
                               : open_failed(h, path, e);
    h->kind = H5_UNREADABLE;
    if (!S_ISREG(st.st_mode))
        return err_set(e, "%s: not a regular file", path);
    const size_t n = read_at(h->fd, 0, b, sizeof b);
    if (n < sizeof b && errno) {
        h->kind = H5_ERROR;
        return err_sys(e, "%s: cannot read", path);
    }
    if (n == 0)
        return err_set(e, "%s: the file is empty", path);
    if (n < sizeof b || signature_bytes(b) < 6)
        return not_hdf5(path, e);
    if (!superblock_is_sound(b)) {
        h->kind = h5_judge(h->fd, format, H5_UNFINISHED, H5_UNREADABLE);
        return err_set(e, "%s: damaged (in its first %zu bytes); " ERR_MAKE_AGAIN, path, sizeof b);
    }
    if ((b[8] != 2 && b[8] != 3) || b[9] != 8 || b[10] != 8 || guard_u64(b + 12) != 0 ||
        guard_u64(b + 20) != UINT64_MAX) {
        h->kind = h5_judge(h->fd, format, H5_UNKNOWN, H5_OTHER);
        return err_set(e,
                       "%s: not written by wsi2h5 or h5spec (HDF5 superblock version %d); another "
                       "program, such as h5repack, has made or rewritten it; " ERR_MAKE_AGAIN,
                       path, b[8]);
    }
    if (guard_u64(b + 28) > (uint64_t)st.st_size) {
        h->kind = h5_judge(h->fd, format, H5_UNFINISHED, H5_UNREADABLE);
        return err_set(e, "%s: truncated: it has %" PRIu64 " of %" PRIu64 " bytes; " ERR_MAKE_AGAIN,
                       path, (uint64_t)st.st_size, guard_u64(b + 28));
    }
    if (b[8] == 3 && (b[11] & (WRITER | SWMR_WRITER))) {
        h->kind = H5_ERROR;
        err_blame(
            e, ERR_TROUBLE,
            "%s: open for writing in another program, or left so by one that died; wait for it",
            path);
        return path_remedy(e, "or run: h5clear -s", path);
    }
    h->root = guard_u64(b + 36);
    return 0;
}

bool h5_begins_as(const char *path, const char *format)
{
    enum { BLOCKS = 1 << 13 }; /* of metadata, of a result: its first texts are in the second */
    struct h5_head h = {.fd = -1};
    const bool found = !h5_look_at_head(&h, path, "", NULL) && head_holds(h.fd, BLOCKS, format) > 0;
    if (h.fd >= 0)
        close(h.fd);
    return found;
}
