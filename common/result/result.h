/*
 * result.h - spectra as HDF5 files, and adding them up.
 *
 *   /                       attributes: the parameters, counts, mean and std over everything
 *   /histogram              u64 [bins] over everything
 *   /slides/NAME            the same for one slide, and what it was computed on and from
 *   /slides/NAME/histogram  u64 [bins]
 *   /slides/NAME/...        one dataset [ny][nx] per map: window_mean_db, window_std_db, ...
 *   /slides/NAME/profile, spectrum_tissue, spectrum_glass, thumbnail
 *
 * A table has, instead of /slides, one row per slide (result_table.h). It says in which result the
 * slide's maps, spectra and thumbnail are. Whatever loads them takes them from there.
 *
 * common/FORMAT.md specifies the format. All numbers that are added are integers (times are whole
 * microseconds), so results add up exactly in any order: merging the same results gives the same
 * bytes. Against one run over all stores only the times differ.
 *
 * Threads: only one call into this module at a time; others may read stores meanwhile.
 */
#ifndef WSI_RESULT_H
#define WSI_RESULT_H

#include "common/base/err.h"
#include "common/base/field.h"
#include "common/base/glass_numbers.h"
#include "common/result/features.h"
#include "common/result/map_table.h"
#include "common/result/slide_numbers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RESULT_FORMAT "wsi-spectrum"
#define RESULT_ENDING ".h5"  /* of the name of a file; an output without it is a folder */
enum { RESULT_VERSION = 1 }; /* the format_version that is written and read */

/* How the numbers were computed; spectrum.h defines them. Results with different parameters
 * are never added. */
struct result_params {
    int64_t window, stride; /* px of the store */
    double sigma;           /* px; 0: no smoothing */
    int64_t radius;         /* taps on each side of the middle one */
    char taper[16];         /* "rectangular", "hann" */
    double offset;          /* in dB = 20 log10(|F| + offset) */
    int64_t bins;
    double low_db, high_db;
    bool tissue_only;
    double min_tissue;
    bool skip_damaged;   /* windows that touch damaged tiles are not counted */
    bool roi;            /* only windows inside regions count; absent in other files */
    double min_roi;      /* of a window's area, inside */
    char roi_class[256]; /* classes of the regions, sorted, joined by ", "; "": all */
};
/* Can windows that fit be left out: for tissue, damage or regions? Everything that keeps a list of
 * the windows that count asks this. */
bool result_selects(const struct result_params *p);

/* Windows that touch tiles that are not the slide's own pixels; job_windows.h defines "touch".
 * The first three count among the windows, the fourth does not. */
enum result_touching {
    RESULT_MISSING = 1,  /* windows_missing: ... tiles that the slide lacks */
    RESULT_DAMAGED = 2,  /* windows_damaged: ... tiles that are damaged in the slide */
    RESULT_LEFT_OUT = 3, /* windows_left_out: ... tiles that the store leaves out */
    RESULT_SKIPPED = 4,  /* windows_skipped: not counted, because of skip_damaged */
    RESULT_TOUCHING
};
/* Counts: of a slide, of a part of it, or of a corpus. */
struct result_counts {
    int64_t windows;                   /* that count */
    uint64_t underflow, overflow;      /* samples below low_db, at or above high_db */
    uint64_t *histogram;               /* [bins] */
    int64_t outside;                   /* windows outside of the regions; 0 without roi */
    int64_t touching[RESULT_TOUCHING]; /* by enum result_touching */
    /* Sums of bin numbers over each octave and all windows that count (features.h); 0 in the totals
     * of a file. */
    uint64_t octaves[FEATURES_OCTAVES];
};

/* Where a slide's time went, in seconds: reading and unpacking, summed over threads; copies to the
 * device and kernels, as the device reports them; waiting for a staging buffer, summed over
 * threads. */
enum result_stage {
    RESULT_READ,
    RESULT_UNPACK,
    RESULT_COPY,
    RESULT_KERNELS,
    RESULT_WAIT,
    RESULT_STAGES
};
const char *result_stage_name(int stage); /* "read" and so on */
enum { RESULT_MOST_SECONDS = 100000000 }; /* larger times are cut */

/* --- maps: one value per window --- */

/* RESULT_MEAN and so on: the maps that a slide has, in the order of the rows of map_table.h. */
#define RESULT_MAP_NUMBER(number, ...) RESULT_##number,
enum result_map_number { RESULT_MAP_ROWS(RESULT_MAP_NUMBER) RESULT_MAPS };
#undef RESULT_MAP_NUMBER

