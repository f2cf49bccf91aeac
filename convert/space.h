/*
 * space.h - is there room on the disk for a store? Asked before it is begun.
 */
#ifndef WSI_SPACE_H
#define WSI_SPACE_H

#include "common/base/err.h"
#include "common/store/store.h"
#include "convert/tissue/tissue.h"

/* `only`: chunks without tissue are left out; NULL: none are. -1: there is too little room for any
 * store of this slide. */
int space_check(const struct store_info *i, const struct tissue *only, const char *target,
                struct err *e);

#endif
