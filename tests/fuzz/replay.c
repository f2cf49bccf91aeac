/* replay.c - runs a fuzz target over files, without libFuzzer: "fuzz_NAME FILE...". */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

static void replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    FUZZ_MUST(f && !fseek(f, 0, SEEK_END));
    const long size = ftell(f);
    FUZZ_MUST(size >= 0);
    uint8_t *bytes = malloc((size_t)size + 1);
    rewind(f);
    FUZZ_MUST(bytes && fread(bytes, 1, (size_t)size, f) == (size_t)size);
    fclose(f);
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
}

int main(int argc, char **argv)
{
    for (int k = 1; k < argc; k++) {
        fprintf(stderr, "%s\n", argv[k]); /* names the input that crashes */
        replay(argv[k]);
    }
    fprintf(stderr, "%d accepted\n", fuzz_accepted);
    return 0;
}
