/*
 * tiff_file.h - the bare directories of a TIFF file: which tags, how many values, where.
 *
 * Each directory is read once, when it is first asked for, and kept until the file is closed.
 * libtiff derives the number of tiles from the picture's size and hides the length of the tables.
 * This reader shows what the file states, so that the two can be compared, and it reads files that
 * libtiff rejects. Classic TIFF and BigTIFF, both byte orders, and NDPI above 4 GiB: a classic TIFF
 * whose offsets of directories have 64 bits. Behind each directory lie the upper halves of its
 * entries. The file is not trusted: every offset and count is checked before use, and no more than
 * TIFF_MOST_KEPT tags are kept. One thread at a time.
 */
#ifndef WSI_TIFF_FILE_H
#define WSI_TIFF_FILE_H

#include "common/base/err.h"
#include "convert/readers/frame/slide_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TIFF_FILE_SUBFILE = 254, /* bit 0: a smaller copy of another picture */
    TIFF_FILE_WIDTH = 256,
    TIFF_FILE_LENGTH = 257,
    TIFF_FILE_BITS = 258,
    TIFF_FILE_COMPRESSION = 259,
    TIFF_FILE_PHOTOMETRIC = 262, /* 3: a palette */
    TIFF_FILE_FILL_ORDER = 266,
    TIFF_FILE_DESCRIPTION = 270,
    TIFF_FILE_STRIP_OFFSETS = 273, /* and 279: some tiled files have these for 324 and 325 */
    TIFF_FILE_ORIENTATION = 274,
    TIFF_FILE_SAMPLES = 277,
    TIFF_FILE_ROWS_PER_STRIP = 278,
    TIFF_FILE_STRIP_BYTES = 279,
    TIFF_FILE_RESOLUTION = 282, /* of rows; 283: of columns */
    TIFF_FILE_PLANES = 284,     /* 2: one plane per sample */
    TIFF_FILE_RESOLUTION_UNIT = 296,
    TIFF_FILE_SOFTWARE = 305,
    TIFF_FILE_PREDICTOR = 317,
    TIFF_FILE_PALETTE = 320,
    TIFF_FILE_TILE_WIDTH = 322,
    TIFF_FILE_TILE_LENGTH = 323,
    TIFF_FILE_TILE_OFFSETS = 324,
    TIFF_FILE_TILE_BYTES = 325,
    TIFF_FILE_SUBS = 330,          /* offsets of further directories */
    TIFF_FILE_INK_SET = 332,       /* 1: CMYK */
    TIFF_FILE_EXTRA_SAMPLES = 338, /* 1, 2: alpha */
    TIFF_FILE_SAMPLE_FORMAT = 339, /* 1 unsigned, 2 signed, 3 float */
    TIFF_FILE_JPEG_TABLES = 347,
    TIFF_FILE_XMP = 700,
    TIFF_FILE_ICC = 34675,
    TIFF_FILE_NDPI = 65420, /* only Hamamatsu NDPI has this tag */
};

enum { TIFF_MOST_TAGS = 4096, TIFF_MOST_KEPT = 1 << 18 }; /* of a directory, of a file */

struct tiff_file {
    int fd;
    uint64_t bytes;
    bool is_big, is_swapped; /* BigTIFF; the other byte order */
    bool is_wide;            /* NDPI above 4 GiB */
    uint64_t first;          /* offset of the first directory */
    struct tiff_kept *kept;  /* the directories that were read */
};

struct tiff_tag {
    uint16_t number, type;
    bool is_here;       /* its values are in `here`, and in the directory itself */
    uint8_t here[8];    /* in the file's order */
    uint64_t count, at; /* values, and the offset of the first one */
    uint32_t upper;     /* half of a value of 32 bits in the directory itself, is_wide; else 0 */
};

struct tiff_directory {
    uint64_t at;
    struct tiff_tag *tags; /* [n] */
    size_t n;
    uint64_t next; /* offset of the next directory, 0 for none */
};

/* The file's header. NULL: no TIFF file, or errno. Owned by `file`. */
const struct tiff_file *tiff_file_of(const struct slide_file *file);

