"""Why to look at a slide, in words, the strongest first; the first reason has the slide's verdict.

fail        the slide has no numbers or those of an older run, touches damaged tiles, or breaks a limit
review      a number is beyond what is usual, a limit warns, or numbers are missing
not judged  none of its numbers could be compared, or its sharpness is not known, and no limit holds for it
pass        nothing of that
"""
import math
from dataclasses import dataclass

from .numbers import (BLACK, BLOCK, BLOCK_OFF, BY_NAME, DENSE, DOUBTFUL_TISSUE, EARLIER_GRID, ENLARGED_DB, ENLARGED_MAD, ENLARGED_PART,
                      ENLARGED_Z, FLAG, FLAGS, GRAIN, GRAY_OF_STAIN, LEAST, LEAST_BLACK, MOTION_ALONE, MOTION_LOST, MOTION_PART, NUMBERS, OF_MAP, OF_SLIDE,
                      SHARPNESS, TILES, USUAL_GLASS)
from .places import Place
from .texts import counted, cut

PASS, NOT_JUDGED, REVIEW, FAIL = range(4)
VERDICTS = ("pass", "not judged", "review", "fail")
HIDDEN = "not shown, because it may contain names; see the key"

# Strengths of reasons that are no numbers, which come before those that are; OF_CAUSE is added to that of a number that names the cause.
OF_FAILURE, OF_LIMIT, OF_KIND, OF_CAUSE, OF_NOTE = 2e6, 1e6, 5e5, 1e3, 0.0
MOST_BYTES = 511    # of a reason


@dataclass
class Reason:
    verdict: int         # PASS: only a note
    strength: float      # how far beyond what is usual: above 1
    text: str
    picture: int = 0     # the picture that shows it
    place: object = None     # places.Place
    unsharp: bool = False    # it is that tissue is blurred or less sharp


def shown(name, x):
    """ "-33.1 dB", "12 %": as many digits as a reader uses."""
    m = BY_NAME[name]
    if not m.share:
        return "%.*f%s" % (m.digits, x, m.unit)
    percent = math.floor(100 * x + 0.5)
    return "less than 1 %" if x > 0 and percent < 1 else "more than 99 %" if x < 1 and percent > 99 else "%.0f %%" % percent


def direction(deg):
    """Of an angle, 0 along the rows."""
    if deg < 22.5 or deg >= 157.5:
        return "along the rows"
    if deg < 67.5:
        return "obliquely, from the upper left to the lower right"
    return "along the columns" if deg < 112.5 else "obliquely, from the lower left to the upper right"


def doubts_tissue(share):
    """What a tissue map shows that may be wrong; ""."""
    if share > 1 - DOUBTFUL_TISSUE:
        return "no glass"
    return "no tissue" if share == 0 else "only %.2g %% tissue" % (100 * share) if share < DOUBTFUL_TISSUE else ""


