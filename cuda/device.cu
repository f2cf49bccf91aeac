/* device.cu - see device.h. */
#include "cuda/device.h"

#include <cuda_runtime.h>

int device_count(struct err *e)
{
    int n = 0;
    const cudaError_t code = cudaGetDeviceCount(&n);
    if (code == cudaSuccess && n > 0)
        return n;
    err_set(e, "this machine has no CUDA device that can be used (CUDA: %s)",
            code == cudaSuccess ? "none found" : cudaGetErrorString(code));
    return 0;
}
