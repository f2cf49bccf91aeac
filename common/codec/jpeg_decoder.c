/* jpeg_decoder.c - see jpeg_decoder.h. HAVE_JPEG comes from the Makefile's probe. */
#include "common/codec/jpeg_decoder.h"

#ifdef HAVE_JPEG

#include "common/codec/jpeg_stream.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h before it */

#include <jerror.h>

/* libjpeg's fast Huffman decoder takes over only with 512 readable bytes per block of an MCU, of
 * which there are ten at most. So streams are copied, with this many bytes behind them: otherwise
 * the last 3 KB of a tile of 7 KB would go through the slow one. */
enum { PADDING = 10 * 512 };

enum {
    MOST_EIGHTHS = (JPEG_MAX_DIMENSION + 7) / 8, /* px of a row at 1/8 */
    NO_OVERFLOW = 1 << 21, /* px: so few DC differences of 15 bits stay below 2^31 */
};

struct jpeg_decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr manager;
    jmp_buf failed;
    char message[JMSG_LENGTH_MAX];
    bool made;             /* jpeg has been created */
    bool own_tables;       /* the last stream brought tables, which must not outlive it */
    const uint8_t *loaded; /* the caller's tables in jpeg, NULL without */
    uint8_t **lines;       /* pointers for `rows` rows */
    int64_t rows;
    uint8_t unseen[3 * MOST_EIGHTHS]; /* every row of a picture that nobody wants */
    uint8_t *line;                    /* one row of a picture of which a part is wanted */
    size_t line_room;                 /* bytes */
    uint8_t *padded; /* a copy of the stream, with PADDING bytes of 0xff behind it */
    size_t room;     /* of padded */
};

static void on_error(j_common_ptr jpeg)
{
    struct jpeg_decoder *d = jpeg->client_data;
    jpeg->err->format_message(jpeg, d->message);
    longjmp(d->failed, 1);
}

/* The first warning; libjpeg counts them itself. What it says later would hide the cause. */
static void on_message(j_common_ptr jpeg)
{
    struct jpeg_decoder *d = jpeg->client_data;
    jpeg->err->format_message(jpeg, d->message);
}

static int no_memory(struct err *e)
{
    err_memory(e);
    return JPEG_NO_MEMORY;
}

/* The end of a stream that libjpeg has left with an error. */
static int failed(struct jpeg_decoder *d, const char *what, struct err *e)
{
    const int code = d->manager.msg_code;
    if (d->made)
        jpeg_abort_decompress(&d->jpeg);
    err_set(e, "%s%s", what, d->message);
    return code == JERR_OUT_OF_MEMORY ? JPEG_NO_MEMORY : JPEG_DAMAGED;
}

static int load(struct jpeg_decoder *d, const uint8_t *tables, size_t n, struct err *e)
{
    if (!tables)
        return 0;
    if (setjmp(d->failed))
        return failed(d, "its JPEG tables are damaged: ", e);
    jpeg_mem_src(&d->jpeg, tables, (unsigned long)n);
    const int what = jpeg_read_header(&d->jpeg, FALSE);
    jpeg_abort_decompress(&d->jpeg); /* keeps the tables */
    if (what != JPEG_HEADER_TABLES_ONLY)
        return err_set(e, "its JPEG tables are invalid");
    d->loaded = tables;
    return 0;
}

/* Begins with these tables and no others. libjpeg cannot forget a table, so the object is made
 * anew. */
static int restart(struct jpeg_decoder *d, const uint8_t *tables, size_t n, struct err *e)
{
    if (d->made)
        jpeg_destroy_decompress(&d->jpeg);
    d->made = d->own_tables = false;
    d->loaded = NULL;
    d->jpeg.err = jpeg_std_error(&d->manager);
    d->manager.error_exit = on_error;
    d->manager.output_message = on_message;
    d->jpeg.client_data = d;
    if (setjmp(d->failed))
        return failed(d, "libjpeg: ", e);
    jpeg_create_decompress(&d->jpeg);
    d->made = true;
    d->jpeg.client_data = d;
    return load(d, tables, n, e);
}

bool jpeg_is_available(struct err *e)
{
    struct jpeg_decoder d = {0};
    struct err why = {0};
    const int r = restart(&d, NULL, 0, &why);
    if (d.made)
        jpeg_destroy_decompress(&d.jpeg);
    if (r == 0 || r == JPEG_NO_MEMORY) /* the library is there */
        return true;
    err_set(e, "%s; install the libjpeg that this program was built with", why.msg);
    return false;
}

