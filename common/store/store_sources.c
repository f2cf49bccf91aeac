/* store_sources.c - what a store was made from; see store.h. */
#include "common/hdf5/h5_file.h"
#include "common/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_source(hid_t sources, int64_t number, struct store_source *s, struct err *e)
{
    char name[32];
    int64_t crc = 0;
    snprintf(name, sizeof name, "%05lld", (long long)number);
    hid_t g = h5_open_group(sources, name, e);
    if (g < 0)
        return -1;
    const int r = h5_get_text(g, "name", s->name, sizeof s->name, e) ||
                          h5_get_int(g, "bytes", 0, INT64_MAX, &s->bytes, e) ||
                          h5_get_int(g, "mtime_ns", INT64_MIN, INT64_MAX, &s->mtime_ns, e) ||
                          h5_get_int(g, "index_crc32", 0, UINT32_MAX, &crc, e) ||
                          h5_check_texts(g, e)
                      ? -1
                      : 0;
    H5Gclose(g);
    s->index_crc32 = (uint32_t)crc;
    return r;
}

static int64_t read_sources(hid_t file, struct store_source **out, struct err *e)
{
    int64_t n = 0;
    const int has = h5_has_link(file, "sources", e);
    if (has <= 0)
        return has;
    hid_t g = h5_open_group(file, "sources", e);
    int r = g < 0 ? -1 : h5_get_int(g, "count", 1, STORE_MOST_SOURCES, &n, e);
    if (r == 0 && !(*out = calloc((size_t)n, sizeof **out)))
        r = err_set(e, "out of memory");
    for (int64_t k = 0; r == 0 && k < n; k++)
        r = read_source(g, k + 1, *out + k, e);
    if (g >= 0)
        H5Gclose(g);
    if (r == 0)
        return n;
    free(*out);
    *out = NULL;
    return err_add(e, "sources");
}

int64_t store_read_sources(const char *path, struct store_source **out, struct err *e)
{
    static const struct h5_format format = {STORE_FORMAT, STORE_VERSION, ""};
    int64_t version;
    *out = NULL;
    hid_t file = h5_open(path, &format, &version, e);
    if (file < 0)
        return -1;
    const int64_t n = read_sources(file, out, e);
    H5Fclose(file);
    return n < 0 ? err_add(e, "%s", path) : n;
}

bool store_same_sources(const struct store_source *a, int64_t n, const struct store_source *b,
                        int64_t m)
{
    bool same = n == m;
    for (int64_t k = 0; same && k < n; k++)
        same = a[k].bytes == b[k].bytes && a[k].mtime_ns == b[k].mtime_ns &&
               a[k].index_crc32 == b[k].index_crc32 && !strcmp(a[k].name, b[k].name);
    return same;
}
