"""OUT/report.html: one page about all slides, written by `h5spec report`."""
import csv
import io
import os

from corpus_lib.files import ask, program, say, write_list, write_whole
from corpus_lib.status import is_merged


def failed_table(st):
    """The slides that failed, as h5spec report reads them. Folders of slides are left out."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["slide", "reason"])
    for row in st["failed"]:
        name = os.path.basename(row["slide"])
        reason = row["reason"].replace(row["slide"] + ": ", "", 1).replace(row["slide"], name)
        rows.writerow([name, "%s: %s" % (row["stage"], reason)])
    return out.getvalue()


def write_report(corpus, st):
    """Writes the page about what there is so far. True if it is written."""
    if "report" not in ask(program("h5spec"), "--help").stdout:
        say("h5spec is built without libpng: no report")
        return False
    beside = corpus.path("report.%s.%d" % (os.uname().nodename, os.getpid()))
    names, failed, inputs = beside + ".list", beside + ".csv", [row["file"] for row in st["merged"]]
    if not is_merged(st):
        inputs = [corpus.result(s) for s in corpus.table if not corpus.now(s).remains]
    try:
        write_list(names, inputs)
        write_whole(failed, failed_table(st))
        p = ask(program("h5spec"), "report", "-q", "-o", corpus.path("report.html"), "--failed",
                failed, "--list", names)
    finally:
        for path in (names, failed):
            if os.path.exists(path):
                os.unlink(path)
    if p.stderr:
        say(p.stderr.strip())
    return p.returncode in (0, 1) and os.path.exists(corpus.path("report.html"))
