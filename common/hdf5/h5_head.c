/* h5_head.c - see h5_head.h. */
#include "common/hdf5/h5_head.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/hdf5/guard_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Do the first bytes of the file hold this text? */
static bool head_holds(int fd, size_t bytes, const char *text)
{
    unsigned char *head = memory_need(bytes, 1);
    const size_t n = read_at(fd, 0, head, bytes);
    const bool found = n > 0 && memmem(head, n, text, strlen(text));
    free(head);
    return found;
}

/* A file that cannot be opened: of this format, or not? */
enum h5_kind h5_judge(int fd, const char *format, enum h5_kind if_ours)
{
    enum { HEAD = 1 << 17 };
    return head_holds(fd, HEAD, format) ? if_ours : H5_OTHER;
}

/* Looks at the superblock before the library does (HDF5 file format, II.A, versions 2 and 3). */
int h5_look_at_head(struct h5_head *h, const char *path, const char *format, struct err *e)
{
    enum { WRITER = 1, SWMR_WRITER = 4 }; /* flags of consistency, in version 3 */
    unsigned char b[48];
    struct stat st;
    h->kind = H5_ERROR;
    if ((h->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0 || fstat(h->fd, &st))
        return err_sys(e, errno == EACCES ? "%s: cannot be opened now" : "%s: cannot open", path);
    h->kind = H5_OTHER;
    if (!S_ISREG(st.st_mode))
        return err_set(e, "%s: not a regular file", path);
    const size_t n = read_at(h->fd, 0, b, sizeof b);
    if (n < sizeof b && errno) {
        h->kind = H5_ERROR;
        return err_sys(e, "%s: cannot read", path);
    }
    if (n == 0)
        return err_set(e, "%s: the file is empty", path);
    if (n < sizeof b || memcmp(b, "\x89HDF\r\n\x1a\n", 8))
        return err_set(e, "%s: not an HDF5 file; convert first: wsi2h5 -o stores/ %s", path, path);
    if ((b[8] != 2 && b[8] != 3) || b[9] != 8 || b[10] != 8 || guard_u64(b + 12) != 0 ||
        guard_u64(b + 20) != UINT64_MAX) {
        h->kind = h5_judge(h->fd, format, H5_UNKNOWN);
        return err_set(e,
                       "%s: not written by wsi2h5 or h5spec (HDF5 superblock version %d); another "
                       "program, such as h5repack, has made or rewritten it; make it again",
                       path, b[8]);
    }
    if (guard_u64(b + 28) > (uint64_t)st.st_size) {
        h->kind = h5_judge(h->fd, format, H5_UNFINISHED);
        return err_set(e, "%s: truncated: it has %" PRIu64 " of %" PRIu64 " bytes; make it again",
                       path, (uint64_t)st.st_size, guard_u64(b + 28));
    }
    if (b[8] == 3 && (b[11] & (WRITER | SWMR_WRITER))) {
        h->kind = H5_ERROR;
        return err_set(e,
                       "%s: open for writing in another program, or left so by one that died; wait "
                       "for it, or run h5clear -s %s",
                       path, path);
    }
    h->root = guard_u64(b + 36);
    return 0;
}

bool h5_is_whole(const char *path)
{
    struct h5_head h = {.fd = -1};
    const bool readable = !h5_look_at_head(&h, path, "", NULL);
    if (h.fd >= 0)
        close(h.fd);
    return readable || h.kind == H5_UNKNOWN; /* with the superblock of another program */
}

bool h5_begins_as(const char *path, const char *format)
{
    enum { BLOCKS = 1 << 13 }; /* of metadata, of a result: its first texts are in the second */
    struct h5_head h = {.fd = -1};
    const bool found = !h5_look_at_head(&h, path, "", NULL) && head_holds(h.fd, BLOCKS, format);
    if (h.fd >= 0)
        close(h.fd);
    return found;
}
