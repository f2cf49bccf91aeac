/*
 * map_follow.h - waits for a file of scores that another program writes.
 */
#ifndef WSI_MAP_FOLLOW_H
#define WSI_MAP_FOLLOW_H

#include "process/map/map_setup.h"

struct map_follow {
    const struct map_scores_setup *o;
    int fd;               /* -1: the file does not exist yet */
    int64_t at, whole;    /* bytes: looked at; up to the end of the last whole line */
    int64_t rows;         /* lines with a patch among them */
    bool ended;           /* one of them is "#end" */
    char line[8];         /* the begin of the line at hand */
    int filled;           /* bytes of it, at most sizeof line */
    double changed, told; /* s: when the file grew last; when maps were asked for last */
    bool fresh;           /* it has grown since */
    char said[256];       /* the message that was printed last */
};

void map_follow_begin(struct map_follow *f, const struct map_scores_setup *o);
/* Waits until the file has grown: 0, maps may be made of its first `whole` bytes; or is complete:
 * 1. -1: stopped by a signal, or it cannot be read. Calls that return 0 are at least two seconds
 * apart, and ten times as long as the caller needed for its maps. */
int map_follow_wait(struct map_follow *f, struct err *e);
/* Prints a message, unless it was the last one, too. */
void map_follow_say(struct map_follow *f, const char *text);
void map_follow_end(struct map_follow *f);

#endif
