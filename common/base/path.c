/* path.c - see path.h. */
#include "common/base/path.h"

#include <string.h>

const char *path_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void path_drop_folder(char *message, const char *path)
{
    const size_t folder = (size_t)(path_base_name(path) - path), n = strlen(path);
    for (char *at = message; folder > 0 && (at = strstr(at, path)) != NULL; at += n - folder)
        memmove(at, at + folder, strlen(at + folder) + 1);
}

const char *path_stem(const char *path, size_t *n)
{
    const char *base = path_base_name(path);
    *n = strlen(base);
    if (*n > 3 && !strcmp(base + *n - 3, ".h5"))
        *n -= 3;
    return base;
}
