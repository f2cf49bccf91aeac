/*
 * dicom_index.h - which files of a folder belong to which DICOM series.
 *
 * Any file of a series opens the slide, whose other files lie in the same folder. A folder can hold
 * hundreds of slides, so its files are looked at once per run, not once per slide. The index of the
 * last few folders is kept, and made again when a folder has changed.
 *
 * Any thread.
 */
#ifndef WSI_DICOM_INDEX_H
#define WSI_DICOM_INDEX_H

#include "common/base/err.h"

#include <stddef.h>

/* The names of a folder's files that belong to a series, in the order of their bytes. 0, or -1: the
 * folder or a file in it cannot be read now: errno. dicom_index_free the list. */
int dicom_index_find(const char *folder, const char *series, char ***names, size_t *n,
                     struct err *e);
void dicom_index_free(char **names, size_t n);

#endif
