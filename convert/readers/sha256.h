/*
 * sha256.h - the SHA-256 of a few bytes (FIPS 180-4), for quickhashes.
 *
 * OpenSlide's quickhash-1 of a DICOM slide is the SHA-256 of its series. It must be known in builds
 * whose OpenSlide does not read DICOM, too. A library for one call would be one more dependency.
 */
#ifndef WSI_SHA256_H
#define WSI_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_TEXT = 65, SHA256_MOST = 1 << 20 };

/* The digest of n bytes, at most SHA256_MOST, as 64 hexadecimal digits. */
void sha256_text(const void *bytes, size_t n, char text[SHA256_TEXT]);

#endif
