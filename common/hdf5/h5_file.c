/* h5_file.c - see h5_file.h. */
#include "common/hdf5/h5_file.h"

#include "common/base/version.h"
#include "common/hdf5/guard.h"
#include "common/hdf5/h5_library.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- writing --- */

enum { METADATA_BYTES = 256 << 10 };

/*
 * Keeps little metadata in memory. HDF5 holds about 75 KiB of objects for each slide of a result,
 * but counts only the 15 KiB of their bytes in the file: its default cache of 2 MiB and more would
 * take tens of MiB for a corpus.
 */
static int limit_metadata(hid_t fapl)
{
    H5AC_cache_config_t c = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    if (H5Pget_mdc_config(fapl, &c) < 0)
        return -1;
    c.set_initial_size = 1;
    c.initial_size = c.min_size = c.max_size = METADATA_BYTES;
    c.incr_mode = H5C_incr__off;
    c.flash_incr_mode = H5C_flash_incr__off;
    c.decr_mode = H5C_decr__off;
    return H5Pset_mdc_config(fapl, &c) < 0 ? -1 : 0;
}

static hid_t access_list(int64_t metadata)
{
    h5_init();
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    const hsize_t block = metadata > 0 ? (hsize_t)metadata : 2048; /* the library's */
    return h5_list(fapl, H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110) < 0 ||
                             H5Pset_meta_block_size(fapl, block) < 0 ||
                             (metadata > 0 && H5Pset_small_data_block_size(fapl, 0) < 0) ||
                             H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG) < 0 ||
                             limit_metadata(fapl));
}

static hid_t create(const char *path, int64_t metadata, struct err *e)
{
    hid_t fapl = access_list(metadata), fcpl = h5_creation(H5P_FILE_CREATE);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    if (file < 0) {
        h5_error(e, "cannot create %s", path);
        err_spare_input(e);
    }
    H5Pclose(fcpl);
    H5Pclose(fapl);
    return file;
}

int h5_file_create(struct h5_file *f, const char *path, const struct h5_format *format,
                   struct err *e)
{
    *f = (struct h5_file){.id = -1};
    if (publish_begin(&f->publish, path, e))
        return -1;
    f->id = create(f->publish.temp_path, format->metadata, e);
    if (f->id >= 0 && !h5_put_text(f->id, "format", format->name, e) &&
        !h5_put_int(f->id, "format_version", format->version, e) &&
        !h5_put_text(f->id, "creator", format->creator, e))
        return 0;
    f->failed = true;
    h5_file_abort(f);
    return -1;
}

/* The mark comes last: everything else in the file has been written before. */
static int finish(struct h5_file *f, struct err *e)
{
    if (f->seals_numbers ? h5_seal(f->id, e) : h5_seal_texts(f->id, e))
        return -1;
    if (H5Fflush(f->id, H5F_SCOPE_LOCAL) < 0)
        return h5_write_failed(e, "the file");
    if (h5_put_u8(f->id, "complete", 1, e))
        return -1;
    const bool bad = H5Fclose(f->id) < 0; /* with everything in it: H5F_CLOSE_STRONG */
    f->id = -1;
    return bad ? h5_write_failed(e, "the file") : 0;
}

int h5_file_commit(struct h5_file *f, int64_t *bytes, struct err *e)
{
    struct stat st;
    h5_lock();
    int r = finish(f, e);
    h5_unlock();
    f->failed = r != 0;
    if (r == 0 && bytes && fstat(f->publish.fd, &st))
        r = err_write(e, "cannot find the size of the file");
    if (r == 0 && bytes)
        *bytes = st.st_size;
    if (r == 0)
        r = publish_commit(&f->publish, e);
    h5_file_abort(f);
    return r;
}

/*
 * Closes the descriptor of a file that the library must not touch again. The library knows
 * files by device and inode, so the inode must not be used again while the library believes that
 * the file is open: a mapping holds it.
 */
static void take_descriptor(hid_t file)
{
    int *fd;
    if (H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&fd) < 0) {
        h5_forget();
        return;
    }
    if (mmap(NULL, 1, PROT_READ, MAP_SHARED, *fd, 0) != MAP_FAILED)
        close(*fd);
}

void h5_file_abort(struct h5_file *f)
{
    h5_lock();
    if (f->failed && f->id >= 0)
        take_descriptor(f->id);
    else if (f->id >= 0 && H5Fclose(f->id) < 0)
        h5_mark_broken();
    h5_unlock();
    f->id = -1;
    publish_abort(&f->publish);
}

/* --- reading --- */

/* Opens the file, or says in *kind what it is instead. */
static hid_t open_file(const char *path, const char *format, enum h5_kind *kind, struct err *e)
{
    struct h5_head h = {.fd = -1};
    hid_t file = -1;
    h5_watch();
    if (h5_look_at_head(&h, path, format, e))
        goto out;
    h.kind = H5_WHOLE;
    if (guard_object(h.fd, h.root, e)) {
        h.kind = errno ? H5_ERROR : h5_judge(h.fd, format, H5_UNFINISHED, H5_UNREADABLE);
        err_add(e, h.kind == H5_ERROR ? "%s" : "%s: damaged, or not written by wsi2h5 or h5spec",
                path);
        goto out;
    }
    hid_t fapl = access_list(0);
    if ((file = H5Fopen(path, H5F_ACC_RDONLY, fapl)) < 0) {
        h5_error(e, "%s: HDF5 cannot open it", path);
        h.kind =
            h5_system_failed() ? H5_ERROR : h5_judge(h.fd, format, H5_UNFINISHED, H5_UNREADABLE);
        if (h.kind != H5_ERROR)
            err_set(e, "%s: damaged: HDF5 cannot open it; " ERR_MAKE_AGAIN, path);
    }
    H5Pclose(fapl);
out:
    if (h.fd >= 0)
        close(h.fd);
    *kind = h.kind;
    return file;
}

