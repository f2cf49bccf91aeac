/* plan.c - see plan.h. */
#include "convert/plan.h"

#include "common/base/clock.h"
#include "common/base/path.h"
#include "common/store/store_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t round_up(int64_t v, int64_t to)
{
    return (v + to - 1) / to * to;
}

/* Sixteen bits of the slide's folder: enough to distinguish a changed slide from its namesake in
 * another folder, too little to find out where it was. -1: its full path cannot be found. */
static int64_t folder_tag(const char *path, struct err *e)
{
    char *real = realpath(path, NULL);
    if (!real)
        return err_sys(e, "%s: its full path cannot be found", path);
    const char *slash = strrchr(real, '/');
    const int64_t tag = slash ? codec_crc32(real, (size_t)(slash - real)) & 0xffff : 0;
    free(real);
    return tag;
}

/* Stripes of whole chunk rows, as near to the requested rows as possible; groups of whole stripes.
 */
static void plan_groups(struct store_info *i, const struct convert_options *o)
{
    const int64_t chunk_rows = (o->stripe_rows + i->chunk_rows / 2) / i->chunk_rows;
    i->stripe_rows = i->chunk_rows * (chunk_rows > 0 ? chunk_rows : 1);
    const int64_t most = round_up(i->height, i->stripe_rows) / i->stripe_rows;
    const int64_t stripe_bytes = i->stripe_rows * i->width * i->channels;
    int64_t stripes = o->group_bytes / stripe_bytes;
    stripes = stripes < 1 ? 1 : stripes > most ? most : stripes;
    i->group_rows = i->stripe_rows * stripes;
    i->group_count = (i->height + i->group_rows - 1) / i->group_rows;
}

int plan_fall_back(struct store_info *i, const struct convert_options *o, const char *reason,
                   struct err *e)
{
    if (o->strict_codec)
        return err_set(e, "codec %s is not possible (%s); rejected because of --strict-codec",
                       i->codec->name, reason);
    snprintf(i->codec_reason, sizeof i->codec_reason, "not %s: %s", i->codec->name, reason);
    i->codec = codec_find("deflate");
    return 0;
}

/* The codec that is wanted for this slide: --codec keep depends on its tiles. */
static const struct codec *wanted(const struct slide_info *s, const struct convert_options *o)
{
    return o->keep && s->is_j2k && codec_find("j2k")->offered ? codec_find("j2k") : o->codec;
}

/* Why tiles of the slide cannot be kept with this codec; "": they can, as far as known, or it keeps
 * none. */
static const char *obstacle(const struct codec *c, const struct slide_info *s,
                            const struct convert_options *o)
{
    const char *jpeg = s->no_jpeg[0] ? s->no_jpeg : "";
    const char *j2k = s->is_j2k ? "" : *jpeg ? jpeg : "its tiles are JPEG";
    const char *why = c->id == CODEC_J2K ? j2k : jpeg;
    if (!c->keeps)
        return "";
    if (*why)
        return why;
    return o->gray && !s->is_gray ? "--gray needs other pixels" : "";
}

