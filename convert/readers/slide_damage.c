/* slide_damage.c - see slide_damage.h. */
#include "convert/readers/slide_damage.h"

#include <errno.h>

/* EAGAIN is not among them: files never give it, and locks inside OpenSlide leave it behind. */
bool slide_may_pass(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOMEM || code == EIO || code == ESTALE ||
           code == EACCES || code == EPERM || code == EINTR || code == ETIMEDOUT;
}
