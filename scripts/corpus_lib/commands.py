"""The commands. Each returns the exit status."""
import json
import os
import re
import shlex
import signal
import sys
import time

from corpus_lib.engines import PATIENCE, SCHEDULERS, active_tasks, cancel, choose, patient, run_local, scheduler_of, submit_run
from corpus_lib.files import DONE, PART, STOPPED, TROUBLE, USAGE, Away, ask, counted, die, program, say, values_of, versions, write_whole
from corpus_lib.finish import finish, write_report
from corpus_lib.inputs import gather
from corpus_lib.outcome import Outcome
from corpus_lib.planned import LOCAL_BATCH, MOST_BATCHES, changed_results, compare_content, join_parts, read_results, remaining, verify, write_plan
from corpus_lib.publish import shown
from corpus_lib.remove import REMOVED, find, pixels_of, remove, search, take_out_withdrawn
from corpus_lib.state import Corpus, known_corpus
from corpus_lib.status import headline, is_merged, print_status, status_of, verdict
from corpus_lib.step import children

SHARED = ("wsi2h5", "h5spec", "stores")  # one corpus, one set of parameters


# --- options ---

def is_named(option, words):
    """Is a long option among words, maybe shortened or with =VALUE?"""
    return any(len(w) > 2 and option.startswith(w.split("=")[0]) for w in words if w.startswith("--"))


def check_options(corpus):
    """Wrong options of the programs are reported now, once, and not by every task."""
    each = [[]] + [shlex.split(text) for text in sorted({r.options for r in corpus.records if r.options})]
    for option, why in (("--keep-tree", "a corpus has one folder of stores; slides with the same name get numbers"),
                        ("--anonymous", "a corpus finds stores by the names of their slides; run wsi2h5 --anonymous KEY.csv, then h5spec")):
        if any(is_named(option, corpus.settings["wsi2h5"] + words) for words in each):
            die("--wsi2h5 %s: %s" % (option, why), USAGE)
    for argv in [[program("wsi2h5"), *corpus.settings["wsi2h5"], *words, "--list", os.devnull, "-o", corpus.stores]
                 for words in each] + [
                     [program("h5spec"), "run", *corpus.settings["h5spec"], "-o", corpus.path("results"), "/dev/null/x.h5"]]:
        p = ask(*argv)
        if p.returncode == USAGE:
            die(p.stderr.strip().split("\n")[0], USAGE)


def with_codec(words):
    """Options of wsi2h5 with a codec: keep, if they name none and h5spec can read kept tiles."""
    if any(w.split("=")[0] == "--codec" for w in words):
        return words
    kept = "--gray" not in words and "without libjpeg" not in ask(program("h5spec"), "--version").stdout
    return ["--codec", "keep" if kept else "deflate"] + words


def take_options(corpus, o):
    """The options that all runs of a corpus share. Others than before are wrong usage."""
    kept, new = corpus.settings, {"wsi2h5": o.wsi2h5, "h5spec": o.h5spec, "stores": o.stores and os.path.abspath(o.stores)}
    begun = "wsi2h5" in kept
    if not begun or new["wsi2h5"] not in (None, kept["wsi2h5"]):
        new["wsi2h5"] = with_codec(new["wsi2h5"] or [])
    for name in SHARED:
        if not begun:
            kept[name] = new[name] if new[name] is not None or name == "stores" else []
        elif new[name] not in (None, kept[name]):
            before = kept[name] if name == "stores" else " ".join(map(shlex.quote, kept[name]))
            die("%s was started with %s; use another folder for other options, with --stores %s to keep the converted "
                "slides" % (corpus.out, "--%s '%s'" % (name, before) if before else "no --" + name, corpus.stores), USAGE)
    corpus.stores = kept["stores"] or corpus.stores
    for flag in ("allow_duplicates", "discard_stores"):
        kept[flag] = getattr(o, flag) or bool(kept.get(flag))
    if kept["discard_stores"] and kept["stores"]:
        die("--discard-stores: %s belongs to another corpus" % corpus.stores, USAGE)


