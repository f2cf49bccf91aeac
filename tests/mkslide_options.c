/* mkslide_options.c - the command line; see mkslide.h. */
#include "common/base/cli.h"
#include "common/base/command.h"
#include "tests/mkslide.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What the options set; opts_settle makes opts of it. */
struct arguments {
    struct opts o;
    uint32_t size[2], tile[2];
    int64_t seed, levels, quality, before, restart, precinct;
    double tissue_fraction; /* < 0: not given */
    enum { RGB, YCBCR, GRAY, PLANES } photometric;
    enum { OF_CODEC, S444, S422, S420 } subsampling;
};
#define ARGUMENTS struct arguments

static void set_defaults(void *ctx)
{
    *(struct arguments *)ctx = (struct arguments){.o = {.mpp = "0.4990",
                                                        .appmag = "20",
                                                        .codec = &codecs[0],
                                                        .container = container_find("aperio")},
                                                  .size = {1500, 1100},
                                                  .tile = {240, 240},
                                                  .seed = 1,
                                                  .levels = 1,
                                                  .quality = 80,
                                                  .tissue_fraction = -1};
}

static int unusable(const char *arg, struct err *e)
{
    return err_set(e, "cannot use '%s'", arg);
}

/* Whole numbers in low .. high with exactly the separators given: "," reads "3,4". */
static int set_numbers(const char *arg, const char *separators, uint32_t low, uint32_t high,
                       uint32_t *v, struct err *e)
{
    char *end;
    for (const char *at = arg;; v++, at = end + 1, separators++) {
        errno = 0;
        const unsigned long long n = isdigit((unsigned char)*at) ? strtoull(at, &end, 10) : 0;
        if (!isdigit((unsigned char)*at) || errno || n < low || n > high || *end != *separators)
            return unusable(arg, e);
        *v = (uint32_t)n;
        if (!*separators)
            return 0;
    }
}

static int set_size(void *field, const char *arg, struct err *e)
{
    return set_numbers(arg, "x", 1, MAX_SIDE, field, e);
}

static int set_tile(void *field, const char *arg, struct err *e)
{
    uint32_t *tile = field;
    const bool square = !strchr(arg, 'x');
    const int failed = set_numbers(arg, square ? "" : "x", 1, MAX_TILE, tile, e);
    tile[1] = square ? tile[0] : tile[1];
    return failed;
}

static int set_tissue(void *field, const char *arg, struct err *e)
{
    struct arguments *a = field;
    static const struct {
        const char *name;
        enum tissue_kind kind;
    } kinds[] = {{"none", TISSUE_NONE}, {"ellipses", TISSUE_ELLIPSES}, {"section", TISSUE_SECTION}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        a->o.tissue = kinds[k].kind;
        if (!strcmp(arg, kinds[k].name))
            return 0;
    }
    a->o.tissue = TISSUE_RECT;
    if (strncmp(arg, "rect:", 5))
        return unusable(arg, e);
    return set_numbers(arg + 5, ",,,", 0, MAX_SIDE, a->o.rect, e);
}

/* SIGMA or SIGMA:X,Y,R */
static int set_blur(void *field, const char *arg, struct err *e)
{
    struct blur *b = field;
    char *end;
    const double sigma = strtod(arg, &end);
    if (end == arg || !(sigma >= 0.0625 && sigma <= 32) || (*end && *end != ':'))
        return unusable(arg, e);
    b->sigma = (uint32_t)(16 * sigma + 0.5);
    return *end ? set_numbers(end + 1, ",,", 0, MAX_SIDE, b->place, e) : 0;
}

static int add_fiducial(void *field, const char *arg, struct err *e)
{
    struct fiducials *f = field;
    if (f->n == MAX_FIDUCIALS)
        return unusable(arg, e);
    return set_numbers(arg, ",", 0, MAX_SIDE, f->at[f->n++], e);
}

static int set_codec(void *field, const char *arg, struct err *e)
{
    const struct codec **codec = field;
    for (*codec = codecs; *codec < codecs + N_CODECS; ++*codec)
        if (!strcmp(arg, (*codec)->name))
            return 0;
    return unusable(arg, e);
}

static int set_container(void *field, const char *arg, struct err *e)
{
    const struct container **container = field;
    *container = container_find(arg);
    return *container ? 0 : unusable(arg, e);
}

static int add_tile(void *field, const char *arg, struct err *e)
{
    struct damaged *d = field;
    if (d->n == MAX_DAMAGED)
        return unusable(arg, e);
    return set_numbers(arg, strchr(arg, ':') ? ",:" : ",", 0, UINT32_MAX, d->at[d->n++], e);
}

