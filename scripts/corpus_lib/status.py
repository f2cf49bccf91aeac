"""What `status` reports: counts, what failed and why, rates, and what the merged results hold."""
import collections
import json
import re
import sys

from corpus_lib import checks
from corpus_lib.attempts import Attempts
from corpus_lib.files import DAMAGED, DONE, PART, TROUBLE, age, counted
from corpus_lib.progress import duration, rate_text
from corpus_lib.records import Record
from corpus_lib.schedulers import Away, active_tasks
from corpus_lib.states import (BAD, FAILED, INTERRUPTED, STATES, TO_DO, State, States, reason)
from corpus_lib.states import DAMAGED as HURT
from corpus_lib.states import TROUBLE as NODE_TROUBLE

DOING = {"convert": "converting", "process": "processing"}
EXAMPLES = 3  # slides that are named per reason of a failure that is not the slide's


# --- collecting ---

class Collected:
    """All slides, looked at once, one at a time: what is done leaves only numbers."""

    def __init__(self, corpus, states, active):
        self.corpus, self.states, self.active = corpus, states, active
        self.counts = dict.fromkeys(STATES, 0)
        self.slides = self.converted = self.processed = 0
        self.merged = collections.Counter()  # {file: slides whose result it has}
        self.to_do, self.failed, self.damaged = [], [], []  # [(slide, stage, state, attempt)]
        self.unread = []
        for s in corpus.table:
            self.add(s)
        self.verify()
        for path, problem in sorted(corpus.rejected.items()):
            self.put(Record(path, ""), State(BAD, "", "input", reason("input", "input", problem), None))

    def add(self, s):
        now = self.corpus.now(s)
        if now.result and s.checked != now.result and now.reached and not self.active:
            self.unread.append(s)
        else:
            self.put(s, self.states.of(s, now))

    def verify(self):
        """Results that nobody has read are verified when no task is at work."""
        if not self.unread:
            return
        checks.read_results(self.corpus, self.unread)
        for s in self.unread:
            self.put(s, self.states.of(s))
        self.corpus.save_if_idle(self.note_checks)

    def note_checks(self):
        found = {s.slide: s for s in self.unread}
        for s in self.corpus.slides:
            new = found.get(s.slide)
            if new:
                s.checked, s.problem = new.checked, new.problem

    def put(self, s, st):
        self.slides += 1
        self.counts[st.state] += 1
        self.converted += st.reached != ""
        if st.reached == "processed":
            self.processed += 1
            if s.merged and s.merged == st.now.result:
                self.merged[s.where] += 1
        row = (s.slide, st.stage, st.state, st.attempt)
        if st.state in FAILED:
            self.failed.append(row)
        elif st.state == TO_DO:
            self.to_do.append(row)
        if st.reached and st.state != HURT:
            hurt = [a for a in self.states.attempts.of.get(s.key, ()) if a.what == "damaged"]
            if hurt:
                self.damaged.append((s.slide, "", HURT, hurt[-1]))
        elif st.state == HURT:
            self.damaged.append(row)


def described(corpus, row):
    """One failure as status --json gives it."""
    slide, stage, state, a = row
    text = a.message.replace(corpus.path(".links") + "/", "")
    out = {"slide": slide, "stage": stage, "state": state, "reason": text}
    if a.run:
        out.update(host=a.host, run=a.run, task=a.task, time=a.time, log="logs/" + a.log)
    return out


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
    rows = [{"state": state, "stage": stage, "reason": rows[0]["reason"].replace(rows[0]["slide"] + ": ", "", 1),
             "host": host, "slides": len(rows), "examples": [f["slide"] for f in rows[:EXAMPLES]],
             "log": rows[0].get("log", "")} for (state, stage, _, host), rows in found.items()]
    return sorted(rows, key=lambda row: -row["slides"])


def nodes_of(failed):
    """{host: {state: slides}} of what is not the slides' fault."""
    nodes = {}
    for f in failed:
        if f.get("host") and f["state"] != BAD:
            at = nodes.setdefault(f["host"], {NODE_TROUBLE: 0, INTERRUPTED: 0})
            at[f["state"]] += 1
    return nodes


