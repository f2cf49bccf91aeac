/* dicom.c - see dicom.h. */
#include "convert/readers/dicom.h"

#include <errno.h>
#include <string.h>

#define SERIES DICOM_TAG(0x0020, 0x000e)

bool dicom_is(const struct slide_file *file)
{
    struct dicom_file f;
    char mark[4] = "";
    dicom_file_open(&f, file);
    return dicom_file_bytes(&f, 128, mark, 4) && !memcmp(mark, "DICM", 4);
}

static bool is_uid(const char *text)
{
    return text[0] && text[strspn(text, "0123456789.")] == 0;
}

static enum dicom_step take_series(void *ctx, struct dicom_file *f, const struct dicom_element *e,
                                   const struct dicom_path *p)
{
    char *uid = ctx;
    (void)p;
    if (e->tag < SERIES)
        return DICOM_SKIP;
    if (e->tag == SERIES && (!dicom_file_text(f, e, uid, DICOM_UID) || !is_uid(uid)))
        uid[0] = 0;
    return DICOM_STOP;
}

bool dicom_series(const char *path, char uid[DICOM_UID])
{
    struct dicom_file f;
    struct slide_file *file = slide_file_open(path, NULL);
    uid[0] = 0;
    if (!file)
        return false;
    const bool good = dicom_file_open(&f, file) && dicom_file_walk(&f, take_series, uid);
    slide_file_close(file);
    errno = f.code;
    return good && uid[0];
}
