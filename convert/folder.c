/* folder.c - see folder.h. */
#include "convert/folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Creates one folder; an existing one is fine. */
static int make_one(const char *path, struct err *e)
{
    struct stat st;
    if (!mkdir(path, 0777))
        return 0;
    const int code = errno; /* EROFS or EACCES, too, where the folder exists */
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        return 0;
    if (code == EEXIST)
        return err_set(e, "%s: is neither a folder nor a .h5 file; name another output", path);
    errno = code;
    return err_sys(e, "%s: cannot create the output folder", path);
}

int folder_make(const char *path, struct err *e)
{
    char *copy = strdup(path);
    int r = copy ? 0 : err_set(e, "out of memory");
    for (char *slash = copy; r == 0 && (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        r = make_one(copy, e);
        *slash = '/';
    }
    if (r == 0)
        r = make_one(path, e);
    free(copy);
    return r;
}

int folder_make_for(const char *file, struct err *e)
{
    const char *slash = strrchr(file, '/');
    char *folder = slash && slash > file ? strndup(file, (size_t)(slash - file)) : strdup(".");
    const int r = folder ? folder_make(folder, e) : err_set(e, "out of memory");
    free(folder);
    return r;
}
