/* h5_lock.c - see h5_lock.h. */
#include "common/hdf5/h5_lock.h"

#include "common/hdf5/h5_error.h"

#include <hdf5.h>
#include <pthread.h>
#include <stdbool.h>

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
