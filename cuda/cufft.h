/*
 * cufft.h - cuFFT, loaded when it is first needed: most runs use the fused kernel alone, and the
 * library is forty times as large as the programs.
 */
#ifndef WSI_CUFFT_H
#define WSI_CUFFT_H

#include "common/base/err.h"

#include <cufft.h>

/* The functions in use, as cufft.h declares them. */
struct cufft {
    cufftResult (*create)(cufftHandle *);
    cufftResult (*destroy)(cufftHandle);
    cufftResult (*set_auto_allocation)(cufftHandle, int);
    cufftResult (*make_plan_many)(cufftHandle, int, int *, int *, int, int, int *, int, int,
                                  cufftType, int, size_t *);
    cufftResult (*set_work_area)(cufftHandle, void *);
    cufftResult (*set_stream)(cufftHandle, cudaStream_t);
    cufftResult (*exec_r2c)(cufftHandle, cufftReal *, cufftComplex *);
};

#ifdef __cplusplus
extern "C" {
#endif

/* NULL with the error set if no libcufft of the version that the program was built with is found.
 * It stays loaded. Called by one thread at a time. */
const struct cufft *cufft_load(struct err *e);

#ifdef __cplusplus
}
#endif

#endif
