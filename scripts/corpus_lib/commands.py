"""The commands run, status and cancel."""
import json
import os
import re
import signal
import sys
import time

from corpus_lib.cluster import submit_all
from corpus_lib.device import choose_device
from corpus_lib.files import DONE, USAGE, die, program, say, write_whole
from corpus_lib.inputs import gather
from corpus_lib.local import begin_local, run_local
from corpus_lib.logs import suspects
from corpus_lib.schedulers import SCHEDULERS, active_tasks, ask, choose_scheduler
from corpus_lib.state import Corpus, new_run
from corpus_lib.status import print_status, status_of, verdict


def check_options(corpus, settings):
    """Wrong options of the programs are better told now than by every task."""
    for argv in ([program("wsi2h5")] + settings["wsi2h5"] + ["--list", os.devnull, "-o", corpus.stores],
                 [program("h5spec"), "run"] + settings["h5spec"] + ["-o", corpus.path("results"), "/dev/null/x.h5"]):
        p = ask(*argv)
        if p.returncode == USAGE:
            die(p.stderr.strip().split("\n")[0], USAGE)


def keep_settings(corpus, o):
    """One corpus, one set of parameters."""
    kept = corpus.settings()
    new = {"wsi2h5": o.wsi2h5, "h5spec": o.h5spec, "stores": o.stores and os.path.abspath(o.stores)}
    for name in new:
        if new[name] is None:
            new[name] = kept[name] if kept else None if name == "stores" else []
        elif kept and kept[name] != new[name]:
            die("%s was begun with --%s '%s'; take another folder for others (with --stores %s, "
                "to use what is converted)" % (
                corpus.out, name, kept[name] if name == "stores" else " ".join(kept[name]), corpus.stores))
    return new


def command_run(o):
    if os.path.exists(o.out) and not os.path.isdir(o.out):
        die("%s: is not a folder" % o.out)
    corpus = Corpus(o.out)
    slides = gather(o.slides, o.list)
    if not slides and not corpus.slides:
        die("no slide given", USAGE)
    os.environ.update({n.upper(): program(n) for n in ("wsi2h5", "h5spec")})
    name = choose_scheduler(o.scheduler, o.options)
    if name != "local" and not re.match(r"^[A-Za-z0-9_./+=@-]+$", corpus.out):
        die("%s: the schedulers take only plain letters in the path of a folder" % corpus.out)
    settings = keep_settings(corpus, o)
    kept = json.dumps(settings) + "\n"
    gpus, device = choose_device(o.gpus, name, settings["h5spec"])
    settings.update(scheduler=name, tasks=o.tasks, at_once=o.at_once, group_tasks=o.group_tasks, gpus=gpus, device=device,
                    options=o.options, convert_job=o.convert_job, process_job=o.process_job,
                    programs={n: os.environ[n] for n in ("WSI2H5", "H5SPEC")})
    corpus.stores = settings["stores"] or corpus.stores
    for folder in ("results", "parts", "runs", "logs", corpus.stores):
        os.makedirs(corpus.path(folder), exist_ok=True)
    check_options(corpus, settings)
    _, active = active_tasks(corpus)
    if active:
        die("%s: a run is going on (%d tasks); see status, wait, or cancel it" % (corpus.out, active))
    if not corpus.settings():
        write_whole(corpus.path("settings.json"), kept)
    known = set(corpus.slides)
    new = [s for s in dict.fromkeys(slides) if s not in known]
    if new:
        write_whole(corpus.path("slides.txt"), "".join(s + "\n" for s in corpus.slides + new))
        corpus = Corpus(o.out)
    corpus.clean()
    return start(corpus, settings, o.wait)


def start(corpus, settings, wait):
    late = suspects(corpus, "convert", "slide")
    convert = sorted(corpus.to_convert(), key=lambda s: s in late)
    process = corpus.to_process()
    results = [corpus.result(s) for s in corpus.slides if not corpus.namesake(s)]
    if not convert and not process and corpus.merged(results):
        say("nothing to do")
        st = status_of(corpus, None, 0)
        print_status(st)
        return verdict(st)
    if settings["scheduler"] == "local":
        return run_local(corpus, settings, begin_local(corpus, settings), convert)
    run = new_run(corpus, settings)
    write_whole(corpus.path("runs", str(run), "convert.txt"), "".join(s + "\n" for s in convert))
    submit_all(corpus, run, settings, convert, process)
    say("run %d: %s" % (run, ", ".join("%s %s%s" % (k, n, " (%s tasks)" % t if t != "0" else "")
                                       for k, n, t, _ in corpus.jobs(run) if n != "-")))
    if not wait:
        say("see: %s status -o %s" % (sys.argv[0], corpus.out))
        return DONE
    while active_tasks(corpus)[1]:
        time.sleep(2)
    st = status_of(corpus, SCHEDULERS[settings["scheduler"]], 0)
    print_status(st)
    return verdict(st)


def known_corpus(out):
    corpus = Corpus(out)
    if not corpus.slides:
        die("%s: no corpus is there (slides.txt is missing)" % out)
    return corpus


def command_status(o):
    corpus = known_corpus(o.out)
    scheduler, active = active_tasks(corpus)
    st = status_of(corpus, scheduler, active)
    if o.json:
        print(json.dumps(st))
    else:
        print_status(st)
    return verdict(st)


def command_cancel(o):
    corpus = known_corpus(o.out)
    scheduler, active = active_tasks(corpus)
    if not active:
        say("nothing is running")
        return DONE
    if not scheduler:
        os.kill(int(corpus.jobs(corpus.runs()[-1])[0][1].split(" ")[1]), signal.SIGTERM)
        return DONE
    for _ in range(2):  # the look-up job may have submitted others meanwhile
        scheduler.cancel([j[1] for j in corpus.jobs(corpus.runs()[-1]) if j[1] != "-"])
        time.sleep(0.5)
    say("cancelled; what is finished stays, run again goes on")
    return DONE
