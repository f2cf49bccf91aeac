"""A run on a cluster: job arrays, and the two small jobs between and after them.

  convert array -> look-up job -> process array -> merge job

With --group-tasks the look-up job submits the rest: one array per slide, one task per group.
"""
import os
import sys

from corpus_lib.files import HERE, PART, counted, die, read_lines, say, stem, write_list
from corpus_lib.schedulers import SCHEDULERS, Refused


def script(scheduler, name):
    return os.path.join(HERE, scheduler.name, name + ".sh")


def array_size(n, settings, scheduler):
    """One task per line, but at most as many as asked for and as the scheduler accepts."""
    return max(1, min(n, settings["tasks"] or n, scheduler.limit()))


def submit(corpus, run, settings, kind, argv, tasks=0, after=(), log=None, about="", binary=False,
           gpus=None):
    """Submits a job and notes it. Raises Refused."""
    scheduler = SCHEDULERS[settings["scheduler"]]
    own = {"convert": "convert_job", "process": "process_job", "groups": "process_job"}.get(kind)
    number = scheduler.submit(kind, argv, corpus.path("logs", "%d.%s" % (run, log or kind)), tasks,
                              settings["at_once"] if tasks else 0, list(after),
                              settings["options"] + (settings[own] if own else [])
                              + scheduler.not_on(settings.get("exclude") or []), binary, gpus)
    corpus.add_job(run, kind, number, tasks, about or scheduler.name)
    return number


def set_stage(settings):
    """Tells the tasks where to stage; see stage.py."""
    if settings.get("stage"):
        os.environ.update(WSI_STAGE=os.path.join(HERE, "stage"), WSI_STAGE_DIR=settings["stage"])


def submit_step(corpus, run, settings, name, after):
    command = [sys.executable, os.path.join(HERE, "corpus"), "step", name, "-o", corpus.out,
               "--run", str(run)]
    return submit(corpus, run, settings, name, command, after=after, binary=True)


def withdraw(corpus, run, settings, reason):
    """After a refusal: records it, and cancels what the run has submitted already."""
    corpus.add_problem(run, str(reason))
    ids = [j[1] for j in corpus.jobs(run) if j[1] != "-"]
    if ids:
        SCHEDULERS[settings["scheduler"]].cancel(ids)
    die("%s\ncorpus: %sno job is left in the queue; correct the options and run again" % (
        reason, "%s cancelled, " % counted(len(ids), "job") if ids else ""), PART)


def submit_all(corpus, run, settings, convert, process):
    """Submits the arrays of a run and what depends on them."""
    set_stage(settings)
    corpus.add_job(run, "begin", "-", 0, settings["scheduler"])
    write_list(corpus.run_path(run, "convert.txt"), convert)
    try:
        after = submit_convert(corpus, run, settings, len(convert)) if convert else []
        after = [submit_step(corpus, run, settings, "lookup", after)]
        if settings["group_tasks"]:
            return
        n = len(set(convert) | set(process))
        if n:
            after = submit_process(corpus, run, settings, n, after)
        submit_step(corpus, run, settings, "merge", after)
    except Refused as e:
        withdraw(corpus, run, settings, e)


def submit_convert(corpus, run, settings, n):
    scheduler = SCHEDULERS[settings["scheduler"]]
    command = [script(scheduler, "convert"), corpus.stores, corpus.run_path(run, "convert.txt")]
    return [submit(corpus, run, settings, "convert", command + settings["wsi2h5"],
                   array_size(n, settings, scheduler))]


def submit_process(corpus, run, settings, n, after):
    scheduler = SCHEDULERS[settings["scheduler"]]
    command = [script(scheduler, "process"), corpus.path("results"),
               corpus.run_path(run, "process.txt")] + settings["h5spec"] + settings["process"]
    return [submit(corpus, run, settings, "process", command,
                   array_size(n, settings, scheduler), after=after, gpus=settings["gpus"])]


def submit_groups(corpus, run, settings):
    """One array per slide, one task per group, then the merge. Called by the look-up job."""
    scheduler, after, groups = SCHEDULERS[settings["scheduler"]], [], corpus.groups()
    try:
        for store in read_lines(corpus.run_path(run, "process.txt")):
            name, n = stem(store), groups[store]
            if corpus.stopped(run):
                say("the run was cancelled")
                return
            tasks = array_size(n, settings, scheduler)
            os.makedirs(corpus.path("parts", name), exist_ok=True)
            command = [script(scheduler, "groups"), corpus.path("parts", name), store, str(n),
                       str(tasks)]
            after.append(submit(corpus, run, settings, "groups",
                                command + settings["h5spec"] + settings["process"], tasks,
                                log="groups." + name.replace("%", "%%"), about="%d %s" % (n, name),
                                gpus=settings["gpus"]))
        submit_step(corpus, run, settings, "merge", after)
    except Refused as e:
        withdraw(corpus, run, settings, e)
