/* slide_file.c - see slide_file.h. */
#include "convert/readers/frame/slide_file.h"

#include "common/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What modules keep, the latest first; the list begins with an entry of no module. */
struct slide_kept {
    struct slide_kept *next;
    void *what;
    void (*release)(void *what);
};

static int open_regular(struct slide_file *f, const char *path, struct err *e)
{
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 && errno == ENXIO) { /* a socket */
        errno = 0;
        return err_set(e, "%s: not a file", path);
    }
    if (f->fd < 0)
        return err_sys(e,
                       errno == ENOENT   ? "%s: no such slide; check the path"
                       : errno == EACCES ? "%s: cannot be read; check its permissions"
                                         : "%s: cannot open",
                       path);
    if (fstat(f->fd, &f->st))
        return err_sys(e, "%s: cannot read its size", path);
    f->bytes = (uint64_t)f->st.st_size;
    errno = 0;
    return S_ISREG(f->st.st_mode) ? 0 : err_set(e, "%s: not a file", path);
}

struct slide_file *slide_file_open(const char *path, struct err *e)
{
    struct slide_file *f = memory_need(1, sizeof *f);
    *f = (struct slide_file){
        .path = memory_copy(path), .fd = -1, .kept = memory_need(1, sizeof *f->kept)};
    if (!open_regular(f, path, e))
        return f;
    const int code = errno;
    slide_file_close(f);
    errno = code;
    return NULL;
}

void slide_file_close(const struct slide_file *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    for (struct slide_kept *k = f->kept, *next; k; k = next) {
        next = k->next;
        if (k->release)
            k->release(k->what);
        free(k);
    }
    free(f->path);
    free((void *)f);
}

void slide_file_keep(const struct slide_file *f, void *what, void (*release)(void *what))
{
    struct slide_kept *k = memory_need(1, sizeof *k);
    *k = (struct slide_kept){f->kept->next, what, release};
    f->kept->next = k;
}

void *slide_file_kept(const struct slide_file *f, void (*release)(void *what))
{
    const struct slide_kept *k = f->kept;
    while (k && k->release != release)
        k = k->next;
    return k ? k->what : NULL;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int slide_file_confirm(const struct slide_file *f, struct err *e)
{
    struct stat now, open;
    if (stat(f->path, &now) || fstat(f->fd, &open)) {
        err_sys(e, "the file is no longer there");
        errno = EIO;
        return err_add(e, SLIDE_FILE_CHANGED);
    }
    if (is_same(&now, &f->st) && is_same(&open, &f->st))
        return 0;
    errno = EIO;
    return err_blame(e, ERR_TROUBLE, SLIDE_FILE_CHANGED);
}

/* --- damage --- */

/* EAGAIN is not among them: files never give it, and locks inside OpenSlide leave it behind. */
bool slide_may_pass(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOMEM || code == EIO || code == ESTALE ||
           code == EACCES || code == EPERM || code == EINTR || code == ETIMEDOUT;
}

/* --- what a reader finds out --- */

static const double RESOLVED_MPP = 0.05;

static bool has(double mpp)
{
    return isnan(mpp) || (mpp >= SLIDE_LEAST_MPP && mpp <= SLIDE_MOST_MPP);
}

void slide_note(struct slide_info *i, const char *format, ...)
{
    va_list values;
    const size_t n = strlen(i->note);
    const int k = snprintf(i->note + n, sizeof i->note - n, "%s", n ? "; " : "");
    const size_t at = n + (size_t)k < sizeof i->note ? n + (size_t)k : sizeof i->note - 1;
    va_start(values, format);
    vsnprintf(i->note + at, sizeof i->note - at, format, values);
    va_end(values);
}

void slide_check_mpp(struct slide_info *i)
{
    const double wrong = has(i->mpp_x) ? i->mpp_y : i->mpp_x;
    if (!has(wrong)) { /* such as a resolution for print, or a number in another unit */
        slide_note(i,
                   "it states %.6g um per px, which no scanner has (0.02 to 50), so it is unknown; "
                   "--mpp-override X gives it",
                   wrong);
        i->mpp_x = i->mpp_y = NAN;
    } else if (i->mpp_x < RESOLVED_MPP || i->mpp_y < RESOLVED_MPP)
        slide_note(i,
                   "it states %.6g um per px, which no light microscope resolves; if it is wrong, "
                   "--mpp-override X replaces it",
                   fmin(i->mpp_x, i->mpp_y));
}

int slide_reject_level(int64_t levels, int64_t level, struct err *e)
{
    if (levels == 1)
        return err_set(e, "has only level 0; --level %" PRId64 " is out of range", level);
    return err_set(e, "has levels 0 to %" PRId64 "; --level %" PRId64 " is out of range",
                   levels - 1, level);
}
