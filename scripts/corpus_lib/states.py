"""What has become of each slide: its state, from its files (state.py) and the attempts at it (attempts.py).

This table is the only place that decides:

  the files say      the attempts since the files changed say     state
  done               nothing                                      done
  done               tiles are damaged                            damaged
  something remains  the program called the slide bad             bad slide
  something remains  two crashes, or failures on two nodes        bad slide
  something remains  the node failed, or the program crashed      node trouble
  something remains  the task was ended from outside              interrupted
  something remains  nothing, or the user cancelled the run       to do

An input that cannot be used, a copy of another slide and a slide that needs another name are bad slides. A
damaged result and a store that cannot be read are node trouble: they were whole when they were written.
"""
import collections

from corpus_lib.attempts import Attempt

DONE, DAMAGED, BAD, INTERRUPTED, TROUBLE, TO_DO = STATES = (
    "done", "damaged", "bad slide", "interrupted", "node trouble", "to do")
FAILED = (BAD, TROUBLE, INTERRUPTED)
AGAIN = (INTERRUPTED, TROUBLE, TO_DO)  # worth another try

# state; reached: "", converted or processed; stage that remains: "", convert or process; attempt: the one
# that gives the reason, or None
State = collections.namedtuple("State", "state reached stage attempt now")


def reason(stage, what, text):
    return Attempt(stage, what, text, "", 0, 0, "", "", "")


def decide(attempts):
    """(state, attempt) of a slide of which something remains."""
    if not attempts:
        return TO_DO, None
    last = attempts[-1]
    if last.what == "input":
        return BAD, last
    hosts = list(dict.fromkeys(a.host for a in attempts if a.host and a.what != "input"))
    if len(hosts) > 1 or sum(a.what == "crash" for a in attempts) > 1:
        return BAD, last._replace(message="%s (failed on %s)" % (last.message, " and ".join(hosts)))
    return INTERRUPTED if last.what == "interrupted" else TROUBLE, last


class States:
    """`active`: tasks that wait or run; what a task may still do is not called failed."""

    def __init__(self, corpus, attempts, active=0):
        self.corpus, self.attempts, self.active = corpus, attempts, active

    def of(self, s, now=None):
        corpus, now = self.corpus, now or self.corpus.now(s)
        tried = self.attempts.of.get(s.key, ())
        if not now.remains:
            hurt = [a for a in tried if a.what == "damaged"]
            return State(DAMAGED if hurt else DONE, now.reached, "", hurt[-1] if hurt else None, now)
        stage = now.remains
        if corpus.clashes(s):
            return State(BAD, "", stage, reason(stage, "input", "another slide has the same name; rename one"), now)
        if stage == "process" and s.same and not corpus.duplicates_count():
            return State(BAD, now.reached, stage, reason(
                stage, "input", "is the same slide as %s; remove one, or use --allow-duplicates" % s.same), now)
        fault = self.fault(s, now)
        if fault:
            return State(TO_DO if self.active else TROUBLE, now.reached, stage,
                         None if self.active else reason(stage, "trouble", fault + "; run again"), now)
        at = now.files if stage == "convert" else now.store
        state, attempt = decide([a for a in tried if a.stage == stage and a.what != "damaged"
                                 and (not a.of or not at or a.of == at)])
        if self.active and attempt and attempt.what != "input":
            state, attempt = TO_DO, None
        return State(state, now.reached, stage, attempt, now)

    def fault(self, s, now):
        """What is wrong with a finished file; "" if nothing is."""
        if now.remains == "convert":
            return self.corpus.unreadable().get(self.corpus.store(s), "") if now.store else ""
        damaged = s.problem and s.checked == now.result and now.result
        return "the result is damaged: " + s.problem if damaged else ""