class Slide:
    """A slide beside its group: v[name] is a number of it, flag[name] how far that is beyond what is usual (0: not), usual[name] the
    median of its pool. The facts below follow from these."""

    def __init__(self, slides, scores, kinds, pools, k):
        self.k, self.pool, self.name = k, pools[scores.pool[k]], slides.names[k]
        self.v, self.z = _Row(slides.V, k), _Row(scores.z, k)
        self.lone, self.accepted = kinds.lone[k], bool(scores.accepted[k])
        kind = self.pool.kind
        self.flag = {m.name: x if (x := float(scores.excess[m.name][k])) > 1 and not (kind and kind.number == m.name) else 0 for m in FLAGS}
        self.usual = _Usual(self.pool.summary)

    def is_low(self, *names):
        """Is one of these numbers unusually low?"""
        return any(self.z[m] < 0 and self.flag[m] > 0 for m in names)

    @property
    def density(self):
        """How many times as dense as usual its stain is, if that is a flag; 1."""
        return self.v["stain_density"] / self.usual["stain_density"] if self.flag["stain_density"] > 0 else 1

    @property
    def is_dense(self):
        """Does a dense stain make what is dark? No stain is DENSE times as dense: that is black."""
        return 1 < self.density < DENSE

    @property
    def is_weak(self):
        """Is most of its tissue less sharp than that of the others?"""
        return self.is_low("sharp_p50", "focus_p50")

    @property
    def is_underexposed(self):
        """Is all of it darker than the others?"""
        return self.is_low("gray_high", "glass_gray")

    @property
    def is_blurred(self):
        return self.flag["blurred_share"] > 0 or self.is_low(*SHARPNESS)

    @property
    def has_cause(self):
        """Does another number name the cause of what the finest detail is like?"""
        return any(self.flag[m.name] > 0 and not m.sharpness and m.name not in ("blurred_share", "tissue_fraction") for m in FLAGS)

    @property
    def has_earlier_grid(self):
        """Do the borders of an earlier JPEG's blocks show, beside those of this one?"""
        return self.v["glass_grid"] > EARLIER_GRID

    def scanner_remedy(self, remedy):
        """What helps against a cause in the scanner. A file that was compressed before is not the scanner's own: what happened to it comes
        first."""
        if self.has_earlier_grid or self.v["jpeg_twice"] > BY_NAME["jpeg_twice"].most:
            return "the file was compressed before, so look at the scanner's own file first"
        return remedy

    def says_blur(self, name):
        """Does this number say that it is not sharp?"""
        return name == "blurred_share" or name in SHARPNESS and self.z[name] < 0

    def names_cause(self, name):
        """An enlarged picture has darker nuclei and may have no glass, and a bubble has a dark rim."""
        if name == "gray_low":
            return not self.is_blurred or self.density >= DENSE
        return not self.is_weak if name == "gray_high" else BY_NAME[name].specific

    @property
    def sharpness_said(self):
        """A fact is said once: the number that stands for its sharpness."""
        if self.flag["blurred_share"] > 0 and (not self.is_weak or self.v["blurred_share"] >= 0.5):
            return "blurred_share"
        return next((m for low in (True, False) for m in SHARPNESS if (self.z[m] < 0) == low and self.flag[m] > 0), None)

    @property
    def motion(self):
        """How far beyond what is usual motion is. It takes detail away in one direction, and not much more than that in all others.
        Cells that lie one way do not: only a difference of MOTION_ALONE dB is motion where detail is not lost as well. Stages move along
        rows and columns, cells lie in any direction: obliquely, twice that is needed, and the loss."""
        lost_4, lost_7 = (self.usual[m] - self.v[m] for m in ("detail_4px_db", "detail_7px_db"))
        directed = self.v["direction_db"] - self.usual["direction_db"]
        oblique = 22.5 <= math.fmod(self.v["direction_deg"], 90) < 67.5
        if oblique and (lost_4 < MOTION_LOST or directed < 2 * MOTION_ALONE):
            return 0
        if not (lost_4 >= 0 and (lost_4 >= MOTION_LOST or directed >= MOTION_ALONE) and
                directed >= max(BY_NAME["direction_db"].least, MOTION_PART * (lost_4 + lost_7) / 2)):
            return 0
        flag, z = self.flag["direction_db"], self.z["direction_db"] / FLAG    # where tissue is blurred, a z above FLAG says why
        return z if flag == 0 and z > 1 and self.is_blurred else flag

    @property
    def is_alone(self):
        """Is it alone with its stain and its detail, and is no other cause known? Dark nuclei and a brown stain count as gray and as ink
        among slides without them."""
        if self.accepted or self.v["gray_share"] > GRAY_OF_STAIN:
            return False
        cause = any(self.flag[m.name] > 0 and not m.stain_kind and m.name not in ("gray_share", "ink_share") and self.names_cause(m.name)
                    for m in FLAGS)
        return not cause and self.lone > 0

    def is_implied(self, m, alone, said):
        """Does another reason say what this number would say?"""
        if any(self.flag[x] > 0 if x in self.flag else getattr(self, x) for x in m.implied_by):
            return True
        return (alone and m.stain_kind) or ((m.name == "blurred_share" or m.sharpness > 0) and m.name != said)

    def beside_usual(self, name):
        """ "noise of the glass 0.80 levels, usually 0.25 levels" """
        return "%s %s, usually %s" % (BY_NAME[name].title, shown(name, self.v[name]), shown(name, self.usual[name]))


