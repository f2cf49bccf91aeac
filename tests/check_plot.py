"""`h5spec plot`: every number in the picture against numpy, the file's fate, hostile names."""


import h5py
import numpy as np

from lib import *
from svg_numbers import (SVG, Panel, blocks_of, brightness, caption, check_curve, check_map, ladder,
                         number, of_class, parse, shares, texts, window_map)

SMALL = ("--size", "900x700")
CIVIDIS_ENDS = ("#00224e", "#fee838")


def slide_result(k=1, size="900x700", *options):
    key = (k, size) + options
    if key not in slide_result.made:
        slide_result.made[key] = spectrum(
            store(made("--size", size, "--seed", str(k), name="slide-%02d" % k)), *options
        )
    return slide_result.made[key]


slide_result.made = {}


def corpus(n=14):
    return [slide_result(k + 1, "%dx%d" % (300 + 20 * k, 400)) for k in range(n)]


def plot(*argv, status=0, name="p.svg"):
    """Draws; returns the picture's path and the run."""
    path = os.path.join(tmp(), name)
    return path, run(H5SPEC, "plot", "-o", path, *argv, status=status)


# --- numbers ---


def test_histogram_of_a_slide():
    result = slide_result()
    path, p = plot(result)
    expect(p.out == "" and p.err == "", "prints %s %s", p.out, p.err)
    panel = Panel(parse(path))
    (curve,) = panel.curves()
    check_curve(panel.points(curve), *shares(result, "slide-01"), panel.low, panel.high)


def test_mean_and_std_are_marked_once():
    result = slide_result()
    root = parse(plot(result)[0])
    panel = Panel(root)
    mean, std, windows = (attributes_of(result)[k] for k in ("mean_db", "std_db", "windows"))
    (dot,) = of_class(root, "circle", "dot")
    (bar,) = of_class(root, "path", "bar")
    ends = [float(v) for v in re.findall(r"M([\d.]+) ", bar.get("d"))[1:]]
    expect(abs(panel.to_db(float(dot.get("cx"))) - mean) < 0.02, "mean")
    expect(len(ends) == 2 and
           np.allclose(panel.to_db(np.array(ends)), [mean - std, mean + std], atol=0.02), "std: %s",
           ends)
    for text in ("%.2f" % mean, "%.2f" % std, "%d" % windows):
        expect(texts(root).count(text) == 1, "%s is there %d times", text, texts(root).count(text))


def test_several_slides_are_distinguished():
    results = corpus(12)
    path, _ = plot(*results)
    panel = Panel(parse(path))
    curves = panel.curves()
    looks = [(c.get("stroke"), c.get("stroke-dasharray")) for c in curves]
    expect(len(curves) == 12 and len(set(looks)) == 12, "%s", looks)
    for k, (c, result) in enumerate(zip(curves, results)):
        name = "slide-%02d" % (k + 1)
        expect(c.find(SVG + "title").text == name, "title")
        check_curve(panel.points(c), *shares(result, name), panel.low, panel.high)
    for dash in set(d for _, d in looks):  # in grey print
        gray = sorted(brightness(c) for c, d in looks if d == dash)
        expect(np.diff(gray).min() > 0.1, "dashes %s: brightness %s", dash, gray)


def check_bands(path, results):
    root = parse(path)
    panel = Panel(root)
    middles = shares(results[0], "slide-01")[0]
    every = np.array([shares(r, "slide-%02d" % (k + 1))[1] for k, r in enumerate(results)])
    (median,) = panel.curves()
    check_curve(panel.points(median), middles, np.quantile(every, 0.5, axis=0), panel.low,
                panel.high)
    for name, low, high in (("outer", 0.05, 0.95), ("inner", 0.25, 0.75)):
        (band,) = of_class(root, "path", name)
        points = panel.points(band)
        n = len(points) // 2
        check_curve(points[:n], middles, np.quantile(every, high, axis=0), panel.low, panel.high)
        check_curve(points[n:][::-1], middles, np.quantile(every, low, axis=0), panel.low,
                    panel.high)
    expect(panel.high < 150, "the axis ends at %g dB", panel.high)  # the histograms end at 160
    return root


