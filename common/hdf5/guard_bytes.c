/* guard_bytes.c - see guard_bytes.h. */
#include "common/hdf5/guard_bytes.h"

#include "common/base/memory.h"
#include "common/base/read_at.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MOST_HEAP = 1 << 26,     /* bytes of one collection of the global heap */
    MOST_SEARCHED = 1 << 29, /* bytes of collections, counted again for each text of an object */
};

uint64_t guard_number(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

uint64_t guard_u64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v); /* this program runs on little-endian machines only: see h5.c */
    return v;
}

int guard_reject(const struct guard *g, const char *what)
{
    err_set(g->e, "%s", what);
    errno = 0;
    return -1;
}

/* Takes a number of n bytes. */
bool guard_take(struct guard_bytes *b, size_t n, uint64_t *out)
{
    if (b->left < n)
        return false;
    *out = guard_number(b->at, n);
    b->at += n;
    b->left -= n;
    return true;
}

bool guard_skip(struct guard_bytes *b, size_t n)
{
    if (b->left < n)
        return false;
    b->at += n;
    b->left -= n;
    return true;
}

bool guard_inside(const struct guard *g, uint64_t address, uint64_t n)
{
    return address <= g->file_bytes && n <= g->file_bytes - address;
}

int guard_read(const struct guard *g, uint64_t address, void *out, size_t n)
{
    if (!guard_inside(g, address, n))
        return guard_reject(g, "an address lies outside the file");
    if (read_at(g->fd, address, out, n) == n)
        return 0;
    return errno ? err_sys(g->e, "cannot read") : guard_reject(g, "the file ends too early");
}

int guard_begin(struct guard *g)
{
    struct stat st;
    if (fstat(g->fd, &st))
        return err_sys(g->e, "cannot read the file's size");
    g->file_bytes = (uint64_t)st.st_size;
    g->rank = -1;
    return 0;
}

/* Reads n bytes that begin with a signature of four letters. */
int guard_read_signed(const struct guard *g, uint64_t address, const char *signature,
                      unsigned char *out, size_t n)
{
    if (guard_read(g, address, out, n))
        return -1;
    return memcmp(out, signature, GUARD_SIGNATURE)
               ? guard_reject(g, "a block of metadata is of the wrong kind")
               : 0;
}

/* --- checksums --- */

static uint32_t rotated(uint32_t x, int k)
{
    return x << k | x >> (32 - k);
}

static void mix(uint32_t *s, const int *by)
{
    for (unsigned k = 0; k < 6; k++) {
        const unsigned i = k % 3, before = (k + 2) % 3, after = (k + 1) % 3;
        s[i] -= s[before];
        s[i] ^= rotated(s[before], by[k]);
        s[before] += s[after];
    }
}

static void finish(uint32_t *s, const int *by)
{
    for (unsigned k = 0; k < 7; k++) {
        const unsigned i = (k + 2) % 3, before = (k + 1) % 3;
        s[i] ^= s[before];
        s[i] -= rotated(s[before], by[k]);
    }
}

uint32_t guard_lookup3(const unsigned char *p, size_t n)
{
    static const int mixes[] = {4, 6, 8, 16, 19, 4}, finishes[] = {14, 11, 25, 16, 4, 14, 24};
    const uint32_t start = 0xdeadbeef + (uint32_t)n;
    uint32_t s[3] = {start, start, start};
    for (; n > 0; p += 12, n -= 12) {
        for (size_t k = 0; k < 3 && n > 4 * k; k++)
            s[k] += (uint32_t)guard_number(p + 4 * k, n - 4 * k < 4 ? n - 4 * k : 4);
        if (n <= 12) {
            finish(s, finishes);
            break;
        }
        mix(s, mixes);
    }
    return s[2];
}

int guard_checksum(const struct guard *g, uint64_t address, size_t n)
{
    unsigned char *bytes = memory_try(n + 4, 1, g->e);
    if (!bytes)
        return -1;
    int r = guard_read(g, address, bytes, n + 4);
    if (r == 0 && guard_lookup3(bytes, n) != guard_number(bytes + n, 4))
        r = guard_reject(g, "the checksum of the header is wrong");
    const int why = errno;
    free(bytes);
    errno = why;
    return r;
}

/* --- the global heap --- */

/* Reads a collection of the global heap; keeps the last one, as most texts of an object share one.
 */
static int read_heap(struct guard *g, uint64_t address)
{
    unsigned char head[16];
    if (g->heap && g->heap_address == address)
        return 0;
    if (guard_read_signed(g, address, "GCOL", head, sizeof head))
        return -1;
    const uint64_t n = guard_u64(head + 8);
    if (head[4] != 1 || n < 4096 || n > MOST_HEAP || !guard_inside(g, address, n))
        return guard_reject(g, "a heap of texts has invalid sizes");
    free(g->heap);
    if (!(g->heap = memory_try((size_t)n, 1, g->e)))
        return -1;
    g->heap_address = address;
    g->heap_bytes = n;
    return guard_read(g, address, g->heap, (size_t)n);
}

/* The heap's objects follow one another: index 2, count 2, unused 4, size 8, bytes padded to 8. */
int guard_heap(struct guard *g, uint64_t address, uint64_t index, struct guard_bytes *out)
{
    bool found = false;
    if (read_heap(g, address))
        return -1;
    if ((g->heap_searched += g->heap_bytes) > MOST_SEARCHED)
        return guard_reject(g, "it has more texts than these files have");
    struct guard_bytes b = {g->heap + 16, (size_t)g->heap_bytes - 16};
    while (b.left >= 16) {
        const uint64_t number = guard_number(b.at, 2), size = guard_u64(b.at + 8);
        if (number == 0) { /* free space; the library never ends if it has no bytes */
            if (size != b.left)
                return guard_reject(g, "a heap of texts has invalid sizes");
            break;
        }
        const unsigned char *object = b.at + 16;
        if (size > b.left || !guard_skip(&b, 16) || !guard_skip(&b, (size_t)(size + 7) / 8 * 8))
            return guard_reject(g, "a heap of texts has invalid sizes");
        if (number != index)
            continue;
        if (found)
            return guard_reject(g, "a heap of texts has two texts of one number");
        found = true;
        *out = (struct guard_bytes){object, (size_t)size};
    }
    return found ? 0 : guard_reject(g, "a text is missing in the heap");
}
