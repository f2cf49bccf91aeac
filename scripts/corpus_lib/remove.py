"""Taking slides out of a corpus, as when a consent is withdrawn.

Everything that was made from the slide goes, by the list HOLDS; the merged results and the report are written again. At
the end the whole folder is searched for its name, its quickhash and its pixels, and what still holds them is named.
withdrawn.txt keeps hashes of its path and its quickhash, so that it stays out when its folder is searched again or when
a copy of it turns up. The slide itself is the user's.
"""
import contextlib
import json
import mmap
import os
import re
import stat

from corpus_lib.files import counted, json_rows, read_lines, remove_file, say, write_list
from corpus_lib.planned import read_results
from corpus_lib.publish import PART, open_regular, temporary_base
from corpus_lib.state import mark_of

# What can hold a slide: the folder, the names of files in it, of which {} is the slide's name, and what becomes of them.
# Their unfinished files (publish.py) go with the files.
HOLDS = (
    ("stores", r"{}\.h5", "remove"),
    ("stores", r"{}\.ome\.zarr", "remove image"),  # what others keep in it is named
    ("stores", r"\.{}\.ome\.zarr\.part", "remove image"),  # an unfinished one of version 1.0
    ("results", r"{}\.h5|{}\.\d+-\d+\.h5", "remove"),  # parts: --by group
    ("results", r".*\.h5\.partial", "remove if it holds it"),
    ("", r"corpus.*\.h5\.partial", "remove if it holds it"),
    ("stores", r"failed.*\.csv", "take its lines out"),
    ("results", r"failed.*\.csv", "take its lines out"),
    ("logs", r".*", "take its lines out"),
    ("", r"plan\.tsv", "take its lines out"))
LIVE = b"<!DOCTYPE html>\n<!-- h5spec live -->"  # how the page of h5spec run --live begins
LIVE_FILES = re.compile(r"index\.html|state\.js|\d+\.(js|png)|\..*\.part")

REMOVED = ("%s removed; not reached: the slides themselves, backups and snapshots of %s, copies of its report, its corpus.h5, "
           "its pictures and its stores that were made elsewhere, and the logs of the scheduler")


def find(corpus, words):
    """([record], [word that names none]): words are paths, or names in the corpus."""
    by = {r.slide: r for r in corpus.records}
    for r in corpus.records:
        by.setdefault(r.name, r)
    found = {w: by.get(os.path.abspath(w)) or by.get(w) for w in words}
    return list(dict.fromkeys(r for r in found.values() if r)), [w for w, r in found.items() if not r]


def remove(corpus, gone, again=False):
    """Takes slides out. `again`: they may be added again later, as the old place of a moved slide."""
    gone = set(gone)
    if not again:
        corpus.withdrawn |= {mark_of("path", r.slide) for r in gone}
        corpus.withdrawn |= {mark_of("quickhash", r.hash) for r in gone if r.hash}
        for path in corpus.lists_of_withdrawn():
            write_list(path, sorted(corpus.withdrawn.union(read_lines(path))))
    corpus.records[:] = [r for r in corpus.records if r not in gone]
    for r in corpus.records:
        r.same = "" if r.same in {g.slide for g in gone} else r.same
    corpus.save()  # first: from here on nothing is made from them
    for r in gone:
        for path, how in held_by(corpus, r):
            if how == "remove image":
                remove_image(path)
            elif how == "remove" or (how == "remove if it holds it" and why_held(path, marks_of(corpus, [r]))):
                remove_file(path)
    if not again:
        clean_texts(corpus, gone)
        remove_live(corpus, gone)


def held_by(corpus, r):
    """[(path, what becomes of it)] of the files of HOLDS that exist and are no other slide's."""
    others, found = {other.name for other in corpus.records}, []
    for folder, pattern, how in HOLDS:
        where = corpus.folders[folder]
        wanted = re.compile(pattern.replace("{}", re.escape(r.name)), re.DOTALL)
        for name in os.listdir(where) if os.path.isdir(where) else ():
            part = PART.fullmatch(name)
            base = name[1:part.start(1) - 1] if part else name
            own = wanted.fullmatch(base) or (part and base == temporary_base(r.name + ".h5"))
            if own and not (base.endswith(".h5") and base[:-3] in others):
                found.append((os.path.join(where, name), "remove" if part else how))
    return found


def remove_image(folder):
    """An image's own files. What others keep in it stays."""
    if os.path.islink(folder):
        os.unlink(folder)
        return
    real = os.path.realpath(folder)
    remove_file(os.path.join(real, "zarr.json"))
    for k in range(64):
        level = os.path.join(real, str(k))
        for path in (os.path.join(level, "c", "0", "0", "0"), os.path.join(level, "zarr.json")):
            if os.path.realpath(os.path.dirname(path)) == os.path.dirname(path):  # no link leads there
                with contextlib.suppress(OSError):
                    os.unlink(path)
        for path in ("c/0/0", "c/0", "c", ""):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(level, path))
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def clean_texts(corpus, gone):
    """Takes the lines about slides out of logs and lists. A path counts only where it is not part of a longer one;
    messages show some of its characters as others."""
    words = {w for r in gone for w in (r.slide, corpus.store(r), corpus.result(r))}
    shown = ("".join(re.escape(c) if c.isascii() and c.isprintable() else "." for c in w) for w in words)
    pattern = re.compile("|".join(r"(?<![\w/.-])%s(?![\w/-]|\.\w)" % w for w in shown))
    names = {os.path.basename(w) for w in words}
    for path in sorted({path for r in gone for path, how in held_by(corpus, r) if how == "take its lines out"}):
        lines = read_lines(path)
        kept = [line for line in lines if not pattern.search(line) and line.split(",")[0].strip('"') not in names
                and not any(row.get(k) in words for row in json_rows([line]) for k in ("input", "store"))]
        if len(kept) < len(lines):
            write_list(path, kept)