def test_bands_of_a_corpus():
    results = corpus(14)
    merged = os.path.join(tmp(), "corpus.h5")
    run(H5SPEC, "merge", "-q", "-o", merged, *results)
    root = check_bands(plot(merged)[0], results)
    with h5py.File(merged, "r") as f:
        for text in ("%.2f" % f.attrs["mean_db"], "%.2f" % f.attrs["std_db"],
                     "%d" % f.attrs["windows"]):
            expect(text in texts(root), "%s is not in the legend", text)
    says(" ".join(texts(root)), "median of 14 slides", "25 % to 75 %", "5 % to 95 %")
    check_bands(plot(*results)[0], results)  # the same from single files


def test_axis_fits_the_values():
    result = slide_result()
    root = parse(plot(result)[0])
    panel = Panel(root)
    with h5py.File(result, "r") as f:
        h = f["histogram"][()]
        edges = np.linspace(0, 160, len(h) + 1)
    low, high = round(panel.low, 6), round(panel.high, 6)
    inside = h[(edges[:-1] > low - 0.01) & (edges[1:] < high + 0.01)].sum()
    outside = 100 * (1 - inside / h.sum())
    expect(0 < outside < 0.1, "%g %% outside", outside)
    says(caption(root), "Outside the axis: %.3f %% of the values" % outside)
    used = edges[np.nonzero(np.cumsum(h) > 0.9995 * h.sum())[0][0]]
    expect(high < used + 6, "axis to %g dB, values to %g dB", high, used)


def test_values_outside_the_histogram_are_counted():
    result = slide_result(1, "900x700", "--range", "30:50", "--bins", "7")
    root = parse(plot(result)[0])
    panel = Panel(root)
    with h5py.File(result, "r") as f:
        n = f.attrs["underflow"] + f.attrs["overflow"]
        outside = 100 * float(n) / float(f.attrs["samples"])
    expect(outside > 10, "nothing to see")
    says(caption(root), "Outside the axis: %.3f %%" % outside, "7 bins of 2.85714 dB")
    middles, want = shares(result, "slide-01")
    points = panel.points(panel.curves()[0])  # wide cells are steps: two points each
    expect(np.abs(points[::2, 1] - want).max() < 0.002 and
           np.allclose(points[::2, 1], points[1::2, 1]), "steps")
    expect(np.allclose(points[1:-1:2, 0], points[2::2, 0], atol=0.02), "edges")


def test_parameters_are_in_the_caption():
    s = store(made(*SMALL, "--tissue-fraction", "0.5", name="tissue"), "--tissue-only")
    r = spectrum(s, "--tissue-only", "--min-tissue", "0.25", "--window", "128", "--stride", "100",
                 "--sigma", "0.5", "--taper", "hann")
    says(caption(parse(plot(r)[0])), "128 x 128 px", "stride 100 px", "sigma 0.5 px", "hann taper",
         "1,600 bins of 0.1 dB from 0 to 160 dB", "drawn in steps of 0.5 dB",
         "at least 25 % tissue")
    says(caption(parse(plot(slide_result(1, "900x700", "--sigma", "0"))[0])), "no smoothing")
    gray = spectrum(store(made(*SMALL, name="gray"), "--gray"))
    says(caption(parse(plot(gray)[0])), "1 slide from 8-bit gray")


def test_incomplete_and_empty_slides_are_named():
    s = store(made("--size", "600x1400", name="groups"), "--stripe-rows", "240", "--group-bytes",
              "1")
    part = spectrum(s, "--groups", "1-3")
    small = spectrum(store(made("--size", "200x200", name="tiny")))
    says(caption(parse(plot(part, small)[0])), "1 slide is incomplete: groups are missing",
         "Not shown: 1 slide without counted windows")
    path, p = plot(small, status=1)
    says(p.err, small, "no window of the slide was counted")
    expect(not os.path.exists(path), "a picture of nothing")


# --- the map ---


def test_map_of_a_slide():
    root = parse(plot("--map", "--feature", "mean_db", slide_result())[0])
    colours = ladder(root)
    runs = 1 + np.count_nonzero([a != b for a, b in zip(colours, colours[1:])])
    expect(len(colours) == 256 and len(set(colours)) == runs > 200 and
           (colours[0], colours[-1]) == CIVIDIS_ENDS, "cividis")
    steps = np.diff([brightness(c) for c in colours])
    expect(steps.min() > -0.002 and brightness(colours[-1]) - brightness(colours[0]) > 0.75,
           "brightness")
    result = slide_result()
    root = parse(plot("--map", "--feature", "mean", result)[0])
    check_map(root, window_map(result), 20, 60)
    expect(not [t for t in texts(root) if t == "no value"], "nothing is hatched")
    says(caption(root), "each cell is a window")
    root = parse(plot("--map", "--feature", "mean", "--colours", "35:45.5", result)[0])
    check_map(root, window_map(result), 35, 45.5)
    values = window_map(result)
    says(
        caption(root),
        "%.2f %% of the windows below, %.2f %% above"
        % (100 * (values < 35).mean(), 100 * (values > 45.5).mean()),
    )


