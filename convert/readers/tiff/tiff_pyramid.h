/*
 * tiff_pyramid.h - which directories of a TIFF file are the slide and its levels.
 *
 *   Aperio    the tiled directories, in the order of the file
 *   Philips   the same, marked as reduced (NewSubfileType, bit 0)
 *   OME       OME-XML says which directory is the slide. Smaller copies of it are its levels,
 *             marked as reduced or not, or the directories in its tag 330 (SubIFDs)
 *   others    the same for the largest directory, wherever it stands
 *
 * The slide and its levels lie in tiles or strips, but Aperio's and Philips' in tiles. A picture that
 * its description, NewSubfileType or XML calls a label, macro or mask is none of them. Aperio marks
 * labels with bit 0: there a level with that mark is the slide at a whole factor. Of an Aperio slide
 * with several focal planes the first counts, with its levels. The downsample of a level is what
 * the file states: the pixel spacings of Philips' XML, rounded, or the resolution tags, if the sizes
 * allow it, as levels may be padded. Else the sizes tell.
 *
 * Leica, Ventana and Trestle files are not read here: their tiles overlap or lie in several areas.
 */
#ifndef WSI_TIFF_PYRAMID_H
#define WSI_TIFF_PYRAMID_H

#include "common/base/err.h"
#include "convert/readers/frame/slide_file.h"
#include "convert/readers/tiff/tiff_file.h"

#include <stdbool.h>
#include <stdint.h>

enum { TIFF_LEVELS = 32 };

enum tiff_kind { TIFF_APERIO, TIFF_PHILIPS, TIFF_OME, TIFF_GENERIC };

struct tiff_pyramid {
    enum tiff_kind kind;
    char *description;   /* of the first directory */
    double mpp_x, mpp_y; /* of level 0, NaN without */
    double unitless;     /* px per unit that is not stated; NaN: mpp_x is known, or nothing is */
    bool in_strips;      /* level 0 is; coarser levels may lie in strips or tiles in any case */
    int64_t levels;      /* entries of the next four */
    uint64_t at[TIFF_LEVELS];    /* offsets of their directories */
    uint64_t masks[TIFF_LEVELS]; /* and of those that mask them: of their size, with bit 2 of
                                  * NewSubfileType; 0: none */
    double downsamples[TIFF_LEVELS];
    int64_t seen[TIFF_LEVELS]; /* OpenSlide's number of the level; -1: it does not see it */
    bool is_cut;               /* the list of directories leads out of the file, or ... */
    bool is_crowded; /* ... to one with too many tags, so that it is not read to its end */
    int planes;      /* Aperio: focal planes, of which level 0 is the first */
    int64_t n_seen;  /* levels that OpenSlide sees, if seen[0] is 0 */
};

/* Is a picture a label, macro or mask, by its description or NewSubfileType? */
bool tiff_pyramid_is_associated(const struct tiff_file *t, const struct tiff_directory *d);
/* Does the file's first description begin as Aperio's do? */
bool tiff_pyramid_is_aperio(const struct slide_file *file);
/* *p is owned by the file, which is searched once. 1: it is filled. 0: another file, or one that is
 * not read here; e may say which. -1: its XML is refused, or it holds several pictures or none that
 * is a slide; or errno. */
int tiff_pyramid_of(const struct tiff_pyramid **p, const struct slide_file *file, struct err *e);
/* The same for a slide in strips, of which tiff_pyramid_of() returns 0. */
int tiff_pyramid_strips(const struct tiff_pyramid **p, const struct slide_file *file,
                        struct err *e);
/* The same for a slide that OpenSlide reads. -1: also if OpenSlide shows another picture. */
int tiff_pyramid_check(const struct tiff_pyramid **p, const struct slide_file *file, struct err *e);

#endif
