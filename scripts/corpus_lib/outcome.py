"""What has become of each slide, from its files (state.py) and from what batches reported (step.py).

This table is the only place that decides:

  the files say      the failures since the slide changed say            state
  done               nothing                                             done
  done               tiles are damaged                                   damaged
  done               another slide is the same one                       copy
  something remains  the program called the slide bad                    bad slide
  something remains  two crashes, or failures of the slide on two nodes  bad slide
  something remains  out of memory, also with more                       bad slide
  something remains  the node failed, no disk, no memory, one crash      node trouble
  something remains  the task was ended from outside                     interrupted
  something remains  nothing, or the user cancelled the run              to do

A node is sick if a batch could not begin or could not start its program there, or hung until its time limit
without finishing one slide.
"""
import collections
import itertools
import os
import re

from corpus_lib.files import STOPPED, TROUBLE, USAGE, Away, read_lines, stamp
from corpus_lib.planned import read_plan
from corpus_lib.step import OK, rows_in

DONE, HURT, COPY, BAD, INTERRUPTED, SICK, TO_DO = STATES = (
    "done", "damaged", "copy", "bad slide", "interrupted", "node trouble", "to do")
AGAIN = (INTERRUPTED, SICK, TO_DO)  # worth another try

# What can be the matter, and what shows it in the scheduler's word about the end of a task. Programs of ours say it in JSON
WHAT = (
    ("disk", r"(?i)no space left|disk quota|quota exceeded|file too large"),
    ("memory", r"(?i)OUT_OF_ME|out of memory|cannot allocate memory|exceeded memory limit|\boom\b"),
    ("crash", r"signal (4|6|7|8|11)\b"),
    ("trouble", r"NODE_FAIL|BOOT_FAIL|signal 53\b|exit status (126|127)\b|not found|Exec format"),
    ("interrupted", r"TIMEOUT|CANCELLED|PREEMPTED|DEADLINE|REQUEUE|SUSPENDED|exit status (3|137|143)\b|"
                    r"failed (37|100)|signal \d+"),
    ("trouble", r"FAILED|exit status|Grid Engine: failed"),
    ("interrupted", r""),
)
SCHEDULER = ("slurmstepd:", "srun:", "slurmd")  # how lines begin that it writes into the log of a task


def what_shows(text, kinds=None):
    """Which of WHAT a text shows; `kinds`: the only ones of interest."""
    return next((what for what, pattern in WHAT if (not kinds or what in kinds) and re.search(pattern, text)), "")


def what_failed(row, path):
    """What is the matter, by a line of a program."""
    cause, detail = row.get("cause"), row.get("detail")
    if cause in ("crash", "killed"):
        return "crash" if cause == "crash" else "interrupted"
    if cause == "trouble":
        return detail if detail in ("disk", "memory") else "trouble"
    return "trouble" if detail == "absent" and os.path.exists(path) else "input"  # a slide that exists: the node's fault


class Log:
    """What a batch has reported."""

    def __init__(self, path):
        self.begun, self.ended, self.slides, self.stores = {}, {}, {}, {}  # by stage, slide and store
        for row in rows_in(path):
            if "batch" in row:
                stage = row.get("stage")
                for part in ("convert", "process") if stage == "both" else (stage,):
                    (self.begun if row["status"] == "begun" else self.ended)[part] = row
                    if row["status"] == "begun":
                        self.ended.pop(part, None)
            elif isinstance(row.get("input"), str):
                (self.slides if row.get("kind") == "slide" else self.stores)[row["input"]] = row


