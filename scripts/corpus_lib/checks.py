"""What has been found in finished files: damage of results, quickhashes of stores.

Reading 3,505 results takes minutes, so findings are kept in OUT/checked.json. A finding holds while
the file's size and time are those that it had when it was read.
"""
import json
import os
import re

from corpus_lib.files import ask, key, program, read_json, write_whole


class Checks:
    """{path: [size, mtime in ns, problem or "", quickhash or ""]}"""

    def __init__(self, path):
        self.path, self.known = path, read_json(path, {})

    def finding(self, path):
        """(problem, quickhash) of a file that has not changed since it was read; None otherwise."""
        row = self.known.get(os.fsencode(path).decode("utf-8", "backslashreplace"))
        try:
            at = os.stat(path)
        except OSError:
            return None
        return (row[2], row[3]) if row and row[:2] == [at.st_size, at.st_mtime_ns] else None

    def problem(self, path):
        """What is wrong with a result; "" if nothing is known to be."""
        return (self.finding(path) or ("", ""))[0]

    def quickhash(self, path):
        """The slide's hash in a store; "" if it is unknown or the slide has none."""
        return (self.finding(path) or ("", ""))[1]

    def note(self, path, problem="", quickhash=""):
        try:
            at = os.stat(path)
        except OSError:
            return
        self.known[os.fsencode(path).decode("utf-8", "backslashreplace")] = [
            at.st_size, at.st_mtime_ns, problem, quickhash]

    def save(self):
        try:
            write_whole(self.path, json.dumps(self.known, indent=0) + "\n")
        except OSError:
            pass  # another user's corpus: the next call reads the files again

    # reading files

    def read_stores(self, stores):
        """Notes the quickhash of each store that is not known yet."""
        new = {key(s): s for s in stores if self.finding(s) is None}
        text = ask_list("info", new.values(), "--json").stdout if new else ""
        for line in text.split("\n"):
            try:
                row = json.loads(line)
                self.note(new[key(row["file"])], "", row.get("quickhash") or "")
            except (ValueError, KeyError, TypeError):
                pass  # a store that cannot be read; the look-up reports it
        if new:
            self.save()

    def read_results(self, results, again=False):
        """Verifies each result that is not known yet; `again`: all of them."""
        new = {key(r): r for r in results
               if os.path.exists(r) and (again or self.finding(r) is None)}
        text = ask_list("verify", new.values(), "--json", "-q").stdout if new else ""
        for line in text.split("\n"):
            try:
                row = json.loads(line)
                path, message = new[key(row["file"])], row.get("message") or ""
                if message or row["status"] != "failed":
                    self.note(path, message.replace(path + ": ", "", 1))
            except (ValueError, KeyError, TypeError):
                pass  # the program was stopped: unknown still
        if new:
            self.save()


def ask_list(command, paths, *options):
    """Runs a command of h5spec over a list of files. Nothing is written: others may look at a corpus."""
    return ask(program("h5spec"), command, *options, "--list", "-",
               given="".join(path + "\n" for path in paths))


def problems_in(messages, paths):
    """{path: message} of the first message of h5spec about each file."""
    found = {}
    for line in messages.split("\n"):
        line = re.sub(r"^h5spec( \w+)?: ", "", line)
        path = next((q for q in paths if line.startswith(q + ": ")), None)
        if path:
            found.setdefault(path, line[len(path) + 2:])
    return found
