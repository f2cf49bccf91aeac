"""One batch of the plan: what an engine runs.

The programs append their JSON lines to OUT/logs/RUN.BATCH.jsonl and their messages to OUT/logs/RUN.BATCH.err.
Lines of ours in the same file say where and when a batch began and ended. A program that dies is called again
for each of the slides without a line, so the one that ends it is known, and the others are done.
"""
import json
import os
import shlex
import signal
import socket
import subprocess
import time

from corpus_lib.files import (DAMAGED, DONE, PART, STOPPED, TROUBLE, USAGE, die, json_rows, open_own, program,
                              read_lines, remove_file, stem)
from corpus_lib.planned import read_plan
from corpus_lib.state import known_corpus

CRASHES = (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
OK = ("done", "damaged", "skipped")
WORST = (STOPPED, USAGE, TROUBLE, PART, DAMAGED, DONE)
TASKS = ("SLURM_ARRAY_TASK_ID", "SGE_TASK_ID", "PBS_ARRAY_INDEX", "PBS_ARRAYID", "LSB_JOBINDEX")
CORES = ("SLURM_CPUS_PER_TASK", "NSLOTS", "NCPUS", "LSB_DJOB_NUMPROC")


class Ended(Exception):
    """The batch ends here: its status, and the reason."""


class Children:
    """The programs at work; a signal stops them, and nothing begins any more."""

    def __init__(self):
        self.running, self.stopped = set(), False

    def listen(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self.stop())

    def stop(self):
        self.stopped = True
        for p in list(self.running):
            p.terminate()

    def call(self, argv, given, out, err):
        if self.stopped:
            raise Ended(STOPPED, "stopped by a signal")
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=err)
        self.running.add(p)
        if self.stopped:
            p.terminate()
        try:
            p.communicate(given)
        finally:
            self.running.discard(p)
        return p.returncode


children = Children()