def choose_device(asked, engine, options):
    """(GPUs per task or None, options of h5spec to add). A task never holds a GPU while it computes on the CPU:
    with a GPU it gets --device cuda, which fails if the GPU cannot be used; without one, --device cpu."""
    device, gpus = (values_of(options, ("--device",))[0] or [None])[-1], asked
    cuda = bool(re.search(r"^backends?:[^;]*\bcuda\b", ask(program("h5spec"), "--version").stdout, re.M))
    if gpus is None and engine in SCHEDULERS:
        gpus = int(device.startswith("cuda") if device else cuda)
        if not device and not cuda:
            say("h5spec was built without CUDA: tasks compute on CPUs and request no GPU")
    if gpus and not cuda:
        die("--gpus %d: %s was built without CUDA; use --gpus 0 to compute on CPUs, or name another build in H5SPEC" % (
            gpus, program("h5spec")), USAGE)
    if device is None:
        return gpus, [] if gpus is None else ["--device", "cuda" if gpus else "cpu"]
    if gpus is not None and (gpus > 0) != device.startswith("cuda"):
        die("--gpus %d and --h5spec '--device %s' contradict each other; leave one out" % (gpus, device), USAGE)
    return gpus, []


# --- plan, run ---

def prepare(o, engine):
    """Locks the corpus and brings it up to date with what the user names. Returns (corpus, what remains)."""
    if os.path.exists(o.out) and not os.path.isdir(o.out):
        die("%s is not a folder" % o.out)
    corpus = Corpus(o.out)
    again = [path for path in corpus.settings.get("rejected", {}) if os.path.lexists(path)]
    slides, problems, passed_over = gather(o.slides + again, o.list)
    for text in passed_over:
        say(text)
    if not slides and not corpus.is_known():
        for path, problem in problems.items():
            say("%s: %s" % (path, problem))
        die("no slides found" if problems else "no slides given", PART if problems else USAGE)
    if engine in SCHEDULERS and not re.match(r"^[A-Za-z0-9_./+=@-]+$", corpus.out):
        die("%s: with a scheduler, the path may have only ASCII letters, digits and _./+=@-" % corpus.out)
    os.environ.update({n.upper(): program(n) for n in ("wsi2h5", "h5spec")})
    take_options(corpus, o)
    gpus, process = choose_device(o.gpus, engine, corpus.settings["h5spec"])
    for folder in ("results", "logs", corpus.stores):
        os.makedirs(corpus.path(folder), exist_ok=True)
    keep_out_others(corpus)
    corpus.settings["run"] = Corpus(o.out).run
    corpus.clean()
    if o.slides or o.list:
        corpus.settings["passed_over"] = passed_over
    left_out = corpus.add(slides, problems)
    take_out_withdrawn(corpus)
    check_options(corpus)
    if left_out:
        say("%s withdrawn earlier, left out (withdrawn.txt)" % counted(left_out, "slide"))
    Outcome(corpus, True, scheduler_of(corpus))
    join_parts(corpus)
    verify(corpus, changed_results(corpus))
    compare_content(corpus, settle=True)
    now = versions()
    older = sum(r.version not in ("", now) for r in corpus.records)
    if older and not o.renew:
        say("%s made by other versions than %s; --renew makes them again" % (counted(older, "result"), now))
    corpus.run.update(engine=engine, gpus=gpus, process=process, tries=0, doubled=0, exclude=[], local=None,
                      programs={n: os.environ[n] for n in ("WSI2H5", "H5SPEC")})
    corpus.run.pop("problem", None)
    corpus.save()
    return corpus, remaining(corpus, renew=now if o.renew else None)


def command_plan(o):
    corpus, work = prepare(o, "")
    write_plan(corpus, work, MOST_BATCHES, o.batch)
    print(corpus.path("plan.tsv"))
    return DONE


