/*
 * gpu_call.h - calls of the CUDA runtime in tests on a GPU: one that fails ends the program with a
 * red line and status 1.
 */
#ifndef TESTS_GPU_CALL_H
#define TESTS_GPU_CALL_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) gpu_call((call), #call)

static inline void gpu_call(cudaError_t r, const char *call)
{
    if (r == cudaSuccess)
        return;
    printf("not ok %s: %s\n", call, cudaGetErrorString(r));
    exit(1);
}

#endif
