"""The names of slides in a corpus: stores and results are called after them.

A slide's name is that of its file without the ending. Later slides with a name that is taken get a
number: slide, slide-2, slide-3. (The name of a folder would distinguish them, too, but may identify a
person.) wsi2h5 names a store after its input, so a numbered slide is converted through a link with
that name, OUT/.links/slide-2.svs. Slides that consist of several files cannot be linked so, except
MIRAX, whose data folder is linked as well.
"""
import os

from corpus_lib.files import read_lines, stem

SEVERAL_FILES = (".vms", ".vmu", ".dcm")


def read_names(path):
    """{slide: name} of a names.txt."""
    rows = [line.split("\t", 1) for line in read_lines(path)]
    return {row[1]: row[0] for row in rows if len(row) == 2}


def unique_names(slides, known):
    """{slide: name}, the same for the same slides in the same order; `known` names are kept."""
    names, taken, last = {}, set(known.values()), {}
    for s in slides:
        name = known.get(s)
        if name is None:
            name = stem(s)
            while name in taken:
                last[stem(s)] = last.get(stem(s), 1) + 1
                name = "%s-%d" % (stem(s), last[stem(s)])
        taken.add(name)
        names[s] = name
    return names


def link_of(folder, slide, name):
    """The path through which wsi2h5 converts a numbered slide."""
    return os.path.join(folder, name + os.path.basename(slide)[len(stem(slide)):])


def make_links(folder, slides):
    """Makes the links of numbered slides, {slide: name}."""
    for slide, name in slides.items():
        os.makedirs(folder, exist_ok=True)
        link(slide, link_of(folder, slide, name))
        data = os.path.join(os.path.dirname(slide), stem(slide))
        if slide.lower().endswith(".mrxs") and os.path.isdir(data):
            link(data, os.path.join(folder, name))


def link(target, path):
    if not os.path.islink(path) or os.readlink(path) != target:
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(target, path)
