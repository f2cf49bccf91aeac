"""Taking slides out of a corpus, as when a consent is withdrawn.

Everything that was made from the slide goes: its store, its result, the results of its groups, its line in
every list and log of the corpus, its part of the merged results and of the report, which are written again.
withdrawn.txt keeps hashes of its path and its quickhash, so that it stays out when its folder is searched
again or when a copy of it turns up. The slide itself is the user's.
"""
import glob
import os
import shutil

from corpus_lib.files import counted, key, read_lines, say, write_list
from corpus_lib.state import mark_of

BEYOND = ("not reached: the slides themselves, backups and snapshots of %s, copies of its report, its corpus.h5, "
          "its pictures and its stores that were made elsewhere, and the logs of the scheduler")


def find(corpus, words):
    """([record], [word that names none]): words are paths, or names in the corpus."""
    by = {}
    for s in corpus.slides:
        by[s.slide] = s
    for s in corpus.slides:
        by.setdefault(s.name, s)
    found = {w: by.get(os.path.abspath(w)) or by.get(w) for w in words}
    return list(dict.fromkeys(s for s in found.values() if s)), [w for w, s in found.items() if not s]


def remove(corpus, slides, again=False):
    """Takes slides out. `again`: they may be added again later, as the old place of a moved slide."""
    gone = {s.slide for s in slides}
    if not again:
        corpus.withdrawn |= {mark_of("path", s.slide) for s in slides}
        corpus.withdrawn |= {mark_of("quickhash", s.hash) for s in slides if s.hash}
        write_list(corpus.path("withdrawn.txt"), sorted(corpus.withdrawn))
    corpus.forget(gone)  # first: from here on nothing is made from them
    for s in slides:
        for path in (corpus.store(s), corpus.result(s), corpus.input(s) if corpus.input(s) != s.slide else ""):
            if path and os.path.lexists(path):
                os.unlink(path)
        shutil.rmtree(corpus.parts(s), ignore_errors=True)
    if not again:
        clean_texts(corpus, slides)


def clean_texts(corpus, slides):
    """Takes the lines about slides out of logs, lists and tables."""
    words = [w for s in slides for w in (s.slide, key(s.slide), corpus.store(s), corpus.result(s), corpus.input(s),
                                         "/%s/" % s.name, ".%s." % s.name)]
    names = {s.key for s in slides}
    patterns = ("logs/*", "runs/*/*.txt", "runs/*/*.json", "lookup.txt", "names.txt", "results/failed*.csv")
    for path in [p for pattern in patterns for p in glob.glob(os.path.join(glob.escape(corpus.out), pattern))]:
        if path.endswith("run.json"):
            continue
        lines = read_lines(path)
        kept = [line for line in lines if not any(w in line for w in words)]
        if len(kept) < len(lines):
            write_list(path, kept)
    for run in corpus.runs():
        jobs = corpus.jobs(run)
        kept = [j for j in jobs if j[0] != "groups" or key(j[3].split(" ", 1)[1]) not in names]
        if len(kept) < len(jobs):
            write_list(corpus.run_path(run, "jobs"), ["\t".join(j) for j in kept])
    for path in glob.glob(os.path.join(glob.escape(corpus.path("logs")), "*")):
        parts = os.path.basename(path).split(".")
        if parts[1:2] == ["groups"] and key(".".join(parts[2:-2])) in names:
            os.unlink(path)


def remove_copies(corpus):
    """After new stores were read: a copy of a withdrawn slide goes, and so does the old place of a slide that
    was moved and renamed."""
    copies = [s for s in corpus.slides if s.hash and mark_of("quickhash", s.hash) in corpus.withdrawn]
    if copies:
        say("%s of withdrawn slides removed" % counted(len(copies), "copy").replace("copys", "copies"))
        remove(corpus, copies)
    if corpus.duplicates_count():
        return
    last = {s.hash: s for s in corpus.slides if s.hash and os.path.lexists(s.slide)}
    moved = [s for s in corpus.slides if s.hash in last and last[s.hash] is not s and not os.path.lexists(s.slide)]
    for s in moved:
        say("%s: moved to %s" % (s.slide, last[s.hash].slide))
    if moved:
        remove(corpus, moved, again=True)
