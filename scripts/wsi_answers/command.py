"""The steps of a report, in order; each takes what those before it have made."""
import os
import signal
import types

from . import page
from .groups import find_pools, group_slides, name_all
from .h5spec import Album, Ended, H5spec
from .kinds import Kinds
from .limits import place_limits, read_limits
from .places import find_places, letters, wanted
from .reasons import FAIL, HIDDEN, NOT_JUDGED, PASS, REVIEW, VERDICTS, Slide, find_reasons
from .scores import Scores, find_accepted
from .tables import Params, read_slides, read_table
from .texts import Bad, base_name, counted, read_names, say


def bare_reason(name, reason):
    """Why a slide failed, without "SLIDE: " or "SLIDE to STORE: " in front."""
    for n in filter(None, (name, base_name(name))):
        rest = reason[len(n):] if reason.startswith(n) else ""
        if rest.startswith(" to ") and ": " in rest:
            rest = rest[rest.index(": "):]
        if rest.startswith(": "):
            return rest[2:]
    return reason


def compare(slides, groups, names=()):
    """Pools, scores and kinds of slides; `names`: those of good slides."""
    pools, pool = find_pools(slides, groups)
    accepted, unknown = find_accepted(slides, names)
    scores = Scores(slides, pools, pool, accepted)
    return pools, scores, Kinds(slides, pools, scores), unknown


def find_verdicts(slides, groups, pools, scores, kinds, limits=(), places=None, hide=False):
    """The reasons and the verdict of each slide."""
    reasons = []
    for k in range(len(slides)):
        failed = slides.failed[k] and (HIDDEN if hide else slides.failed[k])
        reasons.append(find_reasons(Slide(slides, scores, kinds, pools, k), slides.params, [x for x in limits if x.holds(groups.of[k])],
                                    places and places[k], failed, len(groups.names) > 1))
    return reasons, [why[0].verdict if why else PASS for why in reasons]


def judge(table, meta=None, group=None, limits=None, accepted=None):
    """Name, verdict and reasons in words of each slide of a table of h5spec merge; the others are the options of h5spec report. Places
    are not looked for."""
    slides = read_table(table)
    groups, given = group_slides(slides, meta, group, [table]), read_limits(limits)
    place_limits(limits, given, groups, slides.params)
    pools, scores, kinds, _ = compare(slides, groups, read_names(accepted) if accepted else ())
    reasons, verdicts = find_verdicts(slides, groups, pools, scores, kinds, given)
    return [(name, VERDICTS[v], [x.text for x in why]) for name, v, why in zip(slides.names, verdicts, reasons)]


def _read(h5spec):
    """The slides of all tables: that of h5spec, and those among the inputs."""
    i, tables, chosen = h5spec.input, {}, []
    for file, row, in_table, missing, failed, _ in i.slides:
        key = file if in_table else -1
        tables[key] = os.fsencode(i.files[file]) if in_table else h5spec.rows
        chosen.append((key, row, file, missing, failed))
    return read_slides(tables, Params(i.params) if hasattr(i, "params") else None, chosen)


def _look_for_places(h5spec, slides, pools, scores):
    """The places of each slide, and how many slides cannot be read again."""
    places, bad = [{} for _ in range(len(slides))], 0
    for k in range(len(slides)):
        what = wanted(scores, slides.V, k)
        maps = h5spec.maps(k, letters(what)) if what else None
        bad += bool(what) and maps is None
        if maps:
            q, size = pools[scores.pool[k]], (slides.V["width"][k], slides.V["height"][k])
            places[k] = find_places(slides.params, maps, what, size, q.below, q.summary["stain_hue"].q50)
    return places, bad


def _make_album(h5spec, verdicts):
    """Pictures of the slides that show them, and how many slides cannot be read again. With very many slides only those have pictures
    that do not pass."""
    described, bad = [x[-1] for x in h5spec.input.slides], 0
    for k, v in enumerate(verdicts):
        if h5spec.input.late and v >= REVIEW:
            described[k] = h5spec.pictures(k)
            bad += described[k] is None
    return Album(h5spec, described), bad


def report(h5spec):
    """Judges the slides that h5spec has read, writes the page and what else is asked for."""
    i = h5spec.input
    hide, given, slides = bool(i.key), read_limits(i.limits), _read(h5spec)
    groups = group_slides(slides, i.meta, i.group, i.files, hide)
    names = name_all(slides, groups, [x[0] for x in i.failures], hide, own_first=bool(i.meta or not i.group))
    place_limits(i.limits, given, groups, slides.params)
    pools, scores, kinds, unknown = compare(slides, groups, read_names(i.accepted) if i.accepted else ())
    if unknown:
        n = len(unknown)
        say("%s: %d %s that no result has%s: %s" % (i.accepted, n, counted(n, "name"), "" if n == 1 else ", the first", unknown[0]))
    places, unread = _look_for_places(h5spec, slides, pools, scores)
    reasons, verdicts = find_verdicts(slides, groups, pools, scores, kinds, given, places, hide)
    album, without = _make_album(h5spec, verdicts) if i.pictures else (None, 0)
    r = types.SimpleNamespace(
        output=i.output, title=i.title, files=i.files, folders=i.folders, words=i.words, version=i.version, creators=i.creators, older=i.older,
        left_out=i.left_out, no_bounds=i.no_bounds, hide=hide, params=slides.params, slides=slides, groups=groups, names=names, limits=given, pools=pools,
        scores=scores, kinds=kinds, reasons=reasons, verdicts=verdicts, failures=i.failures, copies=i.copies,
        pool_of=lambda k: pools[scores.pool[k]],
        failure_reasons=[HIDDEN if hide else bare_reason(name, reason) for name, _, reason in i.failures])
    for what, wish, make in (("key", i.key, page.key_text), ("csv", i.csv, page.csv_text), ("multiqc", i.multiqc, page.multiqc_text)):
        if wish:
            h5spec.write(what, make(r).encode("utf-8", "surrogateescape"))
    h5spec.write("output", page.page_text(r, album, i.max_size))    # last: when it exists, so do the others
    found = [verdicts.count(v) for v in (PASS, NOT_JUDGED, REVIEW, FAIL)]
    h5spec.done(found[:3] + [found[3] + len(i.failures)], i.bad + unread + without)


def _stop(number, frame):
    raise Ended


def serve(fd):
    """For h5spec, at the other end of a socket. Returns the exit status."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        report(H5spec(fd))
    except Bad as e:
        say(str(e))
        return 1
    except Ended:
        return 3
    except MemoryError:
        say("out of memory")
        return 5
    except (OSError, KeyError) as e:    # of a table that has changed since h5spec has checked it, or of this package
        say("wsi_answers: %s" % e)
        return 5
    return 0
