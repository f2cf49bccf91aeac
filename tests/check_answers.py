"""Answers in Python (scripts/wsi_answers) beside those of the program in C: the same tables byte for byte, the same page and messages."""
import h5py
import numpy as np

from lib import *

MKRESULT = os.path.join(BUILD, "tests", "mkresult")
WRITTEN = re.compile(r"; written in .*")
sys.dont_write_bytecode = True


def made_result(*options, name="m.h5"):
    needs("report")
    key = ("answers", name) + options
    if key not in made_result.kept:
        made_result.kept[key] = os.path.join(tmp("result"), name)
        run(MKRESULT, *options, made_result.kept[key])
    return made_result.kept[key]


made_result.kept = {}


def slides():
    return made_result("--slides", "24", "--blurred", "3")


def listed(names):
    return file_of("names", b"".join(os.fsencode(n) + b"\n" for n in names))


def csv_file(*lines, name="t.csv"):
    return file_of(name, "".join(line + "\n" for line in lines))


def answers(python, argv, status=None, **env):
    """What a report writes and says, by either program: in a folder of its own, under the same names."""
    here = tmp()
    env = dict(os.environ, WSI_REPORT="python" if python else "", PYTHONDONTWRITEBYTECODE="1", **env)
    p = run(H5SPEC, "report", "-o", "r.html", "--csv", "r.csv", *argv, status=status, cwd=here, env=env)
    files = {n: bytes_in(os.path.join(d, n)) for d, _, names in os.walk(here) for n in names}
    return p.returncode, p.out, WRITTEN.sub("", p.err), files


def parts(page):
    """A page without its data, and the data."""
    text = page.decode()
    m = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return text[:m.start()] + text[m.end():], json.loads(m.group(1))


def same(*argv):
    """Both programs give the same answers; returns those of Python."""
    c, p = answers(False, argv), answers(True, argv)
    expect(c[:3] == p[:3], "%s:\n%s\n%s", argv, c[:3], p[:3])
    expect(sorted(c[3]) == sorted(p[3]), "%s: %s, %s", argv, sorted(c[3]), sorted(p[3]))
    for name in c[3]:
        a, b = c[3][name], p[3][name]
        if name.endswith(".html"):
            (rest_a, data_a), (rest_b, data_b) = parts(a), parts(b)
            for key in data_a:
                expect(data_a[key] == data_b.get(key), "%s: %s is %s, not %s", argv, key, data_b.get(key), data_a[key])
            expect(rest_a == rest_b, "%s: the pages differ: %s", argv, [x for x in zip(rest_a.split("\n"), rest_b.split("\n")) if x[0] != x[1]][:1])
        elif name.endswith(".json"):
            expect(json.loads(a) == json.loads(b), "%s: %s", argv, name)
        else:
            expect(a == b, "%s: %s differs: %s", argv, name, [x for x in zip(a.split(b"\n"), b.split(b"\n")) if x[0] != x[1]][:1])
    return p


def test_groups_limits_and_names():
    source, other = slides(), made_result("--slides", "15", "--seed", "2", "--mpp", "0.5", "--vendor", "b", "--names", listed("s%d" % k for k in range(15)), name="b.h5")
    status, _, _, files = same(source)
    expect(status == 0 and len(files) == 2 and b"tissue blurred" in files["r.csv"], "a useless result: %d", status)
    meta = csv_file("slide;site;who", *("made-%05d;s%d;made-%d" % (k, k % 2, k) for k in range(1, 20)), "nosuch;s1;x", "made-00001.svs;s1;made-1")
    limits = csv_file("metric,side,warn,fail,group", "mean_db,above,30,100,", "focus_p50,below,-30,-35,", "stain_hue,above,10,20,s0", "slope,below,0,,x")
    for options in (("--group", "vendor"), ("--group", "objective_power"), ("--group", "result"), ("--meta", meta, "--group", "site", "--limits", limits)):
        same(*options, source, other)
        same("--anonymous", "k.csv", *options, source, other)
    same("--limits", limits, "--strict", "--json", "--title", "a <b> & 'c'", source)
    same("--accepted", file_of("good", "made-00001\n# none\n\"made-00004\"\nnosuch,\nmade-00005.svs\n"), source)
    same("--accepted", file_of("good", "".join("made-%05d\n" % k for k in range(4, 21))), "--multiqc", "mqc", source)


