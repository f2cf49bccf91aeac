/* check.cu - see check.h. */
#include "cuda/check.h"

int check_failed(struct check_device *d, cudaError_t code, const char *call, const char *text,
                 struct err *e)
{
    __atomic_store_n(&d->last, code, __ATOMIC_RELAXED); /* any thread */
    return err_blame(e, ERR_TROUBLE, "%s (cuda:%d): %s: %s", d->name, d->number, call, text);
}

int check_result(struct check_device *d, cudaError_t result, const char *call, struct err *e)
{
    if (result == cudaSuccess)
        return 0;
    return check_failed(d, result, call, cudaGetErrorString(result), e);
}

int check_give_up(struct check_device *d, const struct err *e)
{
    if (!__atomic_exchange_n(&d->failed, true, __ATOMIC_ACQ_REL)) {
        d->why = *e;
        __atomic_store_n(&d->has_why, true, __ATOMIC_RELEASE);
    }
    return -1;
}

bool check_alive(const struct check_device *d)
{
    return !__atomic_load_n(&d->failed, __ATOMIC_ACQUIRE);
}

static int say_why(const struct check_device *d, struct err *e)
{
    if (!__atomic_load_n(&d->has_why, __ATOMIC_ACQUIRE))
        return err_blame(e, ERR_TROUBLE, "%s (cuda:%d): has failed", d->name, d->number);
    *e = d->why;
    return -1;
}

int check_enter(struct check_device *d, struct err *e)
{
    if (!check_alive(d))
        return say_why(d, e);
    cudaGetLastError(); /* forgets what another device has left in this thread */
    return CU(d, cudaSetDevice(d->number), e) ? check_give_up(d, e) : 0;
}
