/* publish.c - see publish.h. */
#include "common/base/publish.h"

#include "common/base/memory.h"
#include "common/base/path.h"
#include "common/base/read_at.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ENDING = 16 };         /* bytes of the ending that a cut name keeps */
enum { ABANDONED = 24 * 60 * 60 }; /* seconds without growth of a file of another host */

/* The temporary files of this process. The lock is held while one is created, renamed or removed,
 * so that publish_abort_all() finds each of them; nothing is allocated then. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct unfinished {
    const char *path;
    struct unfinished *next;
} * unfinished;
static _Atomic pid_t writer_id; /* this process, not a child of fork() */

/* The folder of a path, "." when it has none. Owned by the caller. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return memory_copy(".");
    return memory_copy_part(path, slash == path ? 1 : (size_t)(slash - path));
}

/* Of a machine without a name of its own: what its kernel has drawn at its start. */
static void boot_name(char host[64])
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const size_t n = fd < 0 ? 0 : read_at(fd, 0, host, 36);
    if (fd >= 0)
        close(fd);
    strcpy(host + n, n > 0 ? "" : "host");
}

/* This host's name without the characters that separate the parts of a temporary name. */
static void host_name(char host[64])
{
    if (gethostname(host, 64))
        host[0] = 0;
    host[63] = 0;
    if (!host[0] || !strcmp(host, "(none)") || !strncmp(host, "localhost", 9))
        boot_name(host);
    for (char *s = host; *s; s++)
        if (*s == '-' || *s == '/' || *s == '.')
            *s = '_';
}

/* BASE of a temporary name. A long one is cut, so that the whole name has at most NAME_MAX bytes:
 * its beginning, a hash of all of it, and its ending. */
static char *temp_base(const char *name, const char *host)
{
    const size_t n = strlen(name), numbers = sizeof "..--.part" + 7 + 10; /* process, count */
    const size_t room = NAME_MAX - numbers - strlen(host);
    const char *dot = strrchr(name, '.');
    uint32_t hash = 2166136261; /* FNV-1a */
    if (n <= room)
        return memory_copy(name);
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619;
    size_t cut = room - MOST_ENDING - 9;
    while (cut > 0 && (name[cut] & 0xc0) == 0x80) /* within a character of UTF-8 */
        cut--;
    if (!dot || strlen(dot) > MOST_ENDING)
        dot = "";
    return memory_print("%.*s~%08" PRIx32 "%s", (int)cut, name, hash, dot);
}

/* Temporary names that this process has made. */
static unsigned names_made;

/* Has the process of this host ended? Also if nobody has taken notice, as in containers whose first
 * process does not. */
static bool has_ended(pid_t pid)
{
    char path[48], stat[128] = "";
    if (kill(pid, 0))
        return errno == ESRCH;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    stat[fd < 0 ? 0 : read_at(fd, 0, stat, sizeof stat - 1)] = 0;
    if (fd >= 0)
        close(fd);
    const char *after = strrchr(stat, ')'); /* "PID (NAME) STATE ..." */
    return after && (!strncmp(after, ") Z", 3) || !strncmp(after, ") X", 3));
}

void publish_own_name(char name[PUBLISH_NAME])
{
    char host[64];
    host_name(host);
    snprintf(name, PUBLISH_NAME, "%s-%ld", host, (long)getpid());
}

bool publish_has_ended(const char *name)
{
    char host[64];
    long pid = 0;
    int end = 0;
    host_name(host);
    const size_t n = strlen(host);
    return !strncmp(name, host, n) && sscanf(name + n, "-%ld%n", &pid, &end) == 1 &&
           !name[n + (size_t)end] && pid > 0 && pid != (long)getpid() && has_ended((pid_t)pid);
}

/* The state of the process that writes a temporary file, from its name. */
enum writer { NOT_OURS, ALIVE, GONE, ELSEWHERE };

/* Is this name ".BASE.HOST-PID-NUMBER.part", and of whom? GONE: of a process of this host that is
 * gone, or of this one before it was started anew by exec; ELSEWHERE: of another host. Any base if
 * `base` is NULL. */
static enum writer find_writer(const char *name, const char *base, const char *host)
{
    static const char ending[] = ".part";
    const size_t n = strlen(name), nh = strlen(host);
    size_t dot = n > sizeof ending ? n - sizeof ending : 0; /* before the ending */
    int end = 0;
    long pid = 0;
    unsigned number;
    while (dot > 0 && name[dot] != '.')
        dot--;
    if (name[0] != '.' || dot < 2 ||
        (base && (strlen(base) != dot - 1 || memcmp(name + 1, base, dot - 1))))
        return NOT_OURS;
    name += dot + 1;
    const size_t of = strcspn(name, "-");
    if (of == 0 || sscanf(name + of, "-%ld-%u.part%n", &pid, &number, &end) != 2 || !end ||
        name[of + (size_t)end] || pid <= 0)
        return NOT_OURS;
    if (of != nh || strncmp(name, host, nh))
        return ELSEWHERE;
    if (pid == (long)getpid())
        return number > names_made ? GONE : ALIVE;
    return has_ended((pid_t)pid) ? GONE : ALIVE;
}

