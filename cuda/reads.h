/*
 * reads.h - the memory of one device into which threads read stored chunks straight from a file
 * (gds.h), and where the chunks are checked before they are used (crc.h).
 *
 * Each thread has a part of its own. It reads, has the chunks checked, queues a copy to where they
 * belong, and waits for that copy before it reads again.
 *
 * Functions return 0, or -1 with the reason.
 */
#ifndef WSI_READS_H
#define WSI_READS_H

#include "cuda/check.h"
#include "cuda/crc.h"
#include "process/spectrum/spectrum.h"

#include <cuda_runtime.h>

enum { READS_CHUNKS = 256 }; /* at a time */

/* What belongs to one thread. */
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

#endif
