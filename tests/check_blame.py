"""Reasons that accuse a scanner, a laboratory or a slide, from pixels to the words: true ones, and good slides that resemble them."""
import csv
import io

import h5py
import numpy as np
from PIL import Image

from lib import *
from tiffpatch import Pages, cut, jpeg_of, write_tiled


def slide_of(picture, name="picture.tif", **how):
    """A slide of these pixels, [height][width][3], in lossless tiles."""
    return write_tiled(os.path.join(tmp(), name), list(np.clip(np.rint(picture), 0, 255).astype(np.uint8).transpose(2, 0, 1)), **how)


def judged(store_path, *options):
    """The row of the only slide in the table of a report, and the attributes of its result."""
    result, table = spectrum(store_path, *options), os.path.join(tmp(), "table.csv")
    run(H5SPEC, "report", "--csv", table, "-o", os.path.join(tmp(), "page.html"), result)
    with open(table, newline="") as f, h5py.File(result, "r") as r:
        (row,), (slide,) = list(csv.DictReader(f)), r["slides"].values()
        return row, dict(slide.attrs)


def says_nothing_of(text, *words):
    for w in words:
        expect(w not in text, "%r says %r", text, w)


def texture(height, width, seed=1):
    """Gray tissue of cells of some px, mean 0, standard deviation 1."""
    f = np.random.default_rng(seed).normal(size=(height, width))
    for axis in (0, 1, 0, 1):
        f = sum(np.roll(f, k, axis) for k in range(-2, 3))
    return f / f.std()


def tissue(height, width, seed=1):
    """Pink with dark nuclei."""
    f = np.clip(texture(height, width, seed), -2, 2)[..., None]
    return np.where(f > 1, (105, 65, 150), np.array([211, 125, 180]) - f * (8, 13, 5))


def on_glass(height, width, glass=243, seed=1):
    """An ellipse of tissue on even glass, with some noise."""
    y, x = np.mgrid[:height, :width]
    inside = ((x / width - 0.5) ** 2 / 0.11 + (y / height - 0.55) ** 2 / 0.1 < 1)[..., None]
    noise = np.random.default_rng(seed).normal(0, 0.6, (height, width, 1))
    return np.where(inside, tissue(height, width, seed) * glass / 243, glass + noise)


# --- fluorescence ---


BRIGHTFIELD = ("gray_share", "ink_share", "light_step", "colourless_share", "stain_density", "stain_hue", "glass_gray", "glass_std", "glass_lines", "gray_low", "gray_high")


def in_the_dark():
    """Blue nuclei on black, some of which are saturated: 1 of 100 pixels of the thumbnail is bright."""
    f = texture(900, 1100)
    return np.where(f[..., None] > 0.8, (40, 60, 220), (3, 3, 4)) + 0.0


def test_fluorescence_is_not_judged_as_brightfield():
    """The report had a rule of its own, and said "black: lost tiles or a black pen" of it. The converter decides, whatever makes the map."""
    slide, mask = slide_of(in_the_dark()), os.path.join(tmp(), "mask.geojson")
    with open(mask, "w") as f:
        f.write('{"type": "Polygon", "coordinates": [[[0, 0], [600, 0], [600, 900], [0, 900], [0, 0]]]}')
    for options in ((), ("--tissue-thresholds", "0,0.05"), ("--tissue-mask", mask), ("--gray",), ("--tissue-mask", mask, "--tissue-only"), ("--codec", "none", "--gray", "--tissue-mask", mask)):
        path = store(slide, *options)
        row, attributes = judged(path)
        with h5py.File(path, "r") as f:
            expect(f.attrs["background"] == "dark" == attributes["background"], "%s: %s", options, dict(f.attrs))
        expect([row[k] for k in BRIGHTFIELD if row[k]] == [] and row["verdict"] == "not judged", "%s: %s", options, row)
        says(row["reasons"], "no bright background (fluorescence?)")
        says_nothing_of(row["reasons"], "pen", "black")
    for options in ((), ("--tissue-mask", mask), ("--tissue-mask", mask, "--tissue-only"), ("--tissue-thresholds", "0,0.05"), ("--gray",)):
        row, attributes = judged(store(slide_of(on_glass(900, 1100)), *options))
        expect(attributes["background"] == "bright" and (row["gray_low"] or "--tissue-mask" in options), "%s: %s", options, row)


