"""After the batches: slides that are tried again, merged results, the report, the verdict.

h5spec merge decides which slides go together: it leaves out those of another resolution, which are merged into
a file of their own, such as corpus-0.25um.h5. Slides that do not state theirs are then apart, too.
"""
import csv
import io
import os
import re

from corpus_lib.engines import patient, scheduler_of, submit_run
from corpus_lib.files import Away, ask, counted, program, remove_file, say, stamp, write_whole
from corpus_lib.outcome import Outcome, worth_another_try
from corpus_lib.planned import MOST_BATCHES, read_results, remaining, write_plan
from corpus_lib.remove import take_out_copies
from corpus_lib.status import bare_reason, is_merged, print_status, status_of, verdict

OURS = r"corpus(-[0-9.e+-]+um|-unknown-um(-x[0-9.e+-]+)?)?\.h5"
COPY = re.compile(r"h5spec: .+? of (/.+?\.h5) and .+? of (/.+?\.h5) are the same slide")
APART = re.compile(r"h5spec: (/.+?\.h5): slide .*?: rejected: it")


def finish(corpus, closing, again=False):
    """Merges what exists. `closing`: no task is at work any more; `again`: slides may be tried again. Returns the
    exit status, None if there is another run."""
    corpus.settings.setdefault("merged", {})
    if closing:
        corpus.clean()
    scheduler = scheduler_of(corpus)
    Outcome(corpus, closing, scheduler)
    if again and closing and try_again(corpus, scheduler):
        return None
    take_out_copies(corpus)
    merge(corpus)
    corpus.save()
    st = status_of(corpus, 0 if closing else None)
    if st["merged"] or st["failed"]:
        write_report(corpus, st)
    else:
        remove_file(corpus.path("report.html"))
    print_status(st)
    return verdict(st)


