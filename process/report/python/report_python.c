/* report_python.c - see report_python.h. */
#include "process/report/python/report_python.h"

#include "common/base/cli.h"
#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/publish.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"
#include "common/result/result_read.h"
#include "process/draw/raster.h"
#include "process/report/numbers/report_reread.h"
#include "process/report/page/report_tables.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEEDS                                                                                      \
    "report needs Python 3 with h5py, jinja2 and numpy; run apt install python3-h5py "             \
    "python3-jinja2, or pip install h5py jinja2"

#define OTHER_VERSION "wsi-answers is of another version; install wsi2h5 again"

bool report_python_is_chosen(void)
{
    const char *word = getenv("WSI_REPORT");
    return word && !strcmp(word, "python");
}

/* --- the child --- */

struct report_python {
    pid_t pid; /* 0: it has been waited for */
    int fd;    /* of the socket between both; -1: closed */
    char line[256];
    size_t has; /* bytes of the line that have been read */
};

/* A file by its path from the folder of this program, to be free()d; NULL: it is not there. */
static char *find_beside(const char *const *places, int mode)
{
    char here[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", here, sizeof here - 1);
    here[n > 0 ? n : 0] = 0;
    for (; *places; places++) {
        char *path = memory_print("%.*s%s", (int)(path_base_name(here) - here), here, *places);
        if (!access(path, mode))
            return path;
        free(path);
    }
    return NULL;
}

/* In a source tree, in that of tests, and as it is installed. */
static const char *const programs[] = {"../scripts/wsi-answers", "../../scripts/wsi-answers",
                                       "../share/wsi2h5/wsi-answers", NULL};
/* Where packages of Python and this program are installed together. */
static const char *const pythons[] = {"python3", NULL};

/* In the child. */
_Noreturn static void become_python(const char *program, int fd)
{
    char number[16];
    const char *python = find_beside(pythons, X_OK);
    snprintf(number, sizeof number, "%d", fd);
    fcntl(fd, F_SETFD, 0);
    if (python)
        execl(python, python, program, number, (char *)NULL);
    execlp("python3", "python3", program, number, (char *)NULL);
    cli_say(NEEDS);
    _exit(EXIT_TROUBLE);
}

struct report_python *report_python_start(struct err *e)
{
    int ends[2];
    char *program = find_beside(programs, R_OK);
    if (!program) {
        err_blame(e, ERR_TROUBLE, "the program wsi-answers is missing; install wsi2h5 again");
        return NULL;
    }
    struct report_python *p = memory_need(1, sizeof *p);
    p->fd = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        err_sys(e, "Python cannot be started");
        goto fail;
    }
    p->pid = fork();
    if (p->pid == 0) {
        stop_release_signals();
        become_python(program, ends[1]);
    }
    close(ends[1]);
    p->fd = ends[0];
    if (p->pid < 0) {
        p->pid = 0;
        err_sys(e, "Python cannot be started");
        goto fail;
    }
    free(program);
    return p;
fail:
    free(program);
    report_python_end(p);
    return NULL;
}

/* Its exit status, once it has ended; a signal is trouble. */
static int wait_for(struct report_python *p)
{
    int status = 0;
    close(p->fd);
    p->fd = -1;
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    p->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_TROUBLE;
}

void report_python_end(struct report_python *p)
{
    if (p && p->pid > 0) {
        kill(p->pid, SIGTERM);
        wait_for(p);
    } else if (p && p->fd >= 0)
        close(p->fd);
    free(p);
}

/* --- lines --- */

/* The next line that it has written, without its end. 0: there is none, because it has ended. */
static int next_line(struct report_python *p, char line[256], struct err *e)
{
    enum { STEP_MS = 100 }; /* between two looks for a signal */
    for (;;) {
        char *end = memchr(p->line, '\n', p->has);
        if (end) {
            const size_t n = (size_t)(end - p->line);
            memcpy(line, p->line, n);
            line[n] = 0;
            p->has -= n + 1;
            memmove(p->line, end + 1, p->has);
            return 1;
        }
        struct pollfd wait = {.fd = p->fd, .events = POLLIN};
        if (stop_check(e))
            return -1;
        if (poll(&wait, 1, STEP_MS) <= 0)
            continue;
        const ssize_t n = read(p->fd, p->line + p->has, sizeof p->line - p->has);
        if (n <= 0)
            return 0;
        p->has += (size_t)n;
    }
}

/* It may have ended: then the next line is missing, too. */
static void send_bytes(const struct report_python *p, const void *bytes, size_t n)
{
    (void)!write_whole(p->fd, bytes, n);
}