struct jpeg_decoder *jpeg_decoder_create(struct err *e)
{
    if (!jpeg_is_available(e))
        return NULL;
    struct jpeg_decoder *d = calloc(1, sizeof *d);
    if (!d)
        err_memory(e);
    return d;
}

void jpeg_decoder_free(struct jpeg_decoder *d)
{
    if (!d)
        return;
    if (d->made)
        jpeg_destroy_decompress(&d->jpeg);
    free(d->lines);
    free(d->line);
    free(d->padded);
    free(d);
}

int jpeg_check_tables(struct jpeg_decoder *d, const uint8_t *tables, size_t n, struct err *e)
{
    return restart(d, tables, n, e);
}

/* Does a stream bring quantisation or Huffman tables? libjpeg would keep them for later streams. In
 * entropy-coded data 0xff is followed by 0 or a restart marker, so these markers are found
 * anywhere. */
static bool has_tables(const uint8_t *b, size_t n)
{
    const uint8_t *end = b + n;
    while ((b = memchr(b, 0xff, (size_t)(end - b))) && ++b < end)
        if (*b == MARKER_DQT || *b == MARKER_DHT)
            return true;
    return false;
}

/* Is the stream a whole file, not a tile whose tables and colours the caller knows? */
static bool is_file(const struct jpeg_picture *p)
{
    return p->colours == JPEG_MARKED || p->colours == JPEG_FILE;
}

static bool is_marked(const struct jpeg_decompress_struct *j)
{
    return j->saw_Adobe_marker && j->Adobe_transform <= 1;
}

/* Is the stream that has been opened the picture that the caller expects? */
static int check_picture(struct jpeg_decoder *d, const struct jpeg_picture *p, struct err *e)
{
    struct jpeg_decompress_struct *j = &d->jpeg;
    const bool file = is_file(p);
    const int components = file ? p->channels : p->colours == JPEG_SINGLE ? 1 : 3;
    if (j->image_width != p->cols || j->image_height != p->rows || j->num_components != components)
        return err_set(e, "a stream of %u x %u px and %d components in a tile of %d x %d px",
                       j->image_width, j->image_height, j->num_components, (int)p->cols,
                       (int)p->rows);
    if (file && (j->progressive_mode || j->arith_code || jpeg_has_multiple_scans(j)))
        return err_set(e, "not a baseline JPEG of one scan");
    if (!j->progressive_mode && j->Ss > 0) /* version 3 of libjpeg-turbo decodes it */
        return err_set(e, "lossless JPEG (SOF type 0xc3)");
    if (p->colours == JPEG_MARKED && components == 3 && !is_marked(j))
        return err_set(e, "no APP14 marker that states the colours");
    return 0;
}

/* Does the first component show all damage? libjpeg reads the entropy-coded data of all of them,
 * but checks neither the sampling nor (version 3) the sums of DC differences of those that it need
 * not compute. */
static bool is_enough(const struct jpeg_decompress_struct *j)
{
    for (int c = 0; c < j->num_components; c++)
        if (j->max_h_samp_factor % j->comp_info[c].h_samp_factor ||
            j->max_v_samp_factor % j->comp_info[c].v_samp_factor)
            return false;
    return (uint64_t)j->image_width * j->image_height <= NO_OVERFLOW;
}

/* Has libjpeg compute the first component only: it takes that for luma. */
static void set_first_only(struct jpeg_decompress_struct *j)
{
    j->jpeg_color_space = JCS_YCbCr;
    j->out_color_space = JCS_GRAYSCALE;
}

static void set_colours(struct jpeg_decoder *d, const struct jpeg_picture *p)
{
    struct jpeg_decompress_struct *j = &d->jpeg;
    const bool ycbcr = is_file(p) ? j->Adobe_transform == 1 : p->colours == JPEG_YCBCR;
    if (j->num_components == 3 && (p->colours != JPEG_FILE || is_marked(j)))
        j->jpeg_color_space = ycbcr ? JCS_YCbCr : JCS_RGB;
    j->out_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    j->scale_num = 1;
    j->scale_denom = p->eighth ? 8 : 1;
}

/* Room for pointers to this many rows. */
static int grow_lines(struct jpeg_decoder *d, int64_t rows, struct err *e)
{
    if (rows <= d->rows)
        return 0;
    free(d->lines);
    d->rows = 0;
    if (!(d->lines = calloc((size_t)rows, sizeof *d->lines)))
        return no_memory(e);
    d->rows = rows;
    return 0;
}

