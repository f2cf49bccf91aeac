/*
 * result_write.h - writing a result slide by slide, so that memory does not grow with their number.
 */
#ifndef WSI_RESULT_WRITE_H
#define WSI_RESULT_WRITE_H

#include "common/result/result.h"

struct result_writer;
struct result_writer *result_create(const char *path, const struct result_params *p, struct err *e);
/* Names must differ. */
int result_put_slide(struct result_writer *w, const struct result_slide *s, struct err *e);
/* Finishes, publishes and frees. On failure the final name is untouched, with the one exception
 * that publish_commit() has. */
int result_commit(struct result_writer *w, struct err *e);
void result_abort(struct result_writer *w);

#endif
