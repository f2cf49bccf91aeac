/* merge.c - h5spec merge: results added up into one file. */
#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/memory.h"
#include "common/base/number.h"
#include "common/base/path.h"
#include "common/base/progress.h"
#include "common/base/publish.h"
#include "common/base/stop.h"
#include "common/result/result_merge.h"
#include "common/result/result_read.h"
#include "common/result/same_resolution.h"
#include "process/options/commands.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One output, and the slides that go together into it. */
struct output {
    char *path;            /* owned */
    double um, downsample; /* of its first slide, per stored px and of the level; NaN if unknown */
};

struct merging {
    struct options *o;
    bool folder;            /* -o names one */
    struct output *outputs; /* [n]; owned */
    int n, now;             /* outputs; the one that is made */
    char **names;           /* [slides], sorted; owned, of a folder with several outputs */
    int *sets;              /* [slides] their outputs; owned */
    int64_t slides;
    struct same_resolution resolution; /* of an only output */
    int64_t duplicates;                /* slides that --duplicates skip left out */
    int64_t kept;                      /* slides whose rows the table had already */
    bool left_out;                     /* an output was found among the inputs */
    bool refused; /* the output would replace slides that are in no other file */
    int bad;      /* the input that cannot be used, or -1 */
    FILE *fates;  /* JSON of what has become of the inputs, or NULL */
    char *fates_text;
    size_t fates_bytes;
};

/* --- messages --- */

static void show_progress(void *ctx, int64_t done, int64_t slides)
{
    const struct merging *m = ctx;
    progress_item(0, path_base_name(m->outputs[m->now].path), 0, 1);
    progress_show((double)done / (double)slides, (double)done);
}

/* A slide of an input. */
static void put_fate(FILE *f, const struct result_merge_fate *fate)
{
    const bool copy = fate->same_path;
    fputs(ftell(f) > 0 ? ", {\"input\": " : "{\"input\": ", f);
    json_write_string(f, fate->path);
    fputs(", \"slide\": ", f);
    json_write_string(f, fate->name);
    fprintf(f, ", \"status\": \"%s\"", copy ? "copy" : fate->left_out ? "left_out" : "merged");
    if (fate->left_out)
        fputs(", \"reason\": \"resolution\"", f);
    if (copy) {
        fputs(", \"same_as\": ", f);
        json_write_string(f, fate->same_path);
        fputs(", \"same_slide\": ", f);
        json_write_string(f, fate->same_name);
    }
    fputc('}', f);
}

static void note_fate(void *ctx, const struct result_merge_fate *fate)
{
    struct merging *m = ctx;
    if (m->fates && !(fate->left_out && m->folder)) /* it goes into another output */
        put_fate(m->fates, fate);
}

static void begin_fates(struct merging *m)
{
    m->duplicates = m->kept = 0;
    m->fates_text = NULL;
    if (m->o->json)
        m->fates = memory_stream(&m->fates_text, &m->fates_bytes);
}

/* Ends the line about an output. */
static void end_json(struct merging *m)
{
    memory_stream_end(m->fates);
    printf(", \"inputs\": [%s]}\n", m->fates_text);
    fflush(stdout);
    free(m->fates_text);
    m->fates = NULL;
}

static void print_json(struct merging *m, const struct result *r, double seconds)
{
    const struct output *out = &m->outputs[m->now];
    const struct result_counts *c = result_totals(r);
    double mean, std;
    result_moments(result_params(r), c->histogram, &mean, &std);
    json_begin("output", out->path);
    json_text("kind", "result");
    json_text("status", "done");
    json_int("results", m->o->files.n);
    json_int("slides", result_slides(r));
    json_int("left_out", m->resolution.others);
    json_int("duplicates", m->duplicates);
    json_int("unchanged", m->kept);
    json_real("um_per_px", out->um);
    json_int("windows", c->windows);
    json_real("mean_db", mean);
    json_real("std_db", std);
    printf(", \"seconds\": %.3f", seconds);
    end_json(m);
}

static void print_failure(struct merging *m, const struct err *why)
{
    json_begin("output", m->outputs[m->now].path);
    json_text("kind", "result");
    json_text("status", "failed");
    json_failure(why);
    if (m->bad >= 0) {
        fputs("{\"input\": ", m->fates);
        json_write_string(m->fates, m->o->files.paths[m->bad]);
        fputs(", \"status\": \"failed\"}", m->fates);
    }
    end_json(m);
}

