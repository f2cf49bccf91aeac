"""Packages of Debian, manual pages of the scripts. tests/releases tries the packages elsewhere."""

from lib import *


def read(*path):
    return text_in(os.path.join(ROOT, *path))


def build(*argv, cwd, status=0, **more):
    if SAN:
        raise Skip("packages are built without sanitizers")
    return run(*argv, cwd=cwd, env=make_environment(WERROR="", **more), status=status, timeout=900)


# --- make deb ---

def without(*programs):
    """A folder for PATH with every program of the usual places except some."""
    d = tmp()
    for folder in ("/usr/bin", "/bin"):
        for name in os.listdir(folder):
            if name not in programs and not os.path.lexists(os.path.join(d, name)):
                os.symlink(os.path.join(folder, name), os.path.join(d, name))
    return d


def test_deb_names_what_is_missing():
    p = build("scripts/make-deb", cwd=ROOT, status=1, PATH=without("dpkg-buildpackage", "dh"))
    says(p.err, "make deb: dpkg-buildpackage or dh is missing", "apt-get install dpkg-dev debhelper")
    if not shutil.which("dpkg-buildpackage") or not shutil.which("dh"):
        return
    tree = copy_of_the_tree()
    control = text_in(tree + "/scripts/debian/control")
    put_file(tree + "/scripts/debian/control", control.replace("libdeflate-dev,", "libdeflate-dev (>= 99),"))
    says(build("scripts/make-deb", cwd=tree, status=1).err, "make deb: ", "libdeflate-dev (>= 99)", "install these packages")
    expect(not os.path.exists(tree + "/build/deb"), "an empty folder of packages")


def test_deb():
    """Built, clean for lintian, and complete: every installed file is in one package."""
    if not os.environ.get("DEB"):
        raise Skip("takes two minutes; DEB=1 runs it")
    for tool in ("dpkg-buildpackage", "dh", "lintian", "dh_python3"):
        if not shutil.which(tool):
            raise Skip("%s is not installed" % tool)
    tree = copy_of_the_tree()
    out = build("make", "deb", cwd=tree, DEBEMAIL="a@example.org", DEBFULLNAME="A & B").out
    packages = re.findall(r"build/deb/((\S+?)_(\S+?)_\S+\.deb)", out)
    expect(sorted(p[1] for p in packages) == ["hdf5-plugin-h5jpeg", "python3-wsi-store", "wsi2h5"], "%s", out)
    version = re.search(r'define WSI_VERSION "(.*)"', read("common/base/version.h")).group(1)
    files = {}
    for path, name, full in packages:
        expect(full.startswith(version + "-1~"), "%s", full)
        path = os.path.join(tree, "build/deb", path)
        says(run("dpkg-deb", "-f", path, "Maintainer").out, "A & B <a@example.org>")
        files[name] = [line.split()[5] for line in run("dpkg-deb", "-c", path).out.splitlines() if not line.startswith("d")]
    says(" ".join(files["wsi2h5"]), "./usr/bin/wsi2h5 ", "./usr/bin/h5spec ", "./usr/bin/wsi-corpus ", "wsi-plan.1.gz",
         "/bash-completion/completions/h5spec", "/zsh/vendor-completions/_wsi2h5", "./usr/share/wsi2h5/nextflow/main.nf", "./usr/share/wsi2h5/wsi-answers",
         "./usr/share/wsi2h5/wsi_answers/page.js")
    says(" ".join(files["hdf5-plugin-h5jpeg"]), "/hdf5/serial/plugins/libh5jpeg.so")
    says(" ".join(files["python3-wsi-store"]), "/dist-packages/wsi_store/store.py", "./usr/bin/wsi-store", "wsi-store.1.gz")
    depends = run("dpkg-deb", "-f", os.path.join(tree, "build/deb", [p[0] for p in packages if p[1] == "wsi2h5"][0]), "Depends").out
    says(depends, "libhdf5", "libopenslide", "libtiff", "libdeflate", "libzstd", "liblz4", "libpng", "python3")


# --- what names the same twice ---

def test_every_library_is_in_the_package():
    wanted = set(re.findall(r"^(lib[\w-]+-dev|zlib1g-dev)\b", re.sub(r"packages='.*\n", "", read("scripts/install-deps")), re.M)) - {"libfftw3-dev", "libc6-dev"}
    expect(len(wanted) > 9, "scripts/install-deps has %s", wanted)
    missing = [w for w in wanted if w not in read("scripts/debian/control")]
    expect(not missing, "scripts/debian/control lacks %s", missing)


def test_versions_of_packages():
    version = re.search(r'define WSI_VERSION "(.*)"', read("common/base/version.h")).group(1)
    date = re.search(r'define WSI_DATE "(.*)"', read("common/base/version.h")).group(1)
    says(read("scripts/pyproject.toml"), 'version = "%s"' % version)
    for page in glob.glob(ROOT + "/scripts/man/*.1"):
        says(read(page), '"%s" "wsi2h5 %s"' % (date, version))


# --- manual pages of the scripts ---

PAGES = {"wsi-corpus": [("scripts/corpus", c) for c in ("plan", "run", "step", "finish", "status", "cancel", "remove")], "wsi-plan": [("scripts/plan",)],
         "wsi-selftest": [("scripts/selftest",)],
         "wsi-store": [("scripts/wsi-store", c) for c in ("patches", "coords", "index", "zarr", "dicom", "windows")]}


def test_manual_pages_of_the_scripts():
    """Each page has the options of --help, and no other."""
    expect({os.path.basename(p)[:-2] for p in glob.glob(ROOT + "/scripts/man/*.1")} == set(PAGES), "pages")
    for name, programs in PAGES.items():
        text = "".join(run(sys.executable, os.path.join(ROOT, p), *words, "--help").out for p, *words in programs)
        page = read("scripts/man", name + ".1")
        theirs = set(re.findall(r"^ +(?:-\w(?: \w+)?, )?(--[a-z][\w-]+)", text, re.M))
        ours = set(re.findall(r"--[a-z][\w-]+", "\n".join(line for line in page.replace("\\-", "-").splitlines()
                                                         if line.startswith(("\\fB--", "\\fB-o", "\\fB-h", ".B --")))))
        expect(theirs and ours == theirs, "%s.1: %s", name, ours ^ theirs)


def test_folder_of_plug_ins():
    """PLUGINDIR is where make install puts the plug-in, and uninstall removes it from there."""
    d = tmp()
    words = [*same_build(), "DESTDIR=" + d, "PREFIX=/usr", "PLUGINDIR=lib/hdf5/plugins"]
    build("make", "install", *words, cwd=ROOT)
    expect(os.path.exists(d + "/usr/lib/hdf5/plugins/libh5jpeg.so"), "installed elsewhere")
    says(run(sys.executable, d + "/usr/bin/wsi-store", "--help").out, "patches")
    build("make", "uninstall", *words, cwd=ROOT)
    left = [f for _, _, files in os.walk(d) for f in files]
    expect(not left, "%s", left)


main(globals())
