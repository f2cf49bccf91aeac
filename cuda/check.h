/*
 * check.h - the one way to call CUDA.
 */
#ifndef WSI_CHECK_H
#define WSI_CHECK_H

#include "common/base/err.h"

#include <cuda_runtime.h>

/* A device as error messages name it. */
struct check_device {
    int number;
    char name[64];
    cudaError_t last; /* code of the last call that failed; atomic */
};

/* 0, or -1 with the device, the call and CUDA's own message. */
int check_result(struct check_device *d, cudaError_t result, const char *call, struct err *e);
/* -1 with the device, the call and `text`. */
int check_failed(struct check_device *d, cudaError_t code, const char *call, const char *text,
                 struct err *e);

#define CU(d, call, e) check_result((d), (call), #call, (e))

#endif
