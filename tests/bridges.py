"""What other programs read of a store: run by check_bridges.py in an environment that has them.

    python bridges.py NAME -- PATH... [-- PATH...]...     ends with 0 if all is equal in each row of paths
"""
import os
import sys
import warnings

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "scripts"))
import wsi_store
from wsi_store import Slide

warnings.simplefilter("ignore")


def pixels_of(store):
    with wsi_store.open_store(store) as s:
        return s.read_region(0, 0, s.width, s.height)


def equal(got, want, most=0):
    assert got.shape == want.shape, (got.shape, want.shape)
    most_found = int(np.abs(got.astype(int) - want).max())
    assert most_found <= most, "%d levels apart" % most_found


def zarr_python(store, image, most="0"):
    import zarr
    group = zarr.open_group(image, mode="r")
    want = pixels_of(store)
    equal(np.moveaxis(np.asarray(group["0"][:]), 0, 2), want, int(most))
    names = sorted(group.array_keys())
    assert names == [str(k) for k in range(len(names))], names
    for k in range(1, len(names)):
        want = wsi_store.halved(want)
        got = np.moveaxis(np.asarray(group[str(k)][:]), 0, 2)
        jpeg = "jpeg" in str(group[str(k)].metadata.to_dict()["codecs"])
        equal(got, want, 255 if jpeg else 0)
        assert np.abs(got.astype(int) - want).mean() < 6
    assert max(want.shape) <= 512, want.shape


def tensorstore(store, image):
    import tensorstore
    a = tensorstore.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": os.path.join(image, "0") + "/"}}).result()
    equal(np.moveaxis(a.read().result(), 0, 2), pixels_of(store))


def ome_zarr_models(store, image):
    import zarr
    from ome_zarr_models.v05 import Image
    parsed = Image.from_zarr(zarr.open_group(image, mode="r"))
    scales = parsed.ome_attributes.multiscales[0]
    assert [a.name for a in scales.axes] == ["c", "y", "x"], scales.axes
    with wsi_store.open_store(store) as s:
        unit = "micrometer" if s.mpp else None
        assert scales.axes[1].unit == unit, scales.axes
        for k, d in enumerate(scales.datasets):
            scale = d.coordinateTransformations[0].scale
            x, y = s.mpp or (1, 1)
            assert np.allclose(scale, [1, y * 2 ** k, x * 2 ** k]), scale


def dicom_openslide(store, dicom):
    from openslide import OpenSlide
    with OpenSlide(dicom) as o, Slide(store) as s:
        equal(np.asarray(o.read_region((0, 0), 0, o.dimensions))[:, :, :3], pixels_of(store))
        assert o.properties["openslide.vendor"] == "dicom"
        for name in ("openslide.mpp-x", "openslide.mpp-y"):
            assert abs(float(o.properties[name]) / float(s.properties[name]) - 1) < 1e-6, o.properties[name]


