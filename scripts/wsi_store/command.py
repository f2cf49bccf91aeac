"""The command wsi-store."""
from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import sys
from typing import Any, Callable, Sequence

PART, STOPPED, TROUBLE = 1, 3, 5  # exit statuses, as of wsi2h5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
# what pip calls a module
PACKAGES = {"PIL": "pillow", "PIL.Image": "pillow", "google_crc32c": "google-crc32c"}


def _say(text: str) -> None:
    from .publish import shown
    print(shown(text), file=sys.stderr)


def _write_patches(o: argparse.Namespace) -> int:
    from .patches import WRITERS, patches_of
    from .store import open_store
    with open_store(o.store) as s:
        n = kept = 0
        with WRITERS[o.format](o.output, s, o.quality) as write:
            for patch in patches_of(s, o.size, o.stride, o.min_tissue, o.limit, o.seed, o.format):
                write(patch)
                n, kept = n + 1, kept + (patch.jpeg is not None)
    _say("%d patches%s in %s" % (n, ", %d of them tiles of the slide as they are" % kept if kept else "", o.output))
    return 0


def _write_coords(o: argparse.Namespace) -> int:
    from .export import coords, kept, slide_name
    from .publish import Outputs
    from .store import Store
    if o.keep and not o.report:
        raise ValueError("--keep needs --report FILE, the table of h5spec report --csv")
    chosen = kept(o.stores, o.report, (o.keep or "pass").split(",")) if o.report else o.stores
    ending, outputs = "_patches.h5" if o.names == "trident" else ".h5", Outputs(o.stores)

    def work(path: str) -> str:
        with Store(path, True, None, 0) as s:
            output = os.path.join(o.output, slide_name(s) + ending)
            n = len(coords(s, output, o.size, o.step, o.min_tissue, o.mpp, o.magnification, outputs))
        return "%s: %d patches" % (output, n)
    status = _each(chosen, work)
    if len(chosen) < len(o.stores):
        _say("%d of %d slides left out by %s" % (len(o.stores) - len(chosen), len(o.stores), o.report))
    return status


def _write_index(o: argparse.Namespace) -> int:
    from .store import Store
    if o.url == "":
        raise ValueError("--url: the address is empty")
    with Store(o.store, True, None, 0) as s:
        json.dump(s.references(o.url), sys.stdout)
    print(flush=True)
    return 0


def _each(stores: Sequence[Any], work: Callable[[str], str]) -> int:
    """Does the work for each store and prints what it says. Those that fail are named, and the rest is done."""
    from .base import StoreError
    failed = []
    for path in stores:
        try:
            _say(work(path))
        except (StoreError, ValueError, OSError) as e:
            failed.append(_status_of(e))
            _say("wsi-store: %s" % e)
    if failed and len(stores) > 1:
        _say("wsi-store: %d of %d stores failed" % (len(failed), len(stores)))
    return max(failed, default=0)


def _write_zarr(o: argparse.Namespace) -> int:
    from .ome_zarr import write_ome_zarr

    def work(path: str) -> str:
        folder, made = write_ome_zarr(path, o.copy, o.codec, o.force)
        return "%s: %s" % (folder, "made" if made else "exists (up to date)")
    return _each(o.stores, work)


def _write_dicom(o: argparse.Namespace) -> int:
    from .dicom import table_of, write_dicom
    from .publish import Outputs
    key = b""
    if o.key:
        with open(o.key, "rb") as f:
            key = f.read()
    table, outputs = table_of(o.meta) if o.meta else {}, Outputs(o.stores)

    def work(path: str) -> str:
        name = os.path.splitext(os.path.basename(path))[0]
        return ", ".join(write_dicom(path, o.output, key, table.get(name), outputs, o.mpp, o.brightfield))
    return _each(o.stores, work)


def _write_windows(o: argparse.Namespace) -> int:
    from .windows import write_windows
    _say("%s: %d windows" % (o.output, write_windows(o.results, o.output)))
    return 0


class Stopped(BaseException):
    """A signal asks the program to end."""


def _stop(number: int, _: Any) -> None:
    for n in SIGNALS:
        signal.signal(n, signal.SIG_IGN)  # what is unfinished is removed now
    raise Stopped("stopped by %s" % signal.Signals(number).name)


def _status_of(e: BaseException) -> int:
    """The exit status of an error: 5 if the machine is to blame, or nobody but the disk that is written to."""
    from .publish import Trouble
    return TROUBLE if isinstance(e, (Trouble, MemoryError)) or getattr(e, "errno", None) in MACHINE else PART


