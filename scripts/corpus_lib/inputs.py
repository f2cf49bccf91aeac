"""The slides that a user names: files, folders, lists."""
import os

from corpus_lib.files import die, read_lines


ENDS = (".svs", ".tif", ".tiff", ".ndpi", ".vms", ".vmu", ".scn", ".mrxs", ".svslide", ".bif", ".dcm")


def search(folder):
    """Every slide below a folder, as wsi2h5 finds them."""
    found = []
    for top, folders, names in os.walk(folder):
        folders[:] = [d for d in folders if not d.startswith(".")]
        found += [os.path.join(top, n) for n in names
                  if not n.startswith(".") and n.lower().endswith(ENDS) and os.path.isfile(os.path.join(top, n))]
    return sorted(found)


def gather(words, lists):
    slides = []
    for word in words + [line for name in lists for line in read_lines(name) if not line.startswith("#")]:
        found = search(word) if os.path.isdir(word) else [word]
        if not found:
            die("%s: a folder without slides; give one that has some" % word)
        slides += [os.path.abspath(s) for s in found]
    for s in slides:
        if "\n" in s or "\r" in s or "\t" in s:
            die("%r: a name with a line's end or a tab cannot be in a list; rename it" % s)
    return slides
