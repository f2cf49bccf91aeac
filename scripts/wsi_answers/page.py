"""What is written: the page with its data and pictures, the table of slides, the key of names, and custom content for MultiQC."""
import base64
import datetime
import hashlib
import html
import json
import math
import os
import re
import types

import jinja2
import numpy as np
from markupsafe import Markup

from .kinds import HALF, OTHER_HALF, SMALLER
from .limits import ANY
from .numbers import BY_NAME, FLAG, FLAGS, LEAST, NUMBERS, W1
from .reasons import FAIL, NOT_JUDGED, PASS, REVIEW, VERDICTS
from .scores import chance
from .texts import cell, counted, cut, printable, say, shown_path

HERE = os.path.dirname(os.path.realpath(__file__))
# page.css and page.js are beside this file where it is installed, and where h5spec embeds them in the source tree
FOLDERS = HERE, os.path.join(HERE, "..", "..", "process", "draw")
PER_BLOCK, MOST_PLAIN_ROWS, MOST_NAMES = 64, 5000, 12
SHAPES = [Markup(x) for x in ("&#9679;", "&#9675;", "&#9650;", "&#10005;")]    # of verdicts: not by colour alone
OTHERS = 50000    # bytes of a page beside its data: script and elements
ON_PAGE = [m for m in NUMBERS if m.on_page]
MOST_REASONS = 4095    # bytes in a table


def escaped(text):
    """A text of any origin, as text of HTML or as an attribute."""
    return html.escape(printable(text)).replace("&#x27;", "&#39;")


def joined(reasons):
    return cut("; ".join(x.text for x in reasons), MOST_REASONS)


# --- tables for other programs ---


def _number(x):
    return "%.10g" % x if math.isfinite(x) else ""


def _bare(name, verdict, reason, scored):
    """A row without numbers."""
    return "%s,,,,,%s,,%s,%s" % (cell(printable(name)), "," * (len(NUMBERS) + scored), verdict, cell(printable(reason)))


def csv_text(r):
    """--csv: a row per slide, per input without numbers, and per copy of another slide."""
    scored = [m.name for m in FLAGS if m.scored]
    V, n = r.slides.V, len(r.slides)
    lines = [",".join(["slide,group,resolution,windows,groups_missing,windows_damaged"] + [m.name for m in NUMBERS] +
                      ["z_" + name for name in scored] + ["other_kind,verdict,reasons"])]
    columns = [[_number(x) for x in values] for values in [V[m.name] for m in NUMBERS if n] + [r.scores.z[name] for name in scored if n]]
    for k in range(n):
        damaged = V["windows_damaged"][k]
        lines.append(",".join([
            cell(printable(r.names.slides[k])), cell(printable(r.names.groups[r.groups.of[k]])), cell(printable(r.pool_of(k).resolution)),
            "%d,%d,%s" % (V["windows"][k], V["groups_missing"][k], "%d" % damaged if damaged >= 0 else "")] + [x[k] for x in columns] +
            ["%d,%s,%s" % (r.kinds.other[k] == SMALLER, VERDICTS[r.verdicts[k]], cell(printable(joined(r.reasons[k]))))]))
    for name, reason in zip(r.names.failures, r.failure_reasons):
        lines.append(_bare(name, "fail", reason, len(scored)))
    for name, reason in [] if r.hide else r.copies:
        lines.append(_bare(shown_path(name), "copy", reason, len(scored)))
    return "\n".join(lines) + "\n"


def key_text(r):
    """--anonymous: which number is which slide, group or input."""
    rows = [["number", "slide", "result", "group", "group_name", "reason"]]
    rows += [[r.names.slides[k], name, r.files[r.slides.files[k]], r.names.groups[r.groups.of[k]], r.groups.names[r.groups.of[k]],
              r.slides.failed[k] or ""] for k, name in enumerate(r.slides.names)]
    rows += [[name, *failure, "", "", reason] for name, (*failure, reason) in zip(r.names.failures, r.failures)]
    return "".join(",".join(row if k == 0 else map(cell, row)) + "\n" for k, row in enumerate(rows))


