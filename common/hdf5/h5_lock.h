/*
 * h5_lock.h - the one lock around HDF5, which may be used by one thread at a time.
 *
 * Functions that several threads may call take it around their calls of the library, and let go
 * before they compute. A program whose HDF5 stays on one thread need not care.
 */
#ifndef WSI_H5_LOCK_H
#define WSI_H5_LOCK_H

/* The thread that holds it may take it again, and lets go as often. */
void h5_lock(void);
void h5_unlock(void);

#endif
