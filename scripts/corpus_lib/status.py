"""What `status` reports: counts, what failed and why, and what the merged results hold."""
import collections
import os
import re
import shlex
import sys

from corpus_lib.files import DAMAGED, DONE, PART, TROUBLE, counted
from corpus_lib.outcome import BAD, COPY, HURT, INTERRUPTED, SICK, STATES, TO_DO, State, state_of

EXAMPLES = 3  # slides that are named per reason of a failure that is not the slide's


def failure(corpus, slide, st, r=None):
    """One failure as status --json gives it."""
    row = {"slide": slide, "stage": st.stage, "state": st.state, "reason": st.reason}
    if r and r.what and r.message in st.reason and r.message:
        row.update(host=r.host, run=int(r.run or 0), time=r.time, log=r.log)
    return row


def status_of(corpus, active, held=()):
    """All slides, looked at once. `active`: tasks at work; None: not known."""
    counts, to_do, failed, damaged, copies = dict.fromkeys(STATES, 0), [], [], [], []
    converted = processed = pending = stale = remaining = 0
    versions = collections.Counter()
    for r in corpus.records:
        now = corpus.now(r)
        st = state_of(corpus, r, now)
        if active and st.state in (INTERRUPTED, SICK):
            st = State(TO_DO, st.stage, "")
        counts[st.state] += 1
        converted += now.remains != "convert"
        remaining += now.remains != ""
        if not now.remains:
            processed += st.state not in (BAD, COPY)
            pending += r.merged != now.result
            stale += r.merged not in ("", now.result)  # without its record it is only not known
            versions[r.version] += 1
        if st.state == TO_DO:
            to_do.append({"slide": r.slide, "stage": st.stage})
        elif st.state == COPY:
            copies.append(failure(corpus, r.slide, st))
        elif st.state == HURT:
            damaged.append(failure(corpus, r.slide, st))
        elif st.state != "done":
            failed.append(failure(corpus, r.slide, st, r))
    for path, problem in sorted(corpus.settings.get("rejected", {}).items()):
        counts[BAD] += 1
        failed.append(failure(corpus, path, State(BAD, "input", problem)))
    merged = corpus.settings.get("merged", {})
    in_merged = sum(m["slides"] for m in merged.values())
    current = (not pending and in_merged == processed
               and all(os.path.exists(corpus.path(name)) for name in merged))
    rows = [{"file": corpus.path(name), "slides": m["slides"], "current": current, "um_per_px": m["um_per_px"]}
            for name, m in sorted(merged.items()) if os.path.exists(corpus.path(name))]
    one = [{k: row[k] for k in ("file", "slides", "current")} for row in rows if row["file"] == corpus.path("corpus.h5")]
    problem = corpus.run.get("problem")
    if merged and in_merged != processed and not (problem or pending or remaining):
        problem = "the merged files hold %s, but %d were processed; run again" % (counted(in_merged, "slide"), processed)
    lost = in_merged != processed or stale or not all(os.path.exists(corpus.path(name)) for name in merged)
    if active == 0 and processed and lost and not (problem or to_do or remaining):
        problem = "%s in no merged file that is up to date: the last step is missing, or its job was lost; run again, or: " \
            "wsi-corpus finish -o %s" % (counted(processed, "processed slide"), shlex.quote(corpus.out))
    return {"out": corpus.out, "run": corpus.number or None, "active_tasks": active, "slides": sum(counts.values()),
            "converted": converted, "processed": processed, "states": counts, "to_do": to_do, "failed": failed,
            "reasons": reasons_of(failed), "nodes": nodes_of(failed), "damaged": damaged, "copies": copies, "held": list(held),
            "withdrawn": sum(m.startswith("path ") for m in corpus.withdrawn), "problems": [problem] if problem and not active else [],
            "passed_over": corpus.settings.get("passed_over", []),
            "versions": dict(versions), "corpus": one[0] if one and len(rows) == 1 else None, "merged": rows,
            "kept_apart": len(rows) > 1}


def kind_of(text, slide):
    """A reason without what differs from slide to slide."""
    text = text.replace(slide, "").lstrip(": ")
    return re.sub(r"\S*/\S+: ", "", re.sub(r"\d+", "N", text))[:200]


