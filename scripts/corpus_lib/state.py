"""The folder OUT of a corpus: where its files are, and what remains to be done.

Finished files are the state: a store, a result and corpus.h5 exist under their names only when they
are complete, and count while they are not older than what they were made from.
"""
import fcntl
import glob
import json
import os
import shutil

from corpus_lib.checks import Checks
from corpus_lib.files import (age, appended, die, fresh, open_own, read_json, read_lines, stem,
                              write_list, write_whole)
from corpus_lib.merged import Merged, Resolutions
from corpus_lib.names import SEVERAL_FILES, link_of, make_links, read_names, unique_names
from corpus_lib.sources import Sources


class Corpus:
    """OUT and the files in it. `slides`: the slides in the order in which they were given."""

    def __init__(self, out):
        self.out = os.path.abspath(out)
        self.stores = (self.settings() or {}).get("stores") or self.path("stores")
        self.slides = read_lines(self.path("slides.txt"))
        self.rejected = read_json(self.path("rejected.json"), {})  # {path: problem}
        self.roi = None  # not looked up yet
        self.checks = Checks(self.path("checked.json"))
        self.sources = Sources(self.path("sources.json"))
        self.merged = Merged(self.out)
        self.resolutions = Resolutions(self.path("resolutions.json"))
        shared = os.path.join(os.path.dirname(self.stores), "names.txt")
        self.names = unique_names(self.slides, read_names(shared) if self.shares_stores() else {})

    # places

    def path(self, *parts):
        return os.path.join(self.out, *parts)

    def run_path(self, run, name):
        return self.path("runs", str(run), name)

    def store(self, slide):
        return os.path.join(self.stores, self.names[slide] + ".h5")

    def result(self, slide):
        return self.path("results", self.names[slide] + ".h5")

    def parts(self, slide):
        return self.path("parts", self.names[slide])

    def input(self, slide):
        """What wsi2h5 converts: the slide, or a link to it that has its name in the corpus."""
        if self.names[slide] == stem(slide):
            return slide
        return link_of(self.path(".links"), slide, self.names[slide])

    def shares_stores(self):
        """True if the stores are those of another corpus."""
        return self.stores != self.path("stores")

    # settings and inputs

    def settings(self):
        """The options that all runs of this corpus share; None before the first run."""
        return read_json(self.path("settings.json"), None)

    def add_inputs(self, slides, problems):
        """New slides go to the end of slides.txt; `problems` replaces the rejected inputs.

        A slide that has become a dangling link stays a slide, and is not counted among those too.
        """
        known = set(self.slides)
        problems = {path: problem for path, problem in problems.items() if path not in known}
        new = [s for s in slides if s not in known]
        if new:
            write_list(self.path("slides.txt"), self.slides + new)
        if problems != self.rejected:
            write_whole(self.path("rejected.json"), json.dumps(problems, indent=1) + "\n")

    def prepare_inputs(self):
        """Makes names.txt and the links of numbered slides."""
        write_list(self.path("names.txt"), ["%s\t%s" % (self.names[s], s) for s in self.slides])
        make_links(self.path(".links"), {s: self.names[s] for s in self.slides
                                         if self.input(s) != s and not self.clashes(s)})

    def clashes(self, slide):
        """The slide needs another name, and cannot have one."""
        return self.input(slide) != slide and slide.lower().endswith(SEVERAL_FILES)

    def duplicates(self):
        """{slide: earlier slide} of stores that hold the same slide (equal quickhash)."""
        if (self.settings() or {}).get("allow_duplicates"):
            return {}
        first, found = {}, {}
        for s in self.slides:
            number = "" if self.clashes(s) else self.checks.quickhash(self.store(s))
            if number and first.setdefault(number, s) != s:
                found[s] = first[number]
        return found

    # runs

    def runs(self):
        """The numbers of all runs, ascending."""
        try:
            return sorted(int(r) for r in os.listdir(self.path("runs")) if r.isdigit())
        except FileNotFoundError:
            return []

    def new_run(self, settings):
        run = (self.runs() or [0])[-1] + 1
        os.makedirs(self.path("runs", str(run)))
        write_whole(self.run_path(run, "run.json"), json.dumps(settings, indent=1) + "\n")
        return run

    def jobs(self, run):
        """[kind, id, number of tasks, subject] of each job of a run."""
        return [line.split("\t") for line in read_lines(self.run_path(run, "jobs"))]

    def add_job(self, run, kind, number, tasks, about=""):
        with appended(self.run_path(run, "jobs")) as f:
            f.write("%s\t%s\t%d\t%s\n" % (kind, number, tasks, about))

    def problems(self, run):
        """What stopped a run as a whole, such as a refusal by the scheduler."""
        return read_json(self.run_path(run, "problems.json"), [])

    def add_problem(self, run, text):
        known = self.problems(run)
        write_whole(self.run_path(run, "problems.json"), json.dumps(known + [text]) + "\n")

    def stop(self, run):
        """Notes that the user ended a run: what it has not done is to do, and has not failed."""
        write_whole(self.run_path(run, "cancelled"), "")

    def stopped(self, run):
        return age(self.run_path(run, "cancelled")) is not None

    # what remains to be done

    def unreadable(self):
        """{store: message} of stores that the last look-up left out, if unchanged since."""
        for run in reversed(self.runs()):
            path = self.run_path(run, "unreadable.txt")
            if age(path) is not None:
                rows = [line.split("\t", 1) for line in read_lines(path)]
                return {store: message for store, message in rows if not fresh(store, path)}
        return {}

    def to_convert(self):
        unreadable = self.unreadable()
        return [s for s in self.slides if not self.clashes(s)
                and (not self.has_store(s) or self.store(s) in unreadable)]

    def has_store(self, slide):
        """The slide's store was made from its files as they are now."""
        return self.sources.store_is_current(slide, self.store(slide))

    def settle(self, confirmed=()):
        """Notes what the stores were made from; see Sources.settle."""
        self.sources.settle({s: self.store(s) for s in self.slides if not self.clashes(s)}, confirmed)

    def regions(self, slide):
        """The file of the slide's regions (h5spec run --roi), or None."""
        if self.roi is None:
            words = (self.settings() or {}).get("h5spec", [])
            self.roi = ([b for a, b in zip(words, words[1:]) if a == "--roi"]
                        + [w[6:] for w in words if w.startswith("--roi=")] + [""])[0]
        if not os.path.isdir(self.roi):
            return self.roi or None
        names = (self.names[slide], os.path.basename(slide), stem(slide))
        files = (os.path.join(self.roi, n + e) for n in names for e in (".geojson", ".json"))
        return next((f for f in files if age(f) is not None), None)

    def has_result(self, slide):
        """The slide's result is that of its store and its regions, and not known to be damaged."""
        result, regions = self.result(slide), self.regions(slide)
        return (self.sources.result_is_current(slide, self.store(slide), result) and (regions is None or fresh(result, regions))
                and not self.checks.problem(result))

    def to_process(self):
        """Slides that have a store and no result."""
        same = self.duplicates()
        return [s for s in self.slides if not self.clashes(s) and s not in same
                and age(self.store(s)) is not None and not self.has_result(s)]

    def groups(self):
        """{store: number of groups} of the look-up table."""
        rows = [line.split("\t") for line in read_lines(self.path("lookup.txt"))[1:]]
        return {store: int(last) - int(first) + 1 for first, last, store in rows}

    def h5spec_has(self, option):
        return option in (self.settings() or {}).get("h5spec", [])

    # care

    def lock(self):
        """Keeps other runs of this corpus out until this process ends. Returns the open lock."""
        held = open(open_own(self.path("lock")), "w")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            die("%s: a run is going on; see status, wait, or cancel it" % self.out)
        except OSError:
            pass  # a file system without locks
        return held

    def clean(self):
        """Removes what killed tasks left, on whatever host. No task of this corpus is running."""
        for pattern in ("stores/.*.h5.*.part", "results/.*.h5.*.part", ".*.part", "*.new",
                        "parts/*/.*.h5.*.part", "parts/*.txt", "parts/*.new", "runs/*/*.new",
                        "*.json.*.list", "report.*.list", "report.*.csv"):
            for left in glob.glob(os.path.join(glob.escape(self.out), pattern)):
                remove_unlocked(left)
        for folder in (self.stores, self.path("results")):  # status has the list of all tasks
            remove_unlocked(os.path.join(folder, "failed.csv"))
        for s in self.slides:
            if os.path.isdir(self.parts(s)) and self.has_result(s):
                shutil.rmtree(self.parts(s))


def remove_unlocked(path):
    """Removes a file, unless a writer still holds a lock on it."""
    try:
        with open(path) as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    except OSError:
        pass
