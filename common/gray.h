/*
 * gray.h - the one formula for gray: 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601 luma), in thousandths.
 *
 * 299 R + 587 G + 114 B is a whole number up to 255,000: exact in a float, whatever the order of the
 * sum and whether multiply and add are fused. Backends take it so and divide by GRAY_SCALE_RGB in
 * the weights of their smoothing. A gray store holds it rounded to a byte.
 */
#ifndef WSI_GRAY_H
#define WSI_GRAY_H

#include <stddef.h>
#include <stdint.h>

#define GRAY_SCALE_RGB 1000.0f

/* rgb [n][3] -> gray [n] in thousandths. */
void gray_from_rgb(const uint8_t *restrict rgb, float *restrict gray, size_t n);

/* rgb [n][3] -> gray [n], rounded. */
static inline void gray_bytes_from_rgb(const uint8_t *restrict rgb, uint8_t *restrict gray, size_t n)
{
    for (size_t k = 0; k < n; k++)
        gray[k] = (uint8_t)((299u * rgb[3 * k] + 587u * rgb[3 * k + 1] + 114u * rgb[3 * k + 2] + 500u) /
                            1000u);
}

/* A gray store's bytes [n] -> gray [n], scale 1. */
static inline void gray_from_bytes(const uint8_t *restrict in, float *restrict gray, size_t n)
{
    for (size_t k = 0; k < n; k++)
        gray[k] = (float)in[k];
}

#endif
