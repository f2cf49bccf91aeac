"""What tasks said."""
import glob
import json
import os
import re

from corpus_lib.files import age, read_lines


def key(path):
    """A path as it comes back from JSON, where bytes that are not UTF-8 have been replaced."""
    return re.sub("\ufffd+", "\ufffd", os.fsencode(path).decode("utf-8", "replace"))


def words(corpus, kind, field, run=None):
    """The last word about each slide or store: {path: (status, message, time of the log, run)}."""
    said = {}
    pattern = glob.escape(corpus.path("logs")) + "/%s.%s.*json" % (run or "*", kind)
    for number, path in sorted((int(os.path.basename(p).split(".")[0]), p) for p in glob.glob(pattern)):
        for line in read_lines(path):
            try:
                word = json.loads(line)
                said[key(word[field])] = (word["status"], word.get("message", ""), age(path), number)
            except (ValueError, KeyError, TypeError):
                pass  # cut off by a kill
    return said


def tasks_of(corpus, kind):
    """Who had each line of convert.txt or process.txt last: {line: (run, task, job id)}."""
    had = {}
    for run in corpus.runs():
        lines = read_lines(corpus.path("runs", str(run), kind + ".txt"))
        for _, number, tasks, _ in [j for j in corpus.jobs(run) if j[0] == kind]:
            had.update((line, (run, k % int(tasks) + 1, number)) for k, line in enumerate(lines))
    return had


def last_line(path):
    """The last line that says something beside a run's summary."""
    lines = [re.sub(r"^(wsi2h5|h5spec|corpus): ", "", line.strip()) for line in read_lines(path)]
    lines = [line for line in lines if line and not re.match(r"\d+ (converted|done), |device ", line)]
    return lines[-1] if lines else ""


def end_of(corpus, scheduler, log, number, task):
    """How a task ended that left no word: what its log says last, and what the scheduler says."""
    end = scheduler.end_of(number, task) if scheduler else ""
    return "%s%s; run again" % (last_line(corpus.path("logs", log)) or "its task left no word: killed, or never started",
                                " (%s)" % end if end else "")


def suspects(corpus, kind, field):
    """Those that may have taken their task down: in the last run, the first of a share without a word."""
    runs = corpus.runs()
    if not runs:
        return set()
    said = words(corpus, kind, field, runs[-1])
    lines = read_lines(corpus.path("runs", str(runs[-1]), kind + ".txt"))
    found = set()
    for tasks in [int(j[2]) for j in corpus.jobs(runs[-1]) if j[0] == kind]:
        for task in range(tasks):
            found.update([s for s in lines[task::tasks] if key(s) not in said][:1])
    return found
