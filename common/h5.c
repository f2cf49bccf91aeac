/* h5.c - see h5.h. */
#include "common/h5.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 4 << 20 };

static bool broken;

void h5_enter(void)
{
    static bool begun;
    static _Thread_local bool quiet; /* the library prints its errors, unless told, in each thread */
    if (!begun) {
        begun = true;
        setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1); /* locks fail on NFS and Lustre; we need none */
        H5dont_atexit();
        H5open();
        H5PLset_loading_state(0);
    }
    if (!quiet)
        H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    quiet = true;
}

void h5_leave(void)
{
    H5Eclear2(H5E_DEFAULT); /* what is kept in a thread's list of errors would outlive the thread */
}

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

const char *h5_version(void)
{
    static char text[32];
    unsigned major, minor, release;
    H5get_libversion(&major, &minor, &release);
    snprintf(text, sizeof text, "%u.%u.%u", major, minor, release);
    return text;
}

/* --- errors --- */

/* The innermost entry of the error stack tells the cause: keeps the last one that has a text. */
static herr_t innermost(unsigned n, const H5E_error2_t *entry, void *out)
{
    (void)n;
    if (entry->desc && *entry->desc)
        snprintf(out, 512, "%s", entry->desc);
    return 0;
}

int h5_error(struct err *e, const char *fmt, ...)
{
    char cause[512] = "";
    va_list ap;
    if (e) {
        va_start(ap, fmt);
        vsnprintf(e->msg, sizeof e->msg, fmt, ap);
        va_end(ap);
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, innermost, cause);
        /* "... errno = 28, error message = 'No space left on device', buf = ..." */
        char *text = strstr(cause, "error message = '");
        char *end = text ? strchr(text += strlen("error message = '"), '\'') : NULL;
        if (end)
            *end = 0;
        if (text && !strcmp(text, strerror(ENOSPC)))
            text = "no space left on the disk; free some and run again";
        size_t n = strlen(e->msg);
        snprintf(e->msg + n, sizeof e->msg - n, ": %s", text ? text : cause[0] ? cause : "HDF5 error");
    }
    H5Eclear2(H5E_DEFAULT);
    return -1;
}

/* --- files --- */

static hid_t access_list(void)
{
    h5_enter();
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110);
    H5Pset_meta_block_size(fapl, 1 << 16); /* metadata together: chunks stay one after the other */
    H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
    return fapl;
}

hid_t h5_create(const char *path, struct err *e)
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

static int check_format(hid_t file, const char *path, const char *format, struct err *e)
{
    char found[64];
    int64_t complete, version;
    if (h5_get_text(file, "format", found, sizeof found, NULL))
        return err_set(e, "%s: an HDF5 file, but not a %s of wsi2h5 or h5spec", path, format);
    if (strcmp(found, format))
        return err_set(e, "%s: is a %s, not a %s; give the right kind of file", path, found, format);
    if (h5_get_int(file, "format_version", 1, 1, &version, e))
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
    h5_leave();
    return strcmp(found, format) ? H5_OTHER : whole ? H5_WHOLE : H5_UNFINISHED;
}

hid_t h5_open(const char *path, const char *format, struct err *e)
{
    hid_t file = open_file(path, e);
    if (file < 0)
        return -1;
    if (check_format(file, path, format, e)) {
        H5Fclose(file);
        return -1;
    }
    return file;
}

/* At once after the call that failed: the next one forgets why. */
static int write_failed(struct err *e, const char *name)
{
    h5_mark_broken();
    return h5_error(e, "cannot write %s", name);
}

/* --- attributes --- */

static int put(hid_t object, const char *name, hid_t type, hid_t memory, const void *value,
               struct err *e)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t a = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    int r = a < 0 || H5Awrite(a, memory, value) < 0 ? write_failed(e, name) : 0;
    if (a >= 0 && H5Aclose(a) < 0 && r == 0)
        r = write_failed(e, name);
    H5Sclose(space);
    return r;
}