def remove_live(corpus, gone):
    """The files of a page of a run that shows one of the slides: it cannot be written again."""
    marks = marks_of(corpus, gone)
    for folder, _, names in os.walk(corpus.out):
        page = os.path.join(folder, "index.html")
        if "index.html" in names and head_of(page).startswith(LIVE):
            own = [os.path.join(folder, n) for n in names if LIVE_FILES.fullmatch(n)]
            for path in own if any(why_held(path, marks) for path in own) else ():
                remove_file(path)
            with contextlib.suppress(OSError):
                os.rmdir(folder)


# --- what still holds a slide ---

def head_of(path):
    with contextlib.suppress(OSError), open_regular(path) as f:
        return f.read(64)
    return b""


def marks_of(corpus, gone):
    """[(words that name a slide, what they are)]"""
    marks = []
    for r in gone:
        for word, what in ((r.slide, "its path"), (r.hash, "its quickhash"), (corpus.store(r), "its store's path"),
                           (os.path.basename(r.slide), "its name"), (r.name + ".h5", "its name"), ('"%s"' % r.name, "its name"),
                           ("\n%s," % r.name, "its name")):
            marks += [(w, what) for w in {os.fsencode(word), os.fsencode(word) if word.isascii() else json.dumps(word)[1:-1].encode()} if len(w) > 3]
    return marks


def why_held(path, marks):
    """By what a file names a slide, or ""."""
    with contextlib.suppress(OSError, ValueError), open_regular(path) as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for word, what in marks:
            at = data.find(word)
            while at >= 0:
                before, after = data[at - 1:at] if at else b"", data[at + len(word):at + len(word) + 1]
                if not re.match(rb"[\w-]", before) and not re.match(rb"[\w-]", after):
                    return what
                at = data.find(word, at + 1)
    return ""


def pixels_of(corpus, gone):
    """{(device, inode): the open store}, by which links to it are known when it is gone; no other file gets its number
    as long as it is open."""
    found = {}
    for r in gone:
        with contextlib.suppress(OSError):
            f = open_regular(corpus.store(r))
            at = os.fstat(f.fileno())
            found[at.st_dev, at.st_ino] = f
    return found


def search(corpus, gone, pixels):
    """[(path, why)] of all that holds one of the slides below OUT and in the folder of stores. Stores and results of other
    slides are not read."""
    marks, names, found = marks_of(corpus, gone), "|".join(re.escape(r.name) for r in gone), []
    named = re.compile(r"(?<![A-Za-z0-9-])(%s)(?![A-Za-z0-9-])" % names)
    others = {path for r in corpus.records for path in (corpus.store(r), corpus.result(r), corpus.store(r)[:-3] + ".ome.zarr")}
    for top in sorted({corpus.out, corpus.stores}):
        for folder, folders, files in os.walk(top):
            folders[:] = [n for n in folders if os.path.join(folder, n) not in others]
            for name in folders + files:
                path = os.path.join(folder, name)
                at = os.lstat(path)
                link = stat.S_ISLNK(at.st_mode) and os.path.abspath(os.path.join(folder, os.readlink(path))) in {corpus.store(r) for r in gone}
                if path in others:
                    continue
                why = "its pixels" if link or (at.st_dev, at.st_ino) in pixels else "its name" if named.search(name) else ""
                why = why or (why_held(path, marks) if stat.S_ISREG(at.st_mode) else "")
                if why and not any(path.startswith(p + "/") for p, _ in found):
                    found.append((path, why))
    return sorted(set(found))


def take_out_withdrawn(corpus):
    """Slides that were withdrawn from another corpus with the same stores go."""
    out = corpus.kept_out() if corpus.settings.get("stores") or corpus.withdrawn else set()
    gone = [r for r in corpus.records if mark_of("path", r.slide) in out] if out else []
    if gone:
        say("%s withdrawn from a corpus with the same stores, removed" % counted(len(gone), "slide"))
        remove(corpus, gone)


def take_out_copies(corpus):
    """A copy of a withdrawn slide goes, and so does the old place of a slide that was moved and renamed."""
    marks = {m for m in corpus.kept_out() if m.startswith("quickhash ")}
    lost = [r for r in corpus.records if r.result and not os.path.lexists(r.slide)]
    if marks or lost:
        read_results(corpus, [r for r in corpus.records if os.path.exists(corpus.result(r))])
    copies = [r for r in corpus.records if r.hash and mark_of("quickhash", r.hash) in marks]
    if copies:
        say("%s of withdrawn slides removed" % ("1 copy" if len(copies) == 1 else "%d copies" % len(copies)))
        remove(corpus, copies)
    if corpus.has("allow_duplicates"):
        return
    here = {r.hash: r for r in corpus.records if r.hash and os.path.lexists(r.slide)}
    moved = [r for r in lost if r.hash in here and r not in copies]
    for r in moved:
        say("%s: moved to %s" % (r.slide, here[r.hash].slide))
    if moved:
        remove(corpus, moved, again=True)
