"""The slides that a user names: files, folders, lists of both.

wsi2h5 searches folders (--print-inputs), so both agree on which files are one slide. What cannot be used is
reported with its reason, and the other slides are still used.
"""
import os
import re

from corpus_lib.files import PART, ask, die, program


def bad_name(path):
    """Why a path cannot be a line of a list or of the look-up table; None if it can."""
    found = re.search(r"[\n\r\t]", path)
    return found and "the name contains a %s; rename the file" % {
        "\n": "line break", "\r": "carriage return", "\t": "tab"}[found.group()]


def dangling(path):
    """What is wrong with a link whose target is missing; None if the path is no such link."""
    if os.path.islink(path) and not os.path.exists(path):
        return "dangling link to %s; mount or fetch its target" % os.readlink(path)
    return None


def search(paths):
    """[(slide, what is wrong with it)] of files and folders, in the order in which they are given. Without a path: what a folder
    holds that was left out."""
    good = [path for path in paths if not bad_name(path)]
    p = ask(program("wsi2h5"), "--print-inputs", "-q", "-o", os.devnull + "/", "--list=-",
            given="".join(path + "\n" for path in good)) if good else None
    if p and p.returncode:
        die(p.stderr.strip(), p.returncode)
    words = p.stdout.split("\0") if p else []
    found = [(slide, problem.replace(slide + ": ", "", 1) if slide else problem) for slide, problem in zip(words[::2], words[1::2])]
    return [(slide, bad_name(slide) or dangling(slide) or problem)
            for slide, problem in found + [(path, "") for path in paths if bad_name(path)]]


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
    """({slide: its options or None}, {path: problem}, [what was left out]) of slides, folders and lists of them; all
    paths absolute. What a list says of a slide holds, wherever else it is named."""
    slides, problems, left_out, of = {}, {}, [], {}
    for path, options in [(word, None) for word in words] + [row for name in lists for row in lines_of(name)]:
        of.setdefault(options, []).append(os.path.abspath(path))
    for options, paths in of.items():
        for slide, problem in search(paths):
            if not slide:
                left_out.append(problem)
            elif problem:
                problems[slide] = problem
            else:
                slides[slide] = options if options is not None else slides.get(slide)
    return slides, problems, left_out
