/*
 * lanes_body.h - the functions of lanes.h for one kind of vector; included by lanes.c several
 * times, with LANES_VECTOR (bytes of a vector), LANES_TARGET (the attribute that allows it),
 * LANES_NAME(f), and LANES_LOW(a, b) and LANES_HIGH(a, b), which zip the lower and the higher
 * halves of two vectors.
 */
#define VEC LANES_NAME(vec)
#define LOOSE LANES_NAME(loose)
#define PAIR LANES_NAME(pair)
#define AT(p) (*(VEC *)(p))
#define LOOSE_AT(p) (*(const LOOSE *)(p))
#define INLINE static inline LANES_TARGET __attribute__((always_inline))

typedef float VEC __attribute__((vector_size(LANES_VECTOR), may_alias));
typedef float LOOSE __attribute__((vector_size(LANES_VECTOR), may_alias, aligned(4)));
typedef struct {
    VEC re, im;
} PAIR;
enum { LANES_NAME(wide) = LANES_VECTOR / sizeof(float) };
#define WIDE ((int)LANES_NAME(wide))

/* Four vectors at a time, so that additions need not wait for each other. */
static LANES_TARGET void LANES_NAME(smooth)(const float *const *rows, const float *weights,
                                            int radius, float *out, size_t step)
{
    for (int k = 0; k < LANES_STRIP; k += 4 * WIDE) {
        VEC sum[4];
        for (int v = 0; v < 4; v++)
            sum[v] = weights[0] * LOOSE_AT(rows[radius] + k + v * WIDE);
        for (int t = 1; t <= radius; t++)
            for (int v = 0; v < 4; v++)
                sum[v] += weights[t] * (LOOSE_AT(rows[radius - t] + k + v * WIDE) +
                                        LOOSE_AT(rows[radius + t] + k + v * WIDE));
        for (int v = 0; v < 4; v++) {
            const int column = k + v * WIDE;
            AT(out + (size_t)(column / LANES) * step + column % LANES) = sum[v];
        }
    }
}

/* --- the complex transform: decimation in frequency, in place, output in digit-reversed order ---
 */

INLINE PAIR LANES_NAME(load)(const float *p)
{
    return (PAIR){AT(p), AT(p + LANES)};
}

INLINE void LANES_NAME(store)(float *p, PAIR z)
{
    AT(p) = z.re;
    AT(p + LANES) = z.im;
}

INLINE PAIR LANES_NAME(add)(PAIR a, PAIR b)
{
    return (PAIR){a.re + b.re, a.im + b.im};
}

INLINE PAIR LANES_NAME(sub)(PAIR a, PAIR b)
{
    return (PAIR){a.re - b.re, a.im - b.im};
}

/* z times the complex number at w. */
INLINE PAIR LANES_NAME(turn)(PAIR z, const float *w)
{
    return (PAIR){z.re * w[0] - z.im * w[1], z.im * w[0] + z.re * w[1]};
}

/* A butterfly of four. */
INLINE void LANES_NAME(four)(PAIR a, PAIR b, PAIR c, PAIR d, PAIR y[4])
{
    const PAIR ac = LANES_NAME(add)(a, c), bd = LANES_NAME(add)(b, d);
    const PAIR am = LANES_NAME(sub)(a, c), bm = LANES_NAME(sub)(b, d);
    y[0] = LANES_NAME(add)(ac, bd);
    y[1] = (PAIR){am.re + bm.im, am.im - bm.re};
    y[2] = LANES_NAME(sub)(ac, bd);
    y[3] = (PAIR){am.re - bm.im, am.im + bm.re};
}

/* Stores its four results, turned by the three twiddles at w, at p and three places q floats apart.
 */
INLINE void LANES_NAME(store_turned)(float *p, size_t q, const PAIR y[4], const float *w)
{
    LANES_NAME(store)(p, y[0]);
    LANES_NAME(store)(p + q, LANES_NAME(turn)(y[1], w));
    LANES_NAME(store)(p + 2 * q, LANES_NAME(turn)(y[2], w + 2));
    LANES_NAME(store)(p + 3 * q, LANES_NAME(turn)(y[3], w + 4));
}

/* The passes with twiddles from `size` on. Returns 2 or 4: the size of the transforms that remain.
 */
