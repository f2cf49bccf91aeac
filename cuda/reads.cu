/* reads.cu - see reads.h. */
#include "cuda/reads.h"

#include "common/store/store.h"
#include "cuda/gds.h"

#include <stdlib.h>

/* --- memory --- */

static size_t locked_bytes(void)
{
    return READS_CHUNKS * (sizeof(struct crc_chunk) + sizeof(uint32_t) + CRC_HEAD);
}

static int open_threads(struct reads *r, struct err *e)
{
    if (CU(r->device, cudaMallocHost((void **)&r->locked, (size_t)r->n * locked_bytes()), e))
        return -1;
    for (int k = 0; k < r->n; k++) {
        struct reads_thread *t = &r->threads[k];
        t->chunks = (struct crc_chunk *)(r->locked + (size_t)k * locked_bytes());
        t->crc32 = (uint32_t *)(t->chunks + READS_CHUNKS);
        t->heads = (uint8_t *)(t->crc32 + READS_CHUNKS);
        if (CU(r->device, cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking), e) ||
            CU(r->device,
               cudaEventCreateWithFlags(&t->checked,
                                        cudaEventBlockingSync | cudaEventDisableTiming),
               e))
            return -1;
    }
    return 0;
}

struct reads *reads_create(struct check_device *d, int n, struct err *e)
{
    struct reads *r = (struct reads *)calloc(1, sizeof *r);
    if (r) {
        r->device = d;
        r->n = n;
        r->threads = (struct reads_thread *)calloc((size_t)n, sizeof *r->threads);
    }
    if (!r || !r->threads)
        err_set(e, "out of memory");
    else if (!open_threads(r, e))
        return r;
    reads_free(r);
    return NULL;
}

/* No copy from it is in progress. */
static void release(struct reads *r)
{
    if (r->bytes)
        gds_forget(r->d_memory);
    cudaFree(r->d_memory);
    r->d_memory = NULL;
    r->bytes = 0;
}

void reads_free(struct reads *r)
{
    if (!r)
        return;
    for (int k = 0; r->threads && k < r->n; k++) {
        if (r->threads[k].stream) {
            cudaStreamSynchronize(r->threads[k].stream);
            cudaStreamDestroy(r->threads[k].stream);
        }
        if (r->threads[k].checked)
            cudaEventDestroy(r->threads[k].checked);
    }
    release(r);
    if (r->locked)
        cudaFreeHost(r->locked);
    free(r->threads);
    free(r);
}

bool reads_fit(const struct reads *r, size_t bytes)
{
    return bytes <= r->bytes;
}

int reads_reserve(struct reads *r, size_t bytes, struct err *e)
{
    if (reads_fit(r, bytes))
        return 0;
    release(r);
    r->apart = (bytes + GDS_PAGE - 1) / GDS_PAGE * GDS_PAGE + 2 * GDS_PAGE;
    const size_t all = (size_t)r->n * r->apart;
    if (CU(r->device, cudaMalloc((void **)&r->d_memory, all), e) ||
        gds_register(r->d_memory, all, e))
        return -1;
    r->bytes = bytes;
    return 0;
}

/* --- chunks --- */

/* How many of the chunks have at most `most` bytes, which go to *bytes. */
static int64_t that_fit(const struct store_chunk *chunks, int64_t n, size_t most, size_t *bytes)
{
    int64_t k = 0;
    *bytes = 0;
    while (k < n && k < READS_CHUNKS && *bytes + chunks[k].bytes <= most)
        *bytes += chunks[k++].bytes;
    return k;
}

/* Whole pages of the file that hold the bytes. */
static int read_pages(struct reads *r, int thread, struct spectrum_file *f, uint64_t offset,
                      size_t bytes, struct err *e)
{
    const size_t skip = offset % GDS_PAGE,
                 pages = (skip + bytes + GDS_PAGE - 1) / GDS_PAGE * GDS_PAGE;
    const int64_t got =
        gds_read(f, r->d_memory, (size_t)thread * r->apart, offset - skip, pages, e);
    if (got < 0)
        return (int)got;
    if ((size_t)got < skip + bytes)
        return err_set(e, "the file ends too early; it has been truncated");
    return 0;
}

static int check_chunks(struct reads *r, int thread, const uint8_t *d_stored,
                        const struct store_chunk *chunks, int64_t n, bool heads, struct err *e)
{
    struct reads_thread *t = &r->threads[thread];
    struct crc_batch b = {};
    uint64_t at = 0;
    for (int64_t k = 0; k < n; at += chunks[k++].bytes)
        t->chunks[k] = {at, chunks[k].bytes};
    b.d_stored = d_stored;
    b.chunks = t->chunks;
    b.n = (int32_t)n;
    b.crc32 = t->crc32;
    b.heads = heads ? t->heads : NULL;
    crc_chunks(&b, t->stream);
    if (CU(r->device, cudaGetLastError(), e) ||
        CU(r->device, cudaEventRecord(t->checked, t->stream), e) ||
        CU(r->device, cudaEventSynchronize(t->checked), e))
        return GDS_DEVICE_FAILED;
    return 0;
}

int64_t reads_chunks(struct reads *r, int thread, struct spectrum_file *f,
                     const struct store_chunk *chunks, int64_t n, bool heads, uint8_t **from,
                     int64_t *damaged, struct err *e)
{
    size_t bytes;
    n = that_fit(chunks, n, r->bytes, &bytes);
    *damaged = -1;
    *from = r->d_memory + (size_t)thread * r->apart + chunks[0].offset % GDS_PAGE;
    if (n == 0)
        return 0;
    int bad = read_pages(r, thread, f, chunks[0].offset, bytes, e);
    bad = bad ? bad : check_chunks(r, thread, *from, chunks, n, heads, e);
    for (int64_t k = 0; !bad && k < n && *damaged < 0; k++)
        if (r->threads[thread].crc32[k] != chunks[k].crc32)
            *damaged = k;
    return bad ? bad : n;
}

const uint8_t *reads_heads(const struct reads *r, int thread)
{
    return r->threads[thread].heads;
}
