"""What has become of each slide, from the finished files and the reports of the tasks.

A slide is failed only if something went wrong with it: its program reported it, or its task ended
while it was at work. A slide that waits, or whose task was cancelled or refused, is to do.
"""
import collections
import glob
import os
import re
import sys

from corpus_lib.files import DONE, PART, age, counted, fresh, key
from corpus_lib.logs import Reports, began, end_of
from corpus_lib.progress import duration, rate_text
from corpus_lib.schedulers import active_tasks

DOING = {"convert": "converting", "process": "processing"}

# reached: "", "converted" or "processed"; next: "", "convert" or "process";
# reason: None unless failed
State = collections.namedtuple("State", "reached next reason")


class States:
    """The states of all slides of a corpus, with `active` tasks queued or running."""

    def __init__(self, corpus, scheduler=None, active=0):
        self.corpus, self.scheduler, self.active = corpus, scheduler, active
        self.reports = {kind: Reports(corpus, kind) for kind in ("convert", "process")}
        self.suspects = {(kind, run): r.suspects(run) for kind, r in self.reports.items()
                         for run in corpus.runs()}
        self.unreadable, self.duplicates = corpus.unreadable(), corpus.duplicates()
        self.groups = {}  # name: (run, job id, tasks, groups)
        for run in corpus.runs():
            for kind, number, tasks, about in corpus.jobs(run):
                if kind == "groups":
                    n, name = about.split(" ", 1)
                    self.groups[name] = (run, number, int(tasks), int(n))

    def why(self, kind, line):
        """Why a step failed; None if it is to do."""
        reports = self.reports[kind]
        report, had = reports.last(line), reports.had.get(line)
        if report and report.status == "failed":
            return report.message
        if self.active or not had or self.corpus.stopped(had[0]):
            return None
        run, task, number = had
        if line not in self.suspects[kind, run]:
            return None
        return end_of(self.corpus, self.scheduler, reports.log(run, task), number, task)

    def why_groups(self, slide):
        """The same for a slide whose groups are computed by one task each."""
        run, number, tasks, n = self.groups[self.corpus.names[slide]]
        if self.active or self.corpus.stopped(run):
            return None
        made = {re.sub(r".*\.(\d+)-\d+\.h5$", r"\1", p) for p in glob.glob(
            glob.escape(self.corpus.parts(slide)) + "/*.h5") if fresh(p, self.corpus.store(slide))}
        missing = [g for g in range(1, n + 1) if str(g) not in made]
        if not missing:
            return "its groups could not be merged; see logs/%d.merge.err" % run
        logs = [(g, "%d.groups.%s.%d.err" % (
            run, self.corpus.names[slide], (g - 1) % tasks + 1))
                for g in missing]
        logs = [(g, log) for g, log in logs if began(self.corpus, log)]
        if not logs:
            return None
        end = end_of(self.corpus, self.scheduler, logs[0][1], number, (logs[0][0] - 1) % tasks + 1)
        listed = ",".join(map(str, missing[:9])) + (",..." if missing[9:] else "")
        return "group %s of %d is missing: %s" % (listed, n, end)

    def why_not_processed(self, s):
        problem = self.corpus.checks.problem(self.corpus.result(s))
        if problem and fresh(self.corpus.result(s), self.corpus.store(s)):
            return None if self.active else "the result is damaged: %s; run again" % problem
        if self.corpus.names[s] in self.groups and os.path.isdir(self.corpus.parts(s)):
            return self.why_groups(s)
        return self.why("process", self.corpus.store(s))

    def of(self, s):
        corpus, store = self.corpus, self.corpus.store(s)
        made, report = age(store), self.reports["convert"].last(corpus.input(s))
        if corpus.clashes(s):
            return State("", "convert", "another slide has the same name; rename one")
        if made is None or (report and report.status == "failed" and report.changed > made):
            return State("", "convert", self.why("convert", corpus.input(s)))
        if store in self.unreadable:
            return State("", "convert",
                         None if self.active else self.unreadable[store] + "; run again")
        if not corpus.has_store(s):
            return State("", "convert", None)
        if s in self.duplicates:
            return State("converted", "process", "is the same slide as %s; remove one, or use "
                         "--allow-duplicates" % self.duplicates[s])
        if corpus.has_result(s):
            return State("processed", "", None)
        return State("converted", "process", self.why_not_processed(s))


# --- rates ---

def rate_of(reports, path_of, now):
    """Slides per second of the last run that finished any; None if there is none.

    A finished file's time less the seconds that it took is when its work began, so waiting in the
    queue does not count. `now`: the time in s if work goes on, else None.
    """
    for run in sorted(reports.of_run, reverse=True):
        ends = [(age(path), r.seconds) for path, r in
                ((path_of.get(subject), r) for subject, r in reports.of_run[run].items()
                 if r.status in ("done", "damaged")) if path and age(path)]
        if ends:
            begun = min(end / 1e9 - seconds for end, seconds in ends)
            end = now or max(end for end, _ in ends) / 1e9
            return len(ends) / max(end - begun, 1e-3)
    return None