def test_map_without_values_is_hatched():
    r = spectrum(store(made(*SMALL, "--tissue-fraction", "0.5", name="tissue"), "--tissue-only"),
                 "--tissue-only", "--stride", "32")
    values = window_map(r)
    expect(np.isnan(values).any() and not np.isnan(values).all(), "the slide does not serve")
    root = parse(plot("--map", "--feature", "mean", r)[0])
    check_map(root, values, 20, 60)
    says(" ".join(texts(root)), "no value")


def test_large_maps_are_drawn_in_blocks():
    r = spectrum(store(made("--size", "700x400", name="fine"), "--tissue-only"), "--tissue-only",
                 "--window", "64", "--stride", "3")
    values = window_map(r)
    expect(200 < max(values.shape) <= 400, "%s", values.shape)
    root = parse(plot("--map", "--feature", "mean", r)[0])
    check_map(root, blocks_of(values, 2), 20, 60)
    says(caption(root), "each cell is the mean of 2 x 2 windows")


def test_map_axes_are_in_px():
    root = parse(plot("--map", slide_result(1, "900x700", "--stride", "64"))[0])
    (group,) = [g for g in root.iter(SVG + "g") if "map" in g.get("class", "").split()]
    left, top, scale = (float(v) for v in re.findall(r"[\d.]+", group.get("transform")))
    bottom = top + scale * 7  # (700 - 256) / 64 + 1
    ticks = [
        (float(e.get("x")), number(e.text))
        for e in of_class(root, "text", "middle")
        if e.get("y") and abs(float(e.get("y")) - bottom - 19) < 0.01
    ]
    expect(len(ticks) >= 2, "ticks")
    for x, px in ticks:  # a window's square is its middle: stride x stride px
        expect(abs((px - 96) / 64 - (x - left) / scale) < 0.01, "%g px is at %g", px, x)


def test_map_shows_sharpness_as_the_report_does():
    """It showed the mean, which is no measure of focus, as "Map of the windows"."""
    result = slide_result()
    root = parse(plot("--map", result)[0])
    check_map(root, window_map(result, "focus_db"), -50, -15)
    says(" ".join(texts(root)), "Map of focus_db: sharpness of each window", "focus_db (dB)")
    for name in ("std", "level_db"):
        root = parse(plot("--map", "--feature", name, "--colours", "10:50", result)[0])
        check_map(root, window_map(result, name.replace("_db", "") + "_db"), 10, 50)


def test_map_has_a_scale_bar():
    """The map had px only. Windows of 128 px at 0.499 um/px."""
    for mpp in ("0.499", "0.1", None):
        result = spectrum(store(made("--size", "1500x1200", "--mpp", mpp or "none", name="scale")))
        root = parse(plot("--map", result)[0])
        bars = of_class(root, "rect", "scale")
        if not mpp:
            expect(bars == [], "a scale without a resolution")
            continue
        (group,) = [g for g in root.iter(SVG + "g") if "map" in g.get("class", "").split()]
        scale = float(re.findall(r"scale\(([\d.]+)", group.get("transform"))[0])
        (label,) = [t for t in texts(root) if re.fullmatch(r"[\d.]+ [um]m", t)]
        um = float(label.split()[0]) * (1000 if label.endswith("mm") else 1)
        px = float(bars[0].get("width"))
        expect(abs(px - um / float(mpp) / 128 * scale) < 0.02 and 60 < px < 350, "%s: %g px", label, px)


# --- choice of slides ---


