/*
 * slide_damage.h - damage of a slide, and errors that may pass.
 */
#ifndef WSI_SLIDE_DAMAGE_H
#define WSI_SLIDE_DAMAGE_H

#include <stdbool.h>

/*
 * The file holds something that cannot be read, and e says what. This is damage of the slide. In
 * contrast -1 is an error that may pass: no memory, no descriptors, a failing disk. An error that
 * passes must never be recorded as damage.
 */
enum { SLIDE_DAMAGED = -2 };

/* Is this errno of a failed call an error that may pass, rather than damage? Set errno to 0 before
 * the call: OpenSlide and libtiff do not report the cause. */
bool slide_may_pass(int code);

#endif
