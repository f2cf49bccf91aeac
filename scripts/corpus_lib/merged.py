"""The merged results, and which slides go into which.

Frequencies are in cycles per pixel, so slides of different resolution are not pooled. With several
resolutions each gets its own file, such as corpus-0.25um.h5, and no corpus.h5 is written. The rule is
that of h5spec merge (common/result/same_resolution.h). h5spec run --mix-mpp pools all.
"""
import json
import math
import os
import re

from corpus_lib.checks import ask_list
from corpus_lib.files import key, read_json, stamp, write_whole

TOLERANCE = 0.1
OURS = r"corpus(-[0-9.e+-]+um|-unknown-um(-x[0-9.e+-]+)?)?\.h5"


class Resolutions:
    """{result: [bytes, mtime in ns, um per stored px or null, downsample or null]}, kept in a file."""

    def __init__(self, path):
        self.path, self.known = path, read_json(path, {})

    def of(self, results):
        """[(result, um, downsample)]; what has changed since the last call is read from the results."""
        old = {r: self.known.get(os.path.basename(r)) for r in results}
        new = {key(r): r for r in results if not old[r] or old[r][:2] != stamp(r)}
        text = ask_list("info", new.values(), "--json").stdout if new else ""
        for line in text.split("\n"):
            try:
                row = json.loads(line)
                r, slide = new[key(row["file"])], row["slides"][0]
                self.known[os.path.basename(r)] = stamp(r) + resolution(slide)
            except (ValueError, KeyError, TypeError, IndexError):
                pass  # a damaged result; the merge reports it
        if new:
            write_whole(self.path, json.dumps(self.known, indent=0) + "\n")
        none = [0, 0, None, None]
        return [(r, *self.known.get(os.path.basename(r), none)[2:]) for r in results]


def resolution(slide):
    """[um per stored px, downsample] of a row of h5spec info; None for what is not known."""
    x, y, down = (slide.get(k) or 0 for k in ("mpp_x", "mpp_y", "downsample"))
    um = math.sqrt(x * y) * down if x > 0 and y > 0 else 0
    return [um or None, down or None]


def differ(a, b):
    return abs(a - b) > TOLERANCE * min(a, b)


def together(rows):
    """Does h5spec merge accept all these slides in one result?"""
    first_um = first_down = None
    for _, um, down in rows:
        if um and first_um:
            if differ(um, first_um):
                return False
        elif down and first_down and differ(down, first_down):
            return False
        first_um, first_down = first_um or um, first_down or down
    return True


def groups_of(rows):
    """{name of the merged result: (um or None, [result])} of rows (result, um, downsample)."""
    rows = sorted(rows, key=lambda row: os.fsencode(os.path.basename(row[0])[:-len(".h5")]))
    if together(rows):
        return {"corpus.h5": (next((um for _, um, _ in rows if um), None), [r for r, _, _ in rows])}
    found = []  # [(um, downsample of an unknown um, [result])]
    for r, um, down in rows:
        for a, b, members in found:
            if (a and um and not differ(a, um)) or (not a and not um and (
                    not b or not down or not differ(b, down))):
                members.append(r)
                break
        else:
            found.append((um, None if um else down, [r]))
    unknown = sum(not um for um, _, _ in found)
    return {name_of(um, down if unknown > 1 else None): (um, sorted(members))
            for um, down, members in found}


def name_of(um, down):
    if um:
        return "corpus-%.2gum.h5" % um
    return "corpus-unknown-um%s.h5" % ("-x%.2g" % down if down else "")


class Merged:
    """OUT/merged.json: {file: {"um_per_px": um or null, "results": {name: [bytes, mtime in ns]}}}"""

    def __init__(self, out):
        self.out, self.path = out, os.path.join(out, "merged.json")
        self.known = read_json(self.path, {})

    def file(self, name):
        return os.path.join(self.out, name)

    def holds(self, name, results):
        """The file has exactly these results, as they are now."""
        row = self.known.get(name)
        return (row is not None and os.path.exists(self.file(name))
                and row["results"] == {os.path.basename(r): stamp(r) for r in results})

    def current(self, results):
        """The files have exactly these results between them."""
        have = {r: at for row in self.known.values() for r, at in row["results"].items()}
        return (bool(results) and have == {os.path.basename(r): stamp(r) for r in results}
                and all(os.path.exists(self.file(name)) for name in self.known))

    def note(self, name, um, stamps):
        self.known[name] = {"um_per_px": um, "results": stamps}
        self.save()

    def save(self):
        write_whole(self.path, json.dumps(self.known, indent=1) + "\n")

    def keep_only(self, names):
        """Removes merged results of resolutions that the corpus no longer has."""
        self.known = {name: row for name, row in self.known.items() if name in names}
        self.save()
        for name in os.listdir(self.out):
            if re.fullmatch(OURS, name) and name not in names:
                os.unlink(self.file(name))
        if os.path.exists(self.file("corpus.txt")):  # of an earlier version
            os.unlink(self.file("corpus.txt"))

    def rows(self, results):
        """What `status` says of each file."""
        current = self.current(results)
        return [{"file": self.file(name), "slides": len(row["results"]), "current": current,
                 "um_per_px": row["um_per_px"]} for name, row in sorted(self.known.items())
                if os.path.exists(self.file(name))]
