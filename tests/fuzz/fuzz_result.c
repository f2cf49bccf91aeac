/* fuzz_result.c - a result from bytes: everything that h5spec verify, info, plot and merge read. */
#include "common/result/result.h"
#include "common/result/result_read.h"
#include "tests/fuzz/fuzz.h"

static void read_slides(struct result *r)
{
    struct err e = {0};
    for (int64_t k = 0; k < result_slides(r); k++) {
        struct result_slide s = {0};
        if (result_load_slide(r, k, &s, &e) == 0)
            FUZZ_MUST(s.nx >= 0 && s.ny >= 0 && s.counts.windows <= s.nx * s.ny);
        result_slide_free(&s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[FUZZ_PATH];
    struct err e = {0};
    fuzz_file(data, n, path);
    struct result *r = result_is(path) ? result_open(path, &e) : NULL;
    if (r) {
        FUZZ_MUST(result_check_params(result_params(r), &e) == 0);
        read_slides(r);
        result_close(r);
        fuzz_accepted += result_check(path, &e) == 0;
    }
    result_check_target(path, &e);
    return 0;
}
