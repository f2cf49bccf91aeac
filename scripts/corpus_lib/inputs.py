"""The slides that a user names: files, folders, lists of both.

A folder is searched with its subfolders. Links are followed; a folder that is reached twice is
searched once, so a loop ends. Hidden names are skipped. What cannot be used is reported with its
reason, and the other slides are still used: a dangling link that has the name of a slide, a folder
that cannot be read or holds no slide, a file name that cannot be in a list.
"""
import os
import re

from corpus_lib.files import read_lines

ENDS = (".svs", ".tif", ".tiff", ".ndpi", ".vms", ".vmu", ".scn", ".mrxs", ".svslide", ".bif",
        ".dcm")


def bad_name(path):
    """Why a path cannot be a line of a list or of the look-up table; None if it can."""
    found = re.search(r"[\n\r\t]", path)
    return found and "the name contains a %s; rename the file" % {
        "\n": "line break", "\r": "carriage return", "\t": "tab"}[found.group()]


def search(folder):
    """([slide], {path: problem}) of everything below a folder."""
    slides, problems, seen, waiting = [], {}, set(), [folder]
    while waiting:
        here = waiting.pop()
        try:
            at = os.stat(here)
            if (at.st_dev, at.st_ino) in seen:
                continue
            seen.add((at.st_dev, at.st_ino))
            entries = sorted(os.scandir(here), key=lambda e: e.name)
        except OSError as e:
            problems[here] = "the folder cannot be read: %s" % e.strerror
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                waiting.append(entry.path)
            elif entry.name.lower().endswith(ENDS):
                if entry.is_file():
                    slides.append(entry.path)
                elif entry.is_symlink() and not os.path.exists(entry.path):
                    problems[entry.path] = "dangling link to %s; mount or fetch its target" % (
                        os.readlink(entry.path))
    if not slides and not problems:
        problems[folder] = "the folder contains no slides"
    return sorted(slides), problems


def gather(words, lists):
    """([slide], {path: problem}) of slides, folders and lists of them; all paths absolute."""
    slides, problems = {}, {}
    lines = [line for name in lists for line in read_lines(name) if not line.startswith("#")]
    for word in map(os.path.abspath, words + lines):
        found, bad = search(word) if os.path.isdir(word) else ([word], {})
        problems.update(bad)
        for slide in found:
            if bad_name(slide):
                problems[slide] = bad_name(slide)
            else:
                slides[slide] = True
    return list(slides), problems
