/* stop.c - see stop.h. */
#include "common/base/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

static atomic_int signal_number;
static atomic_llong stop_second; /* when the first one came */

/* `timeout` and schedulers may send a signal twice. Only one that comes more than two seconds after
 * the first one means "now". */
static void on_signal(int number)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (!signal_number) {
        stop_second = t.tv_sec;
        signal_number = number;
    } else if ((number == SIGINT || number == SIGTERM) && t.tv_sec - stop_second > 2) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

void stop_catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old;
        if (!sigaction(numbers[i], NULL, &old) && old.sa_handler != SIG_IGN) /* as under nohup */
            sigaction(numbers[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
}

int stop_signal(void)
{
    return signal_number;
}

int stop_check(struct err *e)
{
    int number = signal_number;
    return number ? err_set(e, "stopped by signal %d (%s)", number, strsignal(number)) : 0;
}
