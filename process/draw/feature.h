/*
 * feature.h - the names of features: the maps of a result that have a unit.
 */
#ifndef WSI_FEATURE_H
#define WSI_FEATURE_H

#include <stdbool.h>

/* The name of a map without "window_": "focus_db". */
const char *feature_name(int map);
/* The map of this name, with or without "_db"; -1 if there is none. */
int feature_find(const char *name);
/* "mean|std|level|focus": the names of all features, without "_db". */
const char *feature_words(void);
/* Is the map a quantity, not flags? */
bool feature_is(int map);

#endif
