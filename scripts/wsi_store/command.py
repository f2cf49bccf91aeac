"""The command wsi-store."""
from __future__ import annotations

import argparse
import csv
import json
import os
import sys

from .base import StoreError
from .store import Store, open_store


def _write_patches(o: argparse.Namespace) -> None:
    import PIL.Image
    with open_store(o.store) as s:
        os.makedirs(o.output, exist_ok=True)
        n = 0
        with open(os.path.join(o.output, "patches.csv"), "w", newline="") as f:
            table = csv.writer(f)
            table.writerow(["file", "x", "y", "size", "downsample"])
            for x, y, pixels in s.patches(o.size, o.stride, o.min_tissue, o.limit, o.seed):
                name = "x%06d_y%06d.%s" % (x, y, "jpg" if o.format == "jpeg" else "png")
                image = PIL.Image.fromarray(pixels if s.channels == 3 else pixels[:, :, 0])
                image.save(os.path.join(o.output, name), **({"quality": o.quality} if o.format == "jpeg" else {}))
                table.writerow([name, x, y, o.size, s.downsample])
                n += 1
    print("%d patches and patches.csv in %s" % (n, o.output), file=sys.stderr)


def _write_index(o: argparse.Namespace) -> None:
    if o.url == "":
        raise ValueError("--url: the address is empty")
    with Store(o.store, True, None, 0) as s:
        json.dump(s.references(o.url), sys.stdout)
    print()


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
    c.add_argument("--format", choices=("png", "jpeg"), default="png", help="default: %(default)s")
    c.add_argument("--quality", type=int, default=90, metavar="Q", help="of JPEG (default: %(default)s)")
    c.set_defaults(run=_write_patches)
    c = commands.add_parser("index", help="print a reference file (kerchunk) with which Zarr reads the store without HDF5")
    c.add_argument("store", metavar="STORE")
    c.add_argument("--url", help="where readers will find the store, such as s3://bucket/slide.h5 (default: its path)")
    c.set_defaults(run=_write_index)
    o = p.parse_args()
    try:
        o.run(o)
    except ImportError as e:
        sys.exit("wsi-store: %s; pip install pillow" % e)
    except (StoreError, ValueError, OSError) as e:
        sys.exit("wsi-store: %s" % e)