int plan_store(const char *path, const struct stat *source, const struct slide_info *s,
               const struct convert_options *o, struct store_info *i, struct err *e)
{
    const int64_t tag = o->name ? 0 : folder_tag(path, e);
    *i = (struct store_info){.source_bytes = source->st_size,
                             .level = s->level,
                             .downsample = s->downsample,
                             .width = s->width,
                             .height = s->height,
                             .channels = o->gray || s->is_gray ? 1 : 3,
                             .mpp_x = s->mpp_x,
                             .mpp_y = s->mpp_y,
                             .objective_power = s->objective_power,
                             .bounds_x = s->bounds_x,
                             .bounds_y = s->bounds_y,
                             .chunk_rows = s->tile_rows,
                             .chunk_cols = s->tile_cols,
                             .codec = wanted(s, o),
                             .source_tag = tag,
                             .identifiers = o->keep_identifiers,
                             .tissue_only = o->tissue_only};
    if (tag < 0)
        return -1;
    snprintf(i->source_name, sizeof i->source_name, "%s", o->name ? o->name : path_base_name(path));
    snprintf(i->quickhash, sizeof i->quickhash, "%s", s->quickhash);
    snprintf(i->vendor, sizeof i->vendor, "%s", s->vendor);
    snprintf(i->reader, sizeof i->reader, "%s", s->reader);
    snprintf(i->library, sizeof i->library, "%s", s->library ? s->library : "");
    snprintf(i->interpolated, sizeof i->interpolated, "%s", s->interpolated);
    snprintf(i->tile_compression, sizeof i->tile_compression, "%s", s->tile_compression);
    snprintf(i->source_problem, sizeof i->source_problem, "%s", s->problem);
    tissue_rule_text(&o->tissue, i->tissue_rule, sizeof i->tissue_rule);
    const char *why = obstacle(i->codec, s, o);
    if (*why && plan_fall_back(i, o, why, e))
        return err_add(e, "%s", path);
    plan_groups(i, o);
    return store_check_info(i, e);
}

/* --- what exists --- */

static bool same_name(const struct store_info *a, const struct store_info *b)
{
    return !strcmp(a->source_name, b->source_name);
}

/* Do two stores come from one slide? Without a quickhash the folder counts instead. */
static bool same_source(const struct store_info *a, const struct store_info *b)
{
    const bool hashes = a->quickhash[0] && b->quickhash[0];
    return a->source_bytes == b->source_bytes && same_name(a, b) &&
           (hashes ? !strcmp(a->quickhash, b->quickhash) : a->source_tag == b->source_tag);
}

/* A store that exists, and the one that is to be made. */
struct judged {
    const struct store_info *old, *new;
    bool keep;                      /* --codec keep */
    const struct sources *sources;  /* of the new one */
    struct store_source *made_from; /* what the old one was made from */
    int64_t n_made_from;
    bool same_files; /* by name, size, time and index: wherever they lie now */
};

/*
 * Has the slide changed since the store was made? Any difference between its files and those that
 * the store was made from says so.
 */
static bool is_stale(const struct judged *j)
{
    const struct store_info *old = j->old, *new = j->new;
    return !j->same_files && same_name(old, new) &&
           (old->source_tag == new->source_tag || same_source(old, new));
}

/* Has the old store a codec that was not asked for: another than jpeg or j2k because of its slide,
 * or with --codec keep any that this stands for? */
static bool other_codec(const struct judged *j)
{
    const struct store_info *old = j->old, *new = j->new;
    const bool kept = new->codec->keeps || new->codec_reason[0];
    if (old->codec == new->codec || (kept && old->codec_reason[0]))
        return false;
    return !j->keep || (!old->codec->keeps && strcmp(old->codec->name, "deflate") != 0);
}

/* One of them has been given another resolution with --mpp-override. */
static bool other_mpp(const struct store_info *a, const struct store_info *b)
{
    return (isnan(a->mpp_x) != isnan(b->mpp_x)) || fabs(a->mpp_x - b->mpp_x) > 1e-9;
}

/* How two stores differ in an option; false when they do not. */
static bool describe_difference(const struct judged *j, struct err *e)
{
    const struct store_info *old = j->old, *new = j->new;
    if (old->level != new->level)
        err_set(e, "with --level %" PRId64, old->level);
    else if (other_mpp(old, new))
        err_set(e, "for %g um/px", old->mpp_x);
    else if (old->channels != new->channels)
        err_set(e, "%s --gray", old->channels == 1 ? "with" : "in RGB, without");
    else if (other_codec(j))
        err_set(e, "with --codec %s", old->codec->name);
    else if (old->stripe_rows != new->stripe_rows)
        err_set(e, "with --stripe-rows %" PRId64, old->stripe_rows);
    else if (old->group_rows != new->group_rows)
        err_set(e, "with another --group-bytes");
    else if (old->tissue_only != new->tissue_only)
        err_set(e, "%s --tissue-only", old->tissue_only ? "with" : "without");
    else if (strcmp(old->tissue_rule, new->tissue_rule) != 0)
        err_set(e, "with another tissue map: %s", old->tissue_rule);
    else if (old->identifiers != new->identifiers)
        err_set(e, "%s --keep-identifiers", old->identifiers ? "with" : "without");
    else
        return false;
    return true;
}

