"""What a user of Python writes: the tiles of a slide decoded by imagecodecs, into an HDF5 file. One thread.

    bench_script.py none|deflate SLIDE OUT.h5
"""
import sys

import h5py
import imagecodecs
import tifffile


def main(codec, slide, path):
    with tifffile.TiffFile(slide) as tiff, h5py.File(path, "w") as f:
        page = tiff.pages[0]
        height, width, tile = page.imagelength, page.imagewidth, page.tilelength
        options = {} if codec == "none" else {"compression": "gzip", "compression_opts": 1}
        rows, columns = -(-height // tile), -(-width // tile)
        ds = f.create_dataset("pixels", (rows * tile, columns * tile, 3), "u1", chunks=(tile, tile, 3), **options)
        outspace = None if page.photometric == tifffile.PHOTOMETRIC.YCBCR else "rgb"
        for k, (offset, size) in enumerate(zip(page.dataoffsets, page.databytecounts)):
            tiff.filehandle.seek(offset)
            pixels = imagecodecs.jpeg8_decode(tiff.filehandle.read(size), tables=page.jpegtables, colorspace=outspace, outcolorspace="rgb")
            data = pixels.tobytes()
            if codec == "deflate":
                data = imagecodecs.deflate_encode(data, level=1, raw=False)
            ds.id.write_direct_chunk((k // columns * tile, k % columns * tile, 0), data)


main(*sys.argv[1:])
