"""The commands run, status and cancel. Each returns the exit status."""
import json
import os
import re
import shlex
import signal
import sys
import time

from corpus_lib import checks
from corpus_lib.again import try_again
from corpus_lib.attempts import Attempts
from corpus_lib.cluster import submit_all
from corpus_lib.device import choose_device
from corpus_lib.files import (DONE, PART, TROUBLE, USAGE, ask, counted, die, fresh, program, say,
                              write_whole)
from corpus_lib.inputs import gather
from corpus_lib.local import run_local
from corpus_lib.progress import Progress
from corpus_lib.report import write_report
from corpus_lib.remove import BEYOND, find, remove
from corpus_lib.schedulers import (PATIENCE, SCHEDULERS, Away, active_tasks, choose_scheduler,
                                   patient)
from corpus_lib.state import Corpus
from corpus_lib.status import (headline, is_merged, look, print_prometheus, print_status, status_of,
                               verdict)
from corpus_lib.steps import remake


# --- run ---

def check_options(corpus, settings):
    """Wrong options of the programs are reported now, once, and not by every task."""
    if "--keep-tree" in settings["wsi2h5"]:
        die("--wsi2h5 --keep-tree: a corpus has one folder of stores; slides with the same name get "
            "numbers", USAGE)
    if "--anonymous" in settings["wsi2h5"]:
        die("--wsi2h5 --anonymous: a corpus finds stores by the names of their slides; run wsi2h5 "
            "--anonymous, then h5spec", USAGE)
    for argv in ([program("wsi2h5")] + settings["wsi2h5"] +
                 ["--list", os.devnull, "-o", corpus.stores],
                 [program("h5spec"), "run"] + settings["h5spec"] +
                 ["-o", corpus.path("results"), "/dev/null/x.h5"]):
        p = ask(*argv)
        if p.returncode == USAGE:
            die(p.stderr.strip().split("\n")[0], USAGE)


def with_codec(words):
    """Options of wsi2h5 with a codec: keep, if they name none and h5spec can read kept tiles."""
    if any(w.split("=")[0] == "--codec" for w in words):
        return words
    kept = "--gray" not in words and "without libjpeg" not in ask(program("h5spec"), "--version").stdout
    return ["--codec", "keep" if kept else "deflate"] + words


def shared_settings(corpus, o):
    """The options that all runs of a corpus share: one corpus, one set of parameters."""
    kept = corpus.settings
    wsi2h5 = o.wsi2h5
    if not kept:
        wsi2h5 = with_codec(wsi2h5 or [])
    elif wsi2h5 is not None and kept["wsi2h5"] != wsi2h5:
        wsi2h5 = with_codec(wsi2h5)
    new = {"wsi2h5": wsi2h5, "h5spec": o.h5spec, "stores": o.stores and os.path.abspath(o.stores)}
    for name in new:
        if new[name] is None:
            new[name] = kept[name] if kept else None if name == "stores" else []
        elif kept and kept[name] != new[name]:
            before = kept[name] if name == "stores" else " ".join(map(shlex.quote, kept[name]))
            die("%s was started with %s; use another folder for other options, with --stores %s to "
                "keep the converted slides" % (
                    corpus.out, "--%s '%s'" % (name, before) if before else "no --" + name,
                    corpus.stores))
    for name in ("allow_duplicates", "table"):
        new[name] = getattr(o, name) or bool(kept and kept.get(name))
    return new


def run_settings(o, shared, scheduler):
    """All settings of one run."""
    gpus, process = choose_device(o.gpus, scheduler, shared["h5spec"])
    if shared["allow_duplicates"]:
        process = process + ["--allow-duplicates"]
    return dict(shared, scheduler=scheduler, retries=o.retries, stage=o.stage, tasks=o.tasks, at_once=o.at_once, gpus=gpus,
                process=process, group_tasks=o.group_tasks, options=o.options,
                convert_job=o.convert_job, process_job=o.process_job,
                programs={n: os.environ[n] for n in ("WSI2H5", "H5SPEC")})


def command_run(o):
    if os.path.exists(o.out) and not os.path.isdir(o.out):
        die("%s is not a folder" % o.out)
    corpus = Corpus(o.out)
    again = [path for path in corpus.rejected if os.path.lexists(path)]
    slides, problems = gather(o.slides + again, o.list)
    if not slides and not corpus.is_known():
        for path, problem in problems.items():
            say("%s: %s" % (path, problem))
        die("no slides found" if problems else "no slides given", PART if problems else USAGE)
    os.environ.update({n.upper(): program(n) for n in ("wsi2h5", "h5spec")})
    scheduler = choose_scheduler(o.scheduler, o.options)
    if scheduler != "local" and not re.match(r"^[A-Za-z0-9_./+=@-]+$", corpus.out):
        die("%s: with a scheduler, the path may have only ASCII letters, digits and _./+=@-" %
            corpus.out)
    shared = shared_settings(corpus, o)
    settings = run_settings(o, shared, scheduler)
    corpus.stores = settings["stores"] or corpus.stores
    check_options(corpus, settings)
    for folder in ("results", "parts", "runs", "logs", corpus.stores):
        os.makedirs(corpus.path(folder), exist_ok=True)
    held = corpus.lock()
    check_idle(corpus)
    if corpus.settings != shared:
        write_whole(corpus.path("settings.json"), json.dumps(shared) + "\n")
    left_out = corpus.add_inputs(slides, problems)
    if left_out:
        say("%s withdrawn earlier, left out (withdrawn.txt)" % counted(left_out, "slide"))
    corpus = Corpus(o.out)
    corpus.clean()
    corpus.prepare_inputs()
    status = start(corpus, settings, o)
    held.close()
    return status


