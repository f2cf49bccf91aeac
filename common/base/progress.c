/* progress.c - see progress.h. */
#include "common/base/progress.h"

#include "common/base/clock.h"
#include "common/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USUAL_COLUMNS = 80, LEAST_NAME = 10, NAME_BYTES = 1024 };

static struct {
    bool on, tty, drawn;
    const char *what, *unit;
    int64_t items, k; /* the item being worked on */
    char name[NAME_BYTES];
    double before, share; /* of everything, 0 to 1 */
    double begun, shown;  /* when */
} now;

int progress_when(const char *what, const char *text, enum progress_when *out, struct err *e)
{
    if (!strcmp(text, "auto"))
        *out = PROGRESS_AUTO;
    else if (!strcmp(text, "yes"))
        *out = PROGRESS_YES;
    else if (!strcmp(text, "no"))
        *out = PROGRESS_NO;
    else
        return err_set(e, "%s %s: must be auto, yes or no", what, text);
    return 0;
}

void progress_begin(enum progress_when when, const char *what, int64_t items, const char *unit)
{
    now.tty = isatty(STDERR_FILENO) == 1;
    now.on = when == PROGRESS_YES || (when == PROGRESS_AUTO && now.tty);
    now.what = what;
    now.unit = unit;
    now.items = items;
    now.begun = now.shown = clock_now();
}

bool progress_is_on(void)
{
    return now.on;
}

void progress_item(int64_t k, const char *name, double before, double share)
{
    now.k = k;
    now.before = before;
    now.share = share;
    if (now.on)
        snprintf(now.name, sizeof now.name, "%s", name);
}

/* "45 %, 412 MP/s, 2 min 05 s left in total"; without rate and "in total" if it must be short. */
static void end_text(double fraction, double amount, double seconds, bool brief, char out[128])
{
    const double done = now.before + now.share * fraction;
    char left[32], rate[48] = "", end[64] = "";
    if (amount > 0 && seconds > 0 && !brief)
        snprintf(rate, sizeof rate, ", %.*f %s", amount < 10 * seconds ? 1 : 0, amount / seconds,
                 now.unit);
    const double rest = done > 0 ? seconds * (1 - done) / done : 0;
    if (rest < 99)
        snprintf(left, sizeof left, "%d s", (int)(rest + 0.5));
    else
        clock_text(left, rest);
    if (done > 0)
        snprintf(end, sizeof end, ", %s left%s", left, now.items > 1 && !brief ? " in total" : "");
    snprintf(out, 128, "%.0f %%%s%s", 100 * fraction, rate, end);
}

/* "slide 3 of 17: " */
static void head_text(bool brief, char out[64])
{
    *out = 0;
    if (now.items > 1)
        snprintf(out, 64, "%s%s%" PRId64 " of %" PRId64 ": ", brief ? "" : now.what,
                 brief ? "" : " ", now.k + 1, now.items);
}

/* Columns for the line; the last one stays empty, as some terminals begin a new line after it. */
static int terminal_columns(void)
{
    struct winsize w = {0};
    if (!now.tty)
        return 4 * NAME_BYTES;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) || w.ws_col == 0)
        return USUAL_COLUMNS - 1;
    return w.ws_col - 1;
}

/* The line, at most `width` columns, in out. The name gives way first, in its middle. */
static void make_line(double fraction, double amount, double seconds, int width, char *out,
                      size_t size)
{
    char head[64], end[128], name[4 * NAME_BYTES], line[5 * NAME_BYTES];
    int room = 0;
    for (int brief = 0; brief < 2 && room < LEAST_NAME; brief++) {
        head_text(brief, head);
        end_text(fraction, amount, seconds, brief, end);
        room = width - (int)strlen(head) - (int)strlen(end) - 1;
    }
    text_fit(name, sizeof name, now.name, room > LEAST_NAME ? room : LEAST_NAME);
    snprintf(line, sizeof line, "%s%s %s", head, name, end);
    text_fit(out, size, line, width);
}

void progress_show(double fraction, double amount)
{
    char line[5 * NAME_BYTES];
    const double t = clock_now();
    if (!now.on || t - now.shown < (now.tty ? 0.2 : 10))
        return;
    now.shown = t;
    make_line(fraction, amount, t - now.begun, terminal_columns(), line, sizeof line);
    fprintf(stderr, "%s%s%s", now.tty ? "\r\033[K" : "", line, now.tty ? "" : "\n");
    fflush(stderr);
    now.drawn = now.tty;
}

void progress_clear(void)
{
    if (now.drawn)
        fputs("\r\033[K", stderr);
    now.drawn = false;
}

void progress_end(void)
{
    progress_clear();
    now.on = false;
}
