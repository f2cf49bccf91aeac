/* device_read.cu - chunks that a device reads from a file itself; see device.h. */
#include "cuda/device_state.h"

#include "common/store/store.h"
#include "cuda/gds.h"

bool device_reads_fit(const struct device *d, size_t bytes)
{
    return !d->reads || reads_fit(d->reads, bytes);
}

/* Where memory is short, the device fails: without room to read it is of no use. */
int device_reserve_reads(struct device *d, size_t bytes, struct err *e)
{
    if (device_reads_fit(d, bytes))
        return 0;
    if (device_enter(d, e))
        return -1;
    return reads_reserve(d->reads, bytes, e) ? device_give_up(d, e) : 0;
}

/* Queues the copy of n checked chunks at `from` to where they belong. */
static int pass_on(struct device *d, const struct spectrum_slab *s, struct spectrum_read *r,
                   int thread, const uint8_t *from, int64_t n, struct err *e)
{
    struct unpack *u = &d->unpacks[s->buffer];
    struct buffer *buffer = &d->buffers.slabs[s->buffer];
    struct copies_guard *guard = s->band->packed_bytes ? &u->guard : &buffer->guard;
    const size_t bytes = device_stored_bytes(r->chunks, n);
    uint8_t *to = buffer->d_pixels;
    r->n_left = 0;
    if (!s->band->packed_bytes)
        to += (size_t)r->first * (bytes / (size_t)n);
    else
        r->n_left = unpack_add(u, s, {reads_heads(d->reads, thread), CRC_HEAD}, r->chunks, n,
                               r->first, r->left, &to, e);
    if (r->n_left < 0 ||
        copies_send(d->copies, d->staging + thread, from, to, bytes, guard,
                    &sums_of(&d->sums, s->band)->copied, s->band->assigned.number, e))
        return -1;
    return device_arrived(d, s, n - r->n_left, e);
}

int64_t device_read(struct device *d, const struct spectrum_slab *s, struct spectrum_read *r,
                    int thread, struct err *e)
{
    uint8_t *from;
    if (device_enter(d, e))
        return -1;
    if (copies_wait(d->copies, d->staging + thread, e))
        return device_give_up(d, e);
    const int64_t n = reads_chunks(d->reads, thread, r->file, r->chunks, r->n,
                                   s->band->packed_bytes > 0, &from, &r->damaged, e);
    if (n == GDS_DEVICE_FAILED)
        return device_give_up(d, e);
    if (n <= 0 || r->damaged >= 0)
        return n;
    return pass_on(d, s, r, thread, from, n, e) ? device_give_up(d, e) : n;
}
