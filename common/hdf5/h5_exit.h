/*
 * h5_exit.h - what the two programs themselves must know of HDF5: its version, and how to end.
 *
 * If HDF5 fails to write a file (the disk is full, say), it must not be asked to close that file:
 * it can crash in its exit handler. So every program that may have written a file ends with
 * h5_exit().
 */
#ifndef WSI_H5_EXIT_H
#define WSI_H5_EXIT_H

/* Flushes stdout, then ends the process: exit(status), or _exit(status) after a failed write.
 * Status 0 becomes 1 if stdout cannot be written. */
_Noreturn void h5_exit(int status);
/* "HDF5 1.10.8": the library that is running. */
const char *h5_library(void);
/* Notes that the library failed to write a file. */
void h5_mark_broken(void);

#endif
