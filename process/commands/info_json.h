/*
 * info_json.h - what `info --json` prints, for programs.
 */
#ifndef WSI_INFO_JSON_H
#define WSI_INFO_JSON_H

#include "common/result/result.h"
#include "process/commands/info_forms.h"

void info_store_json(const struct info_store *s);
int info_result_json(const char *path, struct result *r, struct err *e);

#endif
