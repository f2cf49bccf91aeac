/* mkslide_options.c - the command line; see mkslide.h. */
#include "mkslide.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

static const char help[] =
    "Usage: mkslide [options] OUT\n"
    "       mkslide --from REAL.svs --size WxH [options] OUT.svs\n"
    "Makes an Aperio slide for the tests. Equal arguments give equal bytes.\n"
    "\nPicture:\n"
    "  --size WxH              pixels of level 0 (1500x1100)\n"
    "  --levels L              levels, each a quarter of the one before (1)\n"
    "  --seed S                another picture (1)\n"
    "  --tissue KIND           ellipses, none, or rect:X,Y,W,H in level-0 pixels (ellipses)\n"
    "  --stain NAME            he; pale: a tenth of the contrast; ihc: bands of 512 px of brown\n"
    "                          and blue; fluorescence: red on black (he)\n"
    "  --tissue-fraction F     one centred rectangle over the full width, F of the area\n"
    "  --fiducial X,Y          a sharp square of 256 px with its corner at X,Y on ground without\n"
    "                          fine detail, which covers the slide (may be given again)\n"
    "\nTiles:\n"
    "  --tile N | TWxTH        tile size (240)\n"
    "  --compression NAME      jpeg; 33003, 33004, 33005, 34712: JPEG 2000; none, deflate, "
    "packbits,\n"
    "                          webp, lzma; with predictor 2: 32946, zstd, lzw (jpeg)\n"
    "  --photometric NAME      rgb; ycbcr: of jpeg; gray, and planes, a gray tile each of R, G "
    "and\n"
    "                          B: not of webp (rgb)\n"
    "  --subsampling S         of ycbcr and 33003: 444, 422, 420 (420; 33003: 422)\n"
    "  --quality Q             1 to 100; J2K is lossless at 100 (80)\n"
    "  --before Q              each tile was a JPEG of this quality before\n"
    "  --complete-tiles        each tile brings its tables, no JPEGTables\n"
    "  --restart N             a restart marker after every N MCUs of a JPEG\n"
    "  --progressive           progressive JPEG\n"
    "  --own-tables            each tile has Huffman tables of its own\n"
    "  --comments              JPEGs with a comment and an application segment around SOF\n"
    "  --lying-subsampling     YCbCrSubSampling 2,2 whatever the stream has\n"
    "  --shuffle-tiles         tiles lie in the file in another order than the grid's\n"
    "\nFile:\n"
    "  --container NAME        aperio; generic, subifds: levels as directories, or in tag 330;\n"
    "                          ome, ome-subifds: with OME-XML; philips (aperio)\n"
    "  --bigtiff, --big-endian\n"
    "  --no-thumbnail, --no-label, --no-macro\n"
    "  --thumbnail-like-tiles  its JPEGs have colours, tables and markers of the tiles'\n"
    "  --empty-descriptions    of the associated images\n"
    "  --mpp TEXT              as written in the description; none leaves it out (0.4990)\n"
    "  --appmag TEXT           the same (20)\n"
    "  --description TEXT      the whole ImageDescription of the base\n"
    "  --icc FILE | fake:N     ICC profile, or N made-up bytes, at least 132\n"
    "\nDamage to the level-0 tile in column C, row R (each may be given again):\n"
    "  --missing C,R           offset and byte count 0\n"
    "  --truncate C,R:BYTES    byte count cut to BYTES\n"
    "  --garbage C,R           bytes overwritten, length kept\n"
    "  --foreign C,R           a valid, complete stream of another size\n"
    "  --outside C,R           offset far beyond the end of the file\n"
    "  --flip C,R              one byte in the middle of the entropy data inverted\n"
    "\nFrom a real slide:\n"
    "  --from REAL.svs         its compressed level-0 tiles, untouched, in pseudo-random order;\n"
    "                          BigTIFF when needed. Codec, tile size, ICC profile, description\n"
    "                          and thumbnail are the source's; no label, no macro. Of\n"
    "                          coarser levels a pixel is the mean of those of level 0 (JPEG only)\n"
    "  --background-fraction F that share of the rows, at the top, repeats the smallest tile (0)\n"
    "\n  --help                  this text\n";

