/*
 * spectrum.h - the definition of the result, and the table of backends that compute it.
 *
 *   gray       g = 0.299 R + 0.587 G + 0.114 B. Rows of an RGB store reach a backend as the whole
 *              number 299 R + 587 G + 114 B, exact in float; `scale` of the band is then 1,000. A
 *              gray store's bytes are used as they are, scale 1.
 *   smoothing  separable Gaussian of `sigma` px, 2 radius + 1 taps normalised to sum 1, over the
 *              slide as a whole. Only the slide's own border repeats its edge pixel.
 *   windows    window x window px at every `stride` px; nx = floor((width - window) / stride) + 1,
 *              ny likewise. A window belongs to the group that holds its first row.
 *   transform  unnormalised 2-D DFT of the window times the taper. The window's mean is subtracted
 *              before it and added to the taper's few bins after it, which makes float three times
 *              more accurate.
 *   magnitude  dB = 20 log10(|F| + offset), offset 1.
 *   tissue     with tissue_only, a window counts if at least min_tissue of its area is tissue.
 *   regions    with roi, a window counts if at least min_roi of its pixels lie inside the polygons
 *              that were given (process/engine/regions.h).
 *   features   sums of bin numbers over octaves of frequency, per window
 *              and over all windows, and sums of spectra over a sample of them (features.h).
 *   histogram  over all window^2 bins of every window, so those of the half spectrum's columns
 *              1 .. window / 2 - 1 count twice. A value belongs to bin k if
 *              edge k <= dB < edge k + 1.
 *
 * The bin is found by comparing the squared magnitude with a table of squared edges, computed in
 * double. This needs neither logarithm nor square root, and one float has one bin everywhere.
 *
 * A backend computes on one or more devices: GPUs, or all threads of the CPU as one. Each device
 * has buffers of its own and computes bands: runs of window rows of one slide. The rows of pixels
 * of a band reach the backend's buffers in slabs, one after the other (stream.h). With each slab
 * some rows of windows become complete.
 */
#ifndef WSI_SPECTRUM_H
#define WSI_SPECTRUM_H

#include "common/base/err.h"
#include "common/result/result.h"
#include "common/store/chunks.h"
#include "common/store/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct spectrum;        /* a device of a backend */
struct spectrum_file;   /* a file that devices read themselves */
struct spectrum_shared; /* what the devices of a backend share */

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPECTRUM_MOST_DEVICES = 64,
    SPECTRUM_BUFFERS = 4,      /* of a device, at least */
    SPECTRUM_MOST_BUFFERS = 8, /* at most */
    SPECTRUM_SUMS = 8,         /* bands that a device has in progress */
    SPECTRUM_MAX_RADIUS = 30,
};

/* The contents of a buffer of a backend. */
enum spectrum_layout {
    /* float [slab_rows][pitch]: gray as above. */
    SPECTRUM_ROWS,
    /* The store's chunks in row-major order: u8 [chunk_rows][chunk_cols][channels] each, in the
     * memory of a GPU. Chunks of a codec that the backend unpacks cross the bus as they are stored.
     */
    SPECTRUM_CHUNKS,
};

/* Where a band is computed. */
struct spectrum_assignment {
    int device;
    int64_t number;   /* among the device's bands; it uses sums number % SPECTRUM_SUMS */
    int first_buffer; /* of the slab that begins at first_row; the next ones follow in a ring */
};

/* What features need to know of a slide, and where the spectra of its sample are summed. Many
 * threads add to it. */
struct spectrum_features {
    int64_t values[FEATURES_OCTAVES]; /* of features_values() */
    /* [ny][nx]: kind and FEATURES_STEPPED (features.h). */
    const uint8_t *sample;
    struct result_spectrum *spectra; /* [FEATURES_SAMPLES] */
    int lock;                        /* of spectra, 0 or 1 */
};

/* A run of window rows of one slide, computed on one device. Constant while any of its slabs is in
 * progress. */