static void last_line(const struct merging *m, const struct result *r, double seconds)
{
    const int64_t slides = result_slides(r);
    const struct options *o = m->o;
    char memory[32], time[32], left_out[64] = "", kept[64] = "";
    if (m->resolution.others)
        snprintf(left_out, sizeof left_out, ", %" PRId64 " left out (another resolution)",
                 m->resolution.others);
    if (m->kept)
        snprintf(kept, sizeof kept, " (%" PRId64 " unchanged)", m->kept);
    cli_say("merged %d result%s into %s%s: %" PRId64 " slide%s%s%s, "
            "%" PRId64 " windows; %s, %.0f slides/s, peak memory %s",
            o->files.n, o->files.n == 1 ? "" : "s", m->outputs[m->now].path,
            result_parts_in_file(r) ? "" : ", a table that refers to them", slides,
            slides == 1 ? "" : "s", kept, left_out, result_totals(r)->windows,
            clock_text(time, seconds), (double)slides / (seconds > 0 ? seconds : 1),
            number_size(memory, (double)cli_peak_memory()));
}

/* The options that decide what is merged, for a command that is printed. */
static void put_options(FILE *f, const struct options *o)
{
    fputs(o->partial ? " --partial" : "", f);
    fputs(o->duplicates == DUPLICATES_COUNT  ? " --duplicates count"
          : o->duplicates == DUPLICATES_FAIL ? " --duplicates fail"
                                             : "",
          f);
}

static void put_word(FILE *f, const char *before, const char *path)
{
    char *word = path_quoted(path);
    fprintf(f, " %s%s", before, word);
    free(word);
}

/* The command that merges all resolutions, to be free()d. NULL: it would be too long for a message,
 * or a list of inputs cannot be named again. */
static char *command_for_all(const struct options *o)
{
    enum { MOST = 600 };
    char *text = NULL;
    size_t bytes = 0;
    if (o->n_words == 0)
        return NULL;
    FILE *f = memory_stream(&text, &bytes);
    char *folder = memory_copy_part(o->output, strlen(o->output) - strlen(RESULT_ENDING));
    char *output = memory_print("%s/", folder);
    free(folder);
    fputs("h5spec merge", f);
    put_options(f, o);
    put_word(f, "-o ", output);
    for (int k = 0; k < o->n_words; k++)
        put_word(f, "", o->words[k]);
    free(output);
    memory_stream_end(f);
    if (bytes <= MOST)
        return text;
    free(text);
    return NULL;
}

/* --- which slides go together --- */

/* Says which resolution the file takes, and how to get the others. */
static void say_choice(const struct merging *m, int64_t n)
{
    const struct same_resolution *r = &m->resolution;
    char *command = command_for_all(m->o);
    const bool um = r->with_mpp[0];
    char what[64];
    if (um)
        snprintf(what, sizeof what, "%.4g um/px", r->mpp);
    else
        snprintf(what, sizeof what, "downsample %.4g", r->downsample);
    cli_say("%s: has %" PRId64 " of %" PRId64
            " slides: those with %s, the resolution of %s, which is "
            "the first by name; to write one file per resolution, run %s",
            m->o->output, n - r->others, n, what, um ? r->with_mpp : r->with_downsample,
            command ? command : "this command with -o FOLDER/");
    free(command);
}

/* Into a file go the slides that have the resolution of the first one. */
static int choose_for_file(void *ctx, struct result_merge_slide *slides, int64_t n, struct err *e)
{
    struct merging *m = ctx;
    struct same_resolution again = {0};
    (void)e;
    m->resolution = (struct same_resolution){0};
    m->outputs[0].um = n > 0 ? slides[0].um : NAN;
    for (int64_t k = 0; k < n; k++)
        slides[k].left_out = same_resolution_check(&m->resolution, slides[k].name, slides[k].um,
                                                   slides[k].downsample, NULL);
    if (m->resolution.others)
        say_choice(m, n);
    for (int64_t k = 0; k < n && m->resolution.others; k++) {
        struct err why = {0};
        if (same_resolution_check(&again, slides[k].name, slides[k].um, slides[k].downsample, &why))
            cli_say("%s: slide %s: %s", slides[k].path, slides[k].name, why.msg);
    }
    return 0;
}

enum { FEWEST_DIGITS = 2, MOST_DIGITS = 15 };

/* "corpus-0.25um.h5"; `several`: more than one set is of unknown resolution. */
static char *name_of(const struct output *out, int digits, bool several)
{
    if (!isnan(out->um))
        return memory_print("corpus-%.*gum.h5", digits, out->um);
    return several ? memory_print("corpus-unknown-um-x%.*g.h5", digits,
                                  isnan(out->downsample) ? 0 : out->downsample)
                   : memory_copy("corpus-unknown-um.h5");
}

