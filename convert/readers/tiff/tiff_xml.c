/* tiff_xml.c - see tiff_xml.h. */
#include "convert/readers/tiff/tiff_xml.h"

#include "common/base/text.h"

#include <ctype.h>
#include <expat.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_BYTES = 1 << 26, MOST_DEPTH = 64, MOST_ATTRIBUTES = 256, LEAST_COPY = 64 };

struct reading {
    XML_Parser parser;
    struct tiff_xml *x;
    const char *file_name;
    const char *hostile; /* why the text is refused; NULL: it is not */
    int depth;           /* of open elements */
    bool is_done;        /* the root has ended, or is of another kind */
    char uuid[TIFF_XML_TEXT];
    /* the open elements of OME */
    struct tiff_xml_image *image; /* in a Pixels element; NULL: in none that is kept */
    bool is_first, has_first;     /* TiffData: is this the first plane, and was it met? */
    char other[TIFF_XML_TEXT];    /* FileName of an UUID */
    /* of Philips */
    int level_depth; /* of the PixelDataRepresentation; 0: outside */
    /* text that is collected, up to the end of the element */
    char text[TIFF_XML_TEXT];
    size_t n;
    int text_depth; /* of that element; 0: none is collected */
};

/* --- names, attributes, numbers --- */

/* A name without its prefix. */
static const char *local(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon ? colon + 1 : name;
}

static const char *attribute(const char **attributes, const char *name)
{
    for (; *attributes; attributes += 2)
        if (!strcmp(local(attributes[0]), name))
            return attributes[1];
    return "";
}

static void copy_text(char out[TIFF_XML_TEXT], const char *text)
{
    snprintf(out, TIFF_XML_TEXT, "%s", text);
}

/* A positive number, or NaN. */
static double number(const char *text)
{
    char *end;
    const double v = strtod(text, &end);
    const bool is_number = end != text && end[strspn(end, " \t\r\n")] == 0;
    return is_number && isfinite(v) && v > 0 ? v : NAN;
}

static int64_t integer(const char *text, int64_t otherwise)
{
    char *end;
    const long long v = strtoll(text, &end, 10);
    return end != text && v >= 0 && v <= INT32_MAX ? v : otherwise;
}

/* --- OME --- */

double tiff_xml_um(const char *unit)
{
    static const struct {
        const char *name;
        double um;
    } units[] = {
        {"\xc2\xb5m", 1},
        {"\xce\xbcm", 1},
        {"um", 1},
        {"nm", 1e-3},
        {"mm", 1e3},
        {"cm", 1e4},
        {"m", 1e6},
        {"pm", 1e-6},
        {"fm", 1e-9},
        {"am", 1e-12},
        {"zm", 1e-15},
        {"ym", 1e-18},
        {"dm", 1e5},
        {"dam", 1e7},
        {"hm", 1e8},
        {"km", 1e9},
        {"Mm", 1e12},
        {"Gm", 1e15},
        {"Tm", 1e18},
        {"Pm", 1e21},
        {"Em", 1e24},
        {"Zm", 1e27},
        {"Ym", 1e30},
        {"\xc3\x85", 1e-4},
        {"\xe2\x84\xab", 1e-4},
        {"thou", 25.4},
        {"li", 25400. / 12},
        {"in", 25400},
        {"ft", 304800},
        {"yd", 914400},
        {"mi", 1609344e3},
        {"ua", 149597870700e6},
        {"ly", 9460730472580800e6},
        {"pc", 3.0856775814913673e22},
        {"pt", 25400. / 72},
    };
    if (!*unit)
        return 1;
    for (size_t k = 0; k < sizeof units / sizeof *units; k++)
        if (!strcmp(unit, units[k].name))
            return units[k].um;
    return NAN;
}

static void begin_image(struct reading *r, const char **attributes)
{
    if (r->x->n_images == TIFF_XML_IMAGES) {
        r->hostile = "it lists more than 64 pictures";
        return;
    }
    struct tiff_xml_image *i = &r->x->images[r->x->n_images++];
    *i = (struct tiff_xml_image){
        .z = 1, .c = 1, .t = 1, .mpp_x = NAN, .mpp_y = NAN, .directory = -1};
    copy_text(i->name, attribute(attributes, "Name"));
    r->image = i;
    r->has_first = false;
}