/* A format in words; an unknown one as it is. */
static const char *kind(const char *format)
{
    return !strcmp(format, "wsi-patch-store") ? "a store"
           : !strcmp(format, "wsi-spectrum")  ? "a result"
                                              : format;
}

/* The same with the program that writes it. */
static const char *maker(const char *format)
{
    return !strcmp(format, "wsi-patch-store") ? "a store made by wsi2h5"
                                              : "a result made by h5spec";
}

bool h5_is_newer(hid_t file, const char *path, const struct h5_format *format, struct err *e)
{
    char creator[64];
    int64_t version = 0;
    int major = 0, minor = 0, own_major = 0, own_minor = 0;
    if (e && err_is_trouble(e))
        return false;
    const bool named = !h5_get_text(file, "creator", creator, sizeof creator, NULL);
    const char *number = named ? strrchr(creator, ' ') : NULL;
    sscanf(WSI_VERSION, "%d.%d", &own_major, &own_minor);
    const bool states = number && sscanf(number, " %d.%d", &major, &minor) == 2;
    const bool by_newer =
        states && (major > own_major || (major == own_major && minor > own_minor));
    const bool later = !h5_get_int(file, "format_version", 0, INT64_MAX, &version, NULL) &&
                       version > format->version;
    if (!by_newer && !later)
        return false;
    err_blame(e, ERR_NEWER,
              "newer: made by %s; update this program, which has version " WSI_VERSION,
              named ? creator : "a newer version");
    if (later)
        err_add(e, "format_version %" PRId64 "; this program reads %d", version, format->version);
    err_add(e, "%s", path);
    return true;
}

static int check_format(hid_t file, const char *path, const struct h5_format *format, struct err *e)
{
    char found[64];
    int64_t version, complete;
    const int has = h5_has(file, "format", e), says = h5_says(file, "format", format->name, e);
    if (has < 0 || says < 0)
        return err_add(e, "%s", path);
    if (!has && !says)
        return err_set(e, "%s: an HDF5 file, but not %s", path, maker(format->name));
    if (has && h5_get_text(file, "format", found, sizeof found, e))
        return err_add(e, "%s", path);
    if (says && (!has || strcmp(found, format->name)) && h5_check_seal(file, e)) /* damaged */
        return err_add(e, "%s", path);
    if (!says)
        return err_set(e, "%s: is %s; %s is needed", path, kind(found), maker(format->name));
    if (h5_get_int(file, "format_version", 0, INT64_MAX, &version, e))
        return err_add(e, "%s", path);
    if (version > format->version && h5_is_newer(file, path, format, e))
        return -1;
    if (version != format->version)
        return err_set(e, "%s: format_version %" PRId64 "; this program reads %d", path, version,
                       format->version);
    if (h5_get_int(file, "complete", 1, 1, &complete, NULL))
        return err_set(e, "%s: not complete: its writer was stopped; " ERR_MAKE_AGAIN, path);
    if (h5_check_seal(file, e))
        return err_add(e, "%s", path);
    return 0;
}

hid_t h5_open(const char *path, const struct h5_format *format, struct err *e)
{
    enum h5_kind kind;
    hid_t file = open_file(path, format->name, &kind, e);
    if (file < 0)
        return -1;
    if (check_format(file, path, format, e)) {
        H5Fclose(file);
        return -1;
    }
    return file;
}

enum h5_kind h5_look(const char *path, const struct h5_format *format, struct err *e)
{
    int64_t complete, version;
    enum h5_kind kind;
    hid_t file = open_file(path, format->name, &kind, e);
    if (file < 0)
        return kind;
    const int says = h5_says(file, "format", format->name, e),
              fd = says < 0 ? h5_descriptor(file, NULL) : -1;
    const bool whole = says > 0 && !h5_get_int(file, "complete", 1, 1, &complete, NULL);
    const bool later = says > 0 &&
                       !h5_get_int(file, "format_version", 0, INT64_MAX, &version, NULL) &&
                       version > format->version && h5_is_newer(file, path, format, e);
    kind = fd >= 0    ? h5_judge(fd, format->name, H5_UNFINISHED, H5_UNREADABLE)
           : says < 0 ? H5_ERROR
           : !says    ? H5_OTHER
           : later    ? H5_UNKNOWN
           : whole    ? H5_WHOLE
                      : H5_UNFINISHED;
    H5Fclose(file);
    if (h5_system_failed())
        kind = H5_ERROR;
    if (kind == H5_ERROR)
        err_blame(e, ERR_TROUBLE, "%s: cannot be read", path);
    else if (says < 0)
        err_add(e, "%s", path);
    return kind;
}