int h5_put_int(hid_t object, const char *name, int64_t value, struct err *e)
{
    return put(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value, e);
}

int h5_put_u8(hid_t object, const char *name, uint8_t value, struct err *e)
{
    return put(object, name, H5T_STD_U8LE, H5T_NATIVE_UINT8, &value, e);
}

int h5_put_real(hid_t object, const char *name, double value, struct err *e)
{
    return put(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value, e);
}

int h5_put_text(hid_t object, const char *name, const char *value, struct err *e)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, strlen(value) + 1);
    H5Tset_cset(type, H5T_CSET_UTF8);
    int r = put(object, name, type, type, value, e);
    H5Tclose(type);
    return r;
}

bool h5_has(hid_t object, const char *name)
{
    const htri_t there = H5Aexists(object, name);
    if (there < 0)
        H5Eclear2(H5E_DEFAULT);
    return there > 0;
}

/* Opens a scalar attribute of one class; its file type goes to *type. */
static hid_t open_attribute(hid_t object, const char *name, H5T_class_t class, hid_t *type,
                            struct err *e)
{
    hid_t a = h5_has(object, name) ? H5Aopen(object, name, H5P_DEFAULT) : -1;
    if (a < 0)
        return err_set(e, "the attribute %s is missing", name);
    hid_t space = H5Aget_space(a);
    hssize_t points = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    H5Sclose(space);
    *type = H5Aget_type(a);
    if (points == 1 && H5Tget_class(*type) == class)
        return a;
    H5Tclose(*type);
    H5Aclose(a);
    return err_set(e, "the attribute %s has a wrong type", name);
}

int h5_get_int(hid_t object, const char *name, int64_t low, int64_t high, int64_t *out,
               struct err *e)
{
    hid_t type, a = open_attribute(object, name, H5T_INTEGER, &type, e);
    if (a < 0)
        return -1;
    int64_t v = 0;
    int bad = H5Aread(a, H5T_NATIVE_INT64, &v) < 0;
    H5Tclose(type);
    H5Aclose(a);
    if (bad)
        return h5_error(e, "cannot read the attribute %s", name);
    if (v < low || v > high)
        return err_set(e, "the attribute %s is %" PRId64 ", which cannot be", name, v);
    *out = v;
    return 0;
}

int h5_get_real(hid_t object, const char *name, double *out, struct err *e)
{
    hid_t type, a = open_attribute(object, name, H5T_FLOAT, &type, e);
    if (a < 0)
        return -1;
    int bad = H5Aread(a, H5T_NATIVE_DOUBLE, out) < 0;
    H5Tclose(type);
    H5Aclose(a);
    return bad ? h5_error(e, "cannot read the attribute %s", name) : 0;
}

int h5_get_text(hid_t object, const char *name, char *out, size_t size, struct err *e)
{
    hid_t type, a = open_attribute(object, name, H5T_STRING, &type, e);
    if (a < 0)
        return -1;
    size_t n = H5Tget_size(type);
    int bad = H5Tis_variable_str(type) != 0 || n == 0 || n > size;
    if (!bad) {
        memset(out, 0, size);
        bad = H5Aread(a, type, out) < 0;
        out[size - 1] = 0;
    }
    H5Tclose(type);
    H5Aclose(a);
    if (bad)
        out[0] = 0;
    return bad ? h5_error(e, "cannot read the attribute %s", name) : 0;
}

/* --- groups and arrays --- */

hid_t h5_create_group(hid_t parent, const char *name, struct err *e)
{
    hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(gcpl, false);
    hid_t g = H5Gcreate2(parent, name, H5P_DEFAULT, gcpl, H5P_DEFAULT);
    if (g < 0)
        write_failed(e, name);
    H5Pclose(gcpl);
    return g;
}

