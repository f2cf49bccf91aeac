"""What happened to slides at the hands of tasks: the attempts that did not end well.

OUT/logs/R.KIND.TASK.json has one line per slide, R.KIND.TASK.err the messages. Kinds are convert (lines
name a slide), process and groups (lines name a store). Task I of N has the lines I, I + N, ... of
runs/R/KIND.txt. A task that ended without a line for a slide leaves an attempt, too: the first such
slide of its share may have ended it, the others had no turn and are to do.

A slide is done if its files say so, so attempts need to be kept only of the others, and of damaged
slides. OUT/attempts.json has those of all runs that have ended; logs are read once.
"""
import calendar
import collections
import glob
import json
import os
import re
import socket
import time

from corpus_lib.files import fresh, key, look, read_json, read_lines, stamp, stem, write_whole
from corpus_lib.schedulers import Away

FIELD = {"convert": "slide", "process": "store"}  # the name of a line's subject

# stage: convert or process; what: see WHAT; of: stamp of what it began with, "" if unknown;
# time: as in JSON lines; log: name of the file of messages
Attempt = collections.namedtuple("Attempt", "stage what message host run task time of log")

# What can be the matter, and what shows it: an end of a task that left no line about a slide, as the
# scheduler's word or the signal that is named in the log of a local task.
WHAT = (
    ("input", None),        # the program says that the slide is bad
    ("damaged", None),      # written, but tiles of it are damaged
    ("crash", r"signal (4|6|7|8|11)\b"),
    ("trouble", r"NODE_FAIL|BOOT_FAIL|OUT_OF_MEMORY|exit status (126|127)\b|not found|Exec format"),
    ("interrupted", r"TIMEOUT|CANCELLED|PREEMPTED|DEADLINE|REQUEUE|SUSPENDED|exit status (3|137|143)\b|"
                    r"failed (37|100)|signal \d+"),
    ("trouble", r"FAILED|exit status|Grid Engine: failed"),
    ("interrupted", r""),
)
DONE = b'"status": "done"'
HEAD = re.compile(rb'\{"\w+": ("(?:[^"\\]|\\.)*")')
PART = re.compile(rb'(?<=.)(?=\{"(?:slide|store)": ")')
ELSEWHERE = r"(?i)no such file|permission denied|not a directory"  # of a slide that is there: the node's fault
TURN = re.compile(r"task (\S+) on (\S+), (\S+)$")  # the first line of a task's messages


def what_ended(text):
    """Which of WHAT the end of a task is."""
    return next(what for what, pattern in WHAT if pattern is not None and re.search(pattern, text))


def last_line(lines):
    """The last message of a log that is neither a summary nor the device in use."""
    lines = [re.sub(r"^(wsi2h5|h5spec|corpus): ", "", line.strip()) for line in lines]
    lines = [line for line in lines if line and not TURN.search(line)
             and not re.match(r"\d+ (converted|done)\b|device (cpu|cuda)\b|using ", line)]
    return lines[-1] if lines else ""


def parts_of(line):
    """The objects of a line: one, unless a kill has cut it off and a task that was requeued went on there."""
    return PART.split(line) if line.count(b'"status": ') > 1 or not HEAD.match(line) else (line,)


