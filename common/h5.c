/* h5.c - the library, its errors, groups and datasets; see h5.h and h5_exit.h. */
#include "common/h5.h"

#include "common/h5_exit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 4 << 20 };

static bool broken;

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

/* At once after the call that failed: the next one forgets why. */
int h5_write_failed(struct err *e, const char *name)
{
    h5_mark_broken();
    return h5_error(e, "cannot write %s", name);
}

/* --- groups and arrays --- */

hid_t h5_create_group(hid_t parent, const char *name, struct err *e)
{
    hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(gcpl, false);
    hid_t g = H5Gcreate2(parent, name, H5P_DEFAULT, gcpl, H5P_DEFAULT);
    if (g < 0)
        h5_write_failed(e, name);
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
    int r = ds < 0 ? h5_write_failed(e, name) : 0;
    hid_t memory = r ? -1 : H5Tget_native_type(type, H5T_DIR_ASCEND);
    if (r == 0 && !empty && H5Dwrite(ds, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
        r = h5_write_failed(e, name);
    H5Tclose(memory);
    if (ds >= 0 && H5Dclose(ds) < 0 && r == 0)
        r = h5_write_failed(e, name);
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
