"""Codecs of the chunks: each function returns unpack(bytes, (rows, columns, channels)) -> uint8 array."""
from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
import zlib
from typing import Any, Callable

import numpy as np

from .base import Array, StoreError
from .filters import J2K_NAME, NAME, plugin_paths

Shape = tuple[int, int, int]
Unpack = Callable[..., Array]
JP2_BOXES = 85  # bytes before the codestream in a chunk of codec j2k (FORMAT.md)
SRGB, SYCC = 16, 18  # colour spaces of a JP2 file


def as_pixels(data: Any, shape: Shape) -> Array:
    return np.frombuffer(data, np.uint8).reshape(shape)


def _none() -> Unpack:
    return as_pixels


def _deflate() -> Unpack:
    try:
        import deflate
        return lambda data, shape: as_pixels(deflate.zlib_decompress(data, shape[0] * shape[1] * shape[2]), shape)
    except (ImportError, AttributeError):
        return lambda data, shape: as_pixels(zlib.decompress(data), shape)


def _lz4() -> Unpack:
    import lz4.block

    def unpack(data: bytes, shape: Shape) -> Array:
        n = shape[0] * shape[1] * shape[2]
        whole, block, packed = struct.unpack_from(">QII", data)
        if (whole, packed) != (n, len(data) - 16) or block < n:
            raise ValueError("its LZ4 header does not match the chunk")
        return as_pixels(lz4.block.decompress(memoryview(data)[16:], uncompressed_size=n), shape)
    return unpack


def _zstd() -> Unpack:
    import zstandard
    local = threading.local()  # an unpacker belongs to one thread

    def unpack(data: bytes, shape: Shape) -> Array:
        if not hasattr(local, "unpacker"):
            local.unpacker = zstandard.ZstdDecompressor()
        return as_pixels(local.unpacker.decompress(data, shape[0] * shape[1] * shape[2]), shape)
    return unpack


def _simplejpeg() -> Unpack:
    from simplejpeg import decode_jpeg
    return lambda data, shape: decode_jpeg(data, "RGB" if shape[2] == 3 else "GRAY", strict=True)


def _turbojpeg() -> Unpack:
    import warnings

    import turbojpeg
    decode = turbojpeg.TurboJPEG().decode

    def unpack(data: bytes, shape: Shape) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # damage is a warning there
            return np.asarray(decode(data, pixel_format=turbojpeg.TJPF_RGB if shape[2] == 3 else turbojpeg.TJPF_GRAY))
    return unpack


def _imagecodecs() -> Unpack:
    from imagecodecs import jpeg8_decode
    return lambda data, shape: np.atleast_3d(jpeg8_decode(data))


def _opencv() -> Unpack:
    import cv2

    def unpack(data: bytes, shape: Shape) -> Array:
        colour = cv2.IMREAD_COLOR if shape[2] == 3 else cv2.IMREAD_GRAYSCALE
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), colour | cv2.IMREAD_IGNORE_ORIENTATION)
        if pixels is None:
            raise ValueError("OpenCV cannot decode it")
        return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)) if shape[2] == 3 else np.atleast_3d(pixels)
    return unpack


class Plugin:
    """Our own plug-in: it needs no HDF5, and has a function that decodes a part of a chunk."""

    def __init__(self, path: str) -> None:
        self._decode = ctypes.CDLL(path).h5jpeg_decode_part
        four = ctypes.c_uint * 4
        self._decode.argtypes = [four, ctypes.c_char_p, ctypes.c_size_t, four, ctypes.c_size_t, ctypes.c_void_p]
        self._four = four

    def __call__(self, data: bytes, shape: Shape) -> Array:
        out = np.empty(shape, np.uint8)
        self.part(data, shape, 0, 0, out)
        return out

    def part(self, data: bytes, shape: Shape, row: int, col: int, out: Array) -> None:
        """Decodes out.shape pixels of the chunk, from (row, col) on. Rows of `out` may lie apart, pixels may not."""
        rows, cols = out.shape[:2]
        if self._decode(self._four(90, shape[1], shape[0], shape[2] == 3), data, len(data),
                        self._four(col, row, cols, rows), out.strides[0], out.ctypes.data):
            raise ValueError("it is damaged")


def _plugin() -> Unpack:
    for path in plugin_paths():
        with contextlib.suppress(OSError, AttributeError):  # made for another machine, or older than this function
            return Plugin(path)
    raise ImportError(NAME)


def _j2k_plugin() -> Unpack:
    """Our own plug-in for JPEG 2000."""
    for path in plugin_paths(J2K_NAME):
        with contextlib.suppress(OSError, AttributeError):
            decode = ctypes.CDLL(path).h5j2k_decode
            decode.argtypes = [ctypes.c_uint * 4, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]

            def unpack(data: bytes, shape: Shape) -> Array:
                out = np.empty(shape, np.uint8)
                if decode((ctypes.c_uint * 4)(1, shape[1], shape[0], 1), bytes(data), len(data), out.ctypes.data):
                    raise ValueError("it is damaged")
                return out
            return unpack
    raise ImportError(J2K_NAME)


def _j2k_imagecodecs() -> Unpack:
    """Chunks in sRGB alone: imagecodecs rounds YCbCr otherwise than FORMAT.md says."""
    from imagecodecs import jpeg2k_decode

    def unpack(data: bytes, shape: Shape) -> Array:
        if struct.unpack_from(">I", data, data.find(b"colr", 0, JP2_BOXES) + 7)[0] != SRGB:
            raise ValueError("its colours are YCbCr, which only %s converts" % J2K_NAME)
        return np.asarray(jpeg2k_decode(data)).reshape(shape)
    return unpack


JPEG: dict[str, Callable[[], Unpack]] = {"plugin": _plugin, "simplejpeg": _simplejpeg, "turbojpeg": _turbojpeg,
                                         "imagecodecs": _imagecodecs, "opencv": _opencv}
J2K = (_j2k_plugin, _j2k_imagecodecs)
CODECS = {"none": _none, "deflate": _deflate, "lz4": _lz4, "zstd": _zstd}
# the compressor of Zarr 2 for a codec: those of numcodecs and of imagecodecs
ZARR = {"none": None, "deflate": {"id": "zlib", "level": 1}, "zstd": {"id": "zstd", "level": 1},
        "lz4": {"id": "imagecodecs_lz4h5"}, "jpeg": {"id": "imagecodecs_jpeg"}, "j2k": {"id": "imagecodecs_jpeg2k"}}
REMEDY = {"lz4": "pip install lz4", "zstd": "pip install zstandard",
          "jpeg": "pip install simplejpeg, or set HDF5_PLUGIN_PATH to the folder of libh5jpeg.so",
          "j2k": "pip install imagecodecs, or set HDF5_PLUGIN_PATH to the folder of libh5j2k.so"}


def find_unpacker(path: str, codec: str, jpeg: str | None, hdf5_unpacks: Callable[[], bool]) -> Unpack | None:
    """The first of the codec's functions that works here, or None: HDF5 must unpack."""
    makers = [CODECS[codec]] if codec in CODECS else []
    if codec == "j2k":
        makers = list(J2K)
    if codec == "jpeg":
        makers = [JPEG[jpeg]] if jpeg else list(JPEG.values())
    for make in makers:
        try:
            return make()
        except (ImportError, OSError, RuntimeError, AttributeError):
            continue
    if codec != "jpeg" and hdf5_unpacks():
        return None
    raise StoreError("%s: nothing here unpacks codec %s; %s" % (path, codec, REMEDY.get(codec, "pip install hdf5plugin")))