static bool have_same_name(const struct output *outputs, int n)
{
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++)
            if (!strcmp(outputs[a].path, outputs[b].path))
                return true;
    return false;
}

/* Names the outputs, with as many digits as distinguish them. */
static void name_outputs(struct merging *m)
{
    int unknown = 0;
    for (int k = 0; k < m->n; k++)
        unknown += isnan(m->outputs[k].um);
    for (int digits = FEWEST_DIGITS; digits <= MOST_DIGITS; digits++) {
        for (int k = 0; k < m->n; k++) {
            char *name = name_of(&m->outputs[k], digits, unknown > 1);
            free(m->outputs[k].path);
            m->outputs[k].path = folder_join(m->o->output, name);
            free(name);
        }
        if (!have_same_name(m->outputs, m->n))
            return;
    }
}

/* Keeps the sets for one merge after the other. */
static void keep_sets(struct merging *m, const struct result_merge_slide *slides, int64_t n)
{
    m->slides = n;
    m->names = memory_need((size_t)n, sizeof *m->names);
    for (int64_t k = n; k-- > 0;) { /* the first slide of a set comes last */
        m->names[k] = memory_copy(slides[k].name);
        m->outputs[m->sets[k]].um = slides[k].um;
        m->outputs[m->sets[k]].downsample = slides[k].downsample;
    }
    name_outputs(m);
}

static bool is_input(const struct merging *m, const char *path)
{
    for (int k = 0; k < m->o->files.n; k++)
        if (output_is_same(path, m->o->files.paths[k]))
            return true;
    return false;
}

/* The name of a file to write in a folder may be that of a slide's result. */
static int check_no_input(struct merging *m, struct err *e)
{
    const char *path = m->outputs[m->now].path;
    m->refused = is_input(m, path);
    return m->refused ? err_set(e, "%s: is one of the inputs; name another folder", path) : 0;
}

/* Into a folder go all slides. With one resolution they are written at once. */
static int choose_for_folder(void *ctx, struct result_merge_slide *slides, int64_t n, struct err *e)
{
    struct merging *m = ctx;
    double *numbers = memory_need(2 * (size_t)n + 1, sizeof *numbers);
    for (int64_t k = 0; k < n; k++) {
        numbers[k] = slides[k].um;
        numbers[n + k] = slides[k].downsample;
    }
    m->sets = memory_need((size_t)n + 1, sizeof *m->sets);
    const int sets = same_resolution_divide(numbers, numbers + n, n, m->sets);
    free(numbers);
    if (n > 0)
        m->outputs[0].um = slides[0].um;
    if (sets <= 1)
        return check_no_input(m, e);
    char *first = m->outputs[0].path;
    free(m->outputs);
    free(first);
    m->n = sets;
    m->outputs = memory_need((size_t)sets, sizeof *m->outputs);
    keep_sets(m, slides, n);
    return 1;
}

static int by_name(const void *name, const void *entry)
{
    return strcmp(name, *(char *const *)entry);
}

/* Chooses the slides of one set. */
static int choose_set(void *ctx, struct result_merge_slide *slides, int64_t n, struct err *e)
{
    struct merging *m = ctx;
    for (int64_t k = 0; k < n; k++) {
        char *const *at =
            bsearch(slides[k].name, m->names, (size_t)m->slides, sizeof *m->names, by_name);
        if (!at)
            return err_blame(e, ERR_TROUBLE, "%s: changed while it was read; run again",
                             slides[k].path);
        slides[k].left_out = m->sets[at - m->names] != m->now;
    }
    return check_no_input(m, e);
}

/* --- merging --- */

static void skip_duplicate(void *ctx, const struct err *why)
{
    struct merging *m = ctx;
    m->duplicates++;
    if (!m->o->quiet)
        cli_say("%s", why->msg);
}

static void say_copies(void *ctx, const struct err *why)
{
    const struct merging *m = ctx;
    if (!m->o->quiet)
        cli_say("%s: slides are copied into it: %s", m->outputs[m->now].path, why->msg);
}

/* The output has slides that the inputs lack. */
static int refuse(void *ctx, struct err *e)
{
    struct merging *m = ctx;
    char why[sizeof e->msg];
    snprintf(why, sizeof why, "%s", e->msg);
    m->refused = true;
    return m->left_out
               ? err_set(e, "%s: is one of the inputs; name another file", m->outputs[m->now].path)
               : err_set(e, "%s; name another file, or replace it with --force", why);
}

