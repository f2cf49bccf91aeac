/* store.c - the attributes of a store, its geometry and the checks of its numbers; see store.h. */
#include "common/store/store.h"

#include "common/hdf5/h5_library.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST ((double)(INT64_C(1) << 40))
#define COUNT .low = 0, .high = MOST
#define ANY .low = -INFINITY, .high = INFINITY
#define OPTIONAL .optional = true

/* clang-format off */
#define ROW(kind, member, set, ...) FIELD_ROW(kind, struct store_info, member, set, __VA_ARGS__)
#define GLASS(which, name, high_)                                                                  \
    FIELD_NAMED(FIELD_REAL, name, struct store_info, glass[which],                                 \
                STORE_GLASS | STORE_NUMBERS, OPTIONAL, .low = 0, .high = high_),
const struct field store_fields[] = { /* in the order of the file */
    ROW(FIELD_TEXT, source_name, STORE_HEAD),
    ROW(FIELD_TEXT, quickhash, STORE_HEAD),
    ROW(FIELD_TEXT, vendor, STORE_HEAD | STORE_NUMBERS),
    ROW(FIELD_TEXT, reader, STORE_HEAD),
    ROW(FIELD_TEXT, source_problem, STORE_HEAD),
    ROW(FIELD_TEXT, codec_reason, STORE_REST, OPTIONAL),
    ROW(FIELD_TEXT, library, STORE_REST, OPTIONAL),
    ROW(FIELD_TEXT, interpolated, STORE_REST, OPTIONAL),
    ROW(FIELD_TEXT, tissue_rule, STORE_REST | STORE_NUMBERS, OPTIONAL),
    ROW(FIELD_INT, source_bytes, STORE_REST, COUNT),
    ROW(FIELD_REAL, downsample, STORE_REST | STORE_NUMBERS, ANY),
    ROW(FIELD_REAL, mpp_x, STORE_REST | STORE_NUMBERS, OPTIONAL, ANY),
    ROW(FIELD_REAL, mpp_y, STORE_REST | STORE_NUMBERS, OPTIONAL, ANY),
    ROW(FIELD_REAL, objective_power, STORE_REST | STORE_NUMBERS, OPTIONAL, ANY),
    ROW(FIELD_INT, level, STORE_REST | STORE_NUMBERS, COUNT),
    ROW(FIELD_INT, width, STORE_REST | STORE_NUMBERS, COUNT),
    ROW(FIELD_INT, height, STORE_REST | STORE_NUMBERS, COUNT),
    ROW(FIELD_INT, channels, STORE_REST | STORE_NUMBERS, COUNT),
    ROW(FIELD_INT, chunk_rows, STORE_REST | STORE_NUMBERS, COUNT),
    ROW(FIELD_INT, chunk_cols, STORE_REST | STORE_NUMBERS, COUNT),
    ROW(FIELD_INT, stripe_rows, STORE_REST, COUNT),
    ROW(FIELD_INT, group_rows, STORE_REST, COUNT),
    ROW(FIELD_INT, group_count, STORE_REST, COUNT),
    ROW(FIELD_INT, source_tag, STORE_REST, COUNT),
    ROW(FIELD_FLAG, identifiers, STORE_REST),
    ROW(FIELD_FLAG, tissue_only, STORE_REST | STORE_NUMBERS),
    ROW(FIELD_TEXT, colour_conflict, STORE_COLOURS, OPTIONAL),
    ROW(FIELD_INT, jpeg_quality, STORE_JPEG | STORE_NUMBERS, OPTIONAL, .low = 1, .high = 100),
    ROW(FIELD_TEXT, jpeg_subsampling, STORE_JPEG | STORE_NUMBERS, OPTIONAL),
    ROW(FIELD_REAL, jpeg_twice, STORE_JPEG | STORE_NUMBERS, OPTIONAL, .low = 0, .high = 1),
    GLASS_NUMBER_ROWS(GLASS)
    ROW(FIELD_TEXT, tile_compression, STORE_REST | STORE_NUMBERS, OPTIONAL),
    ROW(FIELD_TEXT, background, STORE_BACKGROUND | STORE_NUMBERS, OPTIONAL),
    ROW(FIELD_TEXT, tissue_missing, STORE_NO_TISSUE, OPTIONAL),
    ROW(FIELD_TEXT, tissue_doubt, STORE_DOUBT, OPTIONAL),
    ROW(FIELD_INT, tiles_missing, STORE_TILES | STORE_NUMBERS, COUNT),
    ROW(FIELD_INT, tiles_damaged, STORE_TILES | STORE_NUMBERS, COUNT),
    ROW(FIELD_INT, tiles_left_out, STORE_TILES | STORE_NUMBERS, COUNT),
    ROW(FIELD_INT, content_crc32, STORE_TILES, .low = 0, .high = UINT32_MAX),
    {0}};
