"""Groups of slides, pools of one resolution within them, and what slides and groups are called."""
import os
import re
from dataclasses import dataclass, field

import numpy as np

from .numbers import LEAST, UNKNOWN_SIZES
from .texts import Bad, Table, base_name, counted, cut, say, shown_path

MOST_GROUPS = 256
SAME_RESOLUTION = 0.1    # um per px that differ by at most this part are pooled


@dataclass
class Groups:
    names: list          # group 0 is that of slides without another
    of: list             # the group of each slide
    asked: bool = False  # the user says which slides go together

    def find(self, name):
        return self.names.index(name) if name in self.names else None


def group_slides(slides, meta=None, group=None, files=(), hide=False):
    """Groups by a column of a table, or by a property of the slides. `hide`: no names of files."""
    if meta:
        return _by_table(slides, meta, group)
    V, n = slides.V, len(slides)
    if not group:
        labels = ["all slides"] * max(1, n)
    elif group == "vendor":
        labels = [v or "unknown vendor" for v in V["vendor"]] if n else []
    elif group == "objective_power":
        labels = ["%gx" % x if x > 0 else "unknown objective" for x in V["objective_power"]] if n else []
    elif group == "result":
        labels = ["result %d" % (f + 1) if hide else base_name(files[f]) for f in slides.files]
    elif n:
        raise Bad("--group %s: not vendor, objective_power or result; a column of a table needs --meta FILE.csv" % group)
    else:
        labels = []
    names = list(dict.fromkeys(labels))
    _check_number(names)
    number = {name: k for k, name in enumerate(names)}
    return Groups(names, [number[x] for x in labels[:n]], bool(group))


def _check_number(names):
    if len(names) > MOST_GROUPS:
        raise Bad("more than %d groups; group by something with fewer values" % MOST_GROUPS)


def _by_table(slides, path, group):
    """A slide has one row, or rows that agree."""
    table = Table(path)
    column, slide = table.column(group), table.column("slide")
    for at, name in ((column, group), (slide, "slide")):
        if at < 0:
            raise Bad("%s: has no column %s" % (path, name))
    g, lines, unknown, repeated = Groups(["not in the table"], [0] * len(slides), True), {}, 0, 0
    number = {g.names[0]: 0}
    for line, cells in table.rows:
        k = slides.find(cells[slide])
        if k is None:
            unknown += 1
            continue
        of = number.setdefault(cells[column], len(number))
        if of == len(g.names):
            g.names.append(cells[column])
            try:
                _check_number(g.names)
            except Bad as e:
                raise Bad("%s: %s" % (path, e)) from e
        if k in lines and g.of[k] != of:
            raise Bad("%s: line %d: slide %s has %s %s, but %s in line %d; keep one of the two" % (
                path, line, slides.names[k], group, g.names[of], g.names[g.of[k]], lines[k]))
        repeated += k in lines
        lines[k], g.of[k] = line, of
    if unknown:
        say("%s: %d %s for slides that no result has" % (path, unknown, counted(unknown, "row")))
    if repeated:
        say("%s: %d %s for slides that have one already; they agree" % (path, repeated, counted(repeated, "row")))
    return g


# --- pools ---


@dataclass
class Pool:
    """A group's slides of one resolution: they are compared with each other. scores.py and kinds.py fill the rest."""
    group: int
    resolution: str              # "0.25 um/px"
    index: np.ndarray            # the numbers of its slides
    unknown: bool = False        # nobody states the um per px of its slides
    counted: int = 0             # of them those with windows
    accepted: int = 0            # of them those that --accepted names; summaries are of these, if there are any
    summary: dict = field(default_factory=dict)    # of each number: scores.Summary
    below: float = float("nan")  # dB of focus_db from which on a window is not blurred
    kind: object = None          # kinds.Kind, if it has two kinds

    def __len__(self):
        return len(self.index)

    @property
    def lacks(self):
        """How many more slides say what is usual."""
        return LEAST - (self.accepted or self.counted)


def _sets(values):
    """Cuts sorted (value, slide) into sets of one resolution. Sets exist from below: of what is left, a beginning is cut off at the
    widest gap until it is one set."""
    start = 0
    while start < len(values):
        v, end = [x for x, _ in values], len(values)
        while abs(v[start] - v[end - 1]) > SAME_RESOLUTION * min(v[start], v[end - 1]):
            end = start + 1 + max(range(end - start - 1), key=lambda j: v[start + j + 1] / v[start + j])
        yield sorted(k for _, k in values[start:end])
        start = end