/* Bits of window_flags. A window has no value if it does not count; one of the others says why. */
enum result_flag {
    RESULT_FLAG_COUNTED = 1,
    RESULT_FLAG_NO_TISSUE = 2, /* not counted: too little tissue (tissue_only) */
    RESULT_FLAG_MISSING = 4,   /* touches a tile that the slide lacks */
    RESULT_FLAG_DAMAGED = 8,   /* touches a damaged tile; not counted with skip_damaged */
    RESULT_FLAG_LEFT_OUT = 16, /* touches a tile that the store leaves out */
    RESULT_FLAG_NO_GROUP = 32, /* its group is not in the result; no other bit is set */
    RESULT_FLAG_EDGE = 64,     /* in the first or last row or column of the windows */
    RESULT_FLAG_OUTSIDE = 128, /* not counted: too little of it lies inside the regions (roi) */
    RESULT_FLAGS_FILLED = RESULT_FLAG_MISSING | RESULT_FLAG_DAMAGED | RESULT_FLAG_LEFT_OUT
};

enum result_type { RESULT_FLOAT32, RESULT_INT16, RESULT_UINT8 };

/* How a window's value follows from its sums, and so what its range is. */
enum result_formula {
    RESULT_NO_FORMULA, /* known before pixels are read; all that the type can hold is valid */
    RESULT_OF_MEAN,    /* of the window's histogram */
    RESULT_OF_STD,
    RESULT_OF_OCTAVE,    /* L(octave) of features.h; INT16 */
    RESULT_OF_OCTAVES,   /* L(octave) - L(less); INT16 */
    RESULT_OF_SHARPNESS, /* features_sharpness(); INT16 */
    RESULT_OF_TISSUE,    /* percent; known before pixels are read */
    RESULT_OF_GRAY,      /* features_gray(); UINT8 */
    RESULT_OF_ROW_STEP,  /* the greatest step of features.h from a row to the next; UINT8 */
    RESULT_OF_COLUMN_STEP,
};

struct result_map_kind {
    const char *name; /* of the dataset */
    enum result_type type;
    const char *unit; /* of stored number * scale; "" for none */
    double scale;
    double fill;      /* the stored number where there is no value; NAN for floats */
    double low, high; /* ends of the colours of pictures, the same for all slides */
    enum result_formula formula;
    int octave, less;
    const char *meaning;   /* what the map shows */
    const char *change;    /* h5spec compare compares it: the column's title; else NULL */
    const char *quantiles; /* slides have its quantiles as "..._p05" and so on; else NULL */
};

struct result_map {
    const struct result_map_kind *kind;
    void *values; /* [ny][nx] of kind->type */
    bool absent;  /* its file, which an earlier version made, has no such map: all fill values */
};

const struct result_map_kind *result_map_kind(int map);
size_t result_type_bytes(enum result_type type);
/* Sets values [first, first + n) of the map to its fill value. */
void result_map_clear(struct result_map *m, int64_t first, int64_t n);
/* Copies the n values of b into a, except those that are the fill value. Both are of one kind. */
void result_map_add(struct result_map *a, const struct result_map *b, int64_t n);
/* Value k in the map's unit; NaN where there is none. The map must have been loaded. */
double result_map_value(const struct result_map *m, int64_t k);
/* Does a map say how sharp windows are? Glass has no sharpness: pictures leave it out. */
bool result_is_sharpness(int map);
/* Can n values of a map be those of windows? Whatever reads maps asks this. */
int result_check_values(const struct result_params *p, const struct result_map *m, int64_t n,
                        struct err *e);

/* --- where a slide comes from, and its samples of spectra --- */

/* Copied from the store. */
struct result_origin {
    double mpp_x, mpp_y;        /* um per level-0 pixel, NaN if unknown */
    double downsample;          /* level-0 pixels per stored pixel; NaN if unknown */
    double objective_power;     /* NaN if unknown */
    int64_t bounds_x, bounds_y; /* corner of what was scanned, level-0 px; 0 if unknown */
    double tissue_fraction;     /* of the slide; NaN without a tissue map */
    int64_t tiles, tiles_missing, tiles_damaged, tiles_left_out;
    int64_t chunk_rows, chunk_cols; /* px: the slide's tile, if it has tiles; 0 if unknown */
    char vendor[64];
    /* How the slide's tiles were compressed, as in the store; absent from the file if unknown. */
    int64_t jpeg_quality;        /* 1 to 100; 0 if unknown */
    double jpeg_twice;           /* 0 to 1; NaN if unknown */
    char jpeg_subsampling[8];    /* "" if unknown */
    double glass[GLASS_NUMBERS]; /* base/glass_numbers.h; NaN if unknown */
    char background[8];          /* as in the store; "" if unknown */
    char tile_compression[24];   /* the same */
};

