/* index.c - see index.h. */
#include "process/commands/index.h"

#include "common/base/cli.h"
#include "common/base/json.h"
#include "common/base/number.h"
#include "common/store/store.h"
#include "process/options/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- options --- */

enum { OPT_URL = COMMAND_OWN };

static const struct command_option rows[] = {
    {"Output", 0, "url", "URL", OPT_URL,
     "where readers will find the store, such as s3://bucket/slide.h5 (default: its full path)"},
    COMMAND_LAST_ROWS,
};

static int set(void *ctx, int id, const char *arg, struct err *e)
{
    const char **url = ctx;
    (void)id;
    *url = arg;
    return *arg ? 0 : err_set(e, "--url: the address is empty");
}

const struct command index_options = {
    .program = "h5spec",
    .word = "index",
    .usage = "[options] STORE >INDEX.json",
    .summary = "print a reference file that presents a store as Zarr",
    .details = "Prints JSON that lists where each chunk of the store lies (the reference format of "
               "kerchunk). With it, zarr and fsspec read the pixels without HDF5, also over the "
               "network. Codec jpeg needs the package imagecodecs there. Stores of codec lz4 "
               "cannot be presented, as Zarr has no codec for their chunks.",
    .example = "h5spec index stores/slide.h5 >slide.json",
    .options = rows,
    .set = set,
    .version = options_version};

/* --- the store --- */

struct index {
    const char *url;
    const struct store_info *info;
    struct store_chunk *chunks; /* [chunk rows of the slide][columns] */
    int64_t rows, cols;
};

static const char *compressor_of(enum codec_id id)
{
    switch (id) {
    case CODEC_NONE: return "null";
    case CODEC_DEFLATE: return "{\"id\": \"zlib\", \"level\": 1}";
    case CODEC_ZSTD: return "{\"id\": \"zstd\", \"level\": 1}";
    case CODEC_JPEG: return "{\"id\": \"imagecodecs_jpeg\"}";
    default: return NULL;
    }
}

/* Zarr has one codec for all chunks of an array. */
static int check_chunks(const struct index *x, const char *path, struct err *e)
{
    int64_t raw = 0;
    for (int64_t k = 0; k < x->rows * x->cols; k++)
        raw += x->chunks[k].raw && x->chunks[k].bytes > 0;
    if (x->info->codec->id == CODEC_NONE || raw == 0)
        return 0;
    return err_set(e,
                   "%s: %" PRId64 " chunks are stored without compression, which Zarr cannot mix "
                   "with others; convert the slide with --codec none or jpeg", path, raw);
}

static int read_chunks(struct index *x, struct store *s, struct err *e)
{
    const struct store_info *i = x->info;
    x->cols = store_chunk_columns(i);
    x->rows = (i->height + i->chunk_rows - 1) / i->chunk_rows;
    x->chunks = calloc((size_t)(x->rows * x->cols), sizeof *x->chunks);
    if (!x->chunks)
        return err_set(e, "%s: out of memory", store_path(s));
    for (int64_t g = 0; g < i->group_count; g++)
        if (store_map_group(s, g, x->chunks + g * (i->group_rows / i->chunk_rows) * x->cols, e))
            return -1;
    return check_chunks(x, store_path(s), e);
}

/* --- the file --- */

/* A document of Zarr is a string in the reference file, so its quotes are escaped. */
static void print_array(const struct store_info *i)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"zarr_format\": 2, \"shape\": [%" PRId64 ", %" PRId64 ", %" PRId64
             "], \"chunks\": [%" PRId64 ", %" PRId64 ", %" PRId64
             "], \"dtype\": \"|u1\", \"compressor\": %s, \"fill_value\": 255, \"order\": \"C\", "
             "\"filters\": null}",
             i->height, i->width, i->channels, i->chunk_rows, i->chunk_cols, i->channels,
             compressor_of(i->codec->id));
    fputs("  \"pixels/.zarray\": ", stdout);
    json_write_string(stdout, text);
}

static void print_attributes(const struct store_info *i)
{
    char text[512], x[32], y[32];
    const bool known = isfinite(i->mpp_x) && isfinite(i->mpp_y);
    snprintf(text, sizeof text,
             "{\"_ARRAY_DIMENSIONS\": [\"y\", \"x\", \"c\"], \"level\": %" PRId64
             ", \"mpp_x\": %s, \"mpp_y\": %s}",
             i->level, known ? number_text(x, i->mpp_x * i->downsample) : "null",
             known ? number_text(y, i->mpp_y * i->downsample) : "null");
    fputs("  \"pixels/.zattrs\": ", stdout);
    json_write_string(stdout, text);
}

static void print_chunk(const struct index *x, int64_t row, int64_t col)
{
    const struct store_chunk *c = &x->chunks[row * x->cols + col];
    if (c->bytes == 0) /* left out: Zarr takes the fill value */
        return;
    printf(",\n  \"pixels/%" PRId64 ".%" PRId64 ".0\": [", row, col);
    json_write_string(stdout, x->url);
    printf(", %" PRIu64 ", %" PRIu32 "]", c->offset, c->bytes);
}

static void print(const struct index *x)
{
    puts("{\"version\": 1, \"refs\": {\n  \".zgroup\": \"{\\\"zarr_format\\\": 2}\",");
    print_array(x->info);
    puts(",");
    print_attributes(x->info);
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t c = 0; c < x->cols; c++)
            print_chunk(x, r, c);
    puts("\n}}");
}

static int make_index(const char *path, const char *url, struct err *e)
{
    struct index x = {.url = url};
    char *full = url ? NULL : realpath(path, NULL);
    struct store *s = store_open(path, e);
    int r = -1;
    if (!s)
        goto out;
    x.info = store_info(s);
    if (!url && !(x.url = full)) {
        err_sys(e, "%s: its full path cannot be found; use --url", path);
        goto out;
    }
    if (!compressor_of(x.info->codec->id)) {
        err_set(e, "%s: Zarr cannot read codec %s; convert the slide with another codec", path,
                x.info->codec->name);
        goto out;
    }
    if (read_chunks(&x, s, e))
        goto out;
    print(&x);
    r = 0;
out:
    free(x.chunks);
    store_close(s);
    free(full);
    return r;
}

int index_main(int argc, char **argv)
{
    struct err e = {""};
    const char *url = NULL;
    int first;
    const int status = command_parse(&index_options, argc, argv, &url, &first);
    if (status >= 0)
        return status;
    if (argc - first != 1) {
        err_set(&e, argc == first ? "no store given" : "one store at a time");
        return command_usage_error(&index_options, &e);
    }
    if (make_index(argv[first], url, &e) == 0)
        return EXIT_DONE;
    cli_say("%s", e.msg);
    return EXIT_PART;
}
