/*
 * read_at.h - reading a file at an offset, and writing to one: pread and write that go on after
 * interruptions and short transfers; and files that users name, which may be fifos. Any thread.
 */
#ifndef WSI_READ_AT_H
#define WSI_READ_AT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Reads n bytes. Returns how many it got: if fewer, errno says why, and is 0 if the file ends. */
size_t read_at(int fd, uint64_t at, void *out, size_t n);
/* The same for at least `least` and at most `most` bytes; fewer than `least` are a failure. */
size_t read_at_least(int fd, uint64_t at, void *out, size_t least, size_t most);

/* Writes n bytes at the position of the descriptor, or at an offset. -1: errno says why. */
int write_whole(int fd, const void *bytes, size_t n);
int write_at(int fd, uint64_t at, const void *bytes, size_t n);

/* Opens a file, a fifo or "-", standard input, to be read from its beginning to its end. Opening
 * never waits for a writer; reading does, until a signal asks the process to stop (stop.h): then
 * errno is EINTR. NULL: errno says why. Close it with fclose(). */
FILE *read_named(const char *path);

#endif
