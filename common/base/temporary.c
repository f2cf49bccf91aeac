/* temporary.c - see temporary.h. */
#include "common/base/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *folder(void)
{
    const char *chosen = getenv("TMPDIR");
    return chosen && *chosen ? chosen : "/tmp";
}

/* Some file systems make no file without a name. */
static int open_named(void)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/wsi-XXXXXX", folder()) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    const int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

FILE *temporary_open(const char *what, struct err *e)
{
    int fd = open(folder(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
        fd = open_named();
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");
    if (f)
        return f;
    err_set(e, "no temporary file for %s in %s (%s); set TMPDIR to another folder", what, folder(),
            strerror(errno));
    if (fd >= 0)
        close(fd);
    return NULL;
}

int temporary_failed(const char *what, struct err *e)
{
    return err_set(e,
                   "the temporary file for %s in %s cannot be written (%s); set TMPDIR to another "
                   "folder",
                   what, folder(), strerror(errno));
}