SHOWN = ("focus_p50", "blurred_share", "stain_density", "tissue_fraction", W1)    # without being asked for: what a reader wants first


def multiqc_text(r):
    """--multiqc: custom content. MultiQC puts names into its page as they are, as HTML."""
    columns = [{"verdict": dict(title="verdict", namespace="h5spec", description="pass, not judged, review or fail")},
               {"reasons": dict(title="reasons", namespace="h5spec", description="why to look at the slide, the strongest reason first")}]
    columns += [{m.name: dict(title=m.title, namespace="h5spec", description=m.definition, format="{:,.%df}" % (3 if m.share else m.digits),
                              suffix="" if m.share else m.unit, **({} if m.name in SHOWN else {"hidden": True}))} for m in NUMBERS]
    data = {escaped(name): dict(verdict=VERDICTS[r.verdicts[k]], reasons=escaped(joined(r.reasons[k])), **{
        m.name: float(_number(r.slides.V[m.name][k])) for m in NUMBERS if math.isfinite(r.slides.V[m.name][k])})
        for k, name in enumerate(r.names.slides)}
    data.update({escaped(name): dict(verdict="fail", reasons=escaped(reason)) for name, reason in zip(r.names.failures, r.failure_reasons)})
    return json.dumps(dict(id="h5spec_statistics", plot_type="generalstats", pconfig=columns, data=data), ensure_ascii=False) + "\n"


# --- data for page.js ---


def _whole(x):
    """38, not 38.0."""
    return int(x) if x.is_integer() and abs(x) < 1e15 else x


def _fixed(x, digits):
    """With one digit more than the page shows, so that few slides are equal."""
    return _whole(float("%.*f" % (digits, x))) if math.isfinite(x) else None


def _short(x, digits):
    return _whole(float("%.*g" % (digits, x))) if math.isfinite(x) else None