class _Row:
    """An element of each column."""

    def __init__(self, columns, k):
        self._columns, self._k = columns, k

    def __getitem__(self, name):
        x = self._columns[name][self._k]
        return x if getattr(x, "ndim", 0) else float(x)


class _Usual:
    """The median of each number."""

    def __init__(self, summary):
        self._summary = summary

    def __getitem__(self, name):
        return self._summary[name].q50


# --- numbers that have words of their own: each returns the reasons that the number is ---


def _blurred(s, m, excess, places):
    p, share = places.get("blurred"), s.v[m.name]
    where = " " + p.where if share < 0.5 and p and p.where else ""
    why = "" if share < 0.5 else ": out of focus, or enlarged by a wrong um per px"
    return [Reason(REVIEW, excess, "tissue blurred%s, %s of it%s" % (where, shown(m.name, share), why), m.picture, p, True)]


def _gray(s, m, excess, places):
    if s.flag["colourless_share"] > 0:
        return []
    what = ("black: lost tiles or a black pen; if it is no pen, compare the file with the scanner's own, and scan it again"
            if s.v["gray_low"] < BLACK else
            "gray: lost tiles, dust or a bubble; compare the file with the scanner's own, or clean the slide and scan it again")
    return [Reason(REVIEW, excess + OF_CAUSE, "areas without any colour, %s of the slide, %s" % (shown(m.name, s.v[m.name]), what), m.picture)]


def _ink(s, m, excess, places):
    return [Reason(REVIEW, excess + OF_CAUSE, "areas in a colour that the stain does not have, %s of the slide: pen, ink, dirt or pigment"
                   % shown(m.name, s.v[m.name]), m.picture)]


def _light(s, m, excess, places):
    """All channels of the glass change alike with the exposure."""
    step, at = s.v["light"], s.v["light_at"]
    across, tint = math.isnan(at[0]), max(step) - min(step) > s.v[m.name] / 2
    text = "the glass is %s on the %s by %.0f levels: the %s changed during the scan; %s" % (
        "of another colour" if tint else "brighter" if step[0] + step[1] + step[2] > 0 else "darker", "lower part" if across else "right",
        s.v[m.name], "white balance" if tint else "exposure", s.scanner_remedy("scan it again"))
    return [Reason(REVIEW, excess + OF_CAUSE, text, m.picture, Place(0.5, float(at[1])) if across else Place(float(at[0]), 0.5))]


def _colourless(s, m, excess, places):
    return [Reason(REVIEW, excess + OF_CAUSE, "tissue without colour: a gray picture, or black tiles (%.0f %% of the tissue)"
                   % (100 * s.v[m.name]), m.picture)]


def _dark_place(s, m, excess, places):
    black = s.v["gray_share"] >= LEAST_BLACK
    what = "and black: lost tiles or a black pen" if black else "and coloured: a pen, or dense stain as in a fold"
    return [Reason(REVIEW, excess + (OF_CAUSE if s.names_cause(m.name) else 0),
                   "an area is far darker than anything on the others, %s; look at it (%s)" % (what, s.beside_usual(m.name)), m.picture)]


def _glass_gray(s, m, excess, places):
    if not math.isnan(s.z[m.name]):
        return _unusual(s, m, excess, places)
    return [Reason(REVIEW, excess + OF_CAUSE, "dark glass: lamp or exposure; calibrate the white (brightness of the glass %.0f of 255)"
                   % s.v[m.name], m.picture)]


def _twice(s, m, excess, places):
    return [Reason(REVIEW, excess, "compressed twice: fine detail may be lost (signs of it: %.2f of 1)" % s.v[m.name], m.picture)]


def _glass_lines(s, m, excess, places):
    along = "rows" if s.v["glass_rows"] > s.v["glass_columns"] else "columns"
    if math.isnan(s.v["glass_grid"]):    # of an earlier version
        what = "an earlier compression on another grid, or the scanner; convert and run it again with --force, which tells these apart"
    else:
        what = s.scanner_remedy("line camera or stage of the scanner; send the scanner to service if other slides of its own have them")
    return [Reason(REVIEW, excess + OF_CAUSE, "lines along the %s on the glass: %s (%s of the glass)" % (along, what, shown(m.name, s.v[m.name])),
                   m.picture)]


