/* stub_cuda.c - the runtime's functions for devices, errors and memory; see stub.h. */
#include "tests/stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- memory --- */

/* Must lie within one block of the device, or (-1) of page-locked memory. */
void stub_check_memory(const void *p, size_t bytes, int device, const char *what)
{
    const unsigned char *at = p;
    for (const struct block *b = stub.blocks; b; b = b->next)
        if (at >= b->p && at < b->p + b->bytes) {
            if (b->device == device && bytes <= b->bytes - (size_t)(at - b->p))
                return;
            stub_die("%s: %zu bytes at %zu of a block of %zu on device %d, used by %d", what, bytes,
                     (size_t)(at - b->p), b->bytes, b->device, device);
        }
    stub_die("%s: no such memory", what);
}

bool stub_is_locked(const void *p)
{
    for (const struct block *b = stub.blocks; b; b = b->next)
        if (b->device == -1 && (const unsigned char *)p >= b->p &&
            (const unsigned char *)p < b->p + b->bytes)
            return true;
    return false;
}

static void add_block(void *p, size_t bytes, int device, bool ours)
{
    struct block *b = malloc(sizeof *b);
    stub_check(b != NULL, "no memory for the stub itself");
    *b = (struct block){p, bytes, device, ours, stub.blocks};
    stub.blocks = b;
}

static void *new_block(size_t bytes, int device)
{
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!p)
        return NULL;
    memset(p, POISON, bytes < POISON_BYTES ? bytes : POISON_BYTES);
    add_block(p, bytes, device, true);
    return p;
}

/* host: page-locked memory; ours: allocated here. */
static void remove_block(const void *p, bool host, bool ours)
{
    for (struct block **b = &stub.blocks; *b; b = &(*b)->next)
        if ((*b)->p == p && ((*b)->device == -1) == host && (*b)->ours == ours) {
            struct block *gone = *b;
            *b = gone->next;
            if (!host)
                stub.used[gone->device] -= gone->bytes;
            else if (ours)
                stub.locked -= gone->bytes;
            else
                stub.registered -= gone->bytes;
            if (ours)
                free(gone->p);
            free(gone);
            return;
        }
    stub_die("released what was not there");
}

/* --- the runtime: devices and errors --- */

