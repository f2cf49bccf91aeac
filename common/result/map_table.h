/*
 * map_table.h - the maps of a result: one value per window each.
 *
 * To add a map, add a row. Backends sum up each window (struct spectrum_window); its value follows
 * from these sums by the row's formula, so a map needs code of its own, in spectrum_put_window() or
 * in a backend, only if no formula fits it. Everything else walks the rows: the maps of bands,
 * writing, reading, checking, merging, quantiles, compare, info, map and plot.
 *
 * Results of earlier versions lack a new map. Then it is absent: struct result_map.
 *
 * ROW(NUMBER, fields of struct result_map_kind): RESULT_NUMBER is the map's number.
 */
#ifndef WSI_MAP_TABLE_H
#define WSI_MAP_TABLE_H

/* clang-format off */
#define RESULT_MAP_ROWS(ROW)                                                                       \
    ROW(MEAN, .name = "window_mean_db", .type = RESULT_FLOAT32, .unit = "dB", .scale = 1,          \
        .fill = NAN, .low = 20, .high = 60, .formula = RESULT_OF_MEAN,                 \
        .meaning = "mean of each window's log magnitudes", .change = "window dB")                  \
    ROW(STD, .name = "window_std_db", .type = RESULT_FLOAT32, .unit = "dB", .scale = 1,            \
        .fill = NAN, .low = 10, .high = 26, .formula = RESULT_OF_STD,                  \
        .meaning = "their standard deviation in each window")                                      \
    ROW(LEVEL, .name = "window_level_db", .type = RESULT_INT16, .unit = "dB", .scale = 0.01,       \
        .fill = INT16_MIN, .low = 30, .high = 75, .formula = RESULT_OF_OCTAVE,         \
        .octave = FEATURES_OCTAVE(3),                                                              \
        .meaning = "detail of 4 to 8 px in each window")                                           \
    ROW(FOCUS, .name = "window_focus_db", .type = RESULT_INT16, .unit = "dB", .scale = 0.01,       \
        .fill = INT16_MIN, .low = -50, .high = -15, .formula = RESULT_OF_OCTAVES,      \
        .octave = FEATURES_OCTAVE(3), .less = FEATURES_OCTAVE(6),                                  \
        .meaning = "sharpness of each window", .change = "focus dB", .quantiles = "focus")         \
    ROW(FINE, .name = "window_fine_db", .type = RESULT_INT16, .unit = "dB", .scale = 0.01,         \
        .fill = INT16_MIN, .low = -30, .high = -15, .formula = RESULT_OF_OCTAVES,      \
        .octave = FEATURES_OCTAVE(2), .less = FEATURES_OCTAVE(3),                                  \
        .meaning = "finest detail in each window, which slight blur removes first",                \
        .change = "fine dB", .quantiles = "fine")                                                  \
    ROW(SHARP, .name = "window_sharp_db", .type = RESULT_INT16, .unit = "dB", .scale = 0.01,       \
        .fill = INT16_MIN, .low = -32, .high = -12, .formula = RESULT_OF_SHARPNESS,    \
        .meaning = "sharpness of each window, slight blur included", .change = "sharp dB",         \
        .quantiles = "sharp")                                                                      \
    ROW(FLAGS, .name = "window_flags", .type = RESULT_UINT8, .unit = "", .scale = 1,               \
        .fill = RESULT_FLAG_NO_GROUP, .low = 0, .high = 255,                           \
        .meaning = "why a window counts or not")                                                   \
    ROW(TISSUE, .name = "window_tissue", .type = RESULT_UINT8, .unit = "%", .scale = 1,            \
        .fill = FEATURES_NO_TISSUE, .low = 0, .high = 100,                             \
        .formula = RESULT_OF_TISSUE, .meaning = "how much of each window is tissue")               \
    ROW(GRAY, .name = "window_gray", .type = RESULT_UINT8, .unit = "levels", .scale = 1,           \
        .fill = FEATURES_NO_GRAY, .low = 0, .high = 255, .formula = RESULT_OF_GRAY,    \
        .meaning = "mean gray of each window")                                                     \
    ROW(ROW_STEP, .name = "window_row_step", .type = RESULT_UINT8, .unit = "px", .scale = 1,       \
        .fill = FEATURES_NO_STEP, .low = 0, .high = 127, .formula = RESULT_OF_ROW_STEP,            \
        .meaning = "where, from row to row, pixels change most")                                   \
    ROW(COLUMN_STEP, .name = "window_column_step", .type = RESULT_UINT8, .unit = "px",             \
        .scale = 1, .fill = FEATURES_NO_STEP, .low = 0, .high = 127,                               \
        .formula = RESULT_OF_COLUMN_STEP,                                                          \
        .meaning = "where, from column to column, pixels change most")
/* clang-format on */

#endif
