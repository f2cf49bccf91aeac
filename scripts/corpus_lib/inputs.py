"""The slides that a user names: files, folders, lists of both.

The search of folders follows the rule of wsi2h5 (convert/inputs.c): links are followed; each folder
is searched once, and none above the first, so loops end; DICOM files of one series in one folder
are one slide, named after the largest; the folder NAME of a MIRAX slide NAME.mrxs is not searched;
hidden names are skipped. What cannot be used is reported with its reason, and the other slides are
still used: a dangling link that has the name of a slide or no ending, a folder that cannot be read or
holds no slide, a file name that cannot be in a list.
"""
import os
import re

from corpus_lib.dicom import series_of
from corpus_lib.files import PART, die

ENDS = (".svs", ".tif", ".tiff", ".ndpi", ".vms", ".vmu", ".scn", ".mrxs", ".svslide", ".bif",
        ".dcm")


def bad_name(path):
    """Why a path cannot be a line of a list or of the look-up table; None if it can."""
    found = re.search(r"[\n\r\t]", path)
    return found and "the name contains a %s; rename the file" % {
        "\n": "line break", "\r": "carriage return", "\t": "tab"}[found.group()]


def identity(folder):
    at = os.stat(folder)
    return at.st_dev, at.st_ino


def above(folder):
    """The identities of the folders above one."""
    found, here = set(), os.path.realpath(folder)
    while os.path.dirname(here) != here:
        here = os.path.dirname(here)
        found.add(identity(here))
    return found


def is_mirax_data(folder):
    return os.path.exists(folder + ".mrxs") and os.path.exists(os.path.join(folder, "Slidedat.ini"))


def is_unnamed_dicom(path):
    """A DICOM file that is named by a number or a UID (dicom_is_unnamed of wsi2h5)."""
    end = os.path.splitext(path)[1].lower()
    if end not in ("", ".", ".dicom", ".dic", ".ima", ".img") and not re.search("[0-9]", end):
        return False
    try:
        with open(path, "rb") as f:
            return f.read(132)[128:] == b"DICM"
    except OSError:
        return False


def one_per_series(paths):
    """Of the DICOM files of a folder, the largest of each series; those without a series all."""
    best, found = {}, []
    for path in paths:
        series = series_of(path)
        if series is None:
            found.append(path)
        elif series not in best or os.path.getsize(path) > os.path.getsize(best[series]):
            best[series] = path
    return found + list(best.values())


def is_lost(entry):
    """A dangling link to a slide or, as its name has no ending, perhaps to a folder of slides?"""
    named = entry.name.lower().endswith(ENDS) or "." not in entry.name
    return named and entry.is_symlink() and not os.path.exists(entry.path)


def dangling(path):
    """What is wrong with a link whose target is missing; None if the path is no such link."""
    if os.path.islink(path) and not os.path.exists(path):
        return "dangling link to %s; mount or fetch its target" % os.readlink(path)
    return None


def search_one(folder):
    """([slide], {path: problem}, [subfolder]) of one folder."""
    slides, dicom, problems, below = [], [], {}, []
    for entry in sorted(os.scandir(folder), key=lambda e: os.fsencode(e.name)):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            below += [entry.path] if not is_mirax_data(entry.path) else []
        elif entry.name.lower().endswith(ENDS) and entry.is_file():
            (dicom if entry.name.lower().endswith(".dcm") else slides).append(entry.path)
        elif entry.is_file() and is_unnamed_dicom(entry.path):
            dicom.append(entry.path)
        elif is_lost(entry):
            problems[entry.path] = dangling(entry.path)
    return slides + one_per_series(dicom), problems, below


def search(folder):
    """([slide], {path: problem}) of everything below a folder."""
    slides, problems, seen, waiting = [], {}, above(folder), [folder]
    while waiting:
        here = waiting.pop(0)
        try:
            if identity(here) in seen:
                continue
            seen.add(identity(here))
            found, bad, below = search_one(here)
        except OSError as e:
            problems[here] = "the folder cannot be read: %s" % e.strerror
            continue
        slides += found
        problems.update(bad)
        waiting += below
    if not slides and not problems:
        problems[folder] = "the folder contains no slides"
    return sorted(slides), problems


def lines_of(name):
    """[(slide or folder, its options)] of a list: one per line, options of wsi2h5 after a tab."""
    try:
        with open(name, "rb") as f:
            data = f.read()
    except OSError as e:
        die("%s: cannot read the list: %s" % (name, e.strerror), PART)
    if b"\0" in data:
        die("%s: not a list of paths; save it as UTF-8 (it may be UTF-16)" % name, PART)
    lines = os.fsdecode(data[3:] if data.startswith(b"\xef\xbb\xbf") else data).split("\n")
    rows = (line.rstrip("\r").partition("\t") for line in lines)
    return [(path, options.strip()) for path, _, options in rows if path and path[0] != "#"]


def gather(words, lists):
    """({slide: its options or None}, {path: problem}) of slides, folders and lists of them; all paths
    absolute. What a list says of a slide holds, wherever else it is named."""
    slides, problems = {}, {}
    rows = [(word, None) for word in words] + [row for name in lists for row in lines_of(name)]
    for word, options in rows:
        word = os.path.abspath(word)
        found, bad = search(word) if os.path.isdir(word) else ([word], {})
        problems.update(bad)
        for slide in found:
            problem = bad_name(slide) or dangling(slide)
            if problem:
                problems[slide] = problem
            else:
                slides[slide] = options if options is not None else slides.get(slide)
    return slides, problems
