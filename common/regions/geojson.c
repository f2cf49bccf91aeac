/* geojson.c - see geojson.h. HAVE_JANSSON comes from the Makefile's probe. */
#include "common/regions/geojson.h"

#include "common/base/memory.h"
#include "common/base/stop.h"

#ifdef HAVE_JANSSON

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_FILE (INT64_C(256) << 20)
#define MOST_MEMORY ((size_t)2 << 30) /* about 10 million points */
enum { MOST_NAME = 200, MOST_LISTED = 20 };

bool geojson_works(void)
{
    return true;
}

/* --- memory: what Jansson may use --- */

static pthread_mutex_t reading_one = PTHREAD_MUTEX_INITIALIZER; /* held from the file's first byte
                                                                   until its values are freed */
static size_t memory_used;
static bool memory_refused;

union head {
    size_t bytes;
    max_align_t align;
};

static void *take(size_t bytes)
{
    memory_refused = memory_refused || bytes > MOST_MEMORY - memory_used;
    union head *h = memory_refused ? NULL : malloc(sizeof *h + bytes);
    if (!h)
        return NULL;
    h->bytes = bytes;
    memory_used += bytes;
    return h + 1;
}

static void give(void *p)
{
    union head *h = p ? (union head *)p - 1 : NULL;
    memory_used -= h ? h->bytes : 0;
    free(h);
}

/* --- the file --- */

/* NULL on failure. */
static FILE *open_file(const char *path, struct err *e)
{
    struct stat st;
    FILE *f = NULL;
    if (stat(path, &st))
        err_sys(e, "%s: cannot read", path);
    else if (!S_ISREG(st.st_mode))
        err_set(e, "%s: not a file", path);
    else if (st.st_size > MOST_FILE)
        err_set(e, "%s: larger than 256 MiB; export fewer objects", path);
    else if (!(f = fopen(path, "rbe")))
        err_sys(e, "%s: cannot read", path);
    return f;
}

/* A text on its way to Jansson. */
struct stream {
    FILE *f;
    bool in_text, escaped, minus;
};

/*
 * NaN, Infinity and -Infinity, which some programs write among measurements, are no JSON. They
 * become texts, "a" and "nfinit": outside of texts JSON has no capitals but E, and no y. So they
 * are no numbers, and wrong as coordinates. A minus is held back until it is known what follows.
 */
static size_t put_strict(struct stream *s, char c, char *out)
{
    size_t n = 0;
    if (s->minus && c != 'I')
        out[n++] = '-';
    s->minus = !s->in_text && c == '-';
    if (s->minus)
        return n;
    if (!s->in_text && (c == 'N' || c == 'I' || c == 'y')) {
        out[n++] = '"';
        return n;
    }
    out[n++] = c;
    if (s->escaped)
        s->escaped = false;
    else if (s->in_text && c == '\\')
        s->escaped = true;
    else if (c == '"')
        s->in_text = !s->in_text;
    return n;
}

/* The next bytes, for Jansson; a signal ends the text. Each byte becomes at most two. */
static size_t next_bytes(void *buffer, size_t n, void *stream)
{
    struct stream *s = stream;
    char *out = buffer;
    size_t done = 0;
    if (stop_signal())
        return (size_t)-1;
    for (int c; done + 2 <= n && (c = getc_unlocked(s->f)) != EOF;)
        done += put_strict(s, (char)c, out + done);
    return done;
}

static void skip_mark(FILE *f)
{
    char start[3];
    if (fread(start, 1, 3, f) != 3 || memcmp(start, "\xef\xbb\xbf", 3))
        rewind(f);
}

static json_t *load_json(const char *path, struct err *e)
{
    json_error_t why;
    FILE *f = open_file(path, e);
    if (!f)
        return NULL;
    skip_mark(f);
    json_set_alloc_funcs(take, give);
    memory_refused = false;
    json_t *root = json_load_callback(next_bytes, &(struct stream){.f = f}, 0, &why);
    if (root) {
        fclose(f);
        return root;
    }
    if (ferror(f))
        err_sys(e, "%s: cannot read", path);
    else if (stop_check(e))
        err_add(e, "%s", path);
    else if (memory_refused)
        err_set(e, "%s: too large: reading it takes more than 2 GiB; export fewer objects", path);
    else
        err_set(e, "%s: not valid JSON: line %d, column %d: %s; export the file again", path,
                why.line, why.column, why.text);
    fclose(f);
    return NULL;
}

