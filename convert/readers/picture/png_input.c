/* png_input.c - see png_input.h. */
#ifdef HAVE_PNG
#include "convert/readers/picture/png_input.h"

#include <stdint.h>
#include <stdlib.h>

enum { MOST_ROWS = INT32_MAX, MOST_PROFILE = 8 << 20 };

static void ignore(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static png_voidp give(png_structp png, png_alloc_size_t n)
{
    void *p = malloc(n);
    if (!p)
        *(bool *)png_get_mem_ptr(png) = true;
    return p;
}

static void take_back(png_structp png, png_voidp p)
{
    (void)png;
    free(p);
}

int png_input_open(png_structp *png, png_infop *info, void *owner, png_error_ptr fail,
                   bool *no_memory)
{
    *info = NULL;
    *png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, owner, fail, ignore, no_memory, give,
                                    take_back);
    if (!*png || !(*info = png_create_info_struct(*png)))
        return -1;
    png_set_user_limits(*png, PNG_INPUT_MOST_SIDE, MOST_ROWS);
    png_set_keep_unknown_chunks(*png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* all that can be left */
    png_set_keep_unknown_chunks(*png, PNG_HANDLE_CHUNK_NEVER, (png_const_bytep) "eXIf", 1);
    png_set_keep_unknown_chunks(*png, PNG_HANDLE_CHUNK_AS_DEFAULT, (png_const_bytep) "iCCP\0pHYs",
                                2);
    png_set_chunk_malloc_max(*png, MOST_PROFILE);
    png_set_chunk_cache_max(*png, 1); /* none */
    return 0;
}

#endif