struct spectrum_band {
    int64_t width, height;    /* of the slide, px */
    int64_t nx, ny;           /* windows that fit the slide */
    int64_t first_wy, end_wy; /* rows of windows to compute */
    /* Rows of pixels that are streamed for them; first_row begins a chunk. */
    int64_t first_row, end_row;
    int64_t slab_rows; /* rows of every slab but the last; whole chunks */
    bool lowest;       /* slab_rows cannot be fewer */
    int buffers;       /* of the device that its slabs use: the backend's number or, where memory is
                          short, SPECTRUM_BUFFERS */
    int64_t pitch;     /* floats from one row of a buffer of SPECTRUM_ROWS to the next */
    int64_t chunk_rows, chunk_cols, channels; /* of the store */
    float scale;                              /* value of a pixel / gray level: 1000 or 1 */
    int64_t packed_bytes; /* chunks are sent as they are stored: the most bytes of them in a slab;
                             0: chunks are sent as pixels */
    const struct chunks *chunks;   /* of rows first_row .. end_row - 1 */
    struct spectrum_file *file;    /* the store, if devices read it themselves; else NULL */
    const struct result_map *maps; /* [RESULT_MAPS] of [ny][nx]; windows not computed are kept */
    const uint8_t *wanted; /* [ny][nx], 1 where the window is to be counted; NULL: all are */
    struct spectrum_features *features;
    struct spectrum_assignment assigned;
};

/* How its chunks lie in a buffer of SPECTRUM_CHUNKS. */
static inline struct layout spectrum_band_layout(const struct spectrum_band *d)
{
    return layout_of(d->width, d->chunk_rows, d->chunk_cols, d->channels);
}

struct spectrum_slab {
    const struct spectrum_band *band;
    int64_t row, rows;  /* it holds rows row .. row + rows - 1 */
    int64_t wy, end_wy; /* rows of windows that are complete with it (maybe none) */
    int buffer;
};

/* What a thread brings when it loads and computes. Starts as {.number = its number}. */
struct spectrum_thread {
    int number; /* 0 .. threads of the setup - 1 */
    struct chunks_scratch scratch;
    /* Backends add to these, and to the seconds of the scratch; the caller may reset them. */
    double wait_seconds; /* for a staging buffer */
    /* chunks of a codec that the backend unpacks, which the host unpacked, by reason */
    int64_t host_decoded[HOST_DECODED_REASONS];
};

/* Seconds that a device was busy. */
struct spectrum_times {
    double copy, kernels;
    double unpack; /* from the first to the last kernel that unpacks a slab */
};

/* The devices that --device names. */
enum spectrum_kind { SPECTRUM_AUTO, SPECTRUM_CPU, SPECTRUM_CUDA };
struct spectrum_choice {
    enum spectrum_kind kind;
    int n; /* SPECTRUM_CUDA: devices that are named; 0: all */
    int numbers[SPECTRUM_MOST_DEVICES];
};

struct spectrum_setup {
    struct spectrum_choice choice;
    struct result_params params;
    int threads;    /* that the run may have; where the host does not compute, it gets one more */
    int64_t memory; /* bytes of all staging buffers together; 0: what serves the backend best */
    bool gds;       /* devices are to read files themselves; an error where they cannot */
};

/* The name of a device, as in "cuda:0 NVIDIA H200". */
struct spectrum_label {
    char name[64];
    int number; /* -1: it has none */
};

/* Devices in use. */
struct spectrum_use {
    const struct spectrum_backend *backend;
    struct spectrum *devices[SPECTRUM_MOST_DEVICES];
    struct spectrum_label labels[SPECTRUM_MOST_DEVICES];
    int n;
    int threads;        /* of the run, which call `load` and `compute` */
    const char *kernel; /* the kind of kernel, the same on all devices */
    struct spectrum_shared *shared;
};

