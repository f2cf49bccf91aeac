/* spectrum_cuda.c - the CUDA backend: which devices it opens; device.h is one device. */
#include "common/base/memory.h"
#include "cuda/device.h"

#include "common/codec/codec.h"
#include "cuda/gds.h"
#include "cuda/staging.h"
#include "process/spectrum/spectrum_open.h"

#include <stdlib.h>

enum {
    MOST_WINDOWS = 1 << 19, /* of a band: SPECTRUM_SUMS x 12 MiB on the device and on the host */
    MOST_LOADS = 24,        /* of a device at once: more do not make its bus faster */
    PACKED_LOADS = 8, /* the same for JPEG tiles, of which few bytes cross the bus: more threads
                         only wait for each other in the driver */
};

struct spectrum_shared {
    struct staging *staging; /* buffers from which all devices copy */
    bool gds;                /* gds_open() has succeeded */
};

/* --- opening and closing --- */

static void cuda_close(struct spectrum_use *u)
{
    if (!u->shared)
        return;
    staging_release(u->shared->staging);
    for (int k = 0; k < u->n; k++)
        device_close(u->devices[k]);
    if (u->shared->gds)
        gds_close();
    staging_free(u->shared->staging);
    free(u->shared);
    u->n = 0;
}

static int open_shared(struct spectrum_use *u, const struct spectrum_setup *s, struct err *e)
{
    u->shared = memory_need(1, sizeof *u->shared);
    u->shared->staging = staging_create(s->threads, s->memory ? s->memory : INT64_MAX);
    u->shared->gds = s->gds && gds_open(e) == 0;
    return u->shared->gds == s->gds ? 0 : -1;
}

/* Appends to the note on the devices. */
static void add_note(struct err *note, const char *what, const struct err *why)
{
    const struct err before = *note;
    err_blame(note, why->kind > before.kind ? why->kind : before.kind, "%.600s%s%s%.400s",
              before.msg, *before.msg ? "; " : "", what, why->msg);
}

static void drop_device(struct spectrum_use *u, int k)
{
    device_close(u->devices[k]);
    u->n--;
    for (; k < u->n; k++) {
        u->devices[k] = u->devices[k + 1];
        u->labels[k] = u->labels[k + 1];
    }
}

/* Device k has failed. Is it left out, so that the others go on? */
static bool leave_out(struct spectrum_use *u, const struct spectrum_setup *s, int k,
                      struct err *note, const struct err *why)
{
    if (s->choice.kind != SPECTRUM_AUTO)
        return false;
    drop_device(u, k);
    add_note(note, "left out ", why);
    return true;
}

static int open_device(struct spectrum_use *u, const struct spectrum_setup *s, int number,
                       struct err *e)
{
    struct spectrum **d = &u->devices[u->n];
    const int bad = device_open(d, number, s, u->shared->staging, e);
    if (*d)
        u->labels[u->n] = device_label(*d);
    u->n++;
    if (bad)
        return -1;
    return s->choice.kind == SPECTRUM_AUTO ? device_check_memory(*d, e) : 0;
}

static int open_devices(struct spectrum_use *u, const struct spectrum_setup *s, struct err *note,
                        struct err *e)
{
    const struct spectrum_choice *c = &s->choice;
    const int count = device_count(e);
    const int most = count < SPECTRUM_MOST_DEVICES ? count : SPECTRUM_MOST_DEVICES;
    const int n = c->n ? c->n : most;
    for (int k = 0; k < n && count > 0; k++) {
        const int number = c->n ? c->numbers[k] : k;
        if (number >= count)
            return err_set(e, "there is no device cuda:%d: this machine has %d, numbered from 0",
                           number, count);
        if (open_device(u, s, number, e) && !leave_out(u, s, u->n - 1, note, e))
            return -1;
    }
    return count > 0 ? 0 : -1;
}

/* All devices use the same kernel, so that counts do not depend on which device computes what. */
static int choose_kernels(struct spectrum_use *u, const struct spectrum_setup *s, struct err *note,
                          struct err *e)
{
    int fuse = 0, cannot = 0;
    for (int k = 0; k < u->n; k++)
        if (device_can_fuse(u->devices[k]))
            fuse++;
        else
            cannot = k;
    const bool fused = fuse == u->n;
    if (fuse > 0 && !fused) {
        struct err names = {0};
        spectrum_describe(u, UINT64_C(1) << cannot, names.msg, 128);
        add_note(note,
                 "all devices use cuFFT, because the fused kernel needs more shared memory "
                 "than is available on ",
                 &names);
    }
    for (int k = 0; k < u->n;)
        if (!device_choose_kernel(u->devices[k], fused, e))
            k++;
        else if (!leave_out(u, s, k, note, e))
            return -1;
    u->kernel = u->n > 0 ? device_kernel(u->devices[0]) : NULL;
    return 0;
}

static int cuda_open(struct spectrum_use *u, const struct spectrum_setup *s, struct err *note,
                     struct err *e)
{
    int bad = open_shared(u, s, e) || open_devices(u, s, note, e) || choose_kernels(u, s, note, e);
    if (!bad && u->n == 0)
        bad = err_blame(e, note->kind, "no CUDA device can be used: %.900s", note->msg);
    if (bad)
        cuda_close(u);
    return bad ? -1 : 0;
}

/* --- the backend --- */

const struct spectrum_backend spectrum_cuda = {
    .name = "cuda",
    .layout = SPECTRUM_CHUNKS,
    .buffers = SPECTRUM_MOST_BUFFERS,
    .memory = INT64_C(1536) << 20,
    .packed_memory = INT64_C(2304) << 20,
    .most_windows = MOST_WINDOWS,
    .unpacks = 1u << CODEC_NONE | 1u << CODEC_JPEG,
    .most_loads = MOST_LOADS,
    .packed_loads = PACKED_LOADS,
    .available = device_available,
    .open = cuda_open,
    .close = cuda_close,
    .alive = device_alive,
    .reserve = device_reserve,
    .buffer_free = device_buffer_free,
    .load = device_load,
    .units = device_units,
    .compute = device_compute,
    .finish = device_finish,
    .open_file = gds_file_open,
    .close_file = gds_file_close,
};
