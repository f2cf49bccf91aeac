/* jpeg_rows.c - see jpeg_rows.h. HAVE_JPEG comes from the Makefile's probe. */
#include "common/codec/jpeg_rows.h"

#ifdef HAVE_JPEG

#include "common/base/read_at.h"
#include "common/base/stop.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h before it */

#include <jerror.h>

enum {
    BUFFER = 1 << 18,
    MOST_SCANS = 500, /* of a progressive stream; more only cost time */
};

struct jpeg_rows {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr manager;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    char message[JMSG_LENGTH_MAX];
    int fd;
    uint64_t at, end; /* of what has not been read */
    int trouble;      /* errno of a failed read, or 0 */
    bool started;
    bool is_cut; /* the bytes ended before the stream */
    uint8_t buffer[BUFFER];
};

/* --- what libjpeg calls --- */

static void on_error(j_common_ptr jpeg)
{
    struct jpeg_rows *r = jpeg->client_data;
    jpeg->err->format_message(jpeg, r->message);
    longjmp(r->failed, 1);
}

/* The first warning; libjpeg counts them itself. What it says later would hide the cause. */
static void on_message(j_common_ptr jpeg)
{
    struct jpeg_rows *r = jpeg->client_data;
    jpeg->err->format_message(jpeg, r->message);
}

/* Called while all scans of a progressive stream are read: that takes long before the first row. */
static void on_progress(j_common_ptr jpeg)
{
    if (stop_signal())
        ERREXIT(jpeg, JERR_FILE_READ);
    if (((j_decompress_ptr)jpeg)->input_scan_number > MOST_SCANS)
        ERREXITS(jpeg, JERR_TFILE_READ, "");
}