def _glass(s, m, excess, places):
    """The glass is not as even as that of the others, and not because of lines."""
    if not s.z[m.name] > 0:
        return _unusual(s, m, excess, places)
    if s.flag["glass_lines"] > 0:
        return []
    what = ("the glass is less even than that of the others: compressed before, on another grid" if s.has_earlier_grid else
            "the glass is noisier than that of the others: sensor, too little light, or oblique lines" if s.v["glass_grain"] >= GRAIN else
            "the glass is less even than that of the others: shading of fields, or coarse noise")
    return [Reason(REVIEW, excess + OF_CAUSE, "%s (%s)" % (what, s.beside_usual(m.name)), m.picture)]


def _lines(s, m, excess, places):
    """Codecs work on blocks of 8, 16 and 32 px: what is periodic there is compression."""
    period = s.v["lines_period_px"]
    blocks = period / BLOCK
    if math.floor(blocks + 0.5) >= 1 and abs(blocks - math.floor(blocks + 0.5)) < BLOCK_OFF * blocks:
        return [Reason(PASS, OF_NOTE, "compressed in blocks of %.0f px, which show in the picture" % period)]
    um = " (%.2g um)" % (period * s.v["um"]) if s.v["um"] > 0 else ""
    return [Reason(REVIEW, excess + OF_CAUSE, "a pattern of lines every %.3g px%s, %s, %.1f dB above its surroundings: resized by "
                   "software, line camera or stage of the scanner, or cracks; %s" % (
                       period, um, direction(s.v["lines_deg"]), s.v[m.name],
                       s.scanner_remedy("send the scanner to service if other slides of its own have it")))]


OF_TILES = "tiles of the file's compression show in the picture"


def _seams(s, m, excess, places):
    """Results of an earlier version do not know which seams are of tiles."""
    words, at, of_tiles = [], [0.5, 0.5], math.isnan(s.v["tile_seam_rows"] + s.v["tile_seam_columns"])
    for k, (what, axis, size, tile) in enumerate((("column", "x", "width", "chunk_cols"), ("row", "y", "height", "chunk_rows"))):
        n, px, ends = s.v["seam_%ss" % what], s.v["seam_%s_px" % axis], s.v[tile]
        if not n > 0:
            continue
        level_0 = math.floor((px + 1) * s.v["downsample"]) - 1    # the last px before it, as on maps and on the page
        words.insert(0, "%.0f %s of pixels, the clearest at %s = %.0f px" % (n, counted(n > 1 and 2 or 1, what), axis, level_0))
        at[k] = px / s.v[size]
        of_tiles &= px > 0 and any((int(px) + 1) % t == 0 for t in ((int(ends),) if ends > 0 else TILES))
    if of_tiles:
        return [Reason(PASS, OF_NOTE, OF_TILES)]
    return [Reason(REVIEW, excess + OF_CAUSE, "straight edges through the tissue along %s: seams of stitched fields, cracks or lost tiles; "
                   "%s" % (", and ".join(words), s.scanner_remedy("scan it again")), m.picture, Place(*at))]


def _motion(s, m, excess, places):
    return [Reason(REVIEW, excess + OF_CAUSE, "motion or a colour fringe: detail is weaker %s than across (%.1f dB, usually %.1f): the stage "
                   "shook or the slide moved; %s" % (direction(s.v["direction_deg"]), s.v[m.name], s.usual[m.name],
                                                     s.scanner_remedy("scan it again")))]