def _cut_by_size(members, side):
    """Cuts slides of unknown um per px at the widest gaps of their sizes until no set spans UNKNOWN_SIZES."""
    members = sorted(members, key=lambda k: side[k])
    if len(members) < 2 or not side[members[-1]] >= UNKNOWN_SIZES * side[members[0]] > 0:
        yield sorted(members)
        return
    at = max(range(1, len(members)), key=lambda k: side[members[k]] / side[members[k - 1]])
    for part in (members[:at], members[at:]):
        yield from _cut_by_size(part, side)


def find_pools(slides, groups):
    """The pools in the order of their first slides, and the pool of each slide. Without um per px, and where the user does not say what
    goes together, slides of one format and of similar size are taken to be of one magnification."""
    if not len(slides):
        return [], np.zeros(0, int)
    um, downsample = slides.V["um"], slides.V["downsample"]
    known = (um > 0) & (um < 1e6)
    apart = ~known & (not groups.asked)
    side = np.where(apart, downsample * np.maximum(slides.V["width"], slides.V["height"]), 0)
    alike = {}
    for k in range(len(slides)):
        kind = groups.of[k], not known[k], slides.V["vendor"][k] if apart[k] else ""
        alike.setdefault(kind, []).append((um[k] if known[k] else downsample[k], k))
    sets = [part for values in alike.values() for members in _sets(sorted(values)) for part in _cut_by_size(members, side)]
    pools, pool = [], np.zeros(len(slides), int)
    for members in sorted(sets):
        first, group = members[0], groups.of[members[0]]
        taken = {q.resolution for q in pools if q.group == group}
        others = not known[first] and any(groups.of[x[0]] == group and x is not members and not known[x[0]] and downsample[first] in downsample[x]
                                          for x in sets)
        for digits in range(2, 10):    # more digits where another pool of the group has the same ones
            if known[first]:
                name = "%.*g um/px" % (digits, um[first])
            elif others:
                name = cut("unknown um/px, %s, %.*g px" % (cut(slides.V["vendor"][first] if apart[first] else "", 16), digits, side[first]), 79)
            elif downsample[first] == 1:
                name = "unknown um/px"
            else:
                name = "unknown um/px, downsampled by %.*g" % (digits, downsample[first])
            if name not in taken:
                break
        pool[members] = len(pools)
        pools.append(Pool(group, name, np.array(members), not known[first]))
    return pools, pool


# --- names ---


@dataclass
class Names:
    """What slides, groups and inputs without numbers are called on the page."""
    slides: list
    groups: list
    failures: list

    def label(self, pool):
        """ "group, 0.25 um/px"; without the group, if there is only one."""
        return pool.resolution if len(self.groups) == 1 else "%s, %s" % (self.groups[pool.group], pool.resolution)


def _common_folder(names):
    """The folder that paths have in common, with its slash."""
    folders = [x[:x.rfind("/") + 1] for x in names if "/" in x]
    common = os.path.commonprefix(folders) if folders else ""
    return common[:common.rfind("/") + 1]


def _tells_names(label, names):
    """Is a label part of a name, or has it a name or a word of one?"""
    label, names = os.fsencode(label).lower(), [os.fsencode(n).lower() for n in names]
    words = [label] + re.findall(rb"[0-9a-z\x80-\xff]{3,}", label)
    return any(w[:255] in n for w in words for n in names) or any(n in label for n in names)


def name_all(slides, groups, failures, hide=False, own_first=True):
    """`hide`: numbers instead of names; own_first: group 0 is named by this program, not by the user."""
    if not hide:
        common = len(_common_folder(failures))
        shown = [shown_path(x[common:]) if "/" in x else x for x in failures]
        return Names(slides.names, groups.names, shown)
    digits = len(str(len(slides)))
    own = [k == 0 and own_first for k in range(len(groups.names))]
    tells = any(not mine and _tells_names(name, slides.names) for mine, name in zip(own, groups.names))
    return Names(["slide %0*d" % (digits, k + 1) for k in range(len(slides))],
                 ["group %d" % (k + (not own_first)) if tells and not mine else name for k, (mine, name) in enumerate(zip(own, groups.names))],
                 ["input without numbers %d" % (k + 1) for k in range(len(failures))])
