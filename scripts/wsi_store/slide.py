"""A store with the interface of openslide-python, so that programs written for slides read stores.

Names and meanings are those of openslide.OpenSlide 1.4. Level 0 is the level of the store, and each further level has
half the size of the one before, rounded up, down to 512 px. Where wsi-store zarr has made them, levels are read from
NAME.ome.zarr beside the store. Else levels 1 to 3 come from the scaled decoding of JPEG, deeper ones and those of other
codecs are means of 2 x 2 px. (A resolution of JPEG 2000 keeps the even pixels, so it is shifted against the means.)
"""
from __future__ import annotations

import concurrent.futures
import functools
import io
import math
from typing import Any, Mapping

import numpy as np
import PIL.Image

from .base import WHITE, Array, StoreError
from .files import Path
from .ome_zarr import SMALLEST, Level, halved, made_levels
from .store import Store

SCALED = 3  # levels that are made chunk by chunk: 1/2, 1/4, 1/8
CHUNKS_KEPT = 256  # decoded chunks of levels, of one slide


class Slide:
    """A store as a slide. Whatever is wrong raises StoreError. It can be pickled, and used by several threads."""

    def __init__(self, filename: Path) -> None:
        self._store = s = Store(filename, True, None, 16 << 20)
        self.level_count, longer = 1, max(s.width, s.height)
        while longer > SMALLEST:
            self.level_count, longer = self.level_count + 1, -(-longer // 2)
        # where a level is stored or decoded; None: it is made of the one before
        self._levels: list[Level | _Scaled | None] = [None] * self.level_count
        made = made_levels(s)
        for k in range(1, self.level_count):
            if k <= len(made):
                self._levels[k] = made[k - 1]
            elif k <= SCALED and s.codec in ("jpeg", "j2k") and not any(n % 2 ** k for n in s._chunk[:2]):
                self._levels[k] = _Scaled(s, k)
        self._chunk = functools.lru_cache(CHUNKS_KEPT)(self._decoded)

    # --- as in openslide-python ---

    @classmethod
    def detect_format(cls, filename: Path) -> str | None:
        """The vendor of the slide, such as aperio; None: not a store."""
        try:
            with Store(filename, True, None, 0) as s:
                return str(s.attrs.get("vendor") or "wsi-patch-store")
        except StoreError:
            return None

    @property
    def level_dimensions(self) -> tuple[tuple[int, int], ...]:
        s = self._store
        return tuple((-(-s.width // 2 ** k), -(-s.height // 2 ** k)) for k in range(self.level_count))

    @property
    def dimensions(self) -> tuple[int, int]:
        return self._store.width, self._store.height

    @property
    def level_downsamples(self) -> tuple[float, ...]:
        return tuple(float(2 ** k) for k in range(self.level_count))

    @property
    def properties(self) -> Mapping[str, str]:
        s = self._store
        p = {k: str(v) for k, v in s.properties.items() if not k.startswith("openslide.level")}
        p["openslide.level-count"] = str(self.level_count)
        for k, ((w, h), d) in enumerate(zip(self.level_dimensions, self.level_downsamples)):
            p.update({"openslide.level[%d].%s" % (k, name): "%.15g" % v
                      for name, v in (("width", w), ("height", h), ("downsample", d))})
        if s.mpp:
            p["openslide.mpp-x"], p["openslide.mpp-y"] = ("%.15g" % v for v in s.mpp)
        if "objective_power" in s.attrs:
            p["openslide.objective-power"] = "%.15g" % (float(s.attrs["objective_power"]) / s.downsample)
        p["openslide.vendor"] = str(s.attrs.get("vendor") or "wsi-patch-store")
        if s.attrs.get("quickhash"):
            p["openslide.quickhash-1"] = str(s.attrs["quickhash"])
        if self._profile is not None:
            p["openslide.icc-size"] = str(len(self._profile))
        return p

    @property
    def associated_images(self) -> Mapping[str, PIL.Image.Image]:
        t = self._store.thumbnail
        return {} if t is None else {"thumbnail": self._with_profile(PIL.Image.fromarray(t).convert("RGBA"))}

    @property
    def color_profile(self) -> Any:
        """A profile of PIL.ImageCms, or None."""
        if self._profile is None:
            return None
        from PIL import ImageCms
        return ImageCms.getOpenProfile(io.BytesIO(self._profile))

    def get_best_level_for_downsample(self, downsample: float) -> int:
        return max(min(int(math.log2(downsample)) if downsample >= 1 else 0, self.level_count - 1), 0)

    def read_region(self, location: tuple[int, int], level: int, size: tuple[int, int]) -> PIL.Image.Image:
        """RGBA. `location` is in px of level 0, `size` in px of `level`. What lies outside of the slide is transparent."""
        (x, y), (w, h) = location, size
        if w < 0 or h < 0:
            raise StoreError("%s: size %d x %d is negative" % (self._store.path, w, h))
        image = None
        if 0 <= level < self.level_count:
            x, y = int(x) >> level, int(y) >> level
            width, height = self.level_dimensions[level]
            x0, y0, x1, y1 = max(x, 0), max(y, 0), min(x + w, width), min(y + h, height)
            if x0 < x1 and y0 < y1:
                image = _opaque(self._read(level, x0, y0, x1 - x0, y1 - y0))
        if image is None or image.size != (w, h):
            part, image = image, PIL.Image.new("RGBA", (w, h))
            if part is not None:
                image.paste(part, (x0 - x, y0 - y))
        return self._with_profile(image)

    def get_thumbnail(self, size: tuple[int, int]) -> PIL.Image.Image:
        """RGB, at most `size`. From the store's own thumbnail if that is large enough."""
        w, h = self.dimensions
        scale = max(w / max(size[0], 1), h / max(size[1], 1), 1.0)
        own = self._store.thumbnail
        if own is not None and own.shape[1] * scale >= w - 1 and own.shape[0] * scale >= h - 1:
            image = PIL.Image.fromarray(own)
        else:
            level = self.get_best_level_for_downsample(scale)
            image = self.read_region((0, 0), level, self.level_dimensions[level]).convert("RGB")
        image.thumbnail((max(size[0], 1), max(size[1], 1)), PIL.Image.Resampling.LANCZOS)
        return self._with_profile(image)

    def set_cache(self, cache: Any) -> None:
        """Nothing is shared: each slide bounds its own cache."""
        if cache is None or isinstance(cache, (int, float)):
            raise TypeError("not a cache: %r" % (cache,))

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Slide:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Slide, (self._store.path,)

    def __repr__(self) -> str:
        return "Slide(%r)" % self._store.path

    # --- levels ---

    @functools.cached_property
    def _profile(self) -> bytes | None:
        return self._store.icc_profile

    def _with_profile(self, image: PIL.Image.Image) -> PIL.Image.Image:
        if self._profile is not None:
            image.info["icc_profile"] = self._profile
        return image

    def _read(self, level: int, x: int, y: int, w: int, h: int) -> Array:
        """uint8 [h][w][channels] of a level, from column x, row y on, all inside."""
        if level == 0:
            return self._store.read_region(x, y, w, h)
        source = self._levels[level]
        if source is None:
            width, height = self.level_dimensions[level - 1]
            return halved(self._read(level - 1, 2 * x, 2 * y, min(2 * w, width - 2 * x), min(2 * h, height - 2 * y)))
        out = np.empty((h, w, self._store.channels), np.uint8)
        rows, cols = source.rows, source.cols
        places = [(r, k) for r in range(y // rows, -(-(y + h) // rows)) for k in range(x // cols, -(-(x + w) // cols))]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for (r, k), chunk in zip(places, pool.map(lambda p: self._chunk(level, *p), places)):
                a, b = max(x, k * cols), min(x + w, (k + 1) * cols)
                top, end = max(y, r * rows), min(y + h, (r + 1) * rows)
                out[top - y:end - y, a - x:b - x] = chunk[top - r * rows:end - r * rows, a - k * cols:b - k * cols]
        return out

    def _decoded(self, level: int, r: int, k: int) -> Array:
        source = self._levels[level]
        assert source is not None
        try:
            return source.chunk(r, k)
        except StoreError:
            raise
        except Exception as e:  # each library has its own kinds
            raise StoreError("%s: chunk (%d, %d) of level %d cannot be unpacked: %s; make the store again with --force"
                             % (self._store.path, r, k, level, e)) from e


def _opaque(pixels: Array) -> PIL.Image.Image:
    """As RGBA. Pillow adds alpha five times as fast as numpy."""
    image = PIL.Image.fromarray(pixels) if pixels.shape[2] == 3 else PIL.Image.fromarray(pixels[:, :, 0]).convert("RGB")
    image.putalpha(255)
    return image


class _Scaled:
    """A level that is made of kept tiles, one by one: by the decoder of JPEG, or of their pixels."""

    def __init__(self, s: Store, level: int) -> None:
        self._store, self._level = s, level
        self.rows, self.cols = s._chunk[0] >> level, s._chunk[1] >> level

    def chunk(self, r: int, k: int) -> Array:
        s = self._store
        rows, cols, _ = s._chunk
        found = s.chunk_bytes(r, k)
        if found is None:
            return np.full((self.rows, self.cols, s.channels), WHITE, np.uint8)
        if s.codec != "jpeg" or found[1] or (r + 1) * rows > s.height or (k + 1) * cols > s.width:
            return self._means(s.read_region(k * cols, r * rows, cols, rows, "clip"))  # nothing beyond the slide
        image: Any = PIL.Image.open(io.BytesIO(found[0]))
        image.draft(None, (self.cols, self.rows))
        image.load()  # only then the size is that of the reduced picture
        pixels: Array = np.atleast_3d(np.asarray(image))
        if pixels.shape != (self.rows, self.cols, s.channels):
            raise ValueError("it has another size")
        return pixels

    def _means(self, pixels: Array) -> Array:
        for _ in range(self._level):
            pixels = halved(pixels)
        out = np.full((self.rows, self.cols, pixels.shape[2]), WHITE, np.uint8)
        out[:pixels.shape[0], :pixels.shape[1]] = pixels
        return out