def test_what_is_wrong_is_said_alike():
    source = slides()
    for row in ("mean_db,above,x,", "mean_db,over,1,", "nosuch,above,1,", "mean_db,above,,", "mean_db,above,50,40", "blurred_share,above,2,",
                "stain_hue,above,400,", 'mean_db,above,"1', "mean_db,above,1", "mean_db,above,1e10,", 'mean_db,"above"x,1,'):
        same("--limits", csv_file("metric,side,warn,fail", row), source)
    for text in ("", "slide\n", "slide,site\nmade-00001,a\nmade-00001,b\n", "slide,site\n" + "".join("made-%05d,%d\n" % (k % 24 + 1, k) for k in range(300)), "a\0b"):
        same("--meta", file_of("t.csv", text), "--group", "site", source)
    same("--meta", "nosuch.csv", "--group", "site", source)
    same("--group", "nosuch", source)
    same("--accepted", "nosuch", source)
    same("--accepted", file_of("names", "a\0b\n"), source)


def test_inputs_without_numbers():
    source, small = slides(), made_result("--slides", "5", "--window", "64", "--stride", "64", name="w.h5")
    cut = os.path.join(tmp(), "cut.h5")
    put_file(cut, bytes_in(source)[:3000])
    failed = csv_file("slide,reason,output", "/x/y/a.svs,/x/y/a.svs: no slide,", "/x/z/b.svs,b.svs to c.h5: bad,", '"=x",,', ",left out <things>,", ',"more, too",')
    for argv in ((cut, source), (cut,), (source, small), ("--failed", failed, source), ("--failed", failed), ("--anonymous", "k.csv", "--failed", failed, cut, source)):
        same(*argv)
    folder = tmp()
    shutil.copy(source, os.path.join(folder, "made-00003.h5"))
    put_file(os.path.join(folder, "failed.csv"), "slide,reason,output\nmade-00003.svs,made-00003.svs: again,made-00003.h5\ngone.svs,gone,gone.h5\n")
    same(folder)
    same("--anonymous", "k.csv", folder)
    same("--multiqc", "mqc", "--max-size", "0", folder)


def test_odd_names():
    names = ["a&b", "q'q", 'say "x", y', " two  sp ", "=1+1", "@x", "\udcff\udcfe", "tab\there", "\u202eabc", "\xe9", "\u0378", "A.svs", "<i>", "'", "x" * 200] + list("BCDE")
    source = made_result("--names", listed(names), "--blurred", "2", name="odd <b>.h5")
    for options in ((), ("--anonymous", "k.csv"), ("--multiqc", "mqc"), ("--group", "result")):
        same(*options, source)


def test_forms_and_sizes():
    """Copies, a table, results of their own; all pictures, some, none."""
    folder = tmp("corpus")
    os.mkdir(os.path.join(folder, "results"))
    run(MKRESULT, "--each", "--slides", "120", "--windows", "12x9", "--window", "64", "--stride", "32", "--blurred", "5", os.path.join(folder, "results"))
    forms = [os.path.join(folder, n) for n in ("table.h5", "copies.h5", "results")]
    run(H5SPEC, "merge", "-q", "--table", "-o", forms[0], forms[2])
    run(H5SPEC, "merge", "-q", "-o", forms[1], forms[2])
    for form in forms:
        for options in ((), ("--max-size", "0"), ("--max-size", "120K"), ("--max-size", "400K")):
            same(*options, form)
    same(*forms, slides())
    os.unlink(os.path.join(folder, "results", "made-00001.h5"))
    for options in ((), ("--max-size", "0"), ("--max-size", "120K")):
        same(*options, forms[0])


