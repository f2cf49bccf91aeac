/* spectrum_cuda.cu - the CUDA backend: a lane a device; see device.h for what one does. */
#include "cuda/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 64 };

struct spectrum {
    struct device *devices[MOST_DEVICES];
    int lanes;
    char name[128];
};

static void cuda_close(struct spectrum *b)
{
    for (int k = 0; b && k < b->lanes; k++)
        device_close(b->devices[k]);
    free(b);
}

/* The numbers in "0,1"; all devices for "". */
static int parse_devices(const char *text, int count, int *numbers, int *n, struct err *e)
{
    for (*n = 0; !*text && *n < count && *n < MOST_DEVICES; ++*n)
        numbers[*n] = *n;
    while (*text) {
        char *end;
        const long k = strtol(text, &end, 10);
        if (end == text || (*end && (*end != ',' || !end[1])))
            return err_set(e, "cuda:%s: not numbers of devices", text);
        if (k < 0 || k >= count)
            return err_set(e, "there is no device cuda:%ld: this machine has %d, cuda:0%s%.0d", k, count,
                           count > 1 ? " to cuda:" : "", count > 1 ? count - 1 : 0);
        for (int i = 0; i < *n; i++)
            if (numbers[i] == (int)k)
                return err_set(e, "device cuda:%ld is named twice", k);
        if (*n == MOST_DEVICES)
            return err_set(e, "too many devices");
        numbers[(*n)++] = (int)k;
        text = *end ? end + 1 : end;
    }
    return 0;
}

static int cuda_open(struct spectrum **out, const char *devices, const struct result_params *p, int threads,
                     struct err *e)
{
    int numbers[MOST_DEVICES], n;
    const int count = device_count(e);
    (void)threads;
    *out = NULL;
    if (count == 0 || parse_devices(devices, count, numbers, &n, e))
        return -1;
    struct spectrum *b = (struct spectrum *)calloc(1, sizeof *b);
    if (!b)
        return err_set(e, "out of memory");
    for (; b->lanes < n; b->lanes++)
        if (device_open(&b->devices[b->lanes], numbers[b->lanes], p, e)) {
            device_close(b->devices[b->lanes]);
            cuda_close(b);
            return -1;
        }
    if (n == 1)
        snprintf(b->name, sizeof b->name, "%s", device_name(b->devices[0]));
    else
        snprintf(b->name, sizeof b->name, "%d x %s", n, device_name(b->devices[0]));
    *out = b;
    return 0;
}

static int cuda_lanes(const struct spectrum *b)
{
    return b->lanes;
}

static bool cuda_alive(const struct spectrum *b, int lane)
{
    return device_alive(b->devices[lane]);
}

static const char *cuda_device(const struct spectrum *b)
{
    return b->name;
}

static const char *cuda_kernel(const struct spectrum *b)
{
    return device_kernel(b->devices[0]);
}

static bool cuda_fits(const struct spectrum *b, const struct spectrum_slide *s, size_t slot_bytes)
{
    return device_fits(b->devices[s->lane], s, slot_bytes);
}

static int cuda_reserve(struct spectrum *b, const struct spectrum_slide *s, size_t slot_bytes, struct err *e)
{
    return device_reserve(b->devices[s->lane], s, slot_bytes, e);
}

static bool cuda_slot_free(const struct spectrum *b, int lane, int k)
{
    return device_slot_free(b->devices[lane], k);
}

static int cuda_slot(struct spectrum *b, int lane, int k, void **memory, struct err *e)
{
    return device_slot(b->devices[lane], k, memory, e);
}

static int64_t cuda_parts(const struct spectrum *b, const struct spectrum_slab *s)
{
    (void)b, (void)s;
    return 1; /* also a slab that completes no window must reach the device */
}

static int cuda_run(struct spectrum *b, const struct spectrum_slab *s, int64_t k, int thread,
                    struct result_counts *counts, struct err *e)
{
    (void)k, (void)thread, (void)counts; /* the device counts; cuda_finish() tells */
    return device_run(b->devices[s->slide->lane], s, e);
}

static int cuda_finish(struct spectrum *b, const struct spectrum_slide *s, struct result_counts *counts,
                       struct spectrum_times *times, struct err *e)
{
    return device_finish(b->devices[s->lane], s, counts, times, e);
}

extern "C" {
extern const struct spectrum_backend spectrum_cuda;
const struct spectrum_backend spectrum_cuda = {
    "cuda",      SPECTRUM_CHUNKS, INT64_C(768) << 20, cuda_open,    cuda_lanes,     cuda_alive,
    cuda_device, cuda_kernel,     cuda_fits,          cuda_reserve, cuda_slot_free, cuda_slot,
    cuda_parts,  cuda_run,        cuda_finish,        cuda_close,
};
}