def test_the_background_of_an_older_result_follows_from_its_tissue_map():
    """Older results do not have it: it is not known, which is no error. Without a map there were no bright cells."""
    for picture, bright in ((on_glass(900, 1100), True), (in_the_dark(), False)):
        result = copied(spectrum(store(slide_of(picture))), "older.h5")
        with h5py.File(result, "r+", libver=("v110", "v110")) as f:
            (slide,) = f["slides"].values()
            del slide.attrs["background"]
            reseal(f)
        table = os.path.join(tmp(), "older.csv")
        run(H5SPEC, "report", "--csv", table, "-o", os.path.join(tmp(), "older.html"), result)
        with open(table, newline="") as f:
            (row,) = csv.DictReader(f)
        expect(bool(row["gray_share"]) == bright and ("no bright background" in row["reasons"]) == (not bright), "%s", row)
        run(H5SPEC, "verify", result)


# --- what was never scanned ---


def test_what_was_never_scanned_accuses_nobody():
    """The thumbnail shows it in the colour of the scanner's software, whichever windows count. It was "the exposure changed", with --tissue-only and --roi."""
    missing = [x for c in range(4, 6) for r in range(5) for x in ("--missing", "%d,%d" % (c, r))]
    slide = made("--size", "1536x1280", "--tile", "256", "--tissue", "rect:200,200,500,700", *missing, name="part")
    regions = os.path.join(tmp(), "regions.geojson")
    with open(regions, "w") as f:
        f.write('{"type": "Polygon", "coordinates": [[[100, 100], [900, 100], [900, 1000], [100, 1000], [100, 100]]]}')
    path = copied(store(slide), "part.h5")
    for colour in (250, 215, 40):
        for options in ((), ("--tissue-only",), ("--roi", regions), ("--skip-damaged",)):
            result = copied(spectrum(path, *options), "colour.h5")
            with h5py.File(result, "r+", libver=("v110", "v110")) as f:
                (s,) = f["slides"].values()
                expect(s.attrs["tiles_missing"] == 10, "%s", dict(s.attrs))
                picture = s["thumbnail"][()]
                picture[:, round(picture.shape[1] * 4 / 6):] = colour
                s["thumbnail"][()] = picture
                del s.attrs["gray_low"], s.attrs["gray_high"]
                reseal(f)
            table = os.path.join(tmp(), "part.csv")
            run(H5SPEC, "report", "--csv", table, "-o", os.path.join(tmp(), "part.html"), result)
            with open(table, newline="") as f:
                (row,) = csv.DictReader(f)
            expect(row["light_step"] == "" == row["gray_low"] and row["gray_share"] == "0", "%d %s: %s", colour, options, row)
            says_nothing_of(row["reasons"], "scan it again", "pen", "exposure", "lost tiles")


# --- an earlier JPEG ---


