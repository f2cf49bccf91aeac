/* map_files.c - see map_files.h. */
#include "process/map/map_files.h"

#include "common/base/folder.h"
#include "common/base/utf8.h"
#include "common/codec/codec.h"
#include "process/draw/png_file.h"
#include "process/map/map_tiff.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MOST_NAME = 180 }; /* bytes of a slide's name in a file name, of the 255 that Linux allows */

static const struct {
    const char *name, *ending;
} formats[MAP_FORMATS] = {
    [MAP_PNG] = {"png", ".png"},
    [MAP_OVERLAY] = {"overlay", ".overlay.png"},
    [MAP_GEOJSON] = {"geojson", ".geojson"},
    [MAP_CSV] = {"csv", ".csv"},
    [MAP_TIFF] = {"tiff", ".ome.tif"},
};

int map_format_find(const char *name)
{
    for (int f = 0; f < MAP_FORMATS; f++)
        if (!strcmp(name, formats[f].name))
            return f;
    return -1;
}

static bool ends_with(const char *path, const char *ending)
{
    const size_t n = strlen(path), k = strlen(ending);
    return n > k && path[n - k - 1] != '/' && !strcasecmp(path + n - k, ending);
}

int map_format_of_file(const char *path)
{
    if (folder_is(path))
        return -1;
    if (ends_with(path, ".tif") || ends_with(path, ".tiff"))
        return MAP_TIFF;
    if (ends_with(path, ".overlay.png"))
        return MAP_OVERLAY;
    for (int f = 0; f < MAP_FORMATS; f++)
        if (ends_with(path, formats[f].ending))
            return f;
    return -1;
}

/* --- names --- */

/* Bytes of the UTF-8 character at s, 0 if it is not one or may not appear in a file name. Letters
 * may; punctuation from U+2000 on may not: some of it changes the direction of text. */
static size_t harmless(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    const size_t n = utf8_length(s);
    if (n == 1)
        return u[0] >= ' ' && u[0] < 0x7f && !strchr("\"'*/:<>?\\|`$;&", u[0]);
    if (n == 2)
        return u[0] >= 0xc3 && !utf8_unsafe(s) ? 2 : 0;
    return n == 3 && u[0] < 0xee && u[0] != 0xe2 ? 3 : 0;
}

/* The slide's name for a file name; out[] is large enough. */
static void clean_name(const char *slide, char out[MOST_NAME + 16])
{
    size_t n = 0;
    bool changed = false;
    for (const char *s = slide; *s;) {
        size_t bytes = harmless(s);
        if (n == 0 && strchr(" .-=+@~", *s))
            bytes = 0;
        if (n + (bytes ? bytes : 1) > MOST_NAME) {
            changed = true;
            break;
        }
        changed = changed || !bytes;
        if (bytes)
            memcpy(out + n, s, bytes);
        else
            out[n] = '_';
        n += bytes ? bytes : 1;
        s += bytes ? bytes : 1;
    }
    out[n] = 0;
    if (changed)
        snprintf(out + n, 16, "~%08x", (unsigned)codec_crc32(slide, strlen(slide)));
}

char *map_file_name(const char *folder, const char *slide, const char *feature, enum map_format f)
{
    char clean[MOST_NAME + 16], name[MOST_NAME + 80];
    clean_name(slide, clean);
    snprintf(name, sizeof name, "%s%s%s%s", clean, feature ? "." : "", feature ? feature : "",
             formats[f].ending);
    return folder_join(folder, name);
}

/* --- files --- */

/* Did this program write the existing file? */
static bool is_ours(const char *path, enum map_format format)
{
    unsigned char head[64] = "";
    const char *begin = format == MAP_CSV ? MAP_CSV_HEAD : MAP_GEOJSON_HEAD;
    if (format == MAP_TIFF)
        return map_tiff_is_ours(path);
    FILE *f = fopen(path, "rbe");
    const size_t n = f ? fread(head, 1, sizeof head, f) : 0;
    if (f)
        fclose(f);
    if (format == MAP_PNG || format == MAP_OVERLAY)
        return png_file_is_ours(head, n);
    return n >= strlen(begin) && !memcmp(head, begin, strlen(begin));
}

static int check_target(const char *path, enum map_format format, struct err *e)
{
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : err_sys(e, "%s", path);
    if (S_ISREG(st.st_mode) && is_ours(path, format))
        return 0;
    return err_set(e,
                   "%s: already exists and was not written by h5spec map; not overwritten: choose "
                   "another name",
                   path);
}

int map_file_begin(struct text_file *t, const char *path, enum map_format format, struct err *e)
{
    return check_target(path, format, e) || text_file_begin(t, path, e) ? -1 : 0;
}