def reasons_of(failed):
    """[{"state", "stage", "reason", "host", "slides", "examples"}], most slides first."""
    found = {}
    for f in failed:
        at = (f["state"], f["stage"], kind_of(f["reason"], f["slide"]), f.get("host", ""))
        found.setdefault(at, []).append(f)
    rows = [{"state": state, "stage": stage, "reason": bare_reason(rows[0]),
             "host": host, "slides": len(rows), "examples": [f["slide"] for f in rows[:EXAMPLES]],
             "log": rows[0].get("log", "")} for (state, stage, _, host), rows in found.items()]
    return sorted(rows, key=lambda row: -row["slides"])


def nodes_of(failed):
    """{host: {state: slides}} of what is not the slides' fault."""
    nodes = {}
    for f in failed:
        if f.get("host") and f["state"] != BAD:
            at = nodes.setdefault(f["host"], {SICK: 0, INTERRUPTED: 0})
            at[f["state"]] += 1
    return nodes


# --- printing ---

def headline(st):
    """The status in one line."""
    text = "%d of %d slides converted, %d processed, %d to do, %d failed, %d damaged" % (
        st["converted"], st["slides"], st["processed"], len(st["to_do"]), len(st["failed"]), len(st["damaged"]))
    if st["copies"]:
        text += ", %d %s" % (len(st["copies"]), "copy" if len(st["copies"]) == 1 else "copies")
    if st["withdrawn"]:
        text += ", %d withdrawn" % st["withdrawn"]
    if st.get("scheduler"):
        return text + "; the scheduler does not answer, so what is at work is not known"
    return text + ("; %s queued or running" % counted(st["active_tasks"], "task") if st["active_tasks"] else "")


def print_failures(st):
    """Bad slides one by one; what is the node's fault by reason and by node."""
    for row in st["failed"]:
        if row["state"] == BAD:
            print("failed (%s): %s: %s%s" % (
                row["stage"], printable(row["slide"]), printable(bare_reason(row)),
                " [%(host)s, run %(run)d, %(time)s, %(log)s]" % row if row.get("log") else ""))
    for row in st["reasons"]:
        if row["state"] != BAD:
            more = row["slides"] - len(row["examples"])
            print("%s (%s): %s%s: %s; %s%s" % (
                row["state"], row["stage"], counted(row["slides"], "slide"), " on " + row["host"] if row["host"] else "",
                printable(row["reason"]), ", ".join(map(printable, row["examples"])), " and %d more" % more if more else ""))
    for host, n in sorted(st["nodes"].items()):
        print("node %s: %s" % (host, ", ".join("%d %s" % (k, state) for state, k in n.items() if k)))


def print_status(st):
    print(headline(st))
    for problem in st["problems"] + st["held"]:
        print("problem: " + problem)
    for text in st["passed_over"]:
        print(text)
    print_failures(st)
    for row in st["damaged"]:
        print("damaged: %s: %s" % (printable(row["slide"]), printable(bare_reason(row))))
    for row in st["copies"]:
        print("copy: %s: %s, which counts once; --allow-duplicates merges both" % (printable(row["slide"]), printable(row["reason"])))
    if len(st["versions"]) > 1:
        print("made by different versions: %s; run --renew makes older results again" % ", ".join(
            "%s by %s" % (counted(n, "slide"), v or "an unknown version") for v, n in sorted(st["versions"].items())))
    if st["kept_apart"]:
        print("the slides have different resolutions: each resolution has its own result")
    for row in st["merged"]:
        um = row["um_per_px"]
        apart = " of %.4g um/px" % um if um else " of unknown resolution"
        print("%s: %s%s%s" % (row["file"], counted(row["slides"], "slide"), apart if st["kept_apart"] else "",
                              "" if row["current"] else ", out of date"))
    sys.stdout.flush()


def is_merged(st):
    """The merged results hold what has been processed."""
    return bool(st["merged"]) and all(row["current"] for row in st["merged"])


def bare_reason(row):
    """The reason without the names of slide and store before it."""
    return re.sub("^" + re.escape(row["slide"]) + r"( to .*?\.h5)?: ", "", row["reason"])


def printable(text):
    """Text without the control characters that a file name may have."""
    return re.sub(r"[\x00-\x1f\x7f]", lambda m: "\\x%02x" % ord(m.group()), text)


def verdict(st):
    """The exit status: trouble or something to do that nobody does, then bad slides, then damage."""
    again = [row for row in st["failed"] if row["state"] != BAD]
    if again or st["problems"] or (st["to_do"] and not st["active_tasks"] and not st.get("scheduler")):
        return TROUBLE
    return PART if st["failed"] else DAMAGED if st["damaged"] else DONE