/* The sum of the spectra of some windows (features.h). */
struct result_spectrum {
    int64_t windows;   /* in the sum */
    int64_t threshold; /* windows whose hash is less belong to the sample */
    uint64_t *sums;    /* [v: window][u: window / 2 + 1] of bin numbers; NULL: not loaded */
};

struct result_picture {
    int64_t width, height; /* 0: there is none */
    uint8_t *rgb;          /* [height][width][3] */
};
enum { RESULT_MOST_THUMBNAIL = 160 }; /* px in either direction */

/* Why a device left JPEG tiles to the host's decoder. */
enum host_decoded {
    HOST_DECODED_FORM,   /* the kernels do not decode streams of this form */
    HOST_DECODED_TABLES, /* the slab has too many other headers */
    HOST_DECODED_ROOM,   /* there is no room for it on the device */
    HOST_DECODED_LONG,   /* few long tiles: the host is faster */
    HOST_DECODED_DATA,   /* unusual or damaged data */
    HOST_DECODED_REASONS
};

/* In words, for sentences, and as a name in JSON. */
const char *host_decoded_words(int reason);
const char *host_decoded_name(int reason);

struct result_slide {
    char name[256]; /* in /slides: the store's base name without .h5 */
    char source_name[512], quickhash[80];
    int64_t source_bytes, level, width, height, group_rows, group_count;
    bool source_gray;      /* the store held 8-bit gray */
    int64_t content_crc32; /* of the store (store.h): what the numbers depend on */
    char backend[32], device[128];
    char kernel[32];    /* how the backend computes windows */
    int64_t roi_crc32;  /* of the regions (polygons.h); 0 without roi */
    int64_t data_crc32; /* of a slide that was loaded: result_data_crc(), as the file has it */
    char io[16];        /* how the store was read: "direct", "buffered", "gds", "gds-compat" */
    int64_t
        tiles_on_host; /* JPEG tiles that the device left to the host's decoder; -1: not known */
    /* These by reason; of a slide that was computed just now. */
    int64_t host_decoded[HOST_DECODED_REASONS];
    double stages[RESULT_STAGES];
    double seconds; /* of computing; a merge adds them up */
    int64_t nx, ny; /* windows that fit */
    struct result_counts counts;
    struct result_map maps[RESULT_MAPS];
    uint8_t *groups; /* [group_count]: 1 where the group is in here */
    struct result_origin origin;
    struct result_spectrum spectra[FEATURES_SAMPLES]; /* by enum features_sample */
    struct result_picture thumbnail;
    /* Of the maps that have them, of a slide that was loaded: result_find_quantiles(); or NaN. */
    double quantiles[RESULT_MAPS][FEATURES_QUANTILES];
    struct slide_numbers of_spectra; /* the same: result_find_slide_numbers() */
    /* How many of these are missing in its file, which an earlier version made: they are NaN.
     * lacks: of a result, not of a table's row: bit k is set if number k of slide_numbers.h is
     * missing. */
    int64_t numbers_missing;
    uint32_t lacks;
};

/* Checks that each parameter is in its range. */
int result_check_params(const struct result_params *p, struct err *e);
/* 0 if equal, else -1; the message names the first difference. */
int result_same_params(const struct result_params *a, const struct result_params *b, struct err *e);

/* Allocates counts (zero), maps (their fill values), groups (0) and sums of spectra (0). nx, ny and
 * group_count must be set. */
int result_slide_alloc(struct result_slide *s, const struct result_params *p, struct err *e);
/* As result_slide_alloc(), but of maps and spectra only those among `parts`. */
int result_slide_alloc_parts(struct result_slide *s, const struct result_params *p, unsigned parts,
                             struct err *e);
void result_slide_free(struct result_slide *s); /* what it owns, not s */

