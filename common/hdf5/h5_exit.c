/* h5_exit.c - see h5_exit.h. */
#include "common/hdf5/h5_exit.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
