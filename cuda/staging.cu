/* staging.cu - see staging.h. */
#include "cuda/staging.h"

#include "common/store/chunks.h"
#include "cuda/copies.h"
#include "process/spectrum/spectrum.h"

#include <algorithm>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    EACH = 2,              /* buffers of a thread */
    MOST_PIXELS = 2 << 20, /* bytes of a buffer; smaller ones are copied more slowly */
    MOST_ALL = 1 << 30,    /* bytes of all buffers, if a chunk is larger than that */
    /* With more devices than FEW the buffers must stay in the processors' caches: the memory of the
     * host is too slow for writing and reading all bytes once more. */
    FEW = 2,
    MOST_PIXELS_OF_MANY = 1 << 20,
};

struct staging {
    int threads;
    int64_t memory;         /* bytes at most */
    uint8_t *pages;         /* page-locked, of all buffers; NULL: there are none */
    size_t bytes;           /* of a buffer, for chunks */
    struct copies **copied; /* [threads][EACH]: who copies the buffer; NULL: nobody */
    int *turns;             /* [threads]: the buffer that the thread used last */
    struct copies *devices[SPECTRUM_MOST_DEVICES];
    int n_devices;
};

/* --- opening and closing --- */

struct staging *staging_create(int threads, int64_t memory, struct err *e)
{
    struct staging *s = (struct staging *)calloc(1, sizeof *s);
    if (s) {
        s->threads = threads;
        s->memory = memory;
        s->copied = (struct copies **)calloc((size_t)threads * EACH, sizeof *s->copied);
        s->turns = (int *)calloc((size_t)threads, sizeof *s->turns);
    }
    if (s && s->copied && s->turns)
        return s;
    err_set(e, "out of memory");
    staging_free(s);
    return NULL;
}

int staging_count(const struct staging *s)
{
    return s->threads * EACH;
}

void staging_join(struct staging *s, struct copies *c)
{
    s->devices[s->n_devices++] = c;
}

void staging_leave(struct staging *s, struct copies *c)
{
    s->n_devices = (int)(std::remove(s->devices, s->devices + s->n_devices, c) - s->devices);
}

/* --- memory --- */

static size_t bytes_apart(size_t bytes)
{
    return (bytes + STORE_PAGE - 1) / STORE_PAGE * STORE_PAGE + CHUNKS_MARGIN;
}

/* Waits for the buffer's copy. If that fails, the next function that uses the device reports it. */
static void wait_for(struct staging *s, int number)
{
    struct copies *c = s->copied[number];
    struct err e;
    if (c && check_enter(copies_device(c), &e) == 0 && copies_wait(c, number, &e))
        check_give_up(copies_device(c), &e);
    s->copied[number] = NULL;
}

/* No thread fills a buffer any more. */
void staging_release(struct staging *s)
{
    if (!s || !s->pages)
        return;
    struct copies *alive = s->devices[0];
    for (int k = 0; k < staging_count(s); k++)
        wait_for(s, k);
    for (int k = 0; k < s->n_devices; k++) {
        copies_end(s->devices[k]);
        alive = check_alive(copies_device(s->devices[k])) ? s->devices[k] : alive;
    }
    cudaSetDevice(copies_device(alive)->number);
    if (cudaHostUnregister(s->pages) == cudaSuccess)
        free(s->pages); /* if not, a device may still read it */
    s->pages = NULL;
    s->bytes = 0;
}

void staging_free(struct staging *s)
{
    if (!s)
        return;
    staging_release(s);
    free(s->copied);
    free(s->turns);
    free(s);
}

bool staging_fit(const struct staging *s, size_t chunk)
{
    return chunk <= s->bytes;
}

size_t staging_bytes(const struct staging *s)
{
    return s->bytes;
}

/* Page-locks memory from which all devices can copy. */
static uint8_t *lock_pages(struct check_device *d, size_t bytes, struct err *e)
{
    const size_t page = 2 << 20; /* locking takes time per page; large pages where they exist */
    bytes = (bytes + page - 1) / page * page;
    uint8_t *p = (uint8_t *)aligned_alloc(page, bytes);
    if (!p) {
        err_set(e, "out of memory: cannot allocate %zu MiB; choose a smaller --memory",
                bytes >> 20);
        return NULL;
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    if (check_enter(d, e) == 0 && !CU(d, cudaHostRegister(p, bytes, cudaHostRegisterPortable), e))
        return p;
    check_give_up(d, e);
    free(p);
    return NULL;
}

int staging_reserve(struct staging *s, size_t chunk, struct copies *c, struct err *e)
{
    const int64_t n = staging_count(s), one = (int64_t)chunk;
    const int64_t most = s->n_devices > FEW ? MOST_PIXELS_OF_MANY : MOST_PIXELS;
    const int64_t share = std::min(s->memory / n - CHUNKS_MARGIN, most) / STORE_PAGE * STORE_PAGE;
    const size_t bytes = (size_t)std::max(share, one);
    if (staging_fit(s, chunk))
        return 0;
    if (one > MOST_PIXELS && (one > MOST_ALL / n || one > s->memory / n))
        return err_set(e,
                       "its chunks of %lld MiB are too large for the threads within --memory; "
                       "choose fewer (--threads)",
                       (long long)(chunk >> 20));
    uint8_t *pages = lock_pages(copies_device(c), (size_t)n * bytes_apart(bytes), e);
    if (!pages)
        return -1;
    staging_release(s);
    s->pages = pages;
    s->bytes = bytes;
    return 0;
}

/* --- use --- */

struct staging_buffer staging_take(struct staging *s, int thread)
{
    const int turn = s->turns[thread] = (s->turns[thread] + 1) % EACH;
    const int number = thread * EACH + turn;
    wait_for(s, number);
    return {s->pages + (size_t)number * bytes_apart(s->bytes), s->bytes, number};
}

void staging_sent(struct staging *s, int number, struct copies *c)
{
    s->copied[number] = c;
}
