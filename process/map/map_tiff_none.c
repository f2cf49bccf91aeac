/* map_tiff_none.c - builds without libtiff; see map_formats.h. */
#include "process/map/map_formats.h"

bool map_tiff_available(void)
{
    return false;
}

int map_write_tiff(const struct map_slide *m, const int *maps, int n, int fd, struct err *e)
{
    (void)m;
    (void)maps;
    (void)n;
    (void)fd;
    return err_set(e, "this build cannot write OME-TIFF: libtiff was missing");
}

bool map_tiff_is_ours(const char *path)
{
    (void)path;
    return false;
}
