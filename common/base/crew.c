/* crew.c - see crew.h. */
#include "common/base/crew.h"

#include "common/base/cli.h"
#include "common/base/clock.h"
#include "common/base/memory.h"
#include "common/base/read_at.h"
#include "common/base/stop.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO_ITEM = -1, STOP_MS = 1000 }; /* after which a member that does not stop is killed */

struct member {
    pid_t pid; /* 0: none */
    int fd;    /* our end of its socket */
    int64_t item;
    int64_t peak; /* of members that sat here before */
};

struct crew {
    struct crew_setup s;
    struct member *members;  /* [s.members] */
    struct crew_seat *seats; /* [s.members], shared */
    struct pollfd *polls;    /* [s.members]; of the seats with a member, in their order */
    void *answer;            /* of the last event */
    int busy;
    bool filled; /* no member is forked later */
    pid_t parent;
};

/* In a member: its socket, and the size of an answer. */
static int my_socket = -1;
static size_t my_answer_bytes;

/* The word that precedes an answer. */
enum word { WORD_DONE, WORD_LAST, WORD_ASKS }; /* LAST: done, and the member leaves */

/* --- the socket --- */

static bool get(int fd, void *to, size_t n)
{
    for (char *p = to; n > 0;) {
        const ssize_t k = recv(fd, p, n, 0);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* --- the member --- */

static bool tell(enum word word, const void *answer)
{
    return !write_whole(my_socket, &word, sizeof word) &&
           !write_whole(my_socket, answer, my_answer_bytes);
}

bool crew_ask(struct crew_seat *seat, const void *answer)
{
    char go = 0;
    atomic_store(&seat->peak_memory, cli_peak_memory());
    return tell(WORD_ASKS, answer) && get(my_socket, &go, 1) && go;
}

static _Noreturn void member_main(struct crew *c, int seat)
{
    const struct crew_setup *s = &c->s;
    enum word word = WORD_DONE;
    int64_t item;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    memory_before_end(NULL);
    publish_show(c->seats[seat].unfinished);
    for (int k = 0; k < s->members; k++)
        if (k != seat && c->members[k].pid)
            close(c->members[k].fd);
    while (word == WORD_DONE && getppid() == c->parent && get(my_socket, &item, sizeof item)) {
        memset(c->answer, 0, s->answer_bytes);
        s->work(s->ctx, item, &c->seats[seat], c->answer);
        atomic_store(&c->seats[seat].peak_memory, cli_peak_memory());
        word = stop_signal() ? WORD_LAST : WORD_DONE;
        if (!tell(word, c->answer))
            break;
    }
    s->leave(EXIT_DONE);
    abort();
}

/* --- the parent --- */

static struct crew *mine;
static void end_members(struct crew *c);

static void end_mine(void)
{
    end_members(mine);
}

/* Members whose sockets leave the parent enough descriptors for what it opens itself. */
static int bounded_by_descriptors(int members)
{
    enum { OTHERS = 16 };
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) || most.rlim_cur >= (rlim_t)members + OTHERS)
        return members;
    return most.rlim_cur > OTHERS ? (int)most.rlim_cur - OTHERS : 1;
}

struct crew *crew_create(const struct crew_setup *s)
{
    struct crew *c = memory_need(1, sizeof *c);
    assert(s->members >= 1 && s->cores >= 1);
    signal(SIGCHLD, SIG_DFL); /* a parent may ignore it: then nobody could be waited for */
    c->s = *s;
    c->s.members = bounded_by_descriptors(s->members);
    c->parent = getpid();
    const size_t n = (size_t)c->s.members;
    c->members = memory_need(n, sizeof *c->members);
    c->polls = memory_need(n, sizeof *c->polls);
    c->answer = memory_need(1, s->answer_bytes);
    c->seats =
        mmap(NULL, n * sizeof *c->seats, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c->seats == MAP_FAILED)
        memory_end();
    for (size_t k = 0; k < n; k++)
        c->members[k].item = NO_ITEM;
    mine = c;
    memory_before_end(end_mine);
    return c;
}

/* The seat for another item: an idle member's, else an empty one. -1: there is none. */
static int free_seat(const struct crew *c)
{
    int empty = -1;
    for (int k = c->s.members - 1; k >= 0; k--) {
        if (c->members[k].pid && c->members[k].item == NO_ITEM)
            return k;
        empty = c->members[k].pid || c->filled ? empty : k;
    }
    return empty;
}

bool crew_has_room(const struct crew *c)
{
    return free_seat(c) >= 0;
}

int crew_busy(const struct crew *c)
{
    return c->busy;
}

const struct crew_seat *crew_seat_of(const struct crew *c, int64_t item)
{
    for (int k = 0; k < c->s.members; k++)
        if (c->members[k].item == item)
            return &c->seats[k];
    return NULL;
}

/* Divides the cores among the members at work. */
static void share_cores(struct crew *c)
{
    int left = c->s.cores, among = c->busy;
    for (int k = 0; k < c->s.members; k++) {
        if (c->members[k].item == NO_ITEM)
            continue;
        const int share = left / among > 0 ? left / among : 1;
        atomic_store(&c->seats[k].threads, share);
        left -= share;
        among--;
    }
}

