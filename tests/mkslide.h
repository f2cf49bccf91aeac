/*
 * mkslide.h - what the parts of mkslide share; mkslide.c says what it is. The first error ends the
 * program, so nothing here returns one.
 */
#ifndef MKSLIDE_H
#define MKSLIDE_H

#include "common/base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tiffio.h>

enum { MAX_LEVELS = 12, MAX_DAMAGED = 256 };
enum { MAX_SIDE = 1 << 20, MAX_TILE = 8192, MAX_TILES = 1 << 26 };
enum { COMPRESSION_J2K_YCC = 33003, COMPRESSION_J2K_LOSSY, COMPRESSION_J2K_RGB };
#define LIBRARY "Aperio Image Library v11.2.1 "

/* --- errors and memory (mkslide.c) --- */

/* Ends the program; status 1, or 2 for wrong usage. */
__attribute__((noreturn, format(printf, 2, 3))) void die(int status, const char *fmt, ...);

/* A growing file in memory: what the codecs write to. */
struct mem {
    uint8_t *data;
    size_t len, pos, cap;
};

/* Writes at m->pos, which moves on; mem_set empties the file first. Free m->data. */
void mem_write(struct mem *m, const void *data, size_t n);
void mem_set(struct mem *m, const void *data, size_t n);

/* --- picture (mkslide_picture.c) --- */

enum tissue_kind { TISSUE_ELLIPSES, TISSUE_SECTION, TISSUE_RECT, TISSUE_NONE };

enum stain { STAIN_HE, STAIN_PALE, STAIN_IHC, STAIN_FLUORESCENCE, STAINS };

/* Squares of sharp tissue on ground without fine detail, instead of tissue on glass. */
enum { FIDUCIAL = 256, MAX_FIDUCIALS = 8 }; /* px of a side */
struct fiducials {
    uint32_t at[MAX_FIDUCIALS][2]; /* upper left corners, level-0 pixels */
    int n;
};

/* What the microscope did not focus on: a Gaussian over the slide, or around a place only. */
struct blur {
    uint32_t sigma, place[3]; /* sixteenths of a px, 0: none; x, y, radius in level-0 px, 0: all */
};

struct picture {
    uint32_t width, height, seed;
    enum tissue_kind tissue;
    uint32_t rect[4]; /* x, y, w, h in level-0 pixels */
    enum stain stain;
    struct fiducials fiducials;
    struct blur blur;
    uint8_t *blurred; /* [height][width][3], before the noise of the camera; NULL: no blur */
    uint8_t *mask;    /* [width] 1 = tissue, of the row being made */
    uint32_t *texture, *grain, *ground;
    uint8_t *above[MAX_LEVELS]; /* [width of level - 1][3]: a row of the level above */
    uint32_t *sum[MAX_LEVELS];  /* [width of level][3] */
};

/* A number that depends on nothing but the arguments. */
uint32_t hash3(uint32_t seed, uint32_t x, uint32_t y);
void picture_init(struct picture *p);
void picture_free(struct picture *p);
/* A tile of a level, [th][tw][3]; black beyond the picture. */
void picture_tile(struct picture *p, uint32_t level, uint32_t x, uint32_t y, uint32_t tw,
                  uint32_t th, uint8_t *rgb);
/* The whole slide sampled to w x h, into rows of `stride` px. */
void picture_sample(struct picture *p, uint32_t w, uint32_t h, uint32_t stride, uint8_t *rgb);

/* --- codecs (mkslide_codecs.c) --- */

struct form {
    int quality, before;  /* before: quality of a first JPEG, which is decoded; 0: none */
    bool ycbcr, complete; /* complete: the stream brings its own tables */
    uint32_t sub_x, sub_y;
    uint32_t restart;                 /* MCUs from one restart marker to the next; 0: none */
    uint32_t precinct;                /* px of the finest precincts of J2K; 0: whole resolutions */
    bool progressive, comments, gray; /* gray: one component */
    bool own_tables;                  /* Huffman tables made for each tile */
};

struct codec {
    const char *name;
    uint16_t compression;
    const char *text;   /* in the description */
    uint16_t predictor; /* TIFF's tag; 0: none */
    /* Packs rgb, [h][w][3], into out. */
    void (*encode)(const struct codec *c, const struct form *f, const uint8_t *rgb, uint32_t w,
                   uint32_t h, struct mem *out);
};

enum { N_CODECS = 13 };
extern const struct codec codecs[N_CODECS]; /* the first is jpeg, the last lzw */

/* The tables that TIFF keeps apart from the streams (tag JPEGTables). */
void jpeg_tables(const struct form *f, struct mem *out);

/* --- TIFF (mkslide_tiff.c) --- */

struct tiff_out {
    const char *path;
    FILE *file;
    bool big, big_endian;
    uint64_t pos, link_at; /* link_at: where the next directory's offset belongs */
};

struct tag {
    uint16_t tag, type;
    uint64_t count, small[3];
    const uint64_t *numbers; /* or */
    const uint8_t *bytes;    /* or neither: small */
};

