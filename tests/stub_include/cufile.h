/*
 * cufile.h - what cuda/gds.c uses of NVIDIA's cuFile, for stub_cufile.c: a machine without a GPU
 * rarely has cuFile's own header. Names and types are those of cuFile 1.15; the layout of the
 * statistics is not, so only the stub may be linked with what includes this.
 */
#ifndef TESTS_STUB_CUFILE_H
#define TESTS_STUB_CUFILE_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

typedef enum CUfileOpError {
    CU_FILE_SUCCESS = 0,
    CU_FILE_DRIVER_NOT_INITIALIZED = 5001,
    CU_FILE_IO_NOT_SUPPORTED = 5008,
    CU_FILE_CUDA_DRIVER_ERROR = 5011,
    CU_FILE_INVALID_FILE_OPEN_FLAG = 5019,
    CU_FILE_DIO_NOT_SET = 5020,
    CU_FILE_INVALID_VALUE = 5022,
    CU_FILE_HANDLE_ALREADY_REGISTERED = 5028,
    CU_FILE_GPU_MEMORY_PINNING_FAILED = 5036,
} CUfileOpError;

static inline const char *cufileop_status_error(CUfileOpError status)
{
    return status == CU_FILE_DRIVER_NOT_INITIALIZED      ? "nvidia-fs driver is not loaded"
           : status == CU_FILE_IO_NOT_SUPPORTED          ? "not supported on current file"
           : status == CU_FILE_CUDA_DRIVER_ERROR         ? "CUDA Driver API error"
           : status == CU_FILE_GPU_MEMORY_PINNING_FAILED ? "failed to allocate pinned GPU Memory"
                                                         : "another error";
}
#define CUFILE_ERRSTR(err) cufileop_status_error((CUfileOpError)abs((err)))

typedef struct CUfileError {
    CUfileOpError err;
    int cu_err;
} CUfileError_t;

enum CUfileFileHandleType { CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1 };
typedef struct CUfileDescr_t {
    enum CUfileFileHandleType type;
    union {
        int fd;
        void *handle;
    } handle;
    const void *fs_ops;
} CUfileDescr_t;
typedef void *CUfileHandle_t;

typedef struct CUfileStatsLevel3 {
    uint32_t num_gpus;
    struct {
        uint64_t n_p2p_reads, n_nvfs_reads, n_posix_reads;
    } per_gpu_stats[16];
} CUfileStatsLevel3_t;

CUfileError_t cuFileDriverOpen(void);
CUfileError_t cuFileDriverClose(void);
CUfileError_t cuFileHandleRegister(CUfileHandle_t *fh, CUfileDescr_t *about);
void cuFileHandleDeregister(CUfileHandle_t fh);
CUfileError_t cuFileBufRegister(const void *base, size_t bytes, int flags);
CUfileError_t cuFileBufDeregister(const void *base);
ssize_t cuFileRead(CUfileHandle_t fh, void *base, size_t n, off_t offset, off_t at);
CUfileError_t cuFileSetStatsLevel(int level);
CUfileError_t cuFileStatsStart(void);
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t *stats);

#endif