/* --- files of earlier merges ---
 *
 * A merge into a folder leaves out what an earlier one has written there. Only the contents of a
 * file say what it is: a slide may have any name, such as corpus-callosum.
 */

/* Only files of such names need to be opened. */
static bool may_be_output(const char *name)
{
    return !strncmp(name, "corpus", 6);
}

/* Is it the name that a merge gives to slides of the resolution of those in the result? */
static bool has_name_of_output(struct result *r, const char *name)
{
    struct result_origin o = {0};
    struct err e = {0};
    bool is = !strcmp(name, "corpus" RESULT_ENDING);
    if (is || result_slides(r) == 0 || result_read_scale(r, 0, &o, &e))
        return is;
    const struct output out = {NULL, same_resolution_um(&o), o.downsample};
    for (int digits = FEWEST_DIGITS; digits <= MOST_DIGITS; digits++)
        for (int several = 0; several <= 1; several++) {
            char *own = name_of(&out, digits, several);
            is = is || !strcmp(name, own);
            free(own);
        }
    return is;
}

/* The result in the output folder, if a merge has written it for its slides and not a run for one
 * of them. Else NULL. */
static struct result *open_output(const struct merging *m, const char *name)
{
    struct err e = {0};
    char *path = folder_join(m->o->output, name);
    struct result *r = may_be_output(name) ? result_open(path, &e) : NULL;
    free(path);
    if (!r || (has_name_of_output(r, name) && !result_has_own_name(r, name)))
        return r;
    result_close(r);
    return NULL;
}

/* Does this path lead to a file of the output folder? */
static bool is_in_output(const struct merging *m, const char *path)
{
    char *there = folder_join(m->o->output, path_base_name(path));
    const bool is = output_is_same(there, path);
    free(there);
    return is;
}

/* Notes the slides of the inputs but the candidates. */
static void note_slides(const struct merging *m, struct result *const *candidates, void **slides)
{
    for (int k = 0; k < m->o->files.n; k++) {
        struct err e = {0};
        struct result *r = candidates[k] ? NULL : result_open(m->o->files.paths[k], &e);
        for (int64_t s = 0; r && s < result_slides(r); s++)
            memory_note(slides, result_slide_name(r, s), "");
        result_close(r);
    }
}

static bool has_only(const struct result *r, void *const *slides)
{
    for (int64_t s = 0; s < result_slides(r); s++)
        if (!memory_noted(slides, result_slide_name(r, s)))
            return false;
    return true;
}

/* [inputs], to be free()d: which are the output, or those of earlier merges into the folder. These
 * have no slide that other inputs lack. */
static bool *find_outputs(const struct merging *m)
{
    const struct input_files *files = &m->o->files;
    struct result **candidates = memory_need((size_t)files->n + 1, sizeof *candidates);
    bool *is = memory_need((size_t)files->n + 1, sizeof *is);
    void *slides = NULL;
    bool any = false;
    for (int k = 0; k < files->n; k++) {
        is[k] = !m->folder && !m->o->extends && output_is_same(m->o->output, files->paths[k]);
        candidates[k] = m->folder && is_in_output(m, files->paths[k])
                            ? open_output(m, path_base_name(files->paths[k]))
                            : NULL;
        any = any || candidates[k];
    }
    if (any)
        note_slides(m, candidates, &slides);
    for (int k = 0; k < files->n; k++) {
        is[k] = is[k] || (candidates[k] && has_only(candidates[k], &slides));
        result_close(candidates[k]);
    }
    memory_forget(&slides);
    free(candidates);
    return is;
}

static void leave_out_outputs(struct merging *m)
{
    struct input_files *files = &m->o->files;
    bool *is = find_outputs(m);
    int kept = 0;
    for (int k = 0; k < files->n; k++) {
        if (!is[k]) {
            files->paths[kept++] = files->paths[k];
            continue;
        }
        if (!m->o->quiet)
            cli_say("%s: left out of the inputs, because it is the output%s",
                    m->folder ? files->paths[k] : m->o->output,
                    m->folder ? " of an earlier merge" : "");
        free(files->paths[k]);
        m->left_out = true;
    }
    files->n = kept;
    free(is);
}

typedef int choose_slides(void *ctx, struct result_merge_slide *slides, int64_t n, struct err *e);

