/*
 * dicom.h - which series a DICOM file belongs to.
 *
 * A DICOM slide is a folder of files, one or more per level, that share a SeriesInstanceUID. Each
 * of them opens the whole slide, so a folder search must count them as one.
 */
#ifndef WSI_DICOM_H
#define WSI_DICOM_H

#include "convert/readers/dicom_file.h"

#include <stdbool.h>

/* Is it a DICOM file (Part 10)? */
bool dicom_is(const struct slide_file *file);
/* The SeriesInstanceUID (0020,000E) from the file's header. False: the file is not DICOM, is
 * compressed as a whole, or does not state it, and errno is 0; or errno says why it cannot be read.
 */
bool dicom_series(const char *path, char uid[DICOM_UID]);

/* Is a file that does not end in .dcm DICOM? Only names without an ending, or with one that others
 * write, such as a number, are looked at. */
bool dicom_is_unnamed(const char *path);

#endif