def try_again(corpus, scheduler):
    """Begins a run with what failed through no fault of its own, unless that was tried often enough. What is sick
    is left out, but never more than half of all nodes; what ran out of memory gets twice as much."""
    run = corpus.run
    if not scheduler or os.path.exists(corpus.path("cancelled")) or run.get("tries", 0) >= run.get("retries", 0):
        return False
    again = set(worth_another_try(corpus))
    if not again:
        return False
    try:
        nodes = patient(scheduler.nodes, 600)
    except Away:
        nodes = ()
    names = {name.split(".")[0]: name for name in nodes}
    sick = [names.get(host.split(".")[0]) for host, _ in sorted(run.get("sick", {}).items(), key=lambda row: -row[1])]
    before = run.get("exclude", [])
    new = [n for n in sick if n and n not in before][:max(0, len(nodes) // 2 - len(before))]
    run.update(tries=run.get("tries", 0) + 1, exclude=before + new,
               doubled=run.get("doubled", 0) + any(r.what == "memory" for r in again))
    write_plan(corpus, remaining(corpus, again), min(scheduler.limit(), MOST_BATCHES))
    submit_run(corpus)
    say("run %d tries %s again%s" % (corpus.number, counted(len(again), "slide"),
                                     ", not on " + ", ".join(run["exclude"]) if run["exclude"] else ""))
    return True


# --- merged results ---

def merge(corpus):
    """Writes corpus.h5, or one file per resolution, unless they are up to date."""
    now = {r.name: stamp(corpus.result(r)) for r in corpus.records if not corpus.now(r).remains}
    done = sorted((r for r in corpus.records if r.name in now), key=lambda r: os.fsencode(r.name))
    corpus.run.pop("problem", None)
    if is_merged(status_of(corpus, 0)):
        return
    found = sets_of(corpus, done) if done else []
    if found is None:
        return
    names = names_of(corpus, [members for _, members in found])
    corpus.settings["merged"] = {}
    for name, (path, members) in zip(names, found):
        os.rename(path, corpus.path(name))
        for r in members:
            r.merged, r.problem = now[r.name], ""
        corpus.settings["merged"][name] = {
            "slides": sum(not r.same for r in members),
            "um_per_px": float(members[0].um) if members[0].um and len(found) > 1 else None}
    for name in os.listdir(corpus.out):
        if re.fullmatch(OURS, name) and name not in names:
            os.unlink(corpus.path(name))


def sets_of(corpus, done):
    """[(merged file, its slides)], each accepted by h5spec merge; None if it failed."""
    found, lists, split = [], [done], False
    while lists:
        rows = lists.pop(0)
        path = corpus.path(".merged-%d.h5" % len(found))
        left = merge_one(corpus, path, rows)
        if left is None:
            return None
        if left and not split:
            split = True
            read_results(corpus, done)
            known = [[r for r in done if r.um], [r for r in done if not r.um]]
            if all(known):
                found, lists = [], known
                continue
        found.append((path, [r for r in rows if r not in left]))
        if left:
            lists.insert(0, [r for r in rows if r in left])
    return found


def merge_one(corpus, path, rows):
    """Merges results. Returns the set of those that have another resolution; None if it failed."""
    of = {corpus.result(r): r for r in rows}
    options = ["--allow-duplicates" if corpus.has("allow_duplicates") else "--skip-duplicates"]
    options += ["--mix-mpp"] if "--mix-mpp" in corpus.settings["h5spec"] else []
    p = ask(program("h5spec"), "merge", "--json", "--progress", "no", "--force", *options, "-o", path, "--list", "-",
            given="".join(q + "\n" for q in of))
    lines = p.stderr.split("\n")
    if '"output": ' not in p.stdout:
        messages = [m for m in (re.sub(r"^h5spec: ", "", line) for line in lines) if m]
        for m in messages:
            r = of.get(m.split(": ")[0])
            if r and re.search(r"damaged|CRC|truncated|not an? ", m):
                r.problem = m.split(": ", 1)[1]
        corpus.run["problem"] = "merging the results failed: %s" % "; ".join(messages[:3])
        say(corpus.run["problem"])
        return None
    for r in rows:
        r.same = ""
    for a, b in (m.groups() for m in map(COPY.match, lines) if m):
        if a in of and b in of:
            of[b].same = of[a].slide
    return {of[m.group(1)] for m in map(APART.match, lines) if m and m.group(1) in of}


def names_of(corpus, sets):
    """A name for each set of slides."""
    if len(sets) < 2:
        return ["corpus.h5"] * len(sets)
    unknown, digits = sum(not s[0].um for s in sets), 2
    while True:
        names = ["corpus-%.*gum.h5" % (digits, float(s[0].um)) if s[0].um else "corpus-unknown-um%s.h5" % (
            "-x%.*g" % (digits, float(s[0].down or 0)) if unknown > 1 else "") for s in sets]
        if len(set(names)) == len(names) or digits > 15:
            return names
        digits += 1


# --- the report ---

def failed_table(corpus, st):
    """The slides that failed, as h5spec report reads them, without folders: people send the page on."""
    out, names = io.StringIO(), {r.slide: r.name for r in corpus.records}
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["slide", "reason"])
    for row in st["failed"]:
        slide, text = row["slide"], bare_reason(row)
        same = re.match(r"is the same slide as (.*); remove one", text)
        if same:
            text = text.replace(same.group(1), os.path.basename(same.group(1)))
        for folder in sorted({os.path.dirname(slide), corpus.stores, corpus.path("results"), corpus.out}, key=len, reverse=True):
            text = text.replace(folder + "/", "").replace(folder, "its folder")
        text = re.sub(r"(dangling link to )(.*/)", r"\1", text)
        rows.writerow([os.path.basename(slide) if names.get(slide, "") in ("", os.path.basename(slide).rpartition(".")[0])
                       else names[slide], "%s: %s" % (row["stage"], text)])
    return out.getvalue()


def write_report(corpus, st):
    """Writes the page about what exists so far. True if it is written."""
    if "report" not in ask(program("h5spec"), "--help").stdout:
        say("h5spec is built without libpng: no report")
        return False
    inputs = [row["file"] for row in st["merged"]]
    if not is_merged(st):
        inputs = [corpus.result(r) for r in corpus.records if not corpus.now(r).remains]
    failed = corpus.path("report.%s.%d.csv" % (os.uname().nodename, os.getpid()))
    try:
        write_whole(failed, failed_table(corpus, st))
        p = ask(program("h5spec"), "report", "-q", "-o", corpus.path("report.html"), "--failed", failed, "--list", "-",
                given="".join(q + "\n" for q in inputs))
    finally:
        remove_file(failed)
    if p.stderr:
        say(p.stderr.strip())
    return p.returncode in (0, 1) and os.path.exists(corpus.path("report.html"))
