"""Seconds from opening a page until it is interactive, and until all of it is loaded: bench_page.py PAGE.html

The page itself measures both (dataset.ready and dataset.loaded of its root, in ms since navigation began). "interactive" is when
its table is drawn and keys work. Prints two numbers, or nothing if no Chromium is installed.
"""
import sys

from browser import Page
from lib import Skip

try:
    with Page(sys.argv[1]) as page:
        page.wait_for("document.documentElement.dataset.loaded")
        print(*(int(page.run("document.documentElement.dataset." + name)) / 1000 for name in ("ready", "loaded")))
except Skip:
    pass
