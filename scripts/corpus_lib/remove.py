"""Taking slides out of a corpus, as when a consent is withdrawn.

Everything that was made from the slide goes: its store, its result, its lines in the plan and in logs, its part
of the merged results and of the report, which are written again. withdrawn.txt keeps hashes of its path and its
quickhash, so that it stays out when its folder is searched again or when a copy of it turns up. The slide
itself is the user's.
"""
import glob
import os
import re

from corpus_lib.files import json_rows, read_lines, remove_file, remove_store, say, write_list
from corpus_lib.planned import read_results
from corpus_lib.state import mark_of

REMOVED = ("%s removed; not reached: the slides themselves, backups and snapshots of %s, copies of its report, its corpus.h5, "
           "its pictures and its stores that were made elsewhere, and the logs of the scheduler")


def find(corpus, words):
    """([record], [word that names none]): words are paths, or names in the corpus."""
    by = {r.slide: r for r in corpus.records}
    for r in corpus.records:
        by.setdefault(r.name, r)
    found = {w: by.get(os.path.abspath(w)) or by.get(w) for w in words}
    return list(dict.fromkeys(r for r in found.values() if r)), [w for w, r in found.items() if not r]


def remove(corpus, gone, again=False):
    """Takes slides out. `again`: they may be added again later, as the old place of a moved slide."""
    gone = set(gone)
    if not again:
        corpus.withdrawn |= {mark_of("path", r.slide) for r in gone}
        corpus.withdrawn |= {mark_of("quickhash", r.hash) for r in gone if r.hash}
        write_list(corpus.path("withdrawn.txt"), sorted(corpus.withdrawn))
    corpus.records[:] = [r for r in corpus.records if r not in gone]
    corpus.save()  # first: from here on nothing is made from them
    for r in gone:
        remove_store(corpus.store(r))
        remove_file(corpus.result(r))
    if not again:
        clean_texts(corpus, gone)


def clean_texts(corpus, gone):
    """Takes the lines about slides out of logs and lists. A path counts only where it is not part of a longer one;
    messages show some of its characters as others."""
    words = {w for r in gone for w in (r.slide, corpus.store(r), corpus.result(r))}
    shown = ("".join(re.escape(c) if c.isascii() and c.isprintable() else "." for c in w) for w in words)
    pattern = re.compile("|".join(r"(?<![\w/.-])%s(?![\w/-]|\.\w)" % w for w in shown))
    for path in [corpus.path("plan.tsv")] + glob.glob(os.path.join(glob.escape(corpus.path("logs")), "*")):
        lines = read_lines(path)
        kept = [line for line in lines if not pattern.search(line)
                and not any(row.get(k) in words for row in json_rows([line]) for k in ("input", "store"))]
        if len(kept) < len(lines):
            write_list(path, kept)


def take_out_copies(corpus):
    """A copy of a withdrawn slide goes, and so does the old place of a slide that was moved and renamed."""
    marks = {m for m in corpus.withdrawn if m.startswith("quickhash ")}
    lost = [r for r in corpus.records if r.result and not os.path.lexists(r.slide)]
    if marks or lost:
        read_results(corpus, [r for r in corpus.records if os.path.exists(corpus.result(r))])
    copies = [r for r in corpus.records if r.hash and mark_of("quickhash", r.hash) in marks]
    if copies:
        say("%s of withdrawn slides removed" % ("1 copy" if len(copies) == 1 else "%d copies" % len(copies)))
        remove(corpus, copies)
    if corpus.has("allow_duplicates"):
        return
    here = {r.hash: r for r in corpus.records if r.hash and os.path.lexists(r.slide)}
    moved = [r for r in lost if r.hash in here and r not in copies]
    for r in moved:
        say("%s: moved to %s" % (r.slide, here[r.hash].slide))
    if moved:
        remove(corpus, moved, again=True)