/* a + b in whole microseconds, so that the sum of many is the same in any order. */
double result_seconds(double a, double b);
/* a += b. */
void result_add_counts(struct result_counts *a, const struct result_counts *b, int64_t bins);
/* Mean and population standard deviation of a histogram, bin centres, dB; NaN if it is empty. */
void result_moments(const struct result_params *p, const uint64_t *histogram, double *mean,
                    double *std);
/* Levels of the octaves over all windows that count, dB; NaN where there is none.
 * features_slope() takes it. */
void result_profile(const struct result_params *p, const struct result_counts *c,
                    double profile[FEATURES_OCTAVES]);
/* "focus_p05" and so on: the name of the attribute, put into name[size]. */
const char *result_quantile_name(char *name, size_t size, int map, int quantile);
/* Quantiles of a map of INT16, in its unit, over the windows that count and of which at least half
 * is tissue. Without a tissue map, over all that count. */
void result_find_quantiles(const struct result_slide *s, int map,
                           double quantiles[FEATURES_QUANTILES]);
/* Does a result have quantiles of this map? */
bool result_has_quantiles(int map);
/* They follow from the maps of gray, tissue and flags and from both spectra. */
void result_find_slide_numbers(const struct result_params *p, const struct result_slide *s,
                               struct slide_numbers *n);
/* Sums of a spectrum: window * (window / 2 + 1). */
size_t result_spectrum_sums(const struct result_params *p);
/* "2-3,7" of the zeros in groups[n], counted from 1; at most `size` bytes, ending in "..." if cut.
 */
void result_missing_text(const uint8_t *groups, int64_t n, char *out, size_t size);

/* The number of windows that fit along one axis of `size` px. */
int64_t result_windows_along(int64_t size, const struct result_params *p);
/* Number of values of this many windows: each window has window^2. */
uint64_t result_samples(const struct result_params *p, const struct result_counts *c);
/* -1 unless the bins, underflow and overflow add up to result_samples(). */
int result_check_sum(const struct result_params *p, const struct result_counts *c, struct err *e);
/* The attribute data_crc32: over the histogram, the maps, the groups, and the sums of octaves and
 * spectra. */
uint32_t result_data_crc(const struct result_params *p, const struct result_slide *s);

/* Parts of a slide, which can be loaded alone: maps, and these. */
enum result_part {
    RESULT_WITH_TISSUE_SPECTRUM = 1 << RESULT_MAPS,
    RESULT_WITH_GLASS_SPECTRUM = 2 << RESULT_MAPS,
    RESULT_WITH_SPECTRA = RESULT_WITH_TISSUE_SPECTRUM | RESULT_WITH_GLASS_SPECTRUM,
    RESULT_WITH_THUMBNAIL = 4 << RESULT_MAPS
};
#define RESULT_WITH_MAP(map) (1u << (map))
#define RESULT_ALL_PARTS (~0u)

struct result; /* a file that is open: result_read.h */

#ifdef __cplusplus
}
#endif

/*
 * --- attributes ---
 *
 * The attributes of results: one row each, from which writing, reading, comparing, `h5spec info`
 * and the columns of tables follow. To add one, add a member to the struct in result.h and a row
 * in result.c.
 */

/* The sets of rows. */
enum {
    RESULT_HERE = 1,           /* of the object itself */
    RESULT_REGIONS = 2,        /* of results of regions alone */
    RESULT_OF_HISTOGRAM = 4,   /* attributes of the histogram */
    RESULT_OF_WINDOWS = 8,     /* windows */
    RESULT_OF_RANGE = 16,      /* underflow, overflow */
    RESULT_OF_TOUCHING = 32,   /* by enum result_touching */
    RESULT_OF_SOURCE = 64,     /* which slide it is */
    RESULT_OF_GROUPS = 128,    /* how its store is cut */
    RESULT_OF_ORIGIN = 256,    /* struct result_origin */
    RESULT_OF_MACHINE = 512,   /* what computed it, and for how long */
    RESULT_OF_CHECKSUM = 1024, /* data_crc32 */
    RESULT_LATER = 4096,       /* results and tables of earlier versions lack it: 0, NaN or "" */
    RESULT_OF_SCALE = 2048     /* of struct result_origin what the resolution follows from */
};
/* The sets of a result with these parameters. */
#define RESULT_SETS(p) ((p)->roi ? FIELD_ALL : ~(unsigned)RESULT_REGIONS)

extern const struct field result_params_fields[]; /* of struct result_params */
extern const struct field result_counts_fields[]; /* of struct result_counts */
extern const struct field result_slide_fields[];  /* of struct result_slide */

#endif
