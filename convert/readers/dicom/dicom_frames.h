/*
 * dicom_frames.h - where in a DICOM file each tile of a level lies.
 *
 * Encapsulated pixels are items, one after the other: a table of offsets, which may be empty, then
 * the fragments of the frames. Without a table, or with one that contradicts itself or the items,
 * the streams show where frames begin. No tile may be shifted: if frames are missing and
 * nobody knows which, the file is damaged.
 *
 * The frames of TILED_FULL are the tiles in row-major order. In every other organization (sparse,
 * 3D, or none stated) frames lie where they say, in any order, and tiles without a frame are
 * missing; without positions they are those of TILED_FULL, unless it is TILED_SPARSE. A file cannot
 * state more tiles than a TIFF file of its size could list.
 */
#ifndef WSI_DICOM_FRAMES_H
#define WSI_DICOM_FRAMES_H

#include "common/base/err.h"
#include "convert/readers/dicom/dicom_file.h"
#include "convert/readers/frame/tile_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tiles of a level, across and down. All files of a level state the same. */
int64_t dicom_frames_cols(const struct dicom_instance *i);
int64_t dicom_frames_rows(const struct dicom_instance *i);

/* What there is to say of a level that can be read; starts as {0}. */
struct dicom_frames_said {
    struct err problem; /* a table of offsets is damaged; the items say the same */
    struct err note;    /* frames of TILED_FULL state other places */
};

/*
 * The level in n parts, in the order of their frames. 1: *places [rows][cols] says where the items
 * of each tile lie, heads included; to be free()d. 0: a kind of tiling that this does not read; e
 * says which. -1: damaged, a part is missing, or it cannot be read now: errno. *bad is the part
 * that the message is about, or -1.
 */
int dicom_frames_read(const struct dicom_part *parts, int n, struct tile_place **places, int *bad,
                      struct dicom_frames_said *said, struct err *e);

/* Joins the fragments in the items bytes[*n] to a frame of *n bytes at bytes[0], without padding
 * behind its end. False: they are damaged. */
bool dicom_frames_join(uint8_t *bytes, size_t *n);

#endif
