/* svs_description.c - see svs_description.h. */
#include "convert/readers/svs_description.h"

#include "common/base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEYS = 512, MOST_LENGTH = 120 };

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

bool svs_description_size(const char *description, int64_t *width, int64_t *height)
{
    int x, y, w, h;
    const char *line = strchr(description, '\n');
    const size_t n = line ? strcspn(line, "[|") : 0;
    if (!line || line[n] != '[' || sscanf(line + n, "[%9d,%9d%*1[ ,]%9dx%9d]", &x, &y, &w, &h) != 4)
        return false;
    *width = w;
    *height = h;
    return w > 0 && h > 0;
}

/* Splits the description at its bars, in place. Returns the number of "key = value" parts. */
static size_t split(char *description, char *keys[MOST_KEYS], char *values[MOST_KEYS])
{
    size_t n = 0;
    for (char *part; n < MOST_KEYS && (part = strsep(&description, "|"));) {
        char *equals = strstr(part, " = ");
        if (!equals || equals == part || equals - part > MOST_LENGTH)
            continue;
        *equals = 0;
        keys[n] = part;
        values[n++] = equals + 3;
    }
    return n;
}

/* Does the key come again? Then the later value counts, as in OpenSlide. */
static int comes_again(char *const keys[], size_t k, size_t n)
{
    for (size_t later = k + 1; later < n; later++)
        if (!strcmp(keys[k], keys[later]))
            return 1;
    return 0;
}

int svs_description_properties(const char *description,
                               int (*put)(void *ctx, const char *key, const char *value), void *ctx)
{
    char *keys[MOST_KEYS], *values[MOST_KEYS], *copy = memory_copy(description);
    int r = put(ctx, "tiff.ImageDescription", description);
    const size_t n = split(copy, keys, values);
    for (size_t k = 0; k < n && r == 0; k++) {
        char key[MOST_LENGTH + 16];
        snprintf(key, sizeof key, "aperio.%s", keys[k]);
        if (!comes_again(keys, k, n))
            r = put(ctx, key, values[k]);
    }
    free(copy);
    return r;
}
