/*
 * jpeg_write.h - small pictures as JPEG in memory, with libjpeg-turbo. Any thread.
 */
#ifndef WSI_JPEG_WRITE_H
#define WSI_JPEG_WRITE_H

#include <stddef.h>
#include <stdint.h>

/* Encodes rgb[height][width][3] at this quality (1 to 100). Returns the bytes, to be free()d, and
 * their number in *n; NULL if memory is short, or if the program is built without libjpeg. */
uint8_t *jpeg_write(const uint8_t *rgb, int width, int height, int quality, size_t *n);

#endif
