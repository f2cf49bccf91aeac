"""The tissue map, and what is left out or not counted by it."""
import functools
import struct
import zlib

import h5py
import numpy as np

import dicomfile
import ndpifile
import reference
from lib import *
from pictures import png_file
from tiffpatch import *
from tissue_rules import by_saturation, by_thresholds, cell_means, closed


def slide_of(picture):
    """A slide of these pixels, [height][width][3]."""
    return write_tiled(os.path.join(tmp(), "picture.tif"), list(np.clip(picture, 0, 255).astype(np.uint8).transpose(2, 0, 1)))


def mask_of(path):
    with h5py.File(path, "r") as f:
        m = f["tissue/mask"]
        return m[()], dict(m.attrs)


def iou(a, b):
    a, b = a.astype(bool), b.astype(bool)
    return (a & b).sum() / max(1, (a | b).sum())


def equal_attributes(a, b):
    """Are they equal, with NaN where NaN is?"""
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k], equal_nan=True) for k in a)


def rectangle(width, height, x, y, w, h):
    """Share of each 32 x 32 cell that the rectangle covers, rounded to yes or no."""
    image = np.zeros((-(-height // 32) * 32, -(-width // 32) * 32))
    image[y:y + h, x:x + w] = 1
    return image.reshape(image.shape[0] // 32, 32, -1, 32).mean((1, 3)) >= 0.5


OUTLINE = (500, 300, 1100, 900)  # x, y, width, height
KNOWN = ("--size", "2400x1900", "--tissue", "rect:%d,%d,%d,%d" % OUTLINE)


YCBCR = ("--photometric", "ycbcr", "--tile", "256")
IHC = ("--levels", "2", "--stain", "ihc")  # brown (DAB) and blue: a threshold of the hue lies between them and would miss the brown
OUTLINES = [  # options of mkslide and of wsi2h5
    ((), ()), (("--levels", "3"), ()), ((*YCBCR, "--levels", "2"), ()),
    # from tiles at 1/8
    ((), ("--tissue-only",)), ((*YCBCR, "--subsampling", "420"), ("--gray",)), (YCBCR, ("--codec", "jpeg")),
    # where there is no 1/8
    (("--tile", "252x260"), ("--tissue-only",)), (("--compression", "33005", "--tile", "256"), ("--tissue-only",)),
    (("--compression", "none", "--tile", "256"), ("--gray",)),
    (("--levels", "2", "--stain", "pale"), ()), (IHC, ()), (IHC, ("--tissue-only",)), (IHC, ("--tissue-thresholds", "0,0.1")),
    (IHC, ("--tissue-thresholds", "0,0.1", "--tissue-only")),
]


def test_known_outline():
    want = rectangle(2400, 1900, *OUTLINE)
    for options, conversion in OUTLINES:
        mask, attributes = mask_of(store(made(*KNOWN, *options), *conversion))
        expect(mask.shape == want.shape and mask.dtype == np.uint8, "shape %s", mask.shape)
        expect(iou(mask, want) >= 0.95, "%s %s: IoU %f", options, conversion, iou(mask, want))
        own = "--tissue-thresholds" in conversion
        expect(attributes["cell"] == 32 and (own or 0 < attributes["dark"] < attributes["glass"] < 256), "%s", attributes)
        expect(abs(attributes["tissue_fraction"] - mask.mean()) < 1e-12, "fraction")


def test_a_laid_pyramid_gives_the_map_of_its_tiles():
    seed = made("--size", "720x720")
    masks = [mask_of(store(made("--from", seed, "--size", "3000x2000", "--levels", levels, name="laid")))[0]
             for levels in ("1", "3")]
    expect(iou(*masks) >= 0.9 and 0.02 < masks[0].mean() < 0.98, "IoU %f of %f", iou(*masks), masks[0].mean())


CORNER = 320, 256  # px, whole cells: from here to the slide's right and lower edge there is tissue
TILED = ("", "--tile 248", "--photometric ycbcr --subsampling 420 --tile 256", "--photometric ycbcr --subsampling 422", "--photometric gray", "--progressive",
         "--photometric ycbcr --subsampling 420 --container generic", "--container ome --tile 512", "--compression 33003 --tile 256", "--compression 33005",
         "--compression none --tile 256", "--compression lzw --tile 252x260", "--missing 1,1")


def slides_with_a_corner(width, height):
    """Functions that make a slide of each reader and kind of tiles, by name."""
    size, rect = "%dx%d" % (width, height), "rect:%d,%d,%d,%d" % (*CORNER, width - CORNER[0], height - CORNER[1])

    def tiled(options):
        return made("--size", size, "--tissue", rect, *options.split())

    def dicom(options):
        return dicomfile.slide(tmp("dicom"), tiled(options))

    def ndpi(subsampling):
        w, h = width // 64 * 64, height // 8 * 8  # whole restart intervals
        return ndpifile.Slide().add(ndpifile.picture(w, h, 8 if subsampling == "444" else 4, subsampling, tissue=rect), w, h, 20.0).save()

    def plain():
        return pixels(store(tiled(""), "--codec", "none"))

    def png():
        return file_of("p.png", png_file(width, height, 2, 8, (b"IDAT", zlib.compress(np.pad(plain().reshape(height, -1), ((0, 0), (1, 0))).tobytes()))))
    return {**{o or "SVS": functools.partial(tiled, o) for o in TILED},
            **{"DICOM " + o: functools.partial(dicom, o) for o in (
                "--complete-tiles", "--complete-tiles --photometric ycbcr --subsampling 420 --tile 256", "--compression 33005 --tile 256")},
            **{"NDPI " + s: functools.partial(ndpi, s) for s in ("444", "422")},
            "strips": lambda: Pages().add((width, height), 37, [s.tobytes() for s in cut(plain(), 37)]).save(os.path.join(tmp(), "strips.tif")), "PNG": png}


def test_padding_is_no_slide():
    """Tiles are padded with black, which pixels at 1/8 mix with the slide: the last row and column of cells were tissue, and dark in the thumbnail.
    Cell by cell, with sizes that leave 1 to 31 px for the last cells."""
    sizes = (641, 519), (647, 520), (648, 513), (665, 543), (650, 521), (672, 519), (643, 516)
    kinds = list(slides_with_a_corner(*sizes[0]))
    for n, kind in enumerate(kinds):
        for width, height in {sizes[0], sizes[1 + n % 6], sizes[1 + (n + 3) % 6]}:
            slide = slides_with_a_corner(width, height)[kind]()
            plain = store(slide, "--codec", "none")
            picture = pixels(plain)
            mean = cell_means(picture if picture.shape[2] == 3 else picture.repeat(3, 2))
            want = closed(by_saturation(mean)[0])
            expect(want[-1, 11:].all() and want[9:, -1].all() and not want[:, :9].any() and not want[:7].any(), "%s: the picture", kind)
            for conversion in ((), ("--codec", "none"), ("--codec", "deflate", "--gray"), ("--tissue-only",)):
                path = plain if conversion == ("--codec", "none") else store(slide, *conversion)
                mask, _ = mask_of(path)
                expect(mask.shape == want.shape and (mask == want).all(), "%s, %d x %d, %s: %s differ", kind, width, height, conversion,
                       np.argwhere(mask != want)[:9].tolist())
                shown = values_in(path, "associated/thumbnail")
                if shown.shape == mean.shape:  # made of the means of cells
                    off = np.abs(shown - mean).max(2)
                    expect(off.max() < 40 and np.median(off) <= 2, "%s, %d x %d, %s: a thumbnail %.0f levels off", kind, width, height, conversion, off.max())


def test_what_tiles_hold_beyond_the_slide_changes_nothing():
    """Its blocks counted among those that show earlier compression."""
    width, height = 624, 304
    rng = np.random.default_rng(1)
    picture = np.kron(rng.normal(200, 25, (height // 8, width // 8, 3)), np.ones((8, 8, 1))) + rng.normal(0, 12, (height, width, 3))
    picture[:, :300] = 235 + rng.normal(0, 2, (height, 300, 1))
    for subsampling in (0, 1, 2):  # 4:4:4, 4:2:2, 4:2:0: whole blocks of each lie on the slide
        seen = []
        for beyond in (0, 255, rng.integers(0, 256, (512, 1024, 3))):
            whole = np.zeros((512, 1024, 3), np.uint8) + np.uint8(beyond)
            whole[:height, :width] = picture.clip(0, 255)
            tiles = [jpeg_of(t, 80, subsampling=subsampling) for t in cut(whole, (512, 512))]
            path = Pages().add((width, height), (512, 512), tiles, {259: (3, [7]), 262: (3, [6])}).save(os.path.join(tmp(), "s.tif"))
            kept = store(path)
            numbers = {k: v for k, v in attributes_of(kept).items() if k.startswith(("jpeg_", "glass_"))}
            expect(len(numbers) == 3 + len(GLASS), "%s", numbers)
            same = ("tissue/mask", "pixels", "associated/thumbnail")[:1 if subsampling else 3]  # chroma is interpolated across the edge
            seen.append([numbers, *(values_in(kept, k).tobytes() for k in same)])
        expect(seen[0] == seen[1] == seen[2], "%d: %s", subsampling, [s[0] for s in seen])


def test_a_coarse_level_that_ends_early():
    """The last row of cells, of which it has no pixel, was as the cell in the lower right corner."""
    for levels, (width, height) in itertools.product("23", ((2561, 1537), (2569, 1540), (2567, 1543))):
        for piece in ((0, 1024, 960, 640), (1600, 1024, 1600, 640), (1600, 0, 1600, 512)):  # in corners
            slide = made("--size", "%dx%d" % (width, height), "--levels", levels, "--tissue", "rect:%d,%d,%d,%d" % piece)
            wrong = mask_of(store(slide))[0] != rectangle(width, height, *piece)
            expect(not wrong[-1].any() and not wrong[:, -1].any(), "%s levels, %d x %d, %s: %s", levels, width, height, piece, np.argwhere(wrong).tolist())


def test_tiles_at_an_eighth_count_to_their_last_column():
    for x, width in ((240, 960), (720, 1200)):  # from tile to tile
        slide = made("--size", "2400x1900", "--tissue", "rect:%d,300,%d,900" % (x, width))
        want, mask = (mask_of(store(slide, "--codec", codec))[0] for codec in ("none", "jpeg"))
        expect((mask == want).all(), "%d cells of %d differ", (mask != want).sum(), want.sum())


def test_gray_stores_have_the_map_of_colour_stores():
    """--gray made its map in a second pass at 1/8, which differed and took longer than colour."""
    for options in (("--missing", "1,1"), ("--compression", "33003", "--tile", "256"),
                    ("--compression", "none", "--tile", "256")):
        slide = made(*KNOWN, *options)
        colour, gray = store(slide), store(slide, "--gray")
        (a, of_a), (b, of_b) = mask_of(colour), mask_of(gray)
        expect((a == b).all() and equal_attributes(of_a, of_b), "%s", options)


def test_real_slide_against_the_definition():
    path = store(real("CMU-1-Small-Region.svs"))
    mean = cell_means(pixels(path))
    want, glass, dark = by_saturation(mean)
    want = closed(want)
    mask, attributes = mask_of(path)
    expect(iou(mask, want) >= 0.98, "IoU %f, tissue %f", iou(mask, want), attributes["tissue_fraction"])
    expect(abs(attributes["glass"] - glass) <= 1 and abs(attributes["dark"] - dark) <= 1, "%s %s %s", attributes, glass, dark)
    at_an_eighth, _ = mask_of(store(real("CMU-1-Small-Region.svs"), "--tissue-only"))
    expect(iou(mask, at_an_eighth) >= 0.95, "IoU %f at 1/8", iou(mask, at_an_eighth))


def test_the_definition_on_made_slides():
    for share, *options in ((0, "--tissue", "none"), (1, "--tissue-fraction", "1"), (None, "--tissue-fraction", "0.97"), (0.05, "--tissue-fraction", "0.05"),
                            (1, "--tissue-fraction", "1", "--stain", "ihc"), (0.5, "--tissue-fraction", "0.5", "--stain", "pale"),
                            (None, "--stain", "ihc"), (0.9, "--tissue-fraction", "0.9", "--quality", "30"), (None,)):
        exact = () if "--quality" in options else ("--compression", "deflate")  # JPEG tiles count at 1/8
        path = store(made("--size", "1600x1280", *options, *exact), "--codec", "none")
        want, glass, dark = by_saturation(cell_means(pixels(path)))
        mask, attributes = mask_of(path)
        same = (mask == closed(want)).mean()
        expect(same >= 0.995 and abs(attributes["glass"] - glass) <= 1 and abs(attributes["dark"] - dark) <= 1.5,
               "%s: %f of the cells, %s, %s %s", options, same, attributes, glass, dark)
        expect(share is None or abs(mask.mean() - share) < 0.03, "%s: %f of the slide", options, mask.mean())


def test_white_that_was_not_scanned_is_no_glass():
    """It was taken for glass, and then all glass was darker: the whole slide was tissue. Without glass white is what there is."""
    for glass, tissue, fill in ((232, 0.2, 0.3), (232, 0.01, 0.3), (240, 0.002, 0.5), (255, 0.3, 0)):
        picture = np.random.default_rng(1).normal(glass, 1, (1280, 1600, 3)).clip(0, 255)
        ny = round(tissue * 40) * 32 or 32
        picture[:ny, :1600 if tissue > 0.1 else 640] = (190, 150, 200)
        if fill:
            picture[round(1280 * (1 - fill)) // 32 * 32:] = 255
        picture = picture.astype(np.uint8)
        mask, attributes = mask_of(store(slide_of(picture), "--codec", "none"))
        want, found_glass, _ = by_saturation(cell_means(picture))
        expect(mask.mean() == (picture[..., 1] == 150).mean() and (mask == closed(want)).all(), "%d: %f", glass, mask.mean())
        expect(abs(attributes["glass"] - glass) <= 1 and abs(found_glass - glass) <= 1, "%s", attributes)


GLASS = "glass_gray glass_range glass_std glass_rows glass_columns glass_grain glass_grid".split()


def glass_of(path):
    return {k: v for k, v in attributes_of(path).items() if k in GLASS}


def place_of_steps(lines, side):
    """Of a cell: where in the blocks the mean gray, [4][4][8], changes most from a row to the next, 1 to 7, or 0 if that is not
    clear; and whether it changes alike in the blocks along the axis `side`, as lines do."""
    steps = np.diff(lines, axis=2)
    sums = abs(steps).sum((0, 1))
    most = int(sums.argmax())
    if not (sums[most] > 0 and 20 * sums[most] >= 21 * np.delete(sums, most).max() - 1e-9):
        return 0, False
    return 1 + most, abs(steps.sum(side)).sum(0)[most] > 0.75 * sums[most]


def glass_by_definition(pixels, dark, tile):
    """The numbers of convert/tile/scan_traits.h."""
    cells = []
    for r, c in np.ndindex(-(-pixels.shape[0] // tile), -(-pixels.shape[1] // tile)):
        gray = pixels[r * tile:(r + 1) * tile, c * tile:(c + 1) * tile] @ [0.299, 0.587, 0.114]
        n, m = (k // 32 for k in gray.shape)
        b = gray[:n * 32, :m * 32].reshape(n, 4, 8, m, 4, 8).transpose(0, 3, 1, 4, 2, 5)
        mean = b.mean((4, 5), keepdims=True)
        rows, columns = b.mean(5, keepdims=True) - mean, b.mean(4, keepdims=True) - mean
        parts = [np.var(mean, axis=(2, 3)), (rows ** 2).mean((2, 3, 4)), (columns ** 2).mean((2, 3, 5)), ((b - mean - rows - columns) ** 2).mean((2, 3, 4, 5))]
        parts = np.stack([x.reshape(n, m) for x in parts])
        own = mean.mean((2, 3)).reshape(n, m)
        near = np.pad(own, 1, mode="edge")
        least = np.min([near[1 + y:1 + y + n, 1 + x:1 + x + m] for y in (-1, 0, 1) for x in (-1, 0, 1)], 0)
        keep = (np.floor(least) >= dark) & ((own < 255) | (parts.sum(0) > 0))
        cells += [(own[k], np.sqrt(parts[(slice(None), *k)].sum()), parts[(slice(None), *k)],
                   (place_of_steps(rows[k][..., 0], 1), place_of_steps(columns[k][:, :, 0], 0))) for k in map(tuple, np.argwhere(keep))]
    gray, std = np.sort([x[0] for x in cells]), np.sort([x[1] for x in cells])
    k, most, kinds = len(gray), [], np.array([x[2] for x in cells])
    for direction in (0, 1):
        places, straight = np.array([x[3][direction] for x in cells]).T
        counts = np.bincount(places, minlength=8)[1:]
        counts[4 * np.bincount(places, straight, minlength=8)[1:] > 3 * counts] = 0
        most.append(counts.max() / k)
        if 2 * counts.max() > k:
            kinds[places == 1 + counts.argmax(), 1 + direction] = 0
    kinds = np.where(kinds.max(1) > 0, kinds.argmax(1), 0)
    return dict(zip(GLASS, [gray[k // 2], gray[k - 1 - k // 20] - gray[k // 20], std[k // 2]] + [(kinds == x).mean() for x in (1, 2, 3)] + [max(most)]))


def test_what_the_glass_shows():
    """Of pixels exactly; of the coefficients of JPEG as far as rounding leaves it; and the same whatever the codec."""
    rng, y, x = np.random.default_rng(1), *np.mgrid[:1000, :1500]
    shows = {"glass_rows": 4.0 * (y % 5 < 2), "glass_columns": rng.uniform(-3, 3, 1500)[None, :] + 0 * y, "glass_grain": rng.normal(0, 3, y.shape),
             "": 10 * np.cos(x / 40)}
    for name, pattern in shows.items():
        picture = np.rint(230 + pattern)[..., None].repeat(3, 2).astype(np.uint8)
        picture[:500, 900:] = (190, 150, 200)
        picture[900:, 1100:] = 255  # not scanned
        made_store = store(slide_of(picture), "--codec", "none")
        tile = h5py.File(made_store, "r").attrs["chunk_rows"]
        got, want = glass_of(made_store), glass_by_definition(picture, mask_of(made_store)[1]["dark"], tile)
        for k in GLASS:
            expect(abs(got[k] - want[k]) < 1e-9, "%s: %s %s, not %s", name or "shading", k, got[k], want[k])
        expect(all((got[k] > 0.9) == (k == name) for k in GLASS[3:6]) and got["glass_grid"] < 0.3 and got["glass_std"] > 1, "%s: %s", name, got)
    for options in ((), ("--photometric", "ycbcr"), ("--tile", "240"), ("--compression", "33003")):
        slide = made("--size", "1900x1300", "--tissue", "rect:0,0,900,1300", *options)
        stores = [store(slide, *o) for o in (("--codec", "none"), ("--codec", "deflate", "-j", "3"), ("--codec", "jpeg" if "33003" not in options else "j2k"))]
        got = [glass_of(s) for s in stores]
        expect(got[0] == got[1] == got[2] and len(got[0]) == len(GLASS), "%s: %s", options, got)
        with h5py.File(stores[0], "r") as f:
            want = glass_by_definition(f["pixels"][()], f["tissue/mask"].attrs["dark"], f.attrs["chunk_rows"])
        for k in GLASS:
            expect(abs(got[0][k] - want[k]) < 0.2, "%s: %s %s, not %s", options, k, got[0][k], want[k])
    result = spectrum(store(slide, "--codec", "none"))
    with h5py.File(result, "r") as f:
        expect({k: v for k, v in next(iter(f["slides"].values())).attrs.items() if k in GLASS} == got[0], "the result's")
    coarse = glass_of(store(made("--size", "900x900", "--quality", "1")))  # its blocks are brighter than white
    expect(coarse["glass_gray"] == 255, "%s", coarse)
    expect(glass_of(store(slide, "--tissue-thresholds", "0,0")) == {} == glass_of(store(made("--size", "600x600", "--tissue-fraction", "1"))), "without glass")


def test_gaps_between_pale_nuclei_are_closed():
    """A cell between nuclei is as bright as glass; the map was moth-eaten, and --tissue-only lost windows."""
    rng = np.random.default_rng(1)
    picture = rng.normal(243, 1, (1300, 1700, 3))
    cells = np.zeros((41, 54), bool)
    cells[8:32:2, 8:44:3] = True  # gaps of one cell down and two cells across
    cells[0:4, 53] = cells[40, 0:3] = True
    picture[np.kron(cells, np.ones((32, 32), bool))[:1300, :1700]] = (180, 170, 200)
    path = slide_of(picture)
    want = cells.copy()
    want[8:31, 8:42] = True
    for codec in ("none", "deflate", "lz4"):
        mask, _ = mask_of(store(path, "--codec", codec))
        expect((mask == want).all(), "%s: %s", codec, np.argwhere(mask != want)[:9])


def test_thresholds_are_the_definition():
    path = store(real("CMU-1-Small-Region.svs"), "--tissue-thresholds", "0.75,0.125")
    mask, attributes = mask_of(path)
    want = by_thresholds(cell_means(pixels(path)), 0.75, 0.125)
    expect(iou(mask, want) >= 0.95 and 0.05 < mask.mean() < 0.95, "IoU %f, tissue %f", iou(mask, want), mask.mean())
    expect(not {"glass", "dark"} & attributes.keys(), "%s", attributes)
    none, _ = mask_of(store(real("CMU-1-Small-Region.svs"), "--tissue-thresholds", "1,1"))
    everything, attributes = mask_of(store(real("CMU-1-Small-Region.svs"), "--tissue-thresholds", "0,0"))
    expect(none.sum() == 0 and everything.all(), "the ends of the range")
    fewer, _ = mask_of(store(real("CMU-1-Small-Region.svs"), "--tissue-thresholds", "0.5,0.25"))
    expect(0 < fewer.sum() < everything.sum(), "%d cells", fewer.sum())


def check_no_map(slide):
    out = os.path.join(tmp(), "dark.h5")
    says(run(WSI2H5, "-o", out, slide).err, "no tissue map: the slide has no bright background (fluorescence?)", "--tissue-thresholds")
    with h5py.File(out, "r") as f:
        expect("tissue" not in f and "no bright background" in f.attrs["tissue_missing"], "%s", list(f))
    says(run(H5SPEC, "info", out).out, "no map: the slide has no bright background")
    says(run(H5SPEC, "run", "--tissue-only", "-o", out + "x", out, status=1).err, "has no tissue map: the slide has no bright background")
    run(H5SPEC, "verify", out)
    run(H5SPEC, "run", "-o", out + "x", out)
    says(run(WSI2H5, "-o", out, slide).err, "1 skipped (up to date)")
    bad = os.path.join(tmp(), "x.h5")
    says(run(WSI2H5, "--tissue-only", "-o", bad, slide, status=1).err, "--tissue-only needs a tissue map, but the slide has no bright background")
    mask, _ = mask_of(store(slide, "--tissue-thresholds", "0,0"))
    expect(mask.all(), "thresholds given by the user make a map")


def notes_of(result):
    """The reasons and notes of the slides of a report."""
    table = os.path.join(tmp(), "r.csv")
    p = run(H5SPEC, "report", "--csv", table, "-o", os.path.join(tmp(), "r.html"), result, status=None)
    if p.returncode == 2 or "without libpng" in p.err:
        raise Skip("built without libpng")
    return text_in(table)


def test_a_map_that_is_probably_wrong_is_never_silent():
    """Said by wsi2h5 and recorded, said by h5spec run --tissue-only, its summary and the report."""
    for kind, shows in (("none", "no tissue"), ("rect:100,100,64,64", "only 0.28 % tissue"), ("ellipses", "")):
        slide, out = made("--size", "1500x1200", "--tissue", kind, name="doubt"), os.path.join(tmp(), "doubt.h5")
        for _ in range(2):  # also of a store that exists
            p = run(WSI2H5, "--json", "-o", out, slide)
            (line,) = json_lines(p.out)
            expect(line.get("tissue_doubt", "") == shows, "%s", line)
            expect(p.err.count("doubt.svs: the tissue map shows %s and may be wrong; --tissue-thresholds 0,0.05" % shows) == bool(shows), p.err)
        expect(attributes_of(out).get("tissue_doubt", "") == shows, "%s", attributes_of(out))
        says(run(H5SPEC, "info", out).out, "doubtful: the map shows " + shows if shows else "% of the slide")
        run(H5SPEC, "verify", out)
        result = os.path.join(tmp(), "r.h5")
        p = run(H5SPEC, "run", "--device", "cpu", "--tissue-only", "-o", result, out)
        for words in ("doubt.h5: no window counts: none has 50 %% of its area in tissue, and the tissue map shows %s; if that is wrong, "
                      "convert the slide with --tissue-thresholds 0,0.05" % shows, "1 done (1 without a window that counts), 0 failed"):
            expect((words in p.err) == bool(shows), p.err)
        expect(("the tissue map shows %s and may be wrong" % shows in notes_of(result)) == bool(shows), notes_of(result))
        p = run(H5SPEC, "run", "--device", "cpu", "-o", result, out)
        expect("tissue map" not in p.err, "all windows count: %s", p.err)


def test_a_map_that_misses_fat_is_said():
    """Fat is as bright as glass, but uneven: membranes and vacuoles. Plain glass, with dust, is not doubted."""
    rng = np.random.default_rng(1)
    glass = rng.normal(243, 1, (1280, 1600, 3))
    fat = glass.copy()
    fat[:, :640] -= np.kron(rng.integers(0, 12, (40, 20)), np.ones((32, 32)))[..., None]  # vacuoles
    for picture, doubt in ((fat, "no tissue in pale, uneven areas (fat?)"), (glass, "")):
        picture[:160, :1600] = (190, 150, 200)
        picture[::320, ::320] = 100  # dust
        path, out = slide_of(picture), os.path.join(tmp(), "fat.h5")
        p = run(WSI2H5, "--json", "-o", out, path)
        expect(json_lines(p.out)[0].get("tissue_doubt", "") == doubt and ("fat?" in p.err) == bool(doubt), "%s %s", p.out, p.err)
        says(run(H5SPEC, "info", out).out, "doubtful: the map shows " + doubt if doubt else "% of the slide")
        p = run(WSI2H5, "--json", "--tissue-thresholds", "0,0.02", "-o", out + "x", path)
        expect("tissue_doubt" not in p.out, "the user's own map is not doubted: %s", p.out)


def test_a_map_without_glass():
    """A mask that the user gives is not doubted when the slide is converted; --tissue-only says what it shows."""
    slide, out = made("--size", "600x600", name="full"), os.path.join(tmp(), "full.h5")
    p = run(WSI2H5, "-o", out, "--tissue-thresholds", "0,0", slide)
    expect("may be wrong" not in p.err and mask_of(out)[0].all(), p.err)
    p = run(H5SPEC, "run", "--device", "cpu", "--tissue-only", "-o", out + "x", out)
    says(p.err, "full.h5: the tissue map shows no glass; if that is wrong", "1 done, 0 failed")
    says(notes_of(out + "x"), "the tissue map shows no glass")


def test_a_window_needs_more_tissue_than_there_is():
    out = store(made("--size", "1500x1200", "--tissue-fraction", "0.003", name="thin"))
    p = run(H5SPEC, "run", "--device", "cpu", "--tissue-only", "-o", os.path.join(tmp(), "r.h5"), out)
    says(p.err, "thin.h5: no window counts", "the tissue map shows 2.6 % tissue; if that is wrong", "1 done (1 without a window")


def test_fluorescence_gets_no_map():
    for levels in ("1", "3"):
        check_no_map(made(*KNOWN, "--levels", levels, "--stain", "fluorescence", name="dark"))


def test_real_fluorescence_gets_no_map():
    check_no_map(real("test3-TRITC 2 (560).ndpi"))


def test_other_rules_are_not_taken_for_this_one():
    slide, out = made(*KNOWN, "--levels", "2", name="rule"), os.path.join(tmp(), "rule.h5")
    rule = ("--tissue-thresholds", "0.5,0.1")
    run(WSI2H5, *rule, "-o", out, slide)
    expect(attributes_of(out)["tissue_rule"] == "thresholds 0.5,0.1015625", "%s", attributes_of(out)["tissue_rule"])
    says(run(H5SPEC, "info", out).out, "% of the slide; by thresholds 0.5,0.1015625")
    says(run(WSI2H5, *rule, "-o", out, slide).err, "1 skipped (up to date)")
    for other in ((), ("--tissue-thresholds", "0.5,0.2")):
        says(run(WSI2H5, *other, "-o", out, slide, status=1).err, "was made with another tissue map: thresholds 0.5,0.1015625", "--force")
    plain = os.path.join(tmp(), "plain.h5")
    run(WSI2H5, "-o", plain, slide)
    with h5py.File(plain, "r") as f:
        expect(f.attrs["tissue_rule"] == "saturation" and "tissue_missing" not in f.attrs, "attributes of the default")
    says(run(WSI2H5, *rule, "-o", plain, slide, status=1).err, "was made with another tissue map: saturation")


def png(path, pixels, kind=0, depth=8, palette=b"", more=b"", interlace=0):
    """A PNG file; pixels: rows of bytes as they are packed. kind: 0 gray, 2 RGB, 3 palette, 4 gray with alpha, 6 RGBA."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    width = len(pixels[0]) * 8 // depth // channels
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, len(pixels), depth, kind, 0, 0, interlace)))
        f.write((chunk(b"PLTE", palette) if palette else b"") + (chunk(b"tRNS", more) if more else b""))
        f.write(chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(row) for row in pixels))) + chunk(b"IEND", b""))
    return path


def picture(width, height, x, y, w, h, size=(2400, 1900)):
    """[height][width] 0 or 1: which centres of the picture's pixels lie in the rectangle of the slide."""
    across = (np.arange(width) + 0.5) * size[0] / width
    down = (np.arange(height) + 0.5) * size[1] / height
    return (((down >= y) & (down < y + h))[:, None] & ((across >= x) & (across < x + w))).astype(np.uint8)


def cells_of_picture(image, size=(2400, 1900), cell=32):
    """The definition: at least half of the pixels whose centres lie in the cell; else the pixel over its centre."""
    height, width = image.shape
    def members(n, px):
        centres, out = (np.arange(n) + 0.5) * px / n, []
        for first in range(0, px, cell):
            end = min(first + cell, px)
            inside = np.nonzero((centres >= first) & (centres < end))[0]
            out.append(inside if len(inside) else np.array([int((first + end) / 2 * n / px)]))
        return out
    return np.array([[image[np.ix_(r, c)].mean() >= 0.5 for c in members(width, size[0])] for r in members(height, size[1])])


def masked(path, *options, slide=None):
    mask, attributes = mask_of(store(slide or made(*KNOWN, name="masked"), "--tissue-mask", path, *options))
    expect(attributes["tissue_fraction"] == mask.mean(), "%s", attributes)
    return mask


def test_masks_of_every_size():
    for width, height in ((2400, 1900), (1200, 950), (75, 60), (80, 63), (601, 476), (24, 19), (11, 9), (5, 4)):
        image = picture(width, height, 420, 310, 900, 1111)
        image ^= picture(width, height, 700, 600, 90, 80)
        got = masked(png(os.path.join(tmp(), "m.png"), image * 255))
        want = cells_of_picture(image)
        expect((got == want).all() and 0 < got.sum() < got.size, "%d x %d: %d cells differ", width, height, (got != want).sum())


def test_masks_of_every_kind():
    image = picture(240, 190, 420, 310, 900, 1111)
    want, path = cells_of_picture(image), os.path.join(tmp(), "m.png")
    def same(what, *args, **kw):
        os.path.exists(path) and os.unlink(path)
        here = os.path.join(tmp(), "m.png")
        got = masked(png(here, *args, **kw))
        expect((got == want).all(), "%s: %d cells differ", what, (got != want).sum())
    same("0 and 1", image)
    same("one bit", np.packbits(image, axis=1), depth=1)
    same("16 bit, small numbers", np.stack([image * 0, image], 2).reshape(190, -1), depth=16)
    same("RGB", np.stack([image * 0, image * 0, image * 9], 2).reshape(190, -1), kind=2)
    same("RGBA", np.stack([image * 0 + 255] * 3 + [image * 200], 2).reshape(190, -1), kind=6)
    same("gray and alpha", np.stack([image * 255, image * 0 + 255], 2).reshape(190, -1), kind=4)
    same("palette", image, kind=3, palette=bytes((0, 0, 0, 10, 200, 10)))
    same("palette with transparency", image, kind=3, palette=bytes((9, 9, 9, 10, 200, 10)), more=bytes((0, 255)))


def test_polygons_as_masks():
    ring = [[100.3, 90.2], [2300.7, 300.1], [333.3, 1800.9]]
    path = os.path.join(tmp(), "m.geojson")
    with open(path, "w") as f:
        json.dump({"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": {}}, f)
    x, y = np.meshgrid(np.arange(2400) + 0.5, np.arange(1900) + 0.5)
    inside = np.zeros(x.shape, bool)
    for (ax, ay), (bx, by) in zip(ring, ring[1:] + ring[:1]):
        inside ^= ((ay <= y) != (by <= y)) & (x >= ax + (y - ay) / (by - ay) * (bx - ax))
    want = np.array([[inside[r:r + 32, c:c + 32].mean() >= 0.5 for c in range(0, 2400, 32)] for r in range(0, 1900, 32)])
    expect((masked(path) == want).all(), "cells differ")
    with h5py.File(store(made(*KNOWN, "--levels", "2", name="masked"), "--tissue-mask", path, "--level", "1"), "r") as f:
        half = f["tissue/mask"][()]
        expect(half.shape == (15, 19) and abs(half.mean() - want.mean()) < 0.05, "level 1: %f, %f", half.mean(), want.mean())


def test_masks_and_tissue_only():
    path = png(os.path.join(tmp(), "m.png"), picture(240, 190, *OUTLINE) * 255)
    for options in ((), ("--gray",), ("--codec", "jpeg")):
        out = store(made(*KNOWN, name="masked"), "--tissue-mask", path, "--tissue-only", *options)
        expect(attributes_of(out)["tiles_left_out"] > 0, "no tile is left out")
        run(H5SPEC, "verify", out)
    says(run(H5SPEC, "info", out).out, "; by mask ")


def test_a_mask_makes_fluorescence_usable():
    slide = made(*KNOWN, "--stain", "fluorescence", name="dark")
    path = png(os.path.join(tmp(), "m.png"), picture(240, 190, *OUTLINE) * 255)
    out = store(slide, "--tissue-mask", path, "--tissue-only")
    says(run(H5SPEC, "run", "--tissue-only", "-o", os.path.join(tmp(), "r.h5"), out).err, "1 done")


def test_folder_of_masks_and_resuming():
    slides, masks, out = tmp(), tmp(), tmp()
    for name in ("a.svs", "b.svs"):
        shutil.copy(made(*KNOWN, "--levels", "2", "--seed", str(ord(name[0])), name="m" + name), os.path.join(slides, name))
    one, two = picture(240, 190, *OUTLINE), picture(240, 190, 0, 0, 500, 500)
    png(os.path.join(masks, "a.png"), one)
    png(os.path.join(masks, "b.svs.png"), two)
    again = ("--tissue-mask", masks, "-o", out, slides)
    says(run(WSI2H5, *again).err, "2 converted")
    for name, image in (("a", one), ("b", two)):
        expect((mask_of(os.path.join(out, name + ".h5"))[0] == cells_of_picture(image)).all(), "%s: another mask", name)
    says(run(WSI2H5, *again).err, "2 skipped (up to date)")
    png(os.path.join(masks, "a.png"), one * 255)  # the same cells
    says(run(WSI2H5, *again).err, "2 skipped (up to date)")
    png(os.path.join(masks, "a.png"), two)
    says(run(WSI2H5, *again, status=1).err, "a.h5 was made with another tissue map: mask ", "--force", "1 skipped")
    says(run(WSI2H5, "-o", out, slides, status=1).err, "made with other options (the first: with another tissue map: mask ")
    os.unlink(os.path.join(masks, "a.png"))
    says(run(WSI2H5, "--force", *again, status=1).err, "a.svs: no tissue mask", "has no file a.png or .geojson", "1 converted")
    with h5py.File(os.path.join(out, "a.h5"), "r") as f:
        expect(len(f.attrs["tissue_rule"]) == len("mask 12345678") and masks not in str(dict(f.attrs)), "%s", f.attrs["tissue_rule"])


def test_mask_of_a_slide_without_an_ending():
    slide, masks = os.path.join(tmp(), "scan"), tmp()
    shutil.copy(made(*KNOWN, "--levels", "2"), slide)
    out = os.path.join(tmp(), "x.h5")
    says(run(WSI2H5, "--tissue-mask", masks, "-o", out, slide, status=1).err, slide, "no tissue mask", "has no file scan.png")
    image = picture(240, 190, *OUTLINE)
    png(os.path.join(masks, "scan.png"), image)
    run(WSI2H5, "--tissue-mask", masks, "-o", out, slide)
    expect((mask_of(out)[0] == cells_of_picture(image)).all(), "another mask")


def test_masks_of_anonymous_slides():
    """The mask is found by the slide's name, which no output repeats."""
    slide, masks, out, key = made(*KNOWN, name="SmithJohn"), tmp(), tmp(), os.path.join(tmp(), "key.csv")
    def convert(status):
        p = run(WSI2H5, "--json", "--anonymous", key, "--tissue-mask", masks, "-o", out, slide, status=status)
        expect("Smith" not in p.err + p.out, "%s", p.err + p.out)
        return p
    says(convert(1).err, "no tissue mask")
    png(os.path.join(masks, "SmithJohn.png"), picture(240, 180, *OUTLINE))
    says(convert(1).err, "another shape")
    png(os.path.join(masks, "SmithJohn.png"), picture(240, 190, *OUTLINE))
    convert(0)
    (name,) = os.listdir(out)
    expect(b"Smith" not in bytes_in(os.path.join(out, name)), "the store has the name")


def test_bad_masks():
    slide, out = made(*KNOWN), tmp()
    image = picture(240, 190, *OUTLINE)
    good = open(png(os.path.join(tmp(), "m.png"), image), "rb").read()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 255
    cases = [
        (file_of("m.png", b""), "not a valid PNG"), (file_of("m.png", b"hello, no picture"), "not a valid PNG"), (file_of("m.png", good[:len(good) // 2]), "not a valid PNG"),
        (file_of("m.png", bytes(flipped)), "not a valid PNG"), (png(os.path.join(tmp(), "m.png"), image.T.copy()), "190 x 240 px has another shape than the slide, 2400 x 1900 px"),
        (png(os.path.join(tmp(), "m.png"), image[:180]), "another shape"), (png(os.path.join(tmp(), "m.png"), image[:1, :1]), "another shape"),
        (png(os.path.join(tmp(), "m.png"), image, interlace=1), "interlaced"), (file_of("m.tif", b"x"), "a tissue mask is a .png or .geojson file"),
        (file_of("m.geojson", b'{"type": "GeometryCollection", "geometries": [{"type": "Polygon", "coordinates": [[[0, 0], [900, 0], [0, 900]]]}, {"type": "Circle"}]}'), 'unknown geometry "Circle"'),
        (file_of("m.geojson", b"{"), "not valid JSON"), (file_of("m.json", b'{"type": "Point", "coordinates": [1, 2]}'), "has no polygon"),
        (file_of("m.geojson", b'{"type": "Polygon", "coordinates": [[[9000, 0], [9100, 0], [9000, 100]]]}'), "lie outside of the slide, which has 2400 x 1900"),
    ]
    for path, why in cases:
        p = run(WSI2H5, "--tissue-mask", path, "-o", out, slide, status=1)
        says(p.err, why, slide, path)
        expect(stores_in(out) == [], "%s: %s", why, os.listdir(out))
    says(run(WSI2H5, "--tissue-mask", "/nonexistent.png", "-o", out, slide, status=2).err, "--tissue-mask /nonexistent.png: No such file")
    says(run(WSI2H5, "--tissue-mask", cases[0][0], "-o", out, slide, made("--size", "300x300"), status=2).err, "name a folder with one file per slide")
    says(run(WSI2H5, "--tissue-mask", cases[0][0], "--tissue-thresholds", "0,0", "-o", out, slide, status=2).err, "contradict")


def test_bad_rules():
    out, slide = tmp(), made(*KNOWN)
    for value in ("", "1", "0.5,", ",0.5", "0.5,2", "-1,0", "a,b", "nan,0", "0.1,0.2,0.3", "0" * 40 + ",1"):
        says(run(WSI2H5, "--tissue-thresholds", value, "-o", out, slide, status=2).err, "--tissue-thresholds")


BIG = ("--size", "1500x1200", "--tissue-fraction", "0.9")


def tiles_of(path):
    return values_in(path, "groups/00001/tile_status")


def test_tissue_is_not_dropped_because_of_damage():
    damage = ("--garbage", "3,2", "--garbage", "2,3")
    for levels in ((), ("--levels", "2")):
        slide = made(*BIG, *levels, *damage, name="damaged")
        out = os.path.join(tmp(), "x.h5")
        says(run(WSI2H5, "--tissue-only", "-o", out, slide, status=4).err, slide, "2 damaged tiles")
        status, mask = tiles_of(out), mask_of(out)[0]
        expect(status[2, 3] == status[3, 2] == 2 and (status == 2).sum() == 2, "%s", status)
        expect(levels or mask[60:67, 90:97].all(), "cells over a damaged tile are no tissue")
        says(run(WSI2H5, "--tissue-only", "--on-damage", "fail", "-o", os.path.join(tmp(), "y.h5"), slide, status=1).err,
             "rejected because of --on-damage fail")


def test_damage_in_the_level_of_the_map_is_reported():
    t = Tiff(made("--size", "3000x2400", "--levels", "2", "--tissue-fraction", "0.9"))
    for k in (0, 1, 4, 5):
        at, stream = t.tile(k, 2)
        t.data[at + len(stream) // 3:at + len(stream)] = b"\x55" * (len(stream) - len(stream) // 3)
    slide = t.save(os.path.join(tmp(), "coarse.svs"))
    whole = store(made("--size", "3000x2400", "--levels", "2", "--tissue-fraction", "0.9"), "--tissue-only")
    for options in ((), ("--tissue-only",)):
        out = os.path.join(tmp(), "x.h5")
        says(run(WSI2H5, *options, "--on-damage", "fail", "-o", out, slide).err, slide, "4 tiles of level 1 are damaged; the pixels do not depend")
        kept, want = tiles_of(out) != 3, tiles_of(whole) != 3
        expect((kept | ~want).all(), "%d chunks with tissue are left out", (want & ~kept).sum())
        expect(options == () or mask_of(out)[0].sum() >= mask_of(whole)[0].sum(), "less tissue")


def test_tissue_is_kept_where_only_the_level_of_the_map_lacks_tiles():
    for options in ((), ("--compression", "deflate")):
        whole = made(*BIG, "--levels", "2", *options)
        t = Tiff(whole)
        for k in range(4):  # all tiles of level 1
            t.set(TILE_BYTES, 0, k, 2)
        out, mask = os.path.join(tmp(), "x.h5"), mask_of(store(whole))[0]
        run(WSI2H5, "--tissue-only", "-o", out, t.save(os.path.join(tmp(), "coarse.svs")))
        expect((mask_of(out)[0] >= mask).all(), "%s: tissue is lost", options)
        expect(((tiles_of(out) == 0) >= (tiles_of(store(whole, "--tissue-only")) == 0)).all(), "%s: chunks", options)


def test_no_tissue_where_no_level_has_tiles():
    t = Tiff(made("--size", "1920x1920", "--tissue-fraction", "1", "--levels", "2"))
    for r in range(4):
        for c in range(4):
            t.set(TILE_BYTES, 0, 8 * r + c)  # the upper left quarter: 16 tiles of level 0, one of level 1
    t.set(TILE_BYTES, 0, 0, 2)
    out = os.path.join(tmp(), "x.h5")
    run(WSI2H5, "-o", out, t.save(os.path.join(tmp(), "sparse.svs")))
    mask = mask_of(out)[0]
    expect(not mask[:30, :30].any() and mask[31:, :].all(), "%s", mask)


def test_level_smaller_than_a_tile():
    """OpenSlide 3 returns random bytes for such levels of deflated slides: another level gives the map."""
    for size in ("150x700", "700x150"):
        slide = made("--size", size, "--compression", "deflate", name="small")
        p = run(WSI2H5, "-o", os.path.join(tmp(), "x.h5"), slide, status=None)
        expect(p.returncode == 0 or "is smaller than one of its tiles" in p.err and slide in p.err, "%s", p.err)
    for options in ((), ("--compression", "deflate")):
        path = store(made("--size", "2400x1920", "--levels", "3", "--tissue-fraction", "0.6", *options), "--tissue-only")
        share = mask_of(path)[0].mean()
        expect(0.5 < share < 0.7, "%s: %.3f of the slide is tissue", options, share)


def test_a_damaged_tile_does_not_move_the_thresholds():
    whole, bad = store(made(*BIG)), os.path.join(tmp(), "x.h5")
    run(WSI2H5, "-o", bad, made(*BIG, "--garbage", "3,2", name="damaged"), status=4)
    a, b = mask_of(whole)[1], mask_of(bad)[1]
    expect(abs(a["glass"] - b["glass"]) <= 1 and abs(a["dark"] - b["dark"]) <= 1, "%s %s", a, b)


def test_tissue_only_leaves_chunks_out():
    whole, part = store(made(*KNOWN)), store(made(*KNOWN), "--tissue-only")
    with h5py.File(whole, "r") as f, h5py.File(part, "r") as g:
        mask = g["tissue/mask"][()]
        status = g["groups/00001/tile_status"][()]
        a, b = f["pixels"][()], g["pixels"][()]
        for r in range(status.shape[0]):
            for c in range(status.shape[1]):
                cells = mask[r * 240 // 32:(r * 240 + 239) // 32 + 1, c * 240 // 32:(c * 240 + 239) // 32 + 1]
                expect((status[r, c] == 3) == (not cells.any()), "chunk %d %d", r, c)
                tile = np.s_[r * 240:r * 240 + 240, c * 240:c * 240 + 240]
                if status[r, c] == 3:
                    expect((b[tile] == 255).all(), "not white")
                    expect(g["groups/00001/tile_crc32"][r, c] == 0, "checksum of nothing")
                else:
                    expect((a[tile] == b[tile]).all(), "pixels of %d %d", r, c)
        left_out = (status == 3).sum()
        expect(left_out > 20 and g.attrs["tiles_left_out"] == left_out, "%d left out", left_out)
    expect(os.path.getsize(part) < 0.7 * os.path.getsize(whole), "not smaller")
    run(H5SPEC, "verify", part)
    run(H5SPEC, "run", "-q", "-o", os.path.join(tmp(), "r.h5"), part)


def test_only_windows_with_tissue_count():
    path = store(made(*KNOWN))
    mask, _ = mask_of(path)
    want = reference.Spectrum(pixels(path))
    for options, least in (((), 0.5), (("--min-tissue", "0.9"), 0.9), (("--stride", "100"), None)):
        with h5py.File(spectrum(path, "--tissue-only", *options), "r") as f:
            s = f["slides/slide"]
            got = ~np.isnan(s["window_mean_db"][()])
            expect(s.attrs["windows"] == got.sum() > 0 and s.attrs["tissue_only"] == 1, "windows")
            expect(s["histogram"][()].sum() == got.sum() * 65536, "histogram")
            stride = 100 if least is None else 128
            px = np.kron(mask, np.ones((32, 32)))
            for j in range(got.shape[0]):
                for i in range(got.shape[1]):
                    share = px[j * stride:j * stride + 256, i * stride:i * stride + 256].sum() / 65536
                    expect(got[j, i] == (share >= (least or 0.5)), "window %d %d: %f", j, i, share)
            if least is not None:
                off = np.abs(s["window_mean_db"][()] - want.mean_map)[got]
                expect(off.max() < 0.02, "means differ by %f", off.max())


main(globals())
