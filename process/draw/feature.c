/* feature.c - see feature.h. */
#include "process/draw/feature.h"

#include "common/result/result.h"

#include <stdio.h>
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

/* Its bytes without "_db". */
static int short_length(const char *name)
{
    const char *end = strstr(name, "_db");
    return end ? (int)(end - name) : (int)strlen(name);
}

int feature_find(const char *name)
{
    for (int m = 0; m < RESULT_MAPS; m++) {
        const char *full = feature_name(m);
        const size_t n = (size_t)short_length(full);
        if (feature_is(m) &&
            (!strcmp(name, full) || (strlen(name) == n && !strncmp(name, full, n))))
            return m;
    }
    return -1;
}

const char *feature_words(void)
{
    static char text[16 * RESULT_MAPS];
    int used = 0;
    for (int m = 0; m < RESULT_MAPS; m++)
        if (feature_is(m))
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%.*s", used ? "|" : "",
                             short_length(feature_name(m)), feature_name(m));
    return text;
}
