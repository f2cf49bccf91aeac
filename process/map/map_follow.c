/* map_follow.c - see map_follow.h. */
#include "process/map/map_follow.h"

#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"
#include "process/scores/score_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };
#define PAUSE 0.1    /* s between looks at the file */
#define LEAST 2.0    /* s between maps */
#define PATIENCE 10. /* times as long as the last maps took */

void map_follow_begin(struct map_follow *f, const struct map_scores_setup *o)
{
    *f = (struct map_follow){.o = o, .fd = -1, .rows = -1, .changed = clock_now()};
}

void map_follow_end(struct map_follow *f)
{
    if (f->fd >= 0)
        close(f->fd);
}

void map_follow_say(struct map_follow *f, const char *text)
{
    if (strncmp(f->said, text, sizeof f->said - 1))
        cli_say("%s", text);
    snprintf(f->said, sizeof f->said, "%s", text);
}

/* A line has ended. The first one that is no comment is the header: rows begin at -1. */
static void end_line(struct map_follow *f)
{
    const int n = f->filled && f->line[f->filled - 1] == '\r' ? f->filled - 1 : f->filled;
    if (n == 4 && !memcmp(f->line, "#end", 4))
        f->ended = true;
    else if (n > 0 && f->line[0] != '#')
        f->rows++;
    f->filled = 0;
}

static void take(struct map_follow *f, const char *data, size_t n)
{
    for (size_t k = 0; k < n && !f->ended; k++) {
        f->at++;
        if (data[k] != '\n') {
            if (f->filled < (int)sizeof f->line)
                f->line[f->filled++] = data[k];
            continue;
        }
        end_line(f);
        f->whole = f->at;
    }
}

/* Reads what was appended. */
static int look(struct map_follow *f, struct err *e)
{
    static char data[BLOCK];
    struct stat st;
    if (f->fd < 0 && (f->fd = open(f->o->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
        return errno == ENOENT ? 0 : err_sys(e, "%s: cannot open it", f->o->path);
    if (fstat(f->fd, &st) || st.st_size < f->at)
        return err_set(e, "%s: became shorter while it was followed", f->o->path);
    if (st.st_size > 0 && f->at == 0 && !score_file_grows(f->o->path))
        return err_set(e,
                       "%s: only CSV can be read while it grows; map npy and HDF5 files when "
                       "they are complete",
                       f->o->path);
    while (f->at < st.st_size && !f->ended) {
        const size_t n = read_at_least(f->fd, (uint64_t)f->at, data, 1, sizeof data);
        if (n < 1)
            return err_sys(e, "%s: cannot be read", f->o->path);
        take(f, data, n);
        f->changed = clock_now();
        f->fresh = true;
    }
    return 0;
}

static bool is_complete(const struct map_follow *f)
{
    return f->ended || (f->o->patches && f->rows >= f->o->patches) ||
           clock_now() - f->changed >= f->o->idle;
}

int map_follow_wait(struct map_follow *f, struct err *e)
{
    const struct timespec pause = {0, (long)(PAUSE * 1e9)};
    const double took = f->told > 0 ? clock_now() - f->told : 0;
    const double next = clock_now() + (took * PATIENCE > LEAST ? took * PATIENCE : LEAST);
    for (;; nanosleep(&pause, NULL)) {
        if (stop_check(e) || look(f, e))
            return -1;
        if (is_complete(f))
            return 1;
        if (f->fresh && (f->told == 0 || clock_now() >= next)) {
            f->fresh = false;
            f->told = clock_now();
            return 0;
        }
    }
}
