/* stub_cufft.c - cuFFT; see stub.h. */
#include "cuda/cufft.h"
#include "tests/stub.h"

#include <stdlib.h>
#include <string.h>

void stub_run_transform(const struct plan *p, const float *in, cufftComplex *out, int device)
{
    const size_t pixels = (size_t)p->window * (size_t)p->window,
                 half = (size_t)p->window * (size_t)(p->window / 2 + 1);
    stub_check_memory(in, (size_t)p->batch * pixels * sizeof *in, device, "cuFFT: input");
    stub_check_memory(out, (size_t)p->batch * half * sizeof *out, device, "cuFFT: output");
    stub_check_memory(p->d_work, p->work_bytes, device, "cuFFT: work area");
    for (size_t k = 0; k < (size_t)p->batch; k++)
        memcpy(out + k * half, in + k * pixels, sizeof(uint64_t));
}

static struct plan *plan_of(cufftHandle h)
{
    stub_check(h >= 0 && h < MOST_PLANS && stub.plans[h].used, "cuFFT: no such plan");
    return &stub.plans[h];
}

static cufftResult create(cufftHandle *h)
{
    cudaError_t r = stub_enter(stub_device);
    for (*h = 0; *h < MOST_PLANS && stub.plans[*h].used; ++*h)
        ;
    stub_check(*h < MOST_PLANS, "cuFFT: too many plans");
    if (!r)
        stub.plans[*h] = (struct plan){.device = stub_device, .used = true};
    return stub_leave_fft(r);
}

static cufftResult destroy(cufftHandle h)
{
    cudaError_t r = stub_enter(stub_device);
    plan_of(h)->used = r != cudaSuccess;
    return stub_leave_fft(r);
}

static cufftResult set_auto_allocation(cufftHandle h, int automatic)
{
    cudaError_t r = stub_enter(stub_device);
    plan_of(h)->manual = !automatic;
    return stub_leave_fft(r);
}

static cufftResult make_plan_many(cufftHandle h, int rank, int *n, int *inembed, int istride,
                                  int idist, int *onembed, int ostride, int odist, cufftType type,
                                  int batch, size_t *work_bytes)
{
    cudaError_t r = stub_enter(stub_device);
    struct plan *p = plan_of(h);
    stub_check(rank == 2 && n[0] == n[1] && !inembed && !onembed && istride == 1 && ostride == 1 &&
                   type == CUFFT_R2C && batch > 0 && idist == n[0] * n[0] &&
                   odist == n[0] * (n[0] / 2 + 1) && p->manual,
               "cuFFT: the plan");
    p->window = n[0];
    p->batch = batch;
    p->made = true;
    *work_bytes = p->work_bytes = 64 * (size_t)batch;
    return stub_leave_fft(r);
}

static cufftResult set_work_area(cufftHandle h, void *d_work)
{
    cudaError_t r = stub_enter(stub_device);
    plan_of(h)->d_work = d_work;
    return stub_leave_fft(r);
}

static cufftResult set_stream(cufftHandle h, cudaStream_t s)
{
    cudaError_t r = stub_enter(stub_device);
    plan_of(h)->stream = s;
    return stub_leave_fft(r);
}

static cufftResult exec_r2c(cufftHandle h, cufftReal *in, cufftComplex *out)
{
    cudaError_t r = stub_enter(stub_device);
    const struct plan *p = plan_of(h);
    stub_check(p->made && p->stream && p->d_work && p->device == stub_device,
               "cuFFT: the plan is not ready");
    if (r)
        return stub_leave_fft(r);
    struct op *o = stub_queue(p->stream, TRANSFORM);
    o->transform.plan = *p;
    o->transform.in = in;
    o->transform.out = out;
    return stub_leave_fft(stub_queued(p->stream));
}

const struct cufft *cufft_load(struct err *e)
{
    static const struct cufft c = {
        create, destroy, set_auto_allocation, make_plan_many, set_work_area, set_stream, exec_r2c};
    if (!getenv("WSI_STUB_CUFFT"))
        return &c;
    err_set(e, "libcufft is not found");
    return NULL;
}
