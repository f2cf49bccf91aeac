/* report_rows.c - see report_rows.h. */
#include "process/report/python/report_rows.h"

#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/publish.h"
#include "common/result/result_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct report_rows {
    char *folder, *path; /* owned; the folder is gone when `path` is NULL */
    struct result_writer *out;
    int64_t n;
    int fd; /* -1: not whole */
};

struct report_rows *report_rows_create(const struct result_params *p, struct err *e)
{
    const char *chosen = getenv("TMPDIR");
    struct report_rows *r = memory_need(1, sizeof *r);
    r->fd = -1;
    r->folder = memory_print("%s/wsi-XXXXXX", chosen && *chosen ? chosen : "/tmp");
    if (!mkdtemp(r->folder)) {
        err_blame(e, ERR_DISK, "%s: cannot be created (%s); set TMPDIR to another folder",
                  r->folder, strerror(errno));
        report_rows_free(r);
        return NULL;
    }
    r->path = folder_join(r->folder, "rows.h5");
    if ((r->out = result_create_table(r->path, p, 0, e)))
        return r;
    report_rows_free(r);
    return NULL;
}

int report_rows_add(struct report_rows *r, const struct result_slide *s,
                    const struct report_numbers *n, int64_t *row, struct err *e)
{
    const struct result_stamp none = {0, 0, 1};
    *row = r->n++;
    return result_put_row(r->out, s, n, r->path, &none, e) ? temporary_failed("rows", e) : 0;
}

static void remove_folder(struct report_rows *r)
{
    if (!r->path)
        return;
    unlink(r->path);
    rmdir(r->folder);
    free(r->path);
    r->path = NULL;
}

int report_rows_finish(struct report_rows *r, struct err *e)
{
    struct result_writer *out = r->out;
    r->out = NULL;
    if (result_commit(out, e))
        return temporary_failed("rows", e);
    r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
    const int bad = r->fd < 0 ? err_sys(e, "%s", r->path) : 0;
    remove_folder(r);
    return bad;
}

int report_rows_descriptor(const struct report_rows *r)
{
    return r->fd;
}

void report_rows_free(struct report_rows *r)
{
    if (!r)
        return;
    result_abort(r->out);
    remove_folder(r);
    if (r->fd >= 0)
        close(r->fd);
    free(r->folder);
    free(r);
}
