"""The project itself: layers, options, builds without this and that, installation."""

import h5py
import numpy as np

from lib import *

def sources(*patterns):
    return [f for p in patterns for f in sorted(glob.glob(os.path.join(ROOT, p)))]

def includes(path):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', text_in(path), re.M)

LAYERS = [  # folder, what of ours it may include
    ("common", ("common/",)),
    ("convert", ("common/", "convert/")),
    ("process", ("common/", "process/")),
    ("cuda", ("common/", "process/spectrum/spectrum.h", "process/spectrum/spectrum_open.h", "cuda/")),
]
ROOMS = {  # of each folder, in their order: a room includes itself and rooms to its left; the folder's own files all
    "common": "base codec hdf5 store result regions",
    "convert": "tile readers tissue privacy zarr",
    "convert/readers": "frame picture tiff dicom",
    "process": "draw spectrum engine options scores run commands report map plot",
    "process/report": "numbers verdict words page",
    "cuda": "jpeg",
}
APART = [  # rooms that know nothing of each other, beyond the order above
    ("common/store", "common/result"), ("common/result", "common/regions"), ("convert/tissue", "convert/privacy"),
    ("process/draw", "process/spectrum"),
] + [("process/" + a, "process/" + b) for a in ("run", "commands", "map", "plot", "report")
     for b in ("run", "commands", "map", "plot", "report") if a != b and {a, b} not in ({"map", "plot"}, {"map", "report"})]
ONLY = [  # header, the only files that may include it
    (r"(hdf5|H5PL\w*)\.h", r"common/(codec/h5(jpeg|j2k)\.c|hdf5/h5\w*\.[ch])"),
    (r"common/hdf5/(guard\w*|h5(_(attr|file|strips))?)\.h", r"common/(hdf5|store|result)/.*"),
    (r"pthread\.h", r"(common/(base/(pipe|publish)|hdf5/h5_library|regions/geojson)|process/engine/loop|convert/readers/(dicom/dicom_slide|picture/picture|tiff/tiff_segment))\.c"),
    (r"openslide.*", r"convert/readers/(slide_openslide|frame/slide_metadata)\.c"),
    (r"tiffio\.h", r"convert/tile/strip\.h|process/map/map_tiff\.c"),
    (r"png\.h", r"(process/draw/png_file|convert/readers/picture/png_input)\.[ch]"),
    (r"jansson\.h", r"common/regions/geojson\.c"),
    (r"expat\.h", r"convert/readers/tiff/tiff_xml\.c"),
    (r"j(peglib|error)\.h", r"common/codec/jpeg_((de|en)coder|rows)\.c"),
    (r"openjpeg\.h", r"common/codec/j2k\.c"),
    (r"(libdeflate|zlib|lz4|zstd)\w*\.h", r"common/codec/codec\w*\.c"),
    (r"fftw3\.h", r"tests/.*"),
    (r"cu.*\.h", r"cuda/.*"),
    (r"wsi_build\.h", r"(convert/arguments|process/(h5spec|options/options))\.c"),
]

def ours(*folders):
    """Every C and CUDA file below the folders, however deep, relative to the project."""
    return [os.path.relpath(f, ROOT) for d in folders for e in ("c", "h", "cu", "cuh")
            for f in sorted(glob.glob(os.path.join(ROOT, d, "**", "*." + e), recursive=True))]

def test_layers():
    for folder, allowed in LAYERS:
        for name in ours(folder):
            for inc in includes(os.path.join(ROOT, name)):
                own = "/" in inc and os.path.exists(os.path.join(ROOT, inc))
                expect(not own or inc.startswith(allowed), "%s includes %s", name, inc)
                for header, files in ONLY:
                    if re.fullmatch(header, inc):
                        expect(re.fullmatch(files, name), "%s includes %s", name, inc)

def test_rooms_include_one_another_in_one_direction():
    for folder, rooms in ROOMS.items():
        rooms, depth = rooms.split(), folder.count("/") + 1
        here = {name.split("/")[depth] for name in ours(folder) if name.count("/") > depth}
        expect(here == set(rooms), "%s has the rooms %s", folder, sorted(here))
        for name in ours(folder):
            room = os.path.dirname(name)
            for inc in includes(os.path.join(ROOT, name)):
                if room == folder or inc.count("/") <= depth or not inc.startswith(folder + "/"):
                    expect(room == folder or not re.match(folder + "/[^/]+$", inc), "%s includes %s", name, inc)
                    continue
                expect(rooms.index(inc.split("/")[depth]) <= rooms.index(room.split("/")[depth]), "%s includes %s", name, inc)
                pair = tuple("/".join(path.split("/")[:depth + 1]) for path in (name, inc))
                expect(pair not in APART and pair[::-1] not in APART, "%s includes %s", name, inc)

def test_the_manual_page_names_the_endings_of_the_formats():
    def listed(path, pattern):
        (text,) = re.findall(pattern, text_in(os.path.join(ROOT, path)), re.S)
        return set(re.findall(r"\.[a-z]+", text))

    ends = listed("convert/readers/slide.c", r"formats\[\] = \{(.*?)\n\};")
    expect({".svs", ".dcm", ".mrxs"} <= ends, "endings in slide.c: %s", ends)
    have = listed("convert/wsi2h5.1", r"searched for files that end in(.*?), in upper")
    expect(have == ends, "%s", have ^ ends)


def test_file_names_are_unique():
    names = [os.path.basename(f) for f in ours("common", "convert", "process", "cuda")]
    names += [os.path.basename(f) for f in sources("tests/*.c")]
    expect(len(names) == len(set(names)), "%s", sorted(n for n in names if names.count(n) > 1))

def no_offences(found):
    expect(not found, "%d places: %s", len(found), "; ".join(found[:20]))

# one thing per another: "a task a slide", "a line a bin"
PER = (r"\b(a|an|one|two|\d+) (byte|line|task|result|row|block|thread|lane|folder|store|ms|points?|window)s? (of \w+ )?"
       r"an? (slide|store|pixel|line|window|bin|task|file|chunk|thread|device|node|test|core|group|result)\b")
