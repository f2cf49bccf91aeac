/*
 * report_python.h - the report as a program in Python (scripts/wsi_answers), and what it is given.
 *
 * Python judges, says and writes; it reads no results. It gets a line of JSON with the options, the
 * inputs without numbers, copies and, for each slide, the row of a table that has its numbers: a table of
 * this program (report_rows.h), or one among the inputs, every row of which has been read and
 * checked. Then it asks, a line at a time, and gets what is read from results again:
 *
 *   pictures K      AT and bytes of the pictures of slide K in the file of pictures
 *   maps K PARTS    sizes, which parts there are, then values of maps and thumbnail (f: focus, t: tissue, d: flags, r: rgb)
 *   write WHAT N    and N bytes: publishes the file output, csv, key or multiqc
 *   done P N R F B  how many slides pass, are not judged, are for review, fail; inputs that are bad
 *
 * An answer is "ok", what was asked for, or "none", or "bad": it cannot be read, as a message has
 * said, or "end": the machine failed, and this program says why.
 */
#ifndef WSI_REPORT_PYTHON_H
#define WSI_REPORT_PYTHON_H

#include "process/report/numbers/report_pictures.h"
#include "process/report/numbers/report_slides.h"
#include "process/report/python/report_rows.h"

/* Does the user ask for this program (WSI_REPORT=python)? */
bool report_python_is_chosen(void);

struct report_python;
/* Starts the program: it loads its packages while results are read. NULL on failure. */
struct report_python *report_python_start(struct err *e);

/* What it is given. */
struct report_python_input {
    const struct report_setup *setup;
    struct report_slides *slides; /* they get pictures that are asked for */
    const struct report_failures *failures;
    const struct report_rows *rows; /* NULL: no slide has one */
    struct report_spool *spool;     /* NULL: no pictures */
    int64_t bad;                    /* inputs that cannot be used */
};
/* Gives it the input and answers until it ends. *bad and verdicts[] get what it has found, if it has
 * written everything; else *status gets its exit status, and it has said why. */
int report_python_run(struct report_python *p, const struct report_python_input *in, int64_t *bad,
                      int64_t verdicts[REPORT_VERDICTS], int *status, struct err *e);
/* Ends the program if it runs still. NULL is fine. */
void report_python_end(struct report_python *p);

#endif
