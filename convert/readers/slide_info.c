/* slide_info.c - see slide_info.h. */
#include "convert/readers/slide_info.h"

#include <inttypes.h>

int slide_reject_level(int64_t levels, int64_t level, struct err *e)
{
    if (levels == 1)
        return err_set(e, "has only level 0; --level %" PRId64 " is out of range", level);
    return err_set(e, "has levels 0 to %" PRId64 "; --level %" PRId64 " is out of range",
                   levels - 1, level);
}