/* Has the file not grown for so long that nobody writes it? */
static bool is_abandoned(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && time(NULL) - st.st_mtime > ABANDONED;
}

/* A living writer of this host holds its lock, also in another process namespace. Locks need not
 * reach other hosts: of those only files go that nobody has written for long. The file is removed
 * under the lock, so a writer that has just created it sees that when the lock is its own. */
static void remove_abandoned(int folder_fd, const char *name, enum writer writer)
{
    if (writer != GONE && writer != ELSEWHERE)
        return;
    const int fd = openat(folder_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const bool busy = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (!busy && (writer == GONE || (fd >= 0 && is_abandoned(fd))))
        unlinkat(folder_fd, name, 0);
    if (fd >= 0)
        close(fd);
}

static void remove_leftovers(const char *folder, const char *base, const char *host)
{
    DIR *d = opendir(folder);
    if (!d)
        return;
    for (struct dirent *entry; (entry = readdir(d));)
        remove_abandoned(dirfd(d), entry->d_name, find_writer(entry->d_name, base, host));
    closedir(d);
}

/* --- the files that are not finished --- */

int publish_create(const char *path, mode_t mode)
{
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

FILE *publish_create_stream(const char *path)
{
    const int fd = publish_create(path, 0666);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

static char *shown_path; /* NULL: nobody looks */

void publish_show(char *shown)
{
    shown_path = shown;
}

static void show(const char *path)
{
    if (shown_path && strlen(path) < PUBLISH_PATH)
        memcpy(shown_path, path, strlen(path) + 1);
}

/* Creates the file at p->temp_path. -1: errno says why. */
static int create_file(struct publish *p)
{
    struct unfinished *u = memory_need(1, sizeof *u);
    pthread_mutex_lock(&lock);
    show(p->temp_path);
    p->fd = publish_create(p->temp_path, 0666);
    if (p->fd >= 0) {
        *u = (struct unfinished){p->temp_path, unfinished};
        unfinished = u;
        writer_id = getpid();
    }
    pthread_mutex_unlock(&lock);
    if (p->fd >= 0)
        return 0;
    show("");
    free(u);
    return -1;
}

/* The temporary file has its final name or is removed. The lock is held. */
static void forget_file(struct publish *p)
{
    struct unfinished **at = &unfinished;
    while ((*at)->path != p->temp_path)
        at = &(*at)->next;
    struct unfinished *gone = *at;
    *at = gone->next;
    free(gone);
    free(p->temp_path);
    p->temp_path = NULL;
    show("");
}

void publish_abort_all(void)
{
    if (writer_id != getpid())
        return;
    pthread_mutex_lock(&lock); /* for good: no other thread publishes any more */
    for (const struct unfinished *u = unfinished; u; u = u->next)
        unlink(u->path);
}

/* Locks the new file. Another run may hold the lock for a moment, to see whether it is abandoned.
 * Some network file systems have no locks, or locks of each host alone: remove_abandoned(). */
static void lock_file(int fd)
{
    for (int k = 0; k < 100 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; k++)
        usleep(10000);
    errno = 0;
}

/* Has another run removed the new file before it was locked? Then it is forgotten. */
static bool is_taken_away(struct publish *p)
{
    struct stat st;
    lock_file(p->fd);
    if (fstat(p->fd, &st) || st.st_nlink > 0)
        return false;
    pthread_mutex_lock(&lock);
    close(p->fd);
    p->fd = -1;
    forget_file(p);
    pthread_mutex_unlock(&lock);
    return true;
}

/* Creates ".BASE.HOST-PID-NUMBER.part" with a number that is free. */
static int create_temp(struct publish *p, const char *folder, const char *base, const char *host,
                       struct err *e)
{
    int r;
    do {
        free(p->temp_path);
        p->temp_path =
            memory_print("%s/.%s.%s-%ld-%u.part", folder, base, host, (long)getpid(), ++names_made);
        r = create_file(p);
    } while (r ? errno == EEXIST : is_taken_away(p));
    if (r == 0)
        return 0;
    free(p->temp_path);
    p->temp_path = NULL;
    return err_write(e, "cannot create a file in the folder %s%s", folder,
                     errno == ENOENT ? " (create it first)" : "");
}

void publish_clean(const char *final_path)
{
    char host[64];
    char *folder = folder_of(final_path);
    host_name(host);
    char *base = temp_base(path_base_name(final_path), host);
    remove_leftovers(folder, base, host);
    free(base);
    free(folder);
}

void publish_clean_folder(const char *folder)
{
    char host[64];
    host_name(host);
    remove_leftovers(folder, NULL, host);
}

int publish_begin(struct publish *p, const char *final_path, struct err *e)
{
    char host[64];
    char *folder = folder_of(final_path);
    host_name(host);
    char *base = temp_base(path_base_name(final_path), host);
    *p = (struct publish){.final_path = memory_copy(final_path), .fd = -1};
    remove_leftovers(folder, base, host);
    const int r = create_temp(p, folder, base, host, e);
    free(base);
    free(folder);
    if (r) {
        publish_abort(p);
        return -1;
    }
    return 0;
}

static int sync_folder(const char *folder, struct err *e)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    if (fd < 0 && errno == EACCES)
        return 0; /* it may be written but not read: then it cannot be synced either */
    if (fd < 0 ||
        (fsync(fd) && errno != EINVAL && errno != EROFS)) /* some folders cannot be synced */
        r = err_write(
            e,
            "the file is complete, but its folder %s cannot be written to disk, and a power "
            "failure may lose the file; check the disk and run again with --force",
            folder);
    if (fd >= 0)
        close(fd);
    return r;
}

int publish_make_private(int fd, struct err *e)
{
    return fchmod(fd, 0600) ? err_write(e, "cannot be made private") : 0;
}

int publish_sync_folder_of(const char *path, struct err *e)
{
    char *folder = folder_of(path);
    const int r = sync_folder(folder, e);
    free(folder);
    return r;
}

/* `fd`: of the file. Nothing of ours removes a file that is being written: other programs do, and
 * file systems that fail. Neither is a fault of the input. */
static int give_name(struct publish *p, int fd, struct err *e)
{
    struct stat st;
    const bool gone = fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink == 0;
    errno = ENOENT;
    pthread_mutex_lock(&lock);
    const int r = gone ? -1 : rename(p->temp_path, p->final_path);
    if (r == 0)
        forget_file(p);
    pthread_mutex_unlock(&lock);
    if (r && errno == ENOENT)
        err_blame(e, ERR_TROUBLE,
                  "the temporary file is gone: another program has removed it; run again");
    else if (r)
        err_write(e, "cannot rename the temporary file");
    return r;
}

/* Everything up to the rename. */
static int put_in_place(struct publish *p, struct err *e)
{
    int fd = p->fd;
    if (fsync(fd) && errno != EINVAL) /* a file system without fsync; close() reports its errors */
        return err_write(e, "cannot write to disk");
    const int held = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* keeps the file's lock beyond close() */
    p->fd = -1;
    int r = close(fd);
    if (r)
        err_write(e, "cannot write to disk");
    else
        r = give_name(p, held, e);
    if (held >= 0)
        close(held);
    return r;
}

void publish_rename(struct publish *p, const char *final_path)
{
    free(p->final_path);
    p->final_path = memory_copy(final_path);
}

int publish_commit(struct publish *p, struct err *e)
{
    char *folder = folder_of(p->final_path);
    int r = put_in_place(p, e);
    if (r == 0)
        r = sync_folder(folder, e);
    free(folder);
    publish_abort(p);
    return r;
}

void publish_abort(struct publish *p)
{
    if (p->temp_path) {
        if (p->fd >= 0 && ftruncate(p->fd, 0))
            errno = 0; /* then the last descriptor frees the blocks */
        pthread_mutex_lock(&lock);
        unlink(p->temp_path);
        forget_file(p);
        pthread_mutex_unlock(&lock);
    }
    if (p->fd >= 0)
        close(p->fd);
    free(p->final_path);
    *p = (struct publish){.fd = -1};
}

enum { MOST_HEAD = 256, BUFFER = 1 << 18 };

bool text_file_begins_with(const char *path, const char *head)
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
        return errno == ENOENT ? 0 : err_write(e, "%s", path);
    if (text_file_begins_with(path, head))
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
    err_write(e, "%s: cannot be written", path);
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
        err_write(e, "%s: cannot be written", t->path);
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
    err_blame(e, ERR_DISK, "no temporary file for %s in %s (%s); set TMPDIR to another folder",
              what, folder(), strerror(errno));
    if (fd >= 0)
        close(fd);
    return NULL;
}

int temporary_room(FILE *f, int64_t length, int64_t bytes, const char *what, struct err *e)
{
    struct statvfs fs = {0};
    const bool known = fstatvfs(fileno(f), &fs) == 0;
    const double space = (double)fs.f_bavail * (double)fs.f_frsize;
    if (known && space < (double)bytes)
        return err_blame(e, ERR_DISK,
                         "the temporary file for %s needs %" PRId64 " bytes, and %s has %.0f left; "
                         "free some, or set TMPDIR to another folder",
                         what, bytes, folder(), space);
    return ftruncate(fileno(f), length) ? temporary_failed(what, e) : 0;
}

int temporary_failed(const char *what, struct err *e)
{
    return err_blame(
        e, ERR_DISK,
        "the temporary file for %s in %s cannot be written (%s); set TMPDIR to another folder",
        what, folder(), strerror(errno));
}