def test_the_grid_of_an_earlier_jpeg_is_no_line_camera():
    """Regions of a JPEG slide that were cut out beside its grid of blocks had lines on most of the glass, and were sent to service."""
    rng = np.random.default_rng(2)
    blocks = np.kron(rng.normal(243, 0.8, (170, 190)).round(), np.ones((8, 8)))[..., None] + rng.choice((-1, 0, 0, 0, 0, 0, 0, 1), (1360, 1520, 1))
    whole = np.where(np.arange(1520)[None, :, None] < 700, tissue(1360, 1520), blocks)
    lines = None
    for dy, dx in ((0, 0), (4, 0), (0, 4), (3, 5)):
        row, attributes = judged(store(slide_of(whole[dy:dy + 1280, 104 + dx:][:, :1280])))
        beside = (dy, dx) != (0, 0)
        expect((attributes["glass_grid"] > 0.5) == beside, "%s: %g", (dy, dx), attributes["glass_grid"])
        lines = lines or float(row["glass_lines"])
        expect(float(row["glass_lines"]) < lines + 0.1 < 0.5, "%s: %s", (dy, dx), row)
        expect(("compressed before, on another grid" in row["reasons"]) == beside, "%s: %s", (dy, dx), row["reasons"])
        says_nothing_of(row["reasons"], "service", "scan it again")
    rows = np.arange(1300)[:, None, None]
    for name, pattern in (("every 5 px", 2.0 * (rows % 5 < 2)), ("at random", rng.normal(0, 2, (1300, 1, 1)))):
        row, _ = judged(store(slide_of(on_glass(1300, 1300) + pattern)))
        expect(row["verdict"] == "review" and float(row["glass_lines"]) > 0.7, "%s: %s", name, row)
        says(row["reasons"], "lines along the rows on the glass: line camera or stage of the scanner; send the scanner to service")


# --- seams ---


def with_seams(height, width, period, seed=1):
    """Tissue whose fields do not fit, in x and y."""
    a = tissue(height, width, seed)
    for at in range(period, height, period):
        a[at:] = np.roll(a[at:], 37, 1)
    for at in range(period, width, period):
        a[:, at:] = np.roll(a[:, at:], 41, 0)
    return a


def test_glass_hides_no_seams():
    """Windows were looked at over the whole scan: the more glass around a piece, the fewer of its seams were seen."""
    piece = tissue(1600, 1600)
    for at, by in ((500, 37), (900, 29), (1300, 51)):
        piece[at:] = np.roll(piece[at:], by, 1)
    y, x = np.mgrid[:1600, :1600]
    piece[np.hypot(y - 800, x - 800) > 780] = 243
    for side in (1600, 4800, *by_tier((), (10112,), (10112,))):  # 40 times its area
        at = (side - 1600) // 256 * 128
        scan = np.full((side, side, 3), 243, np.uint8)
        scan[at:at + 1600, at:at + 1600] = piece
        row, attributes = judged(store(slide_of(scan), "--codec", "none"))
        expect(row["seams"] == "3" and row["verdict"] == "review" and attributes["seam_columns"] == 0, "%d px: %s, %s", side, row["seams"], row["reasons"])


def test_fields_on_the_grid_of_tiles_are_hushed_only_where_compression_leaves_edges():
    """Stitching on a grid of 256 px in PNG, strips and lossless tiles was "tiles of the file's compression"."""
    for period in (256, 512, 500):
        row, attributes = judged(store(slide_of(with_seams(768, 2304, period))))
        expect(attributes["tile_compression"] in ("uncompressed", "deflate") and attributes["tile_seam_columns"] == 0, "%s", attributes)
        expect(row["verdict"] == "review" and int(row["seams"]) > 2, "%d: %s", period, row)
        says(row["reasons"], "straight edges through the tissue")
    for options, compression in (((), "JPEG"), (("--compression", "33003"), "JPEG 2000"), (("--compression", "lzw"), "LZW")):
        _, attributes = judged(store(made("--size", "600x500", *options, name="kind")))
        expect(attributes["tile_compression"] == compression, "%s: %s", options, attributes["tile_compression"])


