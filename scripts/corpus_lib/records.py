"""What is known of each slide of a corpus: one line per slide in OUT/records.txt, in the order of
slides.txt. The files themselves are the state. A line says of which files the rest is true:

  slide, name    its path, and its name in the corpus
  files          the slide's files when its store was made, as files_of() gives them
  next           the same when a conversion began that has not been settled yet
  store          that store
  result, of     the result, and the store that it was made from
  checked        the result that was verified; problem: what is wrong with it, "" if nothing is
  hashed, hash   the store of which the quickhash was read, and that hash
  resolved, um, down   the result of which um per stored px and downsample were read
  merged, where  the result that was merged, and the name of the merged file
  same           the slide of which this one is another copy

Files are named by BYTES:NANOSECONDS, their size and time of change: any difference makes what is
known about them out of date. What has no
line yet counts while it is not older than what it was made from.
"""
import hashlib
import os

from corpus_lib.files import key, look, read_lines, stamp_of, stem, write_list

FIELDS = ("slide", "name", "files", "next", "store", "result", "of", "checked", "problem", "hashed",
          "hash", "resolved", "um", "down", "merged", "where", "same")
SEVERAL = (".dcm", ".mrxs", ".vms", ".vmu")  # slides that consist of several files


class Record:
    __slots__ = FIELDS

    def __init__(self, slide, name, *rest):
        self.slide, self.name = slide, name
        for field, value in zip(FIELDS[2:], rest or [""] * (len(FIELDS) - 2)):
            setattr(self, field, value)

    def line(self):
        """The line of the table. "=" stands for the stamp of the result."""
        def word(field):
            value = getattr(self, field)
            if field in ("checked", "resolved", "merged") and value and value == self.result:
                return "="
            return value.replace("\t", " ").replace("\n", " ")
        return "\t".join(map(word, FIELDS))

    @property
    def key(self):
        """The name as it comes back from JSON."""
        return self.name if self.name.isascii() else key(self.name)


def parse(line):
    """The record of a line; None for a line of another version."""
    words = line.split("\t")
    if len(words) != len(FIELDS):
        return None
    for at in (7, 11, 14):
        if words[at] == "=":
            words[at] = words[5]
    return Record(*words)


def lines_of(path):
    """The lines of a file, one at a time; none if it does not exist."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as f:
            for line in f:
                if line != "\n":
                    yield line.rstrip("\n")
    except FileNotFoundError:
        pass


class Records:
    """The table. Iterating reads it line by line, so that many slides need no memory."""

    def __init__(self, out, names):
        """names(slides, known): {slide: name} of slides without a line."""
        self.path, self.slides, self.names = os.path.join(out, "records.txt"), os.path.join(
            out, "slides.txt"), names

    def __iter__(self):
        table, done = lines_of(self.path), 0
        for slide in lines_of(self.slides):
            record = parse(next(table, ""))
            if record is None or record.slide != slide:
                break
            done += 1
            yield record
        else:
            return
        yield from self.all()[done:]  # slides.txt is newer than the table

    def all(self):
        slides = read_lines(self.slides)
        known = {r.slide: r for r in map(parse, lines_of(self.path)) if r}
        if any(s not in known for s in slides):
            names = self.names(slides, {s: r.name for s, r in known.items()})
            known.update((s, Record(s, names[s])) for s in slides if s not in known)
        return [known[s] for s in slides]

    def write(self, records):
        write_list(self.path, (r.line() for r in records))


class Files:
    """The state of the files of slides."""

    def __init__(self):
        self.folders = {}

    def of(self, slide, at):
        """The stamp of a slide, of which os.stat() gave `at`; of one with several files also the hash
        of them all. "": it does not exist."""
        end = slide[-5:].lower()
        if at is None or not end.endswith(SEVERAL):
            return stamp_of(at)
        folder = os.path.dirname(slide)
        if end.endswith(".dcm"):  # of all series of the folder: if another one changes, wsi2h5 skips this one
            parts = self.hash_of(folder, "", ".dcm")
        elif end == ".mrxs":
            parts = self.hash_of(os.path.join(folder, stem(slide)), "", "")
        else:
            parts = self.hash_of(folder, stem(slide), "")
        return stamp_of(at) + ":" + parts

    def hash_of(self, folder, begin, end):
        """A hash of names, sizes and times of the files of a folder."""
        if (folder, begin, end) not in self.folders:
            rows = []
            try:
                for e in os.scandir(folder):
                    if e.name.startswith(begin) and e.name.lower().endswith(end) and e.is_file():
                        rows.append((os.fsencode(e.name), e.stat().st_size, e.stat().st_mtime_ns))
            except OSError:
                pass
            self.folders[folder, begin, end] = hashlib.sha256(repr(sorted(rows)).encode()).hexdigest()
        return self.folders[folder, begin, end]


# --- what was made from what ---

def not_older(made, source):
    """`made` is not older than `source`, which need not exist; both as of os.stat()."""
    return source is None or made.st_mtime_ns >= source.st_mtime_ns


def store_is_current(record, files, slide, store):
    """The store, as of os.stat(), was made from the slide's files, which now are `files`."""
    if store is None:
        return False
    made = record.files if record.store == stamp_of(store) else record.next
    if not made:
        return not_older(store, slide)
    return files in (made, "")  # the slide need not exist any more


def result_is_current(record, store, result):
    """The result, as of os.stat(), was made from the store."""
    if result is None:
        return False
    if record.result != stamp_of(result):
        return not_older(result, store)
    return store is None or record.of == stamp_of(store)


def begin(records, store_of, files):
    """Notes the files of slides before they are converted."""
    for r in records:
        at = stamp_of(look(store_of(r)))
        if r.store != at:
            r.store, r.files = at, ""
        r.next = files.of(r.slide, look(r.slide))


def settle(records, store_of, files, confirmed=()):
    """Notes what stores were made from. `confirmed`: keys of those that wsi2h5 found up to date."""
    for r in records:
        store = look(store_of(r))
        if store is None or (r.store == stamp_of(store) and r.key not in confirmed):
            continue
        made, r.next = r.next, ""
        slide = look(r.slide)
        if not made and not_older(store, slide):
            made = files.of(r.slide, slide)
        r.store, r.files = stamp_of(store), made


def note_results(records, store_of, result_of, confirmed=()):
    """Notes what results were made from. `confirmed`: keys of those that h5spec found up to date."""
    for r in records:
        store, result = look(store_of(r)), look(result_of(r))
        if result and (r.key in confirmed or result_is_current(r, store, result)):
            r.result, r.of = stamp_of(result), stamp_of(store)
