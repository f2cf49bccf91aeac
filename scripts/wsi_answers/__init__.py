"""Answers: which slides need a look, and why, from tables of numbers that h5spec makes.

    python3 -m wsi_answers report -o report.html results/     the page, as h5spec report writes it

    from wsi_answers import judge
    for name, verdict, reasons in judge("corpus.h5"):         a table of h5spec merge --table, which h5spec verify has checked
        print(name, verdict, reasons)

h5spec reads results, checks them and publishes files; this package judges and says. A rule is a row or a constant of numbers.py:
change it, and the next call shows it.

    numbers.py   what is known of a slide, in words, with its limits        kinds.py    two kinds in a group, slides that are alone
    tables.py    numbers of slides, from tables                             places.py   where on a slide a reason shows
    groups.py    groups, pools of one resolution, names                     reasons.py  why to look at a slide, and the verdict
    limits.py    limits that are given (--limits)                           page.py     the page, and tables for other programs
    scores.py    what is usual in a pool, and what is unusual               command.py  all of it in order
"""
from .command import judge
from .numbers import NUMBERS

__all__ = ["NUMBERS", "judge"]