static void read_lines(struct jpeg_decoder *d, uint8_t *out)
{
    struct jpeg_decompress_struct *j = &d->jpeg;
    const size_t pitch = (size_t)j->output_width * (size_t)j->output_components;
    for (JDIMENSION k = 0; k < j->output_height; k++)
        d->lines[k] = out ? out + k * pitch : d->unseen;
    while (j->output_scanline < j->output_height)
        jpeg_read_scanlines(j, d->lines + j->output_scanline,
                            j->output_height - j->output_scanline);
    jpeg_finish_decompress(j);
}

static bool is_subsampled(const struct jpeg_decompress_struct *j)
{
    for (int c = 0; c < j->num_components; c++)
        if (j->comp_info[c].h_samp_factor != j->max_h_samp_factor ||
            j->comp_info[c].v_samp_factor != j->max_v_samp_factor)
            return true;
    return false;
}

/* Leaves out what libjpeg need not compute of the rows and columns around the part. Where chroma is
 * interpolated, pixels depend on their neighbours, so nothing is left out. Returns the column of
 * the picture at which the rows then begin. */
static JDIMENSION leave_out(struct jpeg_decompress_struct *j, const struct jpeg_part *part)
{
    JDIMENSION first = (JDIMENSION)part->x, n = (JDIMENSION)part->cols;
    if (is_subsampled(j))
        return 0;
    jpeg_crop_scanline(j, &first, &n);
    if (part->y > 0)
        jpeg_skip_scanlines(j, (JDIMENSION)part->y);
    return first;
}

static void read_part(struct jpeg_decoder *d, const struct jpeg_part *part, uint8_t *out)
{
    struct jpeg_decompress_struct *j = &d->jpeg;
    const size_t channels = (size_t)j->output_components;
    const uint8_t *wanted = d->line + ((size_t)part->x - leave_out(j, part)) * channels;
    const JDIMENSION end = (JDIMENSION)(part->y + part->rows);
    while (j->output_scanline < end) {
        const int64_t row = (int64_t)j->output_scanline - part->y;
        jpeg_read_scanlines(j, &d->line, 1);
        if (row >= 0)
            memcpy(out + (size_t)row * part->pitch, wanted, (size_t)part->cols * channels);
    }
    if (end == j->output_height)
        jpeg_finish_decompress(j);
}

/* Room for one row of the picture. */
static int grow_line(struct jpeg_decoder *d, const struct jpeg_picture *p, struct err *e)
{
    const size_t bytes = 3 * (size_t)p->cols;
    if (!p->part || bytes <= d->line_room)
        return 0;
    free(d->line);
    d->line_room = 0;
    if (!(d->line = malloc(bytes)))
        return no_memory(e);
    d->line_room = bytes;
    return 0;
}

/* Makes the padded copy of n bytes. */
static int pad(struct jpeg_decoder *d, const uint8_t *bytes, size_t n, struct err *e)
{
    if (n > SIZE_MAX / 2 - PADDING)
        return err_set(e, "a stream of %zu bytes", n);
    if (n + PADDING > d->room) {
        free(d->padded);
        d->room = 0;
        if (!(d->padded = malloc(2 * (n + PADDING))))
            return no_memory(e);
        d->room = 2 * (n + PADDING);
    }
    memcpy(d->padded, bytes, n);
    memset(d->padded + n, 0xff, PADDING);
    return 0;
}

/* Warnings are damage. So is a stream that libjpeg has read beyond its end. */
static int judge(struct jpeg_decoder *d, const struct jpeg_picture *p, struct err *e)
{
    struct jpeg_decompress_struct *j = &d->jpeg;
    const size_t unread = j->src->bytes_in_buffer;
    if (d->manager.num_warnings > 0)
        return err_set(e, "%s", d->message);
    if (j->output_scanline < j->output_height) { /* only a part was wanted */
        jpeg_abort_decompress(j);
        return 0;
    }
    if (unread < PADDING)
        return err_set(e, "Premature end of JPEG file");
    if (is_file(p) && unread > PADDING)
        return err_set(e, "bytes after the end of the picture");
    return 0;
}