INLINE int LANES_NAME(passes)(const struct lanes_plan *plan, float *data, int size)
{
    const size_t all = (size_t)plan->n * 2 * LANES;
    const float *w = plan->twiddles + 2 * (plan->n - size);
    for (; size > 4; size /= 4) {
        const size_t q = (size_t)size / 4 * 2 * LANES;
        for (size_t j = 0; j < q; j += 2 * LANES, w += 6)
            for (float *p = data + j; p < data + all; p += 4 * q) {
                PAIR y[4];
                LANES_NAME(four)
                (LANES_NAME(load)(p), LANES_NAME(load)(p + q), LANES_NAME(load)(p + 2 * q),
                 LANES_NAME(load)(p + 3 * q), y);
                LANES_NAME(store_turned)(p, q, y, w);
            }
    }
    return size;
}

/* Value k of a ring of values, tapered. */
INLINE PAIR LANES_NAME(ring_load)(const struct lanes_ring *r, int k, int l)
{
    const int at = r->at + k < r->length ? r->at + k : r->at + k - r->length;
    const PAIR z = LANES_NAME(load)(r->values + at * 2 * LANES + l);
    return r->taper ? (PAIR){z.re * r->taper[k], z.im * r->taper[k]} : z;
}

/* The first pass, out of a ring. */
INLINE void LANES_NAME(first)(const struct lanes_plan *plan, const struct lanes_ring *r, int l,
                              float *data)
{
    const int q = plan->n / 4;
    for (int j = 0; j < q; j++) {
        PAIR y[4];
        LANES_NAME(four)
        (LANES_NAME(ring_load)(r, j, l), LANES_NAME(ring_load)(r, j + q, l),
         LANES_NAME(ring_load)(r, j + 2 * q, l), LANES_NAME(ring_load)(r, j + 3 * q, l), y);
        LANES_NAME(store_turned)
        (data + j * 2 * LANES + l, (size_t)q * 2 * LANES, y, plan->twiddles + 6 * j);
    }
}

/* The last pass, on `size` neighbours. */
INLINE void LANES_NAME(last)(const float *p, int size, PAIR y[4])
{
    if (size == 4) {
        LANES_NAME(four)
        (LANES_NAME(load)(p), LANES_NAME(load)(p + 2 * LANES), LANES_NAME(load)(p + 4 * LANES),
         LANES_NAME(load)(p + 6 * LANES), y);
        return;
    }
    const PAIR a = LANES_NAME(load)(p), b = LANES_NAME(load)(p + 2 * LANES);
    y[0] = LANES_NAME(add)(a, b);
    y[1] = LANES_NAME(sub)(a, b);
}

INLINE void LANES_NAME(power_of)(const struct lanes_plan *plan, float *data, int size, float *power)
{
    for (int k = 0; k < plan->n; k += size) {
        PAIR y[4];
        LANES_NAME(last)(data + k * 2 * LANES, size, y);
        for (int r = 0; r < size; r++)
            AT(power + (k + r) * LANES) = y[r].re * y[r].re + y[r].im * y[r].im;
    }
}

static LANES_TARGET void LANES_NAME(power)(const struct lanes_plan *plan,
                                           const struct lanes_ring *ring, int lanes, float *data,
                                           float *power)
{
    for (int l = 0; l < lanes; l += WIDE) {
        LANES_NAME(first)(plan, ring, l, data);
        if (LANES_NAME(passes)(plan, data + l, plan->n / 4) == 4)
            LANES_NAME(power_of)(plan, data + l, 4, power + l);
        else
            LANES_NAME(power_of)(plan, data + l, 2, power + l);
    }
}

/* --- columns of real values --- */

INLINE VEC LANES_NAME(mean_of)(const float *in, int n)
{
    VEC sum[4] = {{0}};
    for (int k = 0; k < n; k += 4)
        for (int s = 0; s < 4; s++)
            sum[s] += AT(in + (k + s) * LANES);
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) * (1 / (float)n);
}

/* Even rows become real parts, odd rows imaginary ones. */
INLINE void LANES_NAME(pack)(const struct lanes_real *r, const float *in, VEC mean, float *z)
{
    const float *t = r->taper;
    for (int k = 0; k < r->n / 2; k++, z += 2 * LANES, in += 2 * LANES) {
        PAIR v = {AT(in) - mean, AT(in + LANES) - mean};
        if (t)
            v = (PAIR){v.re * t[2 * k], v.im * t[2 * k + 1]};
        LANES_NAME(store)(z, v);
    }
}

/* From the transform z of the packed values to that of the real values, in the order of frequency.
 */
