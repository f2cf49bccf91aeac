/* output.c - see output.h. */
#include "common/base/output.h"

#include "common/base/folder.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static bool ends_in(const char *name, const char *ending)
{
    const size_t n = strlen(name), m = strlen(ending);
    return n > m && !strcasecmp(name + n - m, ending) && name[n - m - 1] != '/';
}

static bool must_be_folder(const char *name)
{
    const size_t n = strlen(name);
    return (n > 0 && name[n - 1] == '/') || folder_is(name);
}

bool output_is_folder(const char *name, const char *ending)
{
    return must_be_folder(name) || !ends_in(name, ending);
}

/* Endings that the name of a folder has by mistake only: those of slides, pictures, tables, pages
 * and archives. */
static const char *const endings[] = {
    ".h5",   ".hdf5", ".hdf",  ".he5",  ".zarr", ".nc",   ".npy",   ".npz",     ".tif", ".tiff",
    ".svs",  ".ndpi", ".scn",  ".mrxs", ".vms",  ".vmu",  ".bif",   ".svslide", ".dcm", ".png",
    ".jpg",  ".jpeg", ".jp2",  ".bmp",  ".gif",  ".svg",  ".pdf",   ".html",    ".htm", ".csv",
    ".tsv",  ".txt",  ".json", ".xml",  ".xlsx", ".zip",  ".tar",   ".gz",      ".tgz", ".geojson",
    ".part", ".log",  ".yaml", ".yml",  ".toml", ".webp", ".jsonl", ".parquet", ".bak", ".dat"};

int output_check(const char *option, const char *name, const char *ending, struct err *e)
{
    if (must_be_folder(name) || ends_in(name, ending))
        return 0;
    for (size_t k = 0; k < sizeof endings / sizeof *endings; k++)
        if (ends_in(name, endings[k]))
            return err_set(e,
                           "%s %s: a name in %s is that of another kind of file; end it with %s "
                           "for a file, or with / for a folder",
                           option, name, endings[k], ending);
    return 0;
}

bool output_is_same(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int output_is_no_input(const char *option, const char *name, char *const *inputs, int n,
                       struct err *e)
{
    for (int k = 0; name && k < n; k++)
        if (inputs[k] && output_is_same(name, inputs[k]))
            return err_set(e, "%s %s: is one of the inputs; name another file", option, name);
    return 0;
}
