"""The merged results, and which slides go into which.

Frequencies are in cycles per pixel, so slides of different resolution are not pooled. With several
resolutions each gets its own file, such as corpus-0.25um.h5, and no corpus.h5 is written. The rule is
that of h5spec merge (common/result/same_resolution.h). h5spec run --mix-mpp pools all.
"""
import json
import os
import re

from corpus_lib.checks import read_resolutions
from corpus_lib.files import read_json, write_whole

TOLERANCE = 0.1
OURS = r"corpus(-[0-9.e+-]+um|-unknown-um(-x[0-9.e+-]+)?)?\.h5"


def rows_of(corpus, records):
    """[(record, um per stored px, downsample)] of slides with a result; None for what is not known."""
    read_resolutions(corpus, records)
    return [(r, float(r.um) if r.um else None, float(r.down) if r.down else None) for r in records]


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
    """{name of the merged result: (um or None, [record])} of rows (record, um, downsample)."""
    rows = sorted(rows, key=lambda row: os.fsencode(row[0].name))
    if together(rows):
        return {"corpus.h5": (next((um for _, um, _ in rows if um), None), [r for r, _, _ in rows])}
    found = []  # [(um, downsample of an unknown um, [record])]
    for r, um, down in rows:
        for a, b, members in found:
            if (a and um and not differ(a, um)) or (not a and not um and (
                    not b or not down or not differ(b, down))):
                members.append(r)
                break
        else:
            found.append((um, None if um else down, [r]))
    unknown = sum(not um for um, _, _ in found)
    return {name_of(um, down if unknown > 1 else None): (um, members)
            for um, down, members in found}


def name_of(um, down):
    if um:
        return "corpus-%.2gum.h5" % um
    return "corpus-unknown-um%s.h5" % ("-x%.2g" % down if down else "")


class Merged:
    """OUT/merged.json: {file: {"um_per_px": um or null, "slides": number of slides, "form": whole or
    table}}. The records say which slides these are. Files of another form than the corpus wants count as
    missing."""

    def __init__(self, out, form):
        self.out, self.path, self.form = out, os.path.join(out, "merged.json"), form
        known = read_json(self.path, {})
        self.known = {name: row for name, row in known.items()
                      if "slides" in row and row.get("form", "whole") == form}

    def file(self, name):
        return os.path.join(self.out, name)

    def exists(self, name):
        return name in self.known and os.path.exists(self.file(name))

    def holds(self, name, records, stamp_of_result):
        """The file has exactly the results of these slides, as they are now."""
        return (self.exists(name) and self.known[name]["slides"] == len(records)
                and all(r.where == name and r.merged == stamp_of_result(r) for r in records))

    def note(self, name, um, slides):
        self.known[name] = {"um_per_px": um, "slides": slides, "form": self.form}
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

    def rows(self, counts, processed):
        """What `status` says of each file. `counts`: {name: slides whose result it has as it is now};
        `processed`: the number of slides with a result."""
        current = (processed == sum(counts.values()) == sum(row["slides"] for row in self.known.values())
                   and all(self.exists(name) for name in self.known))
        return [{"file": self.file(name), "slides": row["slides"], "current": current,
                 "um_per_px": row["um_per_px"]} for name, row in sorted(self.known.items())
                if self.exists(name)]
