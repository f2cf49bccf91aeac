"""What reading finished files finds: damage of results, their resolutions, quickhashes of stores.

Reading 3,505 results takes minutes, so findings are kept in the records (records.py), with the size and
time of the file at that moment.
"""
import json
import math
import re

from corpus_lib.files import ask, key, program, stamp


def ask_list(command, paths, *options):
    """Runs a command of h5spec over a list of files. Nothing is written: others may look at a corpus."""
    return ask(program("h5spec"), command, *options, "--list", "-",
               given="".join(path + "\n" for path in paths))


def findings(command, paths, *options):
    """[(what, row of JSON)] of what a command of h5spec says about {path: what}."""
    of = {key(path): what for path, what in paths.items()}
    text = ask_list(command, paths, "--json", *options).stdout if paths else ""
    for line in text.split("\n"):
        try:
            row = json.loads(line)
            yield of[key(row["file"])], row
        except (ValueError, KeyError, TypeError):
            pass  # the program was stopped, or cannot read the file: unknown still


def read_stores(corpus, records):
    """Notes the quickhash of each store that is not known yet. True if there was any."""
    now = {r.name: stamp(corpus.store(r)) for r in records}
    new = {corpus.store(r): r for r in records if now[r.name] and r.hashed != now[r.name]}
    for r, row in findings("info", new):
        r.hashed, r.hash = now[r.name], row.get("quickhash") or ""
    return bool(new)


def read_results(corpus, records, again=False):
    """Verifies each result that is not known yet; `again`: all of them. True if there was any."""
    now = {r.name: stamp(corpus.result(r)) for r in records}
    new = {corpus.result(r): r for r in records if now[r.name] and (again or r.checked != now[r.name])}
    for r, row in findings("verify", new, "-q"):
        message = row.get("message") or ""
        if message or row["status"] != "failed":
            r.checked, r.problem = now[r.name], message.replace(corpus.result(r) + ": ", "", 1)
    return bool(new)


def read_resolutions(corpus, records):
    """Notes the resolution of each result that is not known yet."""
    now = {r.name: stamp(corpus.result(r)) for r in records}
    for r, row in findings("info", {corpus.result(r): r for r in records if r.resolved != now[r.name]}):
        slide = (row.get("slides") or [{}])[0]
        x, y, down = (slide.get(k) or 0 for k in ("mpp_x", "mpp_y", "downsample"))
        um = math.sqrt(x * y) * down if x > 0 and y > 0 else 0
        r.resolved, r.um, r.down = now[r.name], repr(um) if um else "", repr(down) if down else ""


def problems_in(messages, paths):
    """{path: message} of the first message of h5spec about each file."""
    found = {}
    for line in messages.split("\n"):
        line = re.sub(r"^h5spec( \w+)?: ", "", line)
        path = next((q for q in paths if line.startswith(q + ": ")), None)
        if path:
            found.setdefault(path, line[len(path) + 2:])
    return found