static int merge(struct merging *m, choose_slides *choose, struct err *e)
{
    const struct options *o = m->o;
    const char *out = m->outputs[m->now].path;
    const struct result_merge_options how = {
        .partial = o->partial,
        .loses = o->force && !m->left_out ? NULL : refuse,
        .extends = o->extends,
        .table = o->table,
        .copies = say_copies,
        .allow_duplicates = o->duplicates == DUPLICATES_COUNT,
        .duplicate = o->duplicates == DUPLICATES_FAIL ? NULL : skip_duplicate,
        .progress = show_progress,
        .choose = o->mix_mpp ? NULL : choose,
        .fate = note_fate,
        .ctx = m,
        .kept = &m->kept,
        .bad = &m->bad};
    if (result_check_target(out, e) || (m->folder && o->mix_mpp && check_no_input(m, e)))
        return -1;
    progress_begin(o->quiet ? PROGRESS_NO : o->progress, "slide", 1, "slides/s");
    const int bad = result_merge(out, o->files.paths, o->files.n, &how, e);
    progress_end();
    return bad;
}

static int fail(struct merging *m, const struct err *e)
{
    if (m->o->json)
        print_failure(m, e);
    return m->refused ? command_usage_error(m->o->command, e) : cli_failed(e);
}

/* Makes output m->now, unless choose() ends it. Returns the exit status. */
static int make_output(struct merging *m, choose_slides *choose)
{
    const double begun = clock_now();
    const int before = m->n;
    struct err e = {0};
    begin_fates(m);
    if (merge(m, choose, &e))
        return fail(m, &e);
    if (m->n != before) { /* divided, and not written */
        if (m->fates)
            memory_stream_end(m->fates);
        free(m->fates_text);
        return EXIT_DONE;
    }
    struct result *r = result_open(m->outputs[m->now].path, &e);
    if (!r)
        return fail(m, &e);
    const double seconds = clock_now() - begun;
    if (m->o->json)
        print_json(m, r, seconds);
    if (!m->o->quiet)
        last_line(m, r, seconds);
    result_close(r);
    return m->resolution.others ? EXIT_PART : EXIT_DONE;
}

static int make_all(struct merging *m)
{
    int status = make_output(m, m->folder ? choose_for_folder : choose_for_file);
    if (m->n > 1)
        for (m->now = 0; status == EXIT_DONE && m->now < m->n; m->now++)
            status = make_output(m, choose_set);
    return status;
}

/* Names files of earlier merges in the folder, which would be taken for those of this one. */
static void say_others(const struct merging *m)
{
    DIR *d = m->folder && !m->o->quiet ? opendir(m->o->output) : NULL;
    for (struct dirent *entry; d && (entry = readdir(d));) {
        bool written = false;
        for (int k = 0; k < m->n; k++)
            written = written || !strcmp(path_base_name(m->outputs[k].path), entry->d_name);
        struct result *r = written ? NULL : open_output(m, entry->d_name);
        char *path = folder_join(m->o->output, entry->d_name);
        if (r && !is_input(m, path))
            cli_say("%s: written by an earlier merge, not by this one; delete it", path);
        free(path);
        result_close(r);
    }
    if (d)
        closedir(d);
}

static int merge_folder(struct merging *m)
{
    struct err e = {0};
    if (folder_make(m->o->output, &e))
        return cli_failed(&e);
    const int status = make_all(m);
    if (status == EXIT_DONE)
        say_others(m);
    return status;
}

static void free_all(struct merging *m)
{
    for (int k = 0; k < m->n; k++)
        free(m->outputs[k].path);
    for (int64_t k = 0; k < m->slides; k++)
        free(m->names[k]);
    free(m->names);
    free(m->sets);
    free(m->outputs);
}

int merge_main(struct options *o)
{
    struct merging m = {.o = o, .folder = output_is_folder(o->output, RESULT_ENDING), .n = 1};
    stop_catch_signals();
    m.outputs = memory_need(1, sizeof *m.outputs);
    m.outputs[0] = (struct output){
        m.folder ? folder_join(o->output, "corpus.h5") : memory_copy(o->output), NAN, NAN};
    int status;
    struct err e = {0};
    publish_clean(m.outputs[0].path); /* however this run ends */
    if (o->files.failed) {
        cli_say("nothing was merged, because inputs are missing");
        status = input_files_status(&o->files);
    } else if (leave_out_outputs(&m), o->files.n == 0) {
        err_set(&e, "-o %s: is the only input; name another file", o->output);
        status = command_usage_error(o->command, &e);
    } else
        status = m.folder ? merge_folder(&m) : make_all(&m);
    free_all(&m);
    return status;
}
