/* publish.c - see publish.h. */
#include "common/publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder of a path, "." when it has none. Owned by the caller; NULL when out of memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* This host's name with nothing in it that a pattern could trip over. */
static void host_name(char host[64])
{
    if (gethostname(host, 64) || !host[0])
        strcpy(host, "host");
    host[63] = 0;
    for (char *s = host; *s; s++)
        if (*s == '-' || *s == '/' || *s == '.')
            *s = '_';
}

/* Is this name ".BASE.HOST-PID-NUMBER.part" of a process of this host that is gone? */
static int is_leftover(const char *name, const char *base, const char *host)
{
    size_t nb = strlen(base), nh = strlen(host);
    int end = 0;
    long pid = 0;
    unsigned number;
    if (name[0] != '.' || strncmp(name + 1, base, nb) || name[nb + 1] != '.')
        return 0;
    name += nb + 2;
    if (strncmp(name, host, nh) || name[nh] != '-')
        return 0;
    if (sscanf(name + nh, "-%ld-%u.part%n", &pid, &number, &end) != 2 || !end || name[nh + (size_t)end])
        return 0;
    return pid > 0 && pid != (long)getpid() && kill((pid_t)pid, 0) && errno == ESRCH;
}

/* A living writer in another process namespace of this host still holds its lock. */
static int is_locked(int folder_fd, const char *name)
{
    int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC);
    int locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

static void remove_leftovers(const char *folder, const char *base, const char *host)
{
    DIR *d = opendir(folder);
    if (!d)
        return;
    for (struct dirent *entry; (entry = readdir(d));)
        if (is_leftover(entry->d_name, base, host) && !is_locked(dirfd(d), entry->d_name))
            unlinkat(dirfd(d), entry->d_name, 0);
    closedir(d);
}

int publish_begin(struct publish *p, const char *final_path, struct err *e)
{
    static unsigned count;
    char host[64];
    *p = (struct publish){.fd = -1};
    char *folder = folder_of(final_path);
    p->final_path = strdup(final_path);
    host_name(host);
    if (!folder || !p->final_path) {
        err_set(e, "out of memory");
        goto fail;
    }
    remove_leftovers(folder, base_of(final_path), host);
    do {
        free(p->temp_path);
        if (asprintf(&p->temp_path, "%s/.%s.%s-%ld-%u.part", folder, base_of(final_path), host,
                     (long)getpid(), ++count) < 0) {
            p->temp_path = NULL;
            err_set(e, "out of memory");
            goto fail;
        }
        p->fd = open(p->temp_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (p->fd < 0 && errno == EEXIST);
    if (p->fd < 0) {
        free(p->temp_path);
        p->temp_path = NULL;
        err_sys(e, "cannot create a file in the folder %s%s", folder,
                errno == ENOENT ? " (create it first)" : "");
        goto fail;
    }
    free(folder);
    if (flock(p->fd, LOCK_EX | LOCK_NB))
        errno = 0; /* only a help for remove_leftovers; some network file systems have no locks */
    return 0;
fail:
    free(folder);
    publish_abort(p);
    return -1;
}

static int sync_folder(const char *folder, struct err *e)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == EACCES)
        return 0; /* may be written but not read: then it cannot be synced either */
    if (fd < 0)
        return err_sys(e, "cannot open the folder %s", folder);
    int r = fsync(fd);
    if (r && errno != EINVAL && errno != EROFS) { /* some file systems cannot sync a folder */
        err_sys(e, "cannot write the folder %s to disk", folder);
        close(fd);
        return -1;
    }
    close(fd);
    return 0;
}

int publish_commit(struct publish *p, struct err *e)
{
    char *folder = folder_of(p->final_path);
    int fd = p->fd, r = -1;
    if (!folder) {
        err_set(e, "out of memory");
        goto out;
    }
    if (fsync(fd)) {
        err_sys(e, "cannot write %s to disk", p->final_path);
        goto out;
    }
    p->fd = -1;
    if (close(fd)) {
        err_sys(e, "cannot write %s to disk", p->final_path);
        goto out;
    }
    if (rename(p->temp_path, p->final_path)) {
        err_sys(e, "cannot give %s its name", p->final_path);
        goto out;
    }
    free(p->temp_path);
    p->temp_path = NULL;
    r = sync_folder(folder, e);
out:
    free(folder);
    publish_abort(p);
    return r;
}

void publish_abort(struct publish *p)
{
    if (p->temp_path) {
        if (p->fd >= 0 && ftruncate(p->fd, 0))
            errno = 0; /* the blocks go with the last descriptor then */
        unlink(p->temp_path);
    }
    if (p->fd >= 0)
        close(p->fd);
    free(p->temp_path);
    free(p->final_path);
    *p = (struct publish){.fd = -1};
}