static void take_pixels(struct tiff_xml_image *i, const char **a)
{
    i->width = integer(attribute(a, "SizeX"), 0);
    i->height = integer(attribute(a, "SizeY"), 0);
    i->z = integer(attribute(a, "SizeZ"), 1);
    i->c = integer(attribute(a, "SizeC"), 1);
    i->t = integer(attribute(a, "SizeT"), 1);
    i->mpp_x =
        number(attribute(a, "PhysicalSizeX")) * tiff_xml_um(attribute(a, "PhysicalSizeXUnit"));
    i->mpp_y =
        number(attribute(a, "PhysicalSizeY")) * tiff_xml_um(attribute(a, "PhysicalSizeYUnit"));
}

/* A TiffData element says where one plane or several lie. */
static void take_place(struct reading *r, const char **a)
{
    r->is_first = !r->has_first && integer(attribute(a, "FirstC"), 0) == 0 &&
                  integer(attribute(a, "FirstZ"), 0) == 0 &&
                  integer(attribute(a, "FirstT"), 0) == 0;
    if (!r->is_first)
        return;
    r->has_first = true;
    r->image->directory = integer(attribute(a, "IFD"), -1);
}

static void collect(struct reading *r);

static void begin_ome(struct reading *r, const char *name, const char **a)
{
    static const char *const path[] = {"OME", "Image", "Pixels", "TiffData", "UUID"};
    if (r->depth > 5 || strcmp(name, path[r->depth - 1]) != 0 || (r->depth > 2 && !r->image))
        return;
    switch (r->depth) {
    case 2: begin_image(r, a); break;
    case 3: take_pixels(r->image, a); break;
    case 4: take_place(r, a); break;
    case 5:
        copy_text(r->other, attribute(a, "FileName"));
        if (r->is_first)
            collect(r);
        break;
    default: copy_text(r->uuid, attribute(a, "UUID"));
    }
}

/* Is the plane in this file? Its root has the file's own UUID. */
static void end_uuid(struct reading *r)
{
    const bool is_own =
        *r->uuid ? !strcmp(r->text, r->uuid) : !*r->other || !strcmp(r->other, r->file_name);
    if (!is_own)
        copy_text(r->image->other, *r->other ? r->other : *r->text ? r->text : "without a name");
}

/* --- Philips --- */

static void begin_philips(struct reading *r, const char *name, const char **a)
{
    if (!strcmp(name, "DataObject") && !r->level_depth &&
        !strcmp(attribute(a, "ObjectType"), "PixelDataRepresentation"))
        r->level_depth = r->depth;
    if (r->level_depth && r->depth == r->level_depth + 1 &&
        !strcmp(attribute(a, "Name"), "DICOM_PIXEL_SPACING"))
        collect(r);
}

/* "0.000227" "0.000227": rows first. */
static bool parse_spacing(const char *text, double *x, double *y)
{
    double v[2];
    for (int k = 0; k < 2; k++) {
        char *end;
        text += strcspn(text, "0123456789.");
        v[k] = strtod(text, &end);
        if (end == text || !isfinite(v[k]) || !(v[k] > 0))
            return false;
        text = end;
    }
    *y = v[0];
    *x = v[1];
    return true;
}

static void end_spacing(struct reading *r)
{
    struct tiff_xml *x = r->x;
    const int n = x->n_levels;
    if (n >= 0 && n < TIFF_XML_LEVELS && parse_spacing(r->text, &x->spacing_x[n], &x->spacing_y[n]))
        x->n_levels++;
    else
        x->n_levels = -1;
}

/* --- expat --- */

static void XMLCALL add_text(void *ctx, const char *text, int n)
{
    struct reading *r = ctx;
    for (int k = 0; k < n && r->n + 1 < sizeof r->text; k++)
        if (r->n > 0 || !isspace((unsigned char)text[k]))
            r->text[r->n++] = text[k];
    r->text[r->n] = 0;
}