enum opt_id {
    OPT_DAMAGE = 256, /* + enum damage_kind */
    OPT_STAIN = 298,
    OPT_FIDUCIAL = 299,
    OPT_SIZE = 300,
    OPT_LEVELS,
    OPT_SEED,
    OPT_TISSUE,
    OPT_TISSUE_FRACTION,
    OPT_TILE,
    OPT_COMPRESSION,
    OPT_PHOTOMETRIC,
    OPT_SUBSAMPLING,
    OPT_QUALITY,
    OPT_BEFORE,
    OPT_COMPLETE,
    OPT_LYING,
    OPT_SHUFFLE,
    OPT_BIG,
    OPT_BIG_ENDIAN,
    OPT_NO_THUMBNAIL,
    OPT_NO_LABEL,
    OPT_NO_MACRO,
    OPT_EMPTY,
    OPT_MPP,
    OPT_APPMAG,
    OPT_DESCRIPTION,
    OPT_ICC,
    OPT_FROM,
    OPT_BACKGROUND,
    OPT_RESTART,
    OPT_PROGRESSIVE,
    OPT_OWN_TABLES,
    OPT_COMMENTS,
    OPT_LIKE_TILES,
    OPT_CONTAINER,
    OPT_HELP
};

static const struct option long_opts[] = {{"size", 1, NULL, OPT_SIZE},
                                          {"levels", 1, NULL, OPT_LEVELS},
                                          {"seed", 1, NULL, OPT_SEED},
                                          {"fiducial", 1, NULL, OPT_FIDUCIAL},
                                          {"tissue", 1, NULL, OPT_TISSUE},
                                          {"stain", 1, NULL, OPT_STAIN},
                                          {"tissue-fraction", 1, NULL, OPT_TISSUE_FRACTION},
                                          {"tile", 1, NULL, OPT_TILE},
                                          {"compression", 1, NULL, OPT_COMPRESSION},
                                          {"photometric", 1, NULL, OPT_PHOTOMETRIC},
                                          {"subsampling", 1, NULL, OPT_SUBSAMPLING},
                                          {"quality", 1, NULL, OPT_QUALITY},
                                          {"before", 1, NULL, OPT_BEFORE},
                                          {"complete-tiles", 0, NULL, OPT_COMPLETE},
                                          {"lying-subsampling", 0, NULL, OPT_LYING},
                                          {"shuffle-tiles", 0, NULL, OPT_SHUFFLE},
                                          {"bigtiff", 0, NULL, OPT_BIG},
                                          {"big-endian", 0, NULL, OPT_BIG_ENDIAN},
                                          {"no-thumbnail", 0, NULL, OPT_NO_THUMBNAIL},
                                          {"container", 1, NULL, OPT_CONTAINER},
                                          {"no-label", 0, NULL, OPT_NO_LABEL},
                                          {"thumbnail-like-tiles", 0, NULL, OPT_LIKE_TILES},
                                          {"no-macro", 0, NULL, OPT_NO_MACRO},
                                          {"empty-descriptions", 0, NULL, OPT_EMPTY},
                                          {"mpp", 1, NULL, OPT_MPP},
                                          {"appmag", 1, NULL, OPT_APPMAG},
                                          {"description", 1, NULL, OPT_DESCRIPTION},
                                          {"icc", 1, NULL, OPT_ICC},
                                          {"missing", 1, NULL, OPT_DAMAGE + MISSING},
                                          {"truncate", 1, NULL, OPT_DAMAGE + TRUNCATE},
                                          {"garbage", 1, NULL, OPT_DAMAGE + GARBAGE},
                                          {"foreign", 1, NULL, OPT_DAMAGE + FOREIGN},
                                          {"outside", 1, NULL, OPT_DAMAGE + OUTSIDE},
                                          {"flip", 1, NULL, OPT_DAMAGE + FLIP},
                                          {"from", 1, NULL, OPT_FROM},
                                          {"background-fraction", 1, NULL, OPT_BACKGROUND},
                                          {"restart", 1, NULL, OPT_RESTART},
                                          {"progressive", 0, NULL, OPT_PROGRESSIVE},
                                          {"own-tables", 0, NULL, OPT_OWN_TABLES},
                                          {"comments", 0, NULL, OPT_COMMENTS},
                                          {"help", 0, NULL, OPT_HELP},
                                          {0}};