/* --- polygons --- */

struct reading {
    const struct geojson_classes *classes;
    struct polygons *out;
    int64_t features; /* seen so far */
};

static int read_point(const json_t *point, double xy[2], struct err *e)
{
    for (size_t k = 0; k < 2; k++) {
        const json_t *v = json_array_get(point, k);
        if (!json_is_number(v))
            return err_set(e, "a point is not [x, y] with two numbers");
        xy[k] = json_number_value(v);
        if (!(fabs(xy[k]) <= POLYGONS_MOST_COORDINATE))
            return err_set(e, "coordinate %g is out of range", xy[k]);
    }
    return 0;
}

static int read_ring(struct reading *r, const json_t *ring, struct err *e)
{
    const size_t n = json_array_size(ring);
    double first[2], last[2], next[2];
    if (stop_check(e))
        return -1;
    if (n < 3)
        return err_set(e, "a ring of a polygon has %zu points; at least 3 are needed", n);
    if (read_point(json_array_get(ring, 0), first, e))
        return -1;
    memcpy(last, first, sizeof last);
    for (size_t k = 1; k <= n; k++) {
        if (k == n)
            memcpy(next, first, sizeof next);
        else if (read_point(json_array_get(ring, k), next, e))
            return -1;
        polygons_add_edge(r->out, last, next);
        memcpy(last, next, sizeof last);
    }
    return 0;
}

static int read_polygon(struct reading *r, const json_t *rings, struct err *e)
{
    if (!json_is_array(rings))
        return err_set(e, "a polygon without an array of coordinates");
    if (json_array_size(rings) == 0)
        return 0;
    r->out->count++;
    for (size_t k = 0; k < json_array_size(rings); k++)
        if (read_ring(r, json_array_get(rings, k), e))
            return -1;
    return 0;
}

static int read_geometry(struct reading *r, const json_t *g, struct err *e)
{
    static const char *const flat[] = {"Point", "MultiPoint", "LineString", "MultiLineString"};
    const char *type = json_string_value(json_object_get(g, "type"));
    const json_t *coordinates = json_object_get(g, "coordinates");
    size_t k;
    if (json_is_null(g))
        return 0;
    if (!type)
        return err_set(e, "a geometry without a type");
    if (!strcmp(type, "Polygon"))
        return read_polygon(r, coordinates, e);
    for (k = 0; k < sizeof flat / sizeof *flat; k++)
        if (!strcmp(type, flat[k]))
            return 0;
    const bool multi = !strcmp(type, "MultiPolygon");
    if (!multi && strcmp(type, "GeometryCollection"))
        return err_set(e, "unknown geometry \"%.40s\"", type);
    const json_t *list = multi ? coordinates : json_object_get(g, "geometries");
    if (!json_is_array(list))
        return err_set(e, "%s without an array of parts", type);
    for (k = 0; k < json_array_size(list); k++)
        if (multi ? read_polygon(r, json_array_get(list, k), e)
                  : read_geometry(r, json_array_get(list, k), e))
            return -1;
    return 0;
}

/* --- features --- */

static void append(char name[MOST_NAME], const char *more)
{
    const size_t n = strlen(name);
    snprintf(name + n, MOST_NAME - n, "%s%s", n ? ": " : "", more);
}

/* The feature's class; "" if it has none. Names are cut after MOST_NAME - 1 bytes. */
static void class_of(const json_t *feature, char name[MOST_NAME])
{
    const json_t *c = json_object_get(json_object_get(feature, "properties"), "classification");
    const json_t *one = json_is_string(c) ? c : json_object_get(c, "name");
    const json_t *parts = json_object_get(c, "names");
    name[0] = 0;
    if (json_is_string(one)) {
        append(name, json_string_value(one));
        return;
    }
    for (size_t k = 0; k < json_array_size(parts); k++)
        if (json_is_string(json_array_get(parts, k)))
            append(name, json_string_value(json_array_get(parts, k)));
}

