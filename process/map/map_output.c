/* map_output.c - see map_output.h. */
#include "process/map/map_output.h"

#include "process/map/map_picture.h"
#include "process/map/map_places.h"
#include "process/map/map_tiff.h"

#include <stdlib.h>
#include <string.h>

/* What goes into a file. */
struct content {
    const struct map_setup *setup;
    struct map_done *done;
    const struct map_slide *m;
    enum map_format format;
    int maps[MAP_MOST]; /* [n] features */
    int n;
};

static int write_content(const struct content *c, struct text_file *file, struct err *e)
{
    const struct map_setup *o = c->setup;
    struct map_picture_setup p = {.map = c->maps[0],
                                  .low = o->low,
                                  .high = o->high,
                                  .width = o->width,
                                  .opacity = (int)(o->opacity * 255 + 50) / 100};
    if (!o->range)
        map_feature_range(c->m, p.map, &p.low, &p.high);
    switch (c->format) {
    case MAP_PNG: return map_picture_draw(c->m, &p, file->f, e);
    case MAP_OVERLAY: return map_picture_overlay(c->m, &p, file->f, e);
    case MAP_GEOJSON:
        if (o->class_name)
            return map_write_regions(c->m, o, c->maps[0], file->f, e);
        return map_write_geojson(c->m, c->maps, c->n, file->f, e);
    case MAP_CSV: return map_write_csv(c->m, c->maps, c->n, file->f, e);
    default: return map_write_tiff(c->m, c->maps, c->n, file->publish.fd, e);
    }
}

static int write_file(const struct content *c, const char *feature, struct err *e)
{
    const char *output = c->setup->output;
    struct text_file file;
    char *path = map_format_of_file(output) >= 0
                     ? strdup(output)
                     : map_file_name(output, c->m->s.name, feature, c->format);
    if (!path)
        return err_set(e, "out of memory");
    int bad = map_file_begin(&file, path, c->format, e);
    if (!bad && write_content(c, &file, e)) {
        text_file_abort(&file);
        bad = err_add(e, "%s", path);
    } else if (!bad) {
        bad = text_file_commit(&file, e);
    }
    free(path);
    c->done->files += !bad;
    return bad;
}

static bool is_picture(enum map_format f)
{
    return f == MAP_PNG || f == MAP_OVERLAY;
}

/* One file, or for pictures one per feature. */
static int write_format(const struct content *all, struct err *e)
{
    struct content one = *all;
    if (!is_picture(all->format))
        return write_file(all, NULL, e);
    one.n = 1;
    for (int k = 0; k < all->n; k++) {
        one.maps[0] = all->maps[k];
        if (write_file(&one, map_feature_name(all->m, all->maps[k]), e))
            return -1;
    }
    return 0;
}

int map_output(const struct map_setup *setup, const struct map_slide *m, const int *maps, int n,
               struct map_done *done, struct err *e)
{
    struct content c = {.setup = setup, .done = done, .m = m, .n = n};
    memcpy(c.maps, maps, (size_t)n * sizeof *maps);
    for (int f = 0; f < MAP_FORMATS; f++) {
        c.format = (enum map_format)f;
        if (setup->formats[f] && write_format(&c, e))
            return -1;
    }
    done->slides++;
    return 0;
}
