/*
 * svs_description.h - an Aperio slide's ImageDescription: "Aperio ...|key = value|key = value".
 */
#ifndef WSI_SVS_DESCRIPTION_H
#define WSI_SVS_DESCRIPTION_H

#include <stdbool.h>
#include <stdint.h>

/* The size of level 0 in "Aperio ...\n46920x33014 [0,100 46000x32914] ...", from the brackets.
 * False: it is not there. */
bool svs_description_size(const char *description, int64_t *width, int64_t *height);

/* The value of a key as a positive number, with a decimal point or comma. NaN without one. */
double svs_description_number(const char *description, const char *key);

/* Calls put for the description itself and for each of its keys, named as OpenSlide names them,
 * until it returns non-zero, and returns that. */
int svs_description_properties(const char *description,
                               int (*put)(void *ctx, const char *key, const char *value),
                               void *ctx);

#endif