/* Collects the text of the element that begins. */
static void collect(struct reading *r)
{
    r->text_depth = r->depth;
    r->text[r->n = 0] = 0;
    XML_SetCharacterDataHandler(r->parser, add_text);
}

static void begin_root(struct reading *r, const char *name, const char **a)
{
    if (!strcmp(name, "OME"))
        r->x->kind = TIFF_XML_OME;
    else if (!strcmp(name, "DataObject") && !strcmp(attribute(a, "ObjectType"), "DPUfsImport"))
        r->x->kind = TIFF_XML_PHILIPS;
    else
        r->is_done = true;
}

static void stop_if_over(struct reading *r)
{
    if (r->is_done || r->hostile)
        XML_StopParser(r->parser, XML_FALSE);
}

static void XMLCALL begin(void *ctx, const char *name, const char **attributes)
{
    struct reading *r = ctx;
    int n = 0;
    while (n <= MOST_ATTRIBUTES && attributes[2 * n])
        n++;
    if (n > MOST_ATTRIBUTES)
        r->hostile = "an element has more than 256 attributes";
    if (++r->depth > MOST_DEPTH)
        r->hostile = "its elements lie more than 64 deep";
    if (r->depth == 1)
        begin_root(r, local(name), attributes);
    if (!r->hostile && r->x->kind == TIFF_XML_OME)
        begin_ome(r, local(name), attributes);
    else if (!r->hostile && r->x->kind == TIFF_XML_PHILIPS)
        begin_philips(r, local(name), attributes);
    stop_if_over(r);
}

static void XMLCALL end(void *ctx, const char *name)
{
    struct reading *r = ctx;
    (void)name;
    if (r->text_depth == r->depth) {
        XML_SetCharacterDataHandler(r->parser, NULL);
        while (r->n > 0 && isspace((unsigned char)r->text[r->n - 1]))
            r->text[--r->n] = 0;
        if (r->x->kind == TIFF_XML_OME)
            end_uuid(r);
        else
            end_spacing(r);
        r->text_depth = 0;
    }
    if (r->level_depth == r->depth)
        r->level_depth = 0;
    if (r->depth == 2)
        r->image = NULL;
    r->is_done = --r->depth == 0; /* what follows the root does not matter */
    stop_if_over(r);
}

static void XMLCALL begin_doctype(void *ctx, const char *name, const char *system,
                                  const char *public, int has_subset)
{
    struct reading *r = ctx;
    (void)name, (void)system, (void)public, (void)has_subset;
    r->hostile = "it has a DOCTYPE, which can declare entities";
    stop_if_over(r);
}

static bool is_utf8(const char *s)
{
    for (size_t n; *s; s += n) {
        n = (unsigned char)*s < 128 ? 1 : utf8_length(s);
        if (n == 0)
            return false;
    }
    return true;
}

/* Why expat could not read all of the text: 0 if it need not, or -1. */
static int judge(const struct reading *r, struct err *e)
{
    const enum XML_Error code = XML_GetErrorCode(r->parser);
    if (code == XML_ERROR_NO_MEMORY)
        return err_memory(e);
    if (r->hostile)
        return err_set(e, "the XML of its description is rejected: %s", r->hostile);
    if (r->is_done || r->x->kind != TIFF_XML_OME) {
        r->x->kind = r->is_done ? r->x->kind : TIFF_XML_OTHER;
        return 0;
    }
    return err_set(e,
                   "its OME-XML, which says where the slide is, is damaged: %s; write the file "
                   "anew with the program that made it",
                   XML_ErrorString(code));
}

static int parse(struct reading *r, const char *text, size_t n, struct err *e)
{
    r->parser = XML_ParserCreate(is_utf8(text) ? "UTF-8" : "ISO-8859-1");
    if (!r->parser)
        return err_memory(e);
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, begin, end);
    XML_SetStartDoctypeDeclHandler(r->parser, begin_doctype);
    int result = 0;
    if (XML_Parse(r->parser, text, (int)n, XML_TRUE) == XML_STATUS_ERROR)
        result = judge(r, e);
    XML_ParserFree(r->parser);
    return result;
}