/* The stream of n bytes in d->padded, from its first to its last marker. */
static int decode(struct jpeg_decoder *d, const struct jpeg_picture *p, size_t n, uint8_t *out,
                  struct err *e)
{
    struct jpeg_decompress_struct *j = &d->jpeg;
    d->manager.num_warnings = 0;
    if (setjmp(d->failed))
        return failed(d, "", e);
    jpeg_mem_src(j, d->padded, (unsigned long)(n + PADDING));
    jpeg_read_header(j, TRUE);
    if (check_picture(d, p, e)) {
        jpeg_abort_decompress(j);
        return JPEG_DAMAGED;
    }
    set_colours(d, p);
    if (!out && j->num_components == 3 && is_enough(j))
        set_first_only(j);
    jpeg_start_decompress(j);
    if (p->part)
        read_part(d, p->part, out);
    else
        read_lines(d, out);
    return judge(d, p, e);
}

int jpeg_decode(struct jpeg_decoder *d, const struct jpeg_picture *p, const struct jpeg_stream *s,
                uint8_t *out, struct err *e)
{
    if (s->n < 4 || s->bytes[0] != 0xff || s->bytes[1] != MARKER_SOI)
        return err_set(e, "not a JPEG stream");
    int r = grow_lines(d, p->rows, e);
    if (r == 0)
        r = grow_line(d, p, e);
    if (r == 0 && (!d->made || d->own_tables || d->loaded != s->tables))
        r = restart(d, s->tables, s->tables_bytes, e);
    if (r == 0)
        r = pad(d, s->bytes, s->n, e);
    if (r)
        return r;
    d->own_tables = is_file(p) || has_tables(s->bytes, s->n);
    return decode(d, p, s->n, out, e);
}

/* --- coefficients --- */

static void count_block(const JCOEF *block, struct jpeg_counts *c)
{
    static const uint8_t low[JPEG_LOW] = {1, 8, 16, 9, 2, 3, 10, 17, 24}; /* 8 * row + column */
    for (int z = 0; z < JPEG_LOW; z++) {
        const int k = abs(block[low[z]]);
        if (k <= JPEG_LEVELS)
            c->n[z][k]++;
    }
}

/* Where gray comes from: one component, or three of the same size. */
static int gray_components(const struct jpeg_decompress_struct *j)
{
    const jpeg_component_info *c = j->comp_info;
    if (j->jpeg_color_space != JCS_RGB)
        return c[0].h_samp_factor == j->max_h_samp_factor &&
               c[0].v_samp_factor == j->max_v_samp_factor;
    for (int k = 1; k < 3; k++)
        if (c[k].width_in_blocks != c[0].width_in_blocks ||
            c[k].height_in_blocks != c[0].height_in_blocks)
            return 0;
    return 3;
}

/* No block of pixels has a larger coefficient. */
static double bounded(double x)
{
    const double most = 1 << 24;
    return x < -most ? -most : x > most ? most : x;
}

/* The sums of rows, or of columns, from coefficients 1 to 7 of an orthonormal DCT along them. */
static void add_wave(double sums[JPEG_BLOCK_SIDE], int frequency, double coefficient)
{
    /* sqrt(2) cos(n pi / 16) */
    static const double wave[2 * DCTSIZE] = {1.4142135623730951,
                                             1.3870398453221475,
                                             1.3065629648763766,
                                             1.1758756024193588,
                                             1.0,
                                             0.7856949583871022,
                                             0.5411961001461971,
                                             0.2758993792829431,
                                             0,
                                             -0.2758993792829431,
                                             -0.5411961001461971,
                                             -0.7856949583871022,
                                             -1.0,
                                             -1.1758756024193588,
                                             -1.3065629648763766,
                                             -1.3870398453221475};
    for (int k = 0; k < DCTSIZE; k++) {
        const int at = (2 * k + 1) * frequency % (4 * DCTSIZE);
        sums[k] +=
            at < 2 * DCTSIZE ? coefficient * wave[at] : -coefficient * wave[at - 2 * DCTSIZE];
    }
}

static struct jpeg_block describe(const struct jpeg_decompress_struct *j, int components,
                                  const JCOEF *const block[3])
{
    static const double rgb[3] = {299, 587, 114};
    struct jpeg_block b = {0};
    for (int z = 0; z < DCTSIZE2; z++) {
        double x = 0;
        if (components == 1 && z > 0 && block[0][z] == 0) /* most are */
            continue;
        for (int c = 0; c < components; c++)
            x += (components == 3 ? rgb[c] : JPEG_BLOCK_UNIT) * block[c][z] *
                 j->comp_info[c].quant_table->quantval[z];
        x = bounded(x);
        if (z == 0)
            b.sum = 8 * (x + 8 * 128 * JPEG_BLOCK_UNIT);
        else if (z < DCTSIZE)
            add_wave(b.columns, z, x);
        else if (z % DCTSIZE == 0)
            add_wave(b.rows, z / DCTSIZE, x);
        else
            b.rest += x * x;
    }
    return b;
}