def test_slides_are_chosen_by_name_or_pattern():
    results = corpus(5)
    titles = [
        [c.find(SVG + "title").text for c in Panel(parse(plot(*o, *results)[0])).curves()]
        for o in (
            ["--slide", "slide-03"],
            ["--slide", "slide-0[24]"],
            ["--slide", "slide-01", "--slide", "*5"],
        )
    ]
    expect(titles == [["slide-03"], ["slide-02", "slide-04"], ["slide-01", "slide-05"]], "%s",
           titles)
    path, p = plot("--slide", "nobody", *results, status=1)
    says(p.err, "--slide nobody", "matches no slide")
    path, p = plot("--slide", "slide-01", "--slide", "x*", *results, status=1)
    says(p.err, "--slide x*", "matches no slide")
    one = Panel(parse(plot("--map", "--slide", "slide-03", *results)[0]))
    expect(len(one.curves()) == 1, "map")


def test_folders_are_searched_for_results():
    folder = tmp()
    for k, r in enumerate(corpus(3)):
        shutil.copy(r, os.path.join(folder, "%d.h5" % k))
    shutil.copy(store(made(*SMALL, "--tissue-fraction", "0.5", name="tissue"), "--tissue-only"), os.path.join(folder, "s.h5"))
    expect(len(Panel(parse(plot(folder)[0])).curves()) == 3, "the results of a folder")
    os.symlink("nothing.h5", os.path.join(folder, "dangling.h5"))
    path, p = plot(folder, status=1)
    says(p.err, "dangling.h5")
    expect(not os.path.exists(path), "a picture without one of its results")


def test_equal_names_show_their_files():
    a, b = slide_result(1), slide_result(1, "900x700", "--groups", "1")
    found = " ".join(texts(parse(plot(a, b)[0])))
    says(found, "result.h5: slide-01")


def test_title():
    result = slide_result()
    says(texts(parse(plot(result)[0]))[0], "Spectral histogram of slide-01")
    says(texts(parse(plot("--title", "Scanner A & B", result)[0]))[0], "Scanner A & B")
    says(texts(parse(plot(*corpus(3))[0]))[0], "Spectral histograms of 3 slides")
    expect(not of_class(parse(plot("--title", "", result)[0]), "text", "title"), "title")


# --- wrong usage and wrong files ---


def test_wrong_usage():
    r = slide_result()
    for argv, words in (
        (["-o", "x.png", r], ["-o x.png: plot draws SVG pictures; name it FILE.svg"]),
        (["-o", "", r], ["plot draws SVG pictures"]),
        (["-o", tmp() + "/.svg", r], ["plot draws SVG pictures"]),
        ([r], ["-o FILE.svg is missing"]),
        (["-o", "x.svg"], ["no input file"]),
        (["-o", "x.svg", "--colours", "1:2", r], ["--colours", "--map"]),
        (["-o", "x.svg", "--feature", "mean", r], ["--feature", "--map"]),
        (["-o", "x.svg", "--map", "--feature", "flags", r], ["--feature flags: unknown"]),
        (["-o", "x.svg", "--map", "--colours", "60:20", r], ["--colours 60:20"]),
        (["-o", "x.svg", "--map", "--colours", "60", r], ["--colours 60", "LOW:HIGH"]),
    ):
        p = run(H5SPEC, "plot", *argv, status=2, cwd=tmp())
        says(p.err, "h5spec plot: ", "Try 'h5spec plot --help'", *words)


def test_wrong_inputs():
    a, s = slide_result(), store(made(*SMALL, "--seed", "1", name="slide-01"))
    b = slide_result(2, "900x700", "--stride", "64")
    bad = os.path.join(tmp(), "bad.h5")
    half = bytes_in(a)[:3000]
    put_file(bad, half)
    for argv, words in (([a, b], [b, "stride is 128 and 64", "parameters differ"]), ([s], [s]),
                        ([bad], [bad]), (["/nowhere/r.h5"], ["/nowhere/r.h5"]),
                        (["--map", *corpus(2)], ["--map shows one slide", "--slide"])):
        path, p = plot(*argv, status=1)
        says(p.err, *words)
        expect(os.listdir(os.path.dirname(path)) == [], "left: %s",
               os.listdir(os.path.dirname(path)))