int tiff_xml_read(struct tiff_xml *x, const char *text, const char *file_name, struct err *e)
{
    struct reading r = {.x = x, .file_name = file_name};
    *x = (struct tiff_xml){.kind = TIFF_XML_OTHER};
    text += strncmp(text, "\xef\xbb\xbf", 3) ? 0 : 3;
    text += strspn(text, " \t\r\n");
    if (*text != '<')
        return 0;
    const size_t n = strlen(text);
    if (n > MOST_BYTES)
        return err_set(e, "the XML of its description is rejected: it has more than 64 MiB");
    return parse(&r, text, n, e);
}

/* --- which picture is the slide --- */

bool tiff_xml_is_associated(const char *name, bool whole)
{
    static const char *const words[] = {"label", "macro", "overview", "thumbnail", "barcode"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        const char *at = strcasestr(name, words[k]);
        const char *rest = at ? at + strlen(words[k]) : NULL;
        if (!at || (at > name && isalpha((unsigned char)at[-1])))
            continue;
        const char *image = rest + strspn(rest, " _-");
        image += strncasecmp(image, "image", 5) ? 0 : 5;
        if (whole ? at == name && !*image : !islower((unsigned char)*rest) || image > rest)
            return true;
    }
    return false;
}

/* Is the picture a smaller copy of the other? */
static bool is_copy(const struct tiff_xml_image *i, const struct tiff_xml_image *of)
{
    if (i->width < LEAST_COPY || i->height < LEAST_COPY)
        return false;
    const double factor = round((double)of->width / (double)i->width);
    return factor >= 2 && fabs((double)of->width / factor - (double)i->width) <= 1 &&
           fabs((double)of->height / factor - (double)i->height) <= 1;
}

static int check_dimension(int64_t n, int64_t most, const char *what, struct err *e)
{
    if (n <= most)
        return 0;
    return err_set(e,
                   "an OME-TIFF with %" PRId64 " %s; write the one that matters to a file of its "
                   "own first",
                   n, what);
}

/* The largest picture that is not associated; -1: there is none. */
static int largest(const struct tiff_xml *x, bool whole)
{
    int best = -1;
    for (int k = 0; k < x->n_images; k++) {
        const struct tiff_xml_image *i = &x->images[k], *b = &x->images[best < 0 ? k : best];
        if (!tiff_xml_is_associated(i->name, whole) &&
            (best < 0 || i->width * i->height > b->width * b->height))
            best = k;
    }
    return best;
}

int tiff_xml_slide(const struct tiff_xml *x, int *image, int *others, struct err *e)
{
    bool whole = false;
    int pictures = 0;
    *others = 0;
    *image = largest(x, whole);
    if (*image < 0)
        *image = largest(x, whole = true); /* a slide whose own name has such a word */
    if (*image < 0)
        return err_set(e,
                       "an OME-TIFF without a slide: its %d picture%s label, macro, overview or "
                       "thumbnail",
                       x->n_images, x->n_images == 1 ? " is a" : "s are");
    const struct tiff_xml_image *slide = &x->images[*image];
    for (int k = 0; k < x->n_images; k++) {
        const bool is_associated = tiff_xml_is_associated(x->images[k].name, whole);
        *others += is_associated;
        pictures += !is_associated && (k == *image || !is_copy(&x->images[k], slide));
    }
    if (pictures > 1)
        return err_set(
            e,
            "an OME-TIFF with %d pictures (scenes or series); write the one that matters "
            "to a file of its own first",
            pictures);
    if (slide->other[0])
        return err_set(e, "an OME-TIFF whose slide is in another file, %s; convert that one",
                       slide->other);
    return check_dimension(slide->z, 1, "focal planes", e) ||
                   check_dimension(slide->t, 1, "time points", e) ||
                   check_dimension(slide->c, 3, "channels", e)
               ? -1
               : 0;
}