/* The link must be there, be hard, and lead to an object of this type. */
static hid_t open_object(hid_t parent, const char *name, H5I_type_t kind, struct err *e)
{
    H5L_info_t info;
    if (H5Lget_info(parent, name, &info, H5P_DEFAULT) < 0) {
        H5Eclear2(H5E_DEFAULT);
        return err_set(e, "%s is missing", name);
    }
    if (info.type != H5L_TYPE_HARD)
        return err_set(e, "%s is reached by a link that may lead out of the file: refused", name);
    hid_t o = H5Oopen(parent, name, H5P_DEFAULT);
    if (o < 0)
        return h5_error(e, "%s is damaged", name);
    if (H5Iget_type(o) == kind)
        return o;
    H5Oclose(o);
    return err_set(e, "%s is of the wrong kind", name);
}

hid_t h5_open_group(hid_t parent, const char *name, struct err *e)
{
    return open_object(parent, name, H5I_GROUP, e);
}

int h5_write_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                   int deflate, const void *data, struct err *e)
{
    hid_t space = H5Screate_simple(rank, dims, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    bool empty = H5Sget_simple_extent_npoints(space) < 1;
    H5Pset_obj_track_times(dcpl, false);
    if (deflate > 0 && !empty) {
        hsize_t chunk[3] = {dims[0], rank > 1 ? dims[1] : 1, rank > 2 ? dims[2] : 1};
        const hsize_t most = CHUNK_BYTES / (chunk[1] * chunk[2] * H5Tget_size(type)) + 1;
        chunk[0] = chunk[0] < most ? chunk[0] : most;
        H5Pset_chunk(dcpl, rank, chunk);
        H5Pset_deflate(dcpl, (unsigned)deflate);
    }
    hid_t ds = H5Dcreate2(parent, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    int r = ds < 0 ? write_failed(e, name) : 0;
    hid_t memory = r ? -1 : H5Tget_native_type(type, H5T_DIR_ASCEND);
    if (r == 0 && !empty && H5Dwrite(ds, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
        r = write_failed(e, name);
    H5Tclose(memory);
    if (ds >= 0 && H5Dclose(ds) < 0 && r == 0)
        r = write_failed(e, name);
    H5Pclose(dcpl);
    H5Sclose(space);
    return r;
}

/* External storage reads any file of the machine; virtual data may: both refused. */
static int check_storage(hid_t ds, const char *name, struct err *e)
{
    hid_t dcpl = H5Dget_create_plist(ds);
    int bad = dcpl < 0 || H5Pget_external_count(dcpl) != 0 || H5Pget_layout(dcpl) == H5D_VIRTUAL;
    H5Pclose(dcpl);
    return bad ? err_set(e, "the data of %s lie outside the file: refused", name) : 0;
}

hid_t h5_open_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                    struct err *e)
{
    hsize_t found[H5S_MAX_RANK];
    hid_t ds = open_object(parent, name, H5I_DATASET, e);
    if (ds < 0)
        return -1;
    hid_t space = H5Dget_space(ds), have = H5Dget_type(ds);
    bool good = H5Sget_simple_extent_ndims(space) == rank;
    if (good)
        H5Sget_simple_extent_dims(space, found, NULL);
    for (int i = 0; good && i < rank; i++)
        good = found[i] == dims[i];
    good = good && H5Tget_class(have) == H5Tget_class(type) && H5Tget_size(have) == H5Tget_size(type);
    H5Tclose(have);
    H5Sclose(space);
    if (!good)
        err_set(e, "%s has a wrong shape or type", name);
    if (good && !check_storage(ds, name, e))
        return ds;
    H5Dclose(ds);
    return -1;
}

int h5_read_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims,
                  void *data, struct err *e)
{
    hid_t ds = h5_open_array(parent, name, type, rank, dims, e);
    if (ds < 0)
        return -1;
    hsize_t points = 1;
    for (int i = 0; i < rank; i++)
        points *= dims[i];
    int bad = points && H5Dread(ds, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0;
    H5Dclose(ds);
    return bad ? h5_error(e, "cannot read %s", name) : 0;
}
