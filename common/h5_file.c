/* h5_file.c - see h5_file.h. */
#include "common/h5_file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- writing --- */

static hid_t access_list(void)
{
    h5_init();
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110);
    H5Pset_meta_block_size(fapl, 1 << 16); /* metadata together: chunks stay one after the other */
    H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
    return fapl;
}

static hid_t create(const char *path, struct err *e)
{
    hid_t fapl = access_list(), fcpl = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_obj_track_times(fcpl, false);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    if (file < 0)
        h5_error(e, "cannot create %s", path);
    H5Pclose(fcpl);
    H5Pclose(fapl);
    return file;
}

int h5_file_create(struct h5_file *f, const char *path, struct err *e)
{
    *f = (struct h5_file){.id = -1};
    if (publish_begin(&f->publish, path, e))
        return -1;
    f->id = create(f->publish.temp_path, e);
    if (f->id >= 0)
        return 0;
    publish_abort(&f->publish);
    return -1;
}

/* The mark comes last: whatever else is in the file has been written before. */
static int finish(struct h5_file *f, struct err *e)
{
    if (H5Fflush(f->id, H5F_SCOPE_LOCAL) < 0) {
        h5_mark_broken();
        return h5_error(e, "cannot write");
    }
    if (h5_put_u8(f->id, "complete", 1, e))
        return -1;
    const bool bad = H5Fclose(f->id) < 0; /* with everything in it: H5F_CLOSE_STRONG */
    f->id = -1;
    if (!bad)
        return 0;
    h5_mark_broken();
    return h5_error(e, "cannot close the file");
}

int h5_file_commit(struct h5_file *f, int64_t *bytes, struct err *e)
{
    struct stat st;
    int r = finish(f, e);
    if (r)
        f->failed = true;
    if (r == 0 && bytes && fstat(f->publish.fd, &st))
        r = err_sys(e, "cannot look at the file");
    if (r == 0 && bytes)
        *bytes = st.st_size;
    if (r == 0)
        r = publish_commit(&f->publish, e);
    h5_file_abort(f);
    return r;
}

void h5_file_abort(struct h5_file *f)
{
    if (!f->failed && f->id >= 0 && H5Fclose(f->id) < 0)
        h5_mark_broken();
    f->id = -1;
    publish_abort(&f->publish);
}

/* --- reading --- */

static uint64_t little_endian(const unsigned char *p, int n)
{
    uint64_t v = 0;
    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

/* Looks at the superblock before the library does (HDF5 file format, II.A, versions 2 and 3). */
static int check_superblock(const char *path, struct err *e)
{
    unsigned char b[48];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(e, "%s: cannot open", path);
    ssize_t n = fstat(fd, &st) || !S_ISREG(st.st_mode) ? -1 : pread(fd, b, sizeof b, 0);
    close(fd);
    if (n < 0)
        return err_set(e, "%s: not a readable file", path);
    if (n == 0)
        return err_set(e, "%s: the file is empty", path);
    if (n < 48 || memcmp(b, "\x89HDF\r\n\x1a\n", 8))
        return err_set(e, "%s: not an HDF5 file", path);
    if ((b[8] != 2 && b[8] != 3) || b[9] != 8 || b[10] != 8)
        return err_set(e, "%s: not written by wsi2h5 or h5spec (HDF5 superblock version %d)", path,
                       b[8]);
    uint64_t base = little_endian(b + 12, 8), end = little_endian(b + 28, 8);
    if (base != 0 || end > (uint64_t)st.st_size)
        return err_set(e, "%s: truncated: it has %" PRIu64 " of %" PRIu64 " bytes; make it again",
                       path, (uint64_t)st.st_size, end);
    return 0;
}

static int check_format(hid_t file, const char *path, const char *format, int newest,
                        int64_t *version, struct err *e)
{
    char found[64];
    int64_t complete;
    if (h5_get_text(file, "format", found, sizeof found, NULL))
        return err_set(e, "%s: an HDF5 file, but not a %s of wsi2h5 or h5spec", path, format);
    if (strcmp(found, format))
        return err_set(e, "%s: is a %s, not a %s; give the right kind of file", path, found, format);
    if (h5_get_int(file, "format_version", 1, newest, version, e))
        return err_add(e, "%s: written by another version of the program", path);
    if (h5_get_int(file, "complete", 1, 1, &complete, NULL))
        return err_set(e, "%s: not complete: its writer was stopped; make it again", path);
    return 0;
}

static hid_t open_file(const char *path, struct err *e)
{
    if (check_superblock(path, e))
        return -1;
    hid_t fapl = access_list();
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, fapl);
    if (file < 0)
        h5_error(e, "%s: damaged: HDF5 cannot open it", path);
    H5Pclose(fapl);
    return file;
}

/* Does the head of a file that cannot be opened hold this text? Our metadata begin there. */
static bool head_holds(const char *path, const char *text)
{
    enum { HEAD = 1 << 17 };
    char *head = malloc(HEAD);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 || !head ? -1 : pread(fd, head, HEAD, 0);
    bool found = n > 8 && !memcmp(head, "\x89HDF\r\n\x1a\n", 8) &&
                 memmem(head, (size_t)n, text, strlen(text) + 1);
    if (fd >= 0)
        close(fd);
    free(head);
    return found;
}

enum h5_kind h5_look(const char *path, const char *format)
{
    char found[64] = "";
    int64_t complete;
    hid_t file = open_file(path, NULL);
    if (file < 0)
        return head_holds(path, format) ? H5_UNFINISHED : H5_OTHER;
    h5_get_text(file, "format", found, sizeof found, NULL);
    bool whole = !h5_get_int(file, "complete", 1, 1, &complete, NULL);
    H5Fclose(file);
    return strcmp(found, format) ? H5_OTHER : whole ? H5_WHOLE : H5_UNFINISHED;
}

hid_t h5_open(const char *path, const char *format, int newest, int64_t *version, struct err *e)
{
    hid_t file = open_file(path, e);
    if (file < 0)
        return -1;
    if (check_format(file, path, format, newest, version, e)) {
        H5Fclose(file);
        return -1;
    }
    return file;
}
