"""Limits that the user gives (--limits): a table with columns metric, side, warn, fail and maybe group."""
import math
from dataclasses import dataclass

from .numbers import BY_NAME
from .scores import turn
from .texts import Bad, Table, say

NAN, INF = float("nan"), float("inf")
ANY = object()    # group of a limit: it holds for every slide; None: for no slide


@dataclass
class Limit:
    number: str
    above: bool
    warn: float = NAN
    fail: float = NAN
    group_name: str = ""
    line: int = 0
    group: object = ANY

    @property
    def side(self):
        return "above" if self.above else "below"

    def holds(self, group):
        return self.group is ANY or self.group == group

    def breaks(self, x, threshold):
        """Is x beyond a threshold? Not if either is not known."""
        beyond = float(turn(x, threshold)) if BY_NAME[self.number].angle else x - threshold
        return beyond > 0 if self.above else beyond < 0


def _threshold(where, what, text):
    if not text:
        return NAN
    try:
        value = float.fromhex(text) if "x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        value = NAN
    if not math.isfinite(value) or "_" in text or text != text.rstrip():
        raise Bad("%s%s %s: not a number" % (where, what, text))
    if not -1e9 <= value <= 1e9:
        raise Bad("%s%s %s: must be between %g and %g" % (where, what, text, -1e9, 1e9))
    return value


def read_limits(path):
    """The limits of a file, before any slide is known."""
    if not path:
        return []
    table, limits = Table(path), []
    at = {name: table.column(name) for name in ("metric", "side", "warn", "fail", "group")}
    for name, column in at.items():
        if column < 0 and name != "group":
            raise Bad("%s: has no column %s; the header is metric,side,warn,fail[,group]" % (path, name))
    for line, cells in table.rows:
        where, (name, side) = "%s: line %d: " % (path, line), (cells[at[k]] for k in ("metric", "side"))
        if name not in BY_NAME:
            raise Bad("%sno metric is called %s" % (where, name))
        if side not in ("below", "above"):
            raise Bad("%sside must be below or above, not %s" % (where, side))
        warn, fail = (_threshold(where, k, cells[at[k]]) for k in ("warn", "fail"))
        limit = Limit(name, side == "above", warn, fail, cells[at["group"]] if at["group"] >= 0 else "", line)
        if math.isnan(warn) and math.isnan(fail):
            raise Bad(where + "neither warn nor fail has a number")
        for x in (warn, fail):
            if BY_NAME[name].angle and not math.isnan(x) and not 0 <= x < 360:
                raise Bad("%s%g is not an angle from 0 to less than 360" % (where, x))
        if not math.isnan(warn) and not math.isnan(fail) and not limit.breaks(fail, warn):
            raise Bad("%swarn %g is never met: a slide %s %g fails already; swap them" % (where, warn, side, fail))
        limits.append(limit)
    return limits


def place_limits(path, limits, groups, params):
    """Finds their groups, and checks that a slide can be beyond each of them. dB of a difference are at most the width of the range."""
    for x in limits:
        if x.group_name:
            x.group = groups.find(x.group_name)
        if x.group is None:
            say("%s: line %d: no slide is in group %s; this limit holds for none" % (path, x.line, x.group_name))
        if not params:
            continue
        wide = params.high_db - params.low_db
        least, most = {"any": (-INF, INF), "from_0": (0, INF), "share": (0, 1), "mean_db": (params.low_db, params.high_db),
                       "std_db": (0, wide / 2), "difference_db": (-wide, wide), "distance_db": (0, wide)}[BY_NAME[x.number].range]
        for threshold in (x.warn, x.fail):
            if threshold >= most if x.above else threshold <= least:
                raise Bad("%s: line %d: %s lies between %g and %g, never %s %g" % (path, x.line, x.number, least, most, x.side, threshold))