INLINE void LANES_NAME(unpack)(const struct lanes_real *r, const float *z, float *x)
{
    const int m = r->n / 2;
    const VEC zero = {0};
    const PAIR first = LANES_NAME(load)(z);
    LANES_NAME(store)(x, (PAIR){first.re + first.im, zero});
    LANES_NAME(store)(x + m * 2 * LANES, (PAIR){first.re - first.im, zero});
    for (int k = 1; k <= m / 2; k++) {
        const PAIR a = LANES_NAME(load)(z + r->half.place[k] * 2 * LANES);
        const PAIR b = LANES_NAME(load)(z + r->half.place[m - k] * 2 * LANES);
        const PAIR even = {(a.re + b.re) * 0.5f, (a.im - b.im) * 0.5f};
        const PAIR odd = LANES_NAME(turn)((PAIR){(a.im + b.im) * 0.5f, (b.re - a.re) * 0.5f},
                                          r->twiddles + 2 * k);
        LANES_NAME(store)(x + k * 2 * LANES, LANES_NAME(add)(even, odd));
        LANES_NAME(store)(x + (m - k) * 2 * LANES, (PAIR){even.re - odd.re, odd.im - even.im});
    }
}

/* out[c][f] = in[f][c] for WIDE x WIDE floats, rows 2 LANES apart. Each round zips the first half
 * of the rows with the second, until every row has met every other. */
INLINE void LANES_NAME(turn_square)(const float *in, float *out)
{
    VEC a[LANES_NAME(wide)], b[LANES_NAME(wide)];
    for (int k = 0; k < WIDE; k++)
        a[k] = AT(in + k * 2 * LANES);
    for (int round = 1; round < WIDE; round *= 2) {
        for (int k = 0; k < WIDE / 2; k++) {
            b[2 * k] = LANES_LOW(a[k], a[k + WIDE / 2]);
            b[2 * k + 1] = LANES_HIGH(a[k], a[k + WIDE / 2]);
        }
        for (int k = 0; k < WIDE; k++)
            a[k] = b[k];
    }
    for (int k = 0; k < WIDE; k++)
        AT(out + k * 2 * LANES) = a[k];
}

/* One block: [frequency][part][column] to [column][part][frequency]. */
INLINE void LANES_NAME(turn_block)(const float *x, float *out)
{
    for (int part = 0; part < 2; part++)
        for (int c = 0; c < LANES; c += WIDE)
            for (int f = 0; f < LANES; f += WIDE)
                LANES_NAME(turn_square)
    (x + (2 * f + part) * LANES + c, out + (2 * c + part) * LANES + f);
}

static LANES_TARGET void LANES_NAME(columns)(const struct lanes_real *r, const float *in,
                                             float *work, float *mean, float *out,
                                             size_t block_floats)
{
    float *z = work, *x = work + r->n * LANES;
    for (int l = 0; l < LANES; l += WIDE) {
        const VEC m = LANES_NAME(mean_of)(in + l, r->n);
        AT(mean + l) = m;
        LANES_NAME(pack)(r, in + l, m, z + l);
        const int size = LANES_NAME(passes)(&r->half, z + l, r->n / 2);
        for (int k = 0; k < r->n / 2; k += size) {
            float *p = z + k * 2 * LANES + l;
            PAIR y[4];
            LANES_NAME(last)(p, size, y);
            for (int s = 0; s < size; s++)
                LANES_NAME(store)(p + s * 2 * LANES, y[s]);
        }
        LANES_NAME(unpack)(r, z + l, x + l);
    }
    for (int b = 0; b < lanes_blocks(r->n); b++)
        LANES_NAME(turn_block)(x + b * LANES * 2 * LANES, out + (size_t)b * block_floats);
}

static LANES_TARGET void LANES_NAME(steps)(const float *const *rows, int n, int32_t *down,
                                           int32_t *across)
{
    for (int k = 0; k < n; k++)
        across[k] = 0;
    for (int r = 0; r < n; r++) {
        const float *above = rows[r], *row = rows[r + 1];
        int32_t sum = 0;
        for (int k = 0; k < n; k++) {
            sum += (int32_t)__builtin_fabsf(row[k + 1] - above[k + 1]);
            across[k] += (int32_t)__builtin_fabsf(row[k + 1] - row[k]);
        }
        down[r] = sum;
    }
}

#undef VEC
#undef LOOSE
#undef PAIR
#undef AT
#undef LOOSE_AT
#undef INLINE
#undef WIDE
#undef LANES_NAME
#undef LANES_LOW
#undef LANES_HIGH
#undef LANES_TARGET
#undef LANES_VECTOR