def steps_of(c, rates, now):
    """What remains of each step: {"step", "to_do", "per_hour", "seconds_left"}, None if unknown. `now`: the
    time in s if work goes on, else None."""
    converting, rows = sum(stage == "convert" for _, stage, _, _ in c.to_do), []
    for kind, n in (("convert", converting), ("process", len(c.to_do))):
        at_work = now if n and (kind == "convert" or not converting) else None
        done, begun, end = rates.get(kind, (0, 0, 0))
        rate = done / max((at_work or end) - begun, 1e-3) if done else None
        rows.append({"step": kind, "to_do": n, "per_hour": rate and 3600 * rate,
                     "seconds_left": 0 if not n else n / rate if rate else None})
    return rows


def problems_of(corpus, attempts):
    """What stopped the last run as a whole."""
    runs = corpus.runs()
    if not runs or corpus.stopped(runs[-1]):
        return []
    found = list(corpus.problems(runs[-1]))
    lookup = [j for j in corpus.jobs(runs[-1]) if j[0] == "lookup"]
    if lookup and not found and age(corpus.run_path(runs[-1], "process.txt")) is None:
        _, message, host, _ = attempts.end_of("%d.lookup" % runs[-1], lookup[0][1], None)
        found.append("the look-up job failed on %s: %s" % (host or "a node", message))
    return found


def status_of(corpus, scheduler, active, now, attempts=None):
    """What `status` reports. `now`: time in s; active None: the scheduler does not answer."""
    at_work = 1 if active is None else active
    attempts = attempts or Attempts(corpus, scheduler, at_work)
    c = Collected(corpus, States(corpus, attempts, at_work), at_work)
    failed = [described(corpus, row) for row in c.failed]
    out = {"out": corpus.out, "run": (corpus.runs() or [None])[-1], "active_tasks": active, "slides": c.slides,
           "converted": c.converted, "processed": c.processed, "states": c.counts,
           "withdrawn": sum(m.startswith("path ") for m in corpus.withdrawn),
           "failed": failed, "reasons": reasons_of(failed), "nodes": nodes_of(failed),
           "damaged": [described(corpus, row) for row in c.damaged], "corpus": None}
    out["steps"] = steps_of(c, attempts.rates, now if active else None)
    out["to_do"] = [{"slide": row[0], "stage": row[1]} for row in c.to_do]
    left = [row["seconds_left"] for row in out["steps"]]
    out["seconds_left"] = None if None in left else sum(left)
    out["merged"] = corpus.merged.rows(c.merged, c.processed)
    if len(out["merged"]) == 1 and out["merged"][0]["file"] == corpus.path("corpus.h5"):
        out["corpus"] = {k: out["merged"][0][k] for k in ("file", "slides", "current")}
    out["kept_apart"] = len(out["merged"]) > 1
    done = not out["to_do"] and (not c.processed or is_merged(out))
    out["problems"] = [] if at_work or done else problems_of(corpus, attempts)
    return out


def look(corpus, now):
    """The status of a corpus at this moment."""
    try:
        scheduler, active = active_tasks(corpus)
    except Away as e:
        return dict(status_of(corpus, None, None, now), scheduler=str(e))
    return status_of(corpus, scheduler, active, now)


# --- printing ---

def headline(st):
    """The status in one line."""
    text = "%d of %d slides converted, %d processed, %d to do, %d failed, %d damaged" % (
        st["converted"], st["slides"], st["processed"], len(st["to_do"]),
        len(st["failed"]), len(st["damaged"]))
    if st["withdrawn"]:
        text += ", %d withdrawn" % st["withdrawn"]
    if st["active_tasks"] is None:
        return text + "; the scheduler does not answer, so what is at work is not known"
    if not st["active_tasks"]:
        return text
    text += "; %s queued or running" % counted(st["active_tasks"], "task")
    row = next((row for row in st["steps"] if row["to_do"]), None)
    if row and row["per_hour"]:
        text += "; %s: %s, %s left" % (DOING[row["step"]], rate_text(row["per_hour"] / 3600),
                                          duration(row["seconds_left"]))
        if st["seconds_left"] is not None and st["seconds_left"] > row["seconds_left"]:
            text += ", %s in all" % duration(st["seconds_left"])
    return text


