/*
 * exit_status.h - the exit statuses of both programs.
 */
#ifndef WSI_EXIT_STATUS_H
#define WSI_EXIT_STATUS_H

/* Exit status of both programs. */
enum {
    EXIT_DONE = 0,    /* everything is done */
    EXIT_PART = 1,    /* some input is bad, the rest is done; again, it would fail again */
    EXIT_USAGE = 2,   /* wrong usage; nothing was begun */
    EXIT_STOPPED = 3, /* stopped by a signal; no unfinished file remains */
    EXIT_DAMAGED = 4, /* everything is written, some of it from damaged tiles */
    EXIT_TROUBLE = 5, /* the machine failed (err_is_trouble, memory.h), not the input: try again */
};

#endif
