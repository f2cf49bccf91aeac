/*
 * png_input.h - how every PNG is opened for reading: only with the chunks that we use, and the ICC
 * profile.
 *
 * Texts, suggested palettes and the like are skipped unread: libpng would unpack and keep up to
 * 1,000 of them, each of up to 8 MB, from a file of a few KB.
 */
#ifndef CONVERT_READERS_PNG_INPUT_H
#define CONVERT_READERS_PNG_INPUT_H

#include <png.h>
#include <stdbool.h>

enum { PNG_INPUT_MOST_SIDE = 1 << 20 };

/* A reader and its info; png_destroy_read_struct() frees both, also after a failure. `fail` gets
 * libpng's errors, with `owner` as png_get_error_ptr(), and must not return. *no_memory becomes
 * true when an allocation fails, now or later. -1: out of memory. */
int png_input_open(png_structp *png, png_infop *info, void *owner, png_error_ptr fail,
                   bool *no_memory);

#endif
