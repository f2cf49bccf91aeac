/*
 * tile_j2k.h - JPEG 2000 tiles, through OpenJPEG. Used by tile.c only; see tile.h for the rules.
 */
#ifndef WSI_TILE_J2K_H
#define WSI_TILE_J2K_H

#include "convert/tile/tile.h"

struct tile_j2k;

/* NULL when out of memory. `f` must outlive it. */
struct tile_j2k *tile_j2k_create(const struct tile_format *f, struct err *e);
/* NULL is allowed. */
void tile_j2k_free(struct tile_j2k *j);

/* Decodes n bytes into out [rows][cols][channels] u8; channels 3 = RGB or 1 = gray. */
int tile_j2k_decode(struct tile_j2k *j, const uint8_t *bytes, size_t n, int channels, uint8_t *out,
                    struct err *e);

/* "OpenJPEG 2.5.0" */
const char *tile_j2k_library(void);

#endif
