"""A run on this machine: plain processes."""
import os
import signal
import socket
import subprocess
import sys
import time

from corpus_lib.files import STOPPED, program, say, stem, write_whole
from corpus_lib.logs import key, suspects, words
from corpus_lib.schedulers import started
from corpus_lib.state import groups_of, new_run
from corpus_lib.status import print_status, status_of, verdict
from corpus_lib.steps import step_lookup, step_merge


class Pool:
    """Plain processes, so many at a time; a signal stops them, and then us."""

    def __init__(self, width):
        self.width, self.living, self.stopped = width, {}, 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
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
                with open(log + ".err", "a") as f:
                    f.write("corpus: ended by signal %d (%s)\n" % (-p.returncode,
                                                                  signal.Signals(-p.returncode).name))

    def run(self, commands):
        """[(argv, log)]: all of them, unless stopped."""
        for argv, log in commands:
            while len(self.living) >= self.width and not self.stopped:
                time.sleep(0.01)
                self.reap()
            if self.stopped:
                break
            with open(log + ".json", "a") as out, open(log + ".err", "a") as err:
                p = subprocess.Popen(argv, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
            self.living[p] = log
            if self.stopped:
                p.send_signal(signal.SIGTERM)
        while self.living:
            time.sleep(0.01)
            self.reap()
        if self.stopped:
            say("stopped by %s; run again to go on" % signal.Signals(self.stopped).name)
            sys.exit(STOPPED)


def local_shares(corpus, run, pool, kind, lines, argv, threads):
    """One process a share of the list."""
    tasks = min(pool.width, len(lines))
    corpus.add_job(run, kind, "-", tasks)
    write_whole(corpus.path("runs", str(run), kind + ".txt"), "".join(s + "\n" for s in lines))
    names = corpus.path("runs", str(run), kind + ".txt")
    pool.run([(argv + ["--list", names, "--task", "%d/%d" % (t, tasks), "-j", str(threads), "--json",
                       "--progress", "no"], corpus.path("logs", "%d.%s.%d" % (run, kind, t)))
              for t in range(1, tasks + 1)])


def begin_local(corpus, settings):
    run = new_run(corpus, settings)
    pid = os.getpid()
    corpus.add_job(run, "local", "%s %d %s" % (socket.gethostname(), pid, started(pid)), 1)
    return run


def local_phase(corpus, settings, run, pool, kind, field, todo, argv, threads):
    """A phase; again for those that were kept from being done by another's crash, as long as that helps."""
    lines, late = todo(), suspects(corpus, kind, field)
    while lines:
        local_shares(corpus, run, pool, kind, sorted(lines, key=lambda s: s in late), argv, threads)
        said, before = words(corpus, kind, field, run), len(lines)
        late = suspects(corpus, kind, field)
        missing = set(todo())
        lines = [s for s in lines if s in missing and key(s) not in said]
        if not lines or len(lines) == before:
            break
        say("%d of them were kept from being done: again" % len(lines))
        run = begin_local(corpus, settings)
    return run


def run_local(corpus, settings, run, convert):
    pool = Pool(settings["tasks"] or 1)
    threads = max(1, len(os.sched_getaffinity(0)) // pool.width)
    begun = time.time()

    def took(what, since):
        say("%s in %.1f s" % (what, time.time() - since))
    if convert:
        say("converting %d slides, %d at a time" % (len(convert), pool.width))
        run = local_phase(corpus, settings, run, pool, "convert", "slide", corpus.to_convert,
                          [program("wsi2h5"), "-o", corpus.stores] + settings["wsi2h5"], threads)
        took("converted", begun)
    todo, since = step_lookup(corpus, run), time.time()
    if todo:
        say("processing %d slides" % len(todo))
    if todo and settings["group_tasks"]:
        local_groups(corpus, run, pool, settings, todo, threads)
    elif todo:
        sound = set(groups_of(corpus))
        run = local_phase(corpus, settings, run, pool, "process", "store",
                          lambda: [s for s in map(corpus.store, corpus.to_process()) if s in sound],
                          [program("h5spec"), "run", "-o", corpus.path("results")] + settings["h5spec"] + settings["device"], threads)
    if todo:
        took("processed", since)
    step_merge(corpus, run)
    took("all done", begun)
    st = status_of(corpus, None, 0)
    print_status(st)
    return verdict(st)


def local_groups(corpus, run, pool, settings, todo, threads):
    commands = []
    for store in todo:
        name, n = stem(store), groups_of(corpus)[store]
        os.makedirs(corpus.path("parts", name), exist_ok=True)
        corpus.add_job(run, "groups", "-", n, "%d %s" % (n, name))
        commands += [([program("h5spec"), "run", "-o", corpus.path("parts", name)] + settings["h5spec"] + settings["device"] +
                      ["--groups", str(g), "-j", str(threads), "--json", "--progress", "no", store],
                     corpus.path("logs", "%d.groups.%s.%d" % (run, name, g))) for g in range(1, n + 1)]
    pool.run(commands)
