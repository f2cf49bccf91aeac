/*
 * sources.h - the files that a slide is read from, as a store records them (/sources).
 *
 * A file is known by its name, size, modification time and the CRC-32 of what readers use as its
 * index:
 *
 *   TIFF    every directory: number, type and count of each entry, and its values. These include
 *           the tables of tiles, so tiles that were swapped or written anew show.
 *   DICOM   everything before the pixels, with the extended table of offsets, and the item of the
 *           basic table of offsets behind it.
 *   others  the first and the last 64 KiB.
 */
#ifndef WSI_SOURCES_H
#define WSI_SOURCES_H

#include "common/base/err.h"
#include "common/store/store.h"
#include "convert/readers/frame/slide_reader.h"

#include <stdbool.h>

struct sources {
    struct store_source *list; /* [n]; owned */
    int64_t n;
};

/* Lists the files of an open slide, of which one is `file`. `anonymous`: numbers stand for names.
 * -1: one of them cannot be read now. sources_free it always. */
int sources_list(struct sources *out, struct slide *s, const struct slide_file *file,
                 bool anonymous, struct err *e);
void sources_free(struct sources *s);

/* Does a MIRAX slide lack its folder, or a file in it that all have? -1: it does; e names it. */
int sources_check_mirax(const struct slide_file *file, struct err *e);

/* Calls put for a file and for those that belong to it: those of the folder of a MIRAX slide, those
 * that a VMS or VMU file names. As slide_reader.files. */
int sources_companions(const struct slide_file *file,
                       int (*put)(void *ctx, const struct slide_file *file), void *ctx,
                       struct err *e);

#endif
