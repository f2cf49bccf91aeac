/*
 * layout.h - how chunks lie in a buffer of a device: in row-major order, one after the other, each
 * u8 [chunk_rows][chunk_cols][channels]. Offsets are in bytes. For the host and for kernels.
 */
#ifndef WSI_LAYOUT_H
#define WSI_LAYOUT_H

#include <stdint.h>

#ifdef __CUDACC__
#define LAYOUT_FUNCTION static __host__ __device__ __forceinline__
#else
#define LAYOUT_FUNCTION static inline
#endif

struct layout {
    int chunk_rows, chunk_cols, channels;
    int64_t columns; /* chunks side by side */
};

LAYOUT_FUNCTION int64_t layout_chunk_bytes(const struct layout *l)
{
    return (int64_t)l->chunk_rows * l->chunk_cols * l->channels;
}

/* One row of pixels over all chunks. */
LAYOUT_FUNCTION int64_t layout_row_bytes(const struct layout *l)
{
    return l->columns * l->chunk_cols * l->channels;
}

/* From the first byte of the buffer to a chunk. */
LAYOUT_FUNCTION int64_t layout_chunk(const struct layout *l, int64_t chunk_row, int64_t column)
{
    return (chunk_row * l->columns + column) * layout_chunk_bytes(l);
}

/* From the first byte of the buffer to the first pixel of a row. */
LAYOUT_FUNCTION int64_t layout_row(const struct layout *l, int64_t row)
{
    const int64_t chunk_row = row / l->chunk_rows;
    const int64_t in_chunk = row - chunk_row * l->chunk_rows;
    return layout_chunk(l, chunk_row, 0) + in_chunk * l->chunk_cols * l->channels;
}

/* From the first pixel of a row to the pixel in column x. */
LAYOUT_FUNCTION int64_t layout_column(const struct layout *l, int64_t x)
{
    const int64_t column = x / l->chunk_cols;
    return column * layout_chunk_bytes(l) + (x - column * l->chunk_cols) * l->channels;
}

/* For a slide of `width` px. */
LAYOUT_FUNCTION struct layout layout_of(int64_t width, int64_t chunk_rows, int64_t chunk_cols,
                                        int64_t channels)
{
    struct layout l;
    l.chunk_rows = (int)chunk_rows;
    l.chunk_cols = (int)chunk_cols;
    l.channels = (int)channels;
    l.columns = (width + chunk_cols - 1) / chunk_cols;
    return l;
}

#endif