def steps_of(states, to_do, now):
    """What remains of each step: {"step", "to_do", "per_hour", "seconds_left"}, None if unknown."""
    corpus, rows = states.corpus, []
    converting = sum(row["stage"] == "convert" for row in to_do)
    for kind, n, paths in (
            ("convert", converting, {key(corpus.input(s)): corpus.store(s) for s in corpus.slides}),
            ("process", len(to_do),
             {key(corpus.store(s)): corpus.result(s) for s in corpus.slides})):
        reports = states.reports[kind]
        at_work = now if kind == "convert" or not converting else None
        rate = rate_of(reports, paths, at_work if n else None)
        rows.append({"step": kind, "to_do": n, "per_hour": rate and 3600 * rate,
                     "seconds_left": 0 if not n else n / rate if rate else None})
    return rows


# --- the whole ---

def problems_of(corpus, scheduler):
    """What stopped the last run as a whole."""
    runs = corpus.runs()
    if not runs or corpus.stopped(runs[-1]):
        return []
    found = list(corpus.problems(runs[-1]))
    lookup = [j for j in corpus.jobs(runs[-1]) if j[0] == "lookup"]
    if lookup and not found and age(corpus.run_path(runs[-1], "process.txt")) is None:
        found.append("the look-up job failed: " + end_of(
            corpus, scheduler, "%d.lookup.err" % runs[-1], lookup[0][1], None))
    return found


def status_of(corpus, scheduler, active, now):
    """What `status` reports. `now`: time in s."""
    states = States(corpus, scheduler, active)
    out = {"out": corpus.out, "run": (corpus.runs() or [None])[-1], "active_tasks": active,
           "slides": len(corpus.slides) + len(corpus.rejected), "converted": 0, "processed": 0,
           "to_do": [], "damaged": [],
           "failed": [{"slide": path, "stage": "input", "reason": problem}
                      for path, problem in sorted(corpus.rejected.items())], "corpus": None}
    results = []
    for s in corpus.slides:
        reached, stage, reason = states.of(s)
        report = states.reports["convert"].last(corpus.input(s))
        out["converted"] += reached != ""
        if reached == "processed":
            results.append(corpus.result(s))
        elif reason:
            reason = reason.replace(corpus.input(s), s)  # the slide, not the link to it
            out["failed"].append({"slide": s, "stage": stage, "reason": reason})
        else:
            out["to_do"].append({"slide": s, "stage": stage})
        if reached and report and report.status in ("damaged", "skipped") and report.message:
            out["damaged"].append({"slide": s, "reason": report.message})
    out["processed"] = len(results)
    out["steps"] = steps_of(states, out["to_do"], now if active else None)
    left = [row["seconds_left"] for row in out["steps"]]
    out["seconds_left"] = None if None in left else sum(left)
    out["merged"] = corpus.merged.rows(results)
    if len(out["merged"]) == 1 and out["merged"][0]["file"] == corpus.path("corpus.h5"):
        out["corpus"] = {k: out["merged"][0][k] for k in ("file", "slides", "current")}
    out["kept_apart"] = len(out["merged"]) > 1
    done = not out["to_do"] and (not results or is_merged(out))
    out["problems"] = [] if active or done else problems_of(corpus, scheduler)
    return out


def look(corpus, now):
    """The status of a corpus at this moment. Results are verified when no task is at work."""
    scheduler, active = active_tasks(corpus)
    if not active:
        corpus.checks.read_results([corpus.result(s) for s in corpus.slides])
    return status_of(corpus, scheduler, active, now)


def headline(st):
    """The status in one line."""
    text = "%d of %d slides converted, %d processed, %d to do, %d failed, %d damaged" % (
        st["converted"], st["slides"], st["processed"], len(st["to_do"]),
        len(st["failed"]), len(st["damaged"]))
    if not st["active_tasks"]:
        return text
    text += "; %s queued or running" % counted(st["active_tasks"], "task")
    row = next((row for row in st["steps"] if row["to_do"]), None)
    if row and row["per_hour"]:
        text += "; %s: %s, %s left" % (DOING[row["step"]], rate_text(row["per_hour"] / 3600),
                                          duration(row["seconds_left"]))
        if st["seconds_left"] is not None and st["seconds_left"] > row["seconds_left"]:
            text += ", %s in all" % duration(st["seconds_left"])
    return text


def print_status(st):
    print(headline(st))
    for problem in st["problems"]:
        print("problem: " + problem)
    for what, rows in (("failed", st["failed"]), ("damaged", st["damaged"])):
        for row in rows:
            stage = " (%s)" % row["stage"] if "stage" in row else ""
            reason = row["reason"].replace(row["slide"] + ": ", "", 1)
            print("%s%s: %s: %s" % (what, stage, printable(row["slide"]), printable(reason)))
    if st["kept_apart"]:
        print("the slides have different resolutions: each resolution has its own result")
    for row in st["merged"]:
        print("%s: %s%s%s" % (row["file"], counted(row["slides"], "slide"),
                              resolution_text(row["um_per_px"]) if st["kept_apart"] else "",
                              "" if row["current"] else ", out of date"))
    sys.stdout.flush()


def resolution_text(um):
    return " of %.4g um/px" % um if um else " of unknown resolution"


def is_merged(st):
    """The merged results hold what has been processed."""
    return bool(st["merged"]) and all(row["current"] for row in st["merged"])


def printable(text):
    """Text without the control characters that a file name may have."""
    return re.sub(r"[\x00-\x1f\x7f]", lambda m: "\\x%02x" % ord(m.group()), text)


def verdict(st):
    """The exit status: 1 if anything failed or is damaged, or is to do and nobody does it."""
    if st["failed"] or st["damaged"] or st["problems"]:
        return PART
    return PART if st["to_do"] and not st["active_tasks"] else DONE