enum {
    SPECTRUM_BAD_STORE = -2, /* a store cannot be read; the message names it */
    SPECTRUM_NO_ROOM = -3,   /* memory is short; lower slabs may fit */
    SPECTRUM_DRAIN = 1,      /* buffers must grow first */
};

/*
 * Functions return 0, or -1 with the error set.
 *
 * `open`, `close`, and `reserve` with `drained`, are called while no other function runs. All
 * others may run at the same time, called by many threads: `load` for different extents, `compute`
 * for different units, `finish` for different bands.
 */
struct spectrum_backend {
    const char *name;
    enum spectrum_layout layout;
    /* Buffers of a device. Two fewer slabs are loaded ahead of the last one that was computed. */
    int buffers;
    int64_t memory;        /* bytes of buffers per device that serve it best */
    int64_t thread_memory; /* at most so many times the number of threads; 0: no matter */
    int64_t packed_memory; /* the same for stores whose chunks it unpacks */
    /* Windows of one band, so that what it keeps for each of them stays small; 0: any number. */
    int64_t most_windows;
    /* Codecs whose chunks it takes as they are stored, as bits 1 << enum codec_id. Chunks of
     * CODEC_NONE are pixels already. */
    uint32_t unpacks;
    /* LOADs of such chunks that one device can use at the same time; 0: any number. Where the host
     * unpacks, any number is of use. */
    int most_loads;
    int packed_loads; /* the same for chunks that the backend unpacks */

    /* Can this machine use it at all? If not, the reason is in *e. */
    bool (*available)(struct err *e);
    /* Fills in all of *u but the backend. Allocates what does not depend on a slide. *note: as of
     * spectrum_open(). After a failure *u has no devices, and nothing has to be closed. */
    int (*open)(struct spectrum_use *u, const struct spectrum_setup *s, struct err *note,
                struct err *e);
    void (*close)(struct spectrum_use *u);
    /* False once the device has failed. */
    bool (*alive)(const struct spectrum *d);
    /* Has the device room for all buffers of so many bytes, and for all that follows from the band?
     * If not, it makes room if everything is `drained`, that is, nothing is in progress on any
     * device; else it returns SPECTRUM_DRAIN. SPECTRUM_NO_ROOM: not with so many buffers,
     * or slabs of so many rows. */
    int (*reserve)(struct spectrum *d, const struct spectrum_band *b, size_t buffer_bytes,
                   bool drained, struct err *e);
    /* Could buffer number k be filled at once? */
    bool (*buffer_free)(const struct spectrum *d, int k);
    /* Reads an extent of the band's chunks and puts it into the slab's buffer, or on its way there.
     * All slabs that were in the buffer before have been computed. 0, -1 or SPECTRUM_BAD_STORE. */
    int (*load)(struct spectrum *d, const struct spectrum_slab *s, struct chunks_extent x,
                struct spectrum_thread *t, struct err *e);
    /* The number of units of a slab, which threads compute at the same time; 0 if there is nothing
     * to do. */
    int64_t (*units)(const struct spectrum *d, const struct spectrum_slab *s);
    /* All chunks of the slab have been loaded: computes unit k and adds to *counts. The buffers of
     * earlier slabs still hold their rows as far as the windows need them. 0, -1 or
     * SPECTRUM_BAD_STORE. */
    int (*compute)(struct spectrum *d, const struct spectrum_slab *s, int64_t k,
                   struct spectrum_thread *t, struct result_counts *counts, struct err *e);
    /* All slabs have been computed: waits for work in the background and adds what the backend has
     * counted itself to *counts and *times. NULL: `compute` has added everything. */
    int (*finish)(struct spectrum *d, const struct spectrum_band *b, struct result_counts *counts,
                  struct spectrum_times *times, struct err *e);
    /* With `gds` of the setup: a file that is open with O_DIRECT, for spectrum_band.file. It is
     * closed before its descriptor. NULL: the backend cannot read files. */
    struct spectrum_file *(*open_file)(int fd, struct err *e);
    /* Returns how the devices have read files so far: "gds" or "gds-compat". */
    const char *(*close_file)(struct spectrum_file *f);
};

