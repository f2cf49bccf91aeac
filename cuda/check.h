/*
 * check.h - the one way to call CUDA, and what a failure means: a device that has failed is not
 * used again, and every later use fails with the first message.
 */
#ifndef WSI_CHECK_H
#define WSI_CHECK_H

#include "common/base/err.h"

#include <cuda_runtime.h>

/* A device as error messages name it. */
struct check_device {
    int number;
    char name[64];
    cudaError_t last;     /* code of the last call that failed; atomic */
    bool failed, has_why; /* atomic */
    struct err why;
};

/* 0, or -1 with the device, the call and CUDA's own message. */
int check_result(struct check_device *d, cudaError_t result, const char *call, struct err *e);
/* -1 with the device, the call and `text`. */
int check_failed(struct check_device *d, cudaError_t code, const char *call, const char *text,
                 struct err *e);

#define CU(d, call, e) check_result((d), (call), #call, (e))

/* A thread begins to use the device. -1 if it has failed. Any thread. */
int check_enter(struct check_device *d, struct err *e);
/* The device has failed for good. The first message is kept. Returns -1. Any thread. */
int check_give_up(struct check_device *d, const struct err *e);
/* Any thread. */
bool check_alive(const struct check_device *d);

#endif
