/* result_fields.c - see result_fields.h. */
#include "common/result/result_fields.h"

#include "common/result/result.h"

#include <math.h>

#define MOST_INT ((double)INT64_MAX)
#define MOST_WINDOWS ((double)(INT64_MAX >> 20))
#define MOST_GROUPS (1 << 24)
#define MOST_TILES ((double)(INT64_MAX >> 8))
#define ANY .low = -INFINITY, .high = INFINITY
#define RANGE(low_, high_) .low = (low_), .high = (high_)
#define UNKNOWN(low_, high_) .unknown = FIELD_OPTIONAL, .low = (low_), .high = (high_)

/* clang-format off */
#define PARAMS(kind, member, set, ...)                                                             \
    FIELD_ROW(kind, struct result_params, member, set, __VA_ARGS__)
const struct field result_params_fields[] = {
    PARAMS(FIELD_INT, window, RESULT_HERE, RANGE(0, INT32_MAX)),
    PARAMS(FIELD_INT, stride, RESULT_HERE, RANGE(0, INT32_MAX)),
    PARAMS(FIELD_REAL, sigma, RESULT_HERE, ANY),
    PARAMS(FIELD_INT, radius, RESULT_HERE, RANGE(0, INT32_MAX)),
    PARAMS(FIELD_TEXT, taper, RESULT_HERE),
    PARAMS(FIELD_REAL, offset, RESULT_HERE, ANY),
    PARAMS(FIELD_INT, bins, RESULT_HERE, RANGE(0, INT32_MAX)),
    PARAMS(FIELD_REAL, low_db, RESULT_OF_HISTOGRAM, ANY),
    PARAMS(FIELD_REAL, high_db, RESULT_OF_HISTOGRAM, ANY),
    PARAMS(FIELD_BYTE, tissue_only, RESULT_HERE),
    PARAMS(FIELD_REAL, min_tissue, RESULT_HERE, ANY),
    PARAMS(FIELD_BYTE, skip_damaged, RESULT_HERE),
    PARAMS(FIELD_BYTE, roi, RESULT_HERE, .unknown = FIELD_OPTIONAL),
    PARAMS(FIELD_REAL, min_roi, RESULT_REGIONS, ANY),
    PARAMS(FIELD_TEXT, roi_class, RESULT_REGIONS),
    {0}};

#define COUNT(name, member, set)                                                                   \
    FIELD_NAMED(FIELD_INT, name, struct result_counts, member, set, RANGE(0, MOST_WINDOWS))
#define SAMPLES(member)                                                                            \
    FIELD_ROW(FIELD_INT, struct result_counts, member, RESULT_OF_RANGE, RANGE(0, MOST_INT))
const struct field result_counts_fields[] = {
    COUNT("windows", windows, RESULT_OF_WINDOWS),
    SAMPLES(underflow),
    SAMPLES(overflow),
    COUNT("windows_missing", touching[RESULT_MISSING], RESULT_OF_TOUCHING),
    COUNT("windows_damaged", touching[RESULT_DAMAGED], RESULT_OF_TOUCHING),
    COUNT("windows_left_out", touching[RESULT_LEFT_OUT], RESULT_OF_TOUCHING),
    COUNT("windows_skipped", touching[RESULT_SKIPPED], RESULT_OF_TOUCHING),
    COUNT("windows_outside", outside, RESULT_REGIONS),
    {0}};

