/* stop.c - see stop.h. */
#include "common/base/stop.h"

#include "common/base/exit_status.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_int signal_number;
static atomic_llong stop_second; /* when the first one came */
static atomic_int inside;        /* threads that are in a library */

static void look_again(void)
{
    const struct itimerval t = {.it_value = {1, 500000}};
    setitimer(ITIMER_REAL, &t, NULL);
}

static void on_alarm(int number)
{
    static const char text[] = ": stopped by a signal inside a library\n";
    const char *name = program_invocation_short_name;
    (void)number;
    if (!inside) {
        look_again();
        return;
    }
    (void)!write(STDERR_FILENO, name, strlen(name));
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(EXIT_STOPPED);
}

/* `timeout` and schedulers may send a signal twice. Only one that comes more than two seconds after
 * the first one means "now". */
static void on_signal(int number)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (!signal_number) {
        stop_second = t.tv_sec;
        signal_number = number;
        look_again();
    } else if ((number == SIGINT || number == SIGTERM) && t.tv_sec - stop_second > 2) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};
static struct sigaction pipe_before; /* what SIGPIPE did */

void stop_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old;
        if (!sigaction(numbers[i], NULL, &old) && old.sa_handler != SIG_IGN) /* as under nohup */
            sigaction(numbers[i], &action, NULL);
    }
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, &pipe_before);
}

void stop_release_signals(void)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        if (!sigaction(numbers[i], NULL, &now) && now.sa_handler == on_signal)
            signal(numbers[i], SIG_DFL);
    }
    signal(SIGALRM, SIG_DFL);
    sigaction(SIGPIPE, &pipe_before, NULL);
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

void stop_library_begin(void)
{
    inside++;
}

void stop_library_end(void)
{
    inside--;
}
