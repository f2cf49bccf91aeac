/*
 * map_font.h - text in pictures of one byte per pixel, drawn row by row.
 *
 * The glyphs are those of the X Window System's font 7x13 (misc-fixed), which is in the public
 * domain. The ellipsis is drawn as '~', and what else is not ASCII as '?'.
 */
#ifndef WSI_MAP_FONT_H
#define WSI_MAP_FONT_H

#include <stdint.h>

enum { MAP_FONT_WIDTH = 7, MAP_FONT_HEIGHT = 13 }; /* px of a character */

/* Draws line `line` (0 to MAP_FONT_HEIGHT - 1) of a text that begins at x into row[width]. */
void map_font_row(uint8_t *row, int64_t width, int64_t x, int line, const char *text, uint8_t ink);

#endif
