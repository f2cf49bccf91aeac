/*
 * alone.c - ends a program with SIGABRT if two of its threads use HDF5 at the same time
 * (LD_PRELOAD): some builds of the library allow it, others crash now and then. Some functions that
 * both opening a store and writing a result call stand for all; each of their calls takes 0.1 ms
 * longer.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hdf5.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static atomic_int inside;
static _Thread_local int depth; /* the library calls itself */

static void enter(void)
{
    const struct timespec t = {0, 100000};
    if (depth++ == 0 && atomic_fetch_add(&inside, 1) > 0) {
        fputs("two threads use HDF5 at the same time\n", stderr);
        abort();
    }
    if (depth == 1)
        nanosleep(&t, NULL);
}

static void leave(void)
{
    if (--depth == 0)
        atomic_fetch_sub(&inside, 1);
}

#define WRAP(type, name, parameters, arguments)                                                    \
    type name parameters                                                                           \
    {                                                                                              \
        type(*real) parameters;                                                                    \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                                                 \
        enter();                                                                                   \
        const type r = real arguments;                                                             \
        leave();                                                                                   \
        return r;                                                                                  \
    }

WRAP(hid_t, H5Fopen, (const char *name, unsigned flags, hid_t fapl), (name, flags, fapl))
WRAP(herr_t, H5Fclose, (hid_t file), (file))
WRAP(hid_t, H5Gcreate2, (hid_t at, const char *name, hid_t lcpl, hid_t gcpl, hid_t gapl),
     (at, name, lcpl, gcpl, gapl))
WRAP(herr_t, H5Gclose, (hid_t group), (group))
WRAP(hid_t, H5Oopen, (hid_t at, const char *name, hid_t lapl), (at, name, lapl))
WRAP(herr_t, H5Dclose, (hid_t dataset), (dataset))
WRAP(hid_t, H5Screate_simple, (int rank, const hsize_t *now, const hsize_t *most),
     (rank, now, most))
WRAP(hid_t, H5Pcreate, (hid_t class), (class))
