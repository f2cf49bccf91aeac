"""What has become of each slide."""
import glob
import os
import re
import sys

from corpus_lib.files import DONE, PART, age, fresh, read_lines, stem
from corpus_lib.logs import end_of, key, tasks_of, words


class Judge:
    """What has become of each slide, from the files that stand there and what tasks said."""

    def __init__(self, corpus, scheduler, active):
        self.corpus, self.scheduler, self.active = corpus, scheduler, active
        self.said = {"convert": words(corpus, "convert", "slide"), "process": words(corpus, "process", "store")}
        self.had = {kind: tasks_of(corpus, kind) for kind in ("convert", "process")}
        self.unsound = corpus.unsound()
        self.groups = {}  # name: (run, job id, tasks, groups)
        for run in corpus.runs():
            for kind, number, tasks, about in corpus.jobs(run):
                if kind == "groups":
                    self.groups[about.split(" ", 1)[1]] = (run, number, int(tasks), int(about.split(" ", 1)[0]))

    def word(self, kind, line):
        """The last word about it, unless a later task had it and left none."""
        word, had = self.said[kind].get(key(line)), self.had[kind].get(line)
        return None if word and had and had[0] > word[3] else word

    def why(self, kind, line):
        """Why it is not there; None: it waits for its turn."""
        word, had = self.word(kind, line), self.had[kind].get(line)
        if word and word[0] == "failed":
            return word[1]
        if self.active:
            return None
        if not had:
            return "no task has had it yet; run again"
        return end_of(self.corpus, self.scheduler, "%d.%s.%d.err" % (had[0], kind, had[1]), had[2], had[1])

    def why_groups(self, slide):
        """The same of a slide whose groups are computed one by one."""
        run, number, tasks, n = self.groups[stem(slide)]
        there = {re.sub(r".*\.(\d+)-\d+\.h5$", r"\1", p) for p in glob.glob(
            glob.escape(self.corpus.parts(slide)) + "/*.h5") if fresh(p, self.corpus.store(slide))}
        gone = [g for g in range(1, n + 1) if str(g) not in there]
        if self.active:
            return None
        if not gone:
            return "its groups could not be added up; see logs/%d.merge.err" % run
        task = (gone[0] - 1) % tasks + 1
        log = "%d.groups.%s.%d.err" % (run, stem(slide), task)
        return "group %s%s of %d is missing: %s" % (",".join(map(str, gone[:9])), ",..." if gone[9:] else "", n,
                                                     end_of(self.corpus, self.scheduler, log, number, task))

    def slide(self, s):
        """(stage it has reached, stage it failed in, why)"""
        store, result = self.corpus.store(s), self.corpus.result(s)
        made, word = age(store), self.word("convert", s)
        if self.corpus.namesake(s):
            return "", "convert", "its store would also be that of %s; rename one" % self.corpus.namesake(s)
        if made is None or (word and word[0] == "failed" and word[2] > made):
            return "", "convert", self.why("convert", s)
        if store in self.unsound:
            return "", "convert", None if self.active else self.unsound[store] + "; run again"
        if fresh(result, store):
            return "processed", "", None
        if stem(s) in self.groups and os.path.isdir(self.corpus.parts(s)):
            return "converted", "process", self.why_groups(s)
        return "converted", "process", self.why("process", store)


def status_of(corpus, scheduler, active):
    """What `status` prints."""
    judge = Judge(corpus, scheduler, active)
    out = {"out": corpus.out, "active_tasks": active, "slides": len(corpus.slides), "converted": 0,
           "processed": 0, "waiting": [], "damaged": [], "failed": [], "corpus": None}
    for s in corpus.slides:
        reached, stage, why = judge.slide(s)
        word = judge.said["convert"].get(key(s))
        out["converted"] += reached != ""
        out["processed"] += reached == "processed"
        if why:
            out["failed"].append({"slide": s, "stage": stage, "reason": why})
        elif stage:
            out["waiting"].append(s)
        if reached and word and word[0] in ("damaged", "skipped") and word[1]:
            out["damaged"].append({"slide": s, "reason": word[1]})
    if age(corpus.path("corpus.h5")) is not None:
        out["corpus"] = {"file": corpus.path("corpus.h5"), "slides": len(read_lines(corpus.path("corpus.txt")))}
    return out


def print_status(st):
    n = st["slides"]
    print("%d of %d slides converted, %d processed, %d failed, %d damaged%s" % (
        st["converted"], n, st["processed"], len(st["failed"]), len(st["damaged"]),
        ", %d waiting; %d tasks in the queue or running" % (len(st["waiting"]), st["active_tasks"])
        if st["active_tasks"] else ""))
    for what, rows in (("failed", st["failed"]), ("damaged", st["damaged"])):
        for row in rows:
            stage = " (%s)" % row["stage"] if "stage" in row else ""
            print("%s%s: %s: %s" % (what, stage, row["slide"], row["reason"].replace(row["slide"] + ": ", "", 1)))
    if st["corpus"]:
        print("%s: %d slides" % (st["corpus"]["file"], st["corpus"]["slides"]))
    sys.stdout.flush()


def verdict(st):
    return PART if st["failed"] or st["damaged"] else DONE
