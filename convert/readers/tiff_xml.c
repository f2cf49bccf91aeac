/* tiff_xml.c - see tiff_xml.h. */
#include "convert/readers/tiff_xml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_VALUE = 128 };

bool tiff_xml_is_ome(const char *xml)
{
    return strstr(xml, "<OME") && strstr(xml, "<Pixels");
}

bool tiff_xml_is_philips(const char *xml)
{
    const char *root = strstr(xml, "<DataObject");
    const char *type = root ? strstr(root, "ObjectType=\"DPUfsImport\"") : NULL;
    return type && type < root + strcspn(root, ">");
}

/* --- elements and attributes --- */

/* The next element of a name, behind it; NULL: none before `end`. */
static const char *next_element(const char *xml, const char *name, const char *end)
{
    const size_t n = strlen(name);
    while ((xml = strchr(xml, '<')) && (!end || xml < end)) {
        xml++;
        if (!strncmp(xml, name, n) && strchr(" \t\r\n>/", xml[n]) && xml[n])
            return xml + n;
    }
    return NULL;
}

/* The value of an attribute of the element that begins before `at`. False: it has none, or a long
 * one. */
static bool attribute(const char *at, const char *name, char value[MOST_VALUE])
{
    const char *end = at + strcspn(at, ">");
    const size_t n = strlen(name);
    for (; (at = strstr(at, name)) && at < end; at += n) {
        if (!strchr(" \t\r\n", at[-1]) || at[n] != '=' || at[n + 1] != '"')
            continue;
        const size_t length = strcspn(at + n + 2, "\"");
        if (length >= MOST_VALUE)
            return false;
        memcpy(value, at + n + 2, length);
        value[length] = 0;
        return true;
    }
    return false;
}

static double number(const char *text)
{
    char *end;
    const double v = strtod(text, &end);
    return end != text && isfinite(v) && v > 0 ? v : NAN;
}

/* --- OME --- */

static double um_of(const char *unit)
{
    static const struct {
        const char *name;
        double um;
    } units[] = {{"\xc2\xb5m", 1}, {"\xce\xbcm", 1}, {"um", 1},  {"nm", 1e-3},
                 {"mm", 1e3},      {"cm", 1e4},      {"m", 1e6}, {"\xc3\x85", 1e-4}};
    for (size_t k = 0; k < sizeof units / sizeof *units; k++)
        if (!strcmp(unit, units[k].name))
            return units[k].um;
    return NAN;
}

static void take_size(const char *pixels, const char *name, double *um)
{
    char value[MOST_VALUE], unit[MOST_VALUE], key[32];
    snprintf(key, sizeof key, "%sUnit", name);
    const double scale = attribute(pixels, key, unit) ? um_of(unit) : 1;
    const double size = attribute(pixels, name, value) ? number(value) * scale : NAN;
    if (size > 0)
        *um = size;
}

void tiff_xml_ome_mpp(const char *xml, double *x, double *y)
{
    const char *pixels = next_element(xml, "Pixels", NULL);
    if (!pixels)
        return;
    take_size(pixels, "PhysicalSizeX", x);
    take_size(pixels, "PhysicalSizeY", y);
}

/* Is the picture one that comes with a slide, by its name? */
static bool is_associated(const char *image)
{
    static const char *const names[] = {"label", "macro", "overview", "thumbnail"};
    char name[MOST_VALUE] = "";
    attribute(image, "Name", name);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strcasestr(name, names[k]))
            return true;
    return false;
}

static int check_dimension(const char *pixels, const char *name, long most, const char *what,
                           struct err *e)
{
    char value[MOST_VALUE];
    const long n = attribute(pixels, name, value) ? strtol(value, NULL, 10) : 1;
    if (n <= most)
        return 0;
    return err_set(e,
                   "an OME-TIFF with %ld %s; write the one that matters to a file of its own "
                   "first",
                   n, what);
}

int tiff_xml_ome_check(const char *xml, int *others, struct err *e)
{
    const char *image = next_element(xml, "Image", NULL);
    const char *pixels = next_element(xml, "Pixels", NULL);
    int pictures = 1;
    *others = 0;
    if (!pixels)
        return 0;
    if (check_dimension(pixels, "SizeZ", 1, "focal planes", e) ||
        check_dimension(pixels, "SizeT", 1, "time points", e) ||
        check_dimension(pixels, "SizeC", 3, "channels", e))
        return -1;
    while (image && (image = next_element(image, "Image", NULL)))
        if (is_associated(image))
            ++*others;
        else
            pictures++;
    if (pictures == 1)
        return 0;
    return err_set(e,
                   "an OME-TIFF with %d pictures (scenes or series); write the one that matters "
                   "to a file of its own first",
                   pictures);
}

/* --- Philips --- */

/* "0.000227" "0.000227": rows first. The quotes may be &quot;. */
static bool parse_spacing(const char *text, double *x, double *y)
{
    double v[2];
    for (int k = 0; k < 2; k++) {
        char *end;
        text += strcspn(text, "0123456789.<");
        v[k] = strtod(text, &end);
        if (end == text || !isfinite(v[k]) || !(v[k] > 0))
            return false;
        text = end;
    }
    *y = v[0];
    *x = v[1];
    return true;
}

int64_t tiff_xml_spacings(const char *xml, double *x, double *y, int64_t most)
{
    static const char name[] = "\"DICOM_PIXEL_SPACING\"";
    int64_t n = 0;
    while ((xml = strstr(xml, "\"PixelDataRepresentation\""))) {
        const char *end = strstr(++xml, "</DataObject>");
        const char *spacing = strstr(xml, name);
        if (!spacing || (end && spacing > end))
            continue;
        spacing += strcspn(spacing, ">");
        if (n == most || !parse_spacing(spacing, &x[n], &y[n]))
            return -1;
        n++;
    }
    return n;
}
