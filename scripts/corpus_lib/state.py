"""The folder OUT of a corpus: its slides, and what is done of each.

  names.txt      name in the corpus, path and options of every slide, in the order in which they were given
  corpus.json    the options of the corpus, its last run, its merged files, inputs that cannot be used
  records.jsonl  what is known of each slide, so that finished files need not be read. Only a cache
  withdrawn.txt  hashes of slides that were taken out, so that they stay out

Finished files are the state: a store, a result and corpus.h5 exist under their names only when they are
complete. A record says from which files they were made, as BYTES:NANOSECONDS of size and time: any
difference is looked into: a store with the same content_crc32 keeps its result. What has no record counts while it is not older than its source, and a
run compares content_crc32 of its store and result. A result alone is enough: stores may be thrown away.
"""
import atexit
import collections
import contextlib
import fcntl
import glob
import json
import os
import re
import shlex
import stat
import sys
import tempfile
import threading

from corpus_lib.files import (die, look, not_older, open_own, read_lines, say, stamp, stamp_of,
                              stem, values_of, write_list, write_whole)
from corpus_lib.publish import clean, host_name

SEVERAL = (".dcm", ".mrxs", ".vms", ".vmu")  # slides that consist of several files
SHAPE = {"wsi2h5": list, "h5spec": list, "run": dict, "merged": dict, "rejected": dict, "passed_over": list}

# How files begin that corpora keep in OUT and write or remove; others of these names are the user's
BEGINS = {"names.txt": r"[^\t\n]+\t/", "plan.tsv": r"# wsi-corpus plan ", "records.jsonl": r'\{"slide": "', "corpus.json": r"",
          "jobs": r"\d+\t\w+\t", "withdrawn.txt": r"\w+ [0-9a-f]{64}\n", "lock": r"\S+\n?\Z", "cancelled": r"\Z"}
MOST_BEGIN = 1 << 16  # bytes

# What a slide's files are at this moment. remains: "" (done), convert or process; files: the state of the
# slide's files; store, result: stamps, "" for what does not exist
Now = collections.namedtuple("Now", "remains files store result")


class Record:
    """
    options            of wsi2h5, for this slide alone
    files, made        the slide's files and those options when its store was made; "": not known
    store, result      stamps of what was made; version: of the programs that did it
    problem            what is wrong with the result; damage: tiles of the slide that are damaged
    merged             stamp of the result that was merged
    same               name of the slide of which this one is a copy
    read, hash         stamp of a result that was read, and its quickhash
    what, stage, of, message, host, time, log, run    the last failure, and the slide's files at it
    tried              {run: [what, host]} of failures that are perhaps the slide's
    """
    FIELDS = ("slide", "name", "options", "files", "made", "store", "result", "version", "problem", "damage", "merged",
              "same", "read", "hash", "what", "stage", "of", "message", "host", "time", "log", "run")
    __slots__ = FIELDS + ("tried",)

    def __init__(self, slide, name="", options=""):
        for field in self.FIELDS:
            setattr(self, field, "")
        self.slide, self.name, self.options, self.tried = slide, name, options, {}

    def line(self):
        return json.dumps({f: v for f in self.__slots__ for v in [getattr(self, f)] if v})

    @classmethod
    def parse(cls, line):
        """The record of a line. Raises ValueError for a damaged one."""
        row, r = json.loads(line), cls("")
        for field, value in row.items():
            if field in cls.__slots__:
                if not isinstance(value, type(getattr(r, field))):
                    raise ValueError
                setattr(r, field, value)
        return r

    def forgive(self, stage):
        """The stage succeeded."""
        if self.stage == stage:
            self.what = self.stage = self.of = self.message = self.host = self.time = self.log = self.run = ""
            self.tried = {}


