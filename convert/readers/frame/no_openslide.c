/*
 * no_openslide.c - stands in for slide_metadata.c and slide_openslide.c in a build without
 * OpenSlide. Such a build reads the formats that do not need it (slide.c), and describes slides
 * from their own directories and headers.
 */
#include "convert/readers/frame/slide_metadata.h"
#include "convert/readers/frame/slide_reader.h"

const struct slide_reader slide_openslide = {.name = "openslide"};

bool slide_metadata_available(void)
{
    return false;
}

const char *slide_metadata_library(void)
{
    return "no OpenSlide";
}

int slide_metadata_open(struct slide_metadata **m, const struct slide_file *file, int64_t level,
                        struct slide_info *info, struct err *e)
{
    (void)m, (void)file, (void)level, (void)info, (void)e;
    return 0;
}

void slide_metadata_close(struct slide_metadata *m)
{
    (void)m;
}

int slide_metadata_properties(struct slide *s,
                              int (*put)(void *ctx, const char *key, const char *value), void *ctx)
{
    (void)s, (void)put, (void)ctx;
    return 0;
}

int slide_metadata_thumbnail(struct slide *s, uint8_t **rgb, int64_t *width, int64_t *height,
                             struct err *e)
{
    (void)s, (void)rgb, (void)width, (void)height, (void)e;
    return 0;
}

int slide_metadata_confirm(const struct slide_metadata *m, struct err *e)
{
    (void)m, (void)e;
    return 0;
}

int slide_metadata_icc(struct slide *s, uint8_t **profile, size_t *bytes, struct err *e)
{
    (void)s, (void)profile, (void)bytes, (void)e;
    return 0;
}
