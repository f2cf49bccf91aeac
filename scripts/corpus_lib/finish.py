"""After the batches: slides that are tried again, merged results, the report, the verdict.

h5spec merge decides which slides go together: those of another resolution get a file of their own, such as
corpus-0.25um.h5. Slides that do not state theirs are then apart, too. What went where is its JSON's to say.
"""
import csv
import io
import os
import re

from corpus_lib.engines import patient, scheduler_of, submit_run
from corpus_lib.files import Away, ask, counted, json_rows, program, remove_file, say, stamp
from corpus_lib.outcome import Outcome, worth_another_try
from corpus_lib.planned import MOST_BATCHES, compare_content, join_parts, remaining, write_plan
from corpus_lib.publish import Part
from corpus_lib.remove import head_of, take_out_copies
from corpus_lib.status import bare_reason, is_merged, print_status, status_of, verdict

OURS = r"corpus(-[0-9.e+-]+um|-unknown-um(-x[0-9.e+-]+)?)?\.h5"


def finish(corpus, closing, again=False):
    """Merges what exists. `closing`: no task is at work any more; `again`: slides may be tried again. Returns the
    exit status, None if there is another run."""
    corpus.settings.setdefault("merged", {})
    if closing:
        corpus.clean()
    join_parts(corpus)
    scheduler = scheduler_of(corpus)
    Outcome(corpus, closing, scheduler)
    if again and closing and try_again(corpus, scheduler):
        return None
    compare_content(corpus)
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
    made = merge_results(corpus, done) if done else []
    if made is None:
        return
    of = {corpus.result(r): r for r in done}
    for r in done:
        r.same = ""
    for x in (x for row in made for x in row["inputs"]):
        r = of.pop(x["input"], None)
        if r:
            r.merged, r.problem = now[r.name], ""
            r.same = slide_of(corpus, done, x["same_as"]) if x["status"] == "copy" else ""
    if of:
        problem(corpus, "%s in no merged file, such as %s" % (counted(len(of), "result"), next(iter(of))))
    corpus.settings["merged"] = {os.path.basename(row["output"]): {
        "slides": row["slides"], "um_per_px": row["um_per_px"] if len(made) > 1 else None} for row in made}
    for name in sorted(os.listdir(corpus.out)):
        path = corpus.path(name)
        if re.fullmatch(OURS, name) and name not in corpus.settings["merged"] and head_of(path).startswith(b"\x89HDF"):
            say("%s is of an earlier run and goes" % path)
            os.unlink(path)


def slide_of(corpus, records, result):
    """The slide of a result."""
    return next((r.slide for r in records if corpus.result(r) == result), result)


def problem(corpus, text):
    corpus.run["problem"] = text
    say(text)


def merge_results(corpus, done):
    """The rows of JSON about the merged files, which list their inputs; None if a merge failed."""
    options = ["--duplicates", "count" if corpus.has("allow_duplicates") else "skip"]
    options += ["--mix-mpp"] if "--mix-mpp" in corpus.settings["h5spec"] else []
    of = {corpus.result(r): r for r in done}
    p = ask(program("h5spec"), "merge", "--json", "-q", "--force", *options, "-o", corpus.out + "/", "--list", "-",
            given="".join(q + "\n" for q in of))
    made = list(json_rows(p.stdout.split("\n")))
    bad = [row for row in made if row.get("status") != "done"]
    if p.returncode == 0 and made and not bad:
        return made
    for row in bad:
        for x in row.get("inputs", ()):
            if row.get("cause") == "input" and x["input"] in of:
                of[x["input"]].problem = row["message"]
    problem(corpus, "merging the results failed: %s" % (bad[0].get("message") if bad else p.stderr.strip()))
    return None


# --- the report ---

def guarded(cell):
    """An apostrophe keeps a cell from being a formula."""
    return re.sub(r"^(?='*[=+@\t\r\n-])", "'", cell)


def failed_table(corpus, st):
    """The slides that failed, and copies, as h5spec report reads them, without folders: people send the page on. Rows
    without a slide: what else lies in the folders."""
    out, known = io.StringIO(), {r.slide: r for r in corpus.records}
    out.write("slide,reason\n")
    rows = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)  # else a carriage return stands without quotes
    for row in st["failed"]:
        slide, text = row["slide"], bare_reason(row)
        r = known.get(slide)
        for folder in sorted({os.path.dirname(slide), corpus.stores, corpus.path("results"), corpus.out}, key=len, reverse=True):
            text = text.replace(folder + "/", "").replace(folder, "its folder")
        text = re.sub(r"(dangling link to )(.*/)", r"\1", text)
        name = os.path.basename(slide) if not r or r.name in ("", os.path.basename(slide).rpartition(".")[0]) else r.name
        rows.writerow([guarded(cell) for cell in (name, "%s: %s" % (row["stage"], text))])
    for row in st["copies"]:  # as in failed.csv
        r = known[row["slide"]]
        rows.writerow([guarded(cell) for cell in (r.name, "%s: copy of %s" % (r.name, os.path.basename(r.same)))])
    rows.writerows(("", text) for text in st["passed_over"])
    return out.getvalue()


def write_report(corpus, st):
    """Writes the page about what exists so far. True if it is written."""
    if "report" not in ask(program("h5spec"), "--help").stdout:
        say("h5spec is built without libpng: no report")
        return False
    inputs = [row["file"] for row in st["merged"]]
    if not is_merged(st):
        inputs = [corpus.result(r) for r in corpus.records if not corpus.now(r).remains]
    failed = Part(corpus.path("failed.csv"))
    try:
        failed.file.write(failed_table(corpus, st).encode("utf-8", "surrogateescape"))
        failed.file.flush()
        p = ask(program("h5spec"), "report", "-q", "-o", corpus.path("report.html"), "--failed", failed.name, "--list", "-",
                given="".join(q + "\n" for q in inputs))
    finally:
        failed.abort()
    if p.stderr:
        say(p.stderr.strip())
    return p.returncode in (0, 1) and os.path.exists(corpus.path("report.html"))
