"""Codecs of the chunks: each function returns unpack(bytes, (rows, columns, channels)) -> uint8 array."""
import collections
import contextlib
import ctypes
import glob
import os
import struct
import threading
import zlib

import h5py
import numpy as np

from .base import StoreError, h5py_file


def as_pixels(data, shape):
    return np.frombuffer(data, np.uint8).reshape(shape)


def _none():
    return as_pixels


def _deflate():
    try:
        import deflate
        return lambda data, shape: as_pixels(deflate.zlib_decompress(data, shape[0] * shape[1] * shape[2]), shape)
    except (ImportError, AttributeError):
        return lambda data, shape: as_pixels(zlib.decompress(data), shape)


def _lz4():
    import lz4.block

    def unpack(data, shape):
        n = shape[0] * shape[1] * shape[2]
        whole, block, packed = struct.unpack_from(">QII", data)
        if (whole, packed) != (n, len(data) - 16) or block < n:
            raise ValueError("its LZ4 header does not match the chunk")
        return as_pixels(lz4.block.decompress(memoryview(data)[16:], uncompressed_size=n), shape)
    return unpack


def _zstd():
    import zstandard
    local = threading.local()  # an unpacker belongs to one thread

    def unpack(data, shape):
        if not hasattr(local, "unpacker"):
            local.unpacker = zstandard.ZstdDecompressor()
        return as_pixels(local.unpacker.decompress(data, shape[0] * shape[1] * shape[2]), shape)
    return unpack


def _simplejpeg():
    from simplejpeg import decode_jpeg
    return lambda data, shape: decode_jpeg(data, "RGB", strict=True)


def _turbojpeg():
    import warnings

    import turbojpeg
    decode = turbojpeg.TurboJPEG().decode

    def unpack(data, shape):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # damage is a warning there
            return decode(data, pixel_format=turbojpeg.TJPF_RGB)
    return unpack


def _imagecodecs():
    from imagecodecs import jpeg8_decode
    return lambda data, shape: jpeg8_decode(data)


def _opencv():
    import cv2
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION

    def unpack(data, shape):
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if pixels is None:
            raise ValueError("OpenCV cannot decode it")
        return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
    return unpack


def _plugin_paths():
    here = os.path.dirname(os.path.realpath(__file__))
    folders = os.environ.get("HDF5_PLUGIN_PATH", "").split(os.pathsep)
    folders += [os.path.join(here, "plugins"), os.path.join(here, "..", "..", "..", "lib", "wsi2h5", "plugin"),
                os.path.join(here, "..", "..", "build"),
                "/usr/local/lib/wsi2h5/plugin", "/usr/lib/wsi2h5/plugin"]
    found = [p for f in folders if f for p in glob.glob(os.path.join(glob.escape(f), "libh5jpeg.so"))]
    return found + glob.glob("/usr/lib/*/hdf5/serial/plugins/libh5jpeg.so")  # the package hdf5-plugin-h5jpeg


def _plugin():
    """Our own plug-in: it needs no HDF5, and has a function that decodes the upper rows only."""
    paths = _plugin_paths()
    if not paths:
        raise ImportError("libh5jpeg.so")
    library = ctypes.CDLL(paths[0])
    decode = library.h5jpeg_decode_top
    decode.argtypes = [ctypes.c_uint * 4, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_void_p]

    def unpack(data, shape, top=0):
        out = np.empty((top or shape[0], *shape[1:]), np.uint8)
        values = (ctypes.c_uint * 4)(90, shape[1], shape[0], 1)
        if decode(values, data, len(data), len(out), out.ctypes.data):
            raise ValueError("it is damaged")
        return out
    unpack.partly = True
    return unpack


JPEG = collections.OrderedDict(plugin=_plugin, simplejpeg=_simplejpeg, turbojpeg=_turbojpeg, imagecodecs=_imagecodecs,
                               opencv=_opencv)
CODECS = {"none": _none, "deflate": _deflate, "lz4": _lz4, "zstd": _zstd}
# the compressor that Zarr calls for a codec; there is none for the chunks of lz4
ZARR = {"none": None, "deflate": {"id": "zlib", "level": 1}, "zstd": {"id": "zstd", "level": 1},
        "jpeg": {"id": "imagecodecs_jpeg"}}
REMEDY = {"lz4": "pip install lz4", "zstd": "pip install zstandard",
          "jpeg": "pip install simplejpeg, or set HDF5_PLUGIN_PATH to the folder of libh5jpeg.so"}


def find_unpacker(path, codec, jpeg):
    """The first of the codec's functions that works here, or None: HDF5 must unpack."""
    makers = JPEG if codec == "jpeg" else {None: CODECS[codec]} if codec in CODECS else {}
    for make in [makers[jpeg]] if codec == "jpeg" and jpeg else makers.values():
        try:
            return make()
        except (ImportError, OSError, RuntimeError, AttributeError):
            continue
    if codec != "jpeg" and _hdf5_unpacks(path):
        return None
    raise StoreError("%s: nothing here unpacks codec %s; %s" % (path, codec, REMEDY.get(codec, "pip install hdf5plugin")))


def _hdf5_unpacks(path):
    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401
    with h5py_file(path) as f:
        layout = next(iter(f["groups"].values()))["pixels"].id.get_create_plist()
        return all(h5py.h5z.filter_avail(layout.get_filter(k)[0]) for k in range(layout.get_nfilters()))