class Corpus:
    """OUT and the files in it."""

    def __init__(self, out):
        self.out = os.path.abspath(out)
        self.refuse_foreign_files()
        self.settings = self.read_settings()
        self.stores = self.settings.get("stores") or self.path("stores")
        self.withdrawn = set(read_lines(self.path("withdrawn.txt")))  # see mark_of()
        self.files, self.roi, self._records = Files(), None, None

    # places

    def path(self, *parts):
        return os.path.join(self.out, *parts)

    @property
    def folders(self):
        """Where a corpus has files."""
        return {"": self.out, "stores": self.stores, "results": self.path("results"), "logs": self.path("logs")}

    def store(self, r):
        return self.stores + "/" + r.name + ".h5"

    def result(self, r):
        return self.out + "/results/" + r.name + ".h5"

    def lists_of_withdrawn(self):
        """Corpora that share a folder of stores share what was withdrawn: a slide must not come back through another."""
        shared = os.path.join(os.path.dirname(self.stores), "withdrawn.txt")
        return [self.path("withdrawn.txt")] + ([shared] if self.settings.get("stores") and self.is_shared() else [])

    def is_shared(self):
        """Does the folder of stores belong to another corpus?"""
        return os.path.exists(os.path.join(os.path.dirname(self.stores), "names.txt"))

    def kept_out(self):
        """See mark_of()."""
        return self.withdrawn.union(*map(read_lines, self.lists_of_withdrawn()))

    def log(self, batch, end):
        return "%s/logs/%d.%d.%s" % (self.out, self.number, batch, end)

    # settings and runs

    def read_settings(self):
        path = self.path("corpus.json")
        try:
            with open(path, encoding="utf-8") as f:
                found = json.load(f)
        except FileNotFoundError:
            return {}
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(isinstance(found.get(k, kind()), kind) for k, kind in SHAPE.items()):
            die("%s: damaged; delete it and give the options of the corpus again; finished files are kept" % path)
        if found and not SHAPE.keys() & found.keys():
            refuse_foreign(path)
        return found

    def refuse_foreign_files(self):
        """Ends the program if a file of the user has a name that the corpus needs. An empty one holds nothing. In a corpus
        that has begun, what does not look like records is damaged, and made again."""
        for name, begin in BEGINS.items():
            at = look(self.path(name))
            if not at or name == "records.jsonl" and self.is_known():
                continue
            try:
                text = text_begin(self.path(name), MOST_BEGIN) if stat.S_ISREG(at.st_mode) else None
            except PermissionError:
                continue  # whoever needs it says so
            if text is None or text and not re.match(begin, text):
                refuse_foreign(self.path(name))

    def add_job(self, kind, job):
        """Notes a job of a run in OUT/jobs, to which its finish job may add at the same time."""
        with open(open_own(self.path("jobs"), os.O_APPEND), "a", encoding="ascii") as f:
            f.write("%d\t%s\t%s\n" % (self.number, kind, job))

    def jobs(self, number=None):
        """{kind: id} of the jobs of a run, the last one by default."""
        rows = [line.split("\t") for line in read_lines(self.path("jobs"))]
        return {row[1]: row[2] for row in rows if row[0] == str(self.number if number is None else number)}

    @property
    def run(self):
        """The last run: number, engine, jobs and so on; see planned.py and engines.py."""
        return self.settings.setdefault("run", {})

    @property
    def number(self):
        return self.run.get("number", 0)

    def has(self, flag):
        return bool(self.settings.get(flag))

    def is_known(self):
        return os.path.exists(self.path("names.txt"))

    def save(self):
        rows = [(r.name, r.slide, r.options) if r.options else (r.name, r.slide) for r in self.records]
        lines = ["\t".join(row) for row in rows]
        if lines != read_lines(self.path("names.txt")) or not self.is_known():
            write_list(self.path("names.txt"), lines)
        write_list(self.path("records.jsonl"), (r.line() for r in self.records))
        self.save_settings()

    def save_settings(self):
        write_whole(self.path("corpus.json"), json.dumps(self.settings, indent=1) + "\n")

    # slides

    @property
    def records(self):
        if self._records is None:
            known = self.read_records()
            self._records = []
            for name, slide, *options in (line.split("\t") for line in read_lines(self.path("names.txt")) if "\t" in line):
                r = known.get(slide) or Record(slide)
                r.name, r.options = name, "".join(options)
                self._records.append(r)
        return self._records

    def read_records(self):
        path = self.path("records.jsonl")
        try:
            return {r.slide: r for r in map(Record.parse, read_lines(path))}
        except (ValueError, AttributeError):
            say("%s: damaged; it is only a cache, and is made again from the finished files" % path)
            return {}

    def add(self, slides, problems):
        """New slides go to the end; `problems` replaces the inputs that cannot be used. A slide that has become
        a dangling link stays a slide. One that was moved keeps its place, one that was withdrawn stays out.
        Returns how many stayed out."""
        known = {r.slide: r for r in self.records}
        for r in self.records:
            if slides.get(r.slide) is not None:
                r.options = slides[r.slide]
        new, out = [s for s in slides if s not in known], self.kept_out()
        kept = [s for s in new if mark_of("path", s) not in out]
        left_out = len(new) - len(kept)
        kept = self.take_moved(kept)
        shared = self.path("names.txt") if not self.settings.get("stores") else os.path.join(
            os.path.dirname(self.stores), "names.txt")
        theirs = {row[1]: row[0] for row in (line.split("\t") for line in read_lines(shared)) if len(row) > 1}
        names = unique_names(kept, theirs, {r.name for r in self.records})
        self._records = self.records + [Record(s, names[s], slides[s] or "") for s in kept]
        self.settings["rejected"] = {p: why for p, why in problems.items() if p not in known}
        return left_out

    def take_moved(self, new):
        """Slides that are gone, while a new one has the same name, size and time, have been moved. Returns the
        new slides without these."""
        places, moved = {}, set()
        for s in new:
            places.setdefault((os.path.basename(s), stamp(s)), []).append(s)
        for r in self.records:
            found = places.get((os.path.basename(r.slide), ":".join(r.files.split(":")[:2])))
            if found and not os.path.lexists(r.slide):
                r.slide = found.pop(0)
                moved.add(r.slide)
        return [s for s in new if s not in moved]

    def now(self, r):
        """What is done of a slide. Three calls of stat for a slide of one file."""
        slide, store, result = look(r.slide), look(self.store(r)), look(self.result(r))
        files, known = self.files.of(r.slide, slide), r.files != ""
        at = (files, stamp_of(store), stamp_of(result))
        same = not known or (files in (r.files, "") and r.made == r.options)
        has_store = store is not None and same and (
            at[1] == r.store if known and r.store else not_older(store, slide))
        done = result is not None and same and not r.problem and (
            at[2] == r.result if known and r.result else not_older(result, store or slide))
        if done and store is not None and known and r.store:
            done = at[1] == r.store
        done = done and not_older(result, self.regions(r))
        return Now("" if done else "process" if has_store else "convert", *at)

    def regions(self, r):
        """os.stat() of the file of the slide's regions (h5spec run --roi); None if there is none."""
        if self.roi is None:
            self.roi = "".join(values_of(self.settings.get("h5spec", []), ("--roi",))[0][-1:])
        files = [self.roi] if self.roi else []
        if self.roi and os.path.isdir(self.roi):
            names = (r.name, os.path.basename(r.slide), stem(r.slide))
            files = [os.path.join(self.roi, n + e) for n in names for e in (".geojson", ".json")]
        return next(filter(None, map(look, files)), None)

    # care

    def lock(self):
        """Keeps other runs of this corpus out until this process ends, or closes the lock, which is returned."""
        self.held = Lock(self.path("lock"))
        where = self.held.take()
        if where is not None:
            die("%s: a run is in progress%s; see status, wait, or cancel it" % (self.out, where))
        return self.held

    def clean(self):
        """Removes what killed tasks left, on whatever host. No task of this corpus is running."""
        for folder in self.folders.values():
            clean(folder)
        for folder in (self.stores, self.path("results")):  # status has the list of all batches
            for left in glob.glob(os.path.join(glob.escape(folder), "failed.claimed-%s.csv" % ("[0-9a-f]" * 16))) + [os.path.join(folder, "failed.csv")]:
                remove_unlocked(left, "slide,reason")


