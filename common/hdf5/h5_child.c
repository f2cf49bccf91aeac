/* h5_child.c - see h5_child.h. */
#include "common/hdf5/h5_child.h"

#include "common/base/memory.h"
#include "common/base/publish.h"
#include "common/base/read_at.h"
#include "common/hdf5/h5.h"
#include "common/hdf5/h5_library.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 1 << 14, MOST_WIDTH = 16, MOST_SECONDS = 600 };
#define MOST_ROWS (INT64_C(1) << 31)
#define MOST_MEMORY (UINT64_C(4) << 30)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* sanitizers reserve terabytes of addresses */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

/* The message of the child to its parent. */
struct answer {
    struct h5_child table;
    struct err e; /* "": it worked */
};

/* A dataset that is copied. */
struct part {
    hid_t id;
    int rank;
    hsize_t width; /* numbers of a row */
};

struct copy {
    struct answer *a;
    hid_t file;
    struct part part[H5_CHILD_COLUMNS];
    int n;
    int fd;
};

/* --- in the child --- */

static bool is_number(hid_t set)
{
    const hid_t type = H5Dget_type(set);
    const H5T_class_t class = H5Tget_class(type);
    H5Tclose(type);
    return class == H5T_INTEGER || class == H5T_FLOAT;
}

static bool is_inside(hid_t set)
{
    const hid_t list = H5Dget_create_plist(set);
    const bool inside = H5Pget_layout(list) != H5D_VIRTUAL && H5Pget_external_count(list) == 0;
    H5Pclose(list);
    return inside;
}

/* Opens a dataset of [rows] or [rows][width] numbers that is stored in this file, or returns -1. */
static hid_t open_part(hid_t file, const char *name, struct part *p, hsize_t *rows)
{
    struct err no;
    uint64_t address;
    hsize_t dims[2] = {0, 1};
    if (h5_find(file, name, &address, &no))
        return -1;
    p->id = H5Dopen2(file, name, H5P_DEFAULT);
    const hid_t space = p->id < 0 ? -1 : H5Dget_space(p->id);
    p->rank = space < 0 ? 0 : H5Sget_simple_extent_ndims(space);
    if ((p->rank == 1 || p->rank == 2) && H5Sget_simple_extent_dims(space, dims, NULL) == p->rank &&
        is_number(p->id) && is_inside(p->id)) {
        H5Sclose(space);
        *rows = dims[0];
        p->width = p->rank == 2 ? dims[1] : 1;
        return p->id;
    }
    H5Sclose(space);
    H5Dclose(p->id);
    return -1;
}

static void add_columns(struct copy *c, const char *name, const struct part *p)
{
    struct h5_child *t = &c->a->table;
    if (t->columns + (int64_t)p->width > H5_CHILD_COLUMNS)
        return;
    for (hsize_t k = 0; k < p->width; k++) {
        char *out = t->name[t->columns++];
        if (p->width == 1)
            snprintf(out, H5_CHILD_NAME, "%.*s", H5_CHILD_NAME - 1, name);
        else
            snprintf(out, H5_CHILD_NAME, "%.*s_%u", H5_CHILD_NAME - 12, name, (unsigned)k + 1);
    }
    c->part[c->n++] = *p;
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *info, void *ctx)
{
    struct copy *c = ctx;
    struct part p;
    hsize_t rows;
    (void)info;
    if (strcmp(name, "coords") && open_part(group, name, &p, &rows) >= 0 &&
        (int64_t)rows == c->a->table.rows && p.width >= 1 && p.width <= MOST_WIDTH)
        add_columns(c, name, &p);
    return 0;
}

/* A number that is an attribute, or the first of several; NaN: there is none. */
static double attribute(hid_t object, const char *name)
{
    double v[MOST_WIDTH] = {NAN};
    if (H5Aexists(object, name) <= 0)
        return NAN;
    const hid_t a = H5Aopen(object, name, H5P_DEFAULT), space = H5Aget_space(a);
    const hid_t type = H5Aget_type(a);
    const hssize_t n = H5Sget_simple_extent_npoints(space);
    const H5T_class_t class = H5Tget_class(type);
    if (n < 1 || n > MOST_WIDTH || (class != H5T_INTEGER && class != H5T_FLOAT) ||
        H5Aread(a, H5T_NATIVE_DOUBLE, v) < 0)
        v[0] = NAN;
    H5Tclose(type);
    H5Sclose(space);
    H5Aclose(a);
    return v[0];
}

/* TRIDENT states the size at level 0; CLAM that at the level of patch_level. */
static double size_of(hid_t coords)
{
    const double at_0 = attribute(coords, "patch_size_level0");
    const double size = attribute(coords, "patch_size");
    const double downsample = attribute(coords, "downsample");
    const double v = !isnan(at_0) ? at_0 : isnan(downsample) ? size : size * downsample;
    return v >= 1 && v < 1e9 ? v : 0;
}

