/*
 * server.h - runs a program many times with its libraries loaded once.
 *
 * If the environment variable TORTURE_SERVER is "IN,OUT" (two descriptors), the program waits
 * before main() instead of running. For each line that arrives on IN it forks a child, which runs
 * main(). A line is a list of NAME=VALUE, separated by tabs, that the child adds to its
 * environment; TORTURE_ERR names the file that receives the child's stderr. The server writes two
 * lines to OUT: the child's process number, then its wait status. It ends when IN does.
 */
#ifndef TORTURE_SERVER_H
#define TORTURE_SERVER_H

/* Each preloaded library defines it: it reads the settings from the environment, before main(). */
void server_begin(void);

#endif
