/*
 * gray.h - the only formula for gray: 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601 luma).
 *
 * It is computed in thousandths: 299 R + 587 G + 114 B is a whole number up to 255,000, which a
 * float holds exactly, in whatever order it is summed, and whether or not multiply and add are
 * fused. Backends take it in this form and divide by GRAY_SCALE_RGB in the weights of their
 * smoothing. A gray store holds gray rounded to 8 bits.
 */
#ifndef WSI_GRAY_H
#define WSI_GRAY_H

#include <stddef.h>
#include <stdint.h>

#define GRAY_SCALE_RGB 1000.0f

/* rgb u8 [n][3] -> gray float [n], in thousandths. */
void gray_from_rgb(const uint8_t *restrict rgb, float *restrict gray, size_t n);

/* rgb u8 [n][3] -> gray u8 [n], rounded. */
static inline void gray_bytes_from_rgb(const uint8_t *restrict rgb, uint8_t *restrict gray,
                                       size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const uint8_t *p = rgb + 3 * k;
        gray[k] = (uint8_t)((299u * p[0] + 587u * p[1] + 114u * p[2] + 500u) / 1000u);
    }
}

/* Bytes of a gray store, u8 [n] -> gray float [n], scale 1. */
static inline void gray_from_bytes(const uint8_t *restrict in, float *restrict gray, size_t n)
{
    for (size_t k = 0; k < n; k++)
        gray[k] = (float)in[k];
}

#endif
