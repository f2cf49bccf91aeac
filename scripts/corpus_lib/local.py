"""A run on this machine: plain processes, and progress on stderr."""
import glob
import os
import signal
import socket
import subprocess
import sys
import time

from corpus_lib.cluster import set_stage
from corpus_lib.files import STOPPED, appended, counted, key, program, say, stem, write_list
from corpus_lib.attempts import Attempts
from corpus_lib.progress import LineCounter, Progress, duration
from corpus_lib.report import write_report
from corpus_lib.schedulers import started
from corpus_lib.status import print_status, status_of, verdict
from corpus_lib.steps import step_lookup, step_merge

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
           signal.SIGXCPU)


class Pool:
    """Runs processes, `width` at a time. A signal stops them, and then this program."""

    def __init__(self, corpus, width, progress):
        self.corpus, self.width, self.progress = corpus, width, progress
        self.living, self.stopped = {}, 0
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                signal.signal(number, self.stop)

    def stop(self, number, frame):
        self.stopped = self.stopped or number
        for p in list(self.living):
            p.send_signal(signal.SIGTERM)

    def reap(self):
        for p in [p for p in self.living if p.poll() is not None]:
            log = self.living.pop(p)
            if p.returncode < 0:
                with appended(log + ".err") as f:
                    f.write("corpus: the program was ended by signal %d (%s)\n" % (
                        -p.returncode, signal.Signals(-p.returncode).name))

    def wait(self, most):
        """Until at most so many processes run."""
        while len(self.living) > most:
            time.sleep(0.02)
            self.reap()
            self.progress.tick()

    def run(self, commands):
        """Runs all [(argv, log)], unless a signal comes."""
        for argv, log in commands:
            self.wait(self.width - 1)
            if self.stopped:
                break
            with appended(log + ".json") as out, appended(log + ".err") as err:
                p = subprocess.Popen(argv, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
            self.living[p] = log
            if self.stopped:
                p.send_signal(signal.SIGTERM)
        self.wait(0)
        self.progress.end()
        if self.stopped:
            self.corpus.stop(self.corpus.runs()[-1])
            say("stopped by %s; run again to continue" % signal.Signals(self.stopped).name)
            sys.exit(STOPPED)


def begin_local(corpus, settings):
    """A new run of this process."""
    run, pid = corpus.new_run(settings), os.getpid()
    corpus.add_job(run, "local", "%s %d %s" % (socket.gethostname(), pid, started(pid)), 1)
    return run


def run_local(corpus, settings, convert, when):
    """Converts, processes and merges. Returns the exit status. `when`: see Progress."""
    return Local(corpus, settings, when).all(convert)


class Local:
    def __init__(self, corpus, settings, when):
        self.corpus, self.settings, self.progress = corpus, settings, Progress(when)
        self.pool = Pool(corpus, settings["tasks"] or 1, self.progress)
        self.threads = max(1, len(os.sched_getaffinity(0)) // self.pool.width)
        self.run = begin_local(corpus, settings)
        set_stage(settings)
        self.stage = [os.environ["WSI_STAGE"]] if settings.get("stage") else []

    def all(self, convert):
        corpus, begun = self.corpus, time.time()
        if convert:
            argv = [program("wsi2h5"), "-o", corpus.stores] + self.settings["wsi2h5"]
            self.phase("convert", convert, lambda: map(corpus.input, corpus.remain("convert")[0]), argv)
        todo = step_lookup(corpus, self.run, Attempts(corpus))
        if todo and self.settings["group_tasks"]:
            self.groups(todo)
        elif todo:
            readable = set(corpus.groups())
            argv = [program("h5spec"), "run", "-o", corpus.path("results")]
            self.phase("process", todo,
                       lambda: [s for s in map(corpus.store, corpus.remain("process")[0]) if s in readable],
                       argv + self.settings["h5spec"] + self.settings["process"])
        attempts = Attempts(corpus)
        step_merge(corpus, self.run, attempts)
        say("finished in %s" % duration(time.time() - begun))
        st = status_of(corpus, None, 0, time.time(), attempts)
        if write_report(corpus, st):
            say("report: " + corpus.path("report.html"))
        print_status(st)
        return verdict(st)

    def phase(self, kind, lines, remaining, argv):
        """Shares out the lines; again those that another's crash kept from being done."""
        doing, begun = {"convert": "converting", "process": "processing"}[kind], time.time()
        say("%s %s, %d at a time" % (doing, counted(len(lines), "slide"), self.pool.width))
        while lines:
            self.share(kind, doing, lines, argv)
            attempts, before, missing = Attempts(self.corpus), len(lines), set(remaining())
            late, seen = attempts.failed_in(self.run, kind), attempts.seen[self.run, kind]
            lines = sorted((s for s in lines if s in missing and stem(key(s)) not in seen),
                           key=lambda s: stem(key(s)) in late)
            if not lines or len(lines) == before:
                break
            say("%s had no turn because their task crashed; trying again" %
                counted(len(lines), "slide"))
            self.run = begin_local(self.corpus, self.settings)
        say("%s took %s" % (doing, duration(time.time() - begun)))

    def share(self, kind, doing, lines, argv):
        """One process per share of the list."""
        corpus, tasks = self.corpus, min(self.pool.width, len(lines))
        names = corpus.run_path(self.run, kind + ".txt")
        corpus.add_job(self.run, kind, "-", tasks)
        write_list(names, lines)
        self.follow(kind, doing, len(lines), "slides")
        argv = self.stage + argv + ["--list", names, "-j", str(self.threads), "--json", "--progress", "no",
                       "--task"]
        self.pool.run([(argv + ["%d/%d" % (t, tasks)],
                        corpus.path("logs", "%d.%s.%d" % (self.run, kind, t)))
                       for t in range(1, tasks + 1)])

    def groups(self, todo):
        """One process per group of each store."""
        corpus, commands = self.corpus, []
        for store in todo:
            name, n = stem(store), corpus.groups()[store]
            os.makedirs(corpus.path("parts", name), exist_ok=True)
            corpus.add_job(self.run, "groups", "-", n, "%d %s" % (n, name))
            argv = [program("h5spec"), "run", "-o", corpus.path("parts", name)]
            argv += self.settings["h5spec"] + self.settings["process"]
            argv += ["-j", str(self.threads), "--json", "--progress", "no"]
            commands += [(argv + ["--groups", str(g), store],
                          corpus.path("logs", "%d.groups.%s.%d" % (self.run, name, g)))
                         for g in range(1, n + 1)]
        say("processing %s, %d at a time" % (counted(len(commands), "group"), self.pool.width))
        self.follow("groups", "processing", len(commands), "groups")
        self.pool.run(commands)

    def follow(self, kind, doing, total, thing):
        """Shows how many lines of JSON the logs of a phase have."""
        pattern = glob.escape(self.corpus.path("logs")) + "/%d.%s.*.json" % (self.run, kind)
        self.progress.begin(doing, total, LineCounter(pattern).count, thing)
