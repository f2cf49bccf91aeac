/*
 * tiff_xml.h - what the XML in a TIFF file's first ImageDescription says of the slide.
 *
 * OME-XML (docs.openmicroscopy.org, OME-TIFF) states the size of a pixel, channels, planes and
 * further pictures; the XML of Philips (a DataObject of type DPUfsImport) the spacing of every
 * level. Only these numbers are looked for, in text that ends with a 0 byte: nothing else of the
 * XML is kept, as it holds names, barcodes, and label and macro pictures. The text is not trusted.
 */
#ifndef WSI_TIFF_XML_H
#define WSI_TIFF_XML_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

bool tiff_xml_is_ome(const char *xml);
bool tiff_xml_is_philips(const char *xml);

/* OME: um per pixel of the first picture. Leaves *x or *y as it is where the XML states none. */
void tiff_xml_ome_mpp(const char *xml, double *x, double *y);
/* OME: is the first picture one plane of one channel, and the only one besides *others that are
 * named as label, macro, overview or thumbnail? -1: no; e says what there is. */
int tiff_xml_ome_check(const char *xml, int *others, struct err *e);

/* Philips: mm per pixel of each level, into x[most] and y[most]. Returns how many levels have
 * valid ones, or -1 for more than `most` or an invalid one. */
int64_t tiff_xml_spacings(const char *xml, double *x, double *y, int64_t most);

#endif
