/*
 * jpeg_stream.h - JPEG streams: their markers, their headers, and tiles as chunks.
 */
#ifndef WSI_JPEG_STREAM_H
#define WSI_JPEG_STREAM_H

#include "common/base/err.h"
#include "common/codec/jpeg_decoder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The second bytes of JPEG markers; the first is 0xff (ITU-T T.81, table B.1). */

enum jpeg_marker {
    MARKER_SOF0 = 0xc0,
    MARKER_DHT = 0xc4,
    MARKER_JPG = 0xc8,
    MARKER_DAC = 0xcc,
    MARKER_SOF15 = 0xcf,
    MARKER_RST0 = 0xd0,
    MARKER_RST7 = 0xd7,
    MARKER_SOI = 0xd8,
    MARKER_EOI = 0xd9,
    MARKER_SOS = 0xda,
    MARKER_DQT = 0xdb,
    MARKER_DRI = 0xdd,
    MARKER_APP0 = 0xe0,
    MARKER_APP14 = 0xee,
    MARKER_APP15 = 0xef,
    MARKER_COM = 0xfe,
};

/*
 * What precedes the entropy-coded data of a JPEG stream: size, components,
 * tables.
 *
 * Reads baseline JPEG as ITU-T T.81 defines it (markers: annex B; Huffman tables: C.2, F.2.2.3). No
 * pixel is decoded and no library is needed, so that a device's decoder can build its tables, and a
 * converter can judge a tile, wherever they run. The input is hostile: every length is checked.
 *
 * Any thread; nothing is allocated.
 */

enum { JPEG_COMPONENTS = 3, JPEG_QUANT_TABLES = 4, JPEG_HUFFMAN_TABLES = 4 };

struct jpeg_component {
    uint8_t id;
    uint8_t h, v;   /* sampling factors, 1 to 4 */
    uint8_t quant;  /* number of its quantisation table */
    uint8_t dc, ac; /* numbers of its Huffman tables */
};

/* A Huffman table as in a DHT segment. */
struct jpeg_huffman {
    bool defined;
    uint8_t counts[17];  /* [1..16]: codes of so many bits */
    uint8_t values[256]; /* symbols in the order of their codes */
    int n_values;
    const uint8_t *stored; /* its 16 counts and its symbols, in the caller's bytes */
};

struct jpeg_header {
    int width, height; /* px */
    int components;    /* 1 or 3 */
    struct jpeg_component component[JPEG_COMPONENTS];
    bool quant_defined[JPEG_QUANT_TABLES];
    uint16_t quant[JPEG_QUANT_TABLES][64]; /* in zigzag order */
    struct jpeg_huffman dc[JPEG_HUFFMAN_TABLES], ac[JPEG_HUFFMAN_TABLES];
    int restart_interval; /* MCUs from one restart marker to the next; 0: none */
    int adobe_transform; /* of an APP14 Adobe marker: 0 RGB, 1 YCbCr; -1: there is no such marker */
    size_t scan_offset;  /* of the first entropy-coded byte */
};

/*
 * Fills *h from the first n bytes of a stream, up to the entropy-coded data. 0: a baseline stream
 * of 8 bits per sample, one interleaved scan, 1 or 3 components, with all its tables. 1: a valid
 * stream of another kind (progressive, 12 bits, several scans, tables absent ...); *e says which.
 * -1: damaged.
 */
int jpeg_header_read(struct jpeg_header *h, const uint8_t *bytes, size_t n, struct err *e);

/*
 * The colours that a stream of three components states itself: 0 RGB, 1 YCbCr, -1 none. An APP14
 * Adobe marker states them, or a JFIF marker with the ids 1, 2, 3; without a JFIF marker, the ids
 * R, G, B do. With one a stream cannot state RGB, as libjpeg takes it for YCbCr whatever else it
 * says. *is_subsampled: the second and the third component have fewer samples, as only YCbCr has.
 * Streams of any kind are looked at, up to the first scan.
 */
int jpeg_header_colours(const uint8_t *bytes, size_t n, bool *is_subsampled);

/* The size that a stream of any kind states. False: it states none before its first scan. */
bool jpeg_header_size(const uint8_t *bytes, size_t n, int64_t *cols, int64_t *rows);

/* Number of blocks of 8 x 8 samples in an MCU, and MCUs across and down. */
int jpeg_header_mcu_blocks(const struct jpeg_header *h);
int jpeg_header_mcu_cols(const struct jpeg_header *h);
int jpeg_header_mcu_rows(const struct jpeg_header *h);

/* Natural position (row * 8 + column) of the k-th coefficient in zigzag order. */
extern const uint8_t jpeg_zigzag[64];

/*
 * A TIFF tile as a chunk of codec jpeg: one whole baseline JPEG file
 * (common/FORMAT.md).
 *
 * TIFF files keep the tables of all tiles in one tag (347, JPEGTables) and the colour space in
 * another (262, Photometric). The chunk states both itself: SOI, an APP14 Adobe marker, the tables,
 * the tile's own tables and headers, its entropy-coded data, unchanged, and EOI. Comments,
 * application segments and bytes after EOI are left out, as they could carry texts that identify a
 * patient.
 *
 * No pixel is decoded and no library is needed. Streams are hostile input.
 */

/* A buffer that grows; starts as {0}. free() bytes. */
struct jpeg_chunk {
    uint8_t *bytes;
    size_t n, room;
};

enum { JPEG_CHUNK_OTHER = 1 };

/*
 * Fills *c with the chunk. 0; JPEG_NO_MEMORY; or JPEG_CHUNK_OTHER, and e says why: the tile is
 * damaged, or a JPEG of a kind that a chunk cannot hold. A 0 does not mean that it can be decoded.
 */
int jpeg_chunk_make(struct jpeg_chunk *c, const struct jpeg_stream *s, bool ycbcr, struct err *e);

/*
 * A picture as chunks of codec jpeg, one for every `rows` rows. If the last strip has fewer rows
 * than that, its chunk is its pixels instead, filled up with zeros. Starts as {0}.
 */
struct jpeg_strips {
    int64_t width, height, rows; /* px; rows of a strip */
    int64_t n;                   /* strips */
    struct jpeg_chunk *list;     /* [n] */
};

/* Is strip k stored as pixels? */
bool jpeg_strips_is_raw(const struct jpeg_strips *s, int64_t k);
/* Appends a strip, and takes its bytes from *c. */
void jpeg_strips_add(struct jpeg_strips *s, struct jpeg_chunk *c);
void jpeg_strips_free(struct jpeg_strips *s);

#ifdef __cplusplus
}
#endif
#endif
