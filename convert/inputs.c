/* inputs.c - see inputs.h. */
#include "convert/inputs.h"

#include "common/base/cli.h"
#include "common/base/err.h"
#include "common/base/memory.h"
#include "common/base/path.h"
#include "convert/readers/slide.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The slides below a folder: folder_find() with what is special about slides.
 *
 *   - A file is a slide if its name ends like one (slide_has_name).
 *   - DICOM files of one folder that share a series are one slide. The largest file stands for it.
 *   - A MIRAX slide is NAME.mrxs; the folder NAME beside it holds its data and is not searched.
 *     Likewise the pictures of a .vms or .vmu slide have no ending of a slide.
 */

/* --- adding --- */

static struct input *add(struct inputs *in, const char *path)
{
    in->list = memory_grow(in->list, (int64_t)in->n, sizeof *in->list);
    in->list[in->n++] =
        (struct input){.path = memory_copy(path), .below = (size_t)(path_base_name(path) - path)};
    return &in->list[in->n - 1];
}

static void add_slide(void *ctx, const char *path)
{
    add(ctx, path);
}

static void add_problem(void *ctx, const char *path, const char *what, enum err_kind kind)
{
    struct input *i = add(ctx, path);
    i->problem = memory_print("%s: %s", path, what);
    i->problem_kind = kind;
}

static void add_lost(struct inputs *in, const char *ending, bool is_picture)
{
    size_t k = 0;
    while (k < in->n_lost && strcasecmp(in->lost[k].ending, ending))
        k++;
    if (k == in->n_lost) {
        in->lost = memory_grow(in->lost, (int64_t)in->n_lost, sizeof *in->lost);
        in->lost[in->n_lost++] = (struct input_loss){memory_copy(ending), is_picture, 0};
    }
    in->lost[k].n++;
}

static int by_ending(const void *a, const void *b)
{
    return strcasecmp(((const struct input_loss *)a)->ending,
                      ((const struct input_loss *)b)->ending);
}

/* "6 files were ... (.czi 4, .svs.part 2)": those of one kind; "" without one. */
static void name_kind(const struct inputs *in, bool pictures, char *text, size_t size)
{
    size_t all = 0, used, n = 0;
    for (size_t k = 0; k < in->n_lost; k++)
        all += in->lost[k].is_picture == pictures ? in->lost[k].n : 0;
    text[0] = 0;
    if (all == 0)
        return;
    used = (size_t)snprintf(
        text, size, "%zu %s%s left out%s (", all, pictures ? "picture" : "file",
        all == 1 ? " was" : "s were",
        pictures ? " beside slides; name those that are slides, too"
                 : ": unsupported formats of slides, archives or unfinished downloads");
    for (size_t k = 0; k < in->n_lost && used < size; k++)
        if (in->lost[k].is_picture == pictures)
            used += (size_t)snprintf(text + used, size - used, "%s%s %zu", n++ ? ", " : "",
                                     in->lost[k].ending, in->lost[k].n);
    if (used < size)
        snprintf(text + used, size - used, ")");
}

bool inputs_name_lost(const struct inputs *in, char *text, size_t size)
{
    char files[400], pictures[160];
    if (in->n_lost > 0)
        qsort(in->lost, in->n_lost, sizeof *in->lost, by_ending);
    name_kind(in, false, files, sizeof files);
    name_kind(in, true, pictures, sizeof pictures);
    snprintf(text, size, "%s%s%s", files, *files && *pictures ? "; " : "", pictures);
    return *text != 0;
}

static void add_skipped(void *ctx, const char *path, const char *why)
{
    struct inputs *in = ctx;
    const char *ending = slide_lost_ending(path);
    if (ending && !folder_is(path))
        add_lost(in, ending, false);
    in->skipped = memory_grow(in->skipped, (int64_t)in->n_skipped, sizeof *in->skipped);
    in->skipped[in->n_skipped++] = (struct input_skip){memory_copy(path), memory_copy(why)};
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct input *)a)->path, ((const struct input *)b)->path);
}

static const char *excludes(const char *path)
{
    struct stat st;
    const char *dot = strrchr(path_base_name(path), '.');
    if (dot && !strcasecmp(dot, ".zarr"))
        return "holds a Zarr image, which is not read";
    char *index = folder_join(path, "Slidedat.ini"), *slide = memory_print("%s.mrxs", path);
    const bool is = !stat(index, &st) && !stat(slide, &st);
    free(index);
    free(slide);
    return is ? "holds the data of a MIRAX slide" : NULL;
}

/* Is the file in the folder of one of the slides that were found whose pictures have files of their
 * own? */
static bool belongs_to_vms(const struct inputs *in, size_t first, const char *path)
{
    const size_t n = (size_t)(path_base_name(path) - path);
    for (size_t k = first; k < in->n; k++) {
        const char *slide = in->list[k].path, *dot = strrchr(slide, '.');
        if ((size_t)(path_base_name(slide) - slide) == n && !strncmp(slide, path, n) && dot &&
            (!strcasecmp(dot, ".vms") || !strcasecmp(dot, ".vmu")))
            return true;
    }
    return false;
}

