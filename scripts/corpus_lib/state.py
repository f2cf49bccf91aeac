"""The folder OUT of a corpus: where its files are, and what remains to be done.

Finished files are the state: a store, a result and corpus.h5 exist under their names only when they
are complete, and count while they are not older than what they were made from.
"""
import collections
import fcntl
import glob
import hashlib
import json
import os
import shutil
import time

from corpus_lib import records as rec
from corpus_lib.files import (age, appended, die, fresh, look, open_own, read_json,
                              read_lines, stamp, stamp_of, stem, write_list, write_whole)
from corpus_lib.merged import Merged
from corpus_lib.names import SEVERAL_FILES, link_of, make_links, read_names, unique_names
from corpus_lib.records import Files, Records

LOCK_SECONDS = 0.5  # for which a run waits for the lock: status holds it for a moment

# What a slide's files are at this moment. remains: "" (done), convert or process; files: the state of
# the slide's files; store, result: stamps, "" for what does not exist; reached: "", converted or
# processed
Now = collections.namedtuple("Now", "remains files store result reached")


class Corpus:
    """OUT and the files in it. Slides are Records, in the order in which they were given."""

    def __init__(self, out):
        self.out = os.path.abspath(out)
        self.settings = read_json(self.path("settings.json"), None)  # None before the first run
        self.stores = (self.settings or {}).get("stores") or self.path("stores")
        self.rejected = read_json(self.path("rejected.json"), {})  # {path: problem}
        self.withdrawn = set(read_lines(self.path("withdrawn.txt")))  # see mark_of()
        self.table = Records(self.out, self.new_names)
        self.files = Files()
        self.merged = Merged(self.out, self.form())
        self.roi = None  # not looked up yet
        self.bad_stores = None  # the same
        self._slides = None

    @property
    def slides(self):
        """All records. What needs one at a time reads self.table instead."""
        if self._slides is None:
            self._slides = self.table.all()
        return self._slides

    def save(self):
        self.table.write(self.slides)

    def is_known(self):
        return next(iter(self.table), None) is not None

    # places

    def path(self, *parts):
        return os.path.join(self.out, *parts)

    def run_path(self, run, name):
        return self.path("runs", str(run), name)

    def store(self, slide):
        return self.stores + "/" + slide.name + ".h5"

    def result(self, slide):
        return self.out + "/results/" + slide.name + ".h5"

    def parts(self, slide):
        return self.path("parts", slide.name)

    def input(self, slide):
        """What wsi2h5 converts: the slide, or a link to it that has its name in the corpus."""
        if slide.name == stem(slide.slide):
            return slide.slide
        return link_of(self.path(".links"), slide.slide, slide.name)

    def shares_stores(self):
        """True if the stores are those of another corpus."""
        return self.stores != self.path("stores")

    # inputs

    def new_names(self, slides, known):
        """{slide: name}; slides keep their `known` names, and those of the corpus that has the stores."""
        shared = os.path.join(os.path.dirname(self.stores), "names.txt")
        return unique_names(slides, dict(read_names(shared) if self.shares_stores() else {}, **known))

    def add_inputs(self, slides, problems):
        """New slides go to the end of slides.txt; `problems` replaces the rejected inputs.

        A slide that has become a dangling link stays a slide, and is not counted among those too. A slide
        that was moved keeps its place; one that was withdrawn stays out.
        """
        known = {r.slide for r in self.slides}
        problems = {path: problem for path, problem in problems.items() if path not in known}
        new = [s for s in slides if s not in known and mark_of("path", s) not in self.withdrawn]
        left_out = len([s for s in slides if s not in known]) - len(new)
        new = self.take_moved(new)
        if new or known != {r.slide for r in self.slides}:
            write_list(self.path("slides.txt"), [r.slide for r in self.slides] + new)
        if problems != self.rejected:
            write_whole(self.path("rejected.json"), json.dumps(problems, indent=1) + "\n")
        self.save()
        return left_out

    def take_moved(self, new):
        """Slides of the corpus that are gone, while a new one has the same name, size and time, have been
        moved. Returns the new slides without these."""
        places = {}
        for s in new:
            places.setdefault((os.path.basename(s), stamp(s)), []).append(s)
        moved = set()
        for r in self.slides:
            found = places.get((os.path.basename(r.slide), ":".join(r.files.split(":")[:2])))
            if found and not os.path.lexists(r.slide):
                r.slide = found.pop(0)
                moved.add(r.slide)
        return [s for s in new if s not in moved]

    def forget(self, gone):
        """Takes slides out of slides.txt and the records."""
        self._slides = [s for s in self.slides if s.slide not in gone]
        write_list(self.path("slides.txt"), [s.slide for s in self._slides])
        self.mark_duplicates()
        self.save()
        self.prepare_inputs()

    def prepare_inputs(self):
        """Makes names.txt and the links of numbered slides."""
        write_list(self.path("names.txt"), ["%s\t%s" % (s.name, s.slide) for s in self.slides])
        make_links(self.path(".links"), {s.slide: s.name for s in self.slides
                                         if self.input(s) != s.slide and not self.clashes(s)})

    def clashes(self, slide):
        """The slide needs another name, and cannot have one."""
        return slide.slide.lower().endswith(SEVERAL_FILES) and slide.name != stem(slide.slide)

    def mark_duplicates(self):
        """Notes which slides are copies of earlier ones (equal quickhash)."""
        first = {}
        for s in self.slides:
            s.same = ""
            number = s.hash if not self.clashes(s) and s.hashed == stamp(self.store(s)) else ""
            if number and first.setdefault(number, s) is not s:
                s.same = first[number].slide

    def duplicates_count(self):
        return bool((self.settings or {}).get("allow_duplicates"))

    def form(self):
        """The form of merged results: a table, or what holds everything."""
        return "table" if (self.settings or {}).get("table") else "whole"

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

    def run_settings(self, run):
        return dict(self.settings or {}, **read_json(self.run_path(run, "run.json"), {}))

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
        if self.bad_stores is None:
            self.bad_stores = {}
            for run in reversed(self.runs()):
                path = self.run_path(run, "unreadable.txt")
                if age(path) is not None:
                    rows = [line.split("\t", 1) for line in read_lines(path)]
                    self.bad_stores = {store: why for store, why in rows if not fresh(store, path)}
                    break
        return self.bad_stores

    def now(self, s):
        """What is done of a slide. Three calls of stat for a slide of one file."""
        slide, store, result = look(s.slide), look(self.store(s)), look(self.result(s))
        files = self.files.of(s.slide, slide)
        at = (files, stamp_of(store), stamp_of(result))
        if (self.clashes(s) or not rec.store_is_current(s, files, slide, store)
                or self.store(s) in self.unreadable()):
            return Now("convert", *at, "")
        if s.same and not self.duplicates_count():
            return Now("process", *at, "converted")
        if (rec.result_is_current(s, store, result) and self.roi_is_older(s)
                and not (s.problem and s.checked == at[2])):
            return Now("", *at, "processed")
        return Now("process", *at, "converted")

    def remain(self, *stages):
        """The slides of which these stages remain, convert or process, except hopeless ones."""
        found = {stage: [] for stage in ("", "convert", "process")}
        for s in self.slides:
            if not self.clashes(s):
                stage = self.now(s).remains
                if stage != "process" or not s.same or self.duplicates_count():
                    found[stage].append(s)
        return [found[stage] for stage in stages]

    def begin(self, slides):
        """Notes the files of slides before they are converted."""
        rec.begin(slides, self.store, self.files)

    def settle(self, confirmed=()):
        """Notes what the stores were made from; see records.settle."""
        rec.settle([s for s in self.slides if not self.clashes(s)], self.store, self.files, confirmed)

    def regions(self, slide):
        """The file of the slide's regions (h5spec run --roi), or None."""
        if self.roi is None:
            words = (self.settings or {}).get("h5spec", [])
            self.roi = ([b for a, b in zip(words, words[1:]) if a == "--roi"]
                        + [w[6:] for w in words if w.startswith("--roi=")] + [""])[0]
            self.roi_is_folder = os.path.isdir(self.roi)
        if not self.roi_is_folder:
            return self.roi or None
        names = (slide.name, os.path.basename(slide.slide), stem(slide.slide))
        files = (os.path.join(self.roi, n + e) for n in names for e in (".geojson", ".json"))
        return next((f for f in files if age(f) is not None), None)

    def roi_is_older(self, slide):
        regions = self.regions(slide)
        return regions is None or fresh(self.result(slide), regions)

    def groups(self):
        """{store: number of groups} of the look-up table."""
        rows = [line.split("\t") for line in read_lines(self.path("lookup.txt"))[1:]]
        return {store: int(last) - int(first) + 1 for first, last, store in rows}

    def h5spec_has(self, option):
        return option in (self.settings or {}).get("h5spec", [])

    # care

    def lock(self):
        """Keeps other runs of this corpus out until this process ends. Returns the open lock."""
        held, end = self.open_lock(), time.time() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return held
            except BlockingIOError:
                if time.time() > end:
                    die("%s: a run is going on; see status, wait, or cancel it" % self.out)
                time.sleep(0.1)
            except OSError:
                return held  # a file system without locks

    def open_lock(self):
        return open(open_own(self.path("lock")), "w")

    def save_if_idle(self, change):
        """Calls change() and saves the records, unless a run may be changing them. `status` keeps its
        findings so, in its own corpus."""
        try:
            with self.open_lock() as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                change()
                self.save()
        except OSError:  # a run, or another user's corpus: the next call reads the files again
            pass

    def clean(self):
        """Removes what killed tasks left, on whatever host. No task of this corpus is running."""
        for pattern in ("stores/.*.part", "results/.*.part", ".*.part", "*.new",
                        "parts/*/.*.part", "parts/*.txt", "parts/*.new", "runs/*/*.new",
                        "*.json.*.list", "report.*.list", "report.*.csv"):
            for left in glob.glob(os.path.join(glob.escape(self.out), pattern)):
                remove_unlocked(left)
        for folder in (self.stores, self.path("results")):  # status has the list of all tasks
            remove_unlocked(os.path.join(folder, "failed.csv"))
        for name in os.listdir(self.path("parts")) if os.path.isdir(self.path("parts")) else []:
            done = [s for s in self.slides if s.name == name and not self.now(s).remains]
            if done and os.path.isdir(self.parts(done[0])):
                shutil.rmtree(self.parts(done[0]))


def mark_of(kind, text):
    """A line of withdrawn.txt: a slide's path or quickhash as its SHA-256, which names nobody."""
    return "%s %s" % (kind, hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest())


def remove_unlocked(path):
    """Removes a file, unless a writer still holds a lock on it."""
    try:
        with open(path) as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    except OSError:
        pass
