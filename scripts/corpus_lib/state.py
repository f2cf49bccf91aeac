"""OUT, and what stands in it."""
import fcntl
import glob
import json
import os

from corpus_lib.files import age, fresh, read_lines, stem, write_whole


class Corpus:
    """OUT, and what stands in it."""

    def __init__(self, out):
        self.out = os.path.abspath(out)
        self.stores = (self.settings() or {}).get("stores") or self.path("stores")
        self.slides = read_lines(self.path("slides.txt"))
        self.first = {}  # the slide that has a name
        for s in self.slides:
            self.first.setdefault(stem(s), s)

    def path(self, *parts):
        return os.path.join(self.out, *parts)

    def store(self, slide):
        return os.path.join(self.stores, stem(slide) + ".h5")

    def result(self, slide):
        return self.path("results", stem(slide) + ".h5")

    def parts(self, slide):
        return self.path("parts", stem(slide))

    def namesake(self, slide):
        """The slide that has this one's name already, or None."""
        other = self.first[stem(slide)]
        return None if other == slide else other

    def runs(self):
        try:
            return sorted(int(r) for r in os.listdir(self.path("runs")) if r.isdigit())
        except FileNotFoundError:
            return []

    def jobs(self, run):
        """[kind, id, number of tasks, what it is about]"""
        return [line.split("\t") for line in read_lines(self.path("runs", str(run), "jobs"))]

    def add_job(self, run, kind, number, tasks, about=""):
        with open(self.path("runs", str(run), "jobs"), "a") as f:
            f.write("%s\t%s\t%d\t%s\n" % (kind, number, tasks, about))

    def settings(self):
        try:
            with open(self.path("settings.json")) as f:
                return json.load(f)
        except FileNotFoundError:
            return None

    # what is to be done

    def unsound(self):
        """{store: message} of stores that the last look-up table had to leave out, and that still are so."""
        for run in reversed(self.runs()):
            path = self.path("runs", str(run), "unsound.txt")
            if age(path) is not None:
                rows = [line.split("\t", 1) for line in read_lines(path)]
                return {store: message for store, message in rows if not fresh(store, path)}
        return {}

    def to_convert(self):
        unsound = self.unsound()
        return [s for s in self.slides if not self.namesake(s)
                and (not fresh(self.store(s), s) or self.store(s) in unsound)]

    def to_process(self):
        """Of those that have a store."""
        return [s for s in self.slides if not self.namesake(s) and age(self.store(s)) is not None
                and not fresh(self.result(s), self.store(s))]

    def merged(self, results):
        """Does corpus.h5 hold exactly these results?"""
        corpus = self.path("corpus.h5")
        return (read_lines(self.path("corpus.txt")) == results and age(corpus) is not None
                and all(fresh(corpus, r) for r in results))

    def clean(self):
        """Removes what killed tasks left, on whatever host. Nothing of this corpus is running."""
        for folder in ["stores", "results", "."] + glob.glob(self.path("parts", "*")):
            for left in glob.glob(os.path.join(glob.escape(self.path(folder)), ".*.h5.*.part")):
                try:
                    with open(left) as f:
                        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a writer still holds it
                        os.unlink(left)
                except OSError:
                    pass


def groups_of(corpus):
    """{store: number of groups} of the look-up table."""
    table = {}
    for line in read_lines(corpus.path("lookup.txt"))[1:]:
        first, last, store = line.split("\t")
        table[store] = int(last) - int(first) + 1
    return table


def new_run(corpus, settings):
    run = (corpus.runs() or [0])[-1] + 1
    os.makedirs(corpus.path("runs", str(run)))
    write_whole(corpus.path("runs", str(run), "run.json"), json.dumps(settings, indent=1) + "\n")
    return run