static int find_parts(struct copy *c, struct err *e)
{
    struct h5_child *t = &c->a->table;
    struct part p;
    hsize_t rows = 0;
    if (open_part(c->file, "coords", &p, &rows) < 0 || p.rank != 2 || p.width != 2)
        return err_set(e, "has no dataset coords of N x 2 numbers, as TRIDENT and CLAM write it");
    if (rows > (hsize_t)MOST_ROWS)
        return err_set(e, "says that it has %llu rows", (unsigned long long)rows);
    t->rows = (int64_t)rows;
    t->size = size_of(p.id);
    add_columns(c, "", &p);
    strcpy(t->name[0], "x");
    strcpy(t->name[1], "y");
    if (H5Literate(c->file, H5_INDEX_NAME, H5_ITER_INC, NULL, visit, c) < 0)
        return err_set(e, "damaged: its datasets cannot be listed");
    if (t->columns < 3)
        return err_set(e, "has no dataset of values: %lld numbers beside coords",
                       (long long)t->rows);
    return 0;
}

/* Rows first .. first + n - 1 of a dataset. */
static int read_part(const struct part *p, hsize_t first, hsize_t n, double *out)
{
    const hsize_t start[2] = {first, 0}, count[2] = {n, p->width};
    const hid_t space = H5Dget_space(p->id), memory = H5Screate_simple(p->rank, count, NULL);
    const bool bad = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
                     H5Dread(p->id, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, out) < 0;
    H5Sclose(memory);
    H5Sclose(space);
    return bad ? -1 : 0;
}

static int copy_rows(struct copy *c, struct err *e)
{
    const struct h5_child *t = &c->a->table;
    double *in = malloc(sizeof(double[BLOCK][MOST_WIDTH]));
    double *out = malloc(sizeof(double) * BLOCK * (size_t)t->columns);
    for (int64_t y = 0; in && out && y < t->rows; y += BLOCK) {
        const int64_t n = t->rows - y < BLOCK ? t->rows - y : BLOCK;
        int64_t at = 0;
        for (int k = 0; k < c->n; k++) {
            const int64_t width = (int64_t)c->part[k].width;
            if (read_part(&c->part[k], (hsize_t)y, (hsize_t)n, in))
                return err_set(e, "damaged: rows from %lld on cannot be read", (long long)y + 1);
            for (int64_t j = 0; j < n; j++)
                memcpy(out + j * t->columns + at, in + j * width, sizeof *in * (size_t)width);
            at += width;
        }
        if (write_whole(c->fd, out, sizeof *out * (size_t)(n * t->columns)))
            return temporary_failed("numbers", e);
    }
    return in && out ? 0 : err_memory(e);
}

static void child(const char *path, int fd, int tell)
{
    static struct answer a;
    struct copy c = {.a = &a, .fd = fd};
    const struct rlimit seconds = {MOST_SECONDS, MOST_SECONDS}, none = {0, 0};
#ifndef SANITIZED
    const struct rlimit memory = {MOST_MEMORY, MOST_MEMORY};
    setrlimit(RLIMIT_AS, &memory);
#endif
    const int null = open("/dev/null", O_WRONLY);
    if (null >= 0) { /* for what the C library says of a broken stack */
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CPU, &seconds);
    setrlimit(RLIMIT_CORE, &none);
    for (int s = 1; s < 32; s++)
        signal(s, SIG_DFL);
    h5_init();
    if ((c.file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT)) < 0)
        err_set(&a.e, "damaged, or still being written: HDF5 cannot open it");
    else if (!find_parts(&c, &a.e))
        copy_rows(&c, &a.e);
    _exit(write_whole(tell, &a, sizeof a) ? 1 : 0);
}

/* --- in the parent --- */

static int read_answer(int fd, struct answer *a)
{
    size_t got = 0;
    while (got < sizeof *a) {
        const ssize_t n = read(fd, (char *)a + got, sizeof *a - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        got += (size_t)n;
    }
    return 0;
}

/* A damaged file may have changed the memory of the child: its answer is checked. */
static int check_answer(struct answer *a, int fd, struct err *e)
{
    struct h5_child *t = &a->table;
    struct stat st;
    a->e.msg[sizeof a->e.msg - 1] = 0;
    if (a->e.kind > ERR_DISK)
        a->e.kind = ERR_INPUT;
    if (a->e.msg[0])
        return err_copy(e, &a->e);
    for (int k = 0; k < H5_CHILD_COLUMNS; k++)
        t->name[k][H5_CHILD_NAME - 1] = 0;
    if (t->rows < 0 || t->rows > MOST_ROWS || t->columns < 3 || t->columns > H5_CHILD_COLUMNS ||
        fstat(fd, &st) || st.st_size != t->rows * t->columns * (int64_t)sizeof(double))
        return err_set(e, "damaged: HDF5 reads invalid data from it");
    return 0;
}

int h5_child_read(const char *path, int fd, struct h5_child *out, struct err *e)
{
    struct answer *a = memory_need(1, sizeof *a);
    int ends[2] = {-1, -1}, status = 0;
    const pid_t pid = pipe(ends) ? -1 : fork();
    if (pid < 0) {
        free(a);
        return err_sys(e, "no process can be started to read it");
    }
    if (pid == 0) {
        close(ends[0]);
        child(path, fd, ends[1]);
    }
    close(ends[1]);
    int bad = read_answer(ends[0], a);
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (bad || !WIFEXITED(status) || WEXITSTATUS(status))
        bad = err_set(e, "damaged: HDF5 crashes on it");
    else
        bad = check_answer(a, fd, e);
    if (!bad)
        *out = a->table;
    free(a);
    return bad;
}
