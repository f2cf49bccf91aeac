"""Tasks on a cluster: arrays and what depends on them."""
import os
import sys

from corpus_lib.files import HERE, read_lines, stem
from corpus_lib.schedulers import SCHEDULERS
from corpus_lib.state import groups_of


def script(scheduler, name):
    return os.path.join(HERE, scheduler.name, name + ".sh")


def array_size(n, settings, scheduler):
    """A task a line, but not more than asked for or than the scheduler takes."""
    return max(1, min(n, settings["tasks"] or n, scheduler.limit()))


def submit(corpus, run, settings, kind, argv, tasks=0, after=(), log=None, about="", binary=False, gpus=None):
    scheduler = SCHEDULERS[settings["scheduler"]]
    own = {"convert": "convert_job", "process": "process_job", "groups": "process_job"}.get(kind)
    number = scheduler.submit(kind, argv, corpus.path("logs", "%d.%s" % (run, log or kind)), tasks,
                              settings["at_once"] if tasks else 0, list(after),
                              settings["options"] + (settings[own] if own else []), binary, gpus)
    corpus.add_job(run, kind, number, tasks, about or scheduler.name)
    return number


def step_command(corpus, run, name):
    return [sys.executable, os.path.join(HERE, "corpus"), "step", name, "-o", corpus.out, "--run", str(run)]


def submit_all(corpus, run, settings, convert, process):
    """Arrays and what depends on them. With group tasks the look-up job submits the rest."""
    scheduler = SCHEDULERS[settings["scheduler"]]
    corpus.add_job(run, "begin", "-", 0, scheduler.name)
    after = []
    if convert:
        after = [submit(corpus, run, settings, "convert",
                        [script(scheduler, "convert"), corpus.stores,
                         corpus.path("runs", str(run), "convert.txt")] + settings["wsi2h5"],
                        array_size(len(convert), settings, scheduler), about="")]
    after = [submit(corpus, run, settings, "lookup", step_command(corpus, run, "lookup"), after=after, binary=True)]
    if settings["group_tasks"]:
        return
    n = len(set(convert) | set(process))
    if n:
        after = [submit(corpus, run, settings, "process",
                        [script(scheduler, "process"), corpus.path("results"),
                         corpus.path("runs", str(run), "process.txt")] + settings["h5spec"] + settings["device"],
                        array_size(n, settings, scheduler), after=after, gpus=settings["gpus"])]
    submit(corpus, run, settings, "merge", step_command(corpus, run, "merge"), after=after, binary=True)


def submit_groups(corpus, run, settings):
    """One array a slide, a task a group, then the merge."""
    scheduler, after = SCHEDULERS[settings["scheduler"]], []
    for store in read_lines(corpus.path("runs", str(run), "process.txt")):
        name, n = stem(store), groups_of(corpus)[store]
        tasks = array_size(n, settings, scheduler)
        os.makedirs(corpus.path("parts", name), exist_ok=True)
        after.append(submit(corpus, run, settings, "groups",
                            [script(scheduler, "groups"), corpus.path("parts", name), store, str(n), str(tasks)]
                            + settings["h5spec"] + settings["device"], tasks, log="groups." + name.replace("%", "%%"),
                            about="%d %s" % (n, name), gpus=settings["gpus"]))
    submit(corpus, run, settings, "merge", step_command(corpus, run, "merge"), after=after, binary=True)
