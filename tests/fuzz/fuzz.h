/*
 * fuzz.h - what the fuzz targets share.
 *
 * A target is one file, fuzz_NAME.c, with libFuzzer's entry point. `make fuzz` links it with
 * libFuzzer and sanitizers; `make check` links it with replay.c and runs it over its corpus.
 */
#ifndef WSI_FUZZ_H
#define WSI_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* One input. Always returns 0; a failure is a crash, a sanitizer's report or an endless loop. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { FUZZ_PATH = 64 };

/* Puts n bytes into this process's file, below /dev/shm where there is one; `path` gets its name.
 * (HDF5 does not open files without a name.) Ends the process if it cannot be written. */
void fuzz_file(const uint8_t *data, size_t n, char path[FUZZ_PATH]);

/* The same for inputs of several files: FUZZ_SERIES, then the length (uint32, little-endian) and
 * bytes of each. They lie in a folder of their own; `path` gets the first one's name. Other inputs
 * are one file. */
#define FUZZ_SERIES "SERIES\n"
void fuzz_files(const uint8_t *data, size_t n, char path[FUZZ_PATH]);

/* Inputs that a reader has accepted. A corpus without any would test nothing: replay.c prints it.
 */
extern int fuzz_accepted;

/* Ends the process with a message unless the condition holds. */
#define FUZZ_MUST(condition) ((condition) ? (void)0 : fuzz_fail(#condition, __FILE__, __LINE__))
_Noreturn void fuzz_fail(const char *condition, const char *file, int line);

#endif
