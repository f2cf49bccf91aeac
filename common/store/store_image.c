/* store_image.c - see store_image.h. */
#include "common/store/store_image.h"

#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/read_at.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_HEAD = 1024, MOST_LEVELS = 64 };

/* The content_crc32 in the zarr.json of an image; -1: it is no image of ours. */
static int64_t content_of(const char *image)
{
    char head[MOST_HEAD + 1], *json = memory_print("%s/zarr.json", image);
    struct stat folder, file;
    int64_t content = -1;
    const int fd = lstat(image, &folder) || !S_ISDIR(folder.st_mode)
                       ? -1
                       : open(json, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) {
        head[read_at(fd, 0, head, MOST_HEAD)] = 0;
        const char *ours = strstr(head, "\"wsi2h5\"");
        const char *at = ours ? strstr(ours, "\"content_crc32\": ") : NULL;
        if (at)
            content = strtoll(at + strlen("\"content_crc32\": "), NULL, 10);
    }
    if (fd >= 0)
        close(fd);
    free(json);
    return content;
}

char *store_image_find(const char *store, int64_t *content)
{
    size_t stem;
    const char *name = path_stem(store, &stem);
    char *image = memory_print("%.*s.ome.zarr", (int)(name - store) + (int)stem, store);
    *content = content_of(image);
    if (*content >= 0)
        return image;
    free(image);
    return NULL;
}

/* Level k, in the folder of the image; no link is followed. */
static void remove_level(int image, int k)
{
    static const char *const folders[] = {"", "c", "0", "0"};
    enum { DEPTH = sizeof folders / sizeof *folders };
    const int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    char level[16];
    int at[DEPTH];
    snprintf(level, sizeof level, "%d", k);
    at[0] = openat(image, level, how);
    for (int n = 1; n < DEPTH; n++)
        at[n] = openat(at[n - 1], folders[n], how);
    unlinkat(at[DEPTH - 1], "0", 0);
    for (int n = DEPTH - 1; n > 0; n--)
        unlinkat(at[n - 1], folders[n], AT_REMOVEDIR);
    unlinkat(at[0], "zarr.json", 0);
    unlinkat(image, level, AT_REMOVEDIR);
    for (int n = 0; n < DEPTH; n++)
        if (at[n] >= 0)
            close(at[n]);
}

bool store_image_remove(const char *image)
{
    const int folder = open(image, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const bool gone = folder >= 0 && unlinkat(folder, "zarr.json", 0) == 0;
    for (int k = 0; gone && k < MOST_LEVELS; k++)
        remove_level(folder, k);
    if (folder >= 0)
        close(folder);
    if (gone)
        rmdir(image);
    return gone;
}
