/* glass.c - see glass.h. */
#include "common/base/glass.h"

const struct glass_number glass_list[GLASS_NUMBERS] = {
    [GLASS_GRAY] = {"glass_gray", 255},     [GLASS_RANGE] = {"glass_range", 255},
    [GLASS_STD] = {"glass_std", 255},       [GLASS_ROWS] = {"glass_rows", 1},
    [GLASS_COLUMNS] = {"glass_columns", 1}, [GLASS_GRAIN] = {"glass_grain", 1},
};