def command_run(o):
    engine = choose(o.scheduler, o.options)
    corpus, work = prepare(o, engine)
    st = status_of(corpus, 0)
    if not work and is_merged(st):
        page = corpus.path("report.html")
        if os.path.exists(page) and all(os.path.getmtime(page) >= os.path.getmtime(row["file"]) for row in st["merged"]):
            say("nothing to do")
        else:  # the run before was stopped at its end
            write_report(corpus, st)
        print_status(st)
        return verdict(st)
    corpus.run.update(retries=o.retries, at_once=o.tasks, options=o.options, convert_job=o.convert_job,
                      process_job=o.process_job)
    if engine == "local":
        write_plan(corpus, work, MOST_BATCHES, o.batch or max(1, min(LOCAL_BATCH, -(-len(work) // (o.tasks or 1)))))
        run_local(corpus, o.tasks)
        status = finish(corpus, True)
        return STOPPED if children.stopped else status
    write_plan(corpus, work, min(SCHEDULERS[engine].limit(), MOST_BATCHES), o.batch)
    if not corpus.run["batches"]:
        return finish(corpus, True)
    submit_run(corpus, o.dry_run)
    corpus.held.close()
    if o.dry_run:
        return DONE
    say("jobs %s" % ", ".join("%s %s" % job for job in corpus.jobs().items()))
    if not o.wait:
        say("see: %s status -o %s" % (shlex.quote(sys.argv[0]), shlex.quote(corpus.out)))
        return DONE
    return wait(corpus.out)


def wait(out):
    """Waits for the last run, and names once what will never run. Returns the exit status."""
    told = set()
    while True:
        corpus = Corpus(out)
        active, held = patient(lambda: active_tasks(corpus))
        for text in held[:5]:
            if text not in told:
                say(text)
            told.add(text)
        if active:
            time.sleep(2)
            continue
        if corpus.run.get("closed"):  # by the finish job
            st = status_of(corpus, 0)
            print_status(st)
            return verdict(st)
        with corpus.lock():
            status = finish(Corpus(out), True, again=True)  # a sick node has ended the finish job
        if status is not None:
            return status


def keep_out_others(corpus):
    """Only one run at a time."""
    corpus.lock()
    try:
        active, _ = patient(lambda: active_tasks(corpus), PATIENCE)
    except Away as e:
        die("%s: the scheduler does not answer (%s), so a run may be in progress" % (
            corpus.out, e), TROUBLE)
    if active:
        die("%s: a run is in progress (%s); see status, wait, or cancel it" % (
            corpus.out, counted(active, "task")))


# --- finish ---

def command_finish(o):
    corpus = known_corpus(o.out)
    if o.run and o.run != corpus.number:
        die("run %d was superseded by run %d" % (o.run, corpus.number))
    if not o.run:  # the run's own job keeps others out by being at work
        corpus.lock()
    closing = bool(o.run) or not patient(lambda: active_tasks(corpus), PATIENCE)[0]
    status = finish(corpus, closing, again=bool(o.run))
    return DONE if status is None else status


# --- status, cancel ---

def looked_at(out):
    """The status of a corpus at this moment. Nothing is written."""
    corpus = known_corpus(out)
    try:
        active, held = active_tasks(corpus)
    except Away as e:
        Outcome(corpus)
        return corpus, dict(status_of(corpus, None), scheduler=str(e))
    known = corpus.run.get("engine") != ""  # what another engine does is not known before `finish`
    Outcome(corpus, known and not active, scheduler_of(corpus))
    compare_content(corpus)
    return corpus, status_of(corpus, active, held)


def command_status(o):
    while True:
        corpus, st = looked_at(o.out)
        last = not o.watch or st["active_tasks"] == 0
        if o.html and last:
            write_report(corpus, st)
        if o.json:
            print(json.dumps(st), flush=True)
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
    active, _ = patient(lambda: active_tasks(corpus), PATIENCE)
    if not active:
        say("nothing is running")
        return DONE
    if corpus.run.get("local"):
        os.kill(int(corpus.run["local"][1]), signal.SIGTERM)
        return DONE
    write_whole(corpus.path("cancelled"), "")
    for _ in range(2):  # the finish job may have submitted others meanwhile
        cancel(Corpus(o.out))
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
    keep_out_others(corpus)
    Outcome(corpus, True, scheduler_of(corpus))
    read_results(corpus, [r for r in slides if os.path.exists(corpus.result(r))])
    pixels = pixels_of(corpus, slides)
    remove(corpus, slides)
    finish(corpus, True)
    left = search(corpus, slides, pixels)
    for path, why in left:
        say("%s still holds %s; remove it if it is yours" % (shown(path), why))
    if not left:
        say("searched %s: nothing holds a name, a quickhash or pixels of %s" % (corpus.out, "it" if len(slides) == 1 else "them"))
    say(REMOVED % (counted(len(slides), "slide"), corpus.out))
    if corpus.settings.get("stores"):
        say("%s belongs to another corpus, whose next run takes the slide out, too" % corpus.stores)
    return PART if left else TROUBLE if corpus.run.get("problem") else DONE