/* Whole numbers in min .. max with exactly the separators given: "," reads "3,4". */
static bool parse_numbers(const char *text, const char *separators, uint64_t min, uint64_t max,
                          uint64_t *v)
{
    for (;; v++, text++, separators++) {
        char *end;
        errno = 0;
        if (!isdigit((unsigned char)*text))
            return false;
        *v = strtoull(text, &end, 10);
        if (errno || *v < min || *v > max || *end != *separators)
            return false;
        if (!*separators)
            return true;
        text = end;
    }
}

bool parse_u32(const char *text, uint64_t min, uint64_t max, uint32_t *v)
{
    uint64_t n;
    bool ok = parse_numbers(text, "", min, max, &n);
    *v = ok ? (uint32_t)n : 0;
    return ok;
}

static bool parse_fraction(const char *text, double *v)
{
    char *end;
    *v = strtod(text, &end);
    return end != text && !*end && *v >= 0 && *v <= 1;
}

static bool parse_pair(const char *text, uint64_t max, uint32_t *a, uint32_t *b)
{
    uint64_t v[2];
    if (!parse_numbers(text, "x", 1, max, v))
        return false;
    *a = (uint32_t)v[0];
    *b = (uint32_t)v[1];
    return true;
}

static bool parse_tile(struct opts *o, const char *text)
{
    if (parse_u32(text, 1, MAX_TILE, &o->tile_w)) {
        o->tile_h = o->tile_w;
        return true;
    }
    return parse_pair(text, MAX_TILE, &o->tile_w, &o->tile_h);
}

static bool parse_tissue(struct opts *o, const char *text)
{
    uint64_t v[4];
    if (!strcmp(text, "ellipses") || !strcmp(text, "none")) {
        o->tissue = *text == 'n' ? TISSUE_NONE : TISSUE_ELLIPSES;
        return true;
    }
    if (strncmp(text, "rect:", 5) || !parse_numbers(text + 5, ",,,", 0, MAX_SIDE, v))
        return false;
    o->tissue = TISSUE_RECT;
    for (int i = 0; i < 4; i++)
        o->rect[i] = (uint32_t)v[i];
    return true;
}

static bool parse_stain(enum stain *stain, const char *name)
{
    static const char *const names[STAINS] = {"he", "pale", "ihc", "fluorescence"};
    for (int k = 0; k < STAINS; k++)
        if (!strcmp(name, names[k])) {
            *stain = (enum stain)k;
            return true;
        }
    return false;
}

static bool parse_fiducial(struct fiducials *f, const char *text)
{
    uint64_t v[2];
    if (f->n == MAX_FIDUCIALS || !parse_numbers(text, ",", 0, MAX_SIDE, v))
        return false;
    f->at[f->n][0] = (uint32_t)v[0];
    f->at[f->n++][1] = (uint32_t)v[1];
    return true;
}

static bool parse_codec(struct opts *o, const char *name)
{
    for (int i = 0; i < N_CODECS; i++)
        if (!strcmp(name, codecs[i].name)) {
            o->codec = &codecs[i];
            return true;
        }
    return false;
}

static bool parse_photometric(struct opts *o, const char *name)
{
    o->form.ycbcr = !strcmp(name, "ycbcr");
    o->planes = !strcmp(name, "planes");
    o->form.gray = o->planes || !strcmp(name, "gray");
    return o->form.ycbcr || o->form.gray || !strcmp(name, "rgb");
}

static bool parse_subsampling(struct opts *o, const char *text)
{
    o->form.sub_x = strcmp(text, "444") ? 2 : 1;
    o->form.sub_y = strcmp(text, "420") ? 1 : 2;
    return !strcmp(text, "444") || !strcmp(text, "422") || !strcmp(text, "420");
}

static bool parse_damage(struct opts *o, enum damage_kind kind, const char *text)
{
    uint64_t v[3] = {0};
    if (o->n_damages == MAX_DAMAGES ||
        !parse_numbers(text, kind == TRUNCATE ? ",:" : ",", 0, UINT32_MAX, v))
        return false;
    o->damages[o->n_damages++] = (struct damage){kind, (uint32_t)v[0], (uint32_t)v[1], v[2]};
    return true;
}

