/*
 * check.h - the one way in which CUDA is called.
 */
#ifndef WSI_CHECK_H
#define WSI_CHECK_H

#include "common/err.h"

#include <cuda_runtime.h>

/* A device as errors name it. */
struct check_device {
    int number;
    char name[64];
    cudaError_t last; /* what the last call that failed said */
};

/* 0, or -1 with the device, the call and CUDA's own words. */
int check_result(struct check_device *d, cudaError_t result, const char *call, struct err *e);

#define CU(d, call, e) check_result((d), (call), #call, (e))

#endif