WORDS = [  # not in plain English (CONTRIBUTING.md); process/GUIDE.md has the words
    r"\b(is|are|was|were) told\b(?! (apart|from))", r"\btells? (what|which|how|it|them)\b",
    r"\bstands? (there|already|between|under)\b", r"\btalk\b", r"\bhalf believed\b", r"\b(left|leaves?) alone\b",
    r"\bwhat is there\b", r"\b(is|are|was|were) there already\b", r"\bcannot be had\b", r"\bover night\b",
    r"\bhas had it\b", r"\bhalf[- ]done\b", r"\bgiv(e|es|en|ing) back\b", PER,
]

def texts():
    """Name and lines of every file that people read."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [d for d in folders if d not in ("build", "demo", ".git", "__pycache__")]
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), ROOT)
            if path != "tests/check_project.py" and not name.endswith((".svg", ".png")):
                yield path, text_in(os.path.join(ROOT, path), "replace").splitlines()

def test_words():
    bad = re.compile("|".join("(?:%s)" % w for w in WORDS), re.I)
    no_offences(["%s:%d: %s" % (name, n, bad.search(line).group(0)) for name, lines in texts()
                 for n, line in enumerate(lines, 1) if bad.search(line)])

def test_readmes_are_short():
    counts = {}
    for name in ["README.md"] + [d + "/README.md" for d in ("common", "convert", "convert/readers", "cuda", "process", "scripts", "tests")]:
        counts[name] = len(text_in(os.path.join(ROOT, name)).split())
    expect(sum(counts.values()) <= 9000 and max(counts.values()) <= 1550 and counts["README.md"] <= 1100, "words: %s", counts)


def test_every_room_is_in_the_readme_of_its_folder():
    for folder, rooms in ROOMS.items():
        text = text_in(os.path.join(ROOT, folder, "README.md"))
        missing = [room for room in rooms.split() if not re.search(r"\b%s\b" % room, text)]
        expect(not missing, "%s/README.md does not name %s", folder, missing)

def test_every_target_is_described():
    targets = set(re.search(r"^\.PHONY: ((?:.*\\\n)*.*)", text_in(os.path.join(ROOT, "Makefile")), re.M).group(1).replace("\\\n", " ").split())
    listed = set(re.findall(r"^make ([a-z-]+)", run("make", "help", cwd=ROOT).out, re.M))
    internal = {"all", "h5spec", "wsi2h5", "needs", "programs-for-check", "programs-for-demo", "fuzz-targets", "help"}
    expect(targets - internal == listed | {t for t in targets if t.startswith("lint-")}, "%s", (targets - internal) ^ listed)

def test_tests_that_are_named_exist():
    named = re.findall(r"`([a-z]+)\.([a-z_0-9]+)`", text_in(os.path.join(ROOT, "tests/PROMISES.md")))
    there = {(os.path.basename(path)[len("check_"):-len(".py")], name) for path in sources("tests/check_*.py")
             for name in re.findall(r"^def test_(\w+)", open(path, encoding="utf-8").read(), re.M)}
    named = {(program, name) for program, name in named if program in {p for p, _ in there}}
    expect(len(named) > 30 and named <= there, "%s", sorted(named - there))

def test_releases_agree():
    """The version and its date are the same in every document."""
    def find(pattern, *path):
        m = re.search(pattern, text_in(os.path.join(ROOT, *path)), re.M)
        expect(m, "%s: no %s", path, pattern)
        return m.group(1)
    version = find(r'#define WSI_VERSION "(.*)"', "common/base", "version.h")
    date = find(r'#define WSI_DATE "(.*)"', "common/base", "version.h")
    expect(find(r"^## (.*)", "CHANGELOG.md") == "%s (%s)" % (version, date), "CHANGELOG.md")
    for program in (WSI2H5, H5SPEC):
        first = run(program, "--version").out.splitlines()[0]
        name = os.path.basename(program)
        expect(re.fullmatch(r"%s %s \(%s(, build \S+)?\)" % (name, re.escape(version), date), first), "%s", first)
    expect(find(r"^version: (.*)", "CITATION.cff") == version, "CITATION.cff")
    expect(find(r"^date-released: (.*)", "CITATION.cff") == date, "CITATION.cff")
    h5dump = run("h5dump", "-a", "/creator", store(slide())).out
    says(h5dump, '"wsi2h5 %s"' % version)

def slide():
    return made("--size", "600x900", name="options")

def grouped():
    return store(slide(), "--stripe-rows", "240", "--group-bytes", "1")

ROI = file_of("roi.geojson", '{"type": "Feature", "properties": {"classification": {"name": "A"}}, '
              '"geometry": {"type": "Polygon", "coordinates": [[[0, 0], [600, 0], [300, 900]]]}}')
# every option of --help, with arguments that must work
WSI2H5_OPTIONS = {
    "--level": ["0"], "--mpp": ["0.5"], "--mpp-override": ["0.5"], "--gray": [], "--codec": ["none"], "--strict-codec": ["--codec", "jpeg"], "--stripe-rows": ["500"], "--group-bytes": ["3M"],
    "--tissue-only": [], "--no-tissue": [], "--tissue-thresholds": ["0.5,0.1"], "--tissue-mask": [ROI], "--keep-identifiers": [], "--on-damage": ["fail"], "--threads": ["2"], "--force": [], "--json": [],
    "--progress": ["no"], "--quiet": [], "--task": ["1/1"], "--keep-tree": [], "--accept-damage": [], "--verbose": [],
    "--slides": ["1"], "--zarr": [],
    "--anonymous": None, "--key": None, "--print-inputs": None,  # check_inputs.py
    "--list": None, "--output": None, "--help": None, "--version": None,
}
RUN_OPTIONS = {
    "--mix-mpp": [],
    "--device": ["cpu"], "--window": ["128"], "--stride": ["100"], "--sigma": ["0.5"], "--taper": ["hann"],
    "--bins": ["100"], "--range": ["0:100"], "--groups": ["1-2"], "--tissue-only": [],
    "--skip-damaged": [], "--on-damage": ["fail"],
    "--roi": [ROI], "--roi-class": ["A", "--roi", ROI], "--min-roi": ["0.1", "--roi", ROI],
    "--min-tissue": ["0.25", "--tissue-only"], "--threads": ["1"], "--memory": ["64M"], "--io": ["buffered"],
    "--json": [], "--progress": ["no"], "--quiet": [], "--allow-duplicates": [],
    "--live": [os.path.join(TMP, "live")],
    "--accept-damage": [],
    "--by": ["group"], "--task": ["1/1"], "--force": [],  # these two need a folder
}
def options_of(*program):
    p = run(*program, "--help")
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
    expect(options_of(H5SPEC, "run") == {*RUN_OPTIONS, "--output", "--list", "--help", "--version"}, "%s", options_of(H5SPEC, "run") ^ set(RUN_OPTIONS))
    for option, arguments in RUN_OPTIONS.items():
        folder = tmp()
        out = os.path.join(folder, "options.h5")
        run(H5SPEC, option, *arguments, "-o", folder if option in ("--task", "--force") else out, grouped())
        says(run(H5SPEC, "info", *glob.glob(folder + "/*.h5")).out, "windows")
    for words in ("info --json", "info --csv", "info --histogram", "verify --quick", "verify --threads 2", "lookup --json", "tune --json"):
        expect(run(H5SPEC, *words.split(), spectrum(grouped()) if words.startswith("info") else grouped()).out, "%s prints nothing", words)

def test_versions():
    says(run(WSI2H5, "--version").out, "HDF5 ", "OpenSlide ", "Report bugs to")
    says(run(H5SPEC, "--version").out, "HDF5 ", "backends: cpu", "Report bugs to")

PAGES = {"convert/wsi2h5.1": WSI2H5, "process/h5spec.1": H5SPEC}

def commands_of_h5spec():
    return re.findall(r"^  ([a-z]+)  +[a-z]", run(H5SPEC, "--help").out, re.M)

def test_manual_pages_are_those_of_the_programs():
    """`make man` changes nothing: the pages hold every option, default and example of --help."""
    for name, program in PAGES.items():
        page = os.path.join(tmp(), os.path.basename(name))
        shutil.copy(os.path.join(ROOT, name), page)
        run(os.path.join(ROOT, "scripts/man-options"), program, page)
        expect(open(page).read() == open(os.path.join(ROOT, name)).read(), "%s: run make man", name)
    text = open(os.path.join(ROOT, "process/h5spec.1")).read()
    expect(re.findall(r"begin h5spec (\w+)", text) == commands_of_h5spec(), "the commands of the page")
    for page in map(open, (os.path.join(ROOT, name) for name in PAGES)):
        marks = re.findall(r'^\.\\" (begin|end)\b', page.read(), re.M)  # a missing end would swallow what follows
        expect(marks == ["begin", "end"] * (len(marks) // 2), "%s: %s", page.name, marks)
    says(text, *(".SH " + heading for heading in ("EXIT STATUS", "FILES", "ENVIRONMENT", "EXAMPLES", "SEE ALSO")))

def test_manual_pages_say_what_can_still_identify_someone():
    for name in PAGES:
        text = " ".join(open(os.path.join(ROOT, name)).read().split())
        section = text.split(".SH IDENTIFYING DATA")[-1].split(".SH ")[0] if ".SH IDENTIFYING DATA" in text else ""
        says(section, "What can still identify someone", "base name", "anonymous", "hash and size", "scanning parameters", "tissue",
             "written on the glass", "thumbnail")

def test_manual_pages_say_nothing_else():
    """What is written by hand names only options, commands and a version that exist."""
    version = run(H5SPEC, "--version").out.split()[1]
    for name, program in PAGES.items():
        text = open(os.path.join(ROOT, name)).read()
        says(text, '%s"' % version)
        by_hand = re.sub(r'\.\\" begin .*?\.\\" end', "", text, flags=re.S).replace("\\-", "-")
        known = set().union(*(options_of(H5SPEC, c) for c in commands_of_h5spec())) | options_of(WSI2H5)
        used = set(re.findall(r"--[a-z][a-z-]+", by_hand))
        expect(used <= known, "%s: %s", name, used - known)
        if shutil.which("groff"):
            lint = run("groff", "-man", "-Tutf8", "-ww", "-z", os.path.join(ROOT, name)).err
            expect(lint == "", "%s", lint)
        if shutil.which("mandoc"):
            expect(run("mandoc", "-T", "lint", os.path.join(ROOT, name)).out == "", "mandoc -T lint %s", name)


def completed_each(*lines):
    """What bash offers for the last word of each line, a program and its words."""
    script = """
