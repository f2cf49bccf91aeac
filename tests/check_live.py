"""`h5spec run --live`: files that are always whole, pictures that only grow, trouble that does not stop the run."""
import errno
import functools

import h5py
import numpy as np

from browser import Page
from lib import *
from pictures import png


def big(seed=1):
    needs("report")
    return store(made("--size", "3000x6000", "--seed", str(seed), name="big-%d" % seed))


def small():
    needs("report")
    return store(made("--size", "600x400", name="small"))


def start(folder, *stores, **kw):
    return subprocess.Popen([H5SPEC, "run", "-q", "--device", "cpu", "-j", "1", "--live", folder,
                             "-o", os.path.join(tmp(), "r.h5"), *stores], stderr=subprocess.PIPE, **kw)


def state(folder):
    return call_of(os.path.join(folder, "state.js"), "live")


def call_of(path, function):
    """The argument of the one call in a script file."""
    m = re.fullmatch(function + r"\((.*)\);\n", text_in(path), re.S)
    expect(m, "%s is not whole", path)
    return json.loads(m.group(1))


def picture(folder, number=1):
    return png(bytes_in(os.path.join(folder, "%d.png" % number)))[0]


CLEAR = 254  # raster.h


def test_pictures_grow_and_do_not_change():
    folder = os.path.join(tmp(), "live")
    p = start(folder, big())
    seen = []
    while p.poll() is None:
        try:
            seen.append(picture(folder))
        except FileNotFoundError:
            pass
        if os.path.exists(os.path.join(folder, "state.js")):
            expect(state(folder)["status"] in ("running", "complete"), "status")
    expect(p.wait() == 0, "%s", p.stderr.read())
    expect(0 < state(folder)["cost"] < state(folder)["seconds"], "cost: %s", state(folder))
    last = picture(folder)
    expect((last != CLEAR).all() and last.shape == (45, 22), "%s", last.shape)
    rows = [int((s != CLEAR).all(axis=1).sum()) for s in seen]
    expect(any(0 < r < 45 for r in rows), "no picture of a part: %s", rows)
    expect(rows == sorted(rows), "%s", rows)
    for s, n in zip(seen, rows):
        expect((s[:n] == last[:n]).all() and (s[n:] == CLEAR).all(), "a row that was shown has changed")


def test_the_picture_is_the_map():
    folder, out = os.path.join(tmp(), "live"), os.path.join(tmp(), "r.h5")
    run(H5SPEC, "run", "--device", "cpu", "--live", folder, "-o", out, big())
    slide = call_of(os.path.join(folder, "1.js"), "slide")
    low, high = -50, -15
    with h5py.File(out, "r") as f:
        d = f["slides/big-1/window_" + slide["feature"]]
        values = d[()] * float(d.attrs.get("scale", 1))
        expect(abs(slide["sharpness"] - f["slides/big-1"].attrs["focus_p50"]) < 0.02 and slide["windows"] == f.attrs["windows"], "%s", slide)
        glass = f["slides/big-1/window_tissue"][()] < 50
    equal(content(out), content(spectrum(big())), "a run without a page")
    want, got = np.clip((values - low) / (high - low), 0, 1) * 249, picture(folder)
    expect(np.abs(got - want)[~glass].max() <= 0.51 and glass.any() and (~glass).any(), "values")
    expect((got[glass] >= 250).all(), "glass is hatched: %s", np.unique(got[glass]))


def test_planted_links_are_not_followed():
    # a victim's file was overwritten through each of the temporary files
    folder, victim = tmp("live"), file_of("victim", b"precious")
    for name in ("index.html", "state.js", "1.js", "1.png"):
        os.symlink(victim, os.path.join(folder, ".%s.part" % name))
        os.symlink(victim, os.path.join(folder, name))
    run(H5SPEC, "run", "-q", "--device", "cpu", "--live", folder, "-o", os.path.join(tmp(), "r.h5"), small(), status=None)
    expect(bytes_in(victim) == b"precious", "the victim's file is overwritten")


@functools.lru_cache(None)
def killed_run():
    """The folder of a run that was killed. Whatever was killed before, the files are whole."""
    killed = None
    for k in range(8):
        folder = os.path.join(tmp(), "live")
        p = start(folder, big(1), big(2))
        time.sleep(0.05 + 0.1 * k)
        while k == 7 and p.poll() is None and not os.path.exists(os.path.join(folder, "state.js")):
            time.sleep(0.01)  # on a busy machine the others may have been too early
        p.kill()
        if p.wait() < 0 and os.path.exists(os.path.join(folder, "state.js")):
            killed = folder
        names = [n for n in os.listdir(folder) if not n.startswith(".")] if os.path.isdir(folder) else []
        for name in names:
            path = os.path.join(folder, name)
            if name == "state.js":
                state(folder)
            elif name.endswith(".js"):
                call_of(path, "slide")
            elif name.endswith(".png"):
                picture(folder, int(name[:-4]))
            else:
                expect(open(path).read().endswith("</html>\n"), "%s", name)
    expect(killed, "no run was killed in time")
    return killed