static bool parse_option(struct opts *o, int id, const char *arg)
{
    uint32_t v;
    switch (id) {
    case OPT_SIZE: return parse_pair(arg, MAX_SIDE, &o->width, &o->height);
    case OPT_LEVELS: return parse_u32(arg, 1, MAX_LEVELS - 1, &o->n_levels);
    case OPT_SEED: return parse_u32(arg, 0, UINT32_MAX, &o->seed);
    case OPT_TISSUE: return parse_tissue(o, arg);
    case OPT_STAIN: return parse_stain(&o->stain, arg);
    case OPT_FIDUCIAL: return parse_fiducial(&o->fiducials, arg);
    case OPT_TISSUE_FRACTION: return parse_fraction(arg, &o->tissue_fraction);
    case OPT_TILE: return parse_tile(o, arg);
    case OPT_COMPRESSION: return parse_codec(o, arg);
    case OPT_PHOTOMETRIC: return parse_photometric(o, arg);
    case OPT_SUBSAMPLING: return parse_subsampling(o, arg);
    case OPT_BEFORE: return parse_u32(arg, 1, 100, &v) && (o->form.before = (int)v);
    case OPT_QUALITY: return parse_u32(arg, 1, 100, &v) && (o->form.quality = (int)v);
    case OPT_COMPLETE: return o->form.complete = true;
    case OPT_LYING: return o->lying = true;
    case OPT_SHUFFLE: return o->shuffle = true;
    case OPT_CONTAINER: return (o->container = container_find(arg));
    case OPT_BIG: return o->big = true;
    case OPT_BIG_ENDIAN: return o->big_endian = true;
    case OPT_NO_THUMBNAIL: return o->no_thumbnail = true;
    case OPT_LIKE_TILES: return o->like_tiles = true;
    case OPT_NO_LABEL: return o->no_label = true;
    case OPT_NO_MACRO: return o->no_macro = true;
    case OPT_EMPTY: return o->empty = true;
    case OPT_MPP: return (o->mpp = arg);
    case OPT_APPMAG: return (o->appmag = arg);
    case OPT_DESCRIPTION: return (o->description = arg);
    case OPT_ICC: return (o->icc = arg);
    case OPT_FROM: return (o->from = arg);
    case OPT_RESTART: return parse_u32(arg, 1, 65535, &o->form.restart);
    case OPT_PROGRESSIVE: return o->form.progressive = true;
    case OPT_OWN_TABLES: return o->form.own_tables = true;
    case OPT_COMMENTS: return o->form.comments = true;
    case OPT_BACKGROUND: return parse_fraction(arg, &o->background_fraction);
    default: return parse_damage(o, (enum damage_kind)(id - OPT_DAMAGE), arg);
    }
}

/* What depends on several options. */
static void opts_settle(struct opts *o)
{
    bool yuv = o->codec->compression == COMPRESSION_J2K_YCC;
    if (o->form.ycbcr && o->codec->compression != COMPRESSION_JPEG)
        die_usage("--photometric ycbcr is for jpeg");
    if (!o->form.sub_x) {
        o->form.sub_x = 2;
        o->form.sub_y = yuv ? 1 : 2;
    }
    o->form.ycbcr |= yuv;
    if (o->width >> 2 * (o->n_levels - 1) == 0 || o->height >> 2 * (o->n_levels - 1) == 0)
        die_usage("%ux%u is too small for %u levels", o->width, o->height, o->n_levels);
    if (o->tissue_fraction >= 0) {
        uint32_t h = (uint32_t)(o->tissue_fraction * o->height + 0.5);
        o->tissue = TISSUE_RECT;
        memcpy(o->rect, (uint32_t[]){0, (o->height - h) / 2, o->width, h}, sizeof o->rect);
    }
}

void opts_parse(struct opts *o, int argc, char **argv)
{
    int id, index = 0;
    while ((id = getopt_long(argc, argv, "", long_opts, &index)) != -1) {
        if (id == OPT_HELP) {
            fputs(help, stdout);
            exit(fflush(stdout) ? 1 : 0);
        }
        if (id == '?')
            die_usage("try --help");
        if (!parse_option(o, id, optarg))
            die_usage("--%s: cannot use '%s'", long_opts[index].name, optarg);
    }
    if (optind + 1 != argc)
        die_usage("one output file is needed, try --help");
    o->out = argv[optind];
    opts_settle(o);
}