static int fork_member(struct crew *c, int seat, struct err *e)
{
    int ends[2];
    struct member *m = &c->members[seat];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return err_sys(e, "cannot start a process (ulimit -n)");
    fflush(stdout); /* what is buffered would be written twice */
    const pid_t pid = fork();
    const bool many = pid < 0 && errno == EAGAIN;
    if (pid == 0) {
        close(ends[0]);
        my_socket = ends[1];
        my_answer_bytes = c->s.answer_bytes;
        member_main(c, seat);
    }
    const int r = pid < 0 ? err_sys(e, "cannot start a process%s", many ? " (ulimit -u)" : "") : 0;
    close(ends[1]);
    if (pid < 0)
        close(ends[0]);
    else
        *m = (struct member){.pid = pid, .fd = ends[0], .item = NO_ITEM, .peak = m->peak};
    return r;
}

int crew_fill(struct crew *c, struct err *e)
{
    for (int k = 0; k < c->s.members; k++)
        if (!c->members[k].pid && fork_member(c, k, e))
            return -1;
    c->filled = true;
    return 0;
}

int crew_begin(struct crew *c, int64_t item, struct err *e)
{
    const int k = free_seat(c);
    assert(k >= 0);
    struct member *m = &c->members[k];
    if (!m->pid && fork_member(c, k, e))
        return -1;
    c->seats[k].fraction = c->seats[k].amount = 0;
    m->item = item;
    c->busy++;
    share_cores(c);
    (void)write_whole(m->fd, &item,
                      sizeof item); /* if it has died meanwhile, the next event says so */
    return 0;
}

/* Its item is over. */
static void set_free(struct crew *c, struct member *m)
{
    m->item = NO_ITEM;
    c->busy--;
    share_cores(c);
}

/* Waits for a member that has ended, or will now. Returns its status. */
static int bury(struct crew *c, int seat)
{
    struct member *m = &c->members[seat];
    int status = 0;
    while (waitpid(m->pid, &status, 0) < 0 && errno == EINTR)
        ;
    close(m->fd);
    m->pid = 0;
    if (c->seats[seat].unfinished[0])
        unlink(c->seats[seat].unfinished);
    c->seats[seat].unfinished[0] = 0;
    const int64_t peak = atomic_exchange(&c->seats[seat].peak_memory, 0);
    m->peak = peak > m->peak ? peak : m->peak;
    return status;
}

static struct crew_event event_of(struct crew *c, int seat)
{
    struct member *m = &c->members[seat];
    enum word word;
    struct crew_event v = {.seat = seat, .item = m->item, .answer = c->answer};
    const bool told = get(m->fd, &word, sizeof word) && get(m->fd, c->answer, c->s.answer_bytes);
    if (told && word == WORD_ASKS) {
        v.kind = CREW_ASKS;
        return v;
    }
    v.kind = told ? CREW_DONE : m->item == NO_ITEM ? CREW_NONE : CREW_DIED;
    if (!told || word == WORD_LAST)
        v.status = bury(c, seat);
    if (v.kind != CREW_NONE)
        set_free(c, m);
    return v;
}

struct crew_event crew_wait(struct crew *c, int ms)
{
    nfds_t n = 0; /* more than there may be descriptors poll() refuses */
    for (int k = 0; k < c->s.members; k++)
        if (c->members[k].pid)
            c->polls[n++] = (struct pollfd){.fd = c->members[k].fd, .events = POLLIN};
    if (poll(c->polls, n, ms) > 0) {
        n = 0;
        for (int k = 0; k < c->s.members; k++)
            if (c->members[k].pid && c->polls[n++].revents)
                return event_of(c, k);
    }
    return (struct crew_event){.kind = CREW_NONE};
}

void crew_reply(struct crew *c, int seat, bool go)
{
    const char word = go;
    (void)write_whole(c->members[seat].fd, &word, 1);
}

void crew_stop(struct crew *c)
{
    for (int k = 0; k < c->s.members; k++)
        if (c->members[k].pid)
            kill(c->members[k].pid, SIGTERM);
}

int64_t crew_peak_memory(const struct crew *c)
{
    int64_t sum = 0;
    for (int k = 0; k < c->s.members; k++) {
        const int64_t now = atomic_load(&c->seats[k].peak_memory);
        sum += now > c->members[k].peak ? now : c->members[k].peak;
    }
    return sum;
}

static void ask_to_end(const struct member *m)
{
    shutdown(m->fd, SHUT_WR); /* an idle member reads the end */
    if (m->item != NO_ITEM)
        kill(m->pid, SIGTERM);
}

/* Has it ended within `ms`? Its socket hangs up then. */
static bool has_ended(const struct member *m, int ms)
{
    struct pollfd p = {.fd = m->fd, .events = 0};
    char unread[4096];
    while (recv(m->fd, unread, sizeof unread, MSG_DONTWAIT) > 0)
        ;
    return poll(&p, 1, ms) > 0;
}

/* Waits for those that end by themselves, then kills the others. */
static void end_members(struct crew *c)
{
    const double begun = clock_now();
    for (int k = 0; k < c->s.members; k++)
        if (c->members[k].pid)
            ask_to_end(&c->members[k]);
    for (int k = 0; k < c->s.members; k++) {
        const int left = STOP_MS - (int)(1000 * (clock_now() - begun));
        if (!c->members[k].pid)
            continue;
        if (!has_ended(&c->members[k], left > 0 ? left : 0))
            kill(c->members[k].pid, SIGKILL);
        bury(c, k);
    }
}

void crew_free(struct crew *c)
{
    if (!c)
        return;
    if (c->seats) {
        memory_before_end(NULL);
        end_members(c);
        munmap(c->seats, (size_t)c->s.members * sizeof *c->seats);
    }
    free(c->members);
    free(c->polls);
    free(c->answer);
    free(c);
}