def test_slides_of_every_kind():
    """Without tissue, too few, all alike, with gaps, damage, a part of one; and made stores."""
    def damage(f):
        s = f["slides/made-00007"]
        s["window_flags"][4, 3:8] |= 8
        s.attrs["windows_damaged"] = 5
        s["window_focus_db"][2, 5] -= 3000
        f["slides/made-00009/window_focus_db"][...] -= 900
        f["slides/made-00011/thumbnail"][:60] = (40, 160, 60)
    for source in (made_result("--slides", "12", "--no-tissue", name="n.h5"), made_result("--slides", "9", name="f.h5"),
                   made_result("--slides", "14", "--constant", name="c.h5"), made_result("--slides", "40", "--noise", "--seed", "5", name="s.h5"),
                   changed(made_result("--slides", "12", "--noise", name="d.h5"), damage)):
        same(source)
    unknown = [made_result("--slides", "12", "--mpp", "0", "--seed", str(k), "--windows", "%dx10" % (8 * k * k), "--vendor", "v%d" % (k % 2), "--names",
                           listed("u%d-%d" % (k, j) for j in range(12)), name="u%d.h5" % k) for k in (1, 2, 3)]
    for options in ((), ("--group", "result")):
        same(*options, *unknown)
    copies = csv_file("slide,reason,output", "/x/a.svs,/x/a.svs: copy of b.svs,", "c.svs,c.svs: copy of <d>,made-00003.h5")
    for options in ((), ("--anonymous", "k.csv")):
        same("--failed", copies, *options, slides(), made_result("--slides", "24", "--blurred", "12", "--seed", "4", "--names", listed("h%d" % k for k in range(24)), name="h.h5"))
    one = store(made("--size", "1200x1000", "--garbage", "2,2", "--missing", "1,1", name="bad"), "--stripe-rows", "240", "--group-bytes", "1", "--accept-damage")
    same(spectrum(one, "--groups", "1-2"), spectrum(store(made("--size", "300x200", name="small"))), slides())
    same(spectrum(one, "--tissue-only", "--skip-damaged"))


def test_pixels_that_accuse_nobody():
    """A dark background, the grid of an earlier JPEG, seams of tiles, tiles that were never scanned; and results of version 1.0, which do not know them."""
    blames = dict(glass_rows=0.9, glass_columns=0.1, lines_db=14, lines_period_px=5, lines_deg=0)
    seams = dict(seam_rows=0, seam_columns=5, seam_x_px=511, seam_y_px=np.nan)
    number = "stain_density stain_hue gray_share ink_share colourless_share light_step light_step_at".split()    # a report computes what a result lacks

    def says_of(lacks=(), **attributes):
        """What both programs say of one of 12 slides, in their table."""
        def change(f):
            for s in f["slides"].values():
                for name in set(lacks) & set(s.attrs):
                    del s.attrs[name]
            s = f["slides/made-00003"]
            for name, value in attributes.items():
                s.attrs[name] = value if name in ("background", "tiles", "tiles_missing") else np.float64(value)
        source = changed(made_result("--slides", "12", name="p.h5"), change)
        (row,) = [r for r in csv_rows(file_of("r.csv", same(source)[3]["r.csv"])) if r["slide"] == "made-00003"]
        return row

    row = says_of(number, background="dark")
    expect([row[k] for k in ("gray_low", "gray_high", "gray_share", "ink_share", "light_step", "stain_hue") if row[k]] == [], "%s", row)
    says(row["reasons"], "no bright background (fluorescence?): stain, ink, light and glass are not judged")
    row = says_of(background="bright", tiles=100, tiles_missing=2)
    expect(row["gray_low"] == row["gray_high"] == row["light_step"] == "", "never scanned: %s", row)
    for cause, first in ((dict(glass_grid=0.6), True), (dict(glass_grid=0.4, jpeg_twice=0.3), True), (dict(glass_grid=0.5), False)):
        text = says_of(**dict(blames, **dict(seams, tile_seam_rows=0, tile_seam_columns=0), **cause))["reasons"]
        says(text, *("the file was compressed before, so look at the scanner's own file first" if first else words for words in
                     ("lines along the rows on the glass: line camera", "send the scanner to service", "scan it again")),
             "lines along the rows on the glass", "a pattern of lines every 5 px", "straight edges")
        expect(("compressed before, on another grid of blocks" in text) == ("jpeg_twice" not in cause and first), "%s: %s", cause, text)
        expect(("scan it again" in text or "service" in text) != first, "%s: %s", cause, text)
    says(says_of(["glass_grid"], **blames)["reasons"], "an earlier compression on another grid, or the scanner; convert and run it again with --force")
    says(says_of(tile_seam_rows=2, tile_seam_columns=1)["reasons"], "tiles of the file's compression show in the picture")
    expect("tiles of" not in says_of(tile_seam_rows=1, tile_seam_columns=1)["reasons"], "as few as chance makes")
    says(says_of(tile_seam_rows=0, tile_seam_columns=0, **seams)["reasons"], "straight edges through the tissue along 5 columns")
    says(says_of(["tile_seam_rows", "tile_seam_columns"], **seams)["reasons"], "tiles of the file's compression")