static void send_line(const struct report_python *p, const char *fmt, ...) ERR_PRINTF(2, 3);
static void send_line(const struct report_python *p, const char *fmt, ...)
{
    char line[256];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    send_bytes(p, line, (size_t)n);
}

/* --- what it is given --- */

static void put_text(FILE *f, const char *key, const char *text)
{
    fprintf(f, ",\n\"%s\": ", key);
    if (text)
        json_write_string(f, text);
    else
        fputs("null", f);
}

static void put_texts(FILE *f, const char *key, char *const *texts, int n)
{
    fprintf(f, ",\n\"%s\": [", key);
    for (int k = 0; k < n; k++) {
        fputs(k ? ", " : "", f);
        json_write_string(f, texts[k]);
    }
    putc(']', f);
}

static void put_real(FILE *f, const char *key, double x)
{
    fprintf(f, ", \"%s\": ", key);
    json_write_number(f, x);
}

static void put_params(FILE *f, const struct result_params *p)
{
    fprintf(f, ",\n\"params\": {\"window\": %" PRId64 ", \"stride\": %" PRId64, p->window,
            p->stride);
    fprintf(f, ", \"radius\": %" PRId64 ", \"bins\": %" PRId64, p->radius, p->bins);
    put_real(f, "sigma", p->sigma);
    put_real(f, "offset", p->offset);
    put_real(f, "low_db", p->low_db);
    put_real(f, "high_db", p->high_db);
    put_real(f, "min_tissue", p->min_tissue);
    put_real(f, "min_roi", p->min_roi);
    fprintf(f, ", \"tissue_only\": %d, \"skip_damaged\": %d, \"roi\": %d", p->tissue_only,
            p->skip_damaged, p->roi);
    put_text(f, "taper", p->taper);
    put_text(f, "roi_class", p->roi_class);
    putc('}', f);
}

static void put_setup(FILE *f, const struct report_setup *o)
{
    put_text(f, "output", o->output);
    put_text(f, "title", o->title);
    put_text(f, "csv", o->csv);
    put_text(f, "multiqc", o->multiqc);
    put_text(f, "key", o->key);
    put_text(f, "meta", o->meta);
    put_text(f, "group", o->group);
    put_text(f, "limits", o->limits);
    put_text(f, "accepted", o->accepted);
    put_texts(f, "files", o->files, o->n_files);
    put_texts(f, "folders", o->folders, o->n_folders);
    put_texts(f, "words", o->words, o->n_words);
    fprintf(f, ",\n\"max_size\": %" PRId64 ", \"no_bounds\": %s", o->max_size,
            o->no_bounds ? "true" : "false");
}

/* [number of the file, row, whether that is of the file itself, groups that are missing, why its
 * last run failed, pictures] */
static void put_slide(FILE *f, const struct report_slide *s)
{
    fprintf(f, "[%" PRId64 ", %" PRId64 ", %d, %" PRId64 ", ", s->file, s->row, s->in_table,
            s->groups_missing);
    if (s->failed)
        json_write_string(f, s->failed);
    else
        fputs("null", f);
    fputs(", ", f);
    report_pictures_describe(s->pictures, f);
    putc(']', f);
}

static void put_input(FILE *f, const struct report_python_input *in)
{
    const struct report_slides *s = in->slides;
    fprintf(f, "{\"version\": \"" WSI_VERSION "\", \"bad\": %" PRId64 ", \"older\": %" PRId64,
            in->bad, s->n_older);
    put_setup(f, in->setup);
    fprintf(f, ",\n\"rows\": %s, \"pictures\": %s, \"sizes\": %d, \"late\": %s",
            in->rows ? "true" : "false", in->spool ? "true" : "false",
            in->spool ? report_spool_sizes(in->spool) : 0,
            in->spool && report_spool_is_late(in->spool) ? "true" : "false");
    const struct result_map_kind *focus = result_map_kind(RESULT_FOCUS);
    uint32_t palette[COLOURS_PALETTE];
    colours_palette(palette, 255);
    fprintf(f, ",\n\"map_low\": %g, \"map_high\": %g, \"colours\": \"", focus->low, focus->high);
    for (int k = 0; k < COLOURS_MAP; k++)
        fprintf(f, "%06" PRIx32, palette[k] >> 8);
    putc('"', f);
    if (s->begun)
        put_params(f, &s->params);
    put_texts(f, "creators", s->creators, s->n_creators);
    put_text(f, "left_out", in->failures->left_out);
    fputs(",\n\"failures\": [", f);
    for (int64_t k = 0; k < in->failures->n; k++) {
        const struct report_failure *x = &in->failures->failure[k];
        fputs(k ? ",\n[" : "[", f);
        json_write_string(f, x->name);
        fputs(", ", f);
        json_write_string(f, x->path);
        fputs(", ", f);
        json_write_string(f, x->reason);
        putc(']', f);
    }
    fputs("],\n\"copies\": [", f);
    for (int64_t k = 0; k < in->failures->n_copies; k++) {
        const struct report_failure *x = &in->failures->copy[k];
        fputs(k ? ",\n[" : "[", f);
        json_write_string(f, x->name);
        fputs(", ", f);
        json_write_string(f, x->reason);
        putc(']', f);
    }
    fputs("],\n\"slides\": [", f);
    for (int64_t k = 0; k < s->n; k++) {
        fputs(k ? ",\n" : "\n", f);
        put_slide(f, &s->slide[k]);
    }
    fputs("]}", f);
}

