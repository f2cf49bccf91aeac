#!/usr/bin/env python3
"""The wheel of wsi_store: after `import wsi_store`, h5py reads kept tiles, on every Python and with every HDF5 at hand.

WSI_PYTHONS: more interpreters with numpy and h5py, separated by colons. build/h5py/bin/python, if it exists, has h5py of
PyPI, which brings a libhdf5 of its own.
"""
import glob
import zipfile

import h5py

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
        plugin = os.path.join(BUILD, "libh5jpeg.so")
        if not os.path.exists(plugin):
            raise Skip("this build has no libjpeg")
        try:
            p = subprocess.run([os.path.join(ROOT, "scripts", "make-wheel"), plugin], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               timeout=300, env={**os.environ, "PYTHON": sys.executable})
        except subprocess.TimeoutExpired:
            raise Skip("pip takes too long")
        if p.returncode:
            raise Skip("no wheel can be built here: %s" % p.stderr.decode()[-200:].replace("\n", " "))
        _wheel.append(p.stdout.decode().split()[-1])
    return os.path.join(ROOT, _wheel[0])


def pythons():
    more = os.environ.get("WSI_PYTHONS", "").split(":") + [os.path.join(ROOT, "build", "h5py", "bin", "python")]
    return [sys.executable] + [p for p in more if p and os.path.exists(p)]


def slide():
    return made("--size", "700x600", name="wheel")


def installed():
    """A folder with what the wheel has."""
    target = tmp("installed")
    with zipfile.ZipFile(wheel()) as z:
        z.extractall(target)
    return target


@later("ci")
def test_wheel_has_what_it_needs():
    with zipfile.ZipFile(wheel()) as z:
        names = z.namelist()
        says(" ".join(names), "wsi_store/__init__.py", "wsi_store/py.typed", "wsi_store/plugins/libh5jpeg.so", "LICENSE")
        (meta,) = [n for n in names if n.endswith("/WHEEL")]
        says(z.read(meta).decode(), "Root-Is-Purelib: false", "Tag: py3-none-")
        for path in glob.glob(os.path.join(ROOT, "scripts/wsi_store/*.py")):
            with open(path, "rb") as f:
                expect(z.read("wsi_store/" + os.path.basename(path)) == f.read(), "%s differs", path)
    manylinux = "manylinux" in wheel()
    expect(manylinux == any("wsi_store.libs/libjpeg" in n for n in names), "libjpeg is inside a manylinux wheel, and only there")


@later("ci")
def test_h5py_reads_kept_tiles():
    target = installed()
    for python in pythons():
        env = {k: v for k, v in os.environ.items() if k != "HDF5_PLUGIN_PATH"}
        out = run(python, "-c", READS, store(slide(), "--codec", "jpeg"), env={**env, "PYTHONPATH": target}, cwd=target).out
        before, same, plugin = out.split()[:3]
        expect(same == "True" and plugin.startswith(target), "%s: %s", python, out)
        own = glob.glob("/usr/lib/*/hdf5/serial/plugins/libh5jpeg.so") + glob.glob("/usr/local/hdf5/lib/plugin/libh5jpeg.so")
        expect(before == "fails" or own, "%s: h5py reads kept tiles without the wheel", python)
        print("# %s: %s" % (run(python, "--version").out.strip(), " ".join(out.split()[3:])))


@later("ci")
def test_another_plugin_is_kept():
    """A plug-in that HDF5 finds already reads the tiles as before."""
    target = installed()
    upstream = os.path.join(BUILD, "tests", "upstream")
    code = ("import wsi_store, h5py, sys\n"
            "h5py.File(sys.argv[1])['pixels'][:300, :300]\n"
            "print([l.split()[-1] for l in open('/proc/self/maps') if 'h5' in l and '.so' in l and ('jpeg' in l or 'upstream' in l)])")
    out = run(sys.executable, "-c", code, store(slide(), "--codec", "jpeg"),
              env={**os.environ, "PYTHONPATH": target, "HDF5_PLUGIN_PATH": upstream}, cwd=target).out
    says(out, "libh5upstream.so")
    expect(target not in out, "%s", out)


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
