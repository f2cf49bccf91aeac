"""`h5spec map`: every format against numpy and read by other programs, blending against its definition, bad input."""
import functools
import math
import xml.etree.ElementTree as ET

import h5py
import numpy as np

from lib import *
from miraxfile import part_scanned

try:
    from PIL import Image
    Image.MAX_IMAGE_PIXELS = None
except ImportError:
    Image = None
try:
    import tifffile
except ImportError:
    tifffile = None

if "map" not in run(H5SPEC, "--help").out:
    print("skip map: h5spec is built without libpng")
    sys.exit(0)

MKRESULT = os.path.join(BUILD, "tests", "mkresult")
N, S = 256, 128
MAP_COLOURS, INK, STROKE, GROUND, CLEAR = 250, 251, 253, 252, 254  # process/draw/raster.h
RANGES = {"mean_db": (20, 60), "std_db": (10, 26), "level_db": (30, 75), "focus_db": (-50, -15), "fine_db": (-30, -15),
          "sharp_db": (-32, -12), "tissue": (0, 100), "gray": (0, 255), "row_step": (0, 127), "column_step": (0, 127)}


def pillow():
    if Image is None:
        raise Skip("python3-pil is not installed")
    return Image


def tiff_reader():
    if tifffile is None:
        raise Skip("python3-tifffile is not installed")
    return tifffile


@functools.lru_cache(None)
def result_of(name="slide", size="1500x1100", *options, slide=()):
    return spectrum(store(made("--size", size, *slide, name=name)), *options)


def draw(*argv, status=0, name=None):
    """Runs map; returns the folder, or the file of this name in it."""
    out = tmp("map")
    path = os.path.join(out, name) if name else out
    p = run(H5SPEC, "map", "-o", path, *argv, status=status)
    draw.err = p.err
    expect(p.out == "", "prints %s", p.out)
    return path


def slide_of(result):
    """Name, attributes and maps (float64, NaN for none) of the only slide."""
    with h5py.File(result, "r") as f:
        ((name, s),) = f["slides"].items()
        maps = {}
        for key in s:
            if key.startswith("window_") and key != "window_flags":
                values = s[key][()].astype(np.float64)
                if s[key].dtype == np.int16:
                    values = np.where(values == -32768, np.nan, values * s[key].attrs["scale"])
                if s[key].dtype == np.uint8:
                    values = np.where(values == 255, np.nan, values)
                maps[key[7:]] = values
        return name, dict(s.attrs), maps


def numbers_of_colours(values, low, high):
    """Palette entries of values; -1 for NaN."""
    t = np.clip((values - low) / (high - low), 0, 1)
    return np.where(np.isnan(values), -1, np.floor(np.nan_to_num(t) * (MAP_COLOURS - 1) + 0.5)).astype(int)


