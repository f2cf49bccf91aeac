/*
 * dicom_file.h - the elements of a DICOM file (Part 10), one after the other.
 *
 * A file begins with 128 free bytes and "DICM". Elements follow: group and number, 16 bits each, in
 * ascending order; with explicit VR two letters and a length of 16 or 32 bits, with implicit VR a
 * length of 32 bits. Group 0002 is always explicit and little endian; it names the transfer syntax
 * of the rest. A sequence holds items, which hold elements. A length of 0xffffffff means "until the
 * delimiter".
 *
 * The file is not trusted. Lengths are checked before use, memory is bounded, and the depth of
 * sequences is limited. One thread at a time.
 */
#ifndef WSI_DICOM_FILE_H
#define WSI_DICOM_FILE_H

#include "common/base/err.h"
#include "convert/readers/frame/slide_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DICOM_UID = 65, DICOM_DEPTH = 4, DICOM_WINDOW = 8192 }; /* a UID has at most 64 characters */

#define DICOM_TAG(group, number) ((uint32_t)(group) << 16 | (number))
#define DICOM_PIXELS DICOM_TAG(0x7fe0, 0x0010)
#define DICOM_ITEM DICOM_TAG(0xfffe, 0xe000)
#define DICOM_ITEM_END DICOM_TAG(0xfffe, 0xe00d)
#define DICOM_SEQUENCE_END DICOM_TAG(0xfffe, 0xe0dd)
#define DICOM_UNDEFINED 0xffffffffu /* a length */

struct dicom_file {
    int fd;
    uint64_t bytes;               /* of the file */
    uint64_t at;                  /* of the next element */
    char syntax[DICOM_UID];       /* UID of the transfer syntax, "" when the file states none */
    bool implicit;                /* elements have no VR */
    int code;                     /* errno of a read that failed, 0 for none */
    uint8_t window[DICOM_WINDOW]; /* n bytes of the file from window_at */
    uint64_t window_at;
    size_t n;
};

struct dicom_element {
    uint32_t tag, length;
    uint64_t at;     /* of the value */
    bool is_unknown; /* its VR is UN: what it holds, if it is a sequence, has implicit VR */
};

/* Where an element lies: tags of the sequences around it and, last, its own. */
struct dicom_path {
    int depth;                      /* sequences around it */
    uint32_t tags[DICOM_DEPTH + 1]; /* tags[depth] is the element's own */
    int64_t items[DICOM_DEPTH];     /* number of the item in each of the sequences, from 0 */
};

enum dicom_step {
    DICOM_SKIP,  /* go on behind the element */
    DICOM_ENTER, /* a sequence: visit the elements of its items */
    DICOM_STOP,
};

/* Reads group 0002 of a file, which must outlive *f; *f owns nothing. False: it is no DICOM file,
 * or f->code says why it cannot be read. */
bool dicom_file_open(struct dicom_file *f, const struct slide_file *file);

/* Visits the elements after group 0002 until the visitor stops or the file ends. False: an element
 * is damaged or cut off; f->code is set if that was a failed read. */
bool dicom_file_walk(struct dicom_file *f,
                     enum dicom_step (*visit)(void *ctx, struct dicom_file *f,
                                              const struct dicom_element *e,
                                              const struct dicom_path *p),
                     void *ctx);

/* Reads n bytes at an offset. False: they are not in the file. */
bool dicom_file_bytes(struct dicom_file *f, uint64_t at, void *out, size_t n);
/* The value as text without padding. False: it is longer than size - 1 characters. */
bool dicom_file_text(struct dicom_file *f, const struct dicom_element *e, char *out, size_t size);

/* Little-endian numbers. */
uint16_t dicom_u16(const uint8_t *p);
uint32_t dicom_u32(const uint8_t *p);
uint64_t dicom_u64(const uint8_t *p);

/*
 * --- series ---
 *
 * Which series a DICOM file belongs to.
 *
 * A DICOM slide is a folder of files, one or more per level, that share a SeriesInstanceUID. Each
 * of them opens the whole slide, so a folder search must count them as one.
 */

/* Is it a DICOM file (Part 10)? If it cannot be read, false, and errno says why; else errno is 0.
 */
bool dicom_is(const struct slide_file *file);
/* The SeriesInstanceUID (0020,000E) from the file's header. *is_other: the file is whole and no
 * level of a slide, but an annotation, a segmentation, a report, a label, an overview or the like.
 * False: the file is not DICOM, is compressed as a whole, or does not state it, and errno is 0; or
 * errno says why it cannot be read. */
