/* weights.c - see weights.h. */
#include "process/scores/weights.h"

#include <math.h>

#define PI 3.14159265358979323846
#define HIGH 4096.0 /* of cos and gauss */
#define LOW 4.0     /* the least of gauss */

static const char *const names[WEIGHTS_KINDS] = {"none", "box", "tent", "cos", "gauss"};

const char *weights_name(enum weights w)
{
    return names[w];
}

int64_t weights_of_cell(enum weights w, int64_t m, int64_t k)
{
    const double at = (double)m, n = (double)k;
    switch (w) {
    case WEIGHTS_TENT: return 2 * m + 1 < 2 * k - 2 * m - 1 ? 2 * m + 1 : 2 * k - 2 * m - 1;
    case WEIGHTS_COS: return llround(HIGH * pow(sin(PI * (at + 0.5) / n), 2));
    case WEIGHTS_GAUSS: {
        const double z = (at - (n - 1) / 2) / (n / 8);
        const int64_t v = llround(HIGH * exp(-z * z / 2));
        return v > (int64_t)LOW ? v : (int64_t)LOW;
    }
    default: return 1;
    }
}

/* The integral of max(LOW, HIGH exp(-z^2 / 2)), z = (q - n/2) / (n/8), over q = 0 .. p <= n/2. */
static double left_of_gauss(double p, double n)
{
    const double sigma = n / 8, bend = sqrt(2 * log(HIGH / LOW)); /* |z| beyond it: LOW */
    const double z = (p - n / 2) / sigma, first = n / 2 - bend * sigma;
    if (p <= first)
        return LOW * p;
    return LOW * first + HIGH * sigma * sqrt(PI / 2) * (erf(z / sqrt(2)) + erf(bend / sqrt(2)));
}

int64_t weights_before(enum weights w, int64_t p, int64_t n)
{
    const double at = (double)p, size = (double)n;
    const int64_t rest = n - p;
    switch (w) {
    case WEIGHTS_TENT: return p <= rest ? p * p : n / 2 * (n / 2) * 2 + n % 2 * n - rest * rest;
    case WEIGHTS_COS: return llround(HIGH * (at / 2 - size * sin(2 * PI * at / size) / (4 * PI)));
    case WEIGHTS_GAUSS:
        if (p <= rest)
            return llround(left_of_gauss(at, size));
        return llround(2 * left_of_gauss(size / 2, size) - left_of_gauss((double)rest, size));
    default: return p;
    }
}