def zoom_of(cols, rows):
    """Small maps are enlarged: 24 x 20 px were lost in a picture of 490 x 312."""
    return max(1, min(348 // cols, 320 // rows))


def places_of(picture, cols, rows):
    """Palette entries of the map in a picture; -1 where it is hatched."""
    z = zoom_of(cols, rows)
    entries = np.asarray(picture)[:rows * z, :cols * z].astype(int)
    hatched = (entries == STROKE) | (entries == GROUND)
    expect((entries[~hatched] < MAP_COLOURS).all(), "other entries")
    y, x = np.mgrid[:rows * z, :cols * z]
    expect((entries[hatched] == np.where((x + y) % 6 == 0, STROKE, GROUND)[hatched]).all(), "hatching")
    places = np.where(hatched, -1, entries)
    expect((np.kron(places[::z, ::z], np.ones((z, z), int)) == places).all(), "a place has several colours")
    return places[::z, ::z]


def near(found, want, values, low, high):
    """Colours agree; float32 and float64 may differ by one where a value lies between two colours."""
    expect(((found < 0) == (want < 0)).all(), "places without a value")
    edge = np.abs(np.mod((values - low) / (high - low) * (MAP_COLOURS - 1), 1) - 0.5) < 1e-3
    off = np.abs(found - want)
    expect((off[~(edge & (off == 1))] == 0).all(), "colours differ in %d places", np.count_nonzero(off))


# --- formats ---

def test_pictures_show_one_pixel_per_window():
    image = pillow()
    result = result_of("pictures", "1500x1100", "--tissue-only")
    name, attrs, maps = slide_of(result)
    out = draw(result)
    expect(sorted(os.listdir(out)) == sorted("%s.%s.png" % (name, m) for m in maps), "%s", os.listdir(out))
    for feature, values in maps.items():
        picture = image.open(os.path.join(out, "%s.%s.png" % (name, feature)))
        expect(picture.mode == "P", "mode %s", picture.mode)
        rows, cols = values.shape
        expect(0 < np.isnan(values).sum() < values.size or feature == "tissue", "the slide has windows with and without a value")
        near(places_of(picture, cols, rows), numbers_of_colours(values, *RANGES[feature]), values, *RANGES[feature])
        z, entries = zoom_of(cols, rows), np.asarray(picture)
        expect((entries[:, cols * z:] == INK).any(0).sum() > 10 and (entries[rows * z + 2:, :cols * z] == INK).any(1).sum() > 20, "numbers beside the map, lines below it")
        expect(picture.info["Software"] == "h5spec" and picture.info["Title"] == name, "%s", picture.info)
        says(picture.info["Description"], feature, "%d x %d places of 128 px" % (cols, rows), "(64, 64)")


def test_pictures_of_sharpness_hatch_glass():
    """So do files for viewers. Tables keep the values of glass, beside how much is tissue."""
    image = pillow()
    result = result_of("pictures-glass", "1500x1100")
    name, _, maps = slide_of(result)
    out = draw(result, "--format", "png,overlay")
    glass = maps["tissue"] < 50
    expect(0 < glass.sum() < glass.size, "a useless slide")
    for feature in ("focus_db", "fine_db", "sharp_db", "level_db"):
        places = places_of(image.open(os.path.join(out, "%s.%s.png" % (name, feature))), glass.shape[1], glass.shape[0])
        expect(((places == -1) == (glass & (feature != "level_db"))).all(), "%s", feature)
        entries = np.asarray(image.open(os.path.join(out, "%s.%s.overlay.png" % (name, feature)))).astype(int)
        middles = [128 * (np.arange(n) + 1) * px // size for n, px, size in zip(glass.shape, entries.shape, (1100, 1500))]
        shown = entries[np.ix_(*middles)]
        expect((((shown == CLEAR) | (shown == STROKE)) == (glass & (feature != "level_db"))).all(), "overlay of %s", feature)
    rows = csv_rows(draw("--feature", "focus", result, name="glass.csv"))
    expect(len(rows) == glass.size and all(row["focus_db"] for row in rows), "%s", rows[:2])
    expect([int(row["tissue"]) < 50 for row in rows] == list(glass.ravel()), "%s", rows[:2])
    tiles = geojson(draw("--feature", "focus", result, name="glass.geojson"))["features"]
    expect(len(tiles) == (~glass).sum() and all("focus_db" in t["properties"]["measurements"] for t in tiles), "%d tiles", len(tiles))
    tiles = geojson(draw("--feature", "focus,level", result, name="both.geojson"))["features"]
    expect(["focus_db" in t["properties"]["measurements"] for t in tiles] == list(~glass.ravel()), "level_db alone on glass")


def test_tiff_has_no_sharpness_of_glass():
    reader = tiff_reader()
    result = result_of("pictures-glass", "1500x1100")
    glass = slide_of(result)[2]["tissue"] < 50
    with reader.TiffFile(draw("--feature", "level,focus", result, name="glass.ome.tif")) as f:
        level, focus = f.series[0].asarray()
    expect((np.isnan(focus) == glass).all() and not np.isnan(level).any(), "%s", focus)


def test_the_colour_bar_runs_from_high_to_low_and_has_numbers():
    image = pillow()
    result = result_of("pictures", "1500x1100", "--tissue-only")
    picture = np.asarray(image.open(draw("--feature", "mean", "--colours", "-10:90", result, name="a.png")))
    ny, nx = slide_of(result)[2]["mean_db"].shape
    zoom = zoom_of(nx, ny)
    nx, height = nx * zoom, max(150, min(320, ny * zoom - 50))
    bar = picture[:, nx + 16 + 8].astype(int)  # the middle of the bar
    bar = bar[10:10 + height]
    expect(bar[0] == MAP_COLOURS - 1 and bar[-1] == 0 and (np.diff(bar) <= 0).all(), "%s", bar)
    right = picture[:height + 20, nx + 16 + 16 + 6:] == 251
    lines = np.flatnonzero(np.diff(right.any(axis=1).astype(int)) == 1)
    expect(len(lines) >= 5, "numbers beside the bar: %d", len(lines))
    ticks = np.flatnonzero((picture[:, nx + 32:nx + 37] == 251).all(axis=1))
    expect(np.abs(ticks - (10 + (height - 1) * (90 - np.arange(80, -1, -20)) / 100)).max() <= 0.5, "ticks of 0 to 80: %s", ticks)
    expect((picture[height + 20:height + 40, nx + 40:] == 251).any(), "\"no value\" beside the hatched square")
    rgb = np.asarray(image.open(draw("--feature", "mean", result, name="b.png")).convert("RGB"))
    expect(tuple(rgb[10, nx + 20]) == (0xfe, 0xe8, 0x38) and tuple(rgb[9 + height, nx + 20]) == (0, 0x22, 0x4e), "cividis")


def test_colours_are_the_same_for_all_slides():
    image = pillow()
    a, b = result_of("pictures", "1500x1100"), result_of("other", "1200x900", slide=("--seed", "7"))
    palettes = [image.open(draw("--feature", "mean", r, name="p.png")).getpalette() for r in (a, b)]
    expect(palettes[0] == palettes[1], "palettes differ")
    for r in (a, b):
        _, _, maps = slide_of(r)
        v = maps["mean_db"]
        got = places_of(image.open(draw("--feature", "mean", r, name="p.png")), v.shape[1], v.shape[0])
        near(got, numbers_of_colours(v, 20, 60), v, 20, 60)


def test_overlay_has_the_aspect_of_the_slide_and_no_drift():
    image = pillow()
    for size, want in (("2600x1720", (2015, 1333)), ("1501x1103", None)):
        result = result_of("overlay", size, "--tissue-only")
        w_slide, h_slide = map(int, size.split("x"))
        v = slide_of(result)[2]["mean_db"]
        for options, corner, pitch in (((), (N - S) / 2, S), (("--blend", "tent", "--cell", "64"), 0, 64)):
            path = draw("--feature", "mean", *options, result, name="a.overlay.png")
            picture = image.open(path)
            w, h = picture.size
            expect(want is None or (w, h) == want, "%s", (w, h))
            expect(abs(w * h_slide / w_slide - h) <= 0.5 and abs(h / w * w_slide / h_slide - 1) < 1e-3, "aspect")
            values = v if not options else blended(v, w_slide, h_slide, "tent", 64)[0]
            at = [np.floor(((np.arange(n) + 0.5) * size / n - corner) / pitch).astype(int)
                  for n, size in ((w, w_slide), (h, h_slide))]
            there = (at[0] >= 0)[None] & (at[0] < values.shape[1])[None] & ((at[1] >= 0) & (at[1] < values.shape[0]))[:, None]
            shown = values[np.clip(at[1], 0, values.shape[0] - 1)][:, np.clip(at[0], 0, values.shape[1] - 1)]
            want_entries = numbers_of_colours(np.where(there, shown, np.nan), 20, 60)
            got = np.asarray(picture).astype(int)
            clear = (got == CLEAR) | (got == STROKE)
            expect((got[~there] == CLEAR).all(), "no place: transparent")
            near(np.where(clear, -1, got), want_entries, np.where(there, shown, np.nan), 20, 60)
            alpha = np.asarray(picture.convert("RGBA"))[..., 3]
            expect((alpha[got == CLEAR] == 0).all() and (alpha[got < MAP_COLOURS] == 153).all(), "opacity")


def geojson(path):
    """The tiles of a file, which is what RFC 7946 and QuPath's reader ask for (qupath.lib.io: GsonTools, QuPathTypeAdapters)."""
    def no_constant(text):
        raise Failed("not JSON: %s" % text)
    data = json.loads(text_in(path), parse_constant=no_constant)
    expect(data["type"] == "FeatureCollection", "%s", data["type"])
    for f in data["features"]:
        geometry, properties = f["geometry"], f["properties"]
        expect((f["type"], geometry["type"], properties["objectType"]) == ("Feature", "Polygon", "tile"), "%s", f)
        points = [at for ring in geometry["coordinates"] for at in ring]
        expect(points and all(len(ring) >= 4 for ring in geometry["coordinates"]) and all(len(at) == 2 for at in points), "%s", f)
        numbers = sum(points, [*properties["measurements"].values()])
        expect(properties["measurements"] and all(type(x) in (int, float) for x in numbers), "%s", f)
    return data


def area(ring):
    x, y = np.array(ring, float).T
    return (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2


def test_regions_of_a_class_are_annotations_that_cover_the_same_places():
    """One polygon per connected part, with its holes; their areas are those of the tiles beyond the limit."""
    result = result_of("pictures-glass", "1500x1100")
    tiles = geojson(draw("--feature", "mean_db", result, name="tiles.geojson"))["features"]
    values = np.array([t["properties"]["measurements"]["mean_db"] for t in tiles])
    limit = float(np.median(values)) + 1e-6
    each = abs(area(tiles[0]["geometry"]["coordinates"][0]))
    for option, wanted in (("--below", values < limit), ("--above", values > limit)):
        path = draw("--feature", "mean_db", "--class", "Out of focus", option, repr(limit), result, name="regions.geojson")
        regions = json_in(path)["features"]
        total = 0
        for r in regions:
            p = r["properties"]
            expect(p["objectType"] == "annotation" and p["classification"] == {"name": "Out of focus", "color": [200, 60, 0]}, "%s", p)
            outline, *holes = r["geometry"]["coordinates"]
            expect(all(ring[0] == ring[-1] and len(ring) >= 5 for ring in (outline, *holes)), "open rings")
            expect(area(outline) > 0 and all(area(h) < 0 for h in holes), "orientation")
            own = sum(map(area, (outline, *holes)))
            expect(abs(own - each * p["measurements"]["places"]) < 1e-3 * each, "%g px, %s", own / each, p)
            total += p["measurements"]["places"]
        expect(total == wanted.sum() > 0 and len(regions) < total, "%d of %d places in %d regions", total, wanted.sum(), len(regions))
    for words, message in ((("--class", "x", "--feature", "mean_db"), "name a limit"), (("--class", "x", "--below", "1"), "is for one feature"),
                           (("--below", "1", "--feature", "mean_db"), "without --class")):
        says(run(H5SPEC, "map", "--format", "geojson", *words, "-o", tmp(), result, status=2).err, message)
    draw("--feature", "focus", "--class", "Out of focus", result, name="own.geojson")


def group_of_blurred():
    """A folder of results of 11 slides: s00 is blurred on the left, s01 everywhere."""
    if not group_of_blurred.folder:
        blur = {0: ("--blur", "4:200,400,500"), 1: ("--blur", "2.5")}
        group_of_blurred.folder = tmp("group")
        for k in range(11):
            slide = made("--size", "1000x800", "--tissue", "section", "--seed", k, *blur.get(k, ()), name="s%02d" % k)
            shutil.copy(spectrum(store(slide)), os.path.join(group_of_blurred.folder, "r%02d.h5" % k))
    return group_of_blurred.folder


group_of_blurred.folder = None


def test_regions_without_a_limit_are_what_a_report_calls_blurred():
    """Also of slides that are blurred on half or all of it, where their own median is no measure."""
    folder = group_of_blurred()
    table = os.path.join(tmp(), "r.csv")
    run(H5SPEC, "report", "-q", "--csv", table, "-o", table[:-4] + ".html", folder)
    with open(table, encoding="utf-8", newline="") as f:
        rows = {row["slide"]: row for row in csv.DictReader(f)}
    out = draw("--feature", "focus", "--class", "Out of focus", "--format", "geojson", folder)
    says(draw.err, "2 of 11 slides; 11 by the limit of a report of these results")
    tiles = draw("--feature", "focus", "--format", "geojson", folder)
    for name, row in rows.items():
        places = sum(f["properties"]["measurements"]["places"] for f in json_in(os.path.join(out, name + ".geojson"))["features"])
        tissue = len(json_in(os.path.join(tiles, name + ".geojson"))["features"])
        expect(places == round(float(row["blurred_share"]) * tissue), "%s: %d of %d, report: %s", name, places, tissue, row["blurred_share"])
    for program in (H5SPEC, TABLES):  # all in one file, and a table
        merged = os.path.join(folder, "..", "%s-%s.h5" % (os.path.basename(folder), os.path.basename(program)))
        run(program, "merge", "-q", "-o", merged, folder)
        other = draw("--feature", "focus", "--class", "Out of focus", "--format", "geojson", merged)
        for name in rows:
            expect(text_in(os.path.join(out, name + ".geojson")) == text_in(os.path.join(other, name + ".geojson")), "%s of %s", name, merged)
    expect(float(rows["s01"]["blurred_share"]) == 1 and 0.2 < float(rows["s00"]["blurred_share"]) < 0.8, "%s", rows)


def test_no_region_is_said():
    """An empty file of a slide that is blurred all over looked like a result."""
    result = os.path.join(group_of_blurred(), "r01.h5")
    path = draw("--feature", "focus", "--class", "Out of focus", result, name="x.geojson")
    expect(json_in(path)["features"] == [], "regions")
    says(draw.err, "class 'Out of focus': 0 regions on 0 of 1 slide; 1 by the slide's own median: too few slides to compare with")
    p = run(H5SPEC, "map", "-q", "--json", "--feature", "focus", "--class", "x", "--below", "-100", "-o", path, result)
    expect(json.loads(p.out)["regions"] == 0 and p.err == "", "%s", p)


def regions_of(values, *options):
    """The polygons of a grid of scores as rings of corners, in cells; NaN is no value."""
    table, cell = tmp("grid") + ".csv", 32
    put_file(table, "x,y,size,score\n" + "".join("%d,%d,%d,%r\n" % (cell * i, cell * j, cell, float(v))
                                                for (j, i), v in np.ndenumerate(values) if not np.isnan(v)))
    size = "%dx%d" % (cell * values.shape[1], cell * values.shape[0])
    features = json_in(draw("--scores", table, "--slide-size", size, "--cell", str(cell), "--class", "x", *options, name="r.geojson"))["features"]
    return [[[(x / cell, y / cell) for x, y in ring] for ring in f["geometry"]["coordinates"]] for f in features]


def steps_of(ring):
    """Every corner of a cell that a ring passes, without the last one, which is the first."""
    found = []
    for (x0, y0), (x1, y1) in zip(ring, ring[1:]):
        n = int(max(abs(x1 - x0), abs(y1 - y0)))
        found += [(x0 + (x1 - x0) * k / n, y0 + (y1 - y0) * k / n) for k in range(n)]
    return found


def cells_inside(polygon, shape):
    """The cells of a polygon, by the rule of odd crossings to the left."""
    inside = np.zeros(shape, bool)
    for ring in polygon:
        for (x0, y0), (x1, y1) in zip(ring, ring[1:]):
            if x0 == x1:
                inside[int(min(y0, y1)):int(max(y0, y1)), int(x0):] ^= True
    return inside


def test_outlines_are_valid_and_cover_the_places_of_random_grids():
    """No ring meets itself (the rule of JTS and OGC, by which QuPath judges), also where places touch at corners."""
    try:
        from shapely.geometry import Polygon
        from shapely.validation import explain_validity
    except ImportError:
        Polygon = None
    random = np.random.default_rng(1)
    ring = np.ones((4, 4))
    ring[0, 0] = ring[1, 1] = 0
    grids = [ring] + [(random.random((random.integers(1, 9), random.integers(1, 9))) < p).astype(float) for p in (0.4, 0.5, 0.6, 0.7, 0.8) * 4]
    grids.append((random.random((60, 60)) < 0.65).astype(float))
    touching = 0
    for grid in grids:
        found = np.zeros(grid.shape, int)
        for polygon in regions_of(grid, "--above", "0.5"):
            for r in polygon:
                steps = steps_of(r)
                expect(len(set(steps)) == len(steps) and r[0] == r[-1], "a ring meets itself:\n%s\n%s", grid, r)
            touching += len(set(steps_of(polygon[0])) & {p for r in polygon[1:] for p in steps_of(r)})
            expect(area(polygon[0]) > 0 and all(area(h) < 0 for h in polygon[1:]), "orientation")
            if Polygon:
                shape = Polygon(polygon[0], polygon[1:])
                expect(shape.is_valid, "%s:\n%s", explain_validity(shape), grid)
            found += cells_inside(polygon, grid.shape)
        expect(np.array_equal(found, grid), "other places:\n%s\n%s", grid, found)
    expect(touching > 20, "only %d holes touch an outline", touching)
    if Polygon is None:
        raise Skip("python3-shapely is not installed; by the rule above the outlines are valid")


def test_limits_are_compared_as_the_map_holds_them():
    """A place of 0.1 is not above 0.1. Truth: the values and the limit as float32, compared exactly."""
    random = np.random.default_rng(2)
    limits = ["0.1", "0.2", "0.3", "0.7", "0.8", "-0.1", "33.3", "0.5"] + [repr(v) for v in random.normal(0, 30, 12).round(2).tolist()]
    values = np.resize(np.array([float(v) for v in limits]), (4, 5))
    for limit in limits:
        for option, beyond in (("--above", np.float32(values) > np.float32(limit)), ("--below", np.float32(values) < np.float32(limit))):
            found = sum((cells_inside(p, values.shape).astype(int) for p in regions_of(values, option, limit)), np.zeros(values.shape, int))
            expect(np.array_equal(found, beyond), "%s %s: %d places for %d", option, limit, found.sum(), beyond.sum())


def test_geojson_has_one_tile_per_window_with_a_value():
    result = result_of("pictures", "1500x1100", "--tissue-only")
    name, _, maps = slide_of(result)
    data = geojson(draw(result, name="a.geojson"))
    expect(data["slide"] == name and data["partial"] is False, "%s", {k: data[k] for k in ("slide", "partial")})
    found = {}
    for tile in data["features"]:
        (ring,) = tile["geometry"]["coordinates"]
        expect(ring[0] == ring[-1] and len(ring) == 5, "ring")
        (x0, y0), (x1, y1) = ring[0], ring[2]
        expect((x1 - x0, y1 - y0) == (S, S) and ring[1] == [x1, y0] and ring[3] == [x0, y1], "%s", ring)
        found[int((y0 - 64) // S), int((x0 - 64) // S)] = tile["properties"]["measurements"]
    counted = ~np.isnan(maps["mean_db"])
    expect(len(found) == len(data["features"]) == counted.sum(), "%d tiles", len(found))
    for (j, i), measurements in found.items():
        expect(set(measurements) == set(maps), "%s", measurements)
        for feature, value in measurements.items():
            expect(abs(value - maps[feature][j, i]) < 0.0006, "%s of %d,%d", feature, i, j)


def read_csv(path):
    with open(path, newline="") as f:
        rows = list(csv.reader(f))
    return rows[0], [[float(x) if x else math.nan for x in row] for row in rows[1:]]


def test_csv_has_one_line_per_window():
    for name, size, options in (("pictures", "1500x1100", ("--tissue-only",)), ("strip", "1500x256", ()), ("strip", "256x1100", ())):
        result = result_of(name, size, *options)
        _, _, maps = slide_of(result)
        head, rows = read_csv(draw(result, name="%s.csv" % name))
        features = [h for h in head if h in maps]
        flags = values_in(result, "slides/%s/window_flags" % name)
        expect(head == ["i", "j", "x_px", "y_px", "size_px"] + features + ["coverage", "flags"] and set(features) == set(maps), "%s", head)
        ny, nx = maps["mean_db"].shape
        expect(len(rows) == nx * ny, "%d lines", len(rows))
        for k, row in enumerate(rows):
            j, i = divmod(k, nx)
            expect(row[:5] == [i, j, 64 + i * S, 64 + j * S, S], "%s", row)
            for feature, value in zip(features, row[5:]):
                want = maps[feature][j, i]
                expect(math.isnan(value) if math.isnan(want) else abs(value - want) < 0.0006, "%s of %s", feature, row)
            expect(row[-2] == (not math.isnan(maps["mean_db"][j, i])) and row[-1] == flags[j, i], "coverage and flags of %s", row)


def test_tiff_is_read_by_tifffile():
    reader = tiff_reader()
    result = result_of("tiff", "9000x600", "--stride", "16", "--tissue-only")  # a pyramid, several tiles
    name, attrs, maps = slide_of(result)
    path = draw(result, name="a.ome.tif")
    with reader.TiffFile(path) as f:
        expect(f.is_ome and not f.is_bigtiff, "OME-TIFF")
        (series,) = f.series
        expect(series.axes == "CYX" and series.dtype == np.float32, "%s %s", series.axes, series.dtype)
        xml = ET.fromstring(f.ome_metadata)
        ns = {"o": "http://www.openmicroscopy.org/Schemas/OME/2016-06"}
        pixels = xml.find("o:Image/o:Pixels", ns)
        names = [c.get("Name") for c in pixels.findall("o:Channel", ns)]
        expect(set(names) == set(maps) and xml.find("o:Image", ns).get("Name") == name, "%s", names)
        for c, feature in enumerate(names):
            expect(np.array_equal(series.asarray()[c], maps[feature].astype(np.float32), equal_nan=True), "%s", feature)
        mpp = attrs.get("mpp_x", math.nan) * attrs.get("downsample", 1)
        if math.isnan(mpp):
            expect(pixels.get("PhysicalSizeX") == "16" and pixels.get("PhysicalSizeXUnit") == "pixel", "size")
        else:
            expect(abs(float(pixels.get("PhysicalSizeX")) - 16 * mpp) < 1e-6, "size %s", pixels.get("PhysicalSizeX"))
            expect(pixels.get("PhysicalSizeXUnit") == "\u00b5m", "unit %s", pixels.get("PhysicalSizeXUnit"))
        plane = pixels.find("o:Plane", ns)
        expect(abs(float(plane.get("PositionX")) - 120 * (1 if math.isnan(mpp) else mpp)) < 1e-6, "%s", plane.attrib)
        check_levels(series, maps, names)
        page = f.pages[0]
        expect(page.tags["Software"].value.startswith("h5spec") and page.is_tiled, "%s", page.tags)
        expect((page.compression, page.predictor) == (8, 1), "%s", (page.compression, page.predictor))


def check_levels(series, maps, names):
    """Each level is half as large; its pixels are the means of the windows that have a value."""
    expect(len(series.levels) == 1 + max(0, math.ceil(math.log2(series.shape[2] / 256))), "%d levels", len(series.levels))
    for k, level in enumerate(series.levels):
        b = 1 << k
        for c, feature in enumerate(names):
            v = maps[feature].astype(np.float32).astype(np.float64)
            ny, nx = (-(-n // b) for n in v.shape)
            padded = np.full((ny * b, nx * b), np.nan)
            padded[:v.shape[0], :v.shape[1]] = v
            blocks = padded.reshape(ny, b, nx, b)
            n = (~np.isnan(blocks)).sum(axis=(1, 3))
            with np.errstate(invalid="ignore"):
                want = np.nansum(blocks, axis=(1, 3)) / np.where(n, n, np.nan)
            got = level.asarray()[c]
            expect(got.shape == want.shape and np.array_equal(np.isnan(got), np.isnan(want)), "level %d", k)
            expect(np.nanmax(np.abs(got - want)) < 1e-4, "level %d of %s", k, feature)


def test_files_are_read_by_vips():
    if not shutil.which("vips"):
        raise Skip("vips is not installed (libvips-tools)")
    result = result_of("pictures", "1500x1100")
    _, _, maps = slide_of(result)
    ny, nx = maps["mean_db"].shape
    out = draw("--format", "all", result)
    tif, = (f for f in os.listdir(out) if f.endswith(".ome.tif"))
    fields = run("vipsheader", "-a", os.path.join(out, tif)).out
    says(fields, "width: %d" % nx, "height: %d" % ny, "format: float")
    means = float(run("vips", "avg", os.path.join(out, tif)).out)
    expect(abs(means - maps["mean_db"].mean()) < 1e-3, "mean %g", means)
    for png in (f for f in os.listdir(out) if f.endswith(".png")):
        says(run("vipsheader", os.path.join(out, png)).out, "uchar")
        run("vips", "avg", os.path.join(out, png))


# --- blending ---

def weights(kind, k):
    m = np.arange(k)
    if kind == "box":
        return np.ones(k, np.int64)
    if kind == "tent":
        return np.minimum(2 * m + 1, 2 * k - 2 * m - 1)
    if kind == "cos":
        return np.floor(4096 * np.sin(np.pi * (m + 0.5) / k) ** 2 + 0.5).astype(np.int64)
    return np.maximum(4, np.floor(4096 * np.exp(-(((m - (k - 1) / 2) / (k / 8)) ** 2) / 2) + 0.5).astype(np.int64))


def blended(q, width, height, kind, cell, n=N, s=S):
    """Values (float32) and coverage of the cells, from sums over windows one by one."""
    rows, cols = -(-height // cell), -(-width // cell)
    k, t = n // cell, s // cell
    w2 = np.outer(weights(kind, k), weights(kind, k)).astype(np.int64)
    a, b, f = (np.zeros((rows, cols), np.int64) for _ in range(3))
    for j, i in np.ndindex(q.shape):
        cells = np.s_[j * t:j * t + k, i * t:i * t + k]
        f[cells] += w2
        if not np.isnan(q[j, i]):
            value = float(np.float32(q[j, i]))
            a[cells] += w2 * int(math.copysign(math.floor(abs(1000 * value) + 0.5), value))
            b[cells] += w2
    with np.errstate(invalid="ignore", divide="ignore"):
        return (a / (1000.0 * b)).astype(np.float32), np.where(f, b / np.maximum(f, 1), 0)


def cells_of(result, *options):
    """Values by feature and coverage of the cells that map writes, from OME-TIFF and CSV."""
    reader = tiff_reader()
    out = draw("--format", "tiff,csv", *options, result)
    tif, = (f for f in os.listdir(out) if f.endswith(".ome.tif"))
    table, = (f for f in os.listdir(out) if f.endswith(".csv"))
    with reader.TiffFile(os.path.join(out, tif)) as f:
        names = re.findall(r'Channel ID="[^"]*" Name="([^"]*)"', f.ome_metadata)
        pixels = f.series[0].asarray()
        values = dict(zip(names, pixels if pixels.ndim == 3 else [pixels]))
    head, rows = read_csv(os.path.join(out, table))
    shape = next(iter(values.values())).shape
    return values, np.array([row[head.index("coverage")] for row in rows]).reshape(shape)


def test_blending_is_its_definition_bit_for_bit():
    result = result_of("blend", "1501x1103", "--tissue-only")
    _, _, maps = slide_of(result)
    for kind in ("box", "tent", "cos", "gauss"):
        for cell in (128, 32) if kind != "tent" else (128, 64, 16):
            values, coverage = cells_of(result, "--blend", kind, "--cell", str(cell))
            for feature, got in values.items():
                want, _ = blended(maps[feature], 1501, 1103, kind, cell)
                expect(np.array_equal(got, want, equal_nan=True), "%s of %s in cells of %d px", kind, feature, cell)
            share = blended(maps["mean_db"], 1501, 1103, kind, cell)[1]  # tissue is known of all windows
            expect(np.abs(coverage - share).max() < 0.0006, "coverage of %s", kind)
            expect(0 < (coverage == 0).sum() < coverage.size and (coverage == 1).any(), "the slide has all kinds of cells")


def test_other_strides_blend_by_the_same_definition():
    for window, stride, cell in ((256, 64, 64), (128, 96, 32), (256, 256, 256), (128, 100, 4)):
        result = result_of("strides", "1100x900", "--window", str(window), "--stride", str(stride))
        _, _, maps = slide_of(result)
        values, _ = cells_of(result, "--blend", "gauss")  # the largest cell
        want, _ = blended(maps["mean_db"], 1100, 900, "gauss", cell, window, stride)
        expect(np.array_equal(values["mean_db"], want, equal_nan=True), "window %d, stride %d", window, stride)


@later("ci")
def test_memory_does_not_depend_on_the_height():
    if SAN:
        raise Skip("sanitizers need memory of their own")
    peaks = []
    for ny in (167, 1670):  # a map of floats of all windows has 3.2 MiB
        result = os.path.join(tmp(), "r.h5")
        run(MKRESULT, "--slides", "1", "--windows", "506x%d" % ny, result)
        draw("--format", "all", "--blend", "tent", result)
        peaks.append(peak_mib(draw.err))
    expect(peaks[1] < peaks[0] + 3 and peaks[0] < 100, "%s MiB", peaks)


def test_cells_have_their_places_in_every_format():
    """Of pictures: test_overlay_has_the_aspect_of_the_slide_and_no_drift."""
    result = result_of("blend", "1501x1103", "--tissue-only")
    for cell, um in ((64, 64 * 0.499), (128, 128 * 0.499)):
        out = draw("--format", "csv,geojson,tiff", "--feature", "mean", "--blend", "tent", "--cell", str(cell), result)
        rows = [r for r in csv_rows(os.path.join(out, "blend.csv")) if r["mean_db"]]
        for r in rows:
            expect((r["x_px"], r["y_px"], r["size_px"]) == (str(cell * int(r["i"])), str(cell * int(r["j"])), str(cell)), "%s", r)
        corners = [t["geometry"]["coordinates"][0][0] for t in geojson(os.path.join(out, "blend.geojson"))["features"]]
        expect(corners == [[int(r["x_px"]), int(r["y_px"])] for r in rows], "tiles of %d px", cell)
        with tiff_reader().TiffFile(os.path.join(out, "blend.ome.tif")) as f:
            pixels = ET.fromstring(f.ome_metadata).find(".//{*}Pixels")
        numbers = [float(pixels.get("PhysicalSizeX")), float(pixels.get("PhysicalSizeY")), *(float(pixels.find("{*}Plane").get(k)) for k in ("PositionX", "PositionY"))]
        expect(np.allclose(numbers, [um, um, 0, 0], atol=1e-6), "%s", numbers)


def test_lower_levels_are_placed_on_level_0():
    reader = tiff_reader()
    slide = made("--size", "%dx%d" % (4 * 900, 4 * 700), "--levels", "2", "--mpp", "0.25", name="level")
    result = spectrum(store(slide, "--level", "1"))
    _, attrs, maps = slide_of(result)
    expect(attrs["downsample"] == 4 and attrs["width"] == 900, "level 1")
    out = draw("--format", "geojson,csv,tiff", result)
    tiles = geojson(os.path.join(out, "level.geojson"))["features"]
    expect(len(tiles) == maps["mean_db"].size, "%d tiles", len(tiles))
    expect(tiles[0]["geometry"]["coordinates"][0][0] == [256, 256] and tiles[0]["geometry"]["coordinates"][0][2] == [768, 768], "%s", tiles[0])
    _, rows = read_csv(os.path.join(out, "level.csv"))
    expect(rows[1][:5] == [1, 0, 768, 256, 512], "%s", rows[1])
    with reader.TiffFile(os.path.join(out, "level.ome.tif")) as f:
        pixels = ET.fromstring(f.ome_metadata).find(".//{*}Pixels")
        expect(float(pixels.get("PhysicalSizeX")) == 128 * 4 * 0.25, "%s", pixels.attrib)
    out = draw("--format", "geojson", "--blend", "box", result)
    last = geojson(os.path.join(out, "level.geojson"))["features"][-1]["geometry"]["coordinates"][0][2]
    expect(last == [3584, 2560], "%s: tiles end with the last window", last)


# --- missing groups ---

def partial_result():
    s = store(made("--size", "900x1500", name="partial"), "--stripe-rows", "240", "--group-bytes", "1")
    return spectrum(s, "--groups", "2-3"), spectrum(s)


def test_strict_refuses_missing_groups_and_names_them():
    part, whole = partial_result()
    out = draw("--format", "all", part, status=1)
    says(draw.err, part, "slide partial", "missing groups 1,4-7", "--partial", "1 failed")
    expect(os.listdir(out) == [], "%s", os.listdir(out))


def test_partial_maps_what_there_is_and_says_so():
    image = pillow()
    part, whole = partial_result()
    out = draw("--format", "all", "--partial", part)
    data = geojson(os.path.join(out, "partial.geojson"))
    expect(data["partial"] is True and data["missing_groups"] == "1,4-7", "%s", data["missing_groups"])
    _, _, maps = slide_of(part)
    expect(len(data["features"]) == (~np.isnan(maps["mean_db"])).sum() > 0, "tiles")
    says(image.open(os.path.join(out, "partial.mean_db.png")).info["Description"], "partial, missing groups 1,4-7")
    says(bytes_in(os.path.join(out, "partial.ome.tif")).decode("latin-1"), "partial: missing groups 1,4-7")
    values, coverage = cells_of(part, "--partial", "--blend", "tent")
    want, share = blended(maps["mean_db"], 900, 1500, "tent", 128)
    expect(np.array_equal(values["mean_db"], want, equal_nan=True) and np.abs(coverage - share).max() < 0.0006, "cells")
    expect(((coverage > 0) & (coverage < 1)).any(), "cells with some of their windows")


def same_files(a, b):
    expect(sorted(os.listdir(a)) == sorted(os.listdir(b)), "names")
    for name in os.listdir(a):
        expect(bytes_in(os.path.join(a, name)) == bytes_in(os.path.join(b, name)), "%s", name)


def test_partial_of_a_complete_slide_changes_nothing():
    _, whole = partial_result()
    same_files(*(draw("--format", "all", "--blend", "tent", *o, whole) for o in ((), ("--partial",))))


def test_a_merge_gives_the_same_bytes_as_one_run():
    s = store(made("--size", "900x1500", name="partial"), "--stripe-rows", "240", "--group-bytes", "1")
    merged = os.path.join(tmp(), "merged.h5")
    run(H5SPEC, "merge", "-o", merged, spectrum(s, "--groups", "4-7"), spectrum(s, "--groups", "1-3"))
    same_files(*(draw("--format", "all", r) for r in (merged, partial_result()[1])))


# --- bad input ---

HOSTILE = ["<!--<script>&lt;", 'quote"s and \'s', "\u202egnp.exe", "bell\a\x1b[2J", "..", "=cmd()", "-o", "a\\b:c|d*?",
           "\ufffe\uffff", "x" * 240, "\u6f22" * 80, "$(reboot)", "caf\u00e9 \u6f22\u5b57"]


def test_hostile_names_of_slides():
    image = pillow()
    folder = tmp("hostile")
    one = store(made("--size", "300x300", name="hostile"))
    for name in HOSTILE:
        shutil.copy(one, os.path.join(folder, name + ".h5"))
    shutil.copy(one, os.path.join(os.fsencode(folder), b"\xff\xfe.h5"))
    result = os.path.join(tmp(), "r.h5")
    run(H5SPEC, "run", "-q", "--device", "cpu", "--duplicates", "count", "-o", result,
        *sorted(os.path.join(folder, f) for f in os.listdir(folder)))
    out = draw("--format", "all", "--feature", "mean", result)
    files = sorted(os.listdir(out))
    expect(len(files) == 5 * (len(HOSTILE) + 1), "%d files", len(files))
    for f in files:
        expect(not re.search(r"[\x00-\x1f\x7f\"'*/:<>?\\|`$;&\u2000-\u206f]", f) and f[0] not in ".-=", "%r", f)
        expect(len(os.fsencode(f)) <= 255, "%d bytes", len(f))
    expect("caf\u00e9 \u6f22\u5b57.mean_db.png" in files, "letters stay")
    for f in files:
        path = os.path.join(out, f)
        if f.endswith(".geojson"):
            text = geojson(path)["slide"]
            expect(not re.search(r"[\x00-\x1f\u202e]", text), "%r", text)
        elif f.endswith(".png"):
            image.open(path).load()
        elif f.endswith(".ome.tif") and tifffile:
            with tifffile.TiffFile(path) as t:
                ET.fromstring(t.ome_metadata)
                expect(not re.search("[\ufffe\uffff\x00-\x08]", t.ome_metadata), "not XML 1.0")
                expect(t.series[0].shape == (1, 1) and t.series[0].axes == "YX", "%s", t.series[0])
    expect("\x1b" not in draw.err, "messages")


def test_one_window_and_none():
    one, none = (result_of("w%d" % n, "%dx300" % n, "--window", "256") for n in (300, 200))
    out = draw("--format", "all", "--blend", "tent", one)
    expect(len(os.listdir(out)) == 3 + 2 * len(slide_of(one)[2]), "%s", os.listdir(out))
    out = draw("--format", "all", none)
    expect(os.listdir(out) == [], "%s", os.listdir(out))
    says(draw.err, "slide w200", "no window of 256 px fits into 200 x 300 px", "nothing written, 0 failed")


def test_a_slide_without_counted_windows_is_hatched():
    image = pillow()
    result = result_of("glass", "700x600", "--tissue-only", slide=("--tissue", "none"))
    out = draw("--format", "all", result)
    v = slide_of(result)[2]["mean_db"]
    expect(np.isnan(v).all(), "no window has tissue")
    expect((places_of(image.open(os.path.join(out, "glass.mean_db.png")), v.shape[1], v.shape[0]) == -1).all(), "hatched")
    expect(geojson(os.path.join(out, "glass.geojson"))["features"] == [], "no tile")


def test_damaged_and_truncated_results_are_refused():
    good = result_of("pictures", "1500x1100")
    data = open(good, "rb").read()
    bad = os.path.join(tmp(), "bad.h5")
    for cut in (100, len(data) // 2, len(data) - 1):
        put_file(bad, data[:cut])
        out = draw(bad, good, status=1)
        says(draw.err, bad)
        expect(len(os.listdir(out)) == len(slide_of(good)[2]), "the other result is mapped")
    bad = flipped_in(good, "slides/pictures/window_mean_db")
    out = draw(bad, status=1)
    says(draw.err, bad, "damaged")
    expect(os.listdir(out) == [], "%s", os.listdir(out))


def test_values_beyond_reason_are_refused():
    def put(f, value):
        """With the checksums that map looks at."""
        for s in f["slides"].values():
            for key in ("window_mean_db", "window_std_db"):
                s[key][0, 0] = value
            crcs = [zlib.crc32(s[k][()].tobytes()) for k in ("histogram", "window_mean_db", "window_std_db", "groups_done")]
            s.attrs.modify("data_crc32", np.int64(zlib.crc32(np.array(crcs, np.uint32).tobytes())))
    for value, name, size in ((np.inf, "pictures", "1500x1100"), (-np.inf, "strip", "1500x256"), (1e30, "pictures", "1500x1100")):
        path = changed(result_of(name, size), lambda f: put(f, value))
        for options in ((), ("--blend", "tent")):
            out = draw("--format", "all", *options, path, status=1)
            says(draw.err, path, "out of range")
            expect(os.listdir(out) == [], "%s", os.listdir(out))


def test_results_that_do_not_belong_together():
    a, b = result_of("one", "600x500"), result_of("two", "600x500", "--sigma", "0")
    out = draw(a, b, status=1)
    says(draw.err, b, "sigma is 1 and 0", "parameters differ")
    expect(all(f.startswith("one.") for f in os.listdir(out)), "%s", os.listdir(out))
    out = draw(a, shutil.copy(a, os.path.join(tmp(), "copy.h5")), status=1)
    says(draw.err, "copy.h5", "slide one", "another result has a slide of this name")
    draw("--slide", "nobody", a, status=1)
    says(draw.err, "--slide nobody", "matches no slide")
    draw(a, b, status=1, name="x.csv")
    says(draw.err, "one file holds one slide, but 2 are chosen")
    draw("--slide", "o*", a, b, status=1, name="x.csv")
    draw("--slide", "o*", a, name="x.csv")


def test_only_files_of_ours_are_overwritten():
    result = result_of("one", "600x500")
    for name in ("a.png", "a.overlay.png", "a.csv", "a.geojson", "a.ome.tif"):
        path = draw("--feature", "mean", result, name=name)
        first = open(path, "rb").read()
        run(H5SPEC, "map", "-o", path, "--feature", "mean", result)
        expect(open(path, "rb").read() == first, "%s: equal bytes", name)
        put_file(path, b"my own file")
        says(run(H5SPEC, "map", "-o", path, "--feature", "mean", result, status=1).err, path, "not overwritten")
        expect(open(path, "rb").read() == b"my own file" and os.listdir(os.path.dirname(path)) == [name], "%s", name)


def test_usage_errors():
    result = result_of("one", "600x500")
    for argv, words in (
            ((result,), "-o OUT is missing"), (("-o", "x"), "no input file given"),
            (("-o", "x.jpg", result), "the ending of another kind of file"), (("-o", "x.png", result), "name it with --feature"),
            (("-o", "x.csv", "--format", "csv", result), "--format is for folders"),
            (("-o", "x", "--format", "jpeg", result), "--format jpeg: unknown"),
            (("-o", "x", "--feature", "mean,", result), "not a list of names"),
            (("-o", "x", "--feature", "sharpness", result), "the features are mean_db, std_db"),
            (("-o", "x", "--blend", "median", result), "--blend median: must be none, box"),
            (("-o", "x", "--cell", "32", result), "--cell has no effect without --blend"),
            (("-o", "x", "--colours", "1:2", result), "--colours is for one feature"),
            (("-o", "x", "--feature", "mean", "--colours", "5:5", result), "HIGH must be above LOW"),
            (("-o", "x.csv", "--feature", "mean", "--colours", "1:2", result), "--colours has no effect without pictures")):
        says(run(H5SPEC, "map", *argv, status=2, cwd=tmp()).err, words)
    says(run(H5SPEC, "map", "-o", tmp(), "--blend", "box", "--cell", "48", result, status=1).err,
         "--cell 48: must divide the window of 256 px and the stride of 128 px")


def test_a_full_disk_leaves_nothing():
    result = result_of("pictures", "1500x1100")
    for name in ("a.png", "a.overlay.png", "a.csv", "a.geojson", "a.ome.tif"):
        out = tmp()
        p = run("sh", "-c", 'ulimit -f 1; exec "$@"', "sh", H5SPEC, "map", "--feature", "mean", "--blend", "tent", "--cell", "16",
                "-o", os.path.join(out, name), result, status=5)
        says(p.err, name, "ulimit -f")
        expect(os.listdir(out) == [], "%s: %s", name, os.listdir(out))


def test_a_signal_leaves_no_unfinished_file():
    result = result_of("signal", "3000x3000", "--stride", "32")
    out = tmp()
    p = subprocess.Popen([H5SPEC, "map", "--blend", "gauss", "--cell", "1", "--format", "all", "-o", out, result],
                         stderr=subprocess.PIPE)
    wait_until_caught(p, signal.SIGTERM)
    time.sleep(0.2)
    p.terminate()
    err = p.communicate()[1].decode()
    expect(p.returncode == 3, "status %s: %s", p.returncode, err)
    says(err, "stopped by")
    expect(not [f for f in os.listdir(out) if f.startswith(".")], "%s", os.listdir(out))


def test_json_says_what_was_written():
    out = os.path.join(tmp(), "maps")
    (j,) = json_lines(run(H5SPEC, "map", "-q", "--json", "--format", "csv,geojson", "-o", out, result_of(), os.path.join(tmp(), "gone.h5"), status=1).out)
    expect(j == {"output": out, "kind": "map", "files": 2, "slides": 1, "inputs_failed": 1}, "%s", j)


def test_geojson_counts_from_the_bounds_of_the_slide():
    """As QuPath does; tables count from the slide's corner. What is written can be read again with --roi."""
    path, bx, by = part_scanned(tmp())
    result = spectrum(s := store(path))
    scores = os.path.join(tmp(), "scores.csv")
    put_file(scores, b"x,y,size,value\n%d,%d,256,1\n" % (bx, by))
    cases = [("tiles", ("--feature", "gray"), result), ("class", ("--feature", "gray", "--class", "X", "--above", "0"), result),
             ("scores", ("--scores", scores, "--cell", "256"), s), ("scores", ("--scores", scores, "--cell", "256"), result)]
    for what, options, given in cases:
        def corners(*more):
            features = json_in(draw(*options, *more, given, name="m.geojson"))["features"]
            return np.array([p for f in features for ring in f["geometry"]["coordinates"] for p in ring])
        whole = corners("--no-bounds")
        expect("count from" not in draw.err, "%s", draw.err)
        here = corners()
        says(draw.err, "places in GeoJSON count from %d, %d (openslide.bounds-x, -y), as in QuPath" % (bx, by))
        expect(np.array_equal(here + [bx, by], whole), "%s: %s %s", what, here[:2], whole[:2])
        expect(what != "scores" or here.min() == 0, "%s: %s", what, here)
    rows = csv_rows(draw("--feature", "gray", result, name="m.csv"))
    expect("count from" not in draw.err and (rows[0]["x_px"], rows[0]["y_px"]) == ("64", "64"), "%s", rows[0])
    places = draw("--feature", "gray", "--class", "X", "--above", "0", result, name="m.geojson")
    out = os.path.join(tmp(), "r.h5")
    run(H5SPEC, "run", "--device", "cpu", "-o", out, "--roi", places, s)
    with h5py.File(out, "r") as f:
        expect(f.attrs["windows"] > 0, "no window lies inside")


main(globals())
