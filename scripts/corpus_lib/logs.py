"""What tasks have reported: OUT/logs/R.KIND.TASK.json has one line per slide, .err the messages.

Kinds are convert (lines name a slide), process and groups (lines name a store). Task I of N has the
lines I, I + N, ... of runs/R/KIND.txt.
"""
import collections
import glob
import json
import os
import re

from corpus_lib.files import age, key, read_lines

FIELD = {"convert": "slide", "process": "store"}  # the name of a line's subject

# status: done, damaged, skipped or failed; seconds it took; time of the log in ns
Report = collections.namedtuple("Report", "status message seconds changed")


def read_reports(path, field):
    """[(subject, report)] of one log; a line that a kill has cut off is skipped."""
    found, changed = [], age(path)
    for line in read_lines(path):
        try:
            row = json.loads(line)
            found.append((key(row[field]), Report(row["status"], row.get("message") or "",
                                                  float(row.get("seconds") or 0), changed)))
        except (ValueError, KeyError, TypeError):
            pass
    return found


class Reports:
    """All reports of one kind, and which task had which line."""

    def __init__(self, corpus, kind):
        self.corpus, self.kind = corpus, kind
        self.of_run = {run: {} for run in corpus.runs()}  # {run: {subject: last report}}
        for path in sorted(glob.glob(glob.escape(corpus.path("logs")) + "/*.%s.*json" % kind)):
            run = int(os.path.basename(path).split(".")[0])
            self.of_run.setdefault(run, {}).update(read_reports(path, FIELD[kind]))
        self.had = {}  # {line: (run, task, job id)}: who had it last
        for run in corpus.runs():
            for tasks, number, lines in self.shares(run):
                self.had.update((s, (run, k % tasks + 1, number)) for k, s in enumerate(lines))

    def shares(self, run):
        """[(number of tasks, job id, lines)] of the arrays of a run."""
        lines = read_lines(self.corpus.run_path(run, self.kind + ".txt"))
        return [(int(tasks), number, lines) for kind, number, tasks, _ in self.corpus.jobs(run)
                if kind == self.kind]

    def last(self, line):
        """The last report of a line; None if a later task had it and left none."""
        runs = [run for run in self.of_run if key(line) in self.of_run[run]]
        if not runs or (line in self.had and self.had[line][0] > max(runs)):
            return None
        return self.of_run[max(runs)][key(line)]

    def log(self, run, task):
        return "%d.%s.%d.err" % (run, self.kind, task)

    def suspects(self, run):
        """Lines that may have ended their task: the first without a report of each begun share."""
        found = set()
        for tasks, _, lines in self.shares(run):
            for task in range(tasks):
                if began(self.corpus, self.log(run, task + 1)):
                    share = lines[task::tasks]
                    found.update([s for s in share if key(s) not in self.of_run[run]][:1])
        return found


def last_suspects(corpus, kind):
    """The suspects of the last run: they are done last in the next one."""
    runs = corpus.runs()
    return Reports(corpus, kind).suspects(runs[-1]) if runs else set()


def began(corpus, log):
    """True if a task ran at all: its log exists from its first moment."""
    return os.path.exists(corpus.path("logs", log))


def last_line(path):
    """The last message of a log that is neither a summary nor the device in use."""
    lines = [re.sub(r"^(wsi2h5|h5spec|corpus): ", "", line.strip()) for line in read_lines(path)]
    lines = [line for line in lines
             if line and not re.match(r"\d+ (converted|done)\b|device (cpu|cuda)\b|using ", line)]
    return lines[-1] if lines else ""


def end_of(corpus, scheduler, log, number, task):
    """How a task ended that left no report: its last message, and what the scheduler says."""
    end = scheduler.end_of(number, task) if scheduler and number != "-" else ""
    text = last_line(corpus.path("logs", log)) or "its task ended without a report, perhaps killed"
    return "%s%s; run again" % (text, " (%s)" % end if end else "")
