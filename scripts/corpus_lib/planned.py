"""What remains of a corpus: OUT/plan.tsv, one line per piece of work, which any engine can carry out.

The first line, a comment, names the run and the versions of the programs. Then come the names of the columns
and the lines of one batch after the other. scripts/ENGINES.md says what the columns hold.
"""
import collections
import itertools
import os
import re

from corpus_lib.files import (PROCESSORS, ask, counted, json_rows, look, not_older, program, remove_file, say, stamp,
                              stamp_of, versions, write_list)

COLUMNS = "batch step slide name store result options redo source"
Row = collections.namedtuple("Row", COLUMNS)
MOST_BATCHES = 500  # each begins a process; Slurm's MaxArraySize is 1001, unless the site has changed it
LOCAL_BATCH = max(32, 2 * PROCESSORS)  # slides that the two programs share out among this machine's processors


def read_plan(corpus, batch=None):
    """The rows of the plan, or of one batch."""
    try:
        with open(corpus.path("plan.tsv"), encoding="utf-8", errors="surrogateescape", newline="\n") as f:
            text = f.read()
    except FileNotFoundError:
        return []
    if batch is not None:
        mark = "\n%d\t" % batch
        first, last = text.find(mark), text.rfind(mark)
        text = text[first + 1:text.find("\n", last + 1)] if first >= 0 else ""
    rows = (line.split("\t") for line in text.split("\n"))
    return [Row(int(row[0]), *row[1:]) for row in rows if len(row) == len(Row._fields) and row[0].isdigit()]


def asked_of_files(of, *argv):
    """[(record, row)] of the JSON lines that a command of h5spec prints about files, {path: record}."""
    text = ask(program("h5spec"), *argv, "--json", "--list", "-",
               given="".join(path + "\n" for path in of)).stdout if of else ""
    return [(of[row["input"]], row) for row in json_rows(text.split("\n")) if row.get("input", "") in of]


def asked_of_results(corpus, records, *argv):
    return asked_of_files({corpus.result(r): r for r in records}, *argv)


def compare_content(corpus, settle=False):
    """Size and time of a store say when to look, and content_crc32 decides: an image, a copy or a touch makes no result
    out of date. Looks at stores that have changed since their results were made, and results that no record binds to
    their stores. `settle`: results of other stores go, whatever the times say."""
    records = [(r, look(corpus.store(r))) for r in corpus.records if r.result or settle]
    records = [(r, at) for r, at in records if at and (not r.result or stamp_of(at) != r.store) and os.path.exists(corpus.result(r))]
    stores = {r.name: row.get("content_crc32") for r, row in asked_of_files({corpus.store(r): r for r, _ in records}, "info")}
    stamps = {r.name: stamp_of(at) for r, at in records}
    for r, row in asked_of_results(corpus, [r for r, _ in records], "info"):
        crc = [s.get("content_crc32") for s in row.get("slides", [])]
        if stores.get(r.name) and crc == [stores[r.name]]:
            r.store = stamps[r.name] if r.result else r.store
        elif settle and stores.get(r.name) and crc:
            say("%s does not match its store, computed again" % corpus.result(r))
            remove_file(corpus.result(r))


def verify(corpus, records):
    """Results that changed since they were made are read; what is damaged goes."""
    for r, row in asked_of_results(corpus, records, "verify", "-q"):
        if row.get("status") == "valid":
            r.result, r.problem = stamp(corpus.result(r)), ""
        elif row.get("cause") != "trouble":
            say("%s is damaged, computed again: %s" % (corpus.result(r), row.get("message", "")))
            remove_file(corpus.result(r))
            r.problem = ""


def parts_of(corpus):
    """{record: its parts} of records without a result: NAME.A-B.h5, as h5spec run --by group names them."""
    try:
        names = sorted(os.listdir(corpus.path("results")))
    except FileNotFoundError:
        names = []
    of, parts = {r.name: r for r in corpus.records}, {}
    for name in names:
        found = re.fullmatch(r"(.+)\.\d+-\d+\.h5", name)
        r = of.get(found.group(1)) if found and name[:-3] not in of else None
        if r and found.group(1) + ".h5" not in names:
            parts.setdefault(r, []).append(corpus.path("results", name))
    return parts