def main() -> None:
    p = argparse.ArgumentParser(prog="wsi-store", description="Reads the patch stores of wsi2h5.",
                                epilog="example: wsi-store patches slide.h5 -o patches --min-tissue 0.5 --limit 1000")
    commands = p.add_subparsers(dest="command", metavar="COMMAND", required=True)
    c = commands.add_parser("patches", help="write patches as pictures, and their coordinates as patches.csv")
    c.add_argument("store", metavar="STORE")
    c.add_argument("-o", dest="output", metavar="DIR", required=True, help="folder, created if it does not exist")
    c.add_argument("--size", type=int, default=256, metavar="PX", help="of a patch (default: %(default)s)")
    c.add_argument("--stride", type=int, metavar="PX", help="step between patches (default: the size)")
    c.add_argument("--min-tissue", type=float, default=0.0, metavar="F", help="only patches with this fraction of tissue")
    c.add_argument("--limit", type=int, metavar="N", help="at most N patches, the first ones")
    c.add_argument("--seed", type=int, metavar="K", help="with --limit: a random choice instead of the first ones")
    c.add_argument("--format", choices=("png", "jpeg", "tfrecord", "webdataset"), default="png",
                   help="default: %(default)s; the last two keep the slide's JPEG tiles where a patch is one")
    c.add_argument("--quality", type=int, default=90, metavar="Q", help="of JPEG (default: %(default)s)")
    c.set_defaults(run=_write_patches)
    c = commands.add_parser("coords", help="write the coordinates of patches for TRIDENT and CLAM")
    c.add_argument("stores", metavar="STORE", nargs="+")
    c.add_argument("-o", dest="output", metavar="DIR", required=True, help="folder of the files, created if it does not exist")
    c.add_argument("--size", type=int, default=256, metavar="PX", help="of a patch (default: %(default)s)")
    c.add_argument("--step", type=int, metavar="PX", help="between patches (default: the size)")
    c.add_argument("--mpp", type=float, metavar="UM", help="um per px of the patches (default: the store's)")
    c.add_argument("--magnification", type=float, metavar="X", help="of the patches, instead of --mpp")
    c.add_argument("--min-tissue", type=float, default=0.5, metavar="F", help="least fraction of tissue (default: %(default)s)")
    c.add_argument("--report", metavar="CSV", help="only slides with a verdict of --keep in this table of h5spec report")
    c.add_argument("--keep", metavar="LIST", help="pass, not judged, review, fail, separated by commas (default: pass)")
    c.add_argument("--names", choices=("trident", "clam"), default="trident",
                   help="of the files: SLIDE_patches.h5 or SLIDE.h5 (default: %(default)s)")
    c.set_defaults(run=_write_coords)
    c = commands.add_parser("index", help="print a reference file (kerchunk) with which Zarr reads the store without HDF5")
    c.add_argument("store", metavar="STORE")
    c.add_argument("--url", help="where readers will find the store, such as s3://bucket/slide.h5 (default: its path)")
    c.set_defaults(run=_write_index)
    c = commands.add_parser("zarr", help="make NAME.ome.zarr beside each store: an OME-Zarr image whose level 0 is the store")
    c.add_argument("stores", metavar="STORE", nargs="+")
    c.add_argument("--copy", action="store_true", help="copy the store into it instead of a link")
    c.add_argument("--codec", choices=("zstd", "jpeg"), help="of the coarser levels (default: jpeg if the store keeps JPEG tiles)")
    c.add_argument("--force", action="store_true", help="also make an image that is up to date, or in a folder that is no image of a store")
    c.set_defaults(run=_write_zarr)
    c = commands.add_parser("dicom", help="write DICOM whole-slide images of the slide's own JPEG or JPEG 2000 tiles")
    c.add_argument("stores", metavar="STORE", nargs="+")
    c.add_argument("-o", dest="output", metavar="DIR", required=True, help="folder, created if it does not exist")
    c.add_argument("--key", metavar="FILE", help="a secret, without which nobody can tell the UIDs from the slide")
    c.add_argument("--meta", metavar="CSV", help="a table of slide and patient_id, patient_name, study_uid, accession_number")
    c.add_argument("--mpp", metavar="VALUE", type=float, help="um per px of the pixels of stores that state none: DICOM must state them")
    c.add_argument("--brightfield", action="store_true", help="the slides are, although nothing in them is as bright as glass")
    c.set_defaults(run=_write_dicom)
    c = commands.add_parser("windows", help="write the numbers of all windows of results as a table of Parquet")
    c.add_argument("results", metavar="RESULT", nargs="+", help="of h5spec, also merged ones")
    c.add_argument("-o", dest="output", metavar="FILE", required=True)
    c.set_defaults(run=_write_windows)
    o = p.parse_args()
    for n in SIGNALS:
        if signal.getsignal(n) != signal.SIG_IGN:
            signal.signal(n, _stop)
    try:
        sys.exit(_run(o))
    except Stopped as e:
        print("wsi-store: %s" % e, file=sys.stderr)
        sys.exit(STOPPED)


def _run(o: argparse.Namespace) -> int:
    try:
        from .base import StoreError
        from .publish import abort_all
    except ImportError as e:
        sys.exit("wsi-store: %s; it needs h5py and numpy: apt-get install python3-h5py, or pip install h5py" % e)
    try:
        status: int = o.run(o)
        return status
    except ImportError as e:
        sys.exit("wsi-store: %s; pip install %s" % (e, PACKAGES.get(str(e.name), e.name)))
    except (StoreError, ValueError, OSError, MemoryError) as e:
        _say("wsi-store: %s" % (e if str(e) else "out of memory"))
        return _status_of(e)
    finally:
        abort_all()
