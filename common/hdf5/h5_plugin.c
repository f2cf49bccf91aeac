/* h5_plugin.c - see h5_plugin.h. */
#include "common/hdf5/h5_plugin.h"

#include "common/hdf5/h5_library.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
