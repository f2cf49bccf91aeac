/*
 * report_album.h - which pictures fit into a page, and these pictures.
 */
#ifndef WSI_REPORT_ALBUM_H
#define WSI_REPORT_ALBUM_H

#include "process/report/report_view.h"

#include <stdio.h>

/* Writes the script elements with the pictures that fit, given what the page has already. */
int report_album_write(const struct report_view *r, FILE *f, struct err *e);

#endif