/* clang-format off: a row of words, then what they set */
static const struct command_option table[] = {
    {"Picture", 0, "size", "WxH", "pixels of level 0", COMMAND_SET(size, set_size),
     .shown = "1500x1100"},
    {NULL, 0, "levels", "L", "levels, each a quarter of the one before",
     COMMAND_INT(levels, 1, MAX_LEVELS - 1)},
    {NULL, 0, "seed", "S", "another picture", COMMAND_INT(seed, 0, UINT32_MAX)},
    {NULL, 0, "tissue", "ellipses|section|none|rect:X,Y,W,H",
     "section: one piece, of another shape for each seed; rect: in level-0 pixels",
     COMMAND_CALL(set_tissue), .shown = "ellipses"},
    {NULL, 0, "stain", "he|pale|ihc|fluorescence",
     "pale: a tenth of the contrast; ihc: bands of 512 px of brown and blue; fluorescence: red on "
     "black",
     COMMAND_WORD(o.stain)},
    {NULL, 0, "tissue-fraction", "F", "one centred rectangle over the full width, F of the area",
     COMMAND_REAL(tissue_fraction, 0, 1)},
    {NULL, 0, "blur", "SIGMA[:X,Y,R]",
     "out of focus: a Gaussian of SIGMA px, up to R px from X,Y or everywhere; the camera's noise "
     "stays",
     COMMAND_SET(o.blur, set_blur)},
    {NULL, 0, "fiducial", "X,Y",
     "a sharp square of 256 px with its corner at X,Y on ground without fine detail, which covers "
     "the slide (may be given again)",
     COMMAND_SET(o.fiducials, add_fiducial)},
    {"Tiles", 0, "tile", "N|TWxTH", "tile size", COMMAND_SET(tile, set_tile), .shown = "240"},
    {NULL, 0, "compression", "NAME",
     "jpeg; 33003, 33004, 33005, 34712: JPEG 2000; none, deflate, packbits, webp, lzma; with "
     "predictor 2: 32946, zstd, lzw",
     COMMAND_SET(o.codec, set_codec), .shown = "jpeg"},
    {NULL, 0, "photometric", "rgb|ycbcr|gray|planes",
     "ycbcr: of jpeg; planes: a gray tile each of R, G and B; gray and planes: not of webp",
     COMMAND_WORD(photometric)},
    {NULL, 0, "subsampling", "auto|444|422|420", "of ycbcr and 33003; auto: 420, of 33003 422",
     COMMAND_WORD(subsampling)},
    {NULL, 0, "quality", "Q", "J2K is lossless at 100", COMMAND_INT(quality, 1, 100)},
    {NULL, 0, "before", "Q", "each tile was a JPEG of this quality before",
     COMMAND_INT(before, 1, 100)},
    {NULL, 0, "complete-tiles", NULL, "each tile brings its tables, no JPEGTables",
     COMMAND_FLAG(o.form.complete)},
    {NULL, 0, "restart", "N", "a restart marker after every N MCUs of a JPEG",
     COMMAND_INT(restart, 1, 65535)},
    {NULL, 0, "precinct", "N", "J2K with precincts of N x N px and code-blocks of 16 x 16",
     COMMAND_INT(precinct, 1, 32768)},
    {NULL, 0, "progressive", NULL, "progressive JPEG", COMMAND_FLAG(o.form.progressive)},
    {NULL, 0, "own-tables", NULL, "each tile has Huffman tables of its own",
     COMMAND_FLAG(o.form.own_tables)},
    {NULL, 0, "comments", NULL, "JPEGs with a comment and an application segment around SOF",
     COMMAND_FLAG(o.form.comments)},
    {NULL, 0, "lying-subsampling", NULL, "YCbCrSubSampling 2,2 whatever the stream has",
     COMMAND_FLAG(o.lying)},
    {NULL, 0, "shuffle-tiles", NULL, "tiles lie in the file in another order than the grid's",
     COMMAND_FLAG(o.shuffle)},
    {"File", 0, "container", "NAME",
     "aperio; generic, subifds: levels as directories, or in tag 330; ome, ome-subifds: with "
     "OME-XML; philips",
     COMMAND_SET(o.container, set_container), .shown = "aperio"},
    {NULL, 0, "bigtiff", NULL, "BigTIFF", COMMAND_FLAG(o.big)},
    {NULL, 0, "big-endian", NULL, "most significant byte first", COMMAND_FLAG(o.big_endian)},
    {NULL, 0, "no-thumbnail", NULL, "leave it out", COMMAND_FLAG(o.no_thumbnail)},
    {NULL, 0, "no-label", NULL, "leave it out", COMMAND_FLAG(o.no_label)},
    {NULL, 0, "no-macro", NULL, "leave it out", COMMAND_FLAG(o.no_macro)},
    {NULL, 0, "thumbnail-like-tiles", NULL,
     "its JPEGs have colours, tables and markers of the tiles'", COMMAND_FLAG(o.like_tiles)},
    {NULL, 0, "empty-descriptions", NULL, "of the associated images", COMMAND_FLAG(o.empty)},
    {NULL, 0, "mpp", "TEXT", "as written in the description; none leaves it out",
     COMMAND_TEXT(o.mpp)},
    {NULL, 0, "appmag", "TEXT", "the same", COMMAND_TEXT(o.appmag)},
    {NULL, 0, "description", "TEXT", "the whole ImageDescription of the base",
     COMMAND_TEXT(o.description)},
    {NULL, 0, "icc", "FILE|fake:N", "ICC profile, or N made-up bytes, at least 132",
     COMMAND_TEXT(o.icc)},
    {"Damage to the level-0 tile in column C, row R (may be given again)", 0, "missing", "C,R",
     "offset and byte count 0", COMMAND_SET(o.damaged[MISSING], add_tile)},
    {NULL, 0, "truncate", "C,R:BYTES", "byte count cut to BYTES",
     COMMAND_SET(o.damaged[TRUNCATE], add_tile)},
    {NULL, 0, "garbage", "C,R", "bytes overwritten, length kept",
     COMMAND_SET(o.damaged[GARBAGE], add_tile)},
    {NULL, 0, "foreign", "C,R", "a valid, complete stream of another size",
     COMMAND_SET(o.damaged[FOREIGN], add_tile)},
    {NULL, 0, "outside", "C,R", "offset far beyond the end of the file",
     COMMAND_SET(o.damaged[OUTSIDE], add_tile)},
    {NULL, 0, "flip", "C,R", "one byte in the middle of the entropy data inverted",
     COMMAND_SET(o.damaged[FLIP], add_tile)},
    {"From a real slide", 0, "from", "REAL.svs",
     "its compressed level-0 tiles, untouched, in pseudo-random order; BigTIFF when needed. Codec, "
     "tile size, ICC profile, description and thumbnail are the source's; no label, no macro. Of "
     "coarser levels a pixel is the mean of those of level 0 (JPEG only)",
     COMMAND_TEXT(o.from)},
    {NULL, 0, "background-fraction", "F",
     "that share of the rows, at the top, repeats the smallest tile",
     COMMAND_REAL(o.background_fraction, 0, 1)},
    {"Other", 'h', "help", NULL, "print this help and exit", .kind = COMMAND_IS_HELP},
    {.name = NULL},
};
/* clang-format on */

