/* slide_info.c - see slide_info.h. */
#include "convert/readers/slide_info.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double LEAST_MPP = 0.02, RESOLVED_MPP = 0.05, MOST_MPP = 50;

static bool has(double mpp)
{
    return isnan(mpp) || (mpp >= LEAST_MPP && mpp <= MOST_MPP);
}

static void add_mpp_note(struct slide_info *i, double mpp, const char *what)
{
    const size_t n = strlen(i->note);
    snprintf(i->note + n, sizeof i->note - n, "%sit states %.6g um per px, %s", n ? "; " : "", mpp,
             what);
}

void slide_check_mpp(struct slide_info *i)
{
    const double wrong = has(i->mpp_x) ? i->mpp_y : i->mpp_x;
    if (!has(wrong)) { /* such as a resolution for print, or a number in another unit */
        add_mpp_note(i, wrong,
                     "which no scanner has (0.02 to 50), so it is unknown; --mpp-override X gives "
                     "it");
        i->mpp_x = i->mpp_y = NAN;
    } else if (i->mpp_x < RESOLVED_MPP || i->mpp_y < RESOLVED_MPP)
        add_mpp_note(i, fmin(i->mpp_x, i->mpp_y),
                     "which no light microscope resolves; if it is wrong, --mpp-override X "
                     "replaces it");
}

int slide_reject_level(int64_t levels, int64_t level, struct err *e)
{
    if (levels == 1)
        return err_set(e, "has only level 0; --level %" PRId64 " is out of range", level);
    return err_set(e, "has levels 0 to %" PRId64 "; --level %" PRId64 " is out of range",
                   levels - 1, level);
}