/* clang-format on */

void store_content_add(struct store_content *c, enum store_status status, uint32_t crc32)
{
    const uint8_t byte = (uint8_t)status;
    c->tiles = codec_crc32_more(c->tiles, &byte, 1);
    c->tiles = codec_crc32_more(c->tiles, &crc32, sizeof crc32);
}

/* Adds a member as the attribute has it. */
static uint32_t add_field(uint32_t crc, const struct field *f, const void *from)
{
    const void *value = field_of(f, from);
    const int64_t flag = f->kind == FIELD_FLAG && *(const bool *)value;
    crc = codec_crc32_more(crc, f->name, strlen(f->name));
    if (f->kind == FIELD_FLAG)
        value = &flag;
    return codec_crc32_more(crc, value, f->kind == FIELD_TEXT ? strlen(value) : sizeof flag);
}

uint32_t store_content_crc32(const struct store_info *i, const struct store_content *c)
{
    uint32_t parts[] = {0, c->tissue, c->thumbnail, c->tiles};
    for (const struct field *f = store_fields; f->name; f++)
        if ((f->set & STORE_NUMBERS) && !field_is_unknown(f, i))
            parts[0] = add_field(parts[0], f, i);
    return codec_crc32(parts, sizeof parts);
}

int64_t store_group_height(const struct store_info *i, int64_t group)
{
    int64_t first = group * i->group_rows;
    return i->height - first < i->group_rows ? i->height - first : i->group_rows;
}

int64_t store_group_chunk_rows(const struct store_info *i, int64_t group)
{
    return (store_group_height(i, group) + i->chunk_rows - 1) / i->chunk_rows;
}

int64_t store_chunk_columns(const struct store_info *i)
{
    return (i->width + i->chunk_cols - 1) / i->chunk_cols;
}

int64_t store_chunk_bytes(const struct store_info *i)
{
    return i->chunk_rows * i->chunk_cols * i->channels;
}

struct codec_params store_codec_params(const struct store_info *i)
{
    return (struct codec_params){
        .codec = i->codec, .rows = i->chunk_rows, .cols = i->chunk_cols, .channels = i->channels};
}

bool store_is_raw(const struct store_info *i, uint64_t bytes, enum store_status status)
{
    switch (i->codec->id) {
    case CODEC_JPEG: return false;
    case CODEC_J2K: return status == STORE_MISSING || status == STORE_DAMAGED;
    default: return bytes == (uint64_t)store_chunk_bytes(i);
    }
}

int store_check_info(const struct store_info *i, struct err *e)
{
    const int64_t most = INT32_MAX, chunk = 1 << 14;
    if (i->width < 1 || i->width > most || i->height < 1 || i->height > most)
        return err_set(e, "invalid size: %lld x %lld px", (long long)i->width,
                       (long long)i->height);
    if (i->codec->id == CODEC_J2K && i->channels != 3)
        return err_set(e, "codec %s needs 3 channels, not %lld", i->codec->name,
                       (long long)i->channels);
    if (i->channels != 1 && i->channels != 3)
        return err_set(e, "unsupported number of channels: %lld", (long long)i->channels);
    if (i->chunk_rows < 1 || i->chunk_rows > chunk || i->chunk_cols < 1 || i->chunk_cols > chunk)
        return err_set(e, "invalid chunk size: %lld x %lld px", (long long)i->chunk_cols,
                       (long long)i->chunk_rows);
    if (i->stripe_rows < 1 || i->stripe_rows % i->chunk_rows || i->group_rows < 1 ||
        i->group_rows % i->stripe_rows || i->group_rows > 2 * most)
        return err_set(e, "stripe_rows, group_rows and chunk_rows do not agree");
    if (i->group_count != (i->height + i->group_rows - 1) / i->group_rows)
        return err_set(e, "group_count does not match the height");
    if (i->level < 0 || !(i->downsample >= 1) || !isfinite(i->downsample))
        return err_set(e, "invalid level or downsample");
    return 0;
}

static const double least_tissue = 0.005; /* of the cells; the same of glass */

bool store_doubts_tissue(double fraction, char *why, size_t size)
{
    if (fraction > 1 - least_tissue)
        snprintf(why, size, "no glass");
    else if (fraction == 0)
        snprintf(why, size, "no tissue");
    else if (fraction < least_tissue)
        snprintf(why, size, "only %.2g %% tissue", 100 * fraction);
    else
        return false;
    return true;
}

void store_init(void)
{
    h5_init();
}
