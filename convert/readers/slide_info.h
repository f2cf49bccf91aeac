/*
 * slide_info.h - what a reader finds out about a slide and its open level.
 */
#ifndef WSI_SLIDE_INFO_H
#define WSI_SLIDE_INFO_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SLIDE_LEVELS = 32 };

struct slide_info {
    const char *reader;  /* name of the reader that opened the slide */
    const char *library; /* that reads the tiles, such as "OpenSlide 3.4.1"; NULL: this program */
    char vendor[64];     /* OpenSlide's name of the format */
    char quickhash[80];  /* OpenSlide's quickhash-1, "" when there is none */
    int64_t level;       /* the open level */
    double downsample;   /* of the open level */
    int64_t levels;      /* entries of downsamples[] */
    double downsamples[SLIDE_LEVELS];
    bool has_eighth;              /* read_eighth works */
    bool gray_is_luma;            /* `read` gives the stored luma as gray; else gray of RGB */
    bool in_order;                /* tiles out of order cost much: what is above them is decoded */
    bool is_gray;                 /* its tiles are gray, so its store is */
    char no_jpeg[160];            /* why codec jpeg is not possible; "": it is */
    bool is_j2k;                  /* codec j2k is possible */
    bool has_thumbnail;           /* `thumbnail` returns a thumbnail, never the label */
    int64_t width, height;        /* of the open level, px */
    int64_t tile_cols, tile_rows; /* px; the grid starts at (0, 0) */
    double mpp_x, mpp_y;          /* um per level-0 px; NaN when unknown */
    double objective_power;       /* NaN when unknown */
    uint8_t background[3];        /* R, G, B of areas that the slide leaves empty */
    char note[256];    /* what its user should know although nothing is wrong; "" for nothing */
    char problem[256]; /* what is wrong with the file besides its tiles; "" for nothing */
};

/* um per pixel of every format: what no scanner has becomes unknown, what is doubtful stays, and
 * the note says so. */
void slide_check_mpp(struct slide_info *i);

/* The slide has so many levels, of which `level` is none. Returns -1. */
int slide_reject_level(int64_t levels, int64_t level, struct err *e);

#endif