static void nothing(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static boolean fill(j_decompress_ptr jpeg)
{
    struct jpeg_rows *r = jpeg->client_data;
    const size_t some = r->end - r->at < BUFFER ? (size_t)(r->end - r->at) : BUFFER;
    errno = 0;
    size_t n = some ? read_at(r->fd, r->at, r->buffer, some) : 0;
    if (n < some && errno) {
        r->trouble = errno;
        ERREXIT(jpeg, JERR_FILE_READ);
    }
    r->at += n;
    if (n == 0) {
        r->is_cut = true;
        WARNMS(jpeg, JWRN_JPEG_EOF);
        r->buffer[n++] = 0xff;
        r->buffer[n++] = JPEG_EOI;
    }
    r->source.next_input_byte = r->buffer;
    r->source.bytes_in_buffer = n;
    return TRUE;
}

static void skip(j_decompress_ptr jpeg, long n)
{
    struct jpeg_source_mgr *s = jpeg->src;
    while (n > 0 && (size_t)n > s->bytes_in_buffer) {
        n -= (long)s->bytes_in_buffer;
        fill(jpeg);
    }
    if (n > 0) {
        s->next_input_byte += n;
        s->bytes_in_buffer -= (size_t)n;
    }
}

/* --- opening --- */

/* The error inside libjpeg. */
static int judge(struct jpeg_rows *r, struct err *e)
{
    if (stop_check(e))
        return JPEG_ROWS_TROUBLE;
    if (r->trouble) {
        errno = r->trouble;
        err_sys(e, "cannot read");
        errno = r->trouble;
        return JPEG_ROWS_TROUBLE;
    }
    err_set(e, "%s", r->message);
    return r->manager.msg_code == JERR_OUT_OF_MEMORY ? JPEG_NO_MEMORY : JPEG_DAMAGED;
}

static struct jpeg_rows *create(const struct jpeg_rows_input *in)
{
    struct jpeg_rows *r = malloc(sizeof *r);
    if (!r)
        return NULL;
    r->fd = in->fd;
    r->at = in->at;
    r->end = in->at + in->bytes;
    r->trouble = 0;
    r->started = r->is_cut = false;
    r->message[0] = 0;
    r->source = (struct jpeg_source_mgr){.init_source = nothing,
                                         .fill_input_buffer = fill,
                                         .skip_input_data = skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = nothing};
    r->progress = (struct jpeg_progress_mgr){.progress_monitor = on_progress};
    r->jpeg = (struct jpeg_decompress_struct){.err = jpeg_std_error(&r->manager)};
    r->manager.error_exit = on_error;
    r->manager.output_message = on_message;
    r->jpeg.client_data = r;
    return r;
}

/* Bytes of all coefficients, which a stream of several scans needs in memory. */
static uint64_t coefficient_bytes(const struct jpeg_decompress_struct *j)
{
    uint64_t blocks = 0;
    for (int c = 0; c < j->num_components; c++)
        blocks += (uint64_t)(j->comp_info[c].width_in_blocks + 8) *
                  (j->comp_info[c].height_in_blocks + 8);
    return blocks * sizeof(JBLOCK);
}

/* Do the second and the third component have fewer samples than the first? */
static bool is_subsampled(const jpeg_component_info *c)
{
    return c[1].h_samp_factor == c[2].h_samp_factor && c[1].v_samp_factor == c[2].v_samp_factor &&
           (c[1].h_samp_factor < c[0].h_samp_factor || c[1].v_samp_factor < c[0].v_samp_factor);
}

static bool has_ids(const jpeg_component_info *c, int first, int second, int third)
{
    return c[0].component_id == first && c[1].component_id == second && c[2].component_id == third;
}

static bool states_rgb(const struct jpeg_decompress_struct *j)
{
    return (j->saw_Adobe_marker && j->Adobe_transform == 0) || has_ids(j->comp_info, 'R', 'G', 'B');
}

static bool states_ycbcr(const struct jpeg_decompress_struct *j)
{
    return (j->saw_Adobe_marker && j->Adobe_transform > 0) ||
           (j->saw_JFIF_marker && has_ids(j->comp_info, 1, 2, 3));
}

/* Does the stream state other colours? As jpeg_header_colours() says, or, in a file of its own, RGB
 * that libjpeg ignores. */
static bool states_other(const struct jpeg_decompress_struct *j, bool ycbcr, bool is_file)
{
    if (!ycbcr)
        return states_ycbcr(j);
    return states_rgb(j) && (is_file || !(states_ycbcr(j) || j->saw_JFIF_marker));
}

/* The colours of a stream of three components, and how it contradicts what is stated. */
static void take_colours(struct jpeg_rows *r, const struct jpeg_rows_input *in,
                         struct jpeg_rows_picture *p)
{
    struct jpeg_decompress_struct *j = &r->jpeg;
    const bool is_file = in->colours == JPEG_FILE;
    if (!is_file)
        j->jpeg_color_space = in->colours == JPEG_YCBCR ? JCS_YCbCr : JCS_RGB;
    const bool ycbcr = j->jpeg_color_space == JCS_YCbCr;
    p->is_subsampled = !ycbcr && is_subsampled(j->comp_info);
    p->is_other = states_other(j, ycbcr, is_file);
    if (p->is_subsampled)
        j->jpeg_color_space = JCS_YCbCr; /* whatever the file or the stream states */
}

/* Is it a kind of stream that is decoded here? Fills *p, and sets its colours. */
static int check(struct jpeg_rows *r, const struct jpeg_rows_input *in, struct jpeg_rows_picture *p,
                 struct err *e)
{
    struct jpeg_decompress_struct *j = &r->jpeg;
    const int wanted = in->colours == JPEG_SINGLE ? 1 : in->colours == JPEG_FILE ? 0 : 3;
    if (jpeg_has_multiple_scans(j) && coefficient_bytes(j) > in->most_bytes) {
        err_set(e,
                "a progressive JPEG of %u x %u px, which needs %" PRIu64
                " MiB of memory; save it as a baseline JPEG",
                j->image_width, j->image_height, coefficient_bytes(j) >> 20);
        return JPEG_ROWS_OTHER;
    }
    if (wanted ? j->num_components != wanted : j->num_components != 1 && j->num_components != 3) {
        err_set(e, "a JPEG of %d components%s", j->num_components,
                j->num_components == 4 ? " (CMYK)" : "");
        return JPEG_ROWS_OTHER;
    }
    const double um = !j->saw_JFIF_marker    ? NAN
                      : j->density_unit == 1 ? 25400 /* px per inch */
                      : j->density_unit == 2 ? 10000
                                             : NAN;
    *p = (struct jpeg_rows_picture){.cols = j->image_width,
                                    .rows = j->image_height,
                                    .channels = j->num_components,
                                    .um_x = j->X_density ? um / j->X_density : NAN,
                                    .um_y = j->Y_density ? um / j->Y_density : NAN};
    if (p->channels == 3)
        take_colours(r, in, p);
    j->out_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    return 0;
}

/* Kinds that libjpeg names in its message, and does not decode. Those with the ABI of version 7 or
 * later have no message on arithmetic coding. */
static bool is_other(int code)
{
#if JPEG_LIB_VERSION < 70
    if (code == JERR_ARITH_NOTIMPL)
        return true;
#endif
    return code == JERR_BAD_PRECISION || code == JERR_SOF_UNSUPPORTED || code == JERR_IMAGE_TOO_BIG;
}

static int read_header(struct jpeg_rows *r, const struct jpeg_rows_input *in,
                       struct jpeg_rows_picture *p, struct err *e)
{
    struct jpeg_decompress_struct *j = &r->jpeg;
    if (setjmp(r->failed)) {
        const int bad = judge(r, e);
        return bad == JPEG_DAMAGED && is_other(r->manager.msg_code) ? JPEG_ROWS_OTHER : bad;
    }
    jpeg_create_decompress(j);
    j->client_data = r;
    j->progress = &r->progress;
    if (in->tables) {
        jpeg_mem_src(j, in->tables, (unsigned long)in->tables_bytes);
        if (jpeg_read_header(j, FALSE) != JPEG_HEADER_TABLES_ONLY)
            return err_set(e, "its JPEG tables are invalid");
        jpeg_abort_decompress(j); /* keeps the tables */
    }
    j->src = &r->source;
    jpeg_read_header(j, TRUE);
    return check(r, in, p, e);
}

int jpeg_rows_open(struct jpeg_rows **out, const struct jpeg_rows_input *in,
                   struct jpeg_rows_picture *p, struct err *e)
{
    struct jpeg_rows *r = create(in);
    *out = NULL;
    if (!r) {
        err_memory(e);
        return JPEG_NO_MEMORY;
    }
    const int bad = read_header(r, in, p, e);
    if (bad) {
        const int code = errno;
        jpeg_rows_close(r);
        errno = code;
        return bad;
    }
    *out = r;
    return 0;
}

/* --- rows --- */

int jpeg_rows_next(struct jpeg_rows *r, uint8_t *out, struct err *e)
{
    JSAMPROW line = out;
    if (setjmp(r->failed))
        return judge(r, e);
    if (!r->started) {
        r->started = true;
        jpeg_start_decompress(&r->jpeg);
    }
    if (r->jpeg.output_scanline >= r->jpeg.output_height)
        return err_set(e, "it has no further rows");
    jpeg_read_scanlines(&r->jpeg, &line, 1);
    return r->manager.num_warnings == 0 ? 0 : err_set(e, "%s", r->message);
}

int jpeg_rows_end(struct jpeg_rows *r, uint8_t *line, struct err *e)
{
    int bad = 0;
    while (!bad && r->jpeg.output_scanline < r->jpeg.output_height)
        bad = jpeg_rows_next(r, line, e);
    if (bad || r->is_cut)
        return r->is_cut ? 0 : bad;
    if (setjmp(r->failed))
        return judge(r, e);
    jpeg_finish_decompress(&r->jpeg);
    return r->manager.num_warnings == 0 || r->is_cut ? 0 : err_set(e, "%s", r->message);
}

bool jpeg_rows_are_cut(const struct jpeg_rows *r)
{
    return r->is_cut;
}

void jpeg_rows_close(struct jpeg_rows *r)
{
    if (!r)
        return;
    jpeg_destroy_decompress(&r->jpeg);
    free(r);
}

#else

int jpeg_rows_open(struct jpeg_rows **r, const struct jpeg_rows_input *in,
                   struct jpeg_rows_picture *p, struct err *e)
{
    (void)in, (void)p;
    *r = NULL;
    err_set(e, "this build lacks libjpeg");
    return JPEG_ROWS_OTHER;
}

int jpeg_rows_end(struct jpeg_rows *r, uint8_t *line, struct err *e)
{
    (void)r, (void)line;
    return err_set(e, "this build lacks libjpeg");
}

bool jpeg_rows_are_cut(const struct jpeg_rows *r)
{
    (void)r;
    return false;
}

int jpeg_rows_next(struct jpeg_rows *r, uint8_t *out, struct err *e)
{
    (void)r, (void)out;
    return err_set(e, "this build lacks libjpeg");
}

void jpeg_rows_close(struct jpeg_rows *r)
{
    (void)r;
}

#endif
