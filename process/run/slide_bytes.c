/*
 * slide_bytes.c - see slide_bytes.h.
 *
 * The file holds the struct, then what it owns. Pointers to constants are the same in both
 * processes.
 */
#include "process/run/slide_bytes.h"

#include "common/base/read_at.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNED = 64, MOST_PARTS = RESULT_MAPS + FEATURES_SAMPLES + 3 };

/* An array that a slide owns: where its pointer is, and its bytes. */
struct part {
    void *pointer;
    size_t bytes;
};

static int list_parts(struct result_slide *s, const struct result_params *p,
                      struct part parts[MOST_PARTS])
{
    const size_t windows = (size_t)(s->nx * s->ny);
    int n = 0;
    parts[n++] = (struct part){&s->counts.histogram, (size_t)p->bins * sizeof(uint64_t)};
    parts[n++] = (struct part){&s->groups, (size_t)s->group_count};
    for (int m = 0; m < RESULT_MAPS; m++)
        parts[n++] = (struct part){&s->maps[m].values,
                                   windows * result_type_bytes(result_map_kind(m)->type)};
    for (int k = 0; k < FEATURES_SAMPLES; k++)
        parts[n++] = (struct part){&s->spectra[k].sums, result_spectrum_sums(p) * sizeof(uint64_t)};
    parts[n++] =
        (struct part){&s->thumbnail.rgb, (size_t)(s->thumbnail.width * s->thumbnail.height) * 3};
    return n;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* --- handing over --- */

int slide_bytes_create(struct err *e)
{
    const int fd = memfd_create("slide", MFD_CLOEXEC);
    return fd < 0 ? err_sys(e, "cannot hand over a slide") : fd;
}

static int put_at(int fd, size_t *at, const void *from, size_t n, struct err *e)
{
    if (write_at(fd, *at, from, n))
        return err_sys(e, "cannot hand over a slide");
    *at += aligned(n);
    return 0;
}

int slide_bytes_put(int fd, const struct result_params *p, const struct result_slide *s,
                    struct err *e)
{
    struct result_slide copy = *s;
    struct part parts[MOST_PARTS];
    const int n = list_parts(&copy, p, parts);
    size_t bytes = 0;
    int bad = put_at(fd, &bytes, s, sizeof *s, e);
    for (int k = 0; !bad && k < n; k++) {
        const void *from;
        memcpy(&from, parts[k].pointer, sizeof from);
        if (from)
            bad = put_at(fd, &bytes, from, parts[k].bytes, e);
    }
    return bad;
}

/* --- taking over --- */

/* The slide at the beginning of the map, with pointers into it. */
static void unpack(char *map, const struct result_params *p, struct result_slide *s)
{
    struct part parts[MOST_PARTS];
    memcpy(s, map, sizeof *s);
    const int n = list_parts(s, p, parts);
    size_t at = aligned(sizeof *s);
    for (int k = 0; k < n; k++) {
        char *to;
        memcpy(&to, parts[k].pointer, sizeof to);
        if (!to)
            continue;
        to = map + at;
        memcpy(parts[k].pointer, &to, sizeof to);
        at += aligned(parts[k].bytes);
    }
}

int slide_bytes_take(int fd, const struct result_params *p, struct slide_bytes *b, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return err_sys(e, "cannot take over a slide");
    b->bytes = (size_t)st.st_size;
    b->map = mmap(NULL, b->bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (b->map == MAP_FAILED)
        return err_sys(e, "cannot take over a slide");
    unpack(b->map, p, &b->slide);
    return 0;
}

void slide_bytes_drop(struct slide_bytes *b)
{
    munmap(b->map, b->bytes);
}
