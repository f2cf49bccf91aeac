/* zarr_shard.c - see zarr_shard.h. */
#include "convert/zarr/zarr_shard.h"

#include "common/base/memory.h"
#include "common/base/publish.h"
#include "common/base/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PLACE = 16,        /* bytes of a chunk in the index */
    CRC = 4,           /* bytes of the checksum behind them */
    HEAD = 36,         /* of an HDF5 file, up to the address of its end */
    END_OF_HDF5 = 28,  /* where that address is */
    SUPERBLOCK_AT = 8, /* where the version of the superblock is */
    SUPERBLOCK = 3,    /* the version that stores have */
};

/* --- the index --- */

static void put_bytes(unsigned char *to, uint64_t v, int n)
{
    for (int k = 0; k < n; k++)
        to[k] = (unsigned char)(v >> 8 * k);
}

/* Castagnoli's polynomial; an index is small. */
static uint32_t crc32c(const unsigned char *data, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t k = 0; k < n; k++) {
        crc ^= data[k];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

unsigned char *zarr_index_create(int64_t n, struct err *e)
{
    unsigned char *index = memory_try((size_t)n + 1, PLACE, e);
    if (index)
        memset(index, 0xff, (size_t)n * PLACE);
    return index;
}

void zarr_index_put(unsigned char *index, int64_t k, uint64_t offset, uint64_t bytes)
{
    put_bytes(index + k * PLACE, offset, 8);
    put_bytes(index + k * PLACE + 8, bytes, 8);
}

size_t zarr_index_end(unsigned char *index, int64_t n)
{
    const size_t bytes = (size_t)n * PLACE;
    put_bytes(index + bytes, crc32c(index, bytes), CRC);
    return bytes + CRC;
}

/* --- behind a store --- */

static int read_part(int fd, void *to, size_t n, off_t at, struct err *e)
{
    if (read_at(fd, (uint64_t)at, to, n) == n)
        return 0;
    return errno ? err_sys(e, "cannot read the store")
                 : err_set(e, "the store is truncated; " ERR_MAKE_AGAIN);
}

/* Where HDF5's part of the file ends. */
static int find_end(int fd, off_t size, off_t *end, struct err *e)
{
    unsigned char head[HEAD];
    uint64_t v = 0;
    if (read_part(fd, head, sizeof head, 0, e))
        return -1;
    for (int k = 0; k < 8; k++)
        v |= (uint64_t)head[END_OF_HDF5 + k] << 8 * k;
    if (memcmp(head, "\x89HDF\r\n\x1a\n", 8) != 0 || head[SUPERBLOCK_AT] != SUPERBLOCK ||
        v > (uint64_t)size)
        return err_set(e, "the store was rewritten by another program; " ERR_MAKE_AGAIN);
    *end = (off_t)v;
    return 0;
}

/* 1: the file ends with this index. */
static int has_index(int fd, off_t end, off_t size, const unsigned char *index, size_t n,
                     struct err *e)
{
    if (size < end + (off_t)n)
        return 0;
    unsigned char *tail = memory_try(n, 1, e);
    const int bad = !tail || read_part(fd, tail, n, size - (off_t)n, e);
    const bool same = !bad && memcmp(tail, index, n) == 0;
    free(tail);
    return bad ? -1 : same;
}

/* If there is no room, the file gets its old size. */
static int put_index(int fd, const struct stat *st, off_t end, const unsigned char *index, size_t n,
                     struct err *e)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    if (write_at(fd, (uint64_t)end, index, n)) {
        err_sys(e, "cannot write the index behind the store");
        if (ftruncate(fd, st->st_size)) /* the bytes behind the store's end mean nothing */
            return -1;
        return -1;
    }
    if (ftruncate(fd, end + (off_t)n) || fsync(fd) || futimens(fd, times))
        return err_sys(e, "cannot write the index behind the store");
    return 0;
}

int zarr_index_append(const char *path, const unsigned char *index, size_t n, struct err *e)
{
    struct stat st;
    off_t end = 0;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "cannot write the index behind the store");
    int r = fstat(fd, &st) ? err_sys(e, "cannot read the store") : 0;
    r = r ? r : find_end(fd, st.st_size, &end, e);
    r = r ? r : has_index(fd, end, st.st_size, index, n, e);
    if (r == 0)
        r = put_index(fd, &st, end, index, n, e);
    close(fd);
    return r < 0 ? -1 : 0;
}

/* --- a shard that is made --- */

int zarr_shard_begin(struct zarr_shard *s, const char *path, int64_t chunks, struct err *e)
{
    *s = (struct zarr_shard){.chunks = chunks};
    if (!(s->index = zarr_index_create(chunks, e)))
        return -1;
    s->f = publish_create_stream(path);
    return s->f ? 0 : err_sys(e, "cannot create a level");
}

int zarr_shard_put(struct zarr_shard *s, const void *bytes, size_t n, struct err *e)
{
    if (fwrite(bytes, 1, n, s->f) != n)
        return err_sys(e, "cannot write a level");
    zarr_index_put(s->index, s->next++, s->end, n);
    s->end += n;
    return 0;
}

int zarr_shard_end(struct zarr_shard *s, struct err *e)
{
    const size_t n = zarr_index_end(s->index, s->chunks);
    if (fwrite(s->index, 1, n, s->f) != n || fflush(s->f) || fsync(fileno(s->f)))
        return err_sys(e, "cannot write a level");
    FILE *f = s->f;
    s->f = NULL;
    return fclose(f) ? err_sys(e, "cannot write a level") : 0;
}

void zarr_shard_close(struct zarr_shard *s)
{
    if (s->f)
        fclose(s->f);
    free(s->index);
    *s = (struct zarr_shard){0};
}
