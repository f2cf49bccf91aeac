"""What runs between the arrays: the look-up before processing, the merge after it."""
import glob
import json
import os
import re
import shutil
import time

from corpus_lib.checks import problems_in
from corpus_lib.cluster import submit_groups
from corpus_lib.files import (DONE, age, ask, fresh, key, program, read_lines, say, stamp,
                              write_list, write_whole)
from corpus_lib.logs import Reports, last_suspects
from corpus_lib.merged import groups_of
from corpus_lib.report import write_report
from corpus_lib.schedulers import SCHEDULERS
from corpus_lib.state import Corpus
from corpus_lib.status import States, print_status, status_of, verdict


def step_lookup(corpus, run):
    """Writes the look-up table of all stores. Returns the stores to process, suspects last.

    Stores that cannot be read go to runs/R/unreadable.txt with the reason. Hashes of new stores and
    damage of new results are noted.
    """
    corpus.settle(confirmed(corpus, run, "convert", corpus.input))
    stores = [corpus.store(s) for s in corpus.slides
              if not corpus.clashes(s) and age(corpus.store(s)) is not None]
    names, messages, table = corpus.run_path(run, "stores.txt"), [], "Start\tEnd\tName\n"
    write_list(names, stores)
    if stores:
        p = ask(program("h5spec"), "lookup", "--list", names)
        table, messages = p.stdout, p.stderr.split("\n")
    write_whole(corpus.path("lookup.txt"), table)
    readable = corpus.groups()
    write_list(corpus.run_path(run, "unreadable.txt"),
               ["%s\t%s" % (s, reason_in(messages, s)) for s in stores if s not in readable])
    corpus.checks.read_stores([s for s in stores if s in readable])
    corpus.checks.read_results([corpus.result(s) for s in corpus.slides])
    late = last_suspects(corpus, "process")
    todo = sorted((corpus.store(s) for s in corpus.to_process()), key=lambda s: s in late)
    todo = [s for s in todo if s in readable]
    write_list(corpus.run_path(run, "process.txt"), todo)
    return todo


def confirmed(corpus, run, kind, line_of):
    """The slides of which a run found that nothing was to be done."""
    reports = Reports(corpus, kind).of_run.get(run, {})
    rows = [(s, reports.get(key(line_of(s)))) for s in corpus.slides]
    return {s for s, report in rows if report and report.status == "skipped"}


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


def step_merge(corpus, run):
    """Merges groups into results, and results into corpus.h5 or one file per resolution."""
    corpus.clean()
    for s in corpus.to_process():
        merge_groups(corpus, s)
    corpus.sources.note_results({s: (corpus.store(s), corpus.result(s)) for s in corpus.slides},
                                confirmed(corpus, run, "process", corpus.store))
    states = States(corpus)
    results = [corpus.result(s) for s in corpus.slides if states.of(s).reached == "processed"]
    if not results:
        say("no slide has a result: nothing to merge")
    else:
        merge_results(corpus, run, results)


def merge_results(corpus, run, results):
    """Writes corpus.h5, or one file per resolution."""
    if corpus.h5spec_has("--mix-mpp"):
        groups = {"corpus.h5": (None, results)}
    else:
        groups = groups_of(corpus.resolutions.of(results))
    done = [merge_one(corpus, run, name, um, members) for name, (um, members) in groups.items()
            if not corpus.merged.holds(name, members)]
    if all(done):
        corpus.merged.keep_only(groups)


def merge_one(corpus, run, name, um, results):
    """Writes a merged result. If that fails, verifies every result, so that damaged ones are found."""
    names = corpus.run_path(run, "merge.txt")
    write_list(names, results)
    stamps = {os.path.basename(r): stamp(r) for r in results}
    options = ["--allow-duplicates"] if (corpus.settings() or {}).get("allow_duplicates") else []
    options += ["--mix-mpp"] if corpus.h5spec_has("--mix-mpp") else []
    p = ask(program("h5spec"), "merge", "-q", "-o", corpus.path(name), *options, "--list", names)
    if p.returncode == 0:
        corpus.merged.note(name, um, stamps)
        for r in results:
            corpus.checks.note(r)
        corpus.checks.save()
        return True
    corpus.add_problem(run, "merging the results failed: " + p.stderr.strip())
    say(p.stderr.strip())
    corpus.checks.read_results(results, again=True)
    for path, problem in problems_in(p.stderr, results).items():
        if re.search(r"damaged|CRC|truncated", problem):
            corpus.checks.note(path, problem)
    corpus.checks.save()
    return False


def command_step(o):
    """What the small jobs of a cluster call."""
    corpus = Corpus(o.out)
    settings = dict(corpus.settings(), **json.loads("\n".join(
        read_lines(corpus.run_path(o.run, "run.json")))))
    os.environ.update(settings["programs"])
    if o.name == "lookup":
        step_lookup(corpus, o.run)
        if settings["group_tasks"]:
            submit_groups(corpus, o.run, settings)
        return DONE
    step_merge(corpus, o.run)
    st = status_of(corpus, SCHEDULERS[settings["scheduler"]], 0, time.time())
    write_report(corpus, st)
    print_status(st)
    return verdict(st)
