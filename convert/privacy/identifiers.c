/* identifiers.c - see identifiers.h. */
#include "convert/privacy/identifiers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- properties --- */

enum { NUMBER, WORD, HASH }; /* kinds of values */
enum { MOST_NUMBER = 24, MOST_WORD = 16, MOST_HASH = 64, MOST_TAGS = 200, HEADER = 128 };

static const struct {
    const char *key; /* '#' stands for digits */
    int kind;
} allowed[] = {
    {"openslide.vendor", WORD},
    {"openslide.quickhash-1", HASH},
    {"openslide.background-color", HASH},
    {"openslide.mpp-x", NUMBER},
    {"openslide.mpp-y", NUMBER},
    {"openslide.objective-power", NUMBER},
    {"openslide.level-count", NUMBER},
    {"openslide.level[#].downsample", NUMBER},
    {"openslide.level[#].width", NUMBER},
    {"openslide.level[#].height", NUMBER},
    {"openslide.level[#].tile-width", NUMBER},
    {"openslide.level[#].tile-height", NUMBER},
    {"openslide.bounds-x", NUMBER},
    {"openslide.bounds-y", NUMBER},
    {"openslide.bounds-width", NUMBER},
    {"openslide.bounds-height", NUMBER},
    {"openslide.icc-size", NUMBER},
    {"aperio.AppMag", NUMBER},
    {"aperio.MPP", NUMBER},
    {"aperio.StripeWidth", NUMBER},
    {"aperio.Left", NUMBER},
    {"aperio.Top", NUMBER},
    {"aperio.OriginalWidth", NUMBER},
    {"aperio.OriginalHeight", NUMBER},
    {"aperio.Originalheight", NUMBER}, /* as some scanners write it */
    {"aperio.Filtered", NUMBER},
    {"aperio.Focus Offset", NUMBER},
    {"aperio.LineAreaXOffset", NUMBER},
    {"aperio.LineAreaYOffset", NUMBER},
    {"aperio.LineCameraSkew", NUMBER},
    {"aperio.DisplayColor", NUMBER},
    {"aperio.Exposure Time", NUMBER},
    {"aperio.Exposure Scale", NUMBER},
    {"aperio.Gamma", NUMBER},
    {"hamamatsu.SourceLens", NUMBER},
    {"hamamatsu.XOffsetFromSlideCentre", NUMBER},
    {"hamamatsu.YOffsetFromSlideCentre", NUMBER},
    {"leica.aperture", NUMBER},
    {"leica.objective", NUMBER},
    {"mirax.GENERAL.OBJECTIVE_MAGNIFICATION", NUMBER},
    {"mirax.LAYER_#_LEVEL_#_SECTION.MICROMETER_PER_PIXEL_X", NUMBER},
    {"mirax.LAYER_#_LEVEL_#_SECTION.MICROMETER_PER_PIXEL_Y", NUMBER},
    {"ventana.Magnification", NUMBER},
    {"ventana.ScanRes", NUMBER},
    {"tiff.Orientation", NUMBER},
    {"tiff.ResolutionUnit", WORD},
    {"tiff.XResolution", NUMBER},
    {"tiff.YResolution", NUMBER},
};

static bool matches(const char *pattern, const char *key)
{
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (*pattern != *key++)
                return false;
            continue;
        }
        const size_t digits = strspn(key, "0123456789");
        if (digits < 1 || digits > 3)
            return false;
        key += digits;
    }
    return !*key;
}

/* Is the whole value of these characters, and not too long to be what it should be? */
static bool consists_of(const char *value, const char *characters, size_t most)
{
    const size_t n = strlen(value);
    return n > 0 && n <= most && strspn(value, characters) == n;
}

static bool is_number(const char *value)
{
    return consists_of(value, "0123456789+-.,eE", MOST_NUMBER) &&
           (isdigit((unsigned char)value[0]) || strchr("+-.", value[0]));
}

bool identifiers_allow(const char *key, const char *value)
{
    for (size_t k = 0; k < sizeof allowed / sizeof *allowed; k++)
        if (matches(allowed[k].key, key))
            switch (allowed[k].kind) {
            case NUMBER: return is_number(value);
            case WORD: return consists_of(value, "abcdefghijklmnopqrstuvwxyz-", MOST_WORD);
            default: return consists_of(value, "0123456789abcdefABCDEF", MOST_HASH);
            }
    return false;
}

/* --- ICC profiles: a header of 128 bytes, a table of tags, their data --- */

static uint32_t u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

struct icc_tag {
    uint32_t signature, at, bytes;
};

static struct icc_tag tag_at(const uint8_t *profile, uint32_t k)
{
    const uint8_t *p = profile + HEADER + 4 + 12 * k;
    return (struct icc_tag){u32(p), u32(p + 4), u32(p + 8)};
}

static bool is_valid(const uint8_t *profile, size_t n)
{
    if (n < HEADER + 4 || n > UINT32_MAX || memcmp(profile + 36, "acsp", 4))
        return false;
    const uint32_t tags = u32(profile + HEADER);
    if (tags > MOST_TAGS || HEADER + 4 + 12 * (size_t)tags > n)
        return false;
    for (uint32_t k = 0; k < tags; k++) {
        const struct icc_tag t = tag_at(profile, k);
        if (t.at < HEADER + 4 + 12 * tags || t.at > n || t.bytes < 8 || t.bytes > n - t.at)
            return false;
    }
    return true;
}

/* Tags whose data is numbers: colorants, curves, tables, measuring conditions. */
static bool is_colour(const uint8_t *data)
{
    static const char *const types[] = {"XYZ ", "curv", "para", "mft1", "mft2", "mAB ", "mBA ",
                                        "mpet", "sf32", "uf32", "ui08", "ui16", "ui32", "ui64",
                                        "chrm", "meas", "view", "sig ", "clrt", "clro", "cicp"};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (!memcmp(data, types[k], 4))
            return true;
    return false;
}

/* How many bytes at the beginning of a text tag are its structure. */
static size_t structure_bytes(const uint8_t *data, size_t n)
{
    if (!memcmp(data, "mluc", 4) && n >= 16) {
        const size_t records = u32(data + 8);
        return records <= (n - 16) / 12 ? 16 + 12 * records : 16;
    }
    return !memcmp(data, "desc", 4) && n >= 12 ? 12 : 8;
}

bool identifiers_blank_icc(uint8_t *profile, size_t n)
{
    static const uint8_t date[12] = {2000 >> 8, 2000 & 255, 0, 1, 0, 1};
    if (!is_valid(profile, n))
        return false;
    uint8_t *keep = calloc(n, 1); /* 1: this byte is not blanked */
    if (!keep)
        return false;
    const uint32_t tags = u32(profile + HEADER);
    memset(keep, 1, HEADER + 4 + 12 * (size_t)tags);
    for (uint32_t k = 0; k < tags; k++) {
        const struct icc_tag t = tag_at(profile, k);
        const uint8_t *data = profile + t.at;
        memset(keep + t.at, 1, is_colour(data) ? t.bytes : structure_bytes(data, t.bytes));
    }
    for (size_t k = 0; k < n; k++)
        profile[k] = keep[k] ? profile[k] : 0;
    memcpy(profile + 24, date, sizeof date);
    memset(profile + 48, 0, 8);  /* manufacturer and model of the device */
    memset(profile + 84, 0, 44); /* ID, reserved bytes */
    free(keep);
    return true;
}
