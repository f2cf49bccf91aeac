/* task.c - see task.h. */
#include "common/base/task.h"

#include "common/base/number.h"

#include <stdlib.h>
#include <string.h>

/* A whole number from the environment, or `otherwise` (Grid Engine sets "undefined"). */
static int64_t environment(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    int64_t v;
    return text && !number_digits(&text, &v) && !*text ? v : otherwise;
}

/* The task of an array job from its four variables: 1, 0 when they are not set, or -1 when the
 * array has gaps. */
static int array_task(const char *const names[4], int64_t *task, int64_t *tasks)
{
    const int64_t id = environment(names[0], -1), first = environment(names[1], id);
    const int64_t last = environment(names[2], id), step = environment(names[3], 1);
    if (id < 0 || step < 1 || first < 0 || last < first || id < first || id > last ||
        (id - first) % step)
        return 0;
    *task = (id - first) / step + 1;
    *tasks = (last - first) / step + 1;
    return environment("SLURM_ARRAY_TASK_COUNT", *tasks) == *tasks ? 1 : -1;
}

int task_parse(const char *what, const char *text, int64_t *task, int64_t *tasks, struct err *e)
{
    static const char *const slurm[4] = {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN",
                                         "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP"};
    static const char *const sge[4] = {"SGE_TASK_ID", "SGE_TASK_FIRST", "SGE_TASK_LAST",
                                       "SGE_TASK_STEPSIZE"};
    const char *s = text;
    if (!strcmp(text, "auto")) {
        const int found = array_task(slurm, task, tasks);
        if (found < 0) /* --array=3,7: which share of how many was meant? */
            return err_set(e,
                           "%s auto: the tasks of this array are not evenly spaced; give "
                           "%s I/N with the N of the whole array",
                           what, what);
        if (found || array_task(sge, task, tasks))
            return 0;
        return err_set(e, "%s auto: not inside an array job of Slurm or Grid Engine", what);
    }
    if (number_digits(&s, task) || *s++ != '/' || number_digits(&s, tasks) || *s || *task < 1 ||
        *task > *tasks)
        return err_set(e, "%s %s: not a share such as 3/10, or auto", what, text);
    return 0;
}
