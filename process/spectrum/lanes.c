/* lanes.c - plans, and the variants of lanes_body.h; see lanes.h. */
#include "process/spectrum/lanes.h"

#include <math.h>
#include <stdlib.h>

/* LANES_MIX(a, b, numbers...): elements of a and, after these, of b. gcc 12 has clang's name. */
#if defined(__clang__) || __GNUC__ >= 12
#define LANES_MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define LANES_MIX(a, b, ...)                                                                       \
    __builtin_shuffle(a, b, (int __attribute__((vector_size(sizeof(a))))){__VA_ARGS__})
#endif

#define LANES_VECTOR 16
#define LANES_TARGET
#define LANES_NAME(f) f##_plain
#define LANES_LOW(a, b) LANES_MIX(a, b, 0, 4, 1, 5)
#define LANES_HIGH(a, b) LANES_MIX(a, b, 2, 6, 3, 7)
#include "common/base/memory.h"
#include "process/spectrum/lanes_body.h"

#ifdef __x86_64__
#define LANES_VECTOR 32
#define LANES_TARGET __attribute__((target("avx2")))
#define LANES_NAME(f) f##_avx2
#define LANES_LOW(a, b) LANES_MIX(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define LANES_HIGH(a, b) LANES_MIX(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#include "process/spectrum/lanes_body.h"

#define LANES_VECTOR 64
#define LANES_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw")))
#define LANES_NAME(f) f##_avx512
#define LANES_LOW(a, b) LANES_MIX(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define LANES_HIGH(a, b)                                                                           \
    LANES_MIX(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#include "process/spectrum/lanes_body.h"
#endif

const struct lanes *lanes_variant(int k)
{
    static const struct lanes variants[] = {
        {"plain", smooth_plain, columns_plain, power_plain, steps_plain},
#ifdef __x86_64__
        {"avx2", smooth_avx2, columns_avx2, power_avx2, steps_avx2},
        {"avx512", smooth_avx512, columns_avx512, power_avx512, steps_avx512},
#endif
    };
    int n = 1;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        n = 2;
    if (n == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        n = 3;
#endif
    return k < n ? &variants[k] : NULL;
}

const struct lanes *lanes_best(void)
{
    int k = 0;
    while (lanes_variant(k + 1))
        k++;
    return lanes_variant(k);
}

/* The index of frequency k after a transform of `size`: its digits in reverse order. */
static int place_of(int k, int size)
{
    return size <= 2 ? k : k % 4 * (size / 4) + place_of(k / 4, size / 4);
}

static void root_of_unity(float *w, double k, double n)
{
    w[0] = (float)cos(2 * M_PI * k / n);
    w[1] = (float)-sin(2 * M_PI * k / n);
}

void lanes_plan_create(struct lanes_plan *p, int n)
{
    *p = (struct lanes_plan){.n = n};
    p->twiddles = memory_need((size_t)n, 2 * sizeof(float)); /* 6 (n / 4 + n / 16 + ...) at most */
    p->place = memory_need((size_t)n, sizeof(int));
    float *w = p->twiddles;
    for (int size = n; size > 4; size /= 4)
        for (int j = 0; j < size / 4; j++)
            for (int t = 1; t < 4; t++, w += 2)
                root_of_unity(w, t * j, size);
    for (int k = 0; k < n; k++)
        p->place[k] = place_of(k, n);
}

void lanes_plan_free(struct lanes_plan *p)
{
    free(p->twiddles);
    free(p->place);
    *p = (struct lanes_plan){0};
}

void lanes_real_create(struct lanes_real *r, int n, const float *taper)
{
    *r = (struct lanes_real){.n = n, .taper = taper};
    lanes_plan_create(&r->half, n / 2);
    r->twiddles = memory_need((size_t)n / 4 + 1, 2 * sizeof(float));
    for (int k = 0; k <= n / 4; k++)
        root_of_unity(r->twiddles + 2 * k, k, n);
}

void lanes_real_free(struct lanes_real *r)
{
    lanes_plan_free(&r->half);
    free(r->twiddles);
    *r = (struct lanes_real){0};
}
