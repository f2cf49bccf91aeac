"""Slides that failed through no fault of theirs are tried again, by the end of the run that failed them.

What is sick must not be tried again on the same node: the next run excludes the nodes on which slides had
trouble, but never more than half of all nodes, those with most trouble first.
"""
import collections

from corpus_lib.cluster import submit_all
from corpus_lib.files import counted, say
from corpus_lib.schedulers import SCHEDULERS, Away, patient
from corpus_lib.states import AGAIN, TROUBLE, States


def try_again(corpus, attempts, run):
    """Begins a run with what is worth another try. False: there is nothing, or it was tried often enough."""
    settings = corpus.run_settings(run)
    if corpus.stopped(run) or settings.get("tries", 0) >= settings.get("retries", 0):
        return False
    corpus.settle(attempts.current.get((run, "convert"), ()))
    states = States(corpus, attempts)
    again = [(s, st) for s, st in ((s, states.of(s)) for s in corpus.slides) if st.state in AGAIN]
    if not again:
        return False
    sick = sick_nodes(SCHEDULERS[settings["scheduler"]], [st for _, st in again])
    settings.update(tries=settings.get("tries", 0) + 1, exclude=sick)
    convert = [s for s, st in again if st.stage == "convert"]
    attempts.save()  # before begin() notes what is converted now
    corpus.begin(convert)
    corpus.save()
    number = corpus.new_run(settings)
    submit_all(corpus, number, settings, [corpus.input(s) for s in convert],
               [corpus.input(s) for s, st in again if st.stage == "process"])
    say("run %d tries %s again%s" % (number, counted(len(again), "slide"),
                                     ", not on " + ", ".join(sick) if sick else ""))
    return True


def sick_nodes(scheduler, states):
    """The nodes to keep away from."""
    trouble = collections.Counter(st.attempt.host for st in states
                                  if st.attempt and st.attempt.host and st.state == TROUBLE)
    try:
        nodes = patient(scheduler.nodes, 600)
    except Away:
        return []
    names = {name.split(".")[0]: name for name in nodes}
    sick = (names.get(host.split(".")[0]) for host, _ in trouble.most_common())
    return [name for name in sick if name][:len(nodes) // 2]
