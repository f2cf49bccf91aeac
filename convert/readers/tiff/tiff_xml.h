/*
 * tiff_xml.h - what the XML in a TIFF file's first ImageDescription says of the slide.
 *
 * OME-XML (docs.openmicroscopy.org, OME-TIFF) lists pictures: their sizes, the size of a pixel, and
 * which directory of which file holds them. The XML of Philips (a DataObject of type DPUfsImport)
 * states the spacing of pixels of every level. Only these are kept: the rest holds names, barcodes,
 * and label and macro pictures. Expat parses the text, in UTF-8 or else in Latin-1. The text is not
 * trusted: a DOCTYPE, which can declare entities, or unreasonable sizes are refused.
 */
#ifndef WSI_TIFF_XML_H
#define WSI_TIFF_XML_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { TIFF_XML_IMAGES = 64, TIFF_XML_LEVELS = 32, TIFF_XML_TEXT = 128 };

enum tiff_xml_kind { TIFF_XML_OTHER, TIFF_XML_OME, TIFF_XML_PHILIPS };

/* A picture of OME-XML. */
struct tiff_xml_image {
    char name[TIFF_XML_TEXT];
    int64_t width, height;     /* px, 0 when they are not stated */
    int64_t z, c, t;           /* focal planes, channels, time points; 1 when they are not stated */
    double mpp_x, mpp_y;       /* um per pixel, NaN when unknown */
    int64_t directory;         /* of its first plane, from 0; -1 when it is not stated */
    char other[TIFF_XML_TEXT]; /* the file that holds it; "": this one */
};

struct tiff_xml {
    enum tiff_xml_kind kind;
    int n_images; /* OME */
    struct tiff_xml_image images[TIFF_XML_IMAGES];
    int n_levels; /* Philips; -1: more than TIFF_XML_LEVELS, or an invalid spacing */
    double spacing_x[TIFF_XML_LEVELS], spacing_y[TIFF_XML_LEVELS]; /* mm per pixel */
};

/* Reads the text of a file of this name; *x is TIFF_XML_OTHER for any other text. -1: the XML is
 * refused, as it is no XML or hostile. */
int tiff_xml_read(struct tiff_xml *x, const char *text, const char *file_name, struct err *e);

/* OME: which image is the slide, and how many *others are label, macro, overview or thumbnail. It
 * must be the only other one besides its own smaller copies, and one plane of at most three
 * channels. -1: it is not; e says what there is. */
int tiff_xml_slide(const struct tiff_xml *x, int *image, int *others, struct err *e);

/* um per unit of length: OME's UnitsLength, but for pixels and reference frames, which are NaN; ""
 * is a um. */
double tiff_xml_um(const char *unit);

/* Does a name say that the picture is a label, macro, overview or thumbnail? `whole`: and nothing
 * else. */
bool tiff_xml_is_associated(const char *name, bool whole);

#endif