static const struct command command = {
    .program = "mkslide",
    .usage = "[options] OUT",
    .summary = "make a slide for the tests; equal arguments give equal bytes",
    .example = "mkslide --from real.svs --size 100000x80000 large.svs",
    .options = table,
    .bytes = sizeof(struct arguments),
    .defaults = set_defaults,
};

/* What depends on several options. */
static void opts_settle(struct opts *o, const struct arguments *a)
{
    const bool yuv = o->codec->compression == COMPRESSION_J2K_YCC;
    const bool given = a->subsampling != OF_CODEC, s444 = a->subsampling == S444;
    const bool s420 = given ? a->subsampling == S420 : !yuv;
    const int64_t shift = 2 * (a->levels - 1);
    if (a->photometric == YCBCR && o->codec->compression != COMPRESSION_JPEG)
        die(2, "--photometric ycbcr is for jpeg");
    o->width = a->size[0];
    o->height = a->size[1];
    o->tile_w = a->tile[0];
    o->tile_h = a->tile[1];
    o->seed = (uint32_t)a->seed;
    o->n_levels = (uint32_t)a->levels;
    o->planes = a->photometric == PLANES;
    o->form.quality = (int)a->quality;
    o->form.before = (int)a->before;
    o->form.restart = (uint32_t)a->restart;
    o->form.precinct = (uint32_t)a->precinct;
    o->form.ycbcr = yuv || a->photometric == YCBCR;
    o->form.gray = a->photometric >= GRAY;
    o->form.sub_x = s444 ? 1 : 2;
    o->form.sub_y = s420 ? 2 : 1;
    if (o->width >> shift == 0 || o->height >> shift == 0)
        die(2, "%ux%u is too small for %u levels", o->width, o->height, o->n_levels);
    if (a->tissue_fraction >= 0) {
        uint32_t h = (uint32_t)(a->tissue_fraction * o->height + 0.5);
        o->tissue = TISSUE_RECT;
        memcpy(o->rect, (uint32_t[]){0, (o->height - h) / 2, o->width, h}, sizeof o->rect);
    }
}

void opts_parse(struct opts *o, int argc, char **argv)
{
    int first;
    struct arguments a;
    cli_start("mkslide");
    const int status = command_parse(&command, argc, argv, &a, &first);
    if (status >= 0)
        exit(cli_finish(status));
    if (first + 1 != argc)
        die(2, "one output file is needed, try --help");
    *o = a.o;
    o->out = argv[first];
    opts_settle(o, &a);
}
