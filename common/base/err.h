/*
 * err.h - one error idiom for every module.
 *
 * A function that can fail for a reason of the world (a file, a disk, a device) returns 0 or -1 and
 * takes a `struct err *` as its last argument. The deepest function that knows what is wrong calls
 * err_set(); callers on the way up may put context before it with err_add(). Only main prints.
 * A NULL err is allowed everywhere: the message is dropped. Bugs of ours are assert()s, not errors.
 *
 * Whether the machine is to blame is decided there, too, by errno or the code of a library, never
 * by the words of a message: these hold names of files. err_set() blames the input; err_sys()
 * judges errno; err_blame() states it. err_add() and err_copy() keep it.
 */
#ifndef WSI_ERR_H
#define WSI_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The class of an error. From ERR_TROUBLE on the machine failed, and another try may succeed. */
enum err_kind {
    ERR_INPUT,   /* the input, or how the program was called */
    ERR_COPY,    /* no failure: the input is the same slide as another one; "FILE: copy of NAME" */
    ERR_ABSENT,  /* the file is not here or may not be read; on another machine it may be */
    ERR_NEWER,   /* a newer version of these programs made the file */
    ERR_TROUBLE, /* a disk, the network, a GPU, a file in use */
    ERR_MEMORY,  /* too little memory */
    ERR_DISK     /* too little room on a disk */
};

/* The remedy for a store or a result that is damaged or was changed: which slide or store it was
 * made of is not known for sure. */
#define ERR_MAKE_AGAIN "make it again: delete it and repeat the command that made it"

struct err {
    char msg[1024]; /* one line without newline, cut when longer; "" while nothing is wrong */
    enum err_kind kind;
};

#if defined(__GNUC__)
#define ERR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define ERR_PRINTF(f, a)
#endif

/* Sets the message; returns -1, so that `return err_set(e, ...)` reads well. */
int err_set(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);

/* As err_set, and appends ": " and the text of errno, which says what is to blame. */
int err_sys(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);

/* As err_sys, after a call that creates or writes an output, and names the limit of file sizes. */
int err_write(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);

/* What failed creates or writes an output: whatever the class says, the input is not to blame.
 * Returns -1. */
int err_spare_input(struct err *e);

/* As err_sys, after open(): a socket, or a device that is not there, is no regular file. */
int err_open(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);

/* As err_set, with what is to blame. */
int err_blame(struct err *e, enum err_kind kind, const char *fmt, ...) ERR_PRINTF(3, 4);

/* "out of memory", with the limit of this process if it has one. */
const char *err_out_of_memory(void);
/* Sets this message; returns -1. */
int err_memory(struct err *e);

/* Takes over another error; returns -1. */
int err_copy(struct err *e, const struct err *from);

/* The class of a system error; `code` as in errno. */
enum err_kind err_kind_of(int code);

/* Puts "context: " before the existing message; returns -1. */
int err_add(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);

/* Replaces every `what` in the message by `by`. */
void err_replace(struct err *e, const char *what, const char *by);

/* Is the machine to blame (disk, memory, network, GPU) and not the input? Then another try,
 * elsewhere or later, may succeed. */
bool err_is_trouble(const struct err *e);

/* Replaces characters that are unsafe (text.h) by '?'. err_set, err_sys and err_add have done so
 * already. */
void err_clean(char *s);

#ifdef __cplusplus
}
#endif
#endif