def _unusual(s, m, excess, places):
    """ "tissue less sharp than in the others (sharpness, typical -33.1 dB, usually -27.0 dB)": every other number."""
    low = s.z[m.name] < 0
    text = (m.low if low else m.high) or "unlike the others"    # beyond a limit of its own
    if m.name == "stain_density" and s.density >= DENSE:
        text = "%s times as dense as the stain of the others: black tiles, or pen"
    if m.ratio and "%s" in text:
        text = text.replace("%s", "%.2g" % (s.v[m.name] / s.usual[m.name]))
    place = places.get("dull" if m.name == "focus_p50" and low else m.place)
    return [Reason(REVIEW, excess + (OF_CAUSE if s.names_cause(m.name) else 0), "%s (%s)" % (text, s.beside_usual(m.name)), m.picture, place,
                   low and m.name in ("focus_p50", "sharp_p50", "sharp_p05", "pieces_sharp"))]


OWN_WORDS = {"blurred_share": _blurred, "gray_share": _gray, "ink_share": _ink, "light_step": _light, "colourless_share": _colourless,
             "gray_low": _dark_place, "glass_gray": _glass_gray, "jpeg_twice": _twice, "glass_lines": _glass_lines, "lines_db": _lines,
             "seams": _seams, "direction_db": _motion, "glass_std": _glass}


def _enlarged(s):
    """Detail of 4 px is lost, that of 7 px is not: no lens does that."""
    fine = s.pool.summary["detail_4px_db"]
    lost, lost_7 = fine.q50 - s.v["detail_4px_db"], s.usual["detail_7px_db"] - s.v["detail_7px_db"]
    z = 0.6745 * lost / (ENLARGED_MAD if math.isnan(fine.mad) else max(fine.mad, ENLARGED_MAD))
    if fine.n < LEAST or not (z > ENLARGED_Z and lost > ENLARGED_DB and lost_7 < ENLARGED_PART * lost):
        return []
    return [Reason(REVIEW, z / ENLARGED_Z + OF_CAUSE, "enlarged by software, or the wrong um per px is stated: detail of 4 px is %.1f dB weaker "
                   "than in the others, that of 7 px only %.1f" % (lost, lost_7))]


def _of_numbers(s, places):
    """What is unusual. What has a cause is not called blurred."""
    alone, motion, said = s.is_alone, s.motion, s.sharpness_said
    why = [] if alone else _enlarged(s)
    explained = bool(why) or motion > 0
    if alone:
        why.append(Reason(REVIEW, s.lone + OF_KIND, "unlike all other slides in stain and detail together: another stain, tissue or "
                          "magnification? Judge it apart (%s; %s)" % (s.beside_usual("stain_hue"), s.beside_usual("sharp_p50")), OF_SLIDE))
    for m in FLAGS:
        excess = motion if m.name == "direction_db" else s.flag[m.name]
        if excess > 0 and not s.is_implied(m, alone, said) and not (explained and s.says_blur(m.name)):
            why += OWN_WORDS.get(m.name, _unusual)(s, m, excess, places)
    return why


# --- limits, and what a slide lacks ---


def _of_limits(s, limits):
    """Of all limits on one side of a number the one that matters most: one that fails before one that warns, and the farthest of these."""
    why = []
    for m in NUMBERS:
        mine, x = [limit for limit in limits if limit.number == m.name], s.v[m.name]
        for above in (False, True):
            worst = None
            for limit in mine:
                fails = limit.breaks(x, limit.fail)
                threshold = limit.fail if fails else limit.warn
                if limit.above == above and limit.breaks(x, threshold) and (
                        not worst or fails > worst[0] or fails == worst[0] and limit.breaks(threshold, worst[1])):
                    worst = fails, threshold
            if worst:
                why.append(Reason(FAIL if worst[0] else REVIEW, OF_LIMIT, "%s is %s, %s the limit of %g%s" % (
                    m.title, shown(m.name, x), "above" if above else "below", worst[1] * (100 if m.share else 1), m.unit), m.picture))
        if mine and math.isnan(x):
            why.append(Reason(REVIEW, OF_LIMIT, "%s is not known, and has a limit" % m.title))
    return why


