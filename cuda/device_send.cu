/* device_send.cu - staging buffers and what is sent from them to a device; see device.h. */
#include "cuda/device_state.h"

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
    if (device_enter(d, e) || CU(&d->check, cudaHostRegister(p, bytes, cudaHostRegisterPortable), e)) {
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

int device_send(struct device *d, const struct spectrum_slab *s, int staging, const uint8_t *from,
                size_t offset, size_t bytes, struct err *e)
{
    struct buffer *to = &d->buffers.slabs[s->buffer];
    if (device_enter(d, e))
        return -1;
    return copies_send(d->copies, staging, from, to->d_pixels + offset, bytes, &to->guard,
                       &sums_of(&d->sums, s->band)->copied, s->band->assigned.number, e)
               ? device_give_up(d, e)
               : 0;
}

void device_wait(struct device *d, int staging)
{
    struct err e;
    if (device_enter(d, &e) == 0 && copies_wait(d->copies, staging, &e))
        device_give_up(d, &e); /* the next function that uses the device reports it */
}
