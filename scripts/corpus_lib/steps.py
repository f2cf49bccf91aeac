"""Steps: what runs between the arrays."""
import glob
import json
import os
import shutil
import subprocess
import sys

from corpus_lib.cluster import submit_groups
from corpus_lib.files import DONE, PART, age, fresh, program, read_lines, say, write_whole
from corpus_lib.logs import suspects
from corpus_lib.schedulers import SCHEDULERS
from corpus_lib.state import Corpus, groups_of
from corpus_lib.status import print_status, status_of, verdict


def step_lookup(corpus, run):
    """The look-up table of all stores, and the stores that are to be processed."""
    stores = [corpus.store(s) for s in corpus.slides
              if not corpus.namesake(s) and age(corpus.store(s)) is not None]
    names = corpus.path("runs", str(run), "stores.txt")
    write_whole(names, "".join(s + "\n" for s in stores))
    if stores:
        p = subprocess.run([program("h5spec"), "lookup", "--list", names], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, universal_newlines=True, errors="surrogateescape")
        write_whole(corpus.path("lookup.txt"), p.stdout)
        said = [line[len("h5spec: "):] for line in p.stderr.split("\n")]
    else:
        write_whole(corpus.path("lookup.txt"), "Start\tEnd\tName\n")
    sound = groups_of(corpus)
    write_whole(corpus.path("runs", str(run), "unsound.txt"), "".join("%s\t%s\n" % (
        s, next((m for m in said if m.startswith(s)), s + ": cannot be opened")) for s in stores if s not in sound))
    late = suspects(corpus, "process", "store")
    todo = sorted((corpus.store(s) for s in corpus.to_process()), key=lambda s: s in late)
    todo = [s for s in todo if s in sound]
    write_whole(corpus.path("runs", str(run), "process.txt"), "".join(s + "\n" for s in todo))
    return todo


def add_groups_up(corpus, slide):
    parts = [p for p in sorted(glob.glob(glob.escape(corpus.parts(slide)) + "/*.h5"))
             if fresh(p, corpus.store(slide))]
    if not parts:
        return
    names = corpus.parts(slide) + ".txt"
    write_whole(names, "".join(p + "\n" for p in parts))
    if subprocess.call([program("h5spec"), "merge", "-q", "-o", corpus.result(slide), "--list", names]) == 0:
        shutil.rmtree(corpus.parts(slide))
    os.unlink(names)


def step_merge(corpus, run):
    """Groups into slides, slides into corpus.h5."""
    corpus.clean()
    for s in corpus.to_process():
        add_groups_up(corpus, s)
    unsound = {f["slide"] for f in status_of(corpus, None, 0)["failed"]}
    results = [corpus.result(s) for s in corpus.slides if s not in unsound]
    if not results:
        say("no slide has a result: nothing to merge")
        return
    if corpus.merged(results):
        return
    names = corpus.path("runs", str(run), "merge.txt")
    write_whole(names, "".join(r + "\n" for r in results))
    if subprocess.call([program("h5spec"), "merge", "-q", "-o", corpus.path("corpus.h5"), "--list", names]) == 0:
        write_whole(corpus.path("corpus.txt"), "".join(r + "\n" for r in results))
    else:
        sys.exit(PART)


def command_step(o):
    corpus = Corpus(o.out)
    settings = dict(corpus.settings(), **json.loads("\n".join(read_lines(corpus.path("runs", str(o.run), "run.json")))))
    os.environ.update(settings["programs"])
    if o.name == "lookup":
        step_lookup(corpus, o.run)
        if settings["group_tasks"]:
            submit_groups(corpus, o.run, settings)
        return DONE
    step_merge(corpus, o.run)
    st = status_of(corpus, SCHEDULERS[settings["scheduler"]], 0)
    print_status(st)
    return verdict(st)