def join_parts(corpus):
    """Makes results of the parts that an array job over groups has left, and removes these. What cannot be joined stays."""
    for r, parts in parts_of(corpus).items():
        store = look(corpus.store(r))
        if not all(not_older(os.stat(part), store) for part in parts):
            say("%s: parts of its result are older than its store and are left" % r.name)
            continue
        p = ask(program("h5spec"), "merge", "-q", "-o", corpus.result(r), "--list", "-",
                given="".join(part + "\n" for part in parts))
        if p.returncode:
            say("%s: parts of its result are not joined: %s" % (r.name, p.stderr.strip().split("\n")[0]))
            continue
        r.result, r.problem = stamp(corpus.result(r)), ""
        for part in parts:
            remove_file(part)


def read_results(corpus, records):
    """Notes the quickhash of results that have not been read yet."""
    now = {r.name: stamp(corpus.result(r)) for r in records}
    for r, row in asked_of_results(corpus, [r for r in records if r.read != now[r.name]], "info"):
        slide = (row.get("slides") or [{}])[0]
        r.read, r.hash = now[r.name], slide.get("quickhash") or ""


def redo_of(corpus, r, now, renew):
    """(step, redo) of a slide; ("", "") if nothing remains."""
    known = r.files != ""
    if known and r.made != r.options:
        return "convert", "store"
    if not now.remains:
        return ("convert", "store") if renew and r.version != renew else ("", "")
    if now.remains == "process" and r.what == "input" and r.stage == "process" and now.files:
        return "convert", "store"  # its store cannot be used
    changed = known and r.store and now.store != r.store and now.result
    return now.remains, "result" if changed else ""


def remaining(corpus, wanted=None, renew=None):
    """[(record, step, redo, source)]; `wanted`: only these records."""
    found = []
    for r in corpus.records:
        if wanted is None or r in wanted:
            now = corpus.now(r)
            step, redo = redo_of(corpus, r, now, renew)
            if step:
                found.append((r, step, redo, now.files))
    return found


def changed_results(corpus):
    """Records of results that have changed since they were made, or that a merge has found to be damaged."""
    return [r for r in corpus.records if r.result and (r.problem or stamp(corpus.result(r)) not in ("", r.result))]


def write_plan(corpus, work, most, size=0):
    """Begins a run: writes the plan of `work`, as remaining() gives it. Slides that failed come last."""
    run = corpus.settings["run"] = dict(corpus.run, number=corpus.number + 1, closed=False)
    run["versions"] = versions()
    remove_file(corpus.path("cancelled"))
    parts = [[w for w in sorted(work, key=lambda w: w[0].what != "") if w[1] == step] for step in ("convert", "process")]
    size = size or next(k for k in itertools.count(1) if sum(-(-len(part) // k) for part in parts) <= max(2, most))
    lines, first, counts = ["# wsi-corpus plan %d, %s" % (run["number"], run["versions"]), COLUMNS.replace(" ", "\t")], 1, []
    for part in parts:
        lines += ["\t".join((str(first + k // size), step, r.slide, r.name, corpus.store(r), corpus.result(r), r.options,
                             redo, source)) for k, (r, step, redo, source) in enumerate(part)]
        first += -(-len(part) // size)
        counts.append(first - 1)
    write_list(corpus.path("plan.tsv"), lines)
    run.update(convert=counts[0], batches=counts[1])
    corpus.save()
    os.makedirs(corpus.path("logs"), exist_ok=True)
    say("run %d: %s to convert, %s to process, in %s" % (
        run["number"], counted(len(parts[0]), "slide"), counted(len(parts[1]), "store"), counted(counts[1], "batch")))