def where_text(row):
    """On which node, in which task, when, and the log."""
    if not row.get("log"):
        return ""
    return " [%s, run %d, task %d, %s, %s]" % (row["host"] or "unknown node", row["run"], row["task"], row["time"],
                                              row["log"])


def print_failures(st):
    """Bad slides one by one; what is the node's fault by reason and by node."""
    for row in st["failed"]:
        if row["state"] == BAD:
            text = row["reason"].replace(row["slide"] + ": ", "", 1)
            print("failed (%s): %s: %s%s" % (row["stage"], printable(row["slide"]), printable(text), where_text(row)))
    for row in st["reasons"]:
        if row["state"] != BAD:
            more = row["slides"] - len(row["examples"])
            print("%s (%s): %s%s: %s; %s%s" % (
                row["state"], row["stage"], counted(row["slides"], "slide"),
                " on " + row["host"] if row["host"] else "", printable(row["reason"]),
                ", ".join(map(printable, row["examples"])), " and %d more" % more if more else ""))
    for host, n in sorted(st["nodes"].items()):
        print("node %s: %s" % (host, ", ".join("%d %s" % (k, state) for state, k in n.items() if k)))


def print_status(st):
    print(headline(st))
    for problem in st["problems"]:
        print("problem: " + problem)
    print_failures(st)
    for row in st["damaged"]:
        text = row["reason"].replace(row["slide"] + ": ", "", 1)
        print("damaged: %s: %s" % (printable(row["slide"]), printable(text)))
    if st["kept_apart"]:
        print("the slides have different resolutions: each resolution has its own result")
    for row in st["merged"]:
        print("%s: %s%s%s" % (row["file"], counted(row["slides"], "slide"),
                              resolution_text(row["um_per_px"]) if st["kept_apart"] else "",
                              "" if row["current"] else ", out of date"))
    sys.stdout.flush()


def print_prometheus(st):
    """The text format of Prometheus, as for the collector of node_exporter that reads files."""
    label = 'corpus=%s' % json.dumps(st["out"])
    rows = [("slides", "state=%s" % json.dumps(state), n) for state, n in st["states"].items()]
    rows += [("node_failures", "node=%s,state=%s" % (json.dumps(host), json.dumps(state)), n)
             for host, found in sorted(st["nodes"].items()) for state, n in found.items()]
    rows += [("active_tasks", "", st["active_tasks"]), ("seconds_left", "", st["seconds_left"]),
             ("merged_slides", "", sum(row["slides"] for row in st["merged"])),
             ("merged_current", "", int(is_merged(st))), ("problems", "", len(st["problems"]))]
    told = set()
    for name, labels, value in rows:
        if name not in told:
            print("# TYPE wsi_corpus_%s gauge" % name)
        told.add(name)
        if value is not None:
            print("wsi_corpus_%s{%s%s} %.10g" % (name, label, "," + labels if labels else "", value))
    sys.stdout.flush()


def resolution_text(um):
    return " of %.4g um/px" % um if um else " of unknown resolution"


def is_merged(st):
    """The merged results hold what has been processed."""
    return bool(st["merged"]) and all(row["current"] for row in st["merged"])


def printable(text):
    """Text without the control characters that a file name may have."""
    return re.sub(r"[\x00-\x1f\x7f]", lambda m: "\\x%02x" % ord(m.group()), text)


def verdict(st):
    """The exit status: trouble or something to do that nobody does, then bad slides, then damage."""
    at_work = st["active_tasks"] is None or st["active_tasks"]
    again = [row for row in st["failed"] if row["state"] != BAD]
    if again or st["problems"] or (st["to_do"] and not at_work):
        return TROUBLE
    return PART if st["failed"] else DAMAGED if st["damaged"] else DONE