def utc(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def host():
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def from_environment(names):
    """The first of some variables that is a number; 0: none is."""
    return next((int(os.environ[n]) for n in names if os.environ.get(n, "").isdigit()), 0)


def rows_in(path, offset=0):
    """The JSON lines of a log. A kill may have cut one off, and the next task goes on in the same line."""
    try:
        with open(path, "rb") as f:
            f.seek(offset)
            data = f.read()
    except FileNotFoundError:
        return []
    for start in (b'{"input": "', b'{"batch": '):
        data = data.replace(start, b"\n" + start)
    return [row for row in json_rows(data.split(b"\n")) if isinstance(row.get("status"), str)]


class Batch:
    def __init__(self, corpus, number, cores=0):
        """`cores`: for this batch; 0: those that the scheduler gives, or all."""
        self.corpus, self.number, self.rows = corpus, number, read_plan(corpus, number)
        self.log, self.status = corpus.log(number, "jsonl"), DONE
        self.out = open_own(self.log, os.O_APPEND)
        self.err = open_own(corpus.log(number, "err"), os.O_APPEND)
        cores = cores or from_environment(CORES)
        self.threads = ["-j", str(cores)] if cores else []

    def note(self, **row):
        os.write(self.out, (json.dumps(dict(row, host=host(), time=utc(time.time()))) + "\n").encode())

    def run(self, stage):
        """Does one stage, or both. Returns the exit status."""
        self.note(batch=self.number, stage=stage, status="begun")
        message, took = "", {}
        try:
            for part, work in (("convert", self.convert), ("process", self.process)):
                if stage in (part, "both"):
                    begun = time.time()
                    work()
                    took[part + "_seconds"] = round(time.time() - begun, 3)
        except Ended as e:
            self.status, message = e.args
        self.note(batch=self.number, stage=stage, status="ended", exit=self.status, message=message, **took)
        for fd in (self.out, self.err):
            os.close(fd)
        return self.status

    def convert(self):
        rows = [r for r in self.rows if r.step == "convert"]
        base = [program("wsi2h5"), *self.corpus.settings.get("wsi2h5", []), *self.threads, "--json", "--progress", "no"]
        for named, options, redo in sorted({(r.name != stem(r.slide), r.options, r.redo) for r in rows}):
            argv = base + shlex.split(options) + (["--force"] if redo == "store" else [])
            same = [r for r in rows if (r.name != stem(r.slide), r.options, r.redo) == (named, options, redo)]
            if not named:
                self.call(argv + ["-o", self.corpus.stores, "--list", "-"], same, "slide")
            for r in same if named else ():  # its store has another name than the slide
                self.call(argv + ["-o", r.store, "--list", "-"], [r], "slide")

    def process(self):
        done = {}
        for row in rows_in(self.log):
            if row.get("kind") == "slide":
                done[row["input"]] = row["status"] in OK
        rows = [r for r in self.rows if r.step == "process" or done.get(r.slide)]
        argv = [program("h5spec"), "run", *self.corpus.settings.get("h5spec", []), *self.corpus.run.get("process", []),
                *self.threads, "--json", "--progress", "no", "--duplicates", "count", "-o", self.corpus.path("results")]
        for again in (False, True):
            self.call(argv + (["--force"] if again else []) + ["--list", "-"], [r for r in rows if bool(r.redo) == again],
                      "store")
        if self.corpus.has("discard_stores"):
            finished = {row["input"] for row in rows_in(self.log) if row.get("kind") == "store" and row["status"] in OK}
            for r in rows:
                if r.store in finished:
                    remove_file(r.store)

    def call(self, argv, rows, field):
        """Calls a program for rows whose `field` are its inputs."""
        if not rows:
            return
        at = os.path.getsize(self.log)
        given = "".join(getattr(r, field) + "\n" for r in rows)
        try:
            code = children.call(argv, os.fsencode(given), self.out, self.err)
        except OSError as e:
            raise Ended(127, "%s: %s" % (argv[0], e.strerror)) from None
        if code == -signal.SIGTERM:
            time.sleep(1)  # what ends the whole task tells us, too, if a moment later
        if code in WORST:
            self.status = min(self.status, code, key=WORST.index)
        if code == STOPPED or children.stopped:
            raise Ended(STOPPED, "stopped by a signal")
        if code == USAGE or code > TROUBLE:
            raise Ended(code, "%s (exit status %d)" % (self.last_message() or os.path.basename(argv[0]), code))
        if code < 0:
            said = {row["input"] for row in rows_in(self.log, at) if row.get("kind") == field}
            self.after_death(argv, [r for r in rows if getattr(r, field) not in said], field, -code, len(rows))

    def after_death(self, argv, left, field, number, tried):
        """A signal has ended a program that had still to do what is `left`."""
        self.status = min(self.status, TROUBLE, key=WORST.index)
        if tried > 1:
            for r in left:
                self.call(argv, [r], field)
        for r in left if tried == 1 else ():
            crash = number in CRASHES
            self.note(input=getattr(r, field), kind=field, status="failed", cause="crash" if crash else "killed",
                      message="%s: %s was ended by signal %d (%s)%s" % (
                          getattr(r, field), os.path.basename(argv[0]), number, signal.Signals(number).name,
                          ", perhaps for lack of memory" if number == signal.SIGKILL else ""))

    def last_message(self):
        lines = [line for line in read_lines(self.corpus.log(self.number, "err")) if not line.startswith("Try '")]
        return lines[-1] if lines else ""


def command_step(o):
    """One batch; o.batch: its number, or auto for that of this task of an array."""
    corpus = known_corpus(o.out)
    number = int(o.batch) if o.batch.isdigit() else from_environment(TASKS)
    if o.batch == "auto" and not number:
        die("--batch auto: not in a task of an array (%s)" % ", ".join(TASKS), USAGE)
    children.listen()
    found = Batch(corpus, number)
    if not found.rows:
        die("%s: the plan has no batch %d" % (corpus.out, number), USAGE)
    return found.run(o.stage)
