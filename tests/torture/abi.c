/*
 * abi.c - a libjpeg of another ABI (LD_PRELOAD): it rejects the program itself, as libjpeg 8
 * rejects one that was built with the headers of libjpeg 6.2. Other libraries use the real one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h before it */

#include <jerror.h>

void jpeg_CreateDecompress(j_decompress_ptr jpeg, int version, size_t bytes)
{
    void (*next)(j_decompress_ptr, int, size_t);
    Dl_info caller;
    *(void **)&next = dlsym(RTLD_NEXT, "jpeg_CreateDecompress");
    if (dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, ".so")) {
        next(jpeg, version, bytes);
        return;
    }
    jpeg->err->msg_code = JERR_BAD_LIB_VERSION;
    jpeg->err->msg_parm.i[0] = 80;
    jpeg->err->msg_parm.i[1] = version;
    jpeg->err->error_exit((j_common_ptr)jpeg);
}
