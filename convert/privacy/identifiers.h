/*
 * identifiers.h - which metadata of a slide may enter a store.
 *
 * Lists of forbidden words never know all words. So this is a list of what is allowed: numbers and
 * enumerations that say how the slide was scanned. Everything else needs --keep-identifiers.
 */
#ifndef WSI_IDENTIFIERS_H
#define WSI_IDENTIFIERS_H

#include "common/base/err.h"
#include "common/store/store_write.h"
#include "convert/readers/slide.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is this property free of identifying data? The key must be in the list, and the value of the kind
 * that the list states. */
bool identifiers_allow(const char *key, const char *value);

/*
 * Blanks what may identify a scanner or a person in an ICC profile: all texts (among them desc,
 * dmnd, dmdd, cprt, vued), the date, the profile's ID and bytes that belong to no tag. Colour data
 * is not changed. False: it is no valid profile, and must not be stored.
 */
bool identifiers_blank_icc(uint8_t *profile, size_t n);

/*
 * --- names ---
 *
 * Slides named by their hash instead of their file name (--anonymous).
 *
 * Many archives name files after patients or accession numbers. A slide's name is then "slide-"
 * and 16 digits of its quickhash-1; a key file, which only its owner can read, says which file
 * that is.
 */

enum { ANONYMOUS_NAME = 64 };

/* The name of a slide. -1: it cannot be opened, or has no quickhash. */
int anonymous_name(const char *path, char name[ANONYMOUS_NAME], struct err *e);

/* Adds the line "NAME,PATH" (CSV) to the key file, unless it has that line. The file gets mode
 * 0600. Several processes may write to one key file. */
int anonymous_note(const char *key, const char *name, const char *path, struct err *e);

/* What messages about an anonymous slide do not show: names in its folder or below, and where its
 * tissue mask lies. */
struct anonymous {
    const char *path;  /* of the slide */
    const char *mask;  /* of --tissue-mask, or NULL */
    const char *shown; /* instead of the slide's name */
};
void anonymous_mask(struct err *e, const struct anonymous *a);
/* The same for a text of at most size - 1 characters. */
void anonymous_mask_text(char *text, size_t size, const struct anonymous *a);

/* --- what a store holds besides its tiles: properties, thumbnail, ICC profile --- */

struct slide_extras {
    uint8_t *thumbnail; /* [height][width][3]; NULL without; owned */
    int64_t width, height;
    struct jpeg_strips strips; /* the thumbnail as it is in the slide, instead; owned */
    uint8_t *icc;              /* NULL without; owned */
    size_t icc_bytes;
};

/* Reads thumbnail and profile; identifying texts are blanked unless `identifiers`. With `keep` the
 * thumbnail stays as it is in the slide, if that is possible. What is damaged is left out, and
 * *problem says so ("" for nothing). -1: it cannot be read now. slide_extras_free it always. */
int slide_extras_read(struct slide_extras *h, struct slide *s, const struct slide_info *i,
                      bool identifiers, bool keep, struct err *problem, struct err *e);
/* Writes all of it, and the properties of s. */
int slide_extras_put(const struct slide_extras *h, struct slide *s, bool identifiers, int threads,
                     struct store_writer *w, struct err *e);
void slide_extras_free(struct slide_extras *h);

#endif