static void count_luma(struct jpeg_decompress_struct *j, int64_t cols, int64_t rows,
                       struct jpeg_counts *c, struct jpeg_blocks *b, int components)
{
    const jpeg_component_info *luma = j->comp_info;
    const int64_t whole_cols = cols * luma->h_samp_factor / (DCTSIZE * j->max_h_samp_factor);
    const int64_t whole_rows = rows * luma->v_samp_factor / (DCTSIZE * j->max_v_samp_factor);
    jvirt_barray_ptr *blocks = jpeg_read_coefficients(j);
    for (JDIMENSION y = 0; y < luma->height_in_blocks; y++) {
        JBLOCKROW row[3];
        for (int k = 0; k == 0 || k < components; k++)
            row[k] = j->mem->access_virt_barray((j_common_ptr)j, blocks[k], y, 1, FALSE)[0];
        for (JDIMENSION x = 0; x < luma->width_in_blocks; x++) {
            const JCOEF *const at[3] = {row[0][x], components == 3 ? row[1][x] : NULL,
                                        components == 3 ? row[2][x] : NULL};
            if (x < whole_cols && y < whole_rows)
                count_block(at[0], c);
            if (components)
                b->of[(int64_t)y * b->cols + x] = describe(j, components, at);
        }
    }
    jpeg_finish_decompress(j);
}

/* Room for the blocks of the file whose header was read. */
static int make_blocks(const struct jpeg_decompress_struct *j, struct jpeg_blocks *b,
                       int components)
{
    const jpeg_component_info *luma = j->comp_info;
    b->cols = components ? luma->width_in_blocks : 0;
    b->rows = components ? luma->height_in_blocks : 0;
    if (b->cols * b->rows <= b->room)
        return 0;
    struct jpeg_block *of = realloc(b->of, (size_t)(b->cols * b->rows) * sizeof *of);
    if (!of)
        return -1;
    b->of = of;
    b->room = b->cols * b->rows;
    return 0;
}

int jpeg_count(struct jpeg_decoder *d, const uint8_t *bytes, size_t n, int64_t cols, int64_t rows,
               struct jpeg_counts *c, struct jpeg_blocks *b, struct err *e)
{
    int r = restart(d, NULL, 0, e);
    if (r == 0)
        r = pad(d, bytes, n, e);
    if (r)
        return r;
    d->own_tables = true;
    d->manager.num_warnings = 0;
    if (setjmp(d->failed))
        return failed(d, "", e);
    jpeg_mem_src(&d->jpeg, d->padded, (unsigned long)(n + PADDING));
    jpeg_read_header(&d->jpeg, TRUE);
    if (b && make_blocks(&d->jpeg, b, gray_components(&d->jpeg))) {
        err_memory(e);
        return JPEG_NO_MEMORY;
    }
    count_luma(&d->jpeg, cols, rows, c, b, b ? gray_components(&d->jpeg) : 0);
    return 0;
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *jpeg_library(void)
{
    return "libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION);
}

#else

struct jpeg_decoder *jpeg_decoder_create(struct err *e)
{
    err_set(e, "this build lacks libjpeg; install it and build again");
    return NULL;
}

void jpeg_decoder_free(struct jpeg_decoder *d)
{
    (void)d;
}

int jpeg_decode(struct jpeg_decoder *d, const struct jpeg_picture *p, const struct jpeg_stream *s,
                uint8_t *out, struct err *e)
{
    (void)d, (void)p, (void)s, (void)out;
    return err_set(e, "this build lacks libjpeg");
}

int jpeg_check_tables(struct jpeg_decoder *d, const uint8_t *tables, size_t n, struct err *e)
{
    (void)d, (void)tables, (void)n;
    return err_set(e, "this build lacks libjpeg");
}

int jpeg_count(struct jpeg_decoder *d, const uint8_t *bytes, size_t n, int64_t cols, int64_t rows,
               struct jpeg_counts *c, struct jpeg_blocks *b, struct err *e)
{
    (void)d, (void)bytes, (void)n, (void)cols, (void)rows, (void)c, (void)b;
    return err_set(e, "this build lacks libjpeg");
}

bool jpeg_is_available(struct err *e)
{
    err_set(e, "this build lacks libjpeg; install it and build again");
    return false;
}

const char *jpeg_library(void)
{
    return "without libjpeg";
}

#endif