extern const struct spectrum_backend spectrum_cpu;
extern const struct spectrum_backend spectrum_cuda; /* only with HAVE_CUDA */

/* The vector instructions of the CPU backend, "avx2" and so on. */
const char *spectrum_cpu_vectors(void);
/* The memory of the CPU backend's buffer number k. */
float *spectrum_cpu_buffer(struct spectrum *d, int k);

/* The contract's parameters. */
struct result_params spectrum_defaults(void);
/* Taps on each side for a sigma: 3 sigma, rounded up. */
int64_t spectrum_radius(double sigma);

/* weights[0 .. radius] of the Gaussian, the middle one first. All taps together sum to 1. */
void spectrum_gauss(const struct result_params *p, double *weights);
/* The 1-D taper [window], and bins 0 and 1 of its DFT. Bin window - 1 equals bin 1, all others are
 * 0. */
void spectrum_taper(const struct result_params *p, float *taper, double dft[2]);

/*
 * Squared magnitude to class: 0 underflow, 1 .. bins the histogram's bins, bins + 1 overflow. The
 * class of p is the number of edges that are <= p. A cell holds the floats whose bits agree when
 * shifted right by `shift`. start[] is the class of a cell's smallest float; at most `steps` more
 * edges lie within one cell.
 */
struct spectrum_classes {
    float *edges;    /* [bins + 1], then NaN, which no value reaches */
    uint32_t *start; /* [cells] */
    uint32_t n_edges;
    size_t cells;
    int shift, steps;
};
void spectrum_classes_create(struct spectrum_classes *c, const struct result_params *p);
void spectrum_classes_free(struct spectrum_classes *c);

enum { SPECTRUM_FEW_STEPS = 4 };

/* The class of p >= 0, not NaN. */
static inline uint32_t spectrum_class(const struct spectrum_classes *c, float p)
{
    uint32_t bits, k, end;
    memcpy(&bits, &p, sizeof bits);
    k = c->start[bits >> c->shift];
    if (c->steps <= SPECTRUM_FEW_STEPS) {
        for (int s = 0; s < c->steps; s++)
            k += p >= c->edges[k];
        return k;
    }
    for (end = k + (uint32_t)c->steps; k < end;) { /* many fine bins: binary search */
        const uint32_t middle = k + (end - k) / 2;
        if (middle < c->n_edges && p >= c->edges[middle])
            k = middle + 1;
        else
            end = middle;
    }
    return k;
}

/* The sums of a window's own histogram. */
struct spectrum_window {
    uint64_t n;            /* samples in bins */
    uint64_t sum, squares; /* of their bin numbers */
    /* Sums of bin numbers, clamped to the bins, over the octaves of features.h that maps need. */
    uint64_t octaves[FEATURES_OCTAVES];
    uint8_t gray;                  /* features_gray() of its mean */
    uint8_t row_step, column_step; /* of features.h; FEATURES_NO_STEP: not looked at */
};

/* Its mean and standard deviation; NaN without samples. */
void spectrum_window_moments(const struct result_params *p, const struct spectrum_window *w,
                             float *mean_db, float *std_db);
/* Fills in the values of window number k, counted row by row, in all maps of the band. */
void spectrum_put_window(const struct result_params *p, const struct spectrum_band *d, int64_t k,
                         const struct spectrum_window *w);

/* Adds bin numbers, summed over `windows` windows of one kind, to the band's sample:
 * sums[v: window][u: window / 2 + 1]. Any thread. */
void spectrum_add_sample(const struct result_params *p, const struct spectrum_band *d,
                         enum features_sample kind, const uint32_t *sums, int64_t windows);

#ifdef __cplusplus
}
#endif
#endif
