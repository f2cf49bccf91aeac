/* h5_lock.c - see h5_lock.h. */
#include "common/hdf5/h5_lock.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void h5_lock(void)
{
    pthread_mutex_lock(&lock);
}

void h5_unlock(void)
{
    pthread_mutex_unlock(&lock);
}
