"""How pip and `python -m build` build this project (PEP 517): make does it."""
import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEFT_OUT = {".git", "build", "demo", "dist", "__pycache__"}


def make(*words):
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    if subprocess.run([os.environ.get("MAKE", "make"), *words], cwd=ROOT, env=environment, stdout=sys.stderr, check=False).returncode:
        sys.exit("make %s failed; scripts/install-deps installs what it needs, scripts/README.md has the rest" % " ".join(words))


def version():
    with open(os.path.join(ROOT, "common/base/version.h"), encoding="utf-8") as f:
        return [line.split('"')[1] for line in f if line.startswith("#define WSI_VERSION ")][0]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """ARCH, CUDA, CC ... are taken from the environment."""
    words = ["%s=%s" % (name, os.environ[name]) for name in ("CUDA", "CC", "CFLAGS", "NVCC") if name in os.environ]
    make("wheel", *words)
    folder = os.path.join(ROOT, "build", "wheel")
    (name,) = [n for n in os.listdir(folder) if n.endswith(".whl")]
    shutil.copy(os.path.join(folder, name), wheel_directory)
    return name


def sources():
    """What git tracks; without git, everything but what is built."""
    p = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if p.returncode == 0 and os.path.exists(os.path.join(ROOT, ".git")):
        return sorted(os.fsdecode(n) for n in p.stdout.split(b"\0") if n)
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in LEFT_OUT]
        found += [os.path.relpath(os.path.join(folder, n), ROOT) for n in names]
    return sorted(found)


def build_sdist(sdist_directory, config_settings=None):
    base = "wsi2h5-" + version()
    info = "Metadata-Version: 2.1\nName: wsi2h5\nVersion: %s\n" % version()
    with open(os.path.join(sdist_directory, base + ".tar.gz"), "wb") as out, gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as z, \
            tarfile.open(fileobj=z, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sources():
            if os.path.lexists(os.path.join(ROOT, name)):
                tar.add(os.path.join(ROOT, name), base + "/" + name, recursive=False)
        entry = tarfile.TarInfo(base + "/PKG-INFO")
        entry.size = len(info)
        tar.addfile(entry, io.BytesIO(info.encode()))
    return base + ".tar.gz"