class Outcome:
    """Brings the records up to date with the logs of the last run. `closing`: none of its tasks is at work, so
    what they left unsaid is judged, too. `scheduler`: knows how its tasks ended."""

    def __init__(self, corpus, closing=False, scheduler=None):
        self.corpus, self.closing, self.scheduler = corpus, closing, scheduler
        self.sick, self.ends = collections.Counter(), None
        if corpus.run and not corpus.run.get("closed"):
            self.of, ended = {r.name: r for r in corpus.records}, []
            for batch, rows in itertools.groupby(read_plan(corpus), lambda row: row.batch):
                ended.append(self.read_batch(batch, list(rows)))
            if closing:  # what another engine has not ended, it may begin yet
                corpus.run.update(closed=all(ended) or bool(corpus.run.get("engine")), sick=dict(self.sick))

    def read_batch(self, batch, rows):
        """Has the batch ended?"""
        log, left = Log(self.corpus.log(batch, "jsonl")), {"convert": [], "process": []}
        for row in rows:
            r = self.of.get(row.name)
            if r and r.slide == row.slide:
                stage = self.read_slide(r, row, log, batch)
                if stage:
                    left[stage].append((r, row))
        if self.closing and not os.path.exists(self.corpus.path("cancelled")):
            for stage, slides in left.items():
                if slides:
                    self.blame(batch, stage, slides, log)
        return set(log.ended) >= {"process", *(row.step for row in rows)}

    def read_slide(self, r, row, log, batch):
        """Notes what the log says of a slide. Returns the stage of which it says nothing."""
        converted, processed = log.slides.get(row.slide), log.stores.get(row.store)
        if row.step == "convert":
            if not converted:
                return "convert"
            if converted["status"] not in OK:
                self.fail(r, row, "convert", what_failed(converted, r.slide), converted, batch)
                return ""
            r.damage = converted.get("message") or "" if converted["status"] == "damaged" else r.damage \
                if converted["status"] == "skipped" else ""
            r.forgive("convert")
        if row.step == "convert" or not r.files:
            r.files, r.made = row.source, row.options
        r.store = stamp(row.store)
        if not processed:
            return "process"
        if processed["status"] not in OK:
            self.fail(r, row, "process", what_failed(processed, row.store), processed, batch)
            return ""
        r.result, r.problem = stamp(row.result), ""
        if processed["status"] != "skipped" or not r.version:
            r.version = self.corpus.run.get("versions", "")
        r.forgive("process")
        return ""

    def fail(self, r, row, stage, what, said, batch, of_slide=True):
        """Notes a failure. `of_slide`: it may be the slide's fault."""
        end = self.end_of(stage, batch) if said.get("cause") == "killed" and self.closing else None
        if end and what_shows(end.text) == "memory":
            what = "memory"
        if r.of != row.source:
            r.tried = {}
        r.what, r.stage, r.of, r.message, r.host, r.time = (
            what, stage, row.source, said.get("message") or "", said.get("host") or "", said.get("time") or "")
        r.log, r.run = "logs/%d.%d.err" % (self.corpus.number, batch), str(self.corpus.number)
        if of_slide and what in ("trouble", "crash", "memory"):
            r.tried[r.run] = [what, r.host]
        if of_slide and what == "trouble" and r.host:
            self.sick[r.host] += 1

    def end_of(self, stage, batch):
        """The scheduler's End of a task; None if it is not known. Asked once."""
        if self.ends is None:
            jobs = self.corpus.jobs()
            try:
                ends = self.scheduler.all_ends(list(jobs.values())) if self.scheduler and jobs else {}
            except Away:
                ends = {}
            self.ends = {(kind, task): end for kind, job in jobs.items() for (j, task), end in ends.items() if j == job}
        return self.ends.get((stage, batch))

    def blame(self, batch, stage, slides, log):
        """Judges a batch that said nothing of some slides."""
        begun, ended = log.begun.get(stage), log.ended.get(stage)
        code = ended.get("exit") if ended else None
        end = self.end_of(stage, batch) if code in (None, STOPPED) else None
        if not begun and not (end and end.failed and "CANCELLED" not in end.text):
            return  # it had no turn
        if ended and code not in (STOPPED, USAGE) and not (isinstance(code, int) and code > TROUBLE):
            return  # no turn, because of trouble that another slide reports
        where = (ended or begun or {}).get("host") or (end.node if end else "")
        if ended:
            said = ended.get("message") or "exit status %d" % code
            what = "interrupted" if code == STOPPED else "trouble"
        else:
            said = "its task ended without a report" if begun else "its task left no log"
            what = what_shows(end.text) if end else "interrupted"
            if what == "interrupted":  # unless the scheduler's last words in the task's log say more
                words = [line for line in read_lines(self.corpus.log(batch, "err"))[-9:] if line.startswith(SCHEDULER)]
                what = what_shows("\n".join(words), ("memory",)) or (what if begun else "trouble")
        at = {"host": where, "time": (ended or begun or {}).get("time", ""),
              "message": "%s (%s)" % (said, end.text) if end else said}
        hung = end and "TIMEOUT" in end.text and not log.slides and not log.stores
        if where and (what == "trouble" or hung):
            self.sick[where] += len(slides)
        alone = what in ("memory", "crash") and len(slides) == 1
        for r, row in slides if what == "trouble" else slides[:1]:
            self.fail(r, row, stage, what, at, batch, of_slide=alone)


# state; stage that remains; reason
State = collections.namedtuple("State", "state stage reason")


def state_of(corpus, r, now):
    if not now.remains:
        if r.same and r.merged == now.result and not corpus.has("allow_duplicates"):
            return State(COPY, "process", "copy of %s" % r.same)
        return State(HURT if r.damage else DONE, "", r.damage)
    stage = now.remains
    if r.problem:
        return State(SICK, "process", "the result is damaged: %s; run again" % r.problem)
    if not r.what or r.stage != stage and r.stage != "process" or now.files not in (r.of, ""):
        return State(TO_DO, stage, "")
    kinds, hosts = [w for w, _ in r.tried.values()], sorted({h for w, h in r.tried.values() if h and w != "memory"})
    if r.what == "input":
        return State(BAD, r.stage, r.message)
    if kinds.count("crash") > 1 or len(hosts) > 1:
        return State(BAD, r.stage, "%s (failed on %s)" % (r.message, " and ".join(hosts)))
    if kinds.count("memory") > 1:
        return State(BAD, r.stage, "%s (out of memory, also with more)" % r.message)
    return State(INTERRUPTED if r.what == "interrupted" else SICK, r.stage, r.message)


def worth_another_try(corpus):
    """The records that failed through no fault of theirs, or had no turn. A full disk is the user's to clear."""
    found = [(r, state_of(corpus, r, corpus.now(r))) for r in corpus.records]
    return [r for r, st in found if st.state in AGAIN] if not any(
        r.what == "disk" and st.state == SICK for r, st in found) else []
