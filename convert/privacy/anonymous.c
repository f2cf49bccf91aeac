/* anonymous.c - see anonymous.h. */
#include "convert/privacy/anonymous.h"

#include "common/base/csv.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/publish.h"
#include "common/base/read_at.h"
#include "convert/readers/slide.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HASH_DIGITS = 16, LEAST_STEM = 3, MOST_KEY_FILE = 1 << 30 };

int anonymous_name(const char *path, char name[ANONYMOUS_NAME], struct err *e)
{
    struct slide_info i;
    struct slide_file *file = slide_file_open(path, e);
    struct slide *s = file ? slide_open(file, 0, 1, &i, e) : NULL;
    slide_close(s);
    slide_file_close(file);
    if (!s)
        return -1;
    if (strlen(i.quickhash) < HASH_DIGITS)
        return err_set(e,
                       "%s: has no quickhash%s%s, so it cannot be named by it; --anonymous needs a "
                       "slide that OpenSlide opens",
                       path, i.problem[0] ? ": " : "", i.problem);
    snprintf(name, ANONYMOUS_NAME, "slide-%.*s", HASH_DIGITS, i.quickhash);
    return 0;
}

/* --- the key file --- */

/* "NAME,PATH\n" with the path quoted. */
static char *line_of(const char *name, const char *path)
{
    char *line = NULL;
    size_t n;
    FILE *f = open_memstream(&line, &n);
    if (!f)
        memory_end();
    fprintf(f, "%s,", name);
    csv_exact(f, path);
    putc('\n', f);
    if (ferror(f) || fclose(f))
        memory_end();
    return line;
}

/* 1: the file has the line, 0: it does not, -1. */
static int has_line(int fd, const char *line, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return err_sys(e, "cannot read");
    if (!S_ISREG(st.st_mode) || st.st_size > MOST_KEY_FILE)
        return err_set(e, "is not a key file");
    char *text = memory_need(1, (size_t)st.st_size + 1);
    const bool bad = read_at(fd, 0, text, (size_t)st.st_size) < (size_t)st.st_size && errno;
    const char *found = strstr(text, line);
    const int has = found && (found == text || found[-1] == '\n');
    free(text);
    return bad ? err_sys(e, "cannot read") : has;
}

static int add_line(int fd, const char *line, struct err *e)
{
    const size_t n = strlen(line);
    if (flock(fd, LOCK_EX))
        return err_sys(e, "cannot lock");
    const int has = has_line(fd, line, e);
    if (has)
        return has < 0 ? -1 : 0;
    return write_whole(fd, line, n) || fsync(fd) ? err_sys(e, "cannot write") : 0;
}

int anonymous_note(const char *key, const char *name, const char *path, struct err *e)
{
    char *line = line_of(name, path);
    const int fd = open(key, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    int r = fd < 0 ? err_sys(e, "cannot open") : publish_make_private(fd, e);
    r = r ? r : add_line(fd, line, e);
    if (r == 0)
        r = publish_sync_folder_of(key, e);
    if (fd >= 0 && close(fd) && r == 0)
        r = err_sys(e, "cannot write");
    free(line);
    return r ? err_add(e, "the key file %s", key) : 0;
}

/* --- messages --- */

void anonymous_mask(struct err *e, const char *path, const char *by)
{
    struct err shown; /* the path as messages show it */
    err_set(&shown, "%s", path);
    const char *base = path_base_name(shown.msg);
    err_replace(e, shown.msg, by);
    err_replace(e, base, by);
    char stem[sizeof shown.msg];
    const char *dot = strrchr(base, '.');
    snprintf(stem, sizeof stem, "%.*s", dot && dot > base ? (int)(dot - base) : (int)strlen(base),
             base);
    if (strlen(stem) >= LEAST_STEM)
        err_replace(e, stem, by);
}