@later("ci")
def test_killed_at_any_moment():
    with Page(os.path.join(killed_run(), "index.html")) as page:
        page.wait_for("document.querySelector('#line').textContent")
        expect(page.text("#line")[0].startswith("running: "), "a minute has not passed: %s", page.text("#line"))
        expect(not page.errors, "%s", page.errors)


@later("ci")
def test_a_page_of_a_killed_run_says_how_old_it_is():
    """Its last update is from ten minutes ago. Then another one comes, from a machine whose clock is as wrong."""
    folder = killed_run()
    path, index = os.path.join(folder, "state.js"), os.path.join(folder, "index.html")
    text = text_in(path)

    def write(old, seconds, status="running", every=0.1):
        new = text.replace('"status":"running"', '"status":"%s"' % status)
        for key, value in (("at", "%d" % (time.time() - old)), ("seconds", "%.1f" % seconds), ("every", "%g" % every)):
            new, n = re.subn('"%s":[0-9.]+' % key, '"%s":%s' % (key, value), new)
            expect(n == 1, "%s: %s", key, text)
        put_file(path + ".new", new)
        os.rename(path + ".new", path)

    def later(page, seconds):
        page.run("Date.now = (now => () => now() + %d)(Date.now)" % (1000 * seconds))

    def starts(page, words):
        page.wait_for("document.querySelector('#line').textContent.startsWith('%s')" % words)
    expect(abs(state(folder)["at"] - time.time()) < 60, "time of the update: %s", state(folder))
    write(600, 5)
    with Page(index) as page:
        starts(page, "Nothing was written for 10 min: the run may have been killed. If so, run the same command again to continue. Last news: running: ")
        expect(page.run("document.title") == "no news, %d %% \u2013 h5spec run" % (100 * state(folder)["share"]), "title")
        expect(page.run("document.querySelector('#line').className") == "stale", "class")
        write(600, 6)
        starts(page, "running: ")
        later(page, 200)
        starts(page, "Nothing was written for 3 min")
        write(600, 7, "complete")
        starts(page, "complete: ")
        expect(page.run("document.querySelector('#line').className") == "", "class")
        expect(not page.errors, "%s", page.errors)
    with Page(index) as page:  # it is complete, so news are not expected
        page.wait_for("document.querySelector('#line').textContent")
        expect(page.text("#line")[0].startswith("complete: "), "%s", page.text("#line"))


def test_rare_updates_and_a_clock_that_is_ahead_are_no_alarm():
    """With an update every 30 s, news may be 300 s old. News from the future count from now."""
    folder = os.path.join(tmp(), "live")
    run(H5SPEC, "run", "--device", "cpu", "--live", folder, "-o", os.path.join(tmp(), "r.h5"), small())
    path, index = os.path.join(folder, "state.js"), os.path.join(folder, "index.html")
    text = re.sub('"every":[0-9.]+', '"every":30', text_in(path)).replace('"status":"complete"', '"status":"running"')
    for old, stale in ((200, False), (400, True), (-600, False)):
        put_file(path, re.sub('"at":[0-9]+', '"at":%d' % (time.time() - old), text))
        with Page(index) as page:
            page.wait_for("document.querySelector('#line').textContent")
            expect(page.text("#line")[0].startswith("Nothing was written for 7 min" if stale else "running: "), "%d: %s", old, page.text("#line"))
            page.run("Date.now = (now => () => now() + 320000)(Date.now); live(%s)" % json.dumps(state(folder)))  # nothing new
            expect(page.run("document.querySelector('#line').className") == "stale", "%d: %s", old, page.text("#line"))


def test_the_page_follows_the_run():
    folder = os.path.join(tmp(), "live")
    bad = file_of("<b>bad.h5", "no store")
    stores = [bad, big(1), big(2), store(made("--size", "200x200", name="tiny"))]
    p = start(folder, *stores)
    wait = time.time() + 30
    while not os.path.exists(os.path.join(folder, "state.js")):
        expect(time.time() < wait, "no page")
        time.sleep(0.01)
    with Page(os.path.join(folder, "index.html")) as page:
        page.wait_for("document.querySelector('#line').textContent")
        p.wait()
        page.wait_for("document.querySelector('#line').textContent.startsWith('complete')")
        says(page.text("#line")[0], "complete: 3 of 4 slides done, 1 failed")
        page.wait_for("document.querySelectorAll('#cards img').length == 2")
        page.wait_for("[...document.querySelectorAll('#cards figcaption')].map(c => c.textContent).sort() == 'big-1,big-2,tiny'")
        expect(page.run("[...document.querySelectorAll('#cards img')].every(i => i.naturalWidth == 22)"), "pictures")
        says(page.text("#failed td")[0], "<b>bad.h5")
        expect(os.path.dirname(bad) not in " ".join(page.text("#failed td")), "%s", page.text("#failed td"))
        expect(not page.errors, "%s", page.errors)
        home = "file://" + os.path.abspath(folder) + "/"
        expect(all(r.startswith(home) for r in page.requests), "%s", page.requests)


