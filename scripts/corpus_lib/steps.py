"""What runs between the arrays: the look-up before processing, the merge after it."""
import glob
import os
import re
import shutil
import socket
import time

from corpus_lib import checks, records
from corpus_lib.again import try_again
from corpus_lib.attempts import Attempts, utc
from corpus_lib.cluster import submit_groups
from corpus_lib.files import DONE, ask, fresh, look, program, say, stamp, write_list, write_whole
from corpus_lib.merged import groups_of, rows_of
from corpus_lib.remove import remove_copies
from corpus_lib.report import write_report
from corpus_lib.schedulers import SCHEDULERS
from corpus_lib.state import Corpus
from corpus_lib.states import BAD, States
from corpus_lib.status import print_status, status_of, verdict


def step_lookup(corpus, run, attempts):
    """Writes the look-up table of all stores. Returns the stores to process, suspects last.

    Stores that cannot be read go to runs/R/unreadable.txt with the reason. Hashes of new stores and
    damage of new results are noted.
    """
    corpus.settle(attempts.current.get((run, "convert"), ()))
    slides = [s for s in corpus.slides if not corpus.clashes(s) and look(corpus.store(s))]
    stores = [corpus.store(s) for s in slides]
    names, messages, table = corpus.run_path(run, "stores.txt"), [], "Start\tEnd\tName\n"
    write_list(names, stores)
    if stores:
        p = ask(program("h5spec"), "lookup", "--list", names)
        table, messages = p.stdout, p.stderr.split("\n")
    write_whole(corpus.path("lookup.txt"), table)
    readable = corpus.groups()
    write_list(corpus.run_path(run, "unreadable.txt"),
               ["%s\t%s" % (s, reason_in(messages, s)) for s in stores if s not in readable])
    corpus.bad_stores = None
    checks.read_stores(corpus, [s for s in slides if corpus.store(s) in readable])
    remove_copies(corpus)
    corpus.mark_duplicates()
    checks.read_results(corpus, corpus.slides)
    corpus.save()
    late, (todo,) = attempts.suspects(), corpus.remain("process")
    if corpus.run_settings(run).get("tries"):  # not those that will fail again
        states = States(corpus, attempts)
        todo = [s for s in todo if states.of(s).state != BAD]
    todo = [corpus.store(s) for s in sorted(todo, key=lambda s: s.key in late) if corpus.store(s) in readable]
    write_list(corpus.run_path(run, "process.txt"), todo)
    return todo


def reason_in(messages, store):
    """The first message about a store."""
    for line in messages:
        at = line.find(store + ": ")
        if at >= 0:
            return line[at:]
    return store + ": cannot be opened"


def merge_groups(corpus, slide):
    """Makes a slide's result from those of its groups, if all exist."""
    parts = [p for p in sorted(glob.glob(glob.escape(corpus.parts(slide)) + "/*.h5"))
             if fresh(p, corpus.store(slide))]
    if not parts:
        return
    names = corpus.parts(slide) + ".txt"
    write_list(names, parts)
    p = ask(program("h5spec"), "merge", "-q", "-o", corpus.result(slide), "--list", names)
    if p.returncode == 0:
        shutil.rmtree(corpus.parts(slide))
    else:
        say(p.stderr.strip())
    os.unlink(names)


def step_merge(corpus, run, attempts):
    """Merges groups into results, and results into corpus.h5 or one file per resolution."""
    corpus.clean()
    for s in corpus.remain("process")[0]:
        merge_groups(corpus, s)
    records.note_results(corpus.slides, corpus.store, corpus.result,
                         attempts.current.get((run, "process"), ()))
    done = [s for s in corpus.slides if not corpus.now(s).remains]
    if not done:
        say("no slide has a result: nothing to merge")
    else:
        merge_results(corpus, run, done)
    corpus.save()
    attempts.save()


def merge_results(corpus, run, slides):
    """Writes corpus.h5, or one file per resolution."""
    if corpus.h5spec_has("--mix-mpp"):
        groups = {"corpus.h5": (None, slides)}
    else:
        groups = groups_of(rows_of(corpus, slides))
    done = [merge_one(corpus, run, name, um, members) for name, (um, members) in groups.items()
            if not corpus.merged.holds(name, members, lambda s: stamp(corpus.result(s)))]
    if all(done):
        corpus.merged.keep_only(groups)


def merge_one(corpus, run, name, um, slides):
    """Writes a merged result. If that fails, verifies every result, so that damaged ones are found."""
    names = corpus.run_path(run, "merge.txt")
    results = {corpus.result(s): s for s in slides}
    stamps = {s.name: stamp(corpus.result(s)) for s in slides}
    write_list(names, results)
    options = ["--allow-duplicates"] if corpus.duplicates_count() else []
    options += ["--mix-mpp"] if corpus.h5spec_has("--mix-mpp") else []
    options += ["--table"] if corpus.form() == "table" else []
    p = ask(program("h5spec"), "merge", "-q", "--force", "-o", corpus.path(name), *options, "--list", names)
    if p.returncode == 0:
        corpus.merged.note(name, um, len(slides))
        for s in slides:
            s.merged = s.checked = stamps[s.name]
            s.where, s.problem = name, ""
        return True
    corpus.add_problem(run, "merging the results failed: " + p.stderr.strip())
    say(p.stderr.strip())
    checks.read_results(corpus, slides, again=True)
    for path, problem in checks.problems_in(p.stderr, results).items():
        if re.search(r"damaged|CRC|truncated", problem):
            results[path].checked, results[path].problem = stamp(path), problem
    return False


def remake(corpus, attempts):
    """Writes the merged results and the report again, after slides were taken out."""
    run = (corpus.runs() or [0])[-1]
    if any(not corpus.now(s).remains for s in corpus.slides):
        step_merge(corpus, run, attempts)
    else:
        corpus.merged.keep_only(())
    st = status_of(corpus, None, 0, time.time(), attempts)
    page = corpus.path("report.html")
    if st["merged"] or st["failed"]:
        write_report(corpus, st)
    elif os.path.exists(page):
        os.unlink(page)
    print_status(st)
    return DONE


def command_step(o):
    """What the small jobs of a cluster call."""
    say("task %s on %s, %s" % (o.name, os.environ.get("SLURMD_NODENAME") or socket.gethostname(), utc(time.time())))
    corpus = Corpus(o.out)
    settings = corpus.run_settings(o.run)
    os.environ.update(settings["programs"])
    scheduler = SCHEDULERS[settings["scheduler"]]
    if o.name == "lookup":
        step_lookup(corpus, o.run, Attempts(corpus, scheduler, 1))
        if settings["group_tasks"]:
            submit_groups(corpus, o.run, settings)
        return DONE
    attempts = Attempts(corpus, scheduler)
    if try_again(corpus, attempts, o.run):
        return DONE
    step_merge(corpus, o.run, attempts)
    st = status_of(corpus, scheduler, 0, time.time(), attempts)
    write_report(corpus, st)
    print_status(st)
    return verdict(st)
