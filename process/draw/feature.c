/* feature.c - see feature.h. */
#include "process/draw/feature.h"

#include "common/result/result.h"

#include <string.h>

static const char prefix[] = "window_";

const char *feature_name(int map)
{
    const char *name = result_map_kind(map)->name;
    return strncmp(name, prefix, sizeof prefix - 1) ? name : name + sizeof prefix - 1;
}

bool feature_is(int map)
{
    return result_map_kind(map)->unit[0] != 0;
}

int feature_find(const char *name)
{
    for (int m = 0; m < RESULT_MAPS; m++) {
        const char *full = feature_name(m), *end = strstr(full, "_db");
        const size_t n = end ? (size_t)(end - full) : strlen(full);
        if (feature_is(m) &&
            (!strcmp(name, full) || (strlen(name) == n && !strncmp(name, full, n))))
            return m;
    }
    return -1;
}
