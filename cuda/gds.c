/* gds.c - see gds.h. */
#include "cuda/gds.h"

#include "common/base/memory.h"

#ifdef HAVE_CUFILE

#include <cufile.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WITH_WAYS = 3 /* cuFile's level of statistics that counts the ways of reading */ };

struct spectrum_file {
    CUfileHandle_t handle;
};

static int failed(const char *call, CUfileError_t r, struct err *e)
{
    if (r.err == CU_FILE_CUDA_DRIVER_ERROR)
        return err_blame(e, ERR_TROUBLE, "GPUDirect Storage: %s: error %d of the CUDA driver", call,
                         (int)r.cu_err);
    return err_set(e, "GPUDirect Storage: %s: %s", call, CUFILE_ERRSTR(r.err));
}

static int check(const char *call, CUfileError_t r, struct err *e)
{
    return r.err == CU_FILE_SUCCESS ? 0 : failed(call, r, e);
}

/* Is it the file or the machine that cuFile does not support? Else CUDA has failed, or the call is
 * wrong. */
static bool refuses(CUfileError_t r)
{
    return r.err != CU_FILE_CUDA_DRIVER_ERROR && r.err != CU_FILE_INVALID_FILE_OPEN_FLAG &&
           r.err != CU_FILE_DIO_NOT_SET && r.err != CU_FILE_INVALID_VALUE &&
           r.err != CU_FILE_HANDLE_ALREADY_REGISTERED;
}

int gds_open(struct err *e)
{
    const CUfileError_t r = cuFileDriverOpen();
    if (check("cuFileDriverOpen", r, e)) {
        if (refuses(r))
            err_add(e, "cuFile cannot be used here; choose --io direct");
        return -1;
    }
    /* Without statistics mode() claims nothing. */
    if (cuFileSetStatsLevel(WITH_WAYS).err == CU_FILE_SUCCESS)
        cuFileStatsStart();
    return 0;
}

void gds_close(void)
{
    cuFileDriverClose();
}

struct spectrum_file *gds_file_open(int fd, struct err *e)
{
    CUfileDescr_t about = {.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd};
    struct spectrum_file *f = memory_need(1, sizeof *f);
    const CUfileError_t r = cuFileHandleRegister(&f->handle, &about);
    if (check("cuFileHandleRegister", r, e) == 0)
        return f;
    if (refuses(r))
        err_add(e, "cuFile takes no file here (its cufile.log says why); choose --io direct");
    free(f);
    return NULL;
}

int gds_register(void *d_memory, size_t bytes, struct err *e)
{
    return check("cuFileBufRegister", cuFileBufRegister(d_memory, bytes, 0), e);
}

void gds_forget(void *d_memory)
{
    cuFileBufDeregister(d_memory);
}

int64_t gds_read(struct spectrum_file *f, void *d_memory, size_t at, uint64_t offset, size_t n,
                 struct err *e)
{
    size_t have = 0;
    while (have < n) {
        errno = 0;
        const ssize_t got =
            cuFileRead(f->handle, d_memory, n - have, (off_t)(offset + have), (off_t)(at + have));
        if (got == -1)
            return err_sys(e, "GPUDirect Storage: cuFileRead");
        if (got == -CU_FILE_CUDA_DRIVER_ERROR) {
            err_blame(e, ERR_TROUBLE, "GPUDirect Storage: cuFileRead: an error of the CUDA driver");
            return GDS_DEVICE_FAILED;
        }
        if (got < 0)
            return err_set(e, "GPUDirect Storage: cuFileRead: %s", CUFILE_ERRSTR((int)got));
        have += (size_t)got;
        if (got == 0 || have % GDS_PAGE) /* the end of the file */
            break;
    }
    return (int64_t)have;
}

/* "gds" if all reads so far were GPUDirect Storage's, else "gds-compat". */
static const char *mode(void)
{
    CUfileStatsLevel3_t *s = memory_need(1, sizeof *s);
    uint64_t reads = 0, posix = 0;
    if (cuFileGetStatsL3(s).err == CU_FILE_SUCCESS)
        for (uint32_t k = 0; k < s->num_gpus; k++) {
            reads += s->per_gpu_stats[k].n_p2p_reads + s->per_gpu_stats[k].n_nvfs_reads;
            posix += s->per_gpu_stats[k].n_posix_reads;
        }
    free(s);
    return reads > 0 && posix == 0 ? "gds" : "gds-compat";
}

const char *gds_file_close(struct spectrum_file *f)
{
    const char *how = mode();
    cuFileHandleDeregister(f->handle);
    free(f);
    return how;
}

#else

int gds_open(struct err *e)
{
    return err_set(e, "this build has no GPUDirect Storage, because cuFile (cufile.h) was missing; "
                      "install it and build again, or choose --io direct");
}

void gds_close(void)
{
}

struct spectrum_file *gds_file_open(int fd, struct err *e)
{
    (void)fd;
    gds_open(e);
    return NULL;
}

int gds_register(void *d_memory, size_t bytes, struct err *e)
{
    (void)d_memory, (void)bytes;
    return gds_open(e);
}

void gds_forget(void *d_memory)
{
    (void)d_memory;
}

int64_t gds_read(struct spectrum_file *f, void *d_memory, size_t at, uint64_t offset, size_t n,
                 struct err *e)
{
    (void)f, (void)d_memory, (void)at, (void)offset, (void)n;
    return gds_open(e);
}

const char *gds_file_close(struct spectrum_file *f)
{
    (void)f;
    return "none";
}

#endif
