/*
 * identifiers.h - what of a slide's metadata may enter a store.
 *
 * Lists of forbidden words never know all words. So this is a list of what is allowed: numbers and
 * enumerations that say how the slide was scanned. Everything else needs --keep-identifiers.
 */
#ifndef WSI_IDENTIFIERS_H
#define WSI_IDENTIFIERS_H

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

#endif
