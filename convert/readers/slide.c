/* slide.c - the table of readers; see slide.h. */
#include "convert/readers/slide.h"

#include "convert/readers/file_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct slide_reader *const readers[] = {
    &slide_svs,
    &slide_dicom,
#ifdef HAVE_OPENSLIDE
    &slide_ndpi,
    &slide_openslide,
#endif
};

/* Rejects what is no readable file before any reader is asked. */
static int check_file(const char *path, struct err *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(e,
                       errno == ENOENT   ? "%s: no such slide; check the path"
                       : errno == EACCES ? "%s: cannot be read; check its permissions"
                                         : "%s: cannot open",
                       path);
    int bad = fstat(fd, &st);
    close(fd);
    if (bad)
        return err_sys(e, "%s: cannot read its size", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, "%s: not a file", path);
    if (st.st_size == 0)
        return err_set(e, "%s: the file is empty; copy the slide again", path);
    return 0;
}

struct slide *slide_open(const char *path, int64_t level, int threads, struct slide_info *info,
                         struct err *e)
{
    struct slide *s = NULL;
    struct err why = {""};
    if (check_file(path, e))
        return NULL;
    for (size_t k = 0; k < sizeof readers / sizeof *readers; k++) {
        int r = readers[k]->open(&s, path, level, threads, info, &why);
        if (r > 0) {
            info->reader = readers[k]->name;
            if (!readers[k]->read_jpeg)
                snprintf(info->no_jpeg, sizeof info->no_jpeg,
                         "only RGB and YCbCr JPEG tiles of Aperio SVS, DICOM and NDPI files can be "
                         "kept");
            return s;
        }
        if (r < 0) {
            err_set(e, "%s", why.msg);
            err_add(e, "%s", path);
            return NULL;
        }
    }
    file_kind_reject(path, why.msg, e);
    return NULL;
}

void slide_close(struct slide *s)
{
    if (s)
        s->reader->close(s);
}

bool slide_has_name(const char *path)
{
    static const char *const ends[] = {".svs", ".tif",  ".tiff",    ".ndpi", ".vms", ".vmu",
                                       ".scn", ".mrxs", ".svslide", ".bif",  ".dcm"};
    const char *dot = strrchr(path, '.');
    for (size_t k = 0; dot && k < sizeof ends / sizeof *ends; k++)
        if (!strcasecmp(dot, ends[k]))
            return true;
    return false;
}
