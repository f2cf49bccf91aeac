/*
 * info_text.h - what `info` prints for people.
 */
#ifndef WSI_INFO_TEXT_H
#define WSI_INFO_TEXT_H

#include "common/result/result.h"
#include "process/commands/info_forms.h"

void info_store_text(const struct info_store *s);
int info_result_text(const char *path, struct result *r, struct err *e);

#endif
