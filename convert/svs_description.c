/* svs_description.c - see svs_description.h. */
#include "convert/svs_description.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value of "key = value" between bars, or NULL; *n is its length. */
static const char *find(const char *description, const char *key, size_t *n)
{
    const size_t length = strlen(key);
    for (const char *s = description; s && *s; s = strchr(s, '|')) {
        s += *s == '|';
        s += strspn(s, " ");
        if (strncmp(s, key, length))
            continue;
        const char *v = s + length + strspn(s + length, " ");
        if (*v != '=')
            continue;
        v += 1 + strspn(v + 1, " ");
        *n = strcspn(v, "|;\r\n");
        return v;
    }
    return NULL;
}

double svs_description_number(const char *description, const char *key)
{
    char text[64], *end;
    size_t n;
    const char *v = find(description, key, &n);
    if (!v || n == 0 || n >= sizeof text)
        return NAN;
    memcpy(text, v, n);
    for (text[n] = 0; n > 0 && text[n - 1] == ' ';)
        text[--n] = 0;
    char *comma = strchr(text, ',');
    if (comma)
        *comma = '.';
    const double x = strtod(text, &end);
    return end != text && !*end && isfinite(x) && x > 0 ? x : NAN;
}

int svs_description_properties(const char *description,
                               int (*put)(void *ctx, const char *key, const char *value),
                               void *ctx)
{
    int r = put(ctx, "tiff.ImageDescription", description);
    char *copy = strdup(description), *rest = copy;
    for (char *part; copy && r == 0 && (part = strsep(&rest, "|"));) {
        char key[128], *equals = strstr(part, " = ");
        if (!equals || equals == part)
            continue;
        snprintf(key, sizeof key, "aperio.%.*s", (int)(equals - part), part);
        r = put(ctx, key, equals + 3);
    }
    free(copy);
    return r;
}