def test_a_full_disk_is_reported_once():
    folder, out = tmp("live"), os.path.join(tmp(), "r.h5")
    p = failing("create", folder, 3, errno.ENOSPC, H5SPEC, "run", "-q", "--device", "cpu", "--live", folder, "-o", out,
                big(1), big(2), status=0, TORTURE_FOREVER="1")
    expect(p.err.count("\n") == 1, "%s", p.err)
    says(p.err, "cannot be written (No space left on device)", "the run goes on")
    run(H5SPEC, "verify", "-q", out)


def test_a_folder_that_vanishes_does_not_stop_the_run():
    folder = os.path.join(tmp(), "live")
    p = start(folder, big(1), big(2))
    while not os.path.exists(os.path.join(folder, "state.js")):
        time.sleep(0.005)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)  # files written meanwhile
    text = p.communicate()[1].decode()
    expect(p.returncode == 0 and text.count("\n") <= 1, "%d: %s", p.returncode, text)


def test_a_run_that_skips_all_says_why_the_page_is_empty():
    out, live, s = tmp(), os.path.join(tmp(), "live"), small()
    for again in (False, True):
        p = run(H5SPEC, "run", "--device", "cpu", "--live", live, "-o", out, s)
        expect((live + ": the page shows no slide, because all results are up to date" in p.err) == again, "%s", p.err)


def test_a_stopped_run_keeps_its_cards():
    folder = os.path.join(tmp(), "live")
    p = start(folder, big(1), big(2))
    first = os.path.join(folder, "1.js")
    while p.poll() is None and not (os.path.exists(first) and call_of(first, "slide")["drawn"]):
        time.sleep(0.005)
    p.terminate()
    if p.wait() != 3:
        raise Skip("the run was done before it could be stopped")
    drawn = call_of(first, "slide")["drawn"]
    expect(drawn > 0, "the map has vanished: %d", drawn)
    with Page(os.path.join(folder, "index.html")) as page:
        page.wait_for("document.querySelectorAll('#cards .card').length", 5)
        page.wait_for("document.querySelector('#cards img') && document.querySelector('#cards img').naturalWidth == 22", 5)  # its map
        says(page.text("#line")[0], "stopped by a signal", "Run the same command again to continue.")
        says(" ".join(page.text(".colours span")), "-50 dB", "-15 dB")
        expect(re.fullmatch("stopped, [0-9]+ % \u2013 h5spec run", page.run("document.title")), "%s", page.run("document.title"))
        expect(not page.errors, "%s", page.errors)


def test_wrong_folders():
    folder = tmp()
    put_file(os.path.join(folder, "index.html"), "mine")
    out = os.path.join(tmp(), "r.h5")
    says(run(H5SPEC, "run", "--live", folder, "-o", out, small(), status=1).err, "not a live page made by h5spec")
    expect(open(os.path.join(folder, "index.html")).read() == "mine", "overwritten")
    says(run(H5SPEC, "run", "--live", os.path.join(folder, "index.html", "x"), "-o", out, small(), status=5).err, "--live")
    says(run(H5SPEC, "run", "--live", "x" * 4001, "-o", out, small(), status=1).err, "longer than 4000 bytes")


@races
def test_counts_are_final_when_the_page_shows_them():
    # the last thing that a store's end added was counts, while the page read them
    needs("report")
    stores = [store(made("--size", "%dx700" % (600 + 20 * k), "--seed", str(k), name="short-%02d" % k)) for k in range(15)]
    for threads in (2, 4):
        folder, out = os.path.join(tmp(), "live"), os.path.join(tmp(), "r.h5")
        run(H5SPEC, "run", "-q", "--device", "cpu", "-j", threads, "--live", folder, "-o", out, *stores)
        expect(state(folder)["done"] == len(stores), "%s", state(folder))
        with h5py.File(out, "r") as f:
            for k, name in enumerate(sorted(f["slides"])):
                shown = call_of(os.path.join(folder, "%d.js" % (k + 1)), "slide")
                expect(shown["windows"] == f["slides"][name].attrs["windows"], "%s: %s", name, shown)


if __name__ == "__main__":
    main(globals())