def test_borders_of_tiles_are_left_out_before_seams_are_counted():
    """The clearest edge decided for all: tissue that ended on borders of tiles hid the seams elsewhere."""
    def numbers(rows):
        path = store(slide_of(with_seams(768, 2304, 512) if rows is None else rows), "--codec", "none")
        path = copied(path, "tiles.h5")
        with h5py.File(path, "r+", libver=("v110", "v110")) as f:
            f.attrs["tile_compression"] = "JPEG 2000"
            f.attrs["content_crc32"] = content_crc(f)
            reseal(f)
        return judged(path)
    row, attributes = numbers(None)
    expect(row["seams"] == "0" and attributes["tile_seam_columns"] == 4 and np.isnan(attributes["seam_x_px"]), "%s", attributes)
    expect(row["verdict"] == "not judged" and "tiles of the file's compression show in the picture" in row["reasons"], "%s", row)
    both = with_seams(768, 2304, 512)
    for at in (300, 700, 1100, 1900):
        both[:, at:] = np.roll(both[:, at:], 23, 0)
    row, attributes = numbers(both)
    expect(int(row["seams"]) > 2 and attributes["seam_x_px"] in (299, 699, 1099, 1899) and row["verdict"] == "review", "%s, %s", row, attributes)


# --- compressed twice ---


def saved_twice(picture, at, tiles):
    """A slide of `tiles` x `tiles` JPEG tiles of 128 px, which were JPEGs before. The picture begins at tile (at, at), around it is noisy glass."""
    def saved(pixels):
        return jpeg_of(Image.open(io.BytesIO(jpeg_of(pixels, 70))), 80)
    glass, n = jpeg_of(np.rint(np.random.default_rng(5).normal(243, 2, (128, 128, 1)).repeat(3, 2)).astype(np.uint8), 80), len(picture) // 128
    parts = tiles * tiles * [glass]
    for k, tile in enumerate(cut(np.clip(np.rint(picture), 0, 255).astype(np.uint8), (128, 128))):
        parts[(at + k // n) * tiles + at + k % n] = saved(tile)
    tags = {259: (3, [7]), 262: (3, [6]), 530: (3, [2, 2])}
    return Pages().add((128 * tiles, 128 * tiles), (128, 128), parts, tags).save(os.path.join(tmp(), "saved%d.tif" % tiles))


def test_glass_hides_no_earlier_compression():
    """64 tiles of the whole scan were looked at: of a scan that is mostly glass they were glass."""
    found = []
    for at, tiles, options in ((0, 8, ()), (3, 16, ()), (17, 32, ()), (5, 32, ("--codec", "none", "-j", "1")), (11, 32, ("--gray",)), (17, 48, ("-j", "3"))):
        _, attributes = judged(store(saved_twice(on_glass(1024, 1024), at, tiles), *options))
        found.append((attributes["jpeg_twice"], attributes["jpeg_quality"], attributes["jpeg_subsampling"]))
    expect(found[0][0] > 0.3 and found[0][1:] == (80, "4:2:0"), "%s", found)
    expect(all(abs(f[0] - found[0][0]) < 0.02 and f[1:] == found[0][1:] for f in found), "%s", found)


# --- dark glass ---


def test_dark_glass_is_found_and_named():
    """The map knew no glass below gray 200, so that "dark glass" was never said: the whole slide was tissue."""
    want = None
    for glass in (240, 218, 201, 194, 186, 170, 155, 145, 140, 130, 120):
        path = store(slide_of(on_glass(1024, 1024, glass)), "--codec", "none")
        row, attributes = judged(path)
        want = want or float(row["tissue_fraction"])
        expect(0.3 < want < 0.45 and abs(float(row["tissue_fraction"]) - want) < 0.01, "%d: %s", glass, row["tissue_fraction"])
        expect(abs(float(row["glass_gray"]) - glass) < 1 and attributes["background"] == "bright", "%d: %s", glass, row["glass_gray"])
        expect((row["verdict"] == "review") == (glass < 150) == ("dark glass: lamp or exposure" in row["reasons"]), "%d: %s", glass, row)
    for gain in (1, 0.8, 0.65, 0.5):  # no glass: an even place among darker and brighter ones is none
        for picture in (tissue(1024, 1024), tissue(1024, 1024).mean(2, keepdims=True).repeat(3, 2)):
            picture[:256, :256] = 130
            row, _ = judged(store(slide_of(picture * gain)))
            expect(row["glass_gray"] == "", "%g: %s", gain, row)


main(globals())
