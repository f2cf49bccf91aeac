/* buffers.cu - see buffers.h. */
#include "cuda/buffers.h"

#include "cuda/fused.h"

enum {
    RING_STEP = 128,  /* the ring has a multiple of so many rows, as fused.h requires */
    BATCH_ROWS = 1536 /* rows of pixels whose windows are computed at a time */
};

/* --- opening and closing --- */

int buffers_open(struct buffers *b, struct check_device *d, const struct result_params *p,
                 struct err *e)
{
    const unsigned untimed = cudaEventDisableTiming, timed = cudaEventBlockingSync;
    b->device = d;
    b->params = p;
    b->steps = 1;
    for (struct buffer *s = b->slabs; s < b->slabs + BUFFERS_SLABS; s++)
        if (CU(d, cudaEventCreateWithFlags(&s->copied, untimed), e) ||
            CU(d, cudaEventCreateWithFlags(&s->guard.free, untimed), e) ||
            CU(d, cudaEventCreateWithFlags(&s->begins, timed), e) ||
            CU(d, cudaEventCreateWithFlags(&s->ends, timed), e))
            return -1;
    return 0;
}

static void destroy(cudaEvent_t event)
{
    if (event)
        cudaEventDestroy(event);
}

void buffers_close(struct buffers *b)
{
    buffers_release_slabs(b);
    buffers_release_ring(b);
    for (struct buffer *s = b->slabs; s < b->slabs + BUFFERS_SLABS; s++) {
        destroy(s->copied);
        destroy(s->guard.free);
        destroy(s->begins);
        destroy(s->ends);
    }
}

/* --- sizes --- */

static int64_t pitch_of(const struct spectrum_band *d)
{
    return (d->width + 31) / 32 * 32;
}

/* Rows of the ring when `batch` rows of windows are computed at a time. */
static int64_t ring_rows(const struct buffers *b, const struct spectrum_band *d, int64_t batch)
{
    const struct result_params *p = b->params;
    const int64_t rows = batch * p->stride + p->window + d->slab_rows + 2 * p->radius;
    const int64_t all = d->end_row - d->first_row + RING_STEP;
    return ((rows < all ? rows : all) + RING_STEP - 1) / RING_STEP * RING_STEP;
}

static int64_t most_batch(const struct buffers *b)
{
    const int64_t most = (BATCH_ROWS >> b->halved) / b->params->stride;
    return most > 1 ? most : 1;
}

bool buffers_may_halve(const struct buffers *b)
{
    return most_batch(b) > 1;
}

/* Floats of the ring of one step. */
static int64_t ring_floats(const struct buffers *b, const struct spectrum_band *d, int64_t batch)
{
    return (ring_rows(b, d, batch) + fused_repeated(b->steps)) * pitch_of(d);
}

static size_t ring_bytes(const struct buffers *b, const struct spectrum_band *d, int64_t batch)
{
    return (size_t)(b->steps * ring_floats(b, d, batch)) * sizeof(float);
}

/* The most rows of windows that the ring as it is allows at a time; 0: not even one. */
static int64_t batch_of(const struct buffers *b, const struct spectrum_band *d)
{
    int64_t batch = most_batch(b);
    while (batch > 0 && ring_bytes(b, d, batch) > b->ring_bytes)
        batch /= 2;
    return batch;
}

struct buffers_ring buffers_ring(const struct buffers *b, const struct spectrum_band *d)
{
    const int64_t batch = batch_of(b, d);
    return {pitch_of(d), batch, ring_rows(b, d, batch), ring_floats(b, d, batch)};
}

static bool slabs_fit(const struct buffers *b, const struct spectrum_band *d, size_t slab_bytes)
{
    return d->buffers <= b->n && slab_bytes <= b->slab_bytes;
}

bool buffers_fit(const struct buffers *b, const struct spectrum_band *d, size_t slab_bytes)
{
    return slabs_fit(b, d, slab_bytes) && batch_of(b, d) > 0;
}

/* --- memory --- */

void buffers_release_slabs(struct buffers *b)
{
    for (struct buffer *s = b->slabs; s < b->slabs + BUFFERS_SLABS; s++) {
        cudaFree(s->d_pixels);
        s->d_pixels = NULL;
    }
    b->slab_bytes = 0;
    b->n = 0;
}

void buffers_release_ring(struct buffers *b)
{
    cudaFree(b->d_ring);
    b->d_ring = NULL;
    b->ring_bytes = 0;
}

int buffers_reserve_slabs(struct buffers *b, const struct spectrum_band *d, size_t slab_bytes,
                          struct err *e)
{
    if (slabs_fit(b, d, slab_bytes))
        return 0;
    buffers_release_slabs(b);
    for (struct buffer *s = b->slabs; s < b->slabs + d->buffers; s++)
        if (CU(b->device, cudaMalloc((void **)&s->d_pixels, slab_bytes), e))
            return -1;
    b->slab_bytes = slab_bytes;
    b->n = d->buffers;
    return 0;
}

int buffers_reserve_ring(struct buffers *b, const struct spectrum_band *d, struct err *e)
{
    const size_t bytes = ring_bytes(b, d, most_batch(b));
    if (batch_of(b, d) > 0)
        return 0;
    buffers_release_ring(b);
    if (CU(b->device, cudaMalloc((void **)&b->d_ring, bytes), e))
        return -1;
    b->ring_bytes = bytes;
    return 0;
}
