"""The project itself: layers, options, builds without this and that, installation."""
import glob
import re

from lib import *


def sources(*patterns):
    return [f for p in patterns for f in sorted(glob.glob(os.path.join(ROOT, p)))]


def includes(path):
    with open(path) as f:
        return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', f.read(), re.M)


LAYERS = [  # folder, folders of ours that it may include
    ("common", ("common/",)), ("convert", ("common/", "convert/")), ("process", ("common/", "process/")),
    ("cuda", ("common/", "process/spectrum.h", "cuda/")),
]
ONLY = [  # header, the only files that may include it
    (r"hdf5\.h", r"common/h5\.h"), (r"common/h5(_file)?\.h", r"common/(h5|store|result)\w*\.[ch]"),
    (r"pthread\.h", r"common/pipe\.c"), (r"openslide.*", r"convert/slide_openslide\.c"),
    (r"tiffio\.h", r"convert/svs\.c"), (r"(jpeglib|openjpeg)\.h", r"convert/tile\.c"),
    (r"(libdeflate|zlib|lz4|zstd)\.h", r"common/codec\.c"), (r"fftw3\.h", r"tests/.*"),
    (r"cu.*\.h", r"cuda/.*"),
]


def test_layers():
    for folder, allowed in LAYERS:
        for path in sources(folder + "/*.[ch]", folder + "/*.cu*"):
            name = os.path.relpath(path, ROOT)
            for inc in includes(path):
                ours = "/" in inc and os.path.exists(os.path.join(ROOT, inc))
                expect(not ours or inc.startswith(allowed), "%s includes %s", name, inc)
                for header, files in ONLY:
                    if re.fullmatch(header, inc):
                        expect(re.fullmatch(files, name), "%s includes %s", name, inc)


def test_file_names_are_unique():
    names = [os.path.basename(f) for f in sources("common/*", "convert/*", "process/*", "cuda/*", "tests/*.c")]
    expect(len(names) == len(set(names)), "%s", sorted(n for n in names if names.count(n) > 1))


def slide():
    return made("--size", "600x900", name="options")


def grouped():
    return store(slide(), "--stripe-rows", "240", "--group-bytes", "1")


# every option of --help, with arguments that must work
WSI2H5_OPTIONS = {
    "--level": ["0"], "--gray": [], "--codec": ["none"], "--stripe-rows": ["500"], "--group-bytes": ["3M"],
    "--tissue-only": [], "--no-tissue": [], "--keep-identifiers": [], "--on-damage": ["fail"], "--threads": ["2"], "--force": [], "--json": [],
    "--progress": ["no"], "--quiet": [], "--task": ["1/1"], "--list": None, "--output": None, "--help": None, "--version": None,
}
RUN_OPTIONS = {
    "--device": ["cpu"], "--window": ["128"], "--stride": ["100"], "--sigma": ["0.5"], "--taper": ["hann"],
    "--bins": ["100"], "--range": ["0:100"], "--groups": ["1-2"],
    "--tissue-only": [], "--min-tissue": ["0.25"], "--threads": ["1"], "--memory": ["64M"], "--io": ["buffered"],
    "--json": [], "--progress": ["no"], "--quiet": [], "--task": ["1/1"], "--force": [],
}
OTHER_OPTIONS = {"--output", "--partial", "--histogram", "--csv", "--list", "--help", "--version"}