#define SLIDE(kind, member, set, ...) FIELD_ROW(kind, struct result_slide, member, set, __VA_ARGS__)
#define ORIGIN(kind, member, ...)                                                                  \
    FIELD_NAMED(kind, #member, struct result_slide, origin.member, RESULT_OF_ORIGIN, __VA_ARGS__)
#define GLASS(which, name, high_)                                                                  \
    FIELD_NAMED(FIELD_REAL, name, struct result_slide, origin.glass[which], RESULT_OF_ORIGIN,      \
                UNKNOWN(0, high_)),
#define SECONDS(name, member)                                                                      \
    FIELD_NAMED(FIELD_REAL, name, struct result_slide, member, RESULT_OF_MACHINE,                  \
                RANGE(0, RESULT_MOST_SECONDS))
const struct field result_slide_fields[] = {
    SLIDE(FIELD_TEXT, source_name, RESULT_OF_SOURCE),
    SLIDE(FIELD_INT, source_bytes, RESULT_OF_SOURCE, RANGE(0, MOST_INT)),
    SLIDE(FIELD_BYTE, source_gray, RESULT_OF_SOURCE),
    SLIDE(FIELD_TEXT, quickhash, RESULT_OF_SOURCE),
    SLIDE(FIELD_INT, level, RESULT_OF_SOURCE, RANGE(0, INT32_MAX)),
    SLIDE(FIELD_INT, width, RESULT_OF_SOURCE, RANGE(1, INT32_MAX)),
    SLIDE(FIELD_INT, height, RESULT_OF_SOURCE, RANGE(1, INT32_MAX)),
    SLIDE(FIELD_INT, group_rows, RESULT_OF_GROUPS, RANGE(1, MOST_INT)),
    SLIDE(FIELD_INT, group_count, RESULT_OF_GROUPS, RANGE(1, MOST_GROUPS)),
    ORIGIN(FIELD_REAL, mpp_x, UNKNOWN(1e-9, 1e9)),
    ORIGIN(FIELD_REAL, mpp_y, UNKNOWN(1e-9, 1e9)),
    ORIGIN(FIELD_REAL, downsample, UNKNOWN(1e-9, 1e9)),
    ORIGIN(FIELD_REAL, objective_power, UNKNOWN(1e-9, 1e9)),
    ORIGIN(FIELD_TEXT, vendor),
    ORIGIN(FIELD_REAL, tissue_fraction, UNKNOWN(0, 1)),
    ORIGIN(FIELD_INT, tiles, RANGE(0, MOST_TILES)),
    ORIGIN(FIELD_INT, tiles_missing, RANGE(0, MOST_TILES)),
    ORIGIN(FIELD_INT, tiles_damaged, RANGE(0, MOST_TILES)),
    ORIGIN(FIELD_INT, tiles_left_out, RANGE(0, MOST_TILES)),
    ORIGIN(FIELD_INT, jpeg_quality, UNKNOWN(1, 100)),
    ORIGIN(FIELD_TEXT, jpeg_subsampling, .unknown = FIELD_OPTIONAL),
    ORIGIN(FIELD_REAL, jpeg_twice, UNKNOWN(0, 1)),
    GLASS_NUMBER_ROWS(GLASS)
    SLIDE(FIELD_INT, roi_crc32, RESULT_REGIONS, RANGE(0, UINT32_MAX)),
    SLIDE(FIELD_TEXT, backend, RESULT_OF_MACHINE),
    SLIDE(FIELD_TEXT, device, RESULT_OF_MACHINE),
    SLIDE(FIELD_TEXT, kernel, RESULT_OF_MACHINE),
    SLIDE(FIELD_TEXT, io, RESULT_OF_MACHINE),
    SLIDE(FIELD_INT, tiles_on_host, RESULT_OF_MACHINE, RANGE(0, INT32_MAX)),
    SECONDS("seconds", seconds),
    SECONDS("read_seconds", stages[RESULT_READ]),
    SECONDS("unpack_seconds", stages[RESULT_UNPACK]),
    SECONDS("copy_seconds", stages[RESULT_COPY]),
    SECONDS("kernels_seconds", stages[RESULT_KERNELS]),
    SECONDS("wait_seconds", stages[RESULT_WAIT]),
    SLIDE(FIELD_INT, data_crc32, RESULT_OF_CHECKSUM, RANGE(0, UINT32_MAX)),
    {0}};
/* clang-format on */
