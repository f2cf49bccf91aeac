/* device_send.cu - staging buffers and what is sent from them to a device; see device.h. */
#include "cuda/device_state.h"

#include "common/store/store.h"

#include <stdlib.h>
#include <sys/mman.h>

bool device_buffer_free(const struct device *d, int k)
{
    return !device_alive(d) || copies_is_free(&d->buffers.slabs[k].guard);
}

int device_lock_pages(struct device *d, size_t bytes, uint8_t **out, struct err *e)
{
    const size_t page = 2 << 20; /* locking takes time per page; large pages where they exist */
    bytes = (bytes + page - 1) / page * page;
    uint8_t *p = (uint8_t *)aligned_alloc(page, bytes);
    if (!p)
        return err_set(e, "out of memory: cannot allocate %zu MiB; choose a smaller --memory",
                       bytes >> 20);
    madvise(p, bytes, MADV_HUGEPAGE);
    if (device_enter(d, e) ||
        CU(&d->check, cudaHostRegister(p, bytes, cudaHostRegisterPortable), e)) {
        free(p);
        return device_give_up(d, e);
    }
    *out = p;
    return 0;
}

void device_unlock_pages(struct device *d, uint8_t *p)
{
    cudaSetDevice(d->check.number);
    if (cudaHostUnregister(p) == cudaSuccess)
        free(p); /* if not, a device may still read it */
}

void device_end_copies(struct device *d)
{
    cudaSetDevice(d->check.number);
    cudaStreamSynchronize(copies_stream(d->copies));
}

int device_arrived(struct device *d, const struct spectrum_slab *s, int64_t chunks, struct err *e)
{
    return s->band->packed_bytes ? unpack_arrived(&d->unpacks[s->buffer], s, d->copies,
                                                  &d->buffers.slabs[s->buffer], chunks, e)
                                 : 0;
}

static int64_t chunks_in(const struct spectrum_band *b, size_t bytes)
{
    return (int64_t)bytes / (b->chunk_rows * b->chunk_cols * b->channels);
}

int device_send(struct device *d, const struct spectrum_slab *s, int staging, const uint8_t *from,
                size_t offset, size_t bytes, struct err *e)
{
    struct buffer *to = &d->buffers.slabs[s->buffer];
    if (device_enter(d, e))
        return -1;
    return copies_send(d->copies, staging, from, to->d_pixels + offset, bytes, &to->guard,
                       &sums_of(&d->sums, s->band)->copied, s->band->assigned.number, e) ||
                   device_arrived(d, s, chunks_in(s->band, bytes), e)
               ? device_give_up(d, e)
               : 0;
}

int device_blank(struct device *d, const struct spectrum_slab *s, size_t offset, size_t bytes,
                 struct err *e)
{
    struct buffer *to = &d->buffers.slabs[s->buffer];
    if (device_enter(d, e))
        return -1;
    return copies_blank(d->copies, to->d_pixels + offset, bytes, &to->guard, e) ||
                   device_arrived(d, s, chunks_in(s->band, bytes), e)
               ? device_give_up(d, e)
               : 0;
}

size_t device_stored_bytes(const struct store_chunk *chunks, int64_t n)
{
    size_t bytes = 0;
    for (int64_t k = 0; k < n; k++)
        bytes += chunks[k].bytes;
    return bytes;
}

int64_t device_send_packed(struct device *d, const struct spectrum_slab *s, int staging,
                           const uint8_t *from, int64_t first, const struct store_chunk *chunks,
                           int64_t n, uint8_t *left, struct err *e)
{
    struct unpack *u = &d->unpacks[s->buffer];
    uint8_t *to;
    if (device_enter(d, e))
        return -1;
    const int64_t n_left = unpack_add(u, s, {from, 0}, chunks, n, first, left, &to, e);
    if (n_left < 0 ||
        copies_send(d->copies, staging, from, to, device_stored_bytes(chunks, n), &u->guard,
                    &sums_of(&d->sums, s->band)->copied, s->band->assigned.number, e) ||
        device_arrived(d, s, n - n_left, e))
        return device_give_up(d, e);
    return n_left;
}

int device_next_left(struct device *d, const struct spectrum_slab *s, int64_t *place, struct err *e)
{
    struct sums *sums = sums_of(&d->sums, s->band);
    int64_t us;
    if (device_enter(d, e))
        return -1;
    const int r = unpack_next(&d->unpacks[s->buffer], place, &us, e);
    if (us > 0) /* the first slab forgets what a band that failed has left there */
        sums->unpack_us = us + (s->row == s->band->first_row ? 0 : sums->unpack_us);
    return r < 0 ? device_give_up(d, e) : r;
}

void device_wait(struct device *d, int staging)
{
    struct err e;
    if (device_enter(d, &e) == 0 && copies_wait(d->copies, staging, &e))
        device_give_up(d, &e); /* the next function that uses the device reports it */
}
