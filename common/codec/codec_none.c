/* codec_none.c - the codec none: a chunk is its pixels. */
#include "common/codec/codec.h"

const struct codec codec_none = {.name = "none", .id = CODEC_NONE, .offered = true};
