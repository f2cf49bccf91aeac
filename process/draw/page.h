/*
 * page.h - the parts that pages share: head, content security policy, style and script.
 *
 * The Makefile embeds page.css and page.js, which are beside this file, and process/run/live.js. A
 * page allows exactly these by their SHA-256, and pictures as data: URIs; it loads nothing else.
 */
#ifndef WSI_PAGE_H
#define WSI_PAGE_H

#include <stdio.h>

/* What reports begin with, so that the program knows its own. */
#define PAGE_REPORT_HEAD "<!DOCTYPE html>\n<!-- h5spec report -->\n"
#define PAGE_LIVE_HEAD "<!DOCTYPE html>\n<!-- h5spec live -->\n"

enum page_kind { PAGE_REPORT, PAGE_LIVE };

/* Everything up to <body>. */
void page_begin(FILE *f, enum page_kind kind, const char *title);
/* The script, and the end of the page. `f` may get more before it, nothing after it. */
void page_script(FILE *f, enum page_kind kind);

#endif