cudaError_t cudaGetDeviceCount(int *n)
{
    cudaError_t r = stub_enter(stub_device);
    *n = r ? 0 : stub.devices;
    return stub_leave(r ? r : *n ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 12020;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* Is this the device's word in WSI_STUB_ODD? */
static bool is_odd(int device, const char *what)
{
    const char *word = getenv("WSI_STUB_ODD");
    for (int k = 0; word && k < device; k++)
        word = (word = strchr(word, ',')) ? word + 1 : NULL;
    return word && strcspn(word, ",") == strlen(what) && !strncmp(word, what, strlen(what));
}

cudaError_t cudaSetDevice(int device)
{
    stub_check(device >= 0 && device < MOST_DEVICES, "cudaSetDevice");
    cudaError_t r = stub_enter(device);
    if (!r && is_odd(device, "busy"))
        r = cudaErrorDevicesUnavailable;
    if (!r)
        stub_device = device;
    return stub_leave(r);
}

size_t stub_shared_bytes(int device)
{
    return is_odd(device, "small") ? SMALL_SHARED_BYTES : SHARED_BYTES;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    cudaError_t r = stub_enter(device);
    memset(p, 0, sizeof *p);
    const bool small = is_odd(device, "small"), old = is_odd(device, "old");
    snprintf(p->name, sizeof p->name, "%sStub", small ? "Small " : old ? "Old " : "");
    p->sharedMemPerBlockOptin = stub_shared_bytes(device);
    p->sharedMemPerMultiprocessor = p->sharedMemPerBlockOptin + 1024;
    p->major = old ? 3 : 9;
    return stub_leave(r);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all)
{
    cudaError_t r = stub_enter(stub_device);
    *all = stub.memory[stub_device] ? stub.memory[stub_device] : (size_t)64 << 30;
    *free_bytes = is_odd(stub_device, "full") ? 100 << 20 : *all - stub.used[stub_device];
    return stub_leave(r);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *host)
{
    cudaError_t r = stub_enter(stub_device);
    (void)host;
    memset(a, 0, sizeof *a);
    if (!r && is_odd(stub_device, "old"))
        r = cudaErrorNoKernelImageForDevice;
    return stub_leave(r);
}

const char *cudaGetErrorString(cudaError_t code)
{
    switch ((int)code) {
    case 2: return "out of memory";
    case 100: return "no CUDA-capable device is detected";
    case 700: return "an illegal memory access was encountered";
    case 719: return "unspecified launch failure";
    case 46: return "CUDA-capable device(s) is/are busy or unavailable";
    case 209: return "no kernel image is available for execution on the device";
    default: return "another error";
    }
}

/* --- the runtime: memory --- */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    cudaError_t r = stub_enter(stub_device);
    const size_t most = stub.memory[stub_device];
    if (!r && most && stub.used[stub_device] + bytes > most)
        r = cudaErrorMemoryAllocation;
    if (!r && !(*p = new_block(bytes, stub_device)))
        r = cudaErrorMemoryAllocation;
    if (!r)
        stub.used[stub_device] += bytes;
    return stub_leave(r);
}

cudaError_t cudaFree(void *p)
{
    cudaError_t r = stub_enter(stub_device);
    for (struct CUstream_st *s = stub.streams; s && !r && p; s = s->next)
        if (s->device == stub_device)
            stub_finish_stream(s);
    if (!r && p)
        remove_block(p, false, true);
    return stub_leave(r);
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    cudaError_t r = stub_enter(stub_device);
    if (!r && !(*p = new_block(bytes, -1)))
        r = cudaErrorMemoryAllocation;
    if (!r)
        stub.locked += bytes;
    stub.most_locked = stub.locked > stub.most_locked ? stub.locked : stub.most_locked;
    return stub_leave(r);
}

cudaError_t cudaFreeHost(void *p)
{
    cudaError_t r = stub_enter(stub_device);
    if (!r && p)
        remove_block(p, true, true);
    return stub_leave(r);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    cudaError_t r = stub_enter(stub_device);
    (void)flags;
    if (!r) {
        add_block(p, bytes, -1, false);
        stub.registered += bytes;
    }
    if (stub.registered > stub.most_registered)
        stub.most_registered = stub.registered;
    return stub_leave(r);
}

cudaError_t cudaHostUnregister(void *p)
{
    cudaError_t r = stub_enter(stub_device);
    if (!r)
        remove_block(p, true, false);
    return stub_leave(r);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t r = stub_enter(stub_device);
    stub_check(kind == cudaMemcpyHostToDevice, "a copy that the stub does not know");
    if (!r) {
        stub_check_memory(to, bytes, stub_device, "copy to");
        memcpy(to, from, bytes);
    }
    return stub_leave(r);
}

static struct op *queue_copy(void *to, const void *from, size_t bytes, size_t rows, cudaStream_t s)
{
    struct op *o = stub_queue(s, COPY);
    o->copy.to = to;
    o->copy.from = from;
    o->copy.bytes = bytes;
    o->copy.rows = rows;
    return o;
}

/* Memory that is not page-locked is read before the call returns. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    cudaError_t r = stub_enter(s->device);
    stub_check(s->device == stub_device, "a copy while another device is set");
    if (r)
        return stub_leave(r);
    struct op *o = queue_copy(to, from, bytes, 1, s);
    if (kind == cudaMemcpyHostToDevice && !stub_is_locked(from)) {
        o->copy.kept = malloc(bytes + 1);
        stub_check(o->copy.kept != NULL, "no memory for the stub itself");
        memcpy(o->copy.kept, from, bytes);
    } else if (kind == cudaMemcpyDeviceToHost)
        stub_check_memory(to, bytes, -1, "copy to the host");
    return stub_leave(stub_queued(s));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t bytes, size_t rows, enum cudaMemcpyKind kind, cudaStream_t s)
{
    cudaError_t r = stub_enter(s->device);
    stub_check(kind == cudaMemcpyDeviceToDevice && to_pitch == from_pitch && bytes <= to_pitch,
               "a copy of rows that the stub does not know");
    if (r)
        return stub_leave(r);
    queue_copy(to, from, bytes, rows, s)->copy.pitch = to_pitch;
    return stub_leave(stub_queued(s));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s)
{
    cudaError_t r = stub_enter(s->device);
    if (r)
        return stub_leave(r);
    struct op *o = stub_queue(s, SET);
    o->set.to = to;
    o->set.value = value;
    o->set.bytes = bytes;
    return stub_leave(stub_queued(s));
}
