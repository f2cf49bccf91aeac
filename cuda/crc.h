/*
 * crc.h - checks stored chunks on the device: their CRC-32, and where they begin.
 */
#ifndef WSI_CRC_H
#define WSI_CRC_H

#include <cuda_runtime.h>
#include <stdint.h>

/* Bytes of a chunk's beginning that the host gets: more than the headers of JPEG tiles have. */
enum { CRC_HEAD = 1024, CRC_POWERS = 36 };

struct crc_chunk {
    uint64_t at; /* byte in d_stored */
    uint32_t bytes;
};

/* All but d_stored is page-locked memory of the host, which the device reads and writes itself. */
struct crc_batch {
    const uint8_t *d_stored;
    const struct crc_chunk *chunks; /* [n] */
    int32_t n;
    uint32_t *crc32;             /* [n] */
    uint8_t *heads;              /* [n][CRC_HEAD]; NULL: not wanted */
    uint32_t powers[CRC_POWERS]; /* crc_chunks() sets it */
};

/* Queues the kernel. Errors are left for cudaGetLastError(). */
void crc_chunks(struct crc_batch *b, cudaStream_t stream);

#endif
