"""The project itself: layers, options, builds without this and that, installation."""

import numpy as np

from lib import *

LAYERS = [  # folder, what of ours it may include
    ("common", ("common/",)),
    ("convert", ("common/", "convert/")),
    ("process", ("common/", "process/")),
    ("cuda", ("common/", "process/spectrum/spectrum.h", "process/spectrum/spectrum_open.h", "cuda/")),
]
ROOMS = {  # of each folder, in their order: a room includes itself and rooms to its left; the folder's own files all
    "common": "base codec hdf5 store result regions",
    "convert": "tile readers tissue privacy",
    "convert/readers": "frame picture tiff dicom",
    "process": "draw spectrum engine options scores run commands report map plot",
    "process/report": "numbers verdict words page python",
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
PAGES = {"convert/wsi2h5.1": WSI2H5, "process/h5spec.1": H5SPEC}
IDENTIFYING = ("What can still identify someone", "base name", "anonymous", "hash and size", "scanning parameters", "tissue",
               "written on the glass", "thumbnail")

def here(*path):
    return text_in(os.path.join(ROOT, *path))

def includes(path):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', here(path), re.M)

def ours(*folders):
    """Every C and CUDA file below the folders, however deep, relative to the project."""
    return [os.path.relpath(f, ROOT) for d in folders for e in ("c", "h", "cu", "cuh")
            for f in sorted(glob.glob(os.path.join(ROOT, d, "**", "*." + e), recursive=True))]

def test_layers():
    for folder, allowed in LAYERS:
        for name in ours(folder):
            for inc in includes(name):
                own = "/" in inc and os.path.exists(os.path.join(ROOT, inc))
                expect(not own or inc.startswith(allowed), "%s includes %s", name, inc)
                for header, files in ONLY:
                    if re.fullmatch(header, inc):
                        expect(re.fullmatch(files, name), "%s includes %s", name, inc)

def test_rooms_include_one_another_in_one_direction():
    for folder, rooms in ROOMS.items():
        rooms, depth = rooms.split(), folder.count("/") + 1
        there = {name.split("/")[depth] for name in ours(folder) if name.count("/") > depth}
        expect(there == set(rooms), "%s has the rooms %s", folder, sorted(there))
        for name in ours(folder):
            room = os.path.dirname(name)
            for inc in includes(name):
                if room == folder or inc.count("/") <= depth or not inc.startswith(folder + "/"):
                    expect(room == folder or not re.match(folder + "/[^/]+$", inc), "%s includes %s", name, inc)
                    continue
                expect(rooms.index(inc.split("/")[depth]) <= rooms.index(room.split("/")[depth]), "%s includes %s", name, inc)
                pair = tuple("/".join(path.split("/")[:depth + 1]) for path in (name, inc))
                expect(pair not in APART and pair[::-1] not in APART, "%s includes %s", name, inc)

def test_the_manual_page_names_the_endings_of_the_formats():
    ends, have = (set(re.findall(r"\.[a-z]+", re.search(pattern, here(path), re.S).group(1))) for path, pattern in (
        ("convert/readers/slide.c", r"formats\[\] = \{(.*?)\n\};"), ("convert/wsi2h5.1", r"searched for files that end in(.*?), in upper")))
    expect({".svs", ".dcm", ".mrxs"} <= ends == have, "%s", have ^ ends)

def test_file_names_are_unique():
    names = [os.path.basename(f) for f in ours("common", "convert", "process", "cuda") + glob.glob(ROOT + "/tests/*.c")]
    expect(len(names) == len(set(names)), "%s", sorted(n for n in names if names.count(n) > 1))

def test_words():
    """Both manual pages say what can still identify someone."""
    for page in PAGES:
        says(" ".join(here(page).split(".SH IDENTIFYING DATA\n")[1].split(".SH ")[0].split()), *IDENTIFYING)

def test_readmes_are_short():
    counts = {name: len(here(name).split()) for name in ["README.md"] + [
        d + "/README.md" for d in ("common", "convert", "convert/readers", "cuda", "process", "scripts", "tests")]}
    expect(sum(counts.values()) <= 9000 and max(counts.values()) <= 1550 and counts["README.md"] <= 1100, "words: %s", counts)

def test_every_room_is_in_the_readme_of_its_folder():
    for folder, rooms in ROOMS.items():
        missing = [room for room in rooms.split() if not re.search(r"\b%s\b" % room, here(folder, "README.md"))]
        expect(not missing, "%s/README.md does not name %s", folder, missing)

def test_every_target_is_described():
    targets = set(re.search(r"^\.PHONY: ((?:.*\\\n)*.*)", here("Makefile"), re.M).group(1).replace("\\\n", " ").split())
    listed = set(re.findall(r"^make ([a-z-]+)", run("make", "help", cwd=ROOT).out, re.M))
    internal = {"all", "h5spec", "wsi2h5", "needs", "programs-for-check", "programs-for-demo", "fuzz-targets", "help"}
    expect(targets - internal == listed | {t for t in targets if t.startswith("lint-")}, "%s", (targets - internal) ^ listed)

def test_tests_that_are_named_exist():
    tests = {os.path.basename(path)[len("check_"):-len(".py")]: re.findall(r"^def test_(\w+)", text_in(path), re.M)
             for path in glob.glob(ROOT + "/tests/check_*.py")}
    named = [n for n in re.findall(r"`([a-z]+)\.([a-z_0-9]+)`", here("tests/PROMISES.md")) if n[0] in tests]
    lacks = sorted(".".join(n) for n in named if n[1] not in tests[n[0]])
    expect(len(named) > 30 and not lacks, "%s", lacks)

def test_releases_agree():
    """The version and its date are the same in programs, files and documents."""
    version, date = (re.search(r'#define WSI_%s "(.*)"' % name, here("common/base/version.h")).group(1) for name in ("VERSION", "DATE"))
    says(here("CHANGELOG.md").split("\n## ")[1], "%s (%s)\n" % (version, date))
    says(here("CITATION.cff"), "\nversion: %s\n" % version, "\ndate-released: %s\n" % date)
    says(run("h5dump", "-a", "/creator", store(slide())).out, '"wsi2h5 %s"' % version)
    for page, program in PAGES.items():
        name, text = os.path.basename(program), run(program, "--version").out
        expect(re.match(r"%s %s \(%s(, build \S+)?\)\n" % (name, re.escape(version), date), text), "%s", text)
        says(text, "HDF5 ", {"wsi2h5": "OpenSlide ", "h5spec": "backends: cpu"}[name], "Report bugs to")
        says(here(page), '"%s %s"' % (name, version))

def slide():
    return made("--size", "600x900", name="options")

def grouped():
    return store(slide(), "--stripe-rows", "240", "--group-bytes", "1")

ROI = file_of("roi.geojson", '{"type": "Feature", "properties": {"classification": {"name": "A"}}, '
              '"geometry": {"type": "Polygon", "coordinates": [[[0, 0], [600, 0], [300, 900]]]}}')
def commands_of_h5spec():
    return re.findall(r"^  ([a-z]+)  +[a-z]", run(H5SPEC, "--help").out, re.M)

def every_program():
    """The words that begin each command line."""
    return [(WSI2H5,)] + [(H5SPEC, c) for c in commands_of_h5spec()]

def options_of(*program):
    p = run(*program, "--help")
    expect(p.err == "" and len(max(p.out.splitlines(), key=len)) <= 100, "help")
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", p.out, re.M)) | set(re.findall(r"\[(--[a-z]+)", p.out))

def test_manual_pages_are_those_of_the_programs():
    """`make man` changes nothing: the pages hold every option, default and example of --help. What is written by hand names no other option."""
    known = set().union(*(options_of(*p) for p in every_program()))
    for name, program in PAGES.items():
        page, text = copied(os.path.join(ROOT, name)), here(name)
        run(os.path.join(ROOT, "scripts/man-options"), program, page)
        expect(text_in(page) == text, "%s: run make man", name)
        marks = re.findall(r'^\.\\" (begin|end)\b', text, re.M)  # a missing end would swallow what follows
        expect(marks == ["begin", "end"] * (len(marks) // 2), "%s: %s", name, marks)
        by_hand = re.sub(r'\.\\" begin .*?\.\\" end', "", text, flags=re.S).replace("\\-", "-")
        expect(set(re.findall(r"--[a-z][a-z-]+", by_hand)) <= known, "%s: %s", name, set(re.findall(r"--[a-z][a-z-]+", by_hand)) - known)
    expect(re.findall(r"begin h5spec (\w+)", here("process/h5spec.1")) == commands_of_h5spec(), "the commands of the page")

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
    folder = os.path.dirname(file_of("a-file", ""))
    counted = [w for line in lines for w in (len(line), *line)]
    out = run("bash", "-c", script, "bash", os.path.join(ROOT, "scripts/completion/tools.bash"), *counted, cwd=folder).out
    return [line.split() for line in out.splitlines()]

def completed(*line):
    return completed_each(line)[0]

ZSH = """
_call_program() { shift; $=* }
_files() { : }
_describe() { print -l -- ${subcommands%%:*} }
_arguments() { shift; print -rl -- "$@" }
words=("$@") CURRENT=$#
"""

def described(*line):
    """What zsh offers, and what may follow it: with what zsh provides replaced by functions that print what they are given."""
    script = ZSH + '. "%s/scripts/completion/_wsi2h5"' % ROOT
    rows = run("zsh", "-f", "-c", script, "zsh", *line).out.splitlines()
    return {w.split(":")[0]: w.split(":")[-1] for w in rows if re.match("--|[a-z]", w)}

def check_completion(shell, offered, files):
    if not shutil.which(shell):
        raise Skip("%s is not installed" % shell)
    expect(set(offered(H5SPEC, "")) - {"help"} == {*commands_of_h5spec(), *files}, "%s", offered(H5SPEC, ""))
    for program in every_program():
        have = set(offered(*program, "-"))
        expect(have == options_of(*program), "%s: %s", program, have ^ options_of(*program))

def test_completion_of_bash():
    check_completion("bash", completed, ["a-file"])
    expect(completed(H5SPEC, "me") == ["merge"], "merge")
    expect(completed(H5SPEC, "-") == completed(H5SPEC, "run", "-"), "run may be left out")

def test_completion_of_zsh():
    check_completion("zsh", described, [])
    actions = described(H5SPEC, "-")
    want = {"--io": "(auto direct buffered gds)", "--device": "(auto cpu cuda)", "--task": "(auto)", "--roi": "_files",
            "--output": "_files", "--bins": " ", "--json": "--json"}
    expect({k: actions[k] for k in want} == want, "%s", actions)

def arguments_of(*program):
    """Pairs of an option and its argument in the help."""
    return re.findall(r"^  (?:-., |    )(--[a-z0-9-]+) (\S+)", run(*program, "--help").out, re.M)

def test_arguments_are_completed_as_the_help_states_them():
    """Words to be typed, files, or nothing; one option for each argument."""
    kinds = {argument: (program, option, argument) for program in every_program() for option, argument in arguments_of(*program)}
    rows = list(kinds.values())
    for (program, option, argument), have in zip(rows, completed_each(*((*p, o, "") for p, o, _ in rows))):
        words = [w for w in re.split(r"\[|,", argument)[0].split("|") if w[0].islower()] if "|" in argument else []
        is_path = argument == "DIR" or argument.startswith("FILE") or option == "--output"
        expect(have == (words or ["a-file"] * is_path), "%s %s %s: %s", program, option, argument, have)
    for option in ("-o", "--output"):
        expect(completed(H5SPEC, option, "") == completed(H5SPEC, "run", option, "") == ["a-file"], "files after %s", option)
    expect(completed(WSI2H5, "-j", "") == completed(H5SPEC, "run", "-j", "") == [], "-j")

@later("ci")
def test_words_of_the_help_are_accepted():
    result = spectrum(grouped())
    for program, end, *inputs in (((WSI2H5,), ".h5", slide()), ((H5SPEC, "run"), ".h5", grouped()), ((H5SPEC, "verify"), None, grouped()),
                                  ((H5SPEC, "map"), "/", result), ((H5SPEC, "plot", "--map"), ".svg", result), ((H5SPEC, "report"), ".html", result)):
        for option, argument in arguments_of(*program):
            for value in completed(*program, option, "") if "|" in argument else ():
                if option != "--task" and value not in ("cuda", "gds"):  # an array job; a GPU
                    run(*program, option, value, *(() if end is None else ("-o", os.path.join(tmp(), "out" + end))), *inputs)

def make(*words, cwd=ROOT, status=0, env={}):
    if SAN:
        raise Skip("builds are tried without sanitizers")
    if cwd != ROOT:
        words = ("CFLAGS=-O0", *words)  # compiles in a third of the time
    return run("make", "--no-print-directory", "-j2", *words, cwd=cwd, env=make_environment(**env), status=status, timeout=900)

def check_each(*rows):
    """Rows of a command, its status, what it says and, as a pattern, what it does not say."""
    for argv, status, said, never in rows:
        p = run(*argv, status=status)
        says(p.out + p.err, *said)
        expect(not never or not re.search(never, p.out + p.err), "%s: %s", argv, p.out + p.err)

def same_datasets(a, b, *names):
    for name in names:
        expect(np.array_equal(values_in(a, name), values_in(b, name)), "%s differs", name)

@later("ci")
def test_without_anything_but_hdf5_and_zlib():
    d, out, native = copy_of_the_tree(), os.path.join(tmp(), "x.h5"), os.path.join(tmp(), "native.h5")
    without = ("OPENSLIDE=0", "LIBDEFLATE=0", "LZ4=0", "ZSTD=0", "CUDA=0", "JANSSON=0")
    make(*without, "wsi2h5", cwd=d)
    make(*without, "JPEG=0", "J2K=0", "PNG=0", "h5spec", cwd=d)
    h5spec, wsi2h5, cpu = d + "/build/h5spec", d + "/build/wsi2h5", ("run", "--device", "cpu", "-o", out)
    jpeg, j2k = store(slide(), "--codec", "jpeg"), store(made("--size", "300x300", "--compression", "33005"), "--codec", "j2k")
    svs = made("--size", "1500x1100", "--levels", "2", "--icc", "fake:200", "--mpp", "0.25")
    check_each(
        # its own libraries, not those of HDF5
        (("readelf", "-d", h5spec), 0, (), "NEEDED.*(openslide|tiff|png|jpeg|openjp|fftw|deflate|lz4|zstd|cuda|jansson)"),
        (("readelf", "-d", wsi2h5), 0, (), "NEEDED.*openslide"),
        ((h5spec, *cpu, grouped()), 0, (), ""),
        ((h5spec, *cpu, "--device", "cuda", grouped()), 2, ("no CUDA backend",), ""),
        ((h5spec, *cpu, "--roi", ROI, grouped()), 2, ("cannot read GeoJSON", "libjansson-dev"), ""),
        ((h5spec, *cpu, jpeg), 1, (jpeg, "codec jpeg cannot be unpacked", "libjpeg"), ""),
        ((h5spec, "verify", jpeg), 1, (jpeg, "codec jpeg cannot be unpacked", "libjpeg"), ""),
        ((h5spec, "verify", j2k), 1, (j2k, "codec j2k cannot be unpacked", "OpenJPEG"), ""),
        ((h5spec, "verify", "--quick", jpeg, grouped()), 0, ("valid",), ""),
        ((h5spec, "info", jpeg), 0, ("codec      jpeg",), ""),
        ((h5spec, "map", "-o", tmp(), grouped()), 2, ("map is not part of this build", "libpng"), ""),
        ((wsi2h5, "--version"), 0, ("no OpenSlide",), ""),
        ((wsi2h5, "--tissue-mask", ROI, "-o", tmp(), slide()), 1, (ROI, "cannot read GeoJSON", "libjansson-dev"), ""),
        ((wsi2h5, "-o", native, svs), 0, ("1 converted",), ""),
        ((WSI2H5, "-o", native, svs), 0, ("1 skipped (up to date)",), ""))  # stores of both builds go together
    same_datasets(native, store(svs), "pixels", "tissue/mask", "associated/thumbnail", "icc_profile")
    expect(attributes_of(native)["mpp_x"] == 0.25, "mpp_x")
    if importlib.util.find_spec("PIL"):
        from miraxfile import mirax  # only OpenSlide reads it
        other = mirax(os.path.join(tmp(), "mirax"), 1, 1, {(0, 0): np.full((256, 256, 3), 200, np.uint8)})
        check_each(((wsi2h5, "-o", tmp(), other), 1, (other, "not a slide that this build reads", "build wsi2h5 with OpenSlide"), ""))

@later("ci")
def test_zlib_instead_of_libdeflate_and_no_libtiff_in_h5spec():
    d, out, maps = copy_of_the_tree(), os.path.join(tmp(), "options.h5"), tmp()
    make("LIBDEFLATE=0", "TIFF=0", "CUDA=0", cwd=d)
    h5spec, result = d + "/build/h5spec", spectrum(store(slide()))
    check_each(((d + "/build/wsi2h5", "-o", out, slide()), 0, ("1 converted",), ""),
               ((H5SPEC, "verify", out), 0, ("valid",), ""),
               ((h5spec, "verify", store(slide())), 0, ("valid",), ""),
               (("readelf", "-d", h5spec), 0, (), "libtiff"))
    same_datasets(spectrum(out), result, "histogram")
    if "map" in commands_of_h5spec():
        check_each(((h5spec, "map", "--format", "tiff", "-o", maps, result), 2, ("cannot write OME-TIFF",), ""),
                   ((h5spec, "map", "-o", maps + "/a.ome.tif", result), 2, ("cannot write OME-TIFF",), ""),
                   ((h5spec, "map", "--format", "all", "-o", maps, result), 0, (), ""))
        expect({f.split(".")[-1] for f in os.listdir(maps)} == {"png", "geojson", "csv"}, "%s", os.listdir(maps))

def tools(links="", **scripts):
    """A folder of links to programs of this system, and of scripts with these texts."""
    d = tmp("tools")
    for name in links.split():
        os.symlink(shutil.which(name), os.path.join(d, name))
    for name, text in scripts.items():
        os.chmod(put_file(os.path.join(d, name.replace("_", "-")), "#!/bin/sh\n%s\n" % text), 0o755)
    return d

def before_others(d):
    return {"PATH": d + ":" + os.environ["PATH"]}

def compiler_without(header):
    """A compiler that does not find the header."""
    return "CC=%s/cc" % tools(cc="""text=$(cat)
case $text in *'<%s>'*) echo 'fatal error: no such file' >&2; exit 1 ;; esac
printf '%%s\\n' "$text" | %s "$@"
""" % (header, shutil.which("cc")))

def test_missing_parts_are_named():
    """In one line with the remedy, instead of a compiler error. What was left out on purpose is no news."""
    b, get = tmp(), ": run scripts/install-deps"
    nothing, broken = {"PKG_CONFIG_LIBDIR": b, "WERROR": "0"}, before_others(tools(nvcc="echo no cc1plus >&2; exit 1"))
    for words, env, status, said, never in (
            (["needs", "CC=no-such-compiler"], {}, 2, ["no usable C compiler"], ""),
            (["needs", compiler_without("stdint.h")], {}, 2, ["libc6-dev"], ""),
            (["needs", compiler_without("hdf5.h")], {}, 2, ["HDF5 is missing" + get], ""),
            (["needs", compiler_without("zlib.h"), "LIBDEFLATE=0"], {}, 2, ["zlib is missing" + get], ""),
            (["needs", compiler_without("zlib.h"), "LIBDEFLATE=1"], {}, 0, [], "."),
            (["needs", "CUDA=1"], broken, 2, ["nvcc does not work (", "it needs g++%s, or set CUDA=0" % get], ""),
            (["needs"], {}, 0, [], "."),
            (["-n", "CUDA=0"], nothing, 0, ["wsi2h5 is not built", "echo 'no GeoJSON"], ""),
            (["-n", "CUDA=0", "OPENSLIDE=0", "JANSSON=0"], {}, 0, [], "wsi2h5 reads|echo 'no GeoJSON"),
            (["-n", "CUDA=0", "V=1", "h5spec"], nothing, 0, ["-lz"], "-DHAVE_(LIBDEFLATE|LZ4|ZSTD|JANSSON)|-Werror"),
            (["-n", "CUDA=0", "V=1", "h5spec", "WERROR=1", "LZ4=1"], nothing, 0, ["-Werror", "-DHAVE_LZ4"], "")):
        p = make("B=" + b, *words, env=env, status=status)
        says(p.out + p.err, *said)
        expect(status == 0 or len(p.err.splitlines()) == 1, "%s", p.err)
        expect(not never or not re.search(never, p.out + p.err), "%s: %s", words, p.out + p.err)

def nvcc():
    found = shutil.which("nvcc")
    if not found:
        raise Skip("needs nvcc")
    return os.path.realpath(found)

@later("ci")
def test_headers_of_cuda_come_from_where_nvcc_is():
    """Also when nvcc is a link from elsewhere, or outside PATH where the toolkit usually is. tests/releases compiles where no
    other folder has them. The stub has headers of its own: a toolkit with cuFile declares other names."""
    linked = tmp("linked")
    os.symlink(nvcc(), linked + "/nvcc")
    usual = [{"PATH": "/usr/bin:/bin"}] if os.path.realpath("/usr/local/cuda/bin/nvcc") == nvcc() else []
    for goal, objects, envs in (("h5spec", r"cuda/\S+\.c", [{}, before_others(linked)] + usual), ("stub", r"tests/(?:stub\w*|gds)\.c", [{}])):
        for env in envs:
            lines = make("B=" + tmp(), "-n", "V=1", "CUDA=1", "ARCH=sm_90", goal, env=env).out.replace("\\\n", "")
            compiled = re.findall(r"^.* -c -o \S+ %s$" % objects, lines, re.M)
            expect(len(compiled) > 1, "%s", lines)
            for line in compiled:
                first = re.search(r"-isystem (\S+)|$", line).group(1) or "nowhere"
                expect(first == "tests/stub_include" if goal == "stub" else os.path.exists(first + "/cuda_runtime.h"), "%s", line)
            expect(all(line.split()[0] == nvcc() for line in re.findall(r"^(?:mkdir.*&&)?(\S*nvcc .*\.cu)$", lines, re.M)), "%s", lines)

@later("ci")
def test_kernels_are_for_the_gpus_here():
    """Unless ARCH names others; without a GPU for all, and a line says so. Versions name them."""
    nvcc()
    here, none = "echo 9.0; echo 8.0; echo 9.0", "echo 'No devices were found'; exit 6"
    every = {"sm_80", "sm_86", "sm_89", "sm_90", "compute_90"}
    for smi, words, want, said in ((here, (), {"sm_80", "sm_90"}, "for sm_80 sm_90 takes minutes"), (here, ("ARCH=sm_86",), {"sm_86"}, "minutes"),
                                   (here, ("ARCH=all",), every, "minutes"), (here, ("wheel",), every, "minutes"),
                                   ("echo 7.0", (), {"compute_90"}, "minutes"), (none, (), every, "nvidia-smi shows no GPU here")):
        b = tmp()
        lines = make("B=" + b, "-n", "CUDA=1", *words, b + "/kernels", env=before_others(tools(nvidia_smi=smi))).out
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
    says(version(), ", build " + run("git", "describe", "--always", cwd=d).out.strip())
    for goal in ("help",) + (("lint-man",) if shutil.which("groff") else ()):  # without CUDA=0, and yet not another configuration
        make(goal, cwd=d)
    expect(make("CUDA=0", "h5spec", cwd=d).out == "", "nothing is built again")
    other = make("CUDA=0", "LZ4=0", "-n", "h5spec", cwd=d).out
    expect(other.count("CC ") == len([line for line in quiet if line.startswith("CC ")]), "other parts make everything again: %s", other)
    os.mkdir(d + "/demo")  # pictures of the user are not installed
    for name in ("demo/private.svg", "demo/private.png", "demo/README.md", "private.md"):
        put_file(os.path.join(d, name), "")
    lines = make("-n", "install", "CUDA=0", cwd=d).out
    says(lines, "doc/wsi2h5/process/example.svg=", "doc/wsi2h5/README.md=")
    expect("private" not in lines and "demo/" not in lines, "%s", re.findall(r"\S*(?:private|demo/)\S*", lines))

def test_install_deps():
    """What is missing is listed; nothing is printed when nothing is. No package is installed here."""
    script = os.path.join(ROOT, "scripts/install-deps")
    says(run(script, "--help").out, "Usage:", "--tests")
    says(run(script, "--test", status=2).err, "--test", "--help")
    but = 'shift 2; for p; do [ $p = %s ] || echo "installed $p"; done'
    for installed, words, said in ((None, (), ("LZ4 (liblz4)", "OpenSlide (openslide)", "package manager")),
                                   ("echo installed pkgconf; echo installed zlib1g-dev", (),  # pkgconf serves as pkg-config
                                    ("missing: make gcc libc6-dev libhdf5-dev ", "libopenslide-dev")),
                                   (but % "nothing", ("--bench",), ()),
                                   (but % "groff", ("--tests",), ()),  # optional packages are no reason to fail
                                   (but % "python3", (), ("missing: python3\n",))):  # wsi-corpus and others need it
        debian = dict(apt_get="exit 1", dpkg_query=installed) if installed else {}
        d = tools("sh cat awk sed id env printf", pkg_config="exit 1", **debian)
        p = run(script, *words, env={"PATH": d, "INSTALL_DEPS": "no"}, status=1 if said else 0)
        says(p.err, *said)
        expect(said or p.out + p.err == "", "%s", p.out + p.err)
        expect(not debian or "pkg-config" not in p.err and "zlib1g-dev" not in p.err, "%s", p.err)

def test_what_will_be_installed_is_said_and_asked_once():
    """On a terminal and with --ask; Enter goes on, n leaves it out. Elsewhere nobody is asked."""
    log = os.path.join(tmp(), "log")
    # a third package was downloaded before
    apt = """case $* in
*-s*install*) printf "Inst a (1 d)\nInst b (1 d)\nInst c (1 d)\nConf a (1 d)\n" ;;
*--print-uris*) printf "'http://d/a.deb' a.deb 100000000 SHA256:1\n'http://d/b.deb' b.deb 64000000 SHA256:2\n" ;;
*) echo "$*" >>%s ;;
esac""" % log
    d = tools("sh cat awk sed env printf mktemp rm tail", id="echo 0", apt_get=apt, dpkg_query="exit 1", apt_cache="exit 1")
    for words, answer, asked, status in (([], None, False, 0), (["--ask"], None, False, 0), ([], "n", False, 0), (["--ask"], "", True, 0),
                                         (["--ask"], "n", True, 1)):
        put_file(log, "")
        ours, theirs = terminal() if answer is not None else os.pipe()
        p = subprocess.Popen([os.path.join(ROOT, "scripts/install-deps"), *words], stdin=theirs if answer is not None else subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=theirs, env={"PATH": d})
        os.close(theirs)
        if answer is not None:
            os.write(ours, (answer + "\n").encode())
        p.wait(timeout=60)
        text = os.read(ours, 65536).decode()
        os.close(ours)
        says(text, "installing 3 packages with apt-get, 164 MB to download, 1 to 3 minutes")
        expect(("Enter goes on" in text) == asked and p.returncode == status, "%s %s: %d, %s", words, answer, p.returncode, text)
        expect(("install -y" in text_in(log)) == (status == 0), "%s %s: %s", words, answer, text_in(log))

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
    d = tools("sh cat awk sed printf dirname", id="echo 1000", apt_get="exit 1", dpkg_query="exit 1")
    err = run(os.path.join(ROOT, "scripts/demo"), cwd=d, env={"PATH": d}, status=1).err.splitlines()
    expect(len(err) == 3, "%s", err)
    says(err[1], "administrator", "apt-get install -y --no-install-recommends make gcc libc6-dev ", " zlib1g-dev")
    says(err[2], "without root", "scripts/README.md")

def demo_folder():
    d = tmp("demo")
    shutil.copytree(os.path.join(ROOT, "scripts"), os.path.join(d, "scripts"))
    return d

def needs_report():
    if "report" not in commands_of_h5spec():
        raise Skip("h5spec is built without libpng")

def test_the_page_of_the_demo_is_right():
    """Two of its dozen slides are blurred; the page says so in its first line, and of no other slide anything."""
    needs_report()
    d = demo_folder()
    os.symlink(BUILD, d + "/build")
    p = run(d + "/scripts/demo", made("--size", "900x700", name="own"), env=dict(os.environ, MAKE="true", BUILD="build"), cwd=d)
    says(p.err, "10 pass, 1 not judged, 2 for review, 0 fail")
    first = re.search(r'<p id="headline">(.*?)</p>', text_in(d + "/demo/report.html"), re.S).group(1)
    expect(re.sub(r"<[^>]*>", "", first).split("See")[0].strip() == "2 of 13 slides are blurred.", "%s", first)
    expect(len(slide_names(d + "/demo/corpus.h5")) == 12, "%s", p.out)
    for line in p.out.split("The files:\n")[1].split("\n\n")[0].splitlines():
        expect(os.path.exists(os.path.join(d, line.split()[-1])), "%s", line)

def test_the_demo_compiles_for_a_gpu_only_where_one_is():
    """Kernels take minutes to compile. CUDA in the environment, or a build that has the backend, decides otherwise."""
    said = "nvcc is installed, but no GPU is here: this builds for CPUs only, make also for GPUs\n"
    for scripts, settings, words, text in ((dict(nvidia_smi="exit 9"), {}, " CUDA=0", ""),
                                           (dict(nvidia_smi="exit 9", nvcc="true"), {}, " CUDA=0", said),
                                           (dict(nvidia_smi="true", nvcc="true"), {}, "", ""),
                                           (dict(nvidia_smi="exit 9", nvcc="true"), {"CUDA": "1"}, "", ""),
                                           (dict(nvidia_smi="exit 9", h5spec="echo backends: cpu, cuda"), {"BUILD": "built"}, "", "")):
        d, programs = demo_folder(), tools(make="echo make: $*; exit 9", **scripts)
        put_file(d + "/scripts/install-deps", "#!/bin/sh\n")
        os.symlink(programs, d + "/built")
        env = {**os.environ, "PATH": programs + ":/usr/bin:/bin", "MAKE": programs + "/make", "BUILD": "build", "CUDA": "", **settings}
        out = run(d + "/scripts/demo", cwd=d, env=env, status=9).out
        expect(out == "%smake: --no-print-directory B=%s%s programs-for-demo\n" % (text, env["BUILD"], words), "%s %s: %s", scripts, settings, out)

def test_the_guide_explains_what_a_page_shows():
    """Every number of the page and of --csv has a row in process/GUIDE.md."""
    needs_report()
    result = spectrum(store(made("--size", "900x700", name="own")))
    page, table = result + ".words.html", result + ".words.csv"
    run(H5SPEC, "report", "-q", "--csv", table, "-o", page, result)
    rows = [line.split("|") for line in here("process/GUIDE.md").splitlines() if line.startswith("| ")]
    words = " ".join(row[1] for row in rows)
    numbers = [n for n in csv_rows(table)[0] if re.search("_(db|p50|share|std|range|lines|gray|density|hue|low|high|quality|twice)$|^(slope|seams|tissue_f)", n) and n[:2] != "z_"]
    shown = json.loads("{" + re.search(r'"metrics":\[.*?\]', text_in(page), re.S).group(0) + "}")["metrics"]
    expect(len(numbers) > 20 and len(shown) > 10, "%d, %d", len(numbers), len(shown))
    lacks = [n for n in numbers if "`%s`" % n not in words]
    lacks += [m["title"] for m in shown if not any("`%s`" % m["name"] in row[1] and m["title"] in row[2] for row in rows)]
    expect(not lacks, "%s", lacks)

def files_below(folder):
    return sorted(os.path.relpath(os.path.join(d, n), folder) for d, dirs, names in os.walk(folder)
                  for n in names + [x for x in dirs if os.path.islink(os.path.join(d, x))])

@later("ci")
def test_install_and_uninstall():
    d = os.path.join(tmp(), "a folder")
    words = same_build() + ["DESTDIR=" + d, "PREFIX=/opt/x y"]
    make("install", *words)
    prefix = os.path.join(d, "opt/x y")
    env = {**os.environ, "PATH": prefix + "/bin:" + os.environ["PATH"]}
    for name in ("wsi2h5", "h5spec", "wsi-corpus", "wsi-plan"):
        says(run(os.path.join(prefix, "bin", name), "--help", env=env).out.lower(), "usage")
    for name in ("bin/wsi-corpus", "share/wsi2h5/corpus"):  # with the installed programs, which are not in PATH
        out = os.path.join(tmp(), "corpus")
        run(os.path.join(prefix, name), "run", "--scheduler", "local", "-o", out, slide(), timeout=300)
        programs = json_in(out + "/corpus.json")["run"]["programs"]
        expect(os.path.realpath(programs["H5SPEC"]) == os.path.realpath(prefix + "/bin/h5spec"), "%s", programs)
    says(run(os.path.join(prefix, "bin/h5spec"), "info", os.path.join(out, "corpus.h5")).out, "complete")
    have = files_below(prefix)
    for name in ("share/man/man1/h5spec.1", "share/man/man1/wsi2h5.1", "share/bash-completion/completions/h5spec", "share/doc/wsi2h5/process/example.svg",
                 "share/zsh/site-functions/_wsi2h5", "share/doc/wsi2h5/README.md", "share/wsi2h5/nextflow/main.nf"):
        expect(name in have, "%s is not in %s", name, have)
    for name in have:
        mode = os.stat(os.path.join(prefix, name)).st_mode & 0o777
        expect(mode == 0o755 or mode == 0o644 and not name.startswith("bin/"), "%s has mode %o", name, mode)
    put_file(os.path.join(prefix, "share/doc/other"), "")
    make("uninstall", *words)
    expect(files_below(prefix) == ["share/doc/other"], "%s", files_below(prefix))
    expect(not os.path.exists(os.path.join(prefix, "share/wsi2h5")), "our folder stays")

main(globals())
