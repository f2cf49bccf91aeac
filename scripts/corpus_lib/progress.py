"""How far a phase is: a live line on a terminal, one line per minute in a log file."""
import glob
import os
import sys
import time

LOG_SECONDS = 60


def duration(seconds):
    """Two units at most: 45 s, 12 min, 3 h 20 min, 2 d 5 h."""
    seconds = int(seconds + 0.5)
    if seconds < 120:
        return "%d s" % seconds
    if seconds < 7200:
        return "%d min" % ((seconds + 30) // 60)
    if seconds < 172800:
        return "%d h %d min" % (seconds // 3600, seconds % 3600 // 60)
    return "%d d %d h" % (seconds // 86400, seconds % 86400 // 3600)


def rate_text(per_second, thing="slides"):
    """In the unit in which the number is 1 or more."""
    for unit, seconds in (("s", 1), ("min", 60)):
        if per_second * seconds >= 1:
            return "%.3g %s/%s" % (per_second * seconds, thing, unit)
    return "%.3g %s/h" % (per_second * 3600, thing)


def terminal_columns():
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


class LineCounter:
    """Counts the complete lines of growing files, and reads each byte once."""

    def __init__(self, pattern):
        self.pattern, self.read, self.lines = pattern, {}, 0

    def count(self):
        for path in glob.glob(self.pattern):
            at = self.read.get(path, 0)
            try:
                if os.path.getsize(path) > at:
                    with open(path, "rb") as f:
                        f.seek(at)
                        data = f.read()
                    self.read[path] = at + len(data)
                    self.lines += data.count(b"\n")
            except OSError:
                pass
        return self.lines


class Progress:
    """The lines on stderr. `when`: auto, no, or the seconds between the lines of a log file."""

    def __init__(self, when="auto"):
        self.live = when == "auto" and sys.stderr.isatty()
        self.pause = 0.5 if self.live else LOG_SECONDS if when == "auto" else when
        self.on, self.shown = when != "no", False
        self.begin("", 0, None)

    def begin(self, what, total, count, thing="slides"):
        """A phase of `total` things; count() returns how many are done."""
        self.what, self.total, self.count, self.thing = what, total, count, thing
        self.begun = self.last = time.time()

    def line(self):
        done, passed = self.count(), time.time() - self.begun
        text = "%s: %d of %d %s" % (self.what, done, self.total, self.thing)
        if done:
            rate = done / max(passed, 1e-3)
            text += ", %s, %s left" % (rate_text(rate, self.thing),
                                       duration((self.total - done) / rate))
        return text

    def tick(self):
        """Call it often; it prints when it is time to."""
        if not self.on or not self.count or time.time() - self.last < self.pause:
            return
        self.last = time.time()
        self.show(self.line())

    def show(self, text):
        if not self.live:
            print("corpus: " + text, file=sys.stderr, flush=True)
            return
        width = max(20, terminal_columns()) - 1
        print("\r\x1b[K" + ("corpus: " + text)[:width], end="", file=sys.stderr, flush=True)
        self.shown = True

    def end(self):
        """Clears the live line. Call it before other messages."""
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self.shown, self.count = False, None