static bool is_wanted(const struct geojson_classes *c, const char *name)
{
    for (int k = 0; k < c->n; k++)
        if (!strcmp(c->names[k], name))
            return true;
    return c->n == 0;
}

static int read_feature(struct reading *r, const json_t *feature, struct err *e)
{
    char name[MOST_NAME];
    const int64_t number = ++r->features;
    class_of(feature, name);
    const json_t *g = json_object_get(feature, "geometry");
    if (!is_wanted(r->classes, name) || !g)
        return 0;
    return read_geometry(r, g, e) ? err_add(e, "feature %" PRId64, number) : 0;
}

/* Anything that a file may hold. */
static int read_any(struct reading *r, const json_t *any, struct err *e)
{
    const char *type = json_string_value(json_object_get(any, "type"));
    const bool collection = type && !strcmp(type, "FeatureCollection");
    const json_t *list = collection ? json_object_get(any, "features") : any;
    if (collection || json_is_array(any)) {
        if (!json_is_array(list))
            return err_set(e, "a FeatureCollection without an array of features");
        for (size_t k = 0; k < json_array_size(list); k++)
            if (read_any(r, json_array_get(list, k), e))
                return -1;
        return 0;
    }
    if (!type)
        return err_set(e, "not GeoJSON: an object without a type");
    if (!strcmp(type, "Feature"))
        return read_feature(r, any, e);
    return r->classes->n > 0 ? 0 : read_geometry(r, any, e);
}

/* --- the message about no polygon --- */

struct listed {
    char names[MOST_LISTED][MOST_NAME];
    int n;
    bool more;
};

static void list_classes(struct listed *l, const json_t *any)
{
    const json_t *features = json_is_array(any) ? any : json_object_get(any, "features");
    char name[MOST_NAME];
    int at = 0;
    for (size_t k = 0; k < json_array_size(features); k++)
        list_classes(l, json_array_get(features, k));
    class_of(any, name);
    while (at < l->n && strcmp(l->names[at], name))
        at++;
    if (!*name || at < l->n)
        return;
    l->more = l->more || l->n == MOST_LISTED;
    if (l->n < MOST_LISTED)
        memcpy(l->names[l->n++], name, sizeof name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int no_polygon(const char *path, const struct geojson_classes *c, const json_t *root,
                      struct err *e)
{
    struct listed *l = memory_need(1, sizeof *l);
    char text[800] = "";
    if (c->n == 0) {
        free(l);
        return err_set(e, "%s: has no polygon; draw regions as areas and export them", path);
    }
    list_classes(l, root);
    qsort(l->names, (size_t)l->n, sizeof l->names[0], by_text);
    for (int k = 0; k < l->n; k++) {
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s", k ? ", " : "", l->names[k]);
    }
    const bool none = l->n == 0, more = l->more;
    free(l);
    return err_set(e, "%s: has no polygon of class %s%s; %s%s%s", path, c->names[0],
                   c->n > 1 ? " or the others named" : "",
                   none ? "its objects have no class" : "its classes are: ", text,
                   more ? ", ..." : "");
}

int geojson_read(const char *path, const struct geojson_classes *classes, struct polygons *p,
                 struct err *e)
{
    *p = POLYGONS_NONE;
    struct reading r = {.classes = classes, .out = p};
    pthread_mutex_lock(&reading_one);
    json_t *root = load_json(path, e);
    int bad = !root;
    if (!bad && read_any(&r, root, e))
        bad = err_add(e, "%s", path);
    if (!bad && p->count == 0)
        bad = no_polygon(path, classes, root, e);
    json_decref(root);
    pthread_mutex_unlock(&reading_one);
    if (!bad)
        return 0;
    polygons_free(p);
    return -1;
}

#else

bool geojson_works(void)
{
    return false;
}

int geojson_read(const char *path, const struct geojson_classes *classes, struct polygons *p,
                 struct err *e)
{
    (void)classes;
    *p = POLYGONS_NONE;
    return err_set(e,
                   "%s: this build cannot read GeoJSON: Jansson was missing; install it "
                   "(libjansson-dev) and build again",
                   path);
}

#endif
