/*
 * bench_peers - the bare libraries on the same data, for comparison with our programs.
 *
 *   bench_peers openslide SLIDE ROWS    reads the top ROWS rows, tile by tile: MP/s
 *   bench_peers jpeg SLIDE SECONDS      libjpeg decodes the tiles from memory to memory: MP/s
 *   bench_peers write SLIDE OUT         the same for 1 GB of pixels, and writes them to OUT: MP/s
 *   bench_peers luma SLIDE SECONDS      as jpeg, the luma only
 *   bench_peers eighth SLIDE SECONDS    as jpeg, at 1/8: MP/s of the whole picture
 *   bench_peers deflate SLIDE SECONDS   as jpeg, then packs with libdeflate level 1
 *   bench_peers j2k SLIDE SECONDS       OpenJPEG decodes the slide's tiles: MP/s
 *   bench_peers fftw SECONDS            256 x 256 transforms, FFTW_ESTIMATE: windows/s
 *   bench_peers fftw-measure SECONDS    the same, FFTW_MEASURE
 *   bench_peers crc FILE                reads a file and computes its CRC-32: MB/s
 *   bench_peers tiles SLIDE             bytes of the tiles of level 0, with the tables and 18 bytes
 *                                       of markers for each
 *   bench_peers cpu COMMAND...          runs a command: processor seconds of it and its children
 *
 *   bench_peers hold FILE MIB           prints nothing: see bench_hold
 *
 * Prints one number. One thread each. Rates of `crc`, and of all that decode tiles without writing
 * them, are per processor second, which other programs on the machine change little.
 */
#include <fcntl.h>
#include <fftw3.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <openjpeg.h>
#include <openslide.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tiffio.h>
#include <time.h>
#include <unistd.h>

#include <jpeglib.h> /* needs stdio.h before it */

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