/* A byte, and with it the descriptors of the rows and of the spool. */
static void send_files(const struct report_python *p, const struct report_python_input *in)
{
    union {
        char room[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr head;
    } files = {{0}};
    char byte = '\n';
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    int fds[2];
    size_t n = 0;
    if (in->rows)
        fds[n++] = report_rows_descriptor(in->rows);
    if (in->spool)
        fds[n++] = report_spool_descriptor(in->spool);
    if (n > 0) {
        message.msg_control = files.room;
        message.msg_controllen = CMSG_SPACE(n * sizeof *fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(n * sizeof *fds),
                              .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), fds, n * sizeof *fds);
    }
    while (sendmsg(p->fd, &message, 0) < 0 && errno == EINTR)
        ;
}

/* The files, then the length of the text as a line, then the text. */
static void send_input(const struct report_python *p, const struct report_python_input *in)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = memory_stream(&text, &n);
    put_input(f, in);
    memory_stream_end(f);
    send_files(p, in);
    send_line(p, "%zu\n", n);
    send_bytes(p, text, n);
    free(text);
}

/* --- its questions --- */

struct serving {
    struct report_python *p;
    const struct report_python_input *in;
    struct report_reread reread;
};

static int send_pictures(struct serving *s, int64_t k, struct err *e)
{
    struct report_slide *slide = &s->in->slides->slide[k];
    char *text = NULL;
    size_t n = 0;
    const int bad =
        slide->pictures ? 0 : report_reread_pictures(&s->reread, slide, s->in->spool, e);
    if (bad) {
        send_line(s->p, bad > 0 ? "bad\n" : "end\n");
        return bad < 0 ? -1 : 0;
    }
    report_spool_descriptor(s->in->spool); /* they are in the file */
    FILE *f = memory_stream(&text, &n);
    report_pictures_describe(slide->pictures, f);
    memory_stream_end(f);
    send_line(s->p, "ok %s\n", text);
    free(text);
    return 0;
}

static int send_maps(struct serving *s, int64_t k, const char *letters, struct err *e)
{
    static const struct {
        char letter;
        unsigned parts;
        int map; /* -1: the thumbnail */
    } all[] = {{'f', RESULT_WITH_MAP(RESULT_FOCUS), RESULT_FOCUS},
               {'t', RESULT_WITH_MAP(RESULT_TISSUE), RESULT_TISSUE},
               {'d', RESULT_WITH_MAP(RESULT_FLAGS), RESULT_FLAGS},
               {'r', RESULT_WITH_THUMBNAIL, -1}};
    struct result_slide loaded;
    struct err why = {0};
    unsigned parts = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        parts |= strchr(letters, all[i].letter) ? all[i].parts : 0;
    if (report_reread_load(&s->reread, &s->in->slides->slide[k], parts, &loaded, &why)) {
        send_line(s->p, err_is_trouble(&why) ? "end\n" : "bad\n");
        if (err_is_trouble(&why))
            return err_copy(e, &why);
        cli_say("%s; the places of its reasons are not known", why.msg);
        return 0;
    }
    const struct result_picture *t = &loaded.thumbnail;
    const size_t windows = (size_t)(loaded.nx * loaded.ny);
    char has[8] = "-"; /* the letters of those that exist */
    for (size_t i = 0, n = 0; i < sizeof all / sizeof *all; i++)
        if (parts & all[i].parts && (all[i].map < 0 ? t->rgb : loaded.maps[all[i].map].values))
            has[n++] = all[i].letter;
    send_line(s->p, "ok %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %s\n", loaded.ny, loaded.nx,
              t->height, t->width, has);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!strchr(has, all[i].letter))
            continue;
        if (all[i].map < 0)
            send_bytes(s->p, t->rgb, 3 * (size_t)(t->width * t->height));
        else
            send_bytes(s->p, loaded.maps[all[i].map].values,
                       windows * result_type_bytes(result_map_kind(all[i].map)->type));
    }
    result_slide_free(&loaded);
    return 0;
}

