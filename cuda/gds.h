/*
 * gds.h - GPUDirect Storage: devices read files themselves, through NVIDIA's cuFile.
 *
 * Where the kernel module nvidia-fs or the file system is missing, cuFile reads through memory of
 * its own on the host (its compatibility mode); gds_file_close() says which of the two has
 * happened. Only gds.c knows cuFile. In a build without it, gds_open() fails and says so.
 *
 * Any thread may call any function. Functions return 0, or -1 with cuFile's own message, which
 * names no device and no file.
 */
#ifndef WSI_GDS_H
#define WSI_GDS_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GDS_PAGE = 4096, GDS_DEVICE_FAILED = -2 };

struct spectrum_file; /* a file that devices read */

int gds_open(struct err *e);
void gds_close(void);
/* The file must be open with O_DIRECT, and stay open. NULL on failure. */
struct spectrum_file *gds_file_open(int fd, struct err *e);
/* Returns how files have been read so far: "gds" if all reads were GPUDirect Storage's, else
 * "gds-compat". */
const char *gds_file_close(struct spectrum_file *f);
/* Memory of the current device that is read into, until it is forgotten. */
int gds_register(void *d_memory, size_t bytes, struct err *e);
void gds_forget(void *d_memory);
/* Reads n bytes at `offset` to byte `at` of registered memory of the current device. Both begin on
 * a page. Returns how many bytes it has read, fewer only at the end of the file; -1; or
 * GDS_DEVICE_FAILED where CUDA is the reason. */
int64_t gds_read(struct spectrum_file *f, void *d_memory, size_t at, uint64_t offset, size_t n,
                 struct err *e);

#ifdef __cplusplus
}
#endif
#endif
