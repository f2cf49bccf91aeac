/* cufft.c - see cufft.h. */
#include "cuda/cufft.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT(x) #x
#define NUMBER(x) TEXT(x)
#define LIBRARY "libcufft.so." NUMBER(CUFFT_VER_MAJOR)

/* After the linker's own folders. A relative one begins at the program: in a Python environment
 * NVIDIA's packages lie beside it. */
static const char *const folders[] = {
    "/usr/local/cuda/lib64",
    "../lib/python3*/site-packages/nvidia/*/lib",
};

static void *open_first(const char *pattern)
{
    glob_t g;
    void *library = NULL;
    if (glob(pattern, 0, NULL, &g))
        return NULL;
    for (size_t k = 0; k < g.gl_pathc && !library; k++)
        library = dlopen(g.gl_pathv[k], RTLD_NOW | RTLD_LOCAL);
    globfree(&g);
    return library;
}

static void *find_library(void)
{
    char program[2048] = "", pattern[4096];
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash = n > 0 ? strrchr(program, '/') : NULL;
    if (slash)
        slash[1] = 0;
    for (size_t k = 0; k < sizeof folders / sizeof *folders && !library; k++) {
        snprintf(pattern, sizeof pattern, "%s%s/" LIBRARY, *folders[k] == '/' ? "" : program,
                 folders[k]);
        library = open_first(pattern);
    }
    return library;
}

/* C has no conversion from void * to a pointer to a function. */
static bool find(void *library, const char *name, void *function)
{
    void *p = dlsym(library, name);
    memcpy(function, &p, sizeof p);
    return p;
}

const struct cufft *cufft_load(struct err *e)
{
    static struct cufft c;
    static bool loaded;
    void *l = loaded ? NULL : find_library();
    loaded = loaded ||
             (l && find(l, "cufftCreate", &c.create) && find(l, "cufftDestroy", &c.destroy) &&
              find(l, "cufftSetAutoAllocation", &c.set_auto_allocation) &&
              find(l, "cufftMakePlanMany", &c.make_plan_many) &&
              find(l, "cufftSetWorkArea", &c.set_work_area) &&
              find(l, "cufftSetStream", &c.set_stream) && find(l, "cufftExecR2C", &c.exec_r2c));
    if (loaded)
        return &c;
    err_set(e, LIBRARY " is not found, and these windows need it (the fused kernel takes 256 px at "
                       "stride 128 or 64): install cuFFT, set LD_LIBRARY_PATH to its folder, or "
                       "compute with --device cpu");
    return NULL;
}
