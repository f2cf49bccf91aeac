/* fuzz_store.c - a patch store from bytes: all that h5spec verify, h5spec info and wsi2h5 read. */
#include "common/store/store_read.h"
#include "process/commands/verify.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void read_store(const char *path)
{
    struct err e = {0};
    struct store *s = store_open(path, &e);
    struct store_extras extras;
    struct store_tissue tissue = {0};
    if (!s)
        return;
    const struct store_info *i = store_info(s);
    FUZZ_MUST(store_check_info(i, &e) == 0);
    store_read_extras(s, &extras, &e);
    if (store_read_tissue(s, &tissue, &e) > 0)
        for (int64_t k = 0; k < tissue.cols * tissue.rows; k++)
            FUZZ_MUST(tissue.mask[k] <= 1);
    free(tissue.mask);
    store_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct verify_options options = {.threads = 1};
    char path[FUZZ_PATH];
    struct verify_report report;
    struct store_info info;
    struct err e = {0};
    fuzz_file(data, n, path);
    if (store_is(path)) {
        read_store(path);
        fuzz_accepted += verify_store(path, &options, &report, &e) == 0;
    }
    store_look(path, &info, &e);
    return 0;
}
