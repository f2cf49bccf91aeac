"""What the programs write does not change when code is moved.

ROWS is a fixed list of commands over made slides. tests/same.json has a digest of each file that a row writes, and of what it
prints, without times, paths and versions. After an intended change `tests/check_same.py --record` writes the digests anew; the
commit says why. With other versions of libraries than those of the record, only the numbers of stores and results are compared.

    BUILD=build tests/check_same.py --against OTHER_BUILD

compares two builds with each other instead, and names the objects that differ: stores byte for byte.
Not seen here: cuda/, process/run/live.c, tune, scripts/, failing calls, allocations and processes, and signals.
"""
import platform

import h5py
import numpy as np

import dicomfile
import ndpifile
from lib import *
from pictures import png_file

RECORD = os.path.join(ROOT, "tests", "same.json")
# what differs from run to run, from version to version or from processor to processor; icc-size is of OpenSlide 4
VOLATILE = OF_THE_RUN + ("creator", "attribute_crc32", "crc32", "result_mtime_ns", "result_bytes", "source_tag", "device", "kernel", "openslide.icc-size")
MASKS = [(re.compile(pattern), to) for pattern, to in (
    (r'"(\w*seconds|host|time|device|kernel|io|creator|source_tag|bytes|path)": ("[^"]*"|[-\w.]+)', r'"\1": 0'),
    (r"[\d.,]+ (s|ms|[KMGT]?i?B|\S+/s)\b", "N"), (r"(h5spec|wsi2h5) \d+\.\d+\.\d+\S*", r"\1"),
    (r"(?m)^.*plug-?in.*\n", ""), (r"(?s)<(style|script)>.*?</\1>|<meta http-equiv.*?>", ""),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?Z?", "TIME"), (r"\d{4}-\d\d-\d\d", "DATE"))]

PLAIN = {  # decoded alike by every version of libjpeg
    "rgb": "--size 1500x1100 --levels 2 --icc fake:200", "ycbcr": "--size 1300x1025 --photometric ycbcr --subsampling 420 --tile 256",
    "ycbcr422": "--size 900x700 --photometric ycbcr --subsampling 422", "tables": "--size 900x700 --complete-tiles --shuffle-tiles --bigtiff",
    "bad": "--size 1200x1000 --missing 1,1 --garbage 2,2 --truncate 3,1:200", "tall": "--size 600x2300 --seed 3", "small": "--size 300x200"}
SLIDES = {name: "--size 500x460 " + options for name, options in {
    "j2k": "--compression 33005 --quality 100", "j2kycc": "--compression 33003", "precinct": "--compression 34712 --precinct 64 --levels 2",
    "lzw": "--compression lzw --big-endian", "deflate": "--compression deflate --container generic --levels 2", "zstd": "--compression zstd",
    "webp": "--compression webp", "packbits": "--compression packbits --container subifds --levels 2", "lzma": "--compression lzma",
    "none": "--compression none --tile 128x96", "gray": "--photometric gray", "planes": "--photometric planes --compression lzw",
    "progressive": "--progressive --restart 3", "own": "--own-tables --comments --thumbnail-like-tiles", "twice": "--before 60 --quality 90",
    "lying": "--photometric ycbcr --lying-subsampling --subsampling 444 --no-thumbnail", "ome": "--container ome --levels 2",
    "omesub": "--container ome-subifds --levels 2", "philips": "--container philips --levels 2 --icc fake:300", "ihc": "--stain ihc --mpp 0.25",
    "dark": "--stain fluorescence --mpp none", "section": "--tissue section --blur 3:250,200,150 --appmag 40 --no-label", "glass": "--tissue none",
    "pale": "--stain pale --fiducial 100,100 --empty-descriptions", "damaged": "--foreign 0,0 --outside 1,0 --flip 1,1"}.items()}

# name: program and options. {out} is a new folder, all of which is compared; {NAME} the folder of an earlier row, {in} that of inputs()
ROWS = """
none       wsi2h5 --json --codec none -o {out} {in}/slides
keep       wsi2h5 --json -o {out} {in}/slides {in}/more {in}/pictures
tissue     wsi2h5 --json --codec none --tissue-only --tissue-thresholds 0.1,0.2 -o {out} {in}/slides
gray       wsi2h5 --json --gray --codec deflate --stripe-rows 240 --group-bytes 200K -o {out} {in}/few {in}/slides/ihc.svs
lz4        wsi2h5 --json --codec lz4 --stripe-rows 240 --group-bytes 1 --keep-identifiers --mpp-override 0.3 -o {out} {in}/few {in}/slides/philips.svs {in}/slides/planes.svs {in}/slides/section.svs
zstd       wsi2h5 --json --codec zstd --threads 1 --tissue-only --on-damage fail -o {out} {in}/few {in}/slides/section.svs {in}/slides/none.svs
jpeg       wsi2h5 --json --codec jpeg --strict-codec --keep-tree -o {out} {in}
j2k        wsi2h5 --json --codec j2k --tissue-only -o {out} {in}/few {in}/slides/j2k.svs {in}/slides/precinct.svs
level      wsi2h5 --json --level 1 -o {out} {in}/few {in}/slides/ome.svs {in}/slides/precinct.svs {in}/more/dicom
mpp        wsi2h5 --json --mpp 2.1 --codec deflate --task 1/2 -o {out} {in}/slides
mask       wsi2h5 --json --tissue-mask {in}/mask.png --tissue-only -o {out} {in}/few/rgb.svs
outline    wsi2h5 --json --tissue-mask {in}/roi.geojson --codec none -o {out} {in}/few/rgb.svs
secret     wsi2h5 --json --anonymous {out}/key.csv -o {out} {in}/few
inputs     wsi2h5 --print-inputs -o {out} {in}
again      wsi2h5 --json -o {keep} {in}/slides
plain      h5spec run --json --device cpu -o {out} {none}
kept       h5spec run --json --device cpu --skip-damaged -o {out} {keep}
shares     h5spec run --json --device cpu --min-tissue 0.3 --tissue-only -o {out} {tissue}
bins       h5spec run --json --device cpu --bins 700 --range 10:90 --window 512 --stride 256 --sigma 2.5 -o {out} {none}
other      h5spec run --json --device cpu --window 128 --stride 100 --sigma 0 --taper hann --memory 6M -j 2 -o {out} {lz4}
one        h5spec run --json --device cpu --window 64 --stride 50 --mix-mpp --duplicates count -o {out}/one.h5 {gray} {keep}/n.h5 {keep}/lzw.h5
roi        h5spec run --json --device cpu --roi {in}/roi.geojson --roi-class Tumor --min-roi 0.3 --stride 32 -o {out} {jpeg}/few/rgb.h5
part1      h5spec run --json --device cpu --task 1/2 --by group -o {out} {lz4}
part2      h5spec run --json --device cpu --task 2/2 --by group -o {out} {lz4}
groups     h5spec run --json --device cpu --groups 2-3 -o {out}/part.h5 {lz4}/rgb.h5
fail       h5spec run --json --device cpu --on-damage fail -o {out} {none}
rerun      h5spec run --json --device cpu -o {plain} {none}
same       h5spec run --json --device cpu -o {out} {secret} {lz4}
corpus     h5spec merge --json -o {out}/ {plain}
table      tests/h5spec_tables merge --json --mix-mpp -o {plain}/table.h5 {plain}
tables     h5spec merge --json --mix-mpp -o {out}/all.h5 {plain}/table.h5
joined     h5spec merge --json --mix-mpp -o {out}/all.h5 {part1} {part2}
partial    h5spec merge --json --partial -o {out}/part.h5 {part1}
lacks      h5spec merge --json -o {out}/part.h5 {part1}
masked     h5spec run --json --device cpu -o {out} {mask} {lz4}/bad.h5
twice      h5spec merge --json --mix-mpp --duplicates skip -o {out}/two.h5 {plain}/rgb.h5 {plain}/bad.h5 {plain}/tall.h5 {masked}
info       h5spec info --json {plain} {none} {lz4} {jpeg} {partial} {other}
text       h5spec info {plain}/table.h5 {none}/rgb.h5 {keep}/bad.h5 {kept}/bad.h5 {groups} {roi}
csv        h5spec info --csv {plain}/table.h5
csv2       h5spec info --csv {keep} {mpp}
bars       h5spec info --histogram {one}/one.h5
verify     h5spec verify --json {keep} {zstd} {plain} {gray}
quick      h5spec verify --quick {keep} {none} {corpus}
lookup     h5spec lookup {lz4} {none}
plot       h5spec plot --title T&t --map --feature fine --colours=-60:-10 -o {out}/p.svg {plain}/rgb.h5
curves     h5spec plot --slide r* --slide t* --slide bad -o {out}/p.svg {plain}/table.h5
band       h5spec plot -o {out}/p.svg {corpus}
map        h5spec map --json --format all --feature all --slide rgb --slide bad -o {out} {kept}
blend      h5spec map --json --format all --feature focus_db,mean_db --blend cos --cell 32 -o {out} {kept}/ycbcr.h5
tent       h5spec map --json --format csv,tiff,png --feature std_db --blend tent --colours 5:20 -o {out} {roi}
tent2      h5spec map --format csv,tiff,png --feature std_db -o {tent} {roi}
class      h5spec map --json --format geojson --feature mean_db --class Bright --above 44 -o {out} {plain}/rgb.h5 {plain}/tall.h5
blurred    h5spec map --json --format geojson --feature fine_db --class Blur --blend gauss -o {out} {plain}/section.h5 {plain}/rgb.h5
halfmap    h5spec map --json --format png,csv --partial --slide r* --slide philips -o {out} {part1}
scores     h5spec map --json --format all --scores {in}/scores.csv --blend box -o {out} {none}/rgb.h5
scores2    h5spec map --json --format csv,png --scores {in}/scores.csv --feature b --blend tent --cell 50 --colours 0:2 -o {out}
scores3    h5spec map --json --format csv --scores {in}/wrong.csv --partial --patch 200 --slide-size 900x800 -o {out}
compare    h5spec compare --json {plain}/table.h5 {twice}/two.h5
compare2   h5spec compare --json --limit 0.001 {plain}/rgb.h5 {masked}/rgb.h5
compare3   h5spec compare --pairs {in}/pairs.csv {plain}/table.h5 {twice}/two.h5
report     h5spec report --json --csv {out}/t.csv -o {out}/p.html {plain} {keep}
report2    h5spec report --json --csv {out}/t.csv --multiqc {out}/mqc --failed {in}/failed.csv -o {out}/p.html {in}/made
report3    h5spec report --csv {out}/t.csv --meta {in}/meta.csv --group site --limits {in}/limits.csv --strict -o {out}/p.html {in}/made
report4    h5spec report --csv {out}/t.csv --accepted {in}/good.txt --anonymous {out}/k.csv --max-size 90K -o {out}/p.html {in}/made
report5    h5spec report --csv {out}/t.csv --max-size 0 --title a<b -o {out}/p.html {in}/made
report6    h5spec report --limits {in}/beyond.csv -o {out}/p.html {in}/made
broken     h5spec info {in}/broken {in}/none.h5
broken2    h5spec verify {in}/broken
broken3    h5spec run --device cpu -o {out} {in}/broken
broken4    h5spec merge -o {out}/all.h5 {in}/broken
broken5    h5spec report --csv {out}/t.csv -o {out}/p.html {in}/broken
broken6    wsi2h5 --json -o {out} {in}/torn {in}/none.svs
"""
NUMBERS = ("none", "tissue", "plain", "shares", "bins")  # rows of which stores and results are alike with all libraries


def picture(path, width, height):
    """A PNG with a profile, and the part of it that a tissue map keeps."""
    y, x = np.mgrid[:height, :width]
    rows = np.stack([x * 7 + y, x * y // 9, 255 - y], 2).astype(np.uint8).reshape(height, -1)
    profile, packed = (zlib.compress(data) for data in (icc([(b"desc", b"text")]), b"".join(b"\0" + r.tobytes() for r in rows)))
    put_file(path, png_file(width, height, 2, 8, (b"iCCP", b"a\0\0" + profile), (b"IDAT", packed)))


def broken(at):
    """Stores, results and slides that are damaged, each in another way."""
    slide = made("--size", "500x460", "--levels", "2")
    good = store(slide), spectrum(store(slide))
    for k, path in enumerate(good):
        data = bytes_in(path)
        put_file("%s/broken/cut%d.h5" % (at, k), data[:len(data) // 2])
        put_file("%s/broken/text%d.h5" % (at, k), data.replace(b"aperio", b"aperia"))
        for name in ("tissue/mask", "groups/00001/pixels", "groups/00001/tile_crc32") if k == 0 else ("histogram", "slides/slide/window_flags"):
            shutil.copy(flipped_in(path, name), "%s/broken/flip%d-%s.h5" % (at, k, os.path.basename(name)))
    for k, (name, key) in enumerate((("groups", "count"), ("/", "width"), ("/", "format"))):
        shutil.copy(changed(good[0], lambda f: f[name].attrs.pop(key, None)), "%s/broken/lacks%d.h5" % (at, k))
    for k, key in enumerate(("windows", "bins", "histogram")):
        shutil.copy(changed(good[1], lambda f: f.pop(key) if key in f else f.attrs.__setitem__(key, -1)), "%s/broken/odd%d.h5" % (at, k))
    put_file(at + "/broken/none.h5", b"nothing")
    data = bytes_in(slide)
    for name, torn in (("half", data[:len(data) // 2]), ("head", data[:7]), ("tail", data[:-900]), ("text", b"nothing")):
        put_file("%s/torn/%s.svs" % (at, name), torn)


def inputs(at):
    for folder in ("slides", "few", "more", "pictures", "made/a", "made/b", "broken", "torn"):
        os.makedirs(os.path.join(at, folder))
    for name, options in {**PLAIN, **SLIDES}.items():
        path = made(*options.split(), name=name)
        for folder in ("slides", "few") if name in ("rgb", "bad", "small") else ("slides",):
            shutil.copy(path, os.path.join(at, folder))
    whole = made("--size", "500x460", "--complete-tiles", "--levels", "2", "--photometric", "ycbcr", name="whole")
    dicomfile.slide(at + "/more/dicom", whole, table="extended", icc=icc([(b"desc", b"text")]))
    dicomfile.concatenation(at + "/more/parts", whole, (3,), series="1.2.4", sparse=True)
    ndpifile.Slide().add(ndpifile.picture(640, 480, 10), 640, 480, 20).add(ndpifile.picture(320, 240, 5), 320, 240, 10).save(at + "/more/n.ndpi")
    shutil.copy(generic_tiff(made("--size", "700x500", "--levels", "2")), at + "/more/openslide.tiff")
    put_file(at + "/pictures/q.jpg", ndpifile.picture(400, 300, 0))
    picture(at + "/pictures/p.png", 333, 222)
    picture(at + "/mask.png", 60, 44)
    ring = [[100, 50], [900, 80], [700, 900], [100, 600], [100, 50]]
    put_file(at + "/roi.geojson", json.dumps({"type": "FeatureCollection", "features": [
        {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": {"classification": {"name": name}}}
        for name, ring in (("Tumor", ring), ("Other", [[x / 2, y] for x, y in ring]))]}))
    rng = np.random.default_rng(1)
    lines = ["%d,%d,%d,%.4f,%.4f" % (*rng.integers(0, 900, 2), 100 + k % 3 * 50, *rng.random(2)) for k in range(60)]
    put_file(at + "/scores.csv", "x,y,size,a,b\n" + "\n".join(lines) + "\n")
    put_file(at + "/wrong.csv", "x,y,a\n10,20,0.5\n30,x,0.5\n-500,4,0.1\n300,200,0.75\n7\n")
    put_file(at + "/pairs.csv", "a,b\nrgb,tall\nbad,bad\nnone,gone\n")
    put_file(at + "/failed.csv", "slide;reason\nlost;no such file\nmade-00003;old\n;3\n")
    put_file(at + "/meta.csv", "slide,site\n" + "".join("made-%05d,%s\n" % (k, "NSW"[k % 3]) for k in range(1, 31)))
    put_file(at + "/limits.csv", "metric,side,warn,fail,group\nfocus_p50,below,-30,-36,\ntissue_fraction,above,0.5,0.9,N\nmean_db,above,,1,gone\n")
    put_file(at + "/beyond.csv", "metric,side,warn,fail\ntissue_fraction,above,0.5,1.5\n")
    put_file(at + "/good.txt", "".join("made-%05d\n" % k for k in range(5, 25)))
    mkresult = os.path.join(BUILD, "tests", "mkresult")
    run(mkresult, "--each", "--slides", "30", "--blurred", "3", "--noise", "--windows", "24x20", at + "/made/a")
    run(mkresult, "--each", "--slides", "4", "--first", "41", "--mpp", "0.5", "--vendor", "x", "--no-tissue", at + "/made/b")
    broken(at)
    for path in glob.glob(at + "/**", recursive=True):
        os.utime(path, (1e9, 1e9))
    return at


def digest(data):
    return hashlib.sha256(data).hexdigest()[:12]


def digests(path, without=VOLATILE):
    """A digest for the attributes of each object of an HDF5 file, and for the values of each dataset."""
    out = {}

    def add(name, obj):
        if name.endswith("tile_offset") or name.split("/")[-1] in without:  # places depend on HDF5
            return
        values = {key: obj.attrs[key] for key in sorted(set(obj.attrs) - set(without))}
        lines = ["%s=%s" % (key, os.fsdecode(v) if isinstance(v, (bytes, str)) else bytes_of(v).hex()) for key, v in values.items()]
        if lines:
            out["@" + name] = digest("\n".join(lines).encode("utf-8", "surrogateescape"))
        if isinstance(obj, h5py.Dataset) and obj.shape is not None and name != "/pixels":  # the view of the groups
            out[name] = digest(values_of(obj))

    with h5py.File(path, "r") as f:
        add("/", f)
        f.visititems(lambda name, obj: add("/" + name, obj))
    return out


def values_of(dataset):
    """Its values, or its chunks as they are stored if h5py may lack their filter, as bytes."""
    plist = dataset.id.get_create_plist()
    if any(plist.get_filter(k)[0] > 255 for k in range(plist.get_nfilters())):
        return b"".join(dataset.id.read_direct_chunk(dataset.id.get_chunk_info(k).chunk_offset)[1] for k in range(dataset.id.get_num_chunks()))
    return bytes_of(dataset[()])


def bytes_of(value):
    value = np.asarray(value)
    if value.dtype.kind == "f":
        value = np.where(np.isnan(value), value.dtype.type("nan"), value)  # whose sign depends on the compiler
    return repr(value.tolist()).encode() if value.dtype == object else np.ascontiguousarray(value).tobytes()


def masked(data, base):
    """Bytes without what differs from run to run."""
    if data[:2] in (b"\x89P", b"II", b"\xff\xd8"):
        return re.sub(rb"(h5spec|wsi2h5) \d+\.\d+\.\d+", rb"\1", data)
    data = data.decode("utf-8", "surrogateescape").replace(base, "")
    if data.startswith("slide,input,"):
        data = repr([{k: v for k, v in row.items() if k not in VOLATILE} for row in csv.DictReader(io.StringIO(data))])
    for pattern, to in MASKS:
        data = pattern.sub(to, data)
    return data.encode("utf-8", "surrogateescape")


def produce(build):
    """Runs the rows; yields the name of a file and its digests by object, of each file and of what each row prints."""
    base = tmp("same")
    folders = {"in": inputs(os.path.join(base, "in"))}
    for line in ROWS.strip().splitlines():
        name, program, *options = line.split()
        folders[name] = folders["out"] = os.path.join(base, name)
        os.mkdir(folders[name])
        argv = [o.format(**folders) for o in options]
        p = run(os.path.join(build, program), *argv, status=None)
        out = b"".join(sorted(p.stdout.splitlines(True)) if p.stdout.startswith(b"{") else [p.stdout])  # slides come in any order
        yield name, {"": digest(b"%d\n" % p.returncode + masked(out, base) + masked(b"".join(sorted(p.stderr.splitlines(True))), base))}
        table = argv[argv.index("-o") + 1] if "-o" in argv else ""  # which lies beside the results of another row
        for path in sorted({*glob.glob(folders[name] + "/**", recursive=True), table}):
            data = bytes_in(path) if os.path.isfile(path) else b""
            if data:
                objects = digests(path) if data[:4] == b"\x89HDF" else {"": digest(masked(data, base))}
                yield path[len(base) + 1:], {**objects, **({"bytes": digest(data)} if program == "wsi2h5" else {})}


def libraries():
    """Their versions: with others, packed bytes and decoded JPEG 2000 can differ, and messages."""
    return [re.findall(r"HDF5 .*\d", run(p, "--version").out)[0] for p in (WSI2H5, H5SPEC)] + [zlib.ZLIB_RUNTIME_VERSION, *platform.libc_ver()]


def now():
    """Of each row: of each file of it, and of what it prints, one digest."""
    rows = {"libraries": libraries()}
    for name, by_object in produce(BUILD):
        row, _, file = name.partition("/")
        by_object.pop("bytes", None)
        rows.setdefault(row, {})[file] = digest(json.dumps(by_object, sort_keys=True).encode())
    return rows


def compared(rows, whole):
    """What is compared of these digests."""
    return {"%s/%s" % (row, file): d for row, files in rows.items() if row != "libraries" for file, d in files.items()
            if whole or (row in NUMBERS and file.removesuffix(".h5") in PLAIN)}


def test_outputs_are_the_recorded_ones():
    have, want = now(), json_in(RECORD)
    whole = have["libraries"] == want["libraries"]
    have, want = compared(have, whole), compared(want, whole)
    differ = [name for name in sorted(set(have) | set(want)) if have.get(name) != want.get(name)]
    expect(not differ, "%s differ; --against OTHER_BUILD names the objects", ", ".join(differ))


def against(other):
    ours, theirs = (dict(produce(build)) for build in (BUILD, other))
    different = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    for name in different:
        a, b = ours.get(name, {}), theirs.get(name, {})
        print("%s: %s" % (name, ", ".join(k or "text" for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k))))
    print("%d outputs, %d differ" % (len(ours), len(different)))
    return len(different) > 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        put_file(RECORD, "{\n" + ",\n".join("%s: %s" % (json.dumps(k), json.dumps(v)) for k, v in now().items()) + "\n}\n")
    elif sys.argv[1:2] == ["--against"]:
        sys.exit(against(os.path.abspath(sys.argv[2])))
    else:
        main(globals())