/* Processor seconds of this process. */
static double spent(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

static int bench_openslide(const char *path, int64_t rows)
{
    int64_t width, height;
    openslide_t *o = openslide_open(path);
    if (!o || openslide_get_error(o))
        return fprintf(stderr, "%s: cannot be opened\n", path), 1;
    const char *side = openslide_get_property_value(o, "openslide.level[0].tile-width");
    const int64_t tile = side ? atoll(side) : 256;
    openslide_get_level0_dimensions(o, &width, &height);
    rows = rows < height ? rows : height;
    uint32_t *argb = malloc((size_t)(tile * tile) * sizeof *argb);
    const double begun = spent();
    for (int64_t y = 0; y < rows; y += tile)
        for (int64_t x = 0; x < width; x += tile)
            openslide_read_region(o, argb, x, y, 0, tile, tile);
    printf("%.1f\n", (double)width * (double)rows / 1e6 / (spent() - begun));
    free(argb);
    openslide_close(o);
    return 0;
}

/* --- the tiles of a slide --- */

enum { MOST_TILES = 2000 };

struct tiles {
    unsigned char *bytes[MOST_TILES];
    size_t size[MOST_TILES];
    int n, cols, rows, photometric;
    unsigned char *tables;
    uint32_t tables_size;
    unsigned scale; /* decode at 1/scale */
};

static int load_tiles(const char *path, struct tiles *t)
{
    uint32_t cols, rows;
    uint16_t photometric;
    const void *tables;
    TIFFSetWarningHandler(NULL);
    TIFF *f = TIFFOpen(path, "r");
    if (!f)
        return 1;
    TIFFGetField(f, TIFFTAG_TILEWIDTH, &cols);
    TIFFGetField(f, TIFFTAG_TILELENGTH, &rows);
    TIFFGetField(f, TIFFTAG_PHOTOMETRIC, &photometric);
    t->cols = (int)cols;
    t->rows = (int)rows;
    t->photometric = photometric;
    if (TIFFGetField(f, TIFFTAG_JPEGTABLES, &t->tables_size, &tables)) {
        t->tables = malloc(t->tables_size);
        memcpy(t->tables, tables, t->tables_size);
    }
    for (uint32_t k = 0; k < TIFFNumberOfTiles(f) && t->n < MOST_TILES; k++, t->n++) {
        t->size[t->n] = TIFFGetStrileByteCount(f, k);
        t->bytes[t->n] = malloc(t->size[t->n]);
        TIFFReadRawTile(f, k, t->bytes[t->n], (tmsize_t)t->size[t->n]);
    }
    TIFFClose(f);
    return 0;
}

static void decode_jpeg(struct jpeg_decompress_struct *j, const struct tiles *t, int k, int luma,
                        unsigned char *out)
{
    const size_t pitch = (size_t)t->cols * (luma ? 1 : 3);
    jpeg_mem_src(j, t->bytes[k], (unsigned long)t->size[k]);
    jpeg_read_header(j, TRUE);
    j->jpeg_color_space = t->photometric == PHOTOMETRIC_YCBCR ? JCS_YCbCr : JCS_RGB;
    j->out_color_space = luma ? JCS_GRAYSCALE : JCS_RGB;
    j->scale_denom = t->scale;
    jpeg_start_decompress(j);
    while (j->output_scanline < j->output_height) {
        JSAMPROW row = out + j->output_scanline * pitch;
        jpeg_read_scanlines(j, &row, 1);
    }
    jpeg_finish_decompress(j);
}

/* A decompressor that knows the slide's tables. */
static void open_jpeg(struct jpeg_decompress_struct *j, struct jpeg_error_mgr *manager,
                      const struct tiles *t)
{
    j->err = jpeg_std_error(manager);
    jpeg_create_decompress(j);
    if (!t->tables)
        return;
    jpeg_mem_src(j, t->tables, t->tables_size);
    jpeg_read_header(j, FALSE);
    jpeg_abort_decompress(j);
}

static int bench_jpeg(const char *path, const char *what, double seconds)
{
    static struct tiles t;
    struct jpeg_decompress_struct j;
    struct jpeg_error_mgr manager;
    if (load_tiles(path, &t))
        return 1;
    const size_t n = (size_t)t.cols * (size_t)t.rows * 3;
    unsigned char *out = malloc(n), *packed = malloc(n);
    struct libdeflate_compressor *deflate = libdeflate_alloc_compressor(1);
    open_jpeg(&j, &manager, &t);
    const double begun = spent();
    long done = 0;
    for (; spent() - begun < seconds; done++) {
        t.scale = strcmp(what, "eighth") ? 1 : 8;
        decode_jpeg(&j, &t, (int)(done % t.n), !strcmp(what, "luma"), out);
        if (!strcmp(what, "deflate"))
            libdeflate_zlib_compress(deflate, out, n, packed, n);
    }
    printf("%.1f\n", (double)done * (double)n / 3e6 / (spent() - begun));
    return 0;
}

static int bench_write(const char *path, const char *to)
{
    static struct tiles t;
    struct jpeg_decompress_struct j;
    struct jpeg_error_mgr manager;
    if (load_tiles(path, &t))
        return 1;
    const size_t n = (size_t)t.cols * (size_t)t.rows * 3;
    unsigned char *out = malloc(n);
    t.scale = 1;
    open_jpeg(&j, &manager, &t);
    const double begun = now();
    const int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    size_t done = 0;
    for (int k = 0; done < 1000000000; k++, done += n) {
        decode_jpeg(&j, &t, k % t.n, 0, out);
        if (write(fd, out, n) != (ssize_t)n)
            return perror(to), 1;
    }
    close(fd);
    printf("%.1f\n", (double)done / 3e6 / (now() - begun));
    return 0;
}

/*
 * Fills FILE, which should be in memory, and frees 15 of every 16 pages. A virtual machine may
 * return free memory to its host in blocks of at least 128 KiB (free page reporting). Whoever
 * touches such a block next waits for the host, ten times as long as for the copying. The free
 * memory between the pages that are kept is in smaller blocks, so it is not returned.
 */
static int bench_hold(const char *path, long long mib)
{
    static unsigned char block[1 << 16];
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const off_t end = (off_t)mib << 20, n = sizeof block, page = 4096;
    for (off_t k = 0; k < end; k += n)
        if (write(fd, block, sizeof block) != n)
            return perror(path), 1;
    for (off_t k = 0; k < end; k += n)
        if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, k + page, n - page))
            return perror(path), 1;
    return close(fd);
}

struct memory {
    const struct tiles *t;
    int k;
    size_t at;
};

static OPJ_SIZE_T memory_read(void *to, OPJ_SIZE_T n, void *ctx)
{
    struct memory *m = ctx;
    const size_t left = m->t->size[m->k] - m->at;
    n = n < left ? n : left;
    memcpy(to, m->t->bytes[m->k] + m->at, n);
    m->at += n;
    return n ? n : (OPJ_SIZE_T)-1;
}

