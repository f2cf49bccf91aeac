/* store.c - the geometry of a store and the checks of its numbers; see store.h. */
#include "common/store/store.h"

#include <math.h>
#include <stdio.h>

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