def test_rules_are_those_of_a_table():
    """judge(): the verdicts of a report, in one call on a table of h5spec merge --table."""
    folder = tmp("corpus")
    shutil.copy(slides(), os.path.join(folder, "m.h5"))
    table = os.path.join(folder, "t.h5")
    run(H5SPEC, "merge", "-q", "--table", "-o", table, os.path.join(folder, "m.h5"))
    code = ("import sys, json; sys.path.insert(0, sys.argv[1]); import wsi_answers\n"
            "from wsi_answers import judge, numbers\n"
            "before = judge(sys.argv[2])\n"
            "object.__setattr__(numbers.BY_NAME['blurred_share'], 'most', 2)\n"  # a scientist changes a field of a row
            "object.__setattr__(numbers.BY_NAME['focus_p50'], 'low', 'dull tissue')\n"
            "print(json.dumps([before, judge(sys.argv[2])]))")
    before, after = json.loads(run(sys.executable, "-c", code, os.path.join(ROOT, "scripts"), table, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1")).out)
    rows = csv_rows(file_of("r.csv", answers(True, [table])[3]["r.csv"]))
    expect([x[:2] for x in before] == [[r["slide"], r["verdict"]] for r in rows], "%s", before)
    expect([x[:2] for x in after] == [x[:2] for x in before] and [v for _, v, _ in after].count("review") == 3, "%s", after)
    for (_, verdict, old), (_, _, new) in zip(before, after):
        expect(verdict == "pass" or re.match("tissue (blurred|less sharp)", old[0]) and new[0].startswith("dull tissue (sharpness, typical -"), "%s, %s", old, new)
    with h5py.File(table, "r") as f:
        expect(len(f["table/name"]) == 24, "%s", f["table"])


def test_without_python_or_a_module():
    """One line says how to get it; nothing is written."""
    folder = tmp()
    for script, words in ((None, "report needs Python 3 with h5py, jinja2 and numpy; run apt install"),
                          ('#!/bin/sh\nexec %s -S "$@"\n' % sys.executable, "report needs the Python package h5py and jinja2 and numpy; run apt install")):
        if script:
            put_file(os.path.join(folder, "python3"), script)
            os.chmod(os.path.join(folder, "python3"), 0o755)
        status, out, err, files = answers(True, [slides()], PATH=folder, WSI_ANSWERS_AGAIN="1")
        expect(status == 5 and err.count("\n") == 1 and words in err and not files and not out, "%d: %s, %s", status, err, files)


def test_a_stopped_report_leaves_nothing():
    here = tmp()
    env = dict(os.environ, WSI_REPORT="python", TMPDIR=here)
    for delay in (0.05, 0.3, 0.6):
        p = subprocess.Popen([H5SPEC, "report", "-o", "r.html", slides()], cwd=here, env=env, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        p.terminate()
        _, err = p.communicate(timeout=60)
        expect(p.returncode in (-15, 3, 0) and "Traceback" not in err and set(os.listdir(here)) <= {"r.html"}, "%d: %s, %s", p.returncode, err, os.listdir(here))


def test_the_module_is_the_command():
    """python3 -m wsi_answers report starts h5spec, which reads the results."""
    here = tmp()
    env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "scripts"), H5SPEC=H5SPEC, PYTHONDONTWRITEBYTECODE="1")
    run(sys.executable, "-m", "wsi_answers", "report", "-q", "-o", "r.html", slides(), cwd=here, env=env)
    says(text_in(os.path.join(here, "r.html")), "<!-- h5spec report -->")
    run(sys.executable, "-m", "wsi_answers", "nosuch", status=1, cwd=here, env=env)
    env.update(H5SPEC="", PATH="/nowhere")
    says(run(sys.executable, "-m", "wsi_answers", "report", status=5, cwd=here, env=env).err, "h5spec", "not on the PATH")


if __name__ == "__main__":
    has("jinja2")
    main(globals())
