/* spectrum_open.c - see spectrum_open.h. */
#include "process/spectrum/spectrum_open.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
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

int spectrum_check_build(struct err *e)
{
    return cuda_backend(e) ? 0 : -1;
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
    struct spectrum_setup setup = *s;
    setup.threads += b->layout == SPECTRUM_CHUNKS; /* it opens stores while the others load */
    *u = (struct spectrum_use){.backend = b, .threads = setup.threads};
    return b->available(e) ? b->open(u, &setup, note, e) : -1;
}

/* The CUDA devices that can be used; without any of them, the CPU. */
static int open_any(struct spectrum_use *u, const struct spectrum_setup *s, struct err *note,
                    struct err *e)
{
    struct err why = {0}, more = {0};
    char names[256];
    const struct spectrum_backend *cuda = cuda_backend(&why);
    if (cuda && open_backend(u, cuda, s, &more, &why) == 0) {
        spectrum_describe(u, 0, names, sizeof names);
        err_set(note, "using %s%s%s", names, *more.msg ? "; " : "", more.msg);
        return 0;
    }
    if (s->gds)
        return err_blame(e, why.kind, "--io gds needs a GPU: %.900s", why.msg);
    err_set(note, "using the CPU: %s", why.msg);
    return open_backend(u, &spectrum_cpu, s, &more, e);
}

void spectrum_settle(struct spectrum_choice *c, struct err *note)
{
    struct err why = {0};
    *note = (struct err){0};
    if (c->kind != SPECTRUM_AUTO || spectrum_has_cuda(&why))
        return;
    c->kind = SPECTRUM_CPU;
    err_set(note, "using the CPU: %s", why.msg);
}

int spectrum_open(struct spectrum_use *u, const struct spectrum_setup *s, struct err *note,
                  struct err *e)
{
    *u = (struct spectrum_use){.backend = &spectrum_cpu};
    *note = (struct err){0};
    if (s->choice.kind == SPECTRUM_AUTO)
        return open_any(u, s, note, e);
    const struct spectrum_backend *b =
        s->choice.kind == SPECTRUM_CPU ? &spectrum_cpu : cuda_backend(e);
    return b ? open_backend(u, b, s, note, e) : -1;
}

void spectrum_close(struct spectrum_use *u)
{
    if (u->n > 0)
        u->backend->close(u);
    u->n = 0;
}

/* --- names --- */

static void append(char *text, size_t bytes, const char *more)
{
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s", more);
}

/* Is device k the first of its name among those in the mask? */
static bool is_first_of_name(const struct spectrum_use *u, uint64_t mask, int k)
{
    for (int i = 0; i < k; i++)
        if (mask >> i & 1 && !strcmp(u->labels[i].name, u->labels[k].name))
            return false;
    return true;
}

/* Appends the numbers of the devices in the mask that have the name of device k. */
static void append_numbers(const struct spectrum_use *u, uint64_t mask, int k, char *text,
                           size_t bytes)
{
    char number[32];
    for (int i = k; i < u->n; i++) {
        if (!(mask >> i & 1) || strcmp(u->labels[i].name, u->labels[k].name))
            continue;
        if (i == k)
            snprintf(number, sizeof number, "%s:%d", u->backend->name, u->labels[i].number);
        else
            snprintf(number, sizeof number, ",%d", u->labels[i].number);
        append(text, bytes, number);
    }
    append(text, bytes, " ");
}

/* Devices of one name are listed together: "cuda:0,1 NVIDIA H200, cuda:2 NVIDIA A100". */
void spectrum_describe(const struct spectrum_use *u, uint64_t devices, char *text, size_t bytes)
{
    const uint64_t mask = devices ? devices : UINT64_MAX;
    *text = 0;
    for (int k = 0; k < u->n; k++) {
        if (!(mask >> k & 1) || !is_first_of_name(u, mask, k))
            continue;
        append(text, bytes, *text ? ", " : "");
        if (u->labels[k].number >= 0)
            append_numbers(u, mask, k, text, bytes);
        append(text, bytes, u->labels[k].name);
    }
}