def test_only_pictures_of_ours_are_overwritten():
    r = slide_result()
    for content in (
        b"",
        b"<svg/>",
        b'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    ):
        path = file_of("theirs.svg", content)
        says(run(H5SPEC, "plot", "-o", path, r, status=1).err, path, "not overwritten")
        expect(bytes_in(path) == content, "overwritten")
    folder = os.path.join(tmp(), "folder.svg")
    os.mkdir(folder)
    says(run(H5SPEC, "plot", "-o", folder, r, status=1).err, folder, "not overwritten")
    path, _ = plot(r)
    first = bytes_in(path)
    run(H5SPEC, "plot", "-o", path, "--title", "other", r)
    expect(b"other" in bytes_in(path), "an older picture of ours is replaced")
    run(H5SPEC, "plot", "-o", path, r)
    expect(bytes_in(path) == first, "equal inputs give equal bytes")
    missing = os.path.join(tmp(), "no-folder")
    says(run(H5SPEC, "plot", "-o", missing + "/x.svg", r, status=5).err, missing, "create it first")


def test_a_failed_write_keeps_the_old_picture():
    r = slide_result()
    path, _ = plot(r)
    before = bytes_in(path)
    p = run(H5SPEC, "plot", "-o", path, "--title", "new", r, status=5, preexec_fn=small_files(2000))
    says(p.err, path, "cannot write")
    expect(bytes_in(path) == before, "the old picture is gone")
    expect(os.listdir(os.path.dirname(path)) == [os.path.basename(path)], "left over")


# --- hostile names ---


def test_hostile_names_stay_text():
    name = "a<script>alert(1)<!--&\"'\u202e\x1b[31m\u67d3\u8272"
    s = copied(store(made("--size", "400x400", name="plain")), name + ".h5")
    r = spectrum(s)
    bad = os.fsdecode(b"x\xff\xc3(<b>\x01\x7f]]>")
    for argv in ([], ["--title", bad], ["--map"]):
        path, _ = plot(*argv, r)
        root = parse(path)
        tags = {e.tag.replace(SVG, "") for e in root.iter()}
        expect(
            tags
            <= {
                "svg",
                "title",
                "style",
                "rect",
                "line",
                "text",
                "path",
                "circle",
                "g",
                "defs",
                "pattern",
            },
            "%s",
            tags,
        )
        text = bytes_in(path).decode("utf-8")
        expect(not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text), "control characters")
        expect("<script>alert" not in text and "\u67d3\u8272" in text, "name")
    expect("x\ufffd\ufffd(<b>??]]>" in texts(parse(plot("--title", bad, r)[0])), "title")


def test_nothing_outside_is_referred_to():
    path, _ = plot("--map", slide_result())
    text = text_in(path)
    text = text.replace('xmlns="http://www.w3.org/2000/svg"', "", 1)
    for word in ("href", "http", "@import", "@font", "<script", "<image", "<use", "data:"):
        expect(word not in text, "%s is in the picture", word)
    expect(set(re.findall(r"url\(([^)]*)", text)) == {"#hatch"}, "url")
    expect(len(text) < 200000, "%d bytes", len(text))


def test_long_names_are_shortened_in_the_middle():
    name = "TCGA-A1-A0SB-01Z-00-DX1.B34C267B-CAAD-4C2B-8A0E-2F8D9B0B9A5D"
    s = copied(store(made("--size", "400x400", name="plain")), name + ".h5")
    found = texts(parse(plot(spectrum(s), slide_result())[0]))
    row = [t for t in found if t.startswith("TCGA-A1")]
    expect(len(row) == 1 and len(row[0]) == 50 and "\u2026" in row[0] and row[0].endswith("9A5D"),
           "%s", row)


@later("ci")
def test_picture_of_the_readme():
    """process/example.svg is what the commands in process/README.md draw, but for the compression of its two pictures."""
    if not importlib.util.find_spec("PIL"):
        raise Skip("python3-pil is not installed")
    (block,) = re.findall(r"```sh with PIL\n(.*?)```", text_in(os.path.join(ROOT, "process/README.md")), re.S)
    d = tmp("figure")
    for name, target in (("build", BUILD), ("scripts", os.path.join(ROOT, "scripts"))):
        os.symlink(target, os.path.join(d, name))
    put_file(os.path.join(d, "commands"), block.replace("python3 ", sys.executable + " "))
    run("sh", "-e", "commands", cwd=d, env=dict(os.environ, PATH=BUILD + ":" + os.environ["PATH"], PYTHONDONTWRITEBYTECODE="1"))
    drawn, kept = (re.sub(r"base64,[^\"]+", "", text_in(os.path.join(*path))) for path in ((d, "figure/example.svg"), (ROOT, "process/example.svg")))
    expect(drawn == kept, "process/example.svg: draw it again, as process/README.md says")


if __name__ == "__main__":
    main(globals())
