/* check.cu - see check.h. */
#include "cuda/check.h"

int check_failed(struct check_device *d, cudaError_t code, const char *call, const char *text,
                 struct err *e)
{
    __atomic_store_n(&d->last, code, __ATOMIC_RELAXED); /* any thread */
    return err_set(e, "%s (cuda:%d): %s: %s", d->name, d->number, call, text);
}

int check_result(struct check_device *d, cudaError_t result, const char *call, struct err *e)
{
    if (result == cudaSuccess)
        return 0;
    return check_failed(d, result, call, cudaGetErrorString(result), e);
}
