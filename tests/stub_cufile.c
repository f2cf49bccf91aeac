/* stub_cufile.c - cuFile for the stub: files are read into device memory; see stub.h. */
#include "tests/stub.h"

#include <cufile.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { MOST_MEMORY = 64, PAGE = 4096 };

struct file {
    int fd;
    bool used;
};

static struct {
    bool open;
    int files;
    uint64_t reads;
    struct {
        const void *base;
        size_t bytes;
        int device;
    } memory[MOST_MEMORY];
} cufile;

/* Every call ends with this. A call that fails as those of CUDA do is CUDA's fault, and with code
 * 719 cuFile's own. */
static CUfileError_t leave(cudaError_t r)
{
    stub_leave(r);
    if (r == cudaErrorLaunchFailure)
        return (CUfileError_t){CU_FILE_GPU_MEMORY_PINNING_FAILED, 0};
    return (CUfileError_t){r ? CU_FILE_CUDA_DRIVER_ERROR : CU_FILE_SUCCESS, (int)r};
}

/* WSI_STUB_GDS: "none" (cuFile cannot be opened), "compat" (reads through the host), "refuse"
 * (files are of no use), or "broken" and "misused" (CUDA fails while a file is opened, or cuFile
 * rejects the call); without it GPUDirect Storage works. */
static bool mode_is(const char *word)
{
    const char *mode = getenv("WSI_STUB_GDS");
    return mode && !strcmp(mode, word);
}

CUfileError_t cuFileDriverOpen(void)
{
    const cudaError_t r = stub_enter(stub_device);
    cufile.open = !r && !mode_is("none");
    const CUfileError_t answer = leave(r);
    return r || cufile.open ? answer : (CUfileError_t){CU_FILE_DRIVER_NOT_INITIALIZED, 0};
}

CUfileError_t cuFileDriverClose(void)
{
    const cudaError_t r = stub_enter(stub_device);
    stub_check(cufile.open && cufile.files == 0, "cuFile is closed too early");
    for (int k = 0; k < MOST_MEMORY; k++)
        stub_check(!cufile.memory[k].base, "memory is still registered with cuFile");
    cufile.open = false;
    return leave(r);
}

CUfileError_t cuFileHandleRegister(CUfileHandle_t *fh, CUfileDescr_t *about)
{
    const cudaError_t r = stub_enter(stub_device);
    const int fd = about->handle.fd, flags = fcntl(fd, F_GETFL);
    stub_check(cufile.open && about->type == CU_FILE_HANDLE_TYPE_OPAQUE_FD, "a file for cuFile");
    stub_check(flags >= 0 && (flags & O_DIRECT), "a file for cuFile that is open without O_DIRECT");
    if (r)
        return leave(r);
    if (mode_is("refuse") || mode_is("broken") || mode_is("misused")) {
        leave(r);
        return (CUfileError_t){mode_is("refuse")   ? CU_FILE_IO_NOT_SUPPORTED
                               : mode_is("broken") ? CU_FILE_CUDA_DRIVER_ERROR
                                                   : CU_FILE_INVALID_VALUE,
                               999};
    }
    struct file *f = malloc(sizeof *f);
    stub_check(f != NULL, "no memory for the stub itself");
    *f = (struct file){fd, true};
    *fh = f;
    cufile.files++;
    return leave(r);
}

void cuFileHandleDeregister(CUfileHandle_t fh)
{
    struct file *f = fh;
    const cudaError_t r = stub_enter(stub_device);
    stub_check(f->used && fcntl(f->fd, F_GETFD) >= 0, "the file was closed before cuFile's handle");
    free(f);
    cufile.files--;
    leave(r);
}

CUfileError_t cuFileBufRegister(const void *base, size_t bytes, int flags)
{
    const cudaError_t r = stub_enter(stub_device);
    int k = 0;
    (void)flags;
    stub_check(cufile.open, "memory for cuFile, which is not open");
    stub_check_memory(base, bytes, stub_device, "memory for cuFile");
    while (k < MOST_MEMORY && cufile.memory[k].base)
        k++;
    stub_check(k < MOST_MEMORY, "too much memory for cuFile");
    if (!r) {
        cufile.memory[k].base = base;
        cufile.memory[k].bytes = bytes;
        cufile.memory[k].device = stub_device;
    }
    return leave(r);
}

static int memory_of(const void *base)
{
    for (int k = 0; k < MOST_MEMORY; k++)
        if (cufile.memory[k].base == base)
            return k;
    stub_die("memory that cuFile does not know");
}

/* Is called whatever has failed before. */
CUfileError_t cuFileBufDeregister(const void *base)
{
    const cudaError_t r = stub_enter(stub_device);
    cufile.memory[memory_of(base)].base = NULL;
    return leave(r);
}

/* Through memory on a page, as O_DIRECT wants it. */
static ssize_t read_to(int fd, void *to, size_t n, off_t offset)
{
    void *room = aligned_alloc(PAGE, (n + PAGE - 1) / PAGE * PAGE);
    stub_check(room != NULL, "no memory for the stub itself");
    const ssize_t got = pread(fd, room, n, offset);
    if (got > 0)
        memcpy(to, room, (size_t)got);
    free(room);
    return got;
}

ssize_t cuFileRead(CUfileHandle_t fh, void *base, size_t n, off_t offset, off_t at)
{
    const struct file *f = fh;
    const cudaError_t r = stub_enter(stub_device);
    const int k = memory_of(base);
    stub_check(cufile.memory[k].device == stub_device, "cuFile reads for another device");
    stub_check((size_t)at + n <= cufile.memory[k].bytes, "cuFile reads too much");
    stub_check(offset % PAGE == 0 && at % PAGE == 0, "cuFile reads what begins within a page");
    if (r) {
        stub_leave(r);
        errno = EIO;
        return r == cudaErrorLaunchFailure ? -1 : -CU_FILE_CUDA_DRIVER_ERROR;
    }
    const ssize_t got = read_to(f->fd, (char *)base + at, n, offset);
    cufile.reads++;
    stub_leave(r);
    return got;
}

CUfileError_t cuFileSetStatsLevel(int level)
{
    stub_check(level == 3, "cuFile's statistics");
    return leave(stub_enter(stub_device));
}

CUfileError_t cuFileStatsStart(void)
{
    return leave(stub_enter(stub_device));
}

CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t *stats)
{
    const cudaError_t r = stub_enter(stub_device);
    stats->num_gpus = 1;
    if (mode_is("compat"))
        stats->per_gpu_stats[0].n_posix_reads = cufile.reads;
    else
        stats->per_gpu_stats[0].n_nvfs_reads = cufile.reads;
    return leave(r);
}
