/*
 * glass_numbers.h - the numbers of a slide's glass: how bright and how even it is, and what it
 * shows instead of nothing. convert/tile/scan_traits.h says how they are found.
 */
#ifndef WSI_GLASS_NUMBERS_H
#define WSI_GLASS_NUMBERS_H

enum glass_which {
    GLASS_GRAY,    /* gray level */
    GLASS_RANGE,   /* by how many levels its places differ */
    GLASS_STD,     /* levels, within 32 px */
    GLASS_ROWS,    /* part of its places that show nothing more than lines along the rows */
    GLASS_COLUMNS, /* along the columns */
    GLASS_GRAIN,   /* neither, nor a slow change */
    GLASS_GRID,    /* whose greatest step is at one place of 8, as blocks of an earlier JPEG make */
    GLASS_NUMBERS
};

/* clang-format off */
/* The number, the name of the attribute, and the highest value; the least is 0. */
#define GLASS_NUMBER_ROWS(ROW)                                                                     \
    ROW(GLASS_GRAY, "glass_gray", 255) ROW(GLASS_RANGE, "glass_range", 255)                        \
    ROW(GLASS_STD, "glass_std", 255) ROW(GLASS_ROWS, "glass_rows", 1)                              \
    ROW(GLASS_COLUMNS, "glass_columns", 1) ROW(GLASS_GRAIN, "glass_grain", 1)                      \
    ROW(GLASS_GRID, "glass_grid", 1)
/* clang-format on */

#endif