. "$1"; shift
while (($#)); do
    COMP_WORDS=("${@:2:$1}") COMP_CWORD=$(($1 - 1)); shift $(($1 + 1))
    $(complete -p "${COMP_WORDS[0]##*/}" | sed 's/.*-F \\([^ ]*\\).*/\\1/')
    echo "${COMPREPLY[@]}"
done
"""
    folder = tmp()
    open(os.path.join(folder, "a-file"), "w").close()
    counted = [w for line in lines for w in (len(line), *line)]
    out = run("bash", "-c", script, "bash", os.path.join(ROOT, "scripts/completion/tools.bash"), *counted, cwd=folder).out
    return [line.split() for line in out.splitlines()]


def completed(*line):
    return completed_each(line)[0]

def test_completion_of_bash():
    if not shutil.which("bash"):
        raise Skip("bash is not installed")
    expect(set(completed(WSI2H5, "-")) == options_of(WSI2H5), "%s", completed(WSI2H5, "-"))
    expect(completed(H5SPEC, "") == ["help"] + commands_of_h5spec() + ["a-file"], "%s", completed(H5SPEC, ""))
    expect(completed(H5SPEC, "me") == ["merge"], "merge")
    for command in commands_of_h5spec():
        have = set(completed(H5SPEC, command, "-"))
        expect(have == options_of(H5SPEC, command), "%s: %s", command, have ^ options_of(H5SPEC, command))
    expect(completed(H5SPEC, "-") == completed(H5SPEC, "run", "-"), "run may be left out")

ZSH = """
_call_program() { shift; $=* }
_files() { : }
_describe() { print -l -- ${subcommands%%:*} }
_arguments() { shift; print -rl -- "$@" }
words=("$@") CURRENT=$#
"""

def test_completion_of_zsh():
    """With what zsh provides replaced by functions that print what they are given."""
    if not shutil.which("zsh"):
        raise Skip("zsh is not installed")
    def offered(program, *words):
        path = os.path.join(ROOT, "scripts/completion/_wsi2h5")
        rows = run("zsh", "-f", "-c", ZSH + '. "%s"' % path, "zsh", program, *words).out.splitlines()
        return {w.split(":")[0]: w.split(":")[-1] for w in rows if re.match("--|[a-z]", w)}
    expect(set(offered(WSI2H5, "-")) == options_of(WSI2H5), "%s", offered(WSI2H5, "-"))
    expect(set(offered(H5SPEC, "")) == set(commands_of_h5spec()), "%s", offered(H5SPEC, ""))
    for command in commands_of_h5spec():
        have = set(offered(H5SPEC, command, "-"))
        expect(have == options_of(H5SPEC, command), "%s: %s", command, have)
    actions = offered(H5SPEC, "-")
    want = {"--io": "(auto direct buffered gds)", "--device": "(auto cpu cuda)", "--task": "(auto)", "--roi": "_files",
            "--output": "_files", "--bins": " ", "--json": "--json"}
    expect({k: actions[k] for k in want} == want, "%s", actions)


def arguments_of(*program):
    """Pairs of an option and its argument in the help."""
    return re.findall(r"^  (?:-., |    )(--[a-z0-9-]+) (\S+)", run(*program, "--help").out, re.M)


def test_arguments_are_completed_as_the_help_states_them():
    """Words to be typed, files, or nothing; one option for each argument."""
    kinds = {argument: (program, option, argument) for program in [(H5SPEC, c) for c in commands_of_h5spec()] + [(WSI2H5,)]
             for option, argument in arguments_of(*program)}
    rows = list(kinds.values())
    for (program, option, argument), have in zip(rows, completed_each(*((*p, o, "") for p, o, _ in rows))):
        words = [w for w in re.split(r"\[|,", argument)[0].split("|") if w[0].islower()] if "|" in argument else []
        is_path = argument == "DIR" or argument.startswith("FILE") or option == "--output"
        expect(have == (words or ["a-file"] * is_path), "%s %s %s: %s", program, option, argument, have)
    for option in ("-o", "--output"):
        expect(completed(H5SPEC, option, "") == completed(H5SPEC, "run", option, "") == ["a-file"], "files after %s", option)
    expect(completed(WSI2H5, "-j", "") == completed(H5SPEC, "run", "-j", "") == [], "-j")
    says(" ".join(completed(WSI2H5, "--codec", "")), "deflate", "none")


@later("ci")
def test_words_of_the_help_are_accepted():
    def accepted(program, tail):
        for option, argument in arguments_of(*program):
            for value in completed(*program, option, "") if "|" in argument else ():
                if option != "--task" and value not in ("cuda", "gds"):  # an array job; a GPU
                    run(*program, option, value, *tail())
    accepted((WSI2H5,), lambda: ("-o", os.path.join(tmp(), "options.h5"), slide()))
    accepted((H5SPEC, "run"), lambda: ("-o", os.path.join(tmp(), "options.h5"), grouped()))
    accepted((H5SPEC, "verify"), lambda: (grouped(),))
    accepted((H5SPEC, "map"), lambda: ("-o", tmp(), spectrum(grouped())))
    accepted((H5SPEC, "plot", "--map"), lambda: ("-o", os.path.join(tmp(), "options.svg"), spectrum(grouped())))
    accepted((H5SPEC, "report"), lambda: ("-o", os.path.join(tmp(), "options.html"), spectrum(grouped())))

def make(*words, cwd, status=0, env={}):
    if SAN:
        raise Skip("builds are tried without sanitizers")
    inherited = {k: v for k, v in os.environ.items() if k not in ("BUILD", "SAN", "MAKEFLAGS", "MAKELEVEL")}
    if cwd != ROOT:
        words = ("CFLAGS=-O0", *words)  # compiles in a third of the time
    return run("make", "--no-print-directory", "-j2", *words, cwd=cwd, env={**inherited, **env}, status=status, timeout=900)

@later("ci")
def test_without_anything_but_hdf5_and_zlib():
    d = copy_of_the_tree()
    without = ("OPENSLIDE=0", "LIBDEFLATE=0", "LZ4=0", "ZSTD=0", "CUDA=0", "JANSSON=0")
    make(*without, "wsi2h5", cwd=d)
    make(*without, "JPEG=0", "J2K=0", "PNG=0", "h5spec", cwd=d)
    h5spec = os.path.join(d, "build/h5spec")
    libraries = "".join(re.findall(r"NEEDED.*", run("readelf", "-d", h5spec).out))  # its own, not HDF5's
    expect(not re.search("openslide|tiff|png|jpeg|openjp|fftw|deflate|lz4|zstd|cuda|jansson", libraries), libraries)
    run(h5spec, "--device", "cpu", "-o", os.path.join(tmp(), "cpu.h5"), grouped())
    p = run(h5spec, "--device", "cuda", "-o", os.path.join(tmp(), "x.h5"), grouped(), status=1)
    says(p.err, "no CUDA backend")
    says(run(h5spec, "verify", grouped()).out, "valid")
    says(run(h5spec, "map", "-o", tmp(), grouped(), status=2).err, "map is not part of this build", "libpng")
    jpeg = store(slide(), "--codec", "jpeg")
    for argv in (("run", "--device", "cpu", "-o", os.path.join(tmp(), "x.h5")), ("verify",)):
        says(run(h5spec, *argv, jpeg, status=1).err, jpeg, "codec jpeg cannot be unpacked", "libjpeg")
    j2k = store(made("--size", "300x300", "--compression", "33005"), "--codec", "j2k")
    says(run(h5spec, "verify", j2k, status=1).err, j2k, "codec j2k cannot be unpacked", "OpenJPEG")
    says(run(h5spec, "verify", "--quick", jpeg).out, "valid")
    says(run(h5spec, "info", jpeg).out, "codec      jpeg")
    says(run(h5spec, "--roi", ROI, "-o", os.path.join(tmp(), "x.h5"), grouped(), status=2).err, "cannot read GeoJSON", "libjansson-dev")
    wsi2h5 = os.path.join(d, "build/wsi2h5")
    says(run(wsi2h5, "--tissue-mask", ROI, "-o", tmp(), slide(), status=1).err, ROI, "cannot read GeoJSON", "libjansson-dev")
    expect("openslide" not in run("readelf", "-d", wsi2h5).out, "wsi2h5 needs OpenSlide")
    check_svs_without_openslide(wsi2h5)

def check_svs_without_openslide(wsi2h5):
    slide = made("--size", "1500x1100", "--levels", "2", "--icc", "fake:200", "--mpp", "0.25")
    out = os.path.join(tmp(), "s.h5")
    run(wsi2h5, "-o", out, slide)
    with h5py.File(out, "r") as f, h5py.File(store(slide), "r") as g:
        for name in ("pixels", "tissue/mask", "associated/thumbnail", "icc_profile"):
            expect((f[name][()] == g[name][()]).all(), "%s differs", name)
        expect(f.attrs["mpp_x"] == g.attrs["mpp_x"] == 0.25, "mpp_x")
    says(run(wsi2h5, "--version").out, "no OpenSlide")
    says(run(WSI2H5, "-o", out, slide).err, "1 skipped (up to date)")  # stores of both builds go together
    if importlib.util.find_spec("PIL"):
        from miraxfile import mirax  # only OpenSlide reads it
        other = mirax(os.path.join(tmp(), "mirax"), 1, 1, {(0, 0): np.full((256, 256, 3), 200, np.uint8)})
        says(run(wsi2h5, "-o", tmp(), other, status=1).err, other, "not a slide that this build reads", "build wsi2h5 with OpenSlide")

@later("ci")
def test_zlib_instead_of_libdeflate_and_no_libtiff_in_h5spec():
    d = copy_of_the_tree()
    make("LIBDEFLATE=0", "TIFF=0", "CUDA=0", cwd=d)
    out = tmp()
    run(os.path.join(d, "build/wsi2h5"), "-o", out, slide())
    zlib_store = os.path.join(out, "options.h5")
    says(run(H5SPEC, "verify", zlib_store).out, "valid")
    says(run(os.path.join(d, "build/h5spec"), "verify", store(slide())).out, "valid")
    a, b = spectrum(zlib_store), spectrum(store(slide()))
    expect(run(H5SPEC, "info", "--histogram", a).out == run(H5SPEC, "info", "--histogram", b).out, "spectrum")
    if "map" in commands_of_h5spec():
        h5spec, maps = os.path.join(d, "build/h5spec"), tmp()
        expect("libtiff" not in run("readelf", "-d", h5spec).out, "h5spec needs libtiff")
        for argv in (("--format", "tiff", "-o", maps), ("-o", os.path.join(maps, "a.ome.tif"))):
            says(run(h5spec, "map", *argv, a, status=2).err, "cannot write OME-TIFF")
        run(h5spec, "map", "--format", "all", "-o", maps, a)
        expect({f.split(".")[-1] for f in os.listdir(maps)} == {"png", "geojson", "csv"}, "%s", os.listdir(maps))

def compiler_without(header):
    """A compiler that does not find the header."""
    path = file_of("cc", """#!/bin/sh
text=$(cat)
case $text in *'<%s>'*) echo 'fatal error: no such file' >&2; exit 1 ;; esac
printf '%%s\\n' "$text" | cc "$@"
""" % header)
    os.chmod(path, 0o755)
    return path

def test_missing_parts_are_named():
    """One line with the remedy, instead of a compiler error."""
    b = tmp()
    for words, missing in ((["CC=no-such-compiler"], "no usable C compiler"),
                           (["CC=" + compiler_without("stdint.h")], "libc6-dev"),
                           (["CC=" + compiler_without("hdf5.h")], "HDF5 is missing: run scripts/install-deps"),
                           (["CC=" + compiler_without("zlib.h"), "LIBDEFLATE=0"], "zlib is missing: run scripts/install-deps")):
        p = make(*words, "B=" + b, "needs", cwd=ROOT, status=2)
        says(p.err, missing)
        expect(len(p.err.splitlines()) == 1, "%s", p.err)
    expect(make("B=" + b, "needs", cwd=ROOT).out == "", "silent")
    p = make("B=" + b, "CUDA=1", "needs", cwd=ROOT, status=2, env=with_tools(nvcc="echo no cc1plus >&2; exit 1\n"))
    says(p.err, "nvcc does not work (", "it needs g++: run scripts/install-deps, or set CUDA=0")
    make("CC=" + compiler_without("zlib.h"), "LIBDEFLATE=1", "B=" + b, "needs", cwd=ROOT)

@later("ci")
def test_libraries_are_found():
    """What is built follows from what pkg-config finds; what was left out on purpose is no news."""
    b = tmp()
    env = {"PKG_CONFIG_LIBDIR": b, "WERROR": "0"}
    lines = make("B=" + b, "-n", "V=1", "h5spec", cwd=ROOT, env=env).out
    libraries = ("LIBDEFLATE", "LZ4", "ZSTD", "JANSSON")
    expect(not any("-DHAVE_" + library in lines for library in libraries), "%s", lines)
    says(make("B=" + b, "-n", "V=1", *(library + "=1" for library in libraries), "h5spec", cwd=ROOT, env=env).out, *("-DHAVE_" + l for l in libraries))
    expect("-lz" in lines, "zlib is linked without libdeflate")
    expect("wsi2h5 reads" not in make("B=" + b, "-n", "OPENSLIDE=0", "CUDA=0", cwd=ROOT).out, "no news")
    says(make("B=" + b, "-n", cwd=ROOT, env=env).out, "wsi2h5 is not built", "echo 'no GeoJSON")
    expect("echo 'no GeoJSON" not in make("B=" + b, "-n", "JANSSON=0", cwd=ROOT).out, "no news")
    expect("-Werror" not in lines, "warnings are no errors")
    says(make("B=" + b, "-n", "V=1", "WERROR=1", "h5spec", cwd=ROOT).out, "-Werror")

def with_tools(**scripts):
    """PATH with programs of these texts, or links to these files, in front."""
    d = tmp("tools")
    for name, text in scripts.items():
        if os.path.isabs(text):
            os.symlink(text, os.path.join(d, name))
        else:
            os.chmod(put_file(os.path.join(d, name.replace("_", "-")), "#!/bin/sh\n" + text), 0o755)
    return {"PATH": d + ":" + os.environ["PATH"]}


def nvcc():
    found = shutil.which("nvcc")
    if not found:
        raise Skip("needs nvcc")
    return os.path.realpath(found)


def test_headers_of_cuda_come_from_where_nvcc_is():
    """Also when nvcc is a link from elsewhere, or outside PATH where the toolkit usually is. tests/releases compiles where no
    other folder has them."""
    usual = [{"PATH": "/usr/bin:/bin"}] if os.path.realpath("/usr/local/cuda/bin/nvcc") == nvcc() else []
    for env in [{}, with_tools(nvcc=nvcc())] + usual:
        lines = make("B=" + tmp(), "-n", "V=1", "CUDA=1", "ARCH=sm_90", "h5spec", cwd=ROOT, env=env).out
        ours = re.findall(r"^.* -c -o \S+ cuda/\S+\.c$", lines, re.M)
        expect(len(ours) == len(glob.glob(ROOT + "/cuda/**/*.c", recursive=True)), "%s", ours)
        for line in ours:
            folder = re.search(r"-isystem (\S+)", line)
            expect(folder and os.path.exists(folder.group(1) + "/cuda_runtime.h"), "%s", line)
        expect(all(line.split()[0] == nvcc() for line in re.findall(r"^(?:mkdir.*&&)?(\S*nvcc .*\.cu)$", lines, re.M)), "%s", lines)
    lines = make("B=" + tmp(), "-n", "V=1", "CUDA=1", "ARCH=sm_90", "stub", cwd=ROOT, env=env).out.replace("\\\n", "")
    stub = re.findall(r"^.* -c -o \S+/tests/(?:stub\w*|gds)\.o \S+\.c$", lines, re.M)
    expect(len(stub) > 1, "%s", stub)
    for line in stub:  # a toolkit with cuFile declares other names than the stub
        expect(re.search(r"-isystem (\S+)", line).group(1) == "tests/stub_include", "%s", line)


@later("ci")
def test_kernels_are_for_the_gpus_here():
    """Unless ARCH names others; without a GPU for all, and a line says so. Versions name them."""
    nvcc()
    here, none = "echo 9.0; echo 8.0; echo 9.0", "echo 'No devices were found'; exit 6"
    for smi, words, want, said in ((here, (), {"sm_80", "sm_90"}, "for sm_80 sm_90 takes minutes"), (here, ("ARCH=sm_86",), {"sm_86"}, "minutes"),
                                   (here, ("ARCH=all",), {"sm_80", "sm_86", "sm_89", "sm_90", "compute_90"}, "minutes"),
                                   (here, ("wheel",), {"sm_80", "sm_86", "sm_89", "sm_90", "compute_90"}, "minutes"),
                                   ("echo 7.0", (), {"compute_90"}, "minutes"),
                                   (none, (), {"sm_80", "sm_86", "sm_89", "sm_90", "compute_90"}, "nvidia-smi shows no GPU here")):
        b = tmp()
        lines = make("B=" + b, "-n", "CUDA=1", *words, b + "/kernels", cwd=ROOT, env=with_tools(nvidia_smi=smi)).out
        have = set(re.findall(r",code=(\S+)", text_in(b + "/config")))
        expect(have - {"sm_100", "sm_120"} == want, "%s %s: %s", smi, words, have)
        says(lines, said)
        says(text_in(b + "/wsi_build.h"), "sm_" if want != {"compute_90"} else "compute_90")


@later("ci")
def test_short_lines_and_the_build_of_version():
    d = copy_of_the_tree()
    quiet = make("CUDA=0", "h5spec", cwd=d).out.splitlines()
    expect(all(re.fullmatch(r"(CC|LD|GEN) \S+", line) for line in quiet), "%s", quiet)
    version = lambda: run(os.path.join(d, "build/h5spec"), "--version").out.splitlines()[0]
    expect("build" not in version(), "%s", version())
    run("git", "init", "-q", cwd=d)
    run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "1", cwd=d)
    again = make("CUDA=0", "h5spec", cwd=d).out.splitlines()
    expect(1 < len(again) <= 3, "only what prints the commit is built again: %s", again)
    head = run("git", "describe", "--always", cwd=d).out.strip()
    says(version(), ", build " + head)
    for goal in ("help",) + (("lint-man",) if shutil.which("groff") else ()):  # without CUDA=0, and yet not another configuration
        make(goal, cwd=d)
    expect(make("CUDA=0", "h5spec", cwd=d).out == "", "nothing is built again")
    other = make("CUDA=0", "LZ4=0", "-n", "h5spec", cwd=d).out
    expect(other.count("CC ") == len([line for line in quiet if line.startswith("CC ")]), "other parts make everything again: %s", other)

def test_install_deps():
    """What is missing is listed; nothing is printed when nothing is. No package is installed here."""
    script = os.path.join(ROOT, "scripts/install-deps")
    says(run(script, "--help").out, "Usage:", "--tests")
    says(run(script, "--test", status=2).err, "--test", "--help")
    d = tmp()
    for tool in ("sh", "cat", "awk", "sed", "id", "env", "printf"):
        if shutil.which(tool):
            os.symlink(shutil.which(tool), os.path.join(d, tool))

    def stub(name, text):
        put_file(os.path.join(d, name), "#!/bin/sh\n" + text)
        os.chmod(os.path.join(d, name), 0o755)
    env = {"PATH": d, "INSTALL_DEPS": "no"}
    stub("pkg-config", "exit 1\n")
    says(run(script, env=env, status=1).err, "LZ4 (liblz4)", "OpenSlide (openslide)", "package manager")
    stub("apt-get", "exit 1\n")
    stub("dpkg-query", "echo installed pkgconf; echo installed zlib1g-dev\n")
    err = run(script, env=env, status=1).err
    says(err, "missing: make gcc libc6-dev libhdf5-dev ", "libopenslide-dev")
    expect("pkg-config" not in err and "zlib1g-dev" not in err, "pkgconf serves as pkg-config: %s", err)
    stub("dpkg-query", 'shift 2; for p; do echo "installed $p"; done\n')
    p = run(script, "--bench", env=env)
    expect(p.out + p.err == "", "%s", p.out + p.err)
    stub("dpkg-query", 'shift 2; for p; do [ $p = groff ] || echo "installed $p"; done\n')
    p = run(script, "--tests", env=env)  # what is optional is no reason to fail
    expect(p.out + p.err == "", "%s", p.out + p.err)
    stub("dpkg-query", 'shift 2; for p; do [ $p = python3 ] || echo "installed $p"; done\n')
    says(run(script, env=env, status=1).err, "missing: python3\n")  # wsi-corpus and others need it

def test_what_will_be_installed_is_said_and_asked_once():
    """On a terminal and with --ask; Enter goes on, n leaves it out. Elsewhere nobody is asked."""
    d, script = tmp(), os.path.join(ROOT, "scripts/install-deps")
    for tool in ("sh", "cat", "awk", "sed", "env", "printf", "mktemp", "rm", "tail"):
        os.symlink(shutil.which(tool), os.path.join(d, tool))
    # a third package was downloaded before
    apt = """case $* in
*-s*install*) printf "Inst a (1 d)\nInst b (1 d)\nInst c (1 d)\nConf a (1 d)\n" ;;
*--print-uris*) printf "'http://d/a.deb' a.deb 100000000 SHA256:1\n'http://d/b.deb' b.deb 64000000 SHA256:2\n" ;;
*) echo "$*" >>%s/log ;;
esac
""" % d
    for name, text in (("id", "echo 0\n"), ("apt-get", apt), ("dpkg-query", "exit 1\n"), ("apt-cache", "exit 1\n")):
        os.chmod(put_file(os.path.join(d, name), "#!/bin/sh\n" + text), 0o755)
    for words, answer, asked, status in (([], None, False, 0), (["--ask"], None, False, 0), ([], "n", False, 0), (["--ask"], "", True, 0),
                                         (["--ask"], "n", True, 1)):
        put_file(d + "/log", "")
        ours, theirs = terminal() if answer is not None else (None, subprocess.DEVNULL)
        p = subprocess.Popen([script, *words], stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs if ours else subprocess.PIPE, env={"PATH": d})
        text = ""
        if ours:
            os.close(theirs)
            os.write(ours, (answer + "\n").encode())
            p.wait(timeout=60)
            text = os.read(ours, 65536).decode()
            os.close(ours)
        else:
            text = p.communicate(timeout=60)[1].decode()
        says(text, "installing 3 packages with apt-get, 164 MB to download, 1 to 3 minutes")
        expect(("Enter goes on" in text) == asked and p.returncode == status, "%s %s: %d, %s", words, answer, p.returncode, text)
        expect(("install -y" in text_in(d + "/log")) == (status == 0), "%s %s: %s", words, answer, text_in(d + "/log"))


def test_what_keeps_tests_from_running_is_said_at_once():
    absent = os.path.relpath(tmp(), ROOT)
    for env, name, want in ((dict(BUILD=absent), "test_layers", absent + "/wsi2h5, %s/h5spec, %s/tests/mkslide: not built; make programs-for-check builds it" % (absent, absent)),
                            ({}, "test_nothing_of_this_name", "test_nothing_of_this_name: no such test in tests/check_wrong.py")):
        p = run(sys.executable, "tests/check_wrong.py", name, cwd=ROOT, status=1, env=dict(os.environ, **env))
        expect(p.out == "not ok %s\n" % want, "%s", p.out)
    one = run("tests/check", "check_wrong.py:test_nothing_of_this_name", cwd=ROOT, status=1)
    expect("1 failed" in one.out and "no such test" in one.out, "%s", one.out)


def test_demo_without_root():
    """Two lines: what an administrator installs, and how to go on without one."""
    d = tmp()
    for tool in ("sh", "cat", "awk", "sed", "printf", "dirname"):
        os.symlink(shutil.which(tool), os.path.join(d, tool))
    for name, text in (("id", "echo 1000"), ("apt-get", "exit 1"), ("dpkg-query", "exit 1")):
        put_file(os.path.join(d, name), "#!/bin/sh\n%s\n" % text)
        os.chmod(os.path.join(d, name), 0o755)
    err = run(os.path.join(ROOT, "scripts/demo"), cwd=d, env={"PATH": d}, status=1).err.splitlines()
    expect(len(err) == 3, "%s", err)
    says(err[1], "administrator", "apt-get install -y --no-install-recommends make gcc libc6-dev ", " zlib1g-dev")
    says(err[2], "without root", "scripts/README.md")

def demo(*argv):
    """Runs scripts/demo on the programs of this build. Returns its folder and what it printed."""
    d = tmp("demo")
    shutil.copytree(os.path.join(ROOT, "scripts"), os.path.join(d, "scripts"))
    os.symlink(BUILD, os.path.join(d, "build"))
    p = run(os.path.join(d, "scripts/demo"), *argv, env=dict(os.environ, MAKE="true", BUILD="build"), cwd=d)
    return os.path.join(d, "demo"), p

def test_the_page_of_the_demo_is_right():
    """Two of its dozen slides are blurred; the page says so in its first line, and of no other slide anything."""
    if "report" not in run(H5SPEC, "--help").out:
        raise Skip("h5spec is built without libpng")
    own = made("--size", "900x700", name="own")
    d, p = demo(own)
    says(p.err, "10 pass, 1 not judged, 2 for review, 0 fail")
    first = re.search(r'<p id="headline">(.*?)</p>', text_in(os.path.join(d, "report.html")), re.S).group(1)
    expect(re.sub(r"<[^>]*>", "", first).split("See")[0].strip() == "2 of 13 slides are blurred.", "%s", first)
    with h5py.File(os.path.join(d, "corpus.h5")) as f:
        expect(len(f["slides"]) == 12, "%s", sorted(f["slides"]))
    for line in p.out.split("The files:\n")[1].split("\n\n")[0].splitlines():
        expect(os.path.exists(os.path.join(os.path.dirname(d), line.split()[-1])), "%s", line)

def test_the_demo_compiles_for_a_gpu_only_where_one_is():
    """Kernels take minutes to compile. CUDA in the environment, or a build that has the backend, decides otherwise."""
    make = "echo make: $*; exit 9\n"
    said = "nvcc is installed, but no GPU is here: this builds for CPUs only, make also for GPUs\n"
    for tools, settings, words, text in (({"nvidia_smi": "exit 9\n"}, {}, " CUDA=0", ""),
                                         ({"nvidia_smi": "exit 9\n", "nvcc": "true\n"}, {}, " CUDA=0", said),
                                         ({"nvidia_smi": "true\n", "nvcc": "true\n"}, {}, "", ""),
                                         ({"nvidia_smi": "exit 9\n", "nvcc": "true\n"}, {"CUDA": "1"}, "", ""),
                                         ({"nvidia_smi": "exit 9\n", "built/h5spec": "echo backends: cpu, cuda\n"}, {"BUILD": "built"}, "", "")):
        d = tmp("demo")
        shutil.copytree(os.path.join(ROOT, "scripts"), os.path.join(d, "scripts"))
        put_file(d + "/scripts/install-deps", "#!/bin/sh\n")
        os.mkdir(d + "/built")
        for name, script in {**tools, "make": make}.items():
            os.chmod(put_file(os.path.join(d, name.replace("_", "-")), "#!/bin/sh\n" + script), 0o755)
        env = {**os.environ, "PATH": d + ":/usr/bin:/bin", "MAKE": d + "/make", "BUILD": "build", "CUDA": "", **settings}
        out = run(d + "/scripts/demo", cwd=d, env=env, status=9).out
        expect(out == "%smake: --no-print-directory B=%s%s programs-for-demo\n" % (text, env["BUILD"], words), "%s %s: %s", tools, settings, out)


def first_columns(text):
    return " ".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| "))

def test_the_guide_explains_what_a_page_shows():
    """Every number of the page and of --csv has a row in process/GUIDE.md, and so have the words of measures."""
    if "report" not in run(H5SPEC, "--help").out:
        raise Skip("h5spec is built without libpng")
    result = spectrum(store(made("--size", "900x700", name="own")))
    page, table = result + ".words.html", result + ".words.csv"
    run(H5SPEC, "report", "-q", "--csv", table, "-o", page, result)
    text = text_in(os.path.join(ROOT, "process/GUIDE.md"))
    words, rows = first_columns(text), [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    numbers = [n for n in csv_rows(table)[0] if re.search("_(db|p50|share|std|range|lines|gray|density|hue|low|high|quality|twice)$|^(slope|seams|tissue_f)", n) and n[:2] != "z_"]
    shown = json.loads("{" + re.search(r'"metrics":\[.*?\]', text_in(page), re.S).group(0) + "}")["metrics"]
    expect(len(numbers) > 20 and len(shown) > 10, "%d, %d", len(numbers), len(shown))
    lacks = [n for n in numbers if "`%s`" % n not in words]
    lacks += [m["title"] for m in shown if not any("`%s`" % m["name"] in row[1] and m["title"] in row[2] for row in rows)]
    lacks += [w for w in ("dB", "z", "MAD", "W1", "sharpness", "focus_db", "sharp_db", "fine_db", "level_db", "window", "glass", "comparison group",
                          "median", "levels", "review", "not judged") if not re.search(r"\b%s\b" % w, words)]
    expect(not lacks, "%s", lacks)

def files_below(folder):
    return sorted(os.path.relpath(os.path.join(d, n), folder) for d, dirs, names in os.walk(folder)
                  for n in names + [x for x in dirs if os.path.islink(os.path.join(d, x))])

@later("ci")
def test_pictures_of_the_user_are_not_installed():
    d = copy_of_the_tree()
    os.mkdir(os.path.join(d, "demo"))
    for name in ("demo/private.svg", "demo/private.png", "demo/README.md", "private.md"):
        put_file(os.path.join(d, name), "")
    lines = make("-n", "install", "CUDA=0", cwd=d).out
    says(lines, "doc/wsi2h5/process/example.svg=", "doc/wsi2h5/README.md=")
    expect("private" not in lines and "demo/" not in lines, "%s", re.findall(r"\S*(?:private|demo/)\S*", lines))

def test_install_and_uninstall():
    d = os.path.join(tmp(), "a folder")
    words = same_build() + ["DESTDIR=" + d, "PREFIX=/opt/x y"]
    make("install", *words, cwd=ROOT)
    prefix = os.path.join(d, "opt/x y")
    for name in ("wsi2h5", "h5spec"):
        run(os.path.join(prefix, "bin", name), "--version")
    env = {"PATH": os.path.join(prefix, "bin") + ":" + os.environ["PATH"]}
    for name in ("wsi-corpus", "wsi-plan"):
        says(run(os.path.join(prefix, "bin", name), "--help", env={**os.environ, **env}).out.lower(), "usage")
    for name in ("bin/wsi-corpus", "share/wsi2h5/corpus"):  # with the installed programs, which are not in PATH
        out = os.path.join(tmp(), "corpus")
        run(os.path.join(prefix, name), "run", "--scheduler", "local", "-o", out, slide(), timeout=300)
        programs = json.load(open(out + "/corpus.json"))["run"]["programs"]
        expect(os.path.realpath(programs["H5SPEC"]) == os.path.realpath(prefix + "/bin/h5spec"), "%s", programs)
    says(run(os.path.join(prefix, "bin/h5spec"), "info", os.path.join(out, "corpus.h5")).out, "complete")
    says(run("man", "-l", os.path.join(prefix, "share/man/man1/h5spec.1")).out, "EXIT STATUS") if shutil.which("man") else None
    have = files_below(prefix)
    for name in ("share/man/man1/wsi2h5.1", "share/bash-completion/completions/h5spec", "share/doc/wsi2h5/process/example.svg",
                 "share/zsh/site-functions/_wsi2h5", "share/doc/wsi2h5/README.md", "share/wsi2h5/nextflow/main.nf"):
        expect(name in have, "%s is not in %s", name, have)
    for name in have:
        path = os.path.join(prefix, name)
        wanted = 0o755 if os.path.isdir(path) or name.startswith("bin/") else None
        mode = os.stat(path).st_mode & 0o777
        expect(mode == wanted or (wanted is None and mode in (0o644, 0o755)), "%s has mode %o", name, mode)
    put_file(os.path.join(prefix, "share/doc/other"), "")
    make("uninstall", *words, cwd=ROOT)
    expect(files_below(prefix) == ["share/doc/other"], "%s", files_below(prefix))
    expect(not os.path.exists(os.path.join(prefix, "share/wsi2h5")), "our folder stays")

main(globals())
