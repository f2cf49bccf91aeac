"""Python libraries beside our programs; tests/bench runs them.

bench_python.py tifffile SLIDE OUT.h5     tifffile and imagecodecs decode, deflate packs, h5py's write_direct_chunk writes
bench_python.py wsic SLIDE OUT.zarr       wsic transcode keeps the tiles
bench_python.py patches-h5 STORE.h5       random patches of 256 x 256 px through h5py, per processor second
bench_python.py patches-reader STORE.h5   the same through scripts/wsi_store
bench_python.py patches-loader STORE.h5   the same through its dataset and PyTorch's DataLoader, all processes together
bench_python.py patches-cucim SLIDE       the same through cuCIM

wsic 0.9.0 does not run with zarr 3: its row was measured with wsic==0.8.2 zarr==2.18.7 numcodecs==0.13.1 numpy==1.26.4
tifffile==2023.7.10 imagecodecs==2023.9.18 xarray==2023.8.0 dask[distributed]==2023.9.3.
"""
import os
import random
import sys
import time

PATCH, SECONDS = 256, 4.0


def tifffile_h5(slide, out):
    import h5py
    import imagecodecs
    import tifffile
    page = tifffile.TiffFile(slide).pages[0]
    height, width = page.shape[:2]
    rows, cols = page.tilelength, page.tilewidth
    across = -(-width // cols)
    with h5py.File(out, "w", libver="latest") as f:
        d = f.create_dataset("pixels", (height, width, 3), "uint8", chunks=(rows, cols, 3), compression="gzip",
                             compression_opts=1)
        for data, k in page.parent.filehandle.read_segments(page.dataoffsets, page.databytecounts, sort=False):
            tile = page.decode(data, k, jpegtables=page.jpegtables, _fullsize=True)[0].reshape(rows, cols, 3)
            packed = imagecodecs.deflate_encode(tile, level=1, raw=False)
            d.id.write_direct_chunk((k // across * rows, k % across * cols, 0), packed)


def wsic(slide, out):
    from wsic.cli import main
    sys.argv = ["wsic", "transcode", "-i", slide, "-o", out.replace(".h5", ".zarr"), "--overwrite"]
    main()


def patches(read, width, height):
    random.seed(1)
    places = [(random.randrange(width - PATCH), random.randrange(height - PATCH)) for _ in range(100000)]
    read(*places[0])
    begun, n = time.process_time(), 0
    while time.process_time() - begun < SECONDS:
        n += 1
        if read(*places[n]).shape != (PATCH, PATCH, 3):
            sys.exit("a patch of another shape")
    print("%.0f" % (n / (time.process_time() - begun)))


def patches_h5(store):
    import h5py
    d = h5py.File(store)["pixels"]
    patches(lambda x, y: d[y:y + PATCH, x:x + PATCH], d.shape[1], d.shape[0])


def patches_reader(store):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts"))
    import wsi_store
    s = wsi_store.open_store(store)
    patches(lambda x, y: s.read_region(x, y, PATCH, PATCH), s.width, s.height)


def patches_loader(store):
    import resource
    import numpy
    from torch.utils.data import DataLoader
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts"))
    import wsi_store
    s = wsi_store.open_store(store)
    n = 30000 if s.codec == "none" else 5000
    places = numpy.random.default_rng(1).integers(0, (s.width - PATCH, s.height - PATCH), (n, 2))
    data = wsi_store.Patches([s], PATCH, places=[places])

    def used():
        return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    begun = used()
    loader = iter(DataLoader(data, batch_size=64, num_workers=2, collate_fn=data.collate))
    if sum(len(pixels) for pixels, _ in loader) != n:
        sys.exit("patches are missing")
    del loader  # the workers have ended and their time is counted
    print("%.0f" % (n / (used() - begun)))


def patches_cucim(slide):
    import numpy
    from cucim import CuImage
    c = CuImage(slide)
    width, height = c.resolutions["level_dimensions"][0]
    patches(lambda x, y: numpy.asarray(c.read_region((x, y), (PATCH, PATCH), 0)), width, height)


def main(how, *paths):
    {"tifffile": tifffile_h5, "wsic": wsic, "patches-h5": patches_h5,
     "patches-reader": patches_reader, "patches-loader": patches_loader, "patches-cucim": patches_cucim}[how](*paths)


main(*sys.argv[1:])
