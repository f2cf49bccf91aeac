/* text_file.c - see text_file.h. */
#include "common/base/text_file.h"

#include "common/base/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_HEAD = 256, BUFFER = 1 << 18 };

/* Does the file begin with `head`? */
static bool begins_with(const char *path, const char *head)
{
    char begin[MOST_HEAD];
    const size_t n = strlen(head);
    struct stat st;
    const int fd = stat(path, &st) || !S_ISREG(st.st_mode) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const bool is = n <= sizeof begin && read_at(fd, 0, begin, n) == n && !memcmp(begin, head, n);
    close(fd);
    return is;
}

int text_file_check(const char *path, const char *head, const char *what, struct err *e)
{
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : err_sys(e, "%s", path);
    if (begins_with(path, head))
        return 0;
    return err_set(e, "%s: already exists and is not %s; not overwritten: choose another name",
                   path, what);
}

int text_file_begin(struct text_file *t, const char *path, struct err *e)
{
    *t = (struct text_file){.path = path};
    if (publish_begin(&t->publish, path, e))
        return err_add(e, "%s", path);
    const int fd = fcntl(t->publish.fd, F_DUPFD_CLOEXEC, 3);
    if (fd >= 0 && (t->f = fdopen(fd, "w"))) {
        if ((t->buffer = malloc(BUFFER)))
            setvbuf(t->f, t->buffer, _IOFBF, BUFFER);
        return 0;
    }
    err_sys(e, "%s: cannot be written", path);
    if (fd >= 0)
        close(fd);
    publish_abort(&t->publish);
    return -1;
}

static int close_file(struct text_file *t)
{
    const int r = fclose(t->f);
    free(t->buffer);
    t->f = NULL;
    t->buffer = NULL;
    return r;
}

int text_file_commit(struct text_file *t, struct err *e)
{
    errno = 0;
    const int wrote = fflush(t->f) || ferror(t->f), number = errno;
    const int closed = close_file(t);
    if (wrote || closed) {
        errno = number ? number : errno ? errno : EIO;
        err_sys(e, "%s: cannot be written", t->path);
        publish_abort(&t->publish);
        return -1;
    }
    return publish_commit(&t->publish, e) ? err_add(e, "%s", t->path) : 0;
}

void text_file_abort(struct text_file *t)
{
    if (!t->f)
        return;
    close_file(t);
    publish_abort(&t->publish);
}