static int bench_j2k(const char *path, double seconds)
{
    static struct tiles t;
    if (load_tiles(path, &t))
        return 1;
    const double begun = spent();
    long done = 0;
    for (; spent() - begun < seconds; done++) {
        struct memory m = {&t, (int)(done % t.n), 0};
        opj_dparameters_t parameters;
        opj_image_t *image = NULL;
        opj_stream_t *stream = opj_stream_create(65536, OPJ_TRUE);
        opj_codec_t *codec = opj_create_decompress(OPJ_CODEC_J2K);
        opj_set_default_decoder_parameters(&parameters);
        opj_stream_set_user_data(stream, &m, NULL);
        opj_stream_set_user_data_length(stream, t.size[m.k]);
        opj_stream_set_read_function(stream, memory_read);
        if (!opj_setup_decoder(codec, &parameters) || !opj_read_header(stream, codec, &image) ||
            !opj_decode(codec, stream, image))
            return 1;
        opj_image_destroy(image);
        opj_destroy_codec(codec);
        opj_stream_destroy(stream);
    }
    printf("%.1f\n", (double)done * t.cols * t.rows / 1e6 / (spent() - begun));
    return 0;
}

static int bench_fftw(unsigned flags, double seconds)
{
    enum { N = 256, BATCH = 64 };
    float *in = fftwf_malloc(sizeof(float) * N * N);
    fftwf_complex *out = fftwf_malloc(sizeof(fftwf_complex) * N * (N / 2 + 1));
    fftwf_plan plan = fftwf_plan_dft_r2c_2d(N, N, in, out, flags);
    for (int k = 0; k < N * N; k++)
        in[k] = (float)((unsigned)k * 2654435761u >> 24) - 128;
    const double begun = spent();
    long done = 0;
    for (; spent() - begun < seconds; done += BATCH)
        for (int k = 0; k < BATCH; k++)
            fftwf_execute_dft_r2c(plan, in, out);
    printf("%.0f\n", (double)done / (spent() - begun));
    fftwf_destroy_plan(plan);
    fftwf_free(in);
    fftwf_free(out);
    return 0;
}

static int bench_crc(const char *path)
{
    enum { BLOCK = 1 << 20 };
    /* 16 bytes past a page, malloc's address, the kernel copies three times as slowly on Zen 3 */
    unsigned char *block = aligned_alloc(4096, BLOCK);
    const double begun = spent();
    const int fd = open(path, O_RDONLY);
    double bytes = 0;
    ssize_t n;
    uint32_t crc = 0;
    while ((n = read(fd, block, BLOCK)) > 0) {
        crc = libdeflate_crc32(crc, block, (size_t)n);
        bytes += (double)n;
    }
    close(fd);
    printf("%.0f\n", bytes / 1e6 / (spent() - begun));
    return n < 0;
}

static int bench_tiles(const char *path)
{
    const void *tables;
    uint32_t tables_bytes = 0;
    uint64_t bytes = 0;
    TIFFSetWarningHandler(NULL);
    TIFF *f = TIFFOpen(path, "r");
    if (!f)
        return 1;
    TIFFGetField(f, TIFFTAG_JPEGTABLES, &tables_bytes, &tables);
    for (uint32_t k = 0; k < TIFFNumberOfTiles(f); k++)
        bytes += TIFFGetStrileByteCount(f, k) + tables_bytes + 18;
    TIFFClose(f);
    printf("%" PRIu64 "\n", bytes);
    return 0;
}

static int bench_cpu(char **command)
{
    struct rusage u;
    int status;
    const pid_t child = fork();
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execvp(command[0], command);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &u) != child || status != 0)
        return fprintf(stderr, "%s: failed\n", command[0]), 1;
    printf("%.3f\n", (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                         1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "cpu"))
        return bench_cpu(argv + 2);
    if (argc == 3 && !strcmp(argv[1], "crc"))
        return bench_crc(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "tiles"))
        return bench_tiles(argv[2]);
    if (argc == 4 && !strcmp(argv[1], "openslide"))
        return bench_openslide(argv[2], atoll(argv[3]));
    if (argc == 4 && !strcmp(argv[1], "j2k"))
        return bench_j2k(argv[2], atof(argv[3]));
    if (argc == 4 && !strcmp(argv[1], "write"))
        return bench_write(argv[2], argv[3]);
    if (argc == 4 && !strcmp(argv[1], "hold"))
        return bench_hold(argv[2], atoll(argv[3]));
    if (argc == 4)
        return bench_jpeg(argv[2], argv[1], atof(argv[3]));
    if (argc == 3 && !strcmp(argv[1], "fftw"))
        return bench_fftw(FFTW_ESTIMATE, atof(argv[2]));
    if (argc == 3 && !strcmp(argv[1], "fftw-measure"))
        return bench_fftw(FFTW_MEASURE, atof(argv[2]));
    fputs("usage: bench_peers openslide SLIDE ROWS | jpeg|eighth|luma|deflate|j2k SLIDE SECONDS |\n"
          "       fftw|fftw-measure SECONDS | write SLIDE OUT | hold FILE MIB |\n"
          "       crc FILE | tiles SLIDE | cpu COMMAND...\n",
          stderr);
    return 2;
}