class Lock:
    """A file that one process holds. Locks of the system may not reach other hosts: so the file names the
    holder's host, and the holder touches it. Another host leaves it alone until it was not touched for long."""
    BEAT, LONG = 60, 600  # seconds

    def __init__(self, path):
        self.path, self.ended = path, threading.Event()
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)

    def take(self):
        """None, or words about where it is held: "", here."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ""
        except OSError:
            pass  # a file system without locks
        host, at = os.pread(self.fd, 256, 0).decode(errors="replace").strip(), os.fstat(self.fd).st_mtime
        if host not in ("", host_name()) and abs(now_in(os.path.dirname(self.path)) - at) < self.LONG:
            return " on %s, or ended there less than %d minutes ago" % (host, self.LONG // 60)
        self.write(host_name() + "\n")
        threading.Thread(target=self.beat, daemon=True).start()
        atexit.register(self.close)
        return None

    def write(self, text):
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, text.encode(), 0)

    def beat(self):
        while not self.ended.wait(self.BEAT):
            with contextlib.suppress(OSError):  # it may be away for a while
                os.utime(self.path)

    def close(self):
        if not self.ended.is_set():
            self.ended.set()
            self.write("")
            os.close(self.fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Files:
    """The state of the files of slides."""

    def __init__(self):
        self.folders = {}

    def of(self, slide, at):
        """The stamp of a slide, of which os.stat() gave `at`; of one with several files also the hash
        of them all. "": it does not exist."""
        end, folder, name = slide[-5:].lower(), os.path.dirname(slide), stem(slide)
        if at is None or not end.endswith(SEVERAL):
            return stamp_of(at)
        if end == ".mrxs":
            folder, name = os.path.join(folder, name), ""
        elif end.endswith(".dcm"):  # all series of the folder: if another one changes, wsi2h5 skips this one
            name = ""
        rest = ".dcm" if end.endswith(".dcm") else ""
        if (folder, name, rest) not in self.folders:
            self.folders[folder, name, rest] = hash_of(folder, name, rest)
        return stamp_of(at) + ":" + self.folders[folder, name, rest]


def hash_of(folder, begin, end):
    """A hash of names, sizes and times of the files of a folder whose names begin and end so."""
    import hashlib  # here, because steps do without it
    try:
        rows = [(os.fsencode(e.name), e.stat().st_size, e.stat().st_mtime_ns) for e in os.scandir(folder)
                if e.name.startswith(begin) and e.name.lower().endswith(end) and e.is_file()]
    except OSError:
        rows = []
    return hashlib.sha256(repr(sorted(rows)).encode()).hexdigest()


def text_begin(path, n):
    with open(path, "rb") as f:
        return f.read(n).decode("utf-8", "surrogateescape")


def refuse_foreign(path):
    die("%s: already exists and is no file of a corpus; not overwritten: rename it" % path)


def known_corpus(out):
    """A corpus that exists. Its programs are those of its last run, unless the environment names others."""
    corpus = Corpus(out)
    for name, path in corpus.run.get("programs", {}).items():
        os.environ.setdefault(name, path)
    if not corpus.is_known() and not corpus.withdrawn:
        die("%s: not a corpus (it has no names.txt); begin one with: %s run -o %s SLIDES" % (out, shlex.quote(sys.argv[0]), shlex.quote(out)))
    return corpus


def unique_names(slides, known, taken):
    """{slide: name}. A name that is taken gets a number: slide, slide-2, slide-3. (The name of a folder would
    distinguish slides, too, but may identify a person.) `known` names are kept."""
    names, last, taken = {}, {}, set(taken) | set(known.values())
    for s in slides:
        base = name = stem(s)
        while name in taken:
            last[base] = last.get(base, 1) + 1
            name = "%s-%d" % (base, last[base])
        name = known.get(s, name)
        taken.add(name)
        names[s] = name
    return names


def mark_of(kind, text):
    """A line of withdrawn.txt: a slide's path or quickhash as its SHA-256, which names nobody."""
    import hashlib
    return "%s %s" % (kind, hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest())


def now_in(folder):
    """The time by the clock that files of this folder get theirs from."""
    with tempfile.TemporaryFile(dir=folder) as f:
        f.write(b"now")
        f.flush()
        return os.fstat(f.fileno()).st_mtime


def remove_unlocked(path, begin):
    """Removes a file that begins so, unless a writer still holds a lock on it."""
    try:
        with open(path, "rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if f.read(len(begin)) == begin.encode():
                os.unlink(path)
    except OSError:
        pass
