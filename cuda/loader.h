/*
 * loader.h - how the chunks of a slab come onto a device.
 */
#ifndef WSI_LOADER_H
#define WSI_LOADER_H

#include "cuda/buffers.h"
#include "cuda/check.h"
#include "cuda/crc.h"
#include "cuda/staging.h"
#include "cuda/unpack.h"
#include "process/spectrum/spectrum.h"

#include <cuda_runtime.h>

/*
 * --- reading with --io gds ---
 *
 * The memory of one device into which threads read stored chunks straight from a file (gds.h), and
 * where the chunks are checked before they are used (crc.h).
 *
 * Each thread has a part of its own. It reads, has the chunks checked, queues a copy to where they
 * belong, and waits for that copy before it reads again.
 *
 * Functions return 0, or -1 with the reason.
 */

enum { READS_CHUNKS = 256 }; /* at a time */

/* The stream and the memory of one thread. */
struct reads_thread {
    cudaStream_t stream;
    cudaEvent_t checked;
    struct crc_chunk *chunks; /* page-locked, as the next two: [READS_CHUNKS] */
    uint32_t *crc32;
    uint8_t *heads; /* [READS_CHUNKS][CRC_HEAD] */
};

struct reads {
    struct check_device *device;
    int n;             /* threads */
    uint8_t *d_memory; /* [n][apart], registered; NULL: there is none */
    size_t bytes, apart;
    uint8_t *locked; /* of all threads */
    struct reads_thread *threads;
};

/* For n threads; NULL with the error set. The memory comes with reads_reserve(). */
struct reads *reads_create(struct check_device *d, int n, struct err *e);
void reads_free(struct reads *r); /* NULL is allowed */
/* Makes room for so many stored bytes at a time. */
int reads_reserve(struct reads *r, size_t bytes, struct err *e);
bool reads_fit(const struct reads *r, size_t bytes);

/* Reads and checks the first of n chunks that lie one after the other in the file; *from gets their
 * place on the device. Returns how many, 0 if the first alone has too many bytes, -1, or
 * GDS_DEVICE_FAILED. *damaged: the first whose CRC-32 is another one; -1: none. */
int64_t reads_chunks(struct reads *r, int thread, struct spectrum_file *f,
                     const struct store_chunk *chunks, int64_t n, bool heads, uint8_t **from,
                     int64_t *damaged, struct err *e);
/* What chunks begin with, after reads_chunks(): [CRC_HEAD] each. */
const uint8_t *reads_heads(const struct reads *r, int thread);

/*
 * --- loading ---
 *
 *   pixels   the host reads and unpacks them in a staging buffer, and they are copied to where they
 *            belong in the slab's buffer
 *   packed   JPEG tiles are copied as they are stored, and kernels make pixels of them (unpack.h).
 *            Those that the kernels do not handle, or flag, come as pixels
 *   read     with --io gds the device reads both itself
 *   blank    chunks that were left out are set to 255
 *
 * Functions return 0, -1 with the device, the call and CUDA's own message, or SPECTRUM_BAD_STORE
 * with the name of the store. After a failure of CUDA the device is given up (check.h).
 */

/* Bytes and times of the loads of a band. */
struct loader_times {
    struct copies_times copied;
    int64_t unpack_us; /* changed by one thread at a time */
};

/* Which chunks of an extent are left to the host. */
struct loader_marks {
    uint8_t *left; /* [room] */
    size_t room;
};

/* Of one device. */
struct loader {
    struct check_device *device;
    struct staging *staging;                  /* shared by all devices */
    struct copies *copies;                    /* from its buffers, then from the parts of `reads` */
    struct reads *reads;                      /* NULL: it reads no files */
    struct unpack unpacks[BUFFERS_SLABS];     /* one per buffer */
    struct loader_times times[SPECTRUM_SUMS]; /* of the bands in progress */
    struct loader_marks *marks;               /* [threads] */
    int threads;
};

/* Starts as {}. A block of the device can have `shared_bytes`. Closed after a failure, too. */
int loader_open(struct loader *l, struct check_device *d, struct staging *staging,
                const struct spectrum_setup *s, size_t shared_bytes, struct err *e);
void loader_close(struct loader *l);

/* `halved`: how often memory was short. */
bool loader_fits(const struct loader *l, const struct spectrum_band *b, int halved);
/* Room in staging buffers, and for what devices read. Where memory is short, a device that cannot
 * read is given up. */
int loader_reserve_staging(struct loader *l, const struct spectrum_band *b, struct err *e);
int loader_reserve_unpacks(struct loader *l, const struct spectrum_band *b, int halved,
                           struct err *e);
void loader_release_unpacks(struct loader *l);

/* Brings an extent of the slab's chunks on its way to the buffer. Any thread. */
int loader_load(struct loader *l, struct buffer *to, const struct spectrum_slab *s,
                struct chunks_extent x, struct spectrum_thread *t, struct err *e);
/* All chunks of a slab have been loaded: waits until they are unpacked, and sends the pixels of
 * those that the kernels leave to the host. */
int loader_complete(struct loader *l, struct buffer *to, const struct spectrum_slab *s,
                    struct spectrum_thread *t, struct err *e);
/* All copies of the band are complete: adds their times. */
int loader_report(struct loader *l, const struct spectrum_band *b, struct spectrum_times *times,
                  struct err *e);

#endif
