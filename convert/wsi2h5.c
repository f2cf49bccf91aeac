/*
 * wsi2h5.c - main of wsi2h5. arguments.h reads the command line, batch.h does the work.
 */
#include "common/base/cli.h"
#include "common/hdf5/h5_library.h"
#include "convert/arguments.h"
#include "convert/batch.h"

#include <malloc.h>

int main(int argc, char **argv)
{
    struct arguments o;
    int first;
    cli_start("wsi2h5");
    /* The libraries allocate and free areas of some 100 KiB for every tile. Without this the kernel
     * clears their pages anew each time. */
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
    mallopt(M_TRIM_THRESHOLD, 32 << 20);
    int status = arguments_parse(argc, argv, &o, &first);
    if (status < 0)
        status = batch_run(&o, argc, argv, first);
    h5_exit(cli_finish(status));
}