def utc(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def seconds_of(text):
    try:
        return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
    except (ValueError, TypeError):
        return None


class Attempts:
    """{key of a slide's name: [Attempt]}, oldest first; `scheduler` and `active` as of active_tasks()."""

    def __init__(self, corpus, scheduler=None, active=0, only=None):
        self.corpus, self.scheduler, self.path = corpus, scheduler, corpus.path("attempts.json")
        kept = read_json(self.path, {})
        self.closed = kept.get("closed", 0)
        self.of = {name: [Attempt(*a) for a in rows] for name, rows in kept.get("slides", {}).items()}
        self.rates = kept.get("rates", {})  # {stage: [slides, begun, end]} of the last run that did any
        self.seen = {}  # {(run, stage): keys of all slides with a line}, of runs that are not closed
        self.current = {}  # {(run, stage): keys of slides that needed nothing}
        self.ended = {}  # {job: {task: End}}
        for run in corpus.runs():
            if run > self.closed:
                ended = not active or run < corpus.runs()[-1]
                self.read(run, ended)
                if ended:
                    self.close(run)

    def save(self):
        """No task is at work: what has been read need not be read again."""
        runs = self.corpus.runs()
        self.closed = runs[-1] if runs else 0
        for s in self.corpus.slides if self.of else []:
            if s.key in self.of:
                now = {"convert": s.next or s.files, "process": stamp(self.corpus.store(s))}
                self.of[s.key] = [a if a.of else a._replace(of=now[a.stage]) for a in self.of[s.key]]
        write_whole(self.path, json.dumps({"closed": self.closed, "slides": self.of, "rates": self.rates}) + "\n")

    # what tasks have said

    def read(self, run, ended):
        for kind, number, tasks, _ in self.corpus.jobs(run):
            if kind in FIELD:
                names, good = self.seen.setdefault((run, kind), set()), self.current.setdefault((run, kind), set())
                spans = [self.read_log(run, kind, task, names, good, ended)
                         for task in range(1, int(tasks) + 1)]
                spans = [s for s in spans if s[0]]
                if spans:
                    self.rates[kind] = [sum(n for n, _, _ in spans), min(b for _, b, _ in spans),
                                        max(e for _, _, e in spans)]

    def log(self, run, kind, task):
        return "%d.%s.%d" % (run, kind, task)

    def read_log(self, run, kind, task, names, good, ended):
        """Reads the lines of a task. Returns (slides done, when the first began, when the last ended)."""
        log, n, first, last = self.log(run, kind, task), 0, b"", b""
        try:
            lines = open(self.corpus.path("logs", log + ".json"), "rb")
        except FileNotFoundError:
            return 0, 0, 0
        with lines:
            for line in (part for whole in lines for part in parts_of(whole)):
                head = DONE in line and line.endswith(b"}\n") and HEAD.match(line)
                if head:
                    n, first, last = n + 1, first or line, line
                    if ended or self.of:  # what is done needs no name otherwise
                        name = stem(json.loads(head.group(1)))
                        names.add(name)
                        self.forget(name, kind)
                    continue
                try:
                    row = json.loads(line)
                    name, status = stem(key(row[FIELD[kind]])), row["status"]
                except (ValueError, KeyError, TypeError):
                    continue  # a kill has cut it off
                names.add(name)
                self.note_line(kind, run, task, log + ".err", name, status, row)
                if status == "skipped" and not row.get("message"):
                    good.add(name)
        try:
            begun, ended = json.loads(first), json.loads(last)
            return n, seconds_of(begun["time"]) - float(begun["seconds"]), seconds_of(ended["time"])
        except (ValueError, KeyError, TypeError):
            return 0, 0, 0  # of an earlier version

    def note_line(self, kind, run, task, log, name, status, row):
        message, host, at = row.get("message") or "", row.get("host") or "", row.get("time") or ""
        if status == "failed":
            path = row[FIELD[kind]]
            away = re.search(ELSEWHERE, message) and os.path.exists(path)
            what = "trouble" if away or row.get("cause") == "trouble" else "input"
            self.add(name, Attempt(kind, what, message, host, run, task, at, "", log))
            return
        self.forget(name, kind)
        if message and kind == "convert":
            self.add(name, Attempt(kind, "damaged", message, host, run, task, at, "", log))

    def add(self, name, attempt):
        """The last attempt of a task at a slide counts, as of one that was requeued."""
        rows = self.of.setdefault(name, [])
        rows[:] = [a for a in rows if (a.stage, a.run) != (attempt.stage, attempt.run)] + [attempt]

    def forget(self, name, kind):
        if name in self.of:
            self.of[name] = [a for a in self.of[name] if a.stage != kind]
            if not self.of[name]:
                del self.of[name]

    # what tasks have left unsaid

    def close(self, run):
        """Adds the attempts of tasks that ended without a word. No task of the run is at work."""
        if self.corpus.stopped(run):
            return
        for kind, number, tasks, about in self.corpus.jobs(run):
            if kind in FIELD:
                self.close_array(run, kind, number, int(tasks))
            elif kind == "groups":
                self.close_groups(run, number, int(tasks), *about.split(" ", 1))

    def close_array(self, run, kind, number, tasks):
        lines, seen = read_lines(self.corpus.run_path(run, kind + ".txt")), self.seen[run, kind]
        for task in range(1, tasks + 1):
            left = next((s for s in lines[task - 1::tasks] if stem(key(s)) not in seen), None)
            log = self.log(run, kind, task)
            if left and self.began(log, number, task):
                what, message, host, at = self.end_of(log, number, task)
                self.add(stem(key(left)), Attempt(kind, what, message, host, run, task, at,
                                                  "", log + ".err"))

    def close_groups(self, run, number, tasks, n, name):
        """The same for a slide whose groups are computed by one task each."""
        folder = self.corpus.path("parts", name)
        if not os.path.isdir(folder):
            return
        store = os.path.join(self.corpus.stores, name + ".h5")
        made = {re.sub(r".*\.(\d+)-\d+\.h5$", r"\1", p) for p in glob.glob(glob.escape(folder) + "/*.h5")
                if fresh(p, store)}
        missing = [g for g in range(1, int(n) + 1) if str(g) not in made]
        if not missing:
            self.add(key(name), Attempt("process", "input", "its groups could not be merged", "", run, 0, "",
                                        "", "%d.merge.err" % run))
        for g in missing:
            task = (g - 1) % tasks + 1
            log = "%d.groups.%s.%d" % (run, name, task)
            if self.began(log, number, task):
                what, message, host, at = self.end_of(log, number, task)
                listed = ",".join(map(str, missing[:9])) + (",..." if missing[9:] else "")
                self.add(key(name), Attempt("process", what, "group %s of %s is missing: %s" % (
                    listed, n, message), host, run, task, at, "", log + ".err"))
                return

    def began(self, log, number, task):
        """Did a task run at all? Its log exists from its first moment, unless the node cannot write it."""
        if os.path.exists(self.corpus.path("logs", log + ".err")):
            return True
        end = self.end(number, task)
        return bool(end and (end.code or end.signal) and "CANCELLED" not in end.state)

    def end(self, number, task):
        """The scheduler's End of a task; None if it is not known. Asked once per job."""
        if not number.isdigit() or not self.scheduler:
            return None
        if number not in self.ended:
            try:
                self.ended[number] = {t: e for (_, t), e in self.scheduler.ends([number]).items()}
            except Away:
                self.ended[number] = {}
        return self.ended[number].get(task)

    def end_of(self, log, number, task):
        """(what, message, host, time) of a task that left no line."""
        path = self.corpus.path("logs", log + ".err")
        lines, end = read_lines(path), self.end(number, task)
        turns = [t for t in map(TURN.search, lines) if t]
        host = turns[-1].group(2) if turns else end.node if end else socket.gethostname()
        text, by = last_line(lines), ""
        if end:
            by = end.state + (", signal %d" % end.signal if end.signal else
                              ", exit status %d" % end.code if end.code and "exit status" not in end.state else "")
        message = "%s%s" % (text or "its task ended without a report, perhaps killed", " (%s)" % by if by else "")
        at = look(path)
        return what_ended(message), message, host or "", utc(at.st_mtime) if at else ""

    # questions

    def failed_in(self, run, stage):
        """The keys of slides that a run has tried and not done."""
        return {name for name, rows in self.of.items()
                if any(a.run == run and a.stage == stage and a.what != "damaged" for a in rows)}

    def suspects(self):
        """The keys of slides that the last run has tried and not done: they are done last in the next one."""
        runs = self.corpus.runs()
        return {name for name, rows in self.of.items() if runs and rows[-1].run == runs[-1]}
