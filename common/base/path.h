/*
 * path.h - parts of paths, folders, and what -o names.
 */
#ifndef WSI_PATH_H
#define WSI_PATH_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* --- parts of paths --- */

/* The part of a path after the last slash. Points into path. */
const char *path_base_name(const char *path);
/* Replaces each mention of `path` in a message by its base name: pages must not show folders. */
void path_drop_folder(char *message, const char *path);
/* A path as a word of a shell command, which names the same file when it is pasted into bash or
 * zsh, whatever characters it has. Every message that has a command takes its paths from here.
 * Owned by the caller. */
char *path_quoted(const char *path);
/* Puts "; REMEDY PATH" behind a message, such as "; convert first: wsi2h5 -o stores/ 'a b.svs'", or
 * nothing if it would be cut off: a command must be whole. Returns -1. */
int path_remedy(struct err *e, const char *remedy, const char *path);
/* The name of a slide: the base name of its store without ".h5". Points into path; *n gets its
 * length. */
const char *path_stem(const char *path, size_t *n);

/* --- folders: searched for files, also by name, and created --- */

/* Which files a search reports. */
struct folder_ops {
    /* Is a file of this name looked for? */
    bool (*wants)(const char *name);
    /* May be NULL. Is a file with another name looked for, by its bytes? */
    bool (*is_wanted)(const char *path);
    /* May be NULL. Why a subfolder is not searched; NULL when it is. */
    const char *(*excludes)(const char *path);
    void (*file)(void *ctx, const char *path);
    /* A folder that cannot be read, or a dangling link: to a file that is looked for or, as its
     * name has no ending, perhaps to a folder of such files. `kind`: of the error. */
    void (*problem)(void *ctx, const char *path, const char *why, enum err_kind kind);
    /* May be NULL. Any other file that the search passes over. */
    void (*skipped)(void *ctx, const char *path, const char *why);
};

/*
 * Searches a folder, each folder's names in the order of their bytes:
 *
 *   - Subfolders are searched, also through links. Each folder is searched once: a link to a folder
 *     above it, or a second link to the same folder, is skipped.
 *   - Names that begin with a dot are skipped.
 */
void folder_find(const char *folder, const struct folder_ops *ops, void *ctx);

/* FOLDER/NAME, to be free()d. */
char *folder_join(const char *folder, const char *name);

/* Is this a folder, or a link to one? */
bool folder_is(const char *path);

/* A name without ending; the text goes on after its n bytes. */
struct folder_name {
    const char *text;
    size_t n;
};

/*
 * Looks for FOLDER/NAME.ENDING: the first name with each of the endings, then the next name. Names
 * that are empty or have a '/' are passed over. `endings` ends with NULL. Returns the first that
 * exists, even if it cannot be read, to be free()d, or NULL if there is none.
 */
char *folder_file_named(const char *folder, const struct folder_name *names, int n,
                        const char *const *endings);

/* Creates the folder and those above it, as mkdir -p does. */
int folder_make(const char *path, struct err *e);
/* Creates the folder that `file` is to be in. */
int folder_make_for(const char *file, struct err *e);

/* --- the NAME of -o NAME: it means the same for every command of both programs --- */

/* A folder: one that exists, a name that ends with a slash, or any that does not end in `ending`
 * (".h5"). */
bool output_is_folder(const char *name, const char *ending);
/* Rejects a name that looks like another kind of file than `ending`, unless it is that of an
 * existing folder. */
int output_check(const char *name, const char *ending, struct err *e);
/* Rejects a key of --anonymous whose name does not end in .csv: it may be an input that follows the
 * option by mistake. */
int output_check_key(const char *name, struct err *e);
/* Rejects an output that is one of the n inputs, also through a link. NULL for an input that is not
 * given. */
int output_is_no_input(const char *option, const char *name, char *const *inputs, int n,
                       struct err *e);
/* Do two names lead to one existing file? */
bool output_is_same(const char *a, const char *b);

#endif