/* The directory at an offset, owned by the file. NULL: it is damaged or has too many tags, or errno.
 */
const struct tiff_directory *tiff_file_directory(const struct tiff_file *t, uint64_t at);
/* Did a directory that was asked for have too many tags? */
bool tiff_file_is_crowded(const struct tiff_file *t);
/* Bytes of all its values; 0 for a type that is not known. */
uint64_t tiff_tag_bytes(const struct tiff_tag *tag);
/* NULL when the directory does not have the tag. */
const struct tiff_tag *tiff_directory_tag(const struct tiff_directory *d, uint16_t number);
/* Does the first directory of the file have the tag? */
bool tiff_file_states(const struct slide_file *file, uint16_t number);

/* Values first .. first + n - 1 of a tag of integers. False: they are not in the file. */
bool tiff_file_values(const struct tiff_file *t, const struct tiff_tag *tag, uint64_t first,
                      size_t n, uint64_t *out);
/* The first value of a tag, or `otherwise`. */
uint64_t tiff_file_value(const struct tiff_file *t, const struct tiff_directory *d, uint16_t number,
                         uint64_t otherwise);
/* How the samples make colours, by the tag. Without one RGB or gray, as libtiff guesses. */
uint64_t tiff_file_photometric(const struct tiff_file *t, const struct tiff_directory *d);
/* The first value of a tag of type RATIONAL, FLOAT or DOUBLE, or of whole numbers, if it is
 * positive; else NaN. */
double tiff_file_real(const struct tiff_file *t, const struct tiff_directory *d, uint16_t number);
/* um per unit of the resolution that a directory states; NaN: it states no unit of length. */
double tiff_file_unit(const struct tiff_file *t, const struct tiff_directory *d);
/* The bytes of a tag and a 0 byte, to be free()d. NULL: there are more than `most`, they are not in
 * the file, or out of memory. */
char *tiff_file_bytes(const struct tiff_file *t, const struct tiff_tag *tag, size_t most);
/* The ICC profile of the directory at an offset, to be free()d; NULL: none can be read. *lost: it
 * states one all the same. */
uint8_t *tiff_file_icc(const struct tiff_file *t, uint64_t at, size_t *bytes, bool *lost);
/* The beginning of a text, terminated; "" when there is none. */
void tiff_file_text(const struct tiff_file *t, const struct tiff_directory *d, uint16_t number,
                    char *out, size_t size);

/*
 * Which tiles of the open level of a TIFF slide are empty: [rows][cols] u8, 1 = byte count 0
 * (sparse TIFF). NULL: none, no TIFF file, or the level's directory is not found. To be free()d.
 */
uint8_t *tiff_file_empty_tiles(const struct slide_file *file, const struct slide_info *i);
/* Are the tables of tiles as long as a picture of this size needs? Libraries compute the number of
 * tiles from the size, so they do not notice a damaged size. */
int tiff_file_check_tables(const struct tiff_directory *d, int64_t width, int64_t height,
                           int64_t tiles, struct err *e);
/* The same for the open level of a TIFF slide, and: are its samples bytes? 0 for other files. */
int tiff_file_check_level(const struct slide_file *file, const struct slide_info *i, struct err *e);
/* "deflate": the name of a number of the tag Compression. */
void tiff_file_name_compression(uint64_t number, char *text, size_t size);
/* "tiles are deflate, 3 signed samples of 8 bits"; "strips are ..." of a picture without tiles. */
void tiff_file_name_tiles(const struct tiff_file *t, const struct tiff_directory *d, char *text,
                          size_t size);
/* Why the tiles of the open level of a TIFF slide are no JPEG that can be kept: "its tiles are
 * deflate"; "": they may be, or it is no TIFF file. */
void tiff_file_obstacle(const struct slide_file *file, const struct slide_info *i, char *text,
                        size_t size);
/* The compression of the open level of a tiled TIFF slide; 0: no TIFF file, or the level's
 * directory is not found. */
uint64_t tiff_file_compression(const struct slide_file *file, const struct slide_info *i);

#endif