/* The n bytes that follow a line; some of them may have been read with it. */
static int copy_bytes(struct report_python *p, size_t n, FILE *f, struct err *e)
{
    char part[1 << 16];
    while (n > 0) {
        size_t got = n < p->has ? n : p->has;
        if (got > 0) {
            memcpy(part, p->line, got);
            p->has -= got;
            memmove(p->line, p->line + got, p->has);
        } else {
            const ssize_t more = read(p->fd, part, n < sizeof part ? n : sizeof part);
            if (stop_check(e))
                return -1;
            if (more <= 0)
                return err_blame(e, ERR_TROUBLE, "wsi-answers has ended early");
            got = (size_t)more;
        }
        fwrite(part, 1, got, f);
        n -= got;
    }
    return 0;
}

/* Publishes a file: it appears whole or not at all. */
static int take_file(struct serving *s, const char *what, size_t n, struct err *e)
{
    const struct report_setup *o = s->in->setup;
    const bool is_key = !strcmp(what, "key"), is_multiqc = !strcmp(what, "multiqc");
    const char *name = !strcmp(what, "output") ? o->output
                       : !strcmp(what, "csv")  ? o->csv
                       : is_key                ? o->key
                       : is_multiqc            ? o->multiqc
                                               : NULL;
    struct text_file t = {0};
    if (!name)
        return err_blame(e, ERR_TROUBLE, OTHER_VERSION);
    char *path =
        is_multiqc ? memory_print("%s/h5spec_statistics_mqc.json", name) : memory_copy(name);
    int bad = 0;
    if (is_multiqc && mkdir(name, 0777) && errno != EEXIST)
        bad = err_sys(e, "%s: cannot be made", name);
    bad = bad || (is_multiqc &&
                  text_file_check(path, REPORT_MULTIQC_HEAD, "custom content made by h5spec", e));
    if (!bad && !(bad = text_file_begin(&t, path, e))) {
        bad = (is_key && publish_make_private(t.publish.fd, e)) || copy_bytes(s->p, n, t.f, e);
        if (bad) {
            text_file_abort(&t);
            err_add(e, "%s", path);
        } else
            bad = text_file_commit(&t, e);
    }
    free(path);
    send_line(s->p, bad ? "end\n" : "ok\n");
    return bad ? -1 : 0;
}

/* 1: it is done; 0: go on. */
static int answer(struct serving *s, const char *line, int64_t *bad, int64_t *verdicts,
                  struct err *e)
{
    int64_t k;
    size_t n;
    char letters[8], what[16];
    if (sscanf(line, "pictures %" SCNd64, &k) == 1 && k >= 0 && k < s->in->slides->n)
        return send_pictures(s, k, e);
    if (sscanf(line, "maps %" SCNd64 " %7s", &k, letters) == 2 && k >= 0 && k < s->in->slides->n)
        return send_maps(s, k, letters, e);
    if (sscanf(line, "write %15s %zu", what, &n) == 2)
        return take_file(s, what, n, e);
    if (sscanf(line, "done %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64,
               &verdicts[REPORT_PASS], &verdicts[REPORT_NOT_JUDGED], &verdicts[REPORT_REVIEW],
               &verdicts[REPORT_FAIL], bad) == 5)
        return 1;
    return err_blame(e, ERR_TROUBLE, OTHER_VERSION);
}

int report_python_run(struct report_python *p, const struct report_python_input *in, int64_t *bad,
                      int64_t verdicts[REPORT_VERDICTS], int *status, struct err *e)
{
    struct serving s = {p, in, {.files = in->setup->files, .params = &in->slides->params}};
    char line[256];
    int r = 0, got = 0;
    send_input(p, in);
    while (r == 0 && (got = next_line(p, line, e)) > 0)
        r = answer(&s, line, bad, verdicts, e);
    report_reread_end(&s.reread);
    if (r < 0 || got < 0)
        return -1;
    *status = wait_for(p);
    return 0;
}