def _of_lacks(s, params, limits, failed, places):
    v, why = s.v, []
    if failed:
        why.append(Reason(FAIL, OF_FAILURE, "its numbers are of an older run; the last one failed: %s" % failed))
    if v["nx"] * v["ny"] == 0:
        why.append(Reason(REVIEW, OF_LIMIT, "too small to measure: %d x %d px, and one measured place needs %d px" % (
            v["width"], v["height"], params.window)))
    elif v["windows"] == 0:
        why.append(Reason(REVIEW, OF_LIMIT, "no numbers: " + (
            "no place of the parts at hand was measured" if v["groups_missing"] else "no place inside the regions was measured" if params.roi
            else "no place has enough tissue" if params.tissue_only else "no place was measured")))
    if v["windows_damaged"] > 0:
        p = places.get("damaged")
        why.append(Reason(FAIL, OF_LIMIT, "damaged%s: %d of %d places touch tiles that cannot be read" % (
            " " + p.where if p else "", v["windows_damaged"], v["nx"] * v["ny"]), OF_MAP, p))
    elif v["tiles_damaged"] > 0:
        why.append(Reason(FAIL, OF_LIMIT, "damaged: %d %s cannot be read" % (v["tiles_damaged"], counted(v["tiles_damaged"], "tile"))))
    if v["groups_missing"] > 0:
        why.append(Reason(REVIEW, OF_LIMIT, "incomplete: %d of %d parts are missing" % (v["groups_missing"], v["group_count"])))
    tissue = v["tissue_fraction"]
    if doubts_tissue(tissue):
        why.append(Reason(REVIEW if _decides_alone(s) else PASS, OF_NOTE, "the tissue map shows %s and may be wrong" % doubts_tissue(tissue),
                          OF_SLIDE))
    if math.isnan(tissue):
        why.append(Reason(PASS, OF_NOTE, "there is no tissue map: sharpness is that of all places"))
    if v["tile_seam_rows"] + v["tile_seam_columns"] > BY_NAME["seams"].most:
        why.append(Reason(PASS, OF_NOTE, OF_TILES, OF_SLIDE))
    if s.has_earlier_grid:
        why.append(Reason(PASS, OF_NOTE, "compressed before, on another grid of blocks: cut out of a JPEG slide, or tiled anew", OF_SLIDE))
    if not v["brightfield"]:
        why.append(Reason(PASS, OF_NOTE, "no bright background (fluorescence?): stain, ink, light and glass are not judged"))
    if v["windows"] > 0 and math.isnan(v["focus_p50"]):
        pieces = not math.isnan(s.z["pieces_sharp"])
        why.append(Reason(PASS if pieces or limits else NOT_JUDGED, OF_NOTE, "sharpness is %s: no place is half tissue" % (
            "that of small pieces" if pieces else "not known")))
    return why


def _decides_alone(s):
    """Does the tissue map decide something for this slide and not for its group? A map without glass does where glass is usual and much
    of the others, one without tissue where tissue is usual."""
    of = s.pool.summary["tissue_fraction"]
    if s.v["tissue_fraction"] > 0.5:
        return of.n >= LEAST and of.q75 < USUAL_GLASS
    return of.n < LEAST or not doubts_tissue(of.q50)


def _is_judged(s, limits):
    return bool(limits) or not math.isnan(s.v["blurred_share"]) or any(not math.isnan(s.z[m.name]) for m in FLAGS)


def _not_judged(s, several_groups):
    lacks = s.pool.lacks
    if lacks <= 0:
        return Reason(NOT_JUDGED, OF_LIMIT, "none of its numbers could be compared")
    return Reason(NOT_JUDGED, OF_LIMIT, "%d more %s%s of this %s %s needed" % (
        lacks, "accepted " if s.pool.accepted else "", counted(lacks, "slide"), "group and resolution" if several_groups else "resolution",
        counted(lacks, "is", "are")))


def find_reasons(s, params, limits, places=None, failed=None, several_groups=False):
    """The reasons of a slide, the strongest first. `limits`: those that hold for it; `failed`: why its last run failed."""
    places = places or {}
    why = _of_limits(s, limits) + _of_numbers(s, places) + _of_lacks(s, params, limits, failed, places)
    if not any(x.verdict > NOT_JUDGED for x in why) and not _is_judged(s, limits):
        why.append(_not_judged(s, several_groups))
    for x in why:
        x.text = cut(x.text, MOST_BYTES)
    return sorted(why, key=lambda x: (-x.verdict, -x.strength))