bool dicom_series(const char *path, char uid[DICOM_UID], bool *is_other);

/* Is a file that does not end in .dcm DICOM? Only names without an ending, or with one that others
 * write, such as a number, are looked at. What cannot be read may be. */
bool dicom_detects(const char *path);

/*
 * --- what an instance is ---
 *
 * What one DICOM file says of its picture.
 *
 * Of a whole-slide image, one file holds one level, or its label, its overview or its thumbnail.
 * Nothing that identifies a person, a time or an operator is read.
 */

enum { DICOM_WORD = 17, DICOM_TYPE = 81 }; /* a code string has at most 16 characters */

/* Where a value lies in the file. */
struct dicom_place {
    uint64_t at, bytes;
};

struct dicom_instance {
    char syntax[DICOM_UID], sop_class[DICOM_UID], sop[DICOM_UID], series[DICOM_UID];
    char type[DICOM_TYPE];           /* ImageType: words separated by \, the first few */
    char photometric[DICOM_WORD];    /* "RGB", "YBR_FULL_422" ... */
    char organization[DICOM_WORD];   /* "TILED_FULL", "TILED_SPARSE", or "" */
    char label_in_image[DICOM_WORD]; /* "YES", "NO", or "" */
    /* numbers are -1 when the file does not state them */
    int64_t width, height; /* of the whole picture, px */
    int64_t cols, rows;    /* of a frame, px */
    int64_t frames, samples, planar, bits_allocated, bits_stored;
    int64_t focal_planes, optical_paths;
    double spacing[2];                  /* mm between rows, and between columns; NaN when unknown */
    double volume_width;                /* mm, NaN when unknown */
    double objective_power;             /* NaN when unknown */
    char concatenation[DICOM_UID];      /* of the files of one level; "": it is one file */
    int64_t first_frame, parts;         /* of the file in the concatenation; its files */
    char pyramid[DICOM_UID];            /* "" when the file does not state it */
    char optical_path[DICOM_WORD];      /* identifies it in the series */
    double z;                           /* of the focal plane, um; NaN when unknown */
    uint64_t bytes;                     /* of the file */
    struct dicom_place icc;             /* 0 bytes: there is none */
    struct dicom_place frame_positions; /* of each frame: the sequence of items */
    struct dicom_place extended_offsets, extended_lengths; /* 0 bytes: there are none */
    struct dicom_place pixels; /* bytes is DICOM_UNDEFINED if they are encapsulated */
};

/* A file of a level. */
struct dicom_part {
    const struct slide_file *file;
    struct dicom_instance instance;
};

/* 1: *i is filled. 0: not a DICOM file. -1: it is damaged, or cannot be read now: errno. */
int dicom_instance_read(struct dicom_instance *i, const struct slide_file *file, struct err *e);

/* The word of ImageType with this number, from 0, into out[DICOM_WORD]; "" when it is absent. */
void dicom_instance_type(const struct dicom_instance *i, int number, char *out);
bool dicom_instance_is_slide(const struct dicom_instance *i);
/* Is its data set, and not only its pixels, compressed? Nothing more is known of it. */
bool dicom_instance_is_deflated(const struct dicom_instance *i);
bool dicom_instance_is_level(const struct dicom_instance *i);
/* A picture of the tissue without the label. */
bool dicom_instance_is_thumbnail(const struct dicom_instance *i);
/* Why the tiles cannot be read directly, in a few words; NULL: they can. */
const char *dicom_instance_obstacle(const struct dicom_instance *i);
/* -1: its frames are several pictures of the tissue, such as focal planes; e says which. */
int dicom_instance_check_single(const struct dicom_instance *i, struct err *e);
bool dicom_instance_is_j2k(const struct dicom_instance *i);
/* Are its pixels one sample, 0 = black? */
bool dicom_instance_is_gray(const struct dicom_instance *i);
/* Are its frames not compressed? */
bool dicom_instance_is_native(const struct dicom_instance *i);
/* "JPEG 2000", or the UID of the transfer syntax. */
const char *dicom_instance_syntax(const struct dicom_instance *i);
/* um per pixel; NaN when unknown. */
void dicom_instance_mpp(const struct dicom_instance *i, double *x, double *y);

#endif
