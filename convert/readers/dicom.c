/* dicom.c - see dicom.h. */
#include "convert/readers/dicom.h"

#include "common/base/path.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define SERIES DICOM_TAG(0x0020, 0x000e)

bool dicom_is(const struct slide_file *file)
{
    struct dicom_file f;
    char mark[4] = "";
    dicom_file_open(&f, file);
    return dicom_file_bytes(&f, 128, mark, 4) && !memcmp(mark, "DICM", 4);
}

/* Scanners and archives name files by numbers and UIDs. Others are not opened: a folder can hold
 * many. */
bool dicom_is_unnamed(const char *path)
{
    static const char *const endings[] = {".dicom", ".dic", ".ima", ".img"};
    const char *dot = strrchr(path_base_name(path), '.');
    bool may_be = !dot || dot[strcspn(dot, "0123456789")] || !dot[1];
    for (size_t k = 0; !may_be && k < sizeof endings / sizeof *endings; k++)
        may_be = !strcasecmp(dot, endings[k]);
    struct slide_file *file = may_be ? slide_file_open(path, NULL) : NULL;
    const bool is = file && dicom_is(file);
    slide_file_close(file);
    return is;
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
