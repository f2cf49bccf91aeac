/* spectrum_open.c - which backend and devices a run uses; see spectrum.h. */
#include "process/spectrum/spectrum.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const struct spectrum_backend *cuda_backend(struct err *e)
{
#ifdef HAVE_CUDA
    (void)e;
    return &spectrum_cuda;
#else
    err_set(e, "this build has no CUDA backend (built without nvcc, or with CUDA=0)");
    return NULL;
#endif
}

const char *spectrum_backends(void)
{
    struct err no;
    return cuda_backend(&no) ? "cpu, cuda" : "cpu";
}

bool spectrum_has_cuda(struct err *e)
{
    const struct spectrum_backend *b = cuda_backend(e);
    return b && b->available(e);
}

/* --- the choice --- */

static int bad_word(const char *word, struct err *e)
{
    return err_set(e, "--device %s: must be auto, cpu or cuda[:0,1,...]", word);
}

static int add_number(const char *word, long number, struct spectrum_choice *c, struct err *e)
{
    if (number > INT_MAX)
        return err_set(e, "--device %s: there is no device with such a number", word);
    for (int k = 0; k < c->n; k++)
        if (c->numbers[k] == (int)number)
            return err_set(e, "--device %s: cuda:%ld is named twice", word, number);
    if (c->n == SPECTRUM_MOST_DEVICES)
        return err_set(e, "--device %s: more than %d devices", word, c->n);
    c->numbers[c->n++] = (int)number;
    return 0;
}

/* The numbers in "0,1", which is the end of the word. */
static int parse_numbers(const char *word, const char *text, struct spectrum_choice *c,
                         struct err *e)
{
    for (;;) {
        char *end;
        if (!isdigit((unsigned char)*text))
            return bad_word(word, e);
        if (add_number(word, strtol(text, &end, 10), c, e))
            return -1;
        if (!*end)
            return 0;
        if (*end != ',')
            return bad_word(word, e);
        text = end + 1;
    }
}

int spectrum_parse_choice(const char *word, struct spectrum_choice *c, struct err *e)
{
    *c = (struct spectrum_choice){.kind = SPECTRUM_AUTO};
    if (!strcmp(word, "auto"))
        return 0;
    c->kind = strcmp(word, "cpu") ? SPECTRUM_CUDA : SPECTRUM_CPU;
    if (!strcmp(word, "cpu") || !strcmp(word, "cuda"))
        return 0;
    return strncmp(word, "cuda:", 5) ? bad_word(word, e) : parse_numbers(word, word + 5, c, e);
}

/* --- opening --- */

static int open_backend(struct spectrum_use *u, const struct spectrum_backend *b,
                        const struct spectrum_setup *s, struct err *note, struct err *e)
{
    u->backend = b;
    return b->available(e) ? b->open(&u->state, s, note, e) : -1;
}

/* The CUDA devices that can be used; without any of them, the CPU. */
static int open_any(struct spectrum_use *u, const struct spectrum_setup *s, struct err *note,
                    struct err *e)
{
    struct err why = {""}, more = {""};
    char names[256];
    const struct spectrum_backend *cuda = cuda_backend(&why);
    if (cuda && open_backend(u, cuda, s, &more, &why) == 0) {
        cuda->describe(u->state, 0, names, sizeof names);
        err_set(note, "using %s%s%s", names, *more.msg ? "; " : "", more.msg);
        return 0;
    }
    if (s->gds)
        return err_set(e, "--io gds needs a GPU: %.900s", why.msg);
    err_set(note, "using the CPU: %s", why.msg);
    return open_backend(u, &spectrum_cpu, s, &more, e);
}

int spectrum_open(struct spectrum_use *u, const struct spectrum_setup *s, struct err *note,
                  struct err *e)
{
    *u = (struct spectrum_use){.backend = &spectrum_cpu};
    *note = (struct err){""};
    if (s->choice.kind == SPECTRUM_AUTO)
        return open_any(u, s, note, e);
    const struct spectrum_backend *b =
        s->choice.kind == SPECTRUM_CPU ? &spectrum_cpu : cuda_backend(e);
    return b ? open_backend(u, b, s, note, e) : -1;
}

void spectrum_close(struct spectrum_use *u)
{
    u->backend->close(u->state);
    u->state = NULL;
}