def start(corpus, settings, o):
    """Begins what remains; with a scheduler it returns before that is done, unless --wait."""
    checks.read_results(corpus, corpus.slides)
    corpus.mark_duplicates()
    corpus.settle()
    scheduler = SCHEDULERS.get(last_scheduler(corpus))
    attempts = Attempts(corpus, scheduler)
    late, (convert, process) = attempts.suspects(), corpus.remain("convert", "process")
    attempts.save()  # before begin() notes what is converted now
    corpus.begin(convert)
    corpus.save()
    convert = [corpus.input(s) for s in sorted(convert, key=lambda s: s.key in late)]
    process = [corpus.input(s) for s in process]
    st = status_of(corpus, None, 0, time.time(), attempts)
    if not convert and not process and is_merged(st):
        if all(fresh(corpus.path("report.html"), row["file"]) for row in st["merged"]):
            say("nothing to do")
        else:  # the run before was stopped at its end
            write_report(corpus, st)
        print_status(st)
        return verdict(st)
    if settings["scheduler"] == "local":
        return run_local(corpus, settings, convert, o.progress)
    run = corpus.new_run(settings)
    submit_all(corpus, run, settings, convert, process)
    say("run %d: %s" % (run, ", ".join("%s %s%s" % (
        kind, number, " (%s)" % counted(int(n), "task") if n != "0" else "")
        for kind, number, n, _ in corpus.jobs(run) if number != "-")))
    if not o.wait:
        say("see: %s status -o %s" % (sys.argv[0], shlex.quote(corpus.out)))
        return DONE
    return wait(corpus.out, o.progress)


def wait(out, when):
    """Waits for the last run. Returns the exit status."""
    progress = Progress(when)
    corpus, shown = Corpus(out), time.time()
    while True:
        while patient(lambda: active_tasks(corpus)[1]):
            time.sleep(2)
            if progress.on and time.time() - shown >= max(5, progress.pause):
                progress.show(headline(look(Corpus(out), time.time())))
                shown = time.time()
        progress.end()
        if not finish_for(corpus):
            break
    st = look(Corpus(out), time.time())
    print_status(st)
    return verdict(st)


def finish_for(corpus):
    """A merge job that a sick node has ended left slides untried. True if they are tried again."""
    corpus = Corpus(corpus.out)
    run = corpus.runs()[-1]
    scheduler = SCHEDULERS.get(corpus.run_settings(run).get("scheduler"))
    return bool(scheduler) and try_again(corpus, Attempts(corpus, scheduler), run)


def last_scheduler(corpus):
    runs = corpus.runs()
    return corpus.run_settings(runs[-1]).get("scheduler") if runs else None


def check_idle(corpus):
    """Only one run at a time."""
    try:
        _, active = patient(lambda: active_tasks(corpus), PATIENCE)
    except Away as e:
        die("%s: whether a run is going on is not known, because the scheduler does not answer (%s)" % (
            corpus.out, e), TROUBLE)
    if active:
        die("%s: a run is going on (%s); see status, wait, or cancel it" % (
            corpus.out, counted(active, "task")))


# --- status, cancel ---

def known_corpus(out):
    corpus = Corpus(out)
    if not corpus.is_known() and not corpus.withdrawn:
        die("%s: not a corpus (it has no slides.txt); begin one with: corpus run -o %s SLIDES" % (
            out, shlex.quote(out)))
    return corpus


def command_status(o):
    known_corpus(o.out)
    while True:
        st = look(Corpus(o.out), time.time())
        last = not o.watch or st["active_tasks"] == 0
        if o.html and last:
            write_report(Corpus(o.out), st)
        if o.json:
            print(json.dumps(st), flush=True)
        elif o.prometheus:
            print_prometheus(st)
        elif last or sys.stdout.isatty():
            if o.watch and sys.stdout.isatty():
                print("\x1b[H\x1b[J", end="")
            print_status(st)
        else:
            print(headline(st), flush=True)
        if last:
            return verdict(st)
        time.sleep(o.watch)


def command_cancel(o):
    corpus = known_corpus(o.out)
    scheduler, active = patient(lambda: active_tasks(corpus), PATIENCE)
    if not active:
        say("nothing is running")
        return DONE
    run = corpus.runs()[-1]
    if not scheduler:
        os.kill(int(corpus.jobs(run)[0][1].split(" ")[1]), signal.SIGTERM)
        return DONE
    corpus.stop(run)
    for _ in range(2):  # the look-up or the merge job may have submitted others meanwhile
        for again in corpus.runs()[-2:]:
            ids = [j[1] for j in corpus.jobs(again) if j[1].isdigit()]
            if again >= run and ids:
                corpus.stop(again)
                scheduler.cancel(ids)
        time.sleep(0.5)
    say("cancelled; finished slides are kept, run again to continue")
    return DONE


# --- remove ---

def command_remove(o):
    corpus = known_corpus(o.out)
    slides, unknown = find(corpus, o.slides)
    for word in unknown:
        say("%s: not a slide of this corpus" % word)
    if unknown:
        return PART
    held = corpus.lock()
    check_idle(corpus)
    shared = corpus.shares_stores()
    os.environ.update({n.upper(): program(n) for n in ("wsi2h5", "h5spec")})
    attempts = Attempts(corpus, SCHEDULERS.get(last_scheduler(corpus)))
    for s in slides:
        attempts.of.pop(s.key, None)
    attempts.save()
    remove(corpus, slides)
    status = remake(corpus, attempts)
    held.close()
    say("%s removed; " % counted(len(slides), "slide") + BEYOND % corpus.out)
    if shared:
        say("%s belongs to another corpus: remove the slide there, too" % corpus.stores)
    return status