def options_of(program):
    p = run(program, "--help")
    expect(p.err == "" and len(max(p.out.splitlines(), key=len)) <= 100, "help")
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", p.out, re.M)) | set(re.findall(r"\[(--[a-z]+)", p.out))


def test_every_option_of_wsi2h5():
    expect(options_of(WSI2H5) == set(WSI2H5_OPTIONS), "%s", options_of(WSI2H5) ^ set(WSI2H5_OPTIONS))
    for option, arguments in WSI2H5_OPTIONS.items():
        if arguments is not None:
            out = tmp()
            run(WSI2H5, option, *arguments, "-o", out, slide())
            run(H5SPEC, "verify", os.path.join(out, "options.h5"))


def test_every_option_of_h5spec():
    expect(options_of(H5SPEC) == set(RUN_OPTIONS) | OTHER_OPTIONS, "%s",
           options_of(H5SPEC) ^ (set(RUN_OPTIONS) | OTHER_OPTIONS))
    for option, arguments in RUN_OPTIONS.items():
        out = os.path.join(tmp(), "r.h5")
        run(H5SPEC, option, *arguments, "-o", out, grouped())
        says(run(H5SPEC, "info", out).out, "windows")


def test_versions():
    says(run(WSI2H5, "--version").out, "wsi2h5 ", "HDF5 ", "OpenSlide ")
    says(run(H5SPEC, "--version").out, "h5spec ", "HDF5 ", "backends: cpu")
    version = run(WSI2H5, "--version").out.split()[1]
    says(open(os.path.join(ROOT, "CHANGELOG.md")).read(), "## " + version)


def test_data_and_talk_are_apart():
    p = run(H5SPEC, "--json", "-o", os.path.join(tmp(), "r.h5"), grouped())
    (j,) = json_lines(p.out)
    expect(j["status"] == "done" and j["backend"] == "cpu" and j["windows"] == 18, "%s", j)
    p = run(H5SPEC, "info", "--histogram", spectrum(grouped()))
    rows = [line.split("\t") for line in p.out.splitlines()]
    expect(rows[0] == ["low_db", "high_db", "count"] and len(rows) == 1601, "histogram")
    expect(sum(int(r[2]) for r in rows[1:]) == 18 * 65536, "counts")
    (j,) = json_lines(run(H5SPEC, "info", "--json", spectrum(grouped())).out)
    expect(j["slides"][0]["windows"] == j["windows"] == 18, "%s", j)


def test_a_full_stdout_is_an_error():
    with open("/dev/full", "w") as full:
        p = subprocess.run([H5SPEC, "info", grouped()], stdout=full, stderr=subprocess.PIPE)
    expect(p.returncode == 1, "status %d", p.returncode)
    with open("/dev/full", "w") as full:
        p = subprocess.run([WSI2H5, "--json", "-o", tmp(), slide()], stdout=full, stderr=subprocess.PIPE)
    expect(p.returncode == 1, "status %d", p.returncode)


def test_other_parts_make_everything_again():
    d = copy_of_the_tree()
    make("CUDA=0", cwd=d)
    make("CUDA=0", "LZ4=0", cwd=d)
    says(run(os.path.join(d, "build/h5spec"), "--version").out, "backends: cpu")
    lz4 = store(slide(), "--codec", "lz4")
    run(os.path.join(d, "build/h5spec"), "verify", lz4, status=1)
    make("CUDA=0", cwd=d)
    says(run(os.path.join(d, "build/h5spec"), "verify", lz4).out, "sound")


def copy_of_the_tree():
    d = os.path.join(tmp(), "tree")
    shutil.copytree(ROOT, d, ignore=shutil.ignore_patterns("build", "demo", ".git"))
    return d


def make(*words, cwd):
    if SAN:
        raise Skip("builds are tried without sanitizers")
    env = {k: v for k, v in os.environ.items() if k not in ("BUILD", "SAN", "MAKEFLAGS", "MAKELEVEL")}
    return run("make", "-j2", *words, cwd=cwd, env=env)


def test_without_anything_but_hdf5_and_zlib():
    d = copy_of_the_tree()
    p = make("OPENSLIDE=0", "LIBDEFLATE=0", "LZ4=0", "ZSTD=0", "CUDA=0", cwd=d)
    says(p.out, "wsi2h5 is left out", "no CUDA")
    h5spec = os.path.join(d, "build/h5spec")
    libraries = "".join(re.findall(r"NEEDED.*", run("readelf", "-d", h5spec).out))  # its own, not HDF5's
    expect(not re.search("openslide|tiff|jpeg|fftw|deflate|lz4|zstd|cuda", libraries), libraries)
    run(h5spec, "--device", "cpu", "-o", os.path.join(tmp(), "cpu.h5"), grouped())
    p = run(h5spec, "--device", "cuda", "-o", os.path.join(tmp(), "x.h5"), grouped(), status=1)
    says(p.err, "no CUDA backend")
    says(run(h5spec, "verify", grouped()).out, "sound")
    expect(not os.path.exists(os.path.join(d, "build/wsi2h5")), "wsi2h5 was built")


def test_zlib_instead_of_libdeflate():
    d = copy_of_the_tree()
    make("LIBDEFLATE=0", "CUDA=0", cwd=d)
    out = tmp()
    run(os.path.join(d, "build/wsi2h5"), "-o", out, slide())
    zlib_store = os.path.join(out, "options.h5")
    says(run(H5SPEC, "verify", zlib_store).out, "sound")
    says(run(os.path.join(d, "build/h5spec"), "verify", store(slide())).out, "sound")
    a, b = spectrum(zlib_store), spectrum(store(slide()))
    expect(run(H5SPEC, "info", "--histogram", a).out == run(H5SPEC, "info", "--histogram", b).out, "spectrum")


def test_install():
    if SAN:
        raise Skip("builds are tried without sanitizers")
    d = tmp()
    make("install", "DESTDIR=" + d, "PREFIX=/opt/x", cwd=ROOT)
    for name in ("wsi2h5", "h5spec"):
        run(os.path.join(d, "opt/x/bin", name), "--version")


main(globals())