struct dir {
    struct tag tags[32];
    int n;
};

/* The file being written. It ends with the last directory. */
void out_bytes(struct tiff_out *o, const void *data, size_t n);
void out_open(struct tiff_out *o);
void out_close(struct tiff_out *o);
/* A tag's numbers, bytes and text stay the caller's until dir_write. */
struct tag *dir_add(struct dir *d, uint32_t tag, uint16_t type, uint64_t count);
void dir_short(struct dir *d, uint32_t tag, uint64_t count, uint64_t a, uint64_t b, uint64_t c);
void dir_long(struct dir *d, uint32_t tag, uint64_t v);
void dir_bytes(struct dir *d, uint32_t tag, uint16_t type, const void *data, size_t n);
void dir_text(struct dir *d, uint32_t tag, const char *text);
void dir_write(struct tiff_out *o, struct dir *d);
/* The same for a directory that no link names; returns its offset. */
uint64_t dir_write_sub(struct tiff_out *o, struct dir *d);
/* What every directory has. */
void dir_image(struct dir *d, uint32_t subtype, uint32_t w, uint32_t h, uint16_t compression,
               uint16_t photometric, uint16_t planar);
/* Where its n tiles or strips lie. */
void dir_places(struct dir *d, const struct tiff_out *o, bool tiled, uint64_t n,
                const uint64_t *offsets, const uint64_t *counts);

/* --- containers (mkslide_containers.c) --- */

struct maker;
struct container {
    const char *name, *software; /* software: of the first directory, or NULL */
    bool subs;                   /* coarser levels are in tag 330 of the first directory */
    /* The description of level 0, which the caller frees; others have none. NULL: Aperio's. */
    char *(*describe)(const struct maker *m);
};

/* NULL: there is no such container. */
const struct container *container_find(const char *name);

/* --- options (mkslide_options.c) --- */

enum damage_kind { MISSING, TRUNCATE, GARBAGE, FOREIGN, OUTSIDE, FLIP, NO_DAMAGE };

/* The tiles with one kind of damage. */
struct damaged {
    int n;
    uint32_t at[MAX_DAMAGED][3]; /* column, row, bytes that TRUNCATE leaves */
};

struct opts {
    const char *out, *from, *mpp, *appmag, *description, *icc;
    uint32_t width, height, tile_w, tile_h, n_levels, seed;
    const struct codec *codec;
    const struct container *container;
    struct form form;
    bool big, big_endian, shuffle, lying, no_thumbnail, no_label, no_macro, empty;
    bool like_tiles; /* the thumbnail */
    bool planes;     /* R, G and B in tiles of their own */
    enum tissue_kind tissue;
    uint32_t rect[4];
    enum stain stain;
    struct fiducials fiducials;
    struct blur blur;
    double background_fraction;
    struct damaged damaged[NO_DAMAGE];
};

/* Sets what the command line says, and the defaults. */
void opts_parse(struct opts *o, int argc, char **argv);

/* --- a slide being made (mkslide.c) --- */

struct source {
    TIFF *tif;
    uint16_t photometric;
    uint32_t *tiles; /* its whole tiles that are there */
    uint32_t n_tiles, smallest;
    uint8_t **small; /* [its tiles][tile_h / shrink][tile_w / shrink][3], of the current level */
};

struct maker {
    const struct opts *o;
    struct tiff_out out;
    struct picture picture;
    struct source src;         /* tif NULL: a made picture */
    char *tail;                /* of the descriptions: the fields */
    uint64_t subs[MAX_LEVELS]; /* offsets of the levels' directories that level 0 names */
    struct mem bytes;          /* of the tile or strip being written */
    uint8_t *pixels;           /* [tile_h][tile_w][3] */
    uint32_t tile_w, tile_h;
    const struct codec *codec;
    struct form form;
};

/* --- a real slide (mkslide_source.c) --- */

/* The source's ImageDescription with our size. The caller frees it. */
char *source_description(const struct maker *m);
/* JPEG tables and chroma size of the source's current directory. */
void dir_form_source(struct dir *d, TIFF *tif);
/* The bytes of its tile or strip i. */
void source_raw(const struct maker *m, uint32_t i, struct mem *out);
/* Which of its tiles lies at (col, row) of the made slide. */
uint32_t source_pick(const struct maker *m, uint32_t col, uint32_t row, uint32_t n_rows);
/* Prepares source_tile for a level at 1 / shrink. */
void source_shrink(struct maker *m, uint32_t shrink);
/* Puts tile (col, row) at 1 / shrink into m->pixels. */
void source_tile(struct maker *m, uint32_t shrink, uint32_t col, uint32_t row);
void source_open(struct maker *m);
/* Copies its thumbnail if that is a JPEG. */
void source_thumbnail_write(struct maker *m);
/* Are the tiles too large for a classic TIFF? */
bool source_needs_big(const struct maker *m);
void source_close(struct maker *m);

#endif