def _as_json(value):
    """JSON that may lie within a script element."""
    return re.sub("[<>&]", lambda m: "\\u%04x" % ord(m[0]), json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _pool(r, q):
    def quartile(m, x):
        return _short(math.fmod(x + 360, 360) if m.angle else x, 5)
    return dict(label=printable(r.names.label(q)), n=len(q), counted=q.counted, m=[
        [q.summary[m.name].n] + [quartile(m, x) for x in (q.summary[m.name].q25, q.summary[m.name].q50, q.summary[m.name].q75)]
        for m in ON_PAGE if m.name != W1], below=_short(q.below, 5))


def _reason(x):
    place = [float("%.4f" % x.place.x), float("%.4f" % x.place.y)] if x.place else []
    return [printable(x.text), x.picture, *place]


def page_data(r):
    """Slides are columns."""
    V, n = r.slides.V, len(r.slides)

    def whole(name, factor=1):
        return [int(x) for x in np.floor(V[name] * factor + 0.5)] if n else []
    down, p = (V["downsample"] if n else 1), r.params
    return dict(
        metrics=[dict(name=m.name, title=m.title, unit=m.unit, digits=m.digits) for m in ON_PAGE],
        results="" if r.hide else printable(shown_path((r.folders or r.files or [""])[0])),
        window=p.window if p else 0, stride=p.stride if p else 0, pools=[_pool(r, q) for q in r.pools],
        names=[printable(name) for name in r.names.slides], windows=whole("windows"), width=whole("width", down), height=whole("height", down),
        nx=whole("nx"), ny=whole("ny"), damaged=whole("windows_damaged"), damagedTiles=whole("tiles_damaged"), partial=whole("groups_missing"),
        downsample=[_short(x, 9) for x in V["downsample"]] if n else [], bounds={} if r.no_bounds or not n else {k: [int(x), int(y)] for k, (x, y) in enumerate(zip(
            np.nan_to_num(V["bounds_x"]), np.nan_to_num(V["bounds_y"]))) if x or y}, pool=[int(x) for x in r.scores.pool],
        other=[int(x == SMALLER) for x in r.kinds.other], verdict=r.verdicts,
        m=[[_fixed(x, m.digits + (3 if m.share else 1)) for x in (V[m.name] if n else [])] for m in ON_PAGE],
        strength=[_whole(float("%.3g" % min(why[0].strength, 1e7))) if why else 0 for why in r.reasons],
        why={k: [_reason(x) for x in why] for k, why in enumerate(r.reasons) if why},
        failed=[[printable(name), printable(reason)] for name, reason in zip(r.names.failures, r.failure_reasons)])


# --- pictures ---


def _fit_pictures(r, album, room):
    """The pictures of each slide that fit, in the largest size that does, as "MAP THUMB"; and what the page says of it. Those of slides
    that pass go first."""
    looked_at = [k for k, v in enumerate(r.verdicts) if v >= REVIEW]
    choices = [(looked_at, "Pictures of slides that pass are left out: they do not fit into --max-size.")]
    if not album.late:    # with very many slides pictures are made of those alone that do not pass
        choices.insert(0, (range(len(r.slides)), ""))
    for chosen, note in choices:
        for size in range(album.sizes):
            if sum(album.bytes(k, size) for k in chosen) <= room:
                return {k: album.text(k, size) for k in chosen if album.bytes(k, size)}, note
    return {}, "No pictures fit into --max-size."


def _pictures(r, album, room):
    made, note = _fit_pictures(r, album, room)
    head = '<script type="application/json" id="pictures">%s</script>\n' % json.dumps(
        dict(per=PER_BLOCK, low=album.low, high=album.high, colours=album.colours, note=note), separators=(",", ":"))
    if note.startswith("No"):
        return head, ""
    blocks = []
    for first in range(0, len(r.slides), PER_BLOCK):
        lines = "".join(made.get(k, "") + "\n" for k in range(first, min(first + PER_BLOCK, len(r.slides))))
        blocks.append('<script type="text/plain" id="p%d">%s</script>\n' % (first // PER_BLOCK, lines))
    return head, "".join(blocks)


# --- the page ---


def _file(name):
    path = next(p for p in (os.path.join(f, name) for f in FOLDERS) if os.path.exists(p))
    with open(path, encoding="utf-8") as f:
        return f.read()


def _word(word):
    """A word of the command line as a shell takes it, without the folders of an absolute path."""
    equals = word.find("=") if word.startswith("-") else -1
    at = equals + 1 if equals >= 0 else 2 if re.match("-[^-]", word) else 0
    shown = shown_path(word[at:])
    return " " + word[:at] + (shown if word and re.fullmatch("[A-Za-z0-9_@%+=:,./-]*", shown) else "'%s'" % shown.replace("'", "'\\''"))


def _tally(r):
    V, n, failures = r.slides.V, len(r.slides), len(r.failures)

    def count(marks):
        return int(np.sum(marks)) if n else 0
    of = [r.verdicts.count(v) for v in range(4)]
    t = types.SimpleNamespace(
        all=n + failures, fail=of[FAIL] + failures, review=of[REVIEW], passes=of[PASS], unjudged=of[NOT_JUDGED],
        blurred=sum(v == REVIEW and why[0].unsharp for v, why in zip(r.verdicts, r.reasons)), other=count(r.kinds.other == SMALLER),
        empty=count(V["windows"] == 0) if n else 0, partial=count(V["groups_missing"] > 0) if n else 0,
        damaged=count((V["windows_damaged"] > 0) | (V["tiles_damaged"] > 0)) if n else 0)
    counts = [(t.all, "all", counted(t.all, "slide")), (t.fail, "fail", counted(t.fail, "fails", "fail")), (t.review, "review", "for review"),
              (t.passes, "pass", counted(t.passes, "passes", "pass")), (t.unjudged, "unjudged", "not judged"),
              (failures if of[FAIL] else 0, "failed", "without numbers"),
              (len(r.copies), "", counted(len(r.copies), "copy", "copies") + ", left out"), (t.other, "other", "of the smaller of two kinds"),
              (t.empty, "empty", "without a measured place"), (t.partial, "partial", "incomplete"), (t.damaged, "damaged", "with damaged tiles")]
    return t, [c for c in counts if c[0] or c[1] == "all"]


def _rows(r, whole):
    """Of the table without JavaScript: name, verdict, first reason."""
    rows = [(name, FAIL, reason) for name, reason in zip(r.names.failures, r.failure_reasons)]
    for v in (FAIL, REVIEW, NOT_JUDGED, PASS) if whole else (FAIL, REVIEW, NOT_JUDGED):
        rows += [(r.names.slides[k], v, r.reasons[k][0].text if r.reasons[k] else "") for k, x in enumerate(r.verdicts) if x == v]
    return [(name, SHAPES[v] + " " + VERDICTS[v], text) for name, v, text in rows]


def _kind(r, q):
    """The kinds that are named: the smaller one, or both halves, that of the first slide first."""
    halves = q.kind.other[q.kind.other >= HALF]
    shown = [halves[0], HALF + OTHER_HALF - halves[0]] if len(halves) else [SMALLER]
    names = [[r.names.slides[k] for k in q.index[q.kind.other == kind]] for kind in shown]
    return dict(vars(q.kind), label=r.names.label(q), lists=[x[:MOST_NAMES] for x in names], more=max(0, q.kind.others - MOST_NAMES))


def _limit(r, x):
    group = "" if x.group is ANY else "in a group that no slide is in" if x.group is None else "in group " + r.names.groups[x.group]
    return BY_NAME[x.number].title, x, group


def _hash(text):
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _render(r, data, whole):
    """A page without pictures; and its script, where they are put. Everything but style, script and data is escaped."""
    style, script, safe = _file("page.css"), _file("page.js"), Markup
    env = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    env.filters["p"] = lambda text: safe(escaped(text))    # every text that is not of this package
    tally, counts = _tally(r)
    compared, flags, expected = chance(r.pools, r.scores)
    text = env.from_string(_file("report.html")).render(
        policy=safe("default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src %s; script-src %s" % (
            _hash(style), _hash(script))),
        title=cut(r.title or "Quality of %d %s" % (tally.all, counted(tally.all, "slide")), 1023), style=safe(style), script=safe(script),
        n=tally, counts=counts, least=LEAST, left_out="" if r.hide else r.left_out, copies=[] if r.hide else [(shown_path(name), reason) for name, reason in r.copies],
        kinds=[_kind(r, q) for q in r.pools if q.kind],
        unknown=sum(len(q) for q in r.pools if q.unknown), unknown_apart=sum(q.unknown for q in r.pools) > 1 and not r.groups.asked,
        whole=whole, rows=_rows(r, whole), pools=len(r.pools), older=r.older, params=r.params, numbers=ON_PAGE, flag=FLAG,
        unscored=[(m, r.names.label(q)) for q in r.pools for m in FLAGS
                  if m.scored and q.summary[m.name].n >= LEAST and not q.summary[m.name].mad > 0],
        chance=dict(compared=compared, flags=flags, expected=expected), limits=[_limit(r, x) for x in r.limits],
        date=datetime.date.today().isoformat(), version=r.version, creators=r.creators,
        folders=[] if r.hide else [shown_path(f) for f in r.folders], command="" if r.hide else "".join(map(_word, r.words)),
        data=safe(data))
    return text, "<script>%s</script>\n" % script


def page_text(r, album, max_size):
    """The page as bytes, with less and less in it until it has at most max_size bytes; 0: no pictures, and no limit."""
    data = _as_json(page_data(r))
    for whole in (True, False):
        text, script = _render(r, data, whole and len(r.slides) <= MOST_PLAIN_ROWS)
        if album:
            before, _, after = text.rpartition(script)
            head, blocks = _pictures(r, album, max_size - len(before.encode("utf-8", "replace")) - OTHERS - 2 * len(r.slides))
            at = after.rindex("</body>")
            text = "".join((before, head, script, after[:at], blocks, after[at:]))
        page = text.encode("utf-8", "replace")
        if not max_size or len(page) <= max_size:
            return page
    say("%s: %d bytes, more than --max-size %d; a page of these slides cannot be smaller" % (r.output, len(page), max_size))
    return page
