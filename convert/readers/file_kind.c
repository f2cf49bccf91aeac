/* file_kind.c - see file_kind.h. */
#include "convert/readers/file_kind.h"

#include "common/base/read_at.h"
#include "convert/readers/dicom.h"
#include "convert/readers/slide_metadata.h"
#include "convert/readers/tiff_file.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { HEAD = 4096 };

/* --- TIFF --- */

static int reject_strips(const char *path, const struct tiff_file *t,
                         const struct tiff_directory *d, struct err *e)
{
    return err_set(e,
                   "%s: not a slide: a TIFF file of %" PRIu64 " x %" PRIu64 " px without tiles; "
                   "convert it to a tiled pyramid first, for example with vips tiffsave --tile "
                   "--pyramid",
                   path, tiff_file_value(t, d, TIFF_FILE_WIDTH, 0),
                   tiff_file_value(t, d, TIFF_FILE_LENGTH, 0));
}

static int reject_directory(const char *path, const struct tiff_file *t,
                            const struct tiff_directory *d, const char *why, struct err *e)
{
    char text[2048], tiles[160];
    tiff_file_text(t, d, TIFF_FILE_DESCRIPTION, text, sizeof text);
    if (!tiff_directory_tag(d, TIFF_FILE_TILE_WIDTH))
        return reject_strips(path, t, d, e);
    tiff_file_name_tiles(t, d, tiles, sizeof tiles);
    return err_set(e,
                   "%s: not a slide that this %s reads: %s whose %s%s%s; write its picture as a "
                   "pyramid of JPEG tiles first, for example with vips tiffsave --tile --pyramid "
                   "--compression jpeg%s",
                   path, slide_metadata_available() ? "program" : "build",
                   strstr(text, "<OME") ? "an OME-TIFF" : "a tiled TIFF file", tiles,
                   *why ? "; " : "", why,
                   slide_metadata_available() ? "" : ", or build wsi2h5 with OpenSlide");
}

static int reject_tiff(const char *path, const struct tiff_file *t, const char *why, struct err *e)
{
    struct tiff_directory d;
    if (!tiff_file_directory(t, t->first, &d))
        return err_set(e,
                       "%s: not a slide: a TIFF file whose first directory is damaged or cut off; "
                       "copy the slide again",
                       path);
    const int r = reject_directory(path, t, &d, why, e);
    tiff_directory_free(&d);
    return r;
}

/* --- others --- */

static int reject_dicom(const char *path, const char *why, struct err *e)
{
    return err_set(e, "%s: not a slide that this program or %s reads: a DICOM file%s%s", path,
                   slide_metadata_library(), *why ? ": " : "", why);
}

static bool begins(const char *head, size_t n, const char *with, size_t length)
{
    return n >= length && !memcmp(head, with, length);
}

static bool is_html(const char *head)
{
    head += strspn(head, " \t\r\n\xef\xbb\xbf");
    return !strncasecmp(head, "<!doctype html", 14) || !strncasecmp(head, "<html", 5);
}

static bool is_text(const char *head, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if ((unsigned char)head[k] < 32 && !isspace((unsigned char)head[k]))
            return false;
    return n > 0;
}

static bool is_zero(const char *head, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (head[k])
            return false;
    return n > 0;
}

/* What the file is and what to do, or NULL. head[n] is 0. */
static const char *describe(const char *head, size_t n)
{
    if (begins(head, n, "\x89HDF\r\n\x1a\n", 8))
        return "an HDF5 file; if it is a store, h5spec reads it";
    if (begins(head, n, "\xff\xd8\xff", 3))
        return "a JPEG picture that is damaged; copy it again";
    if (begins(head, n, "\x89PNG", 4))
        return "a PNG picture that is damaged; copy it again";
    if (begins(head, n, "PK\3\4", 4) || begins(head, n, "\x1f\x8b", 2))
        return "a compressed archive; unpack it first";
    if (is_zero(head, n))
        return "its first bytes are all zero; copy the slide again";
    if (is_html(head))
        return "an HTML page, perhaps a failed download; download the slide again";
    if (is_text(head, n))
        return "a text file";
    return NULL;
}

int file_kind_reject(const struct slide_file *file, const char *why, const char *only,
                     struct err *e)
{
    char head[HEAD + 1];
    struct tiff_file t;
    const char *path = file->path;
    const size_t n = read_at(file->fd, 0, head, HEAD);
    head[n] = 0;
    if (dicom_is(file))
        return reject_dicom(path, why, e);
    if (tiff_file_open(&t, file))
        return reject_tiff(path, &t, why, e);
    const char *what = describe(head, n);
    if (what)
        return err_set(e, "%s: not a slide: %s", path, what);
    return err_set(e, "%s: not a slide in a known format%s; check that the file is complete", path,
                   only);
}