def dicom_pydicom(store, dicom):
    import pydicom
    from pydicom.pixels import iter_pixels
    ds = pydicom.dcmread(dicom)
    want, (rows, cols) = pixels_of(store), (ds.Rows, ds.Columns)
    across = -(-ds.TotalPixelMatrixColumns // cols)
    sparse = ds.get("PerFrameFunctionalGroupsSequence")
    n = 0
    for k, frame in enumerate(iter_pixels(dicom)):
        y, x = k // across * rows, k % across * cols
        if sparse:
            at = sparse[k].PlanePositionSlideSequence[0]
            y, x = at.RowPositionInTotalImagePixelMatrix - 1, at.ColumnPositionInTotalImagePixelMatrix - 1
        part = want[y:y + rows, x:x + cols]
        ycbcr = ds.PhotometricInterpretation == "YBR_FULL_422"  # pydicom converts with other roundings than libjpeg
        equal(frame.reshape(rows, cols, -1)[:part.shape[0], :part.shape[1]], part, most=int(ycbcr))
        n += 1
    assert n == ds.NumberOfFrames
    assert ds.PatientIdentityRemoved == "YES" and str(ds.PatientName) == ""


def dicom_places(store, dicom):
    """Where each frame lies on the slide follows from its place in the matrix (PS3.3, equation C.7.6.2.1-1)."""
    import pydicom
    ds = pydicom.dcmread(dicom, stop_before_pixels=True)
    along, down = (np.array([float(v) for v in ds.ImageOrientationSlide[k:k + 3]]) for k in (0, 3))
    dy, dx = (float(v) for v in ds.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0].PixelSpacing)
    first = ds.TotalPixelMatrixOriginSequence[0]
    first = np.array([float(first.XOffsetInSlideCoordinateSystem), float(first.YOffsetInSlideCoordinateSystem), 0])
    assert abs(along @ down) < 1e-9 and (abs(along).sum(), abs(down).sum()) == (1, 1)
    for item in ds.PerFrameFunctionalGroupsSequence:
        at = item.PlanePositionSlideSequence[0]
        i, j = at.ColumnPositionInTotalImagePixelMatrix - 1, at.RowPositionInTotalImagePixelMatrix - 1
        want = first + along * dx * i + down * dy * j
        stated = [float(at.get(k + "OffsetInSlideCoordinateSystem")) for k in "XYZ"]
        assert np.abs(want - stated).max() < 1e-7, (i, j, want, stated)
        try:
            from highdicom.spatial import PixelToReferenceTransformer
        except ImportError:
            continue
        affine = PixelToReferenceTransformer(first, [*along, *down], [dy, dx])
        assert np.abs(affine(np.array([[i, j]]))[0] - stated).max() < 1e-7, (i, j, stated)


def dicom_wsidicom(store, folder):
    from wsidicom import WsiDicom
    with WsiDicom.open(folder) as w, wsi_store.open_store(store) as s:
        equal(np.asarray(w.read_region((0, 0), 0, (s.width, s.height)).convert("RGB")), pixels_of(store))


def deepzoom(slide, store):
    """The same tiles as of the slide at level 0, through a program written for openslide-python."""
    from openslide import OpenSlide
    from openslide.deepzoom import DeepZoomGenerator
    with OpenSlide(slide) as o, Slide(store) as s:
        a, b = DeepZoomGenerator(o, 254, 1), DeepZoomGenerator(s, 254, 1)
        assert a.level_dimensions == b.level_dimensions
        last = a.level_count - 1
        columns, rows = a.level_tiles[last]
        for at in ((0, 0), (columns - 1, rows - 1), (columns // 2, 0)):
            equal(np.asarray(b.get_tile(last, at)), np.asarray(a.get_tile(last, at)))


def references(store, file):
    import fsspec
    import zarr
    fs = fsspec.filesystem("reference", fo=file, asynchronous=True, remote_protocol="file",
                           remote_options={"asynchronous": True, "auto_mkdir": False})
    group = zarr.open_group(zarr.storage.FsspecStore(fs, read_only=True), mode="r", zarr_format=2)
    equal(group["0"][:], pixels_of(store))
    assert "".join(group["0"].attrs["_ARRAY_DIMENSIONS"]) == "YXS"
    assert {"mpp", "objective_power"} <= set(group.attrs["multiscales"][0]["metadata"])


def parquet(table, result):
    import h5py
    import pyarrow.parquet
    t = pyarrow.parquet.read_table(table).to_pydict()
    with h5py.File(result, "r") as f:
        for name, slide in f["slides"].items():
            mean = slide["window_mean_db"][:]
            rows = [k for k, v in enumerate(t["slide"]) if v == name]
            assert len(rows) == slide.attrs["windows"], (len(rows), slide.attrs["windows"])
            for k in rows[:: max(len(rows) // 20, 1)]:
                stride = slide.attrs["stride"]
                assert mean[t["y"][k] // stride, t["x"][k] // stride] == np.float32(t["mean_db"][k])


if __name__ == "__main__":
    for row in "\0".join(sys.argv[2:]).split("--\0")[1:]:
        try:
            globals()[sys.argv[1]](*row.rstrip("\0").split("\0"))
        except Exception as e:
            raise AssertionError(row.replace("\0", " ")) from e
