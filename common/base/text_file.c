/* text_file.c - see text_file.h. */
#include "common/base/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_HEAD = 256 };

/* Does the file begin with `head`? */
static int begins_with(const char *path, const char *head)
{
    char begin[MOST_HEAD];
    const size_t n = strlen(head);
    struct stat st;
    const int fd = stat(path, &st) || !S_ISREG(st.st_mode) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t got = n <= sizeof begin ? read(fd, begin, n) : -1;
    close(fd);
    return got == (ssize_t)n && !memcmp(begin, head, n);
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
    if (fd >= 0 && (t->f = fdopen(fd, "w")))
        return 0;
    err_sys(e, "%s: cannot be written", path);
    if (fd >= 0)
        close(fd);
    publish_abort(&t->publish);
    return -1;
}

int text_file_commit(struct text_file *t, struct err *e)
{
    errno = 0;
    const int wrote = fflush(t->f) || ferror(t->f), number = errno;
    const int closed = fclose(t->f);
    t->f = NULL;
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
    fclose(t->f);
    t->f = NULL;
    publish_abort(&t->publish);
}