/* Counts the pictures that were skipped beside slides. */
static void count_pictures(struct inputs *in, size_t skipped, size_t first)
{
    for (size_t k = skipped; k < in->n_skipped; k++) {
        const char *path = in->skipped[k].path;
        if (slide_has_picture_name(path) && *path_base_name(path) != '.' && !folder_is(path) &&
            !belongs_to_vms(in, first, path))
            add_lost(in, strrchr(path, '.'), true);
    }
}

/* Everything below a folder: slides, or pictures if there are no slides. Files of one series are
 * all added: see drop_series(). */
static void search(struct inputs *in, const char *folder)
{
    static const struct folder_ops ops = {.wants = slide_has_name,
                                          .is_wanted = slide_has_series,
                                          .excludes = excludes,
                                          .file = add_slide,
                                          .problem = add_problem,
                                          .skipped = add_skipped};
    static const struct folder_ops pictures = {.wants = slide_has_picture_name,
                                               .excludes = excludes,
                                               .file = add_slide,
                                               .problem = add_problem};
    const size_t before = in->n, skipped = in->n_skipped;
    folder_find(folder, &ops, in);
    if (in->n == before) /* a folder of pictures */
        folder_find(folder, &pictures, in);
    else
        count_pictures(in, skipped, before);
    for (size_t k = before; k < in->n; k++)
        in->list[k].is_found = true;
}

static void add_folder(struct inputs *in, const char *folder)
{
    const size_t before = in->n, length = strlen(folder);
    search(in, folder);
    if (in->n == before) {
        add_problem(in, folder,
                    "a folder without slides (wsi2h5 --print-inputs lists what was skipped)",
                    ERR_INPUT);
        return;
    }
    for (size_t k = before; k < in->n; k++)
        if (strlen(in->list[k].path) > length)
            in->list[k].below = length + strspn(in->list[k].path + length, "/");
    qsort(in->list + before, in->n - before, sizeof *in->list, by_path);
}

void inputs_add(struct inputs *in, const char *word)
{
    struct stat st;
    if (*word && !stat(word, &st) && S_ISDIR(st.st_mode))
        add_folder(in, word);
    else
        add(in, word);
}

static int add_line(void *ctx, const char *path, struct err *e)
{
    (void)e;
    inputs_add(ctx, path);
    return 0;
}

int inputs_add_list(struct inputs *in, const char *file, struct err *e)
{
    return cli_list(file, add_line, in, e);
}

/* --- targets --- */

bool inputs_is_file(const char *output)
{
    return !output_is_folder(output, ".h5");
}

/* FOLDER/NAME.h5, where NAME is the slide's without its ending; with keep_tree
 * FOLDER/BELOW/NAME.h5. */
static char *target_of(const char *folder, const struct input *i, bool keep_tree)
{
    const char *base = path_base_name(i->path), *dot = strrchr(base, '.');
    const char *name = keep_tree ? i->path + i->below : base;
    const size_t n = dot && dot > base ? (size_t)(dot - name) : strlen(name);
    const char *slash = *folder && folder[strlen(folder) - 1] == '/' ? "" : "/";
    return memory_print("%s%s%.*s.h5", folder, slash, (int)n, name);
}

static int by_target(const void *a, const void *b)
{
    const struct input *x = *(struct input *const *)a, *y = *(struct input *const *)b;
    const int order = strcmp(x->target, y->target);
    return order ? order : x < y ? -1 : x > y;
}

int inputs_clash(const struct input *i, const struct input *first, struct err *e)
{
    const size_t n = (size_t)(path_base_name(i->path) - i->path);
    const bool one_folder = n == (size_t)(path_base_name(first->path) - first->path) &&
                            !strncmp(i->path, first->path, n);
    return err_set(
        e, "%s: would overwrite the store of %s (%s); %s", i->path, first->path, i->target,
        one_folder ? "use two output folders" : "use --keep-tree, or two output folders");
}

/* Numbers the stores, and marks the inputs whose target an earlier one has. */
static void number_stores(struct inputs *in)
{
    struct input **sorted = memory_need(in->n, sizeof *sorted);
    for (size_t k = 0; k < in->n; k++)
        sorted[k] = &in->list[k];
    qsort(sorted, in->n, sizeof *sorted, by_target);
    for (size_t k = 0, first = 0; k < in->n; k++) {
        if (strcmp(sorted[first]->target, sorted[k]->target))
            first = k;
        sorted[k]->target_number = (size_t)(sorted[first] - in->list);
        sorted[k]->shared = k > first;
        sorted[k]->alone = k == first;
        sorted[first]->alone = k == first;
    }
    free(sorted);
}

static int by_path_then_order(const void *a, const void *b)
{
    const struct input *x = *(struct input *const *)a, *y = *(struct input *const *)b;
    const int order = strcmp(x->path, y->path);
    return order ? order : x < y ? -1 : x > y;
}

