/* map_overlay.c - see map_picture.h. */
#include "process/map/map_picture.h"

#include "common/base/stop.h"
#include "common/base/text.h"
#include "process/draw/colours.h"
#include "process/draw/png_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL = 1 }; /* of deflate: rows repeat, so more does not help */

static int64_t height_for(int64_t w, int64_t slide_width, int64_t slide_height)
{
    const double h = (double)w * (double)slide_height / (double)slide_width;
    return h < 1 ? 1 : llround(h);
}

void map_overlay_size(int64_t slide_width, int64_t slide_height, int64_t most, int64_t *width,
                      int64_t *height)
{
    double best = INFINITY;
    most = most < slide_width ? most : slide_width;
    for (int64_t w = most; w > most - most / 8 || w == most; w--) {
        const int64_t h = height_for(w, slide_width, slide_height);
        const double off = (double)llabs(h * slide_width - w * slide_height) / (double)w;
        if (off < best) {
            best = off;
            *width = w;
            *height = h;
        }
    }
}

/* An overlay being drawn. */
struct overlay {
    const struct map_slide *m;
    struct map_rows *rows;
    struct png_file *png;
    int64_t width, height;
    int64_t *places;  /* [width]: the column of the map that a pixel shows, -1: none */
    float *values;    /* [cols] of row `have` of the map */
    uint8_t *entries; /* [cols]: their colours */
    uint8_t *row;     /* [width] */
    int64_t have;
};

/* The column or row of the map at the middle of pixel k of n along an axis of `size` px; -1: none.
 */
static int64_t place_at(int64_t k, int64_t n, int64_t size, double corner, double pitch,
                        int64_t places)
{
    const double at = ((double)k + 0.5) * (double)size / (double)n;
    const double place = floor((at - corner) / pitch);
    return place >= 0 && place < (double)places ? (int64_t)place : -1;
}

static int begin(struct overlay *o, const struct map_picture_setup *p, FILE *f, struct err *e)
{
    const struct map_slide *m = o->m;
    uint32_t palette[COLOURS_PALETTE];
    char title[1100];
    map_overlay_size(m->s.width, m->s.height, p->width, &o->width, &o->height);
    colours_palette(palette, p->opacity);
    text_fit(title, sizeof title, m->s.name, text_columns(m->s.name));
    const struct png_file_text texts[] = {{"Title", title},
                                          {"Description", map_feature_name(m, p->map)}};
    const struct png_file_setup setup = {.width = o->width,
                                         .height = o->height,
                                         .kind = PNG_FILE_PALETTE,
                                         .palette = palette,
                                         .n_palette = COLOURS_PALETTE,
                                         .rows_repeat = true,
                                         .level = LEVEL,
                                         .texts = texts,
                                         .n_texts = 2};
    o->places = malloc((size_t)o->width * sizeof *o->places);
    o->values = malloc((size_t)m->cols * sizeof *o->values);
    o->entries = malloc((size_t)m->cols);
    o->row = malloc((size_t)o->width);
    if (!o->places || !o->values || !o->entries || !o->row)
        return err_set(e, "out of memory");
    for (int64_t x = 0; x < o->width; x++)
        o->places[x] = place_at(x, o->width, m->s.width, m->left, m->pitch, m->cols);
    o->rows = map_rows_open_tissue(m, p->map, e);
    o->png = o->rows ? png_file_begin(f, &setup, e) : NULL;
    return o->png ? 0 : -1;
}

/* The colours of the row of the map that has been read; COLOURS_CLEAR where there is no value. */
static void colour_places(struct overlay *o, const struct map_picture_setup *p)
{
    for (int64_t i = 0; i < o->m->cols; i++) {
        const int k = colours_number((double)o->values[i], p->low, p->high, COLOURS_MAP);
        o->entries[i] = (uint8_t)(k < 0 ? COLOURS_CLEAR : k);
    }
}

static void draw_row(struct overlay *o, int64_t y, bool any)
{
    for (int64_t x = 0; x < o->width; x++) {
        const int64_t place = any ? o->places[x] : -1;
        o->row[x] = place < 0 ? COLOURS_CLEAR : o->entries[place];
        if (place >= 0 && o->row[x] == COLOURS_CLEAR && colours_hatch(x, y) == COLOURS_STROKE)
            o->row[x] = COLOURS_STROKE;
    }
}

static int draw(struct overlay *o, const struct map_picture_setup *p, struct err *e)
{
    const struct map_slide *m = o->m;
    for (int64_t y = 0; y < o->height; y++) {
        const int64_t place = place_at(y, o->height, m->s.height, m->top, m->pitch, m->rows);
        for (; o->have < place; o->have++) {
            if (stop_check(e) || map_rows_next(o->rows, o->values, NULL, e))
                return -1;
            if (o->have + 1 == place)
                colour_places(o, p);
        }
        draw_row(o, y, place >= 0);
        if (png_file_row(o->png, o->row, e))
            return -1;
    }
    return png_file_end(o->png, e);
}

int map_picture_overlay(const struct map_slide *m, const struct map_picture_setup *p, FILE *f,
                        struct err *e)
{
    struct overlay o = {.m = m, .have = -1};
    const int bad = begin(&o, p, f, e) || draw(&o, p, e) ? -1 : 0;
    png_file_free(o.png);
    map_rows_close(o.rows);
    free(o.places);
    free(o.values);
    free(o.entries);
    free(o.row);
    return bad;
}
