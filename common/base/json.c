/* json.c - see json.h. */
#include "common/base/json.h"

#include "common/base/number.h"
#include "common/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The character of a valid sequence of at most three bytes. */
static unsigned code_of(const unsigned char *s, size_t n)
{
    return n == 1   ? s[0]
           : n == 2 ? (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu)
                    : (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
}

void json_write_escaped(FILE *f, const char *s, const char *also)
{
    fputc('"', f);
    while (*s) {
        const size_t n = utf8_length(s);
        if (n == 0)
            fprintf(f, "\\udc%02x", (unsigned char)*s);
        else if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if (utf8_unsafe(s) || (n == 1 && strchr(also, *s)))
            fprintf(f, "\\u%04x", code_of((const unsigned char *)s, n));
        else
            fwrite(s, 1, n, f);
        s += n ? n : 1;
    }
    fputc('"', f);
}

void json_write_string(FILE *f, const char *text)
{
    json_write_escaped(f, text, "");
}

void json_write_number(FILE *f, double x)
{
    char buf[32];
    fputs(isfinite(x) ? number_text(buf, x) : "null", f);
}

void json_begin(const char *key, const char *value)
{
    printf("{\"%s\": ", key);
    json_write_string(stdout, value);
}

void json_text(const char *key, const char *value)
{
    printf(", \"%s\": ", key);
    json_write_string(stdout, value);
}

void json_int(const char *key, int64_t value)
{
    printf(", \"%s\": %" PRId64, key, value);
}

void json_count(const char *key, uint64_t value)
{
    printf(", \"%s\": %" PRIu64, key, value);
}

void json_bool(const char *key, bool value)
{
    printf(", \"%s\": %s", key, value ? "true" : "false");
}

void json_real(const char *key, double value)
{
    printf(", \"%s\": ", key);
    json_write_number(stdout, value);
}

void json_failure(const struct err *why)
{
    static const char *const details[] = {
        [ERR_ABSENT] = "absent", [ERR_MEMORY] = "memory", [ERR_DISK] = "disk"};
    json_text("message", why->msg);
    json_text("cause", err_is_trouble(why) ? "trouble" : "input");
    if (details[why->kind])
        json_text("detail", details[why->kind]);
}

void json_end_line(FILE *f)
{
    char host[256] = "", at[32] = "";
    const char *node = getenv("SLURMD_NODENAME");
    const time_t now = time(NULL);
    struct tm utc;
    if (gethostname(host, sizeof host - 1))
        host[0] = 0;
    if (gmtime_r(&now, &utc))
        strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &utc);
    fputs(", \"host\": ", f);
    json_write_string(f, node ? node : host);
    fprintf(f, ", \"time\": \"%s\"}\n", at);
    fflush(f);
}
