/* axis.c - see axis.h. */
#include "process/draw/axis.h"

#include <math.h>
#include <string.h>

double axis_step(double span, int most)
{
    static const double factors[] = {1, 2, 5};
    const double least = span / most;
    double power = pow(10, floor(log10(least)) - 1);
    for (;; power *= 10)
        for (int k = 0; k < 3; k++)
            if (factors[k] * power >= least * (1 - 1e-9))
                return factors[k] * power;
}

double axis_px(const struct axis *a, double value)
{
    const double t = (value - a->low) / (a->high - a->low);
    return a->from + fmin(fmax(t, 0), 1) * (a->to - a->from);
}

const char *axis_number(char out[64], double value, int digits)
{
    char plain[48];
    snprintf(plain, sizeof plain, "%.*f", digits, value);
    const size_t whole = strcspn(plain, "."), sign = plain[0] == '-';
    size_t n = 0;
    for (size_t k = 0; plain[k]; k++) {
        if (k > sign && k < whole && (whole - k) % 3 == 0)
            out[n++] = ',';
        out[n++] = plain[k];
    }
    out[n] = 0;
    return out;
}

static int digits_of(double step)
{
    const int digits = (int)ceil(-log10(step) - 1e-9);
    return digits < 0 ? 0 : digits > 9 ? 9 : digits;
}

int axis_tick(const struct axis *a, int k, double *value, char label[64])
{
    *value = a->step * (ceil(a->low / a->step - 1e-9) + k);
    if (*value > a->high + 1e-9 * a->step)
        return 0;
    if (fabs(*value) < 1e-9 * a->step)
        *value = 0;
    axis_number(label, *value, digits_of(a->step));
    return 1;
}

void axis_draw_below(struct svg *s, const struct axis *a, double y, double end)
{
    char label[64];
    double value;
    for (int k = 0; axis_tick(a, k, &value, label); k++) {
        const double x = axis_px(a, value);
        if (end < y)
            svg_line(s, "grid", x, y, x, end);
        svg_line(s, "tick", x, y, x, y + 5);
        svg_text(s, "middle", x, y + 19, label);
    }
}

void axis_draw_left(struct svg *s, const struct axis *a, double x, double end)
{
    char label[64];
    double value;
    for (int k = 0; axis_tick(a, k, &value, label); k++) {
        const double y = axis_px(a, value);
        if (end > x)
            svg_line(s, "grid", x, y, end, y);
        svg_line(s, "tick", x - 5, y, x, y);
        svg_text(s, "end", x - 9, y + 4.5, label);
    }
}

void axis_draw_right(struct svg *s, const struct axis *a, double x)
{
    char label[64];
    double value;
    for (int k = 0; axis_tick(a, k, &value, label); k++) {
        const double y = axis_px(a, value);
        svg_line(s, "tick", x, y, x + 5, y);
        svg_text(s, "", x + 9, y + 4.5, label);
    }
}
