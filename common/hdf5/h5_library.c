/* h5_library.c - see h5_library.h. */
#include "common/hdf5/h5_library.h"

#include <errno.h>
#include <hdf5.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void h5_init(void)
{
    static bool begun;
    if (begun)
        return;
    begun = true;
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1); /* locks fail on NFS and Lustre; we need none */
    H5dont_atexit();
    H5open();
    H5PLset_loading_state(0);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* else the library prints its errors */
}

/* The innermost entry of the error stack has the cause: keeps the last one with a text. */
static herr_t innermost(unsigned n, const H5E_error2_t *entry, void *out)
{
    (void)n;
    if (entry->desc && *entry->desc)
        snprintf(out, 512, "%s", entry->desc);
    return 0;
}

static _Thread_local bool system_failed;

/* Looks for "errno = 28" in what the library says, and for its own codes of missing memory. */
static herr_t find_system_error(unsigned n, const H5E_error2_t *entry, void *out)
{
    (void)n;
    (void)out;
    const char *number = entry->desc ? strstr(entry->desc, "errno = ") : NULL;
    if ((number && atoi(number + strlen("errno = ")) != 0) || entry->min_num == H5E_NOSPACE ||
        entry->min_num == H5E_CANTALLOC)
        system_failed = true;
    return 0;
}

void h5_watch(void)
{
    system_failed = false;
}

bool h5_system_failed(void)
{
    return system_failed;
}

void h5_note_system_failure(void)
{
    system_failed = true;
}

void h5_forget(void)
{
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, find_system_error, NULL);
    H5Eclear2(H5E_DEFAULT);
}

/* Cuts "... errno = 28, error message = 'No space left on device', buf = ..." down to the message.
 */
static const char *plain_cause(char *cause)
{
    char *text = strstr(cause, "error message = '");
    char *end = text ? strchr(text += strlen("error message = '"), '\'') : NULL;
    if (end)
        *end = 0;
    if (text && !strcmp(text, strerror(ENOSPC)))
        return "no space left on the disk; free some and run again";
    return text ? text : *cause ? cause : "HDF5 error";
}

int h5_error(struct err *e, const char *fmt, ...)
{
    char cause[512] = "";
    va_list ap;
    if (e) {
        va_start(ap, fmt);
        vsnprintf(e->msg, sizeof e->msg, fmt, ap);
        va_end(ap);
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, innermost, cause);
        const size_t n = strlen(e->msg);
        snprintf(e->msg + n, sizeof e->msg - n, ": %s", plain_cause(cause));
        err_clean(e->msg);
    }
    h5_forget();
    return -1;
}

int h5_write_failed(struct err *e, const char *name)
{
    h5_mark_broken();
    return h5_error(e, "cannot write %s", name);
}

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static _Thread_local bool quiet; /* builds for threads print the errors of each thread by default */

void h5_lock(void)
{
    pthread_mutex_lock(&lock);
    h5_init();
    if (!quiet)
        quiet = H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0;
}

void h5_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static bool broken;

void h5_mark_broken(void)
{
    broken = true;
}

_Noreturn void h5_exit(int status)
{
    if ((fflush(stdout) || ferror(stdout)) && status == 0)
        status = 1;
    fflush(stderr);
    if (broken)
        _exit(status);
    exit(status); /* without H5close: everything has been closed, and checked, before */
}

const char *h5_library(void)
{
    static char text[64];
    unsigned major, minor, release;
    H5get_libversion(&major, &minor, &release);
    snprintf(text, sizeof text, "HDF5 %u.%u.%u", major, minor, release);
    return text;
}

/* --- plug-ins --- */

/* where `make install` puts it if HDF5's own folder is not writable, from the programs' folder */
static const char *const places[] = {"../lib/wsi2h5/plugin", "."};

static bool get_folder(unsigned k, char folder[H5_PLUGIN_PATH])
{
    const ssize_t n = H5PLget(k, folder, H5_PLUGIN_PATH);
    return n > 0 && n < H5_PLUGIN_PATH;
}

bool h5_plugin_folder(char folder[H5_PLUGIN_PATH])
{
    h5_init();
    return get_folder(0, folder);
}

static bool has_plugin(const char *folder, const struct codec *c)
{
    char path[2 * H5_PLUGIN_PATH];
    snprintf(path, sizeof path, "%s/libh5%s.so", folder, c->name);
    return access(path, R_OK) == 0;
}

static bool is_found(const struct codec *c)
{
    unsigned n = 0;
    char folder[H5_PLUGIN_PATH];
    h5_init();
    if (H5PLsize(&n) < 0)
        return false;
    for (unsigned k = 0; k < n; k++)
        if (get_folder(k, folder) && has_plugin(folder, c))
            return true;
    return false;
}

const char *h5_plugin_advice(const struct codec *c)
{
    static char advice[H5_PLUGIN_PATH + 128];
    char program[H5_PLUGIN_PATH], folder[H5_PLUGIN_PATH + 32], full[H5_PLUGIN_PATH];
    if (is_found(c))
        return "";
    snprintf(advice, sizeof advice, "export HDF5_PLUGIN_PATH=FOLDER   # the folder of libh5%s.so",
             c->name);
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    char *slash = strrchr(program, '/');
    if (!slash)
        return advice;
    *slash = 0;
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        snprintf(folder, sizeof folder, "%s/%s", program, places[k]);
        if (has_plugin(folder, c) && realpath(folder, full)) {
            snprintf(advice, sizeof advice, "export HDF5_PLUGIN_PATH='%s'", full);
            break;
        }
    }
    return advice;
}