static int judge_store(const char *path, const char *target, const struct judged *j,
                       struct err *how, struct err *e)
{
    const struct store_info *old = j->old, *new = j->new;
    if (is_stale(j))
        return PLAN_REMAKE;
    if (!j->same_files && !same_source(old, new))
        return err_set(e,
                       "%s: %s is the store of another slide (%s); use another folder, or --force "
                       "to replace it",
                       path, target, old->source_name);
    if (describe_difference(j, how))
        return err_set(e,
                       "%s: its store %s was made %s; use another folder, or --force to replace it",
                       path, target, how->msg);
    return PLAN_SKIP;
}

/* Is the metadata of an existing store damaged, so that others cannot use it? -1: nobody can tell. */
static int is_damaged(const char *target, struct err *e)
{
    struct err why = {0};
    struct store *s = store_open(target, &why);
    const int bad = !s || store_check(s, &why);
    store_close(s);
    return bad && err_is_trouble(&why) ? err_copy(e, &why) : bad;
}

/* As judge_store, with what the existing store was made from. A damaged one is made again. */
static int judge_existing(const char *path, const char *target, struct judged *j, struct err *how,
                          struct err *e)
{
    struct err why = {0};
    j->n_made_from = store_read_sources(target, &j->made_from, &why);
    if (j->n_made_from < 0)
        return err_is_trouble(&why) ? err_copy(e, &why) : PLAN_MAKE;
    j->same_files =
        store_same_sources(j->made_from, j->n_made_from, j->sources->list, j->sources->n);
    int r = judge_store(path, target, j, how, e);
    free(j->made_from);
    if (r == PLAN_SKIP) {
        const int bad = is_damaged(target, e);
        r = bad < 0 ? -1 : bad ? PLAN_MAKE : r;
    }
    return r;
}

int plan_judge(const char *path, const char *target, const struct store_info *new,
               const struct sources *sources, const struct convert_options *o,
               struct store_info *old, struct err *how, struct err *e)
{
    struct judged j = {.old = old, .new = new, .keep = o->keep, .sources = sources};
    const bool force = o->force;
    struct err why = {0};
    switch (store_look(target, old, &why)) {
    case STORE_NONE: return PLAN_MAKE;
    case STORE_UNFINISHED: return PLAN_MAKE;
    case STORE_UNKNOWN:
        return force ? PLAN_MAKE
                     : err_set(e,
                               "%s: the existing file cannot be read as a store (%s); use another "
                               "folder, or --force to replace it",
                               target, why.msg);
    case STORE_IS_STORE: return force ? PLAN_MAKE : judge_existing(path, target, &j, how, e);
    case STORE_ERROR: return err_copy(e, &why);
    default:
        return err_set(e,
                       "%s: already exists and is not a patch store; not overwritten; name another "
                       "output",
                       target);
    }
}

bool plan_has_store(const char *path, const char *target)
{
    struct stat st;
    struct store_source *files = NULL;
    struct err ignored;
    const char *name = path_base_name(path);
    bool has = false;
    if (stat(path, &st) || access(target, F_OK))
        return false;
    const int64_t n = store_read_sources(target, &files, &ignored);
    for (int64_t k = 0; k < n && !has; k++)
        has = !strcmp(files[k].name, name) && files[k].bytes == st.st_size &&
              files[k].mtime_ns == clock_ns(&st.st_mtim);
    free(files);
    return has;
}

bool plan_has_others_store(const char *path, const char *target)
{
    struct store_info old;
    struct err ignored;
    return store_look(target, &old, &ignored) == STORE_IS_STORE &&
           (strcmp(old.source_name, path_base_name(path)) != 0 ||
            old.source_tag != folder_tag(path, &ignored));
}