static void input_free(struct input *i)
{
    free(i->path);
    free(i->target);
    free(i->problem);
    *i = (struct input){0};
}

/* Removes the inputs that have been freed. */
static void close_gaps(struct inputs *in)
{
    size_t kept = 0;
    for (size_t k = 0; k < in->n; k++)
        if (in->list[k].path)
            in->list[kept++] = in->list[k];
    in->n = kept;
}

/* A slide that is named twice is converted once. */
static void drop_repeats(struct inputs *in)
{
    struct input **sorted = memory_need(in->n, sizeof *sorted);
    for (size_t k = 0; k < in->n; k++)
        sorted[k] = &in->list[k];
    qsort(sorted, in->n, sizeof *sorted, by_path_then_order);
    for (size_t k = in->n; k > 1; k--)
        if (!strcmp(sorted[k - 1]->path, sorted[k - 2]->path))
            input_free(sorted[k - 1]);
    close_gaps(in);
    free(sorted);
}

/* --- DICOM series: files of one folder --- */

struct instance {
    struct input *input;
    char series[SLIDE_SERIES];
    size_t folder; /* length of the folder's path */
    bool is_other; /* no part of a slide's pixels */
    off_t bytes;
};

static int by_folder_and_series(const struct instance *x, const struct instance *y)
{
    if (x->folder != y->folder)
        return x->folder < y->folder ? -1 : 1;
    const int order = strncmp(x->input->path, y->input->path, x->folder);
    return order ? order : strcmp(x->series, y->series);
}

/* The largest file of a series with pixels of the slide comes first: it stands for the slide. */
static int by_instance(const void *a, const void *b)
{
    const struct instance *x = a, *y = b;
    const int order = by_folder_and_series(x, y);
    if (order)
        return order;
    if (x->is_other != y->is_other)
        return x->is_other - y->is_other;
    return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1)
                                : strcmp(x->input->path, y->input->path);
}

/* False: not a DICOM file with a series. */
static bool take_instance(struct input *i, struct instance *out)
{
    struct stat st;
    *out = (struct instance){.input = i, .folder = (size_t)(path_base_name(i->path) - i->path)};
    if (i->problem || !slide_has_series(i->path) || stat(i->path, &st))
        return false;
    out->bytes = st.st_size;
    return slide_series(i->path, out->series, &out->is_other) || (out->is_other && i->is_found);
}

/* Drops an input that a folder's search need not have found, or that another one stands for. */
static void drop(struct inputs *in, struct input *i, const char *why)
{
    add_skipped(in, i->path, why);
    input_free(i);
}

/* The first file of a series, which is a slide unless it has no level. */
static void judge_first(struct inputs *in, const struct instance *first)
{
    if (first->is_other && first->input->is_found)
        drop(in, first->input, "a DICOM file of another kind than a slide");
}

/* Several files of a DICOM series are one slide. Folders have all of them, and a shell that expands
 * *.dcm names them. */
static void drop_series(struct inputs *in)
{
    struct instance *list = memory_need(in->n, sizeof *list);
    size_t n = 0;
    for (size_t k = 0; k < in->n; k++)
        n += take_instance(&in->list[k], &list[n]);
    if (n > 1)
        qsort(list, n, sizeof *list, by_instance);
    for (size_t k = 0, next; k < n; k = next) {
        char why[256];
        snprintf(why, sizeof why, "belongs to the DICOM series of %.200s",
                 path_base_name(list[k].input->path));
        for (next = k + 1; next < n && !by_folder_and_series(&list[k], &list[next]); next++)
            drop(in, list[next].input, why);
        judge_first(in, &list[k]);
    }
    close_gaps(in);
    free(list);
}

void inputs_assign(struct inputs *in, const char *output, bool keep_tree)
{
    drop_repeats(in);
    drop_series(in);
    in->n_targets = in->n;
    for (size_t k = 0; k < in->n; k++)
        in->list[k].target_number = k;
    for (size_t k = 0; k < in->n && output; k++) {
        struct input *i = &in->list[k];
        i->target = inputs_is_file(output) ? memory_copy(output) : target_of(output, i, keep_tree);
    }
    if (output)
        number_stores(in);
}

void inputs_share(struct inputs *in, int64_t task, int64_t tasks)
{
    size_t kept = 0;
    for (size_t k = 0; k < in->n; k++) {
        if ((int64_t)in->list[k].target_number % tasks == task - 1)
            in->list[kept++] = in->list[k];
        else
            input_free(&in->list[k]);
    }
    in->n = kept;
}

void inputs_free(struct inputs *in)
{
    for (size_t k = 0; k < in->n; k++)
        input_free(&in->list[k]);
    for (size_t k = 0; k < in->n_skipped; k++) {
        free(in->skipped[k].path);
        free(in->skipped[k].why);
    }
    for (size_t k = 0; k < in->n_lost; k++)
        free(in->lost[k].ending);
    free(in->list);
    free(in->skipped);
    free(in->lost);
    *in = (struct inputs){0};
}
