"""A store as DICOM: a VL Whole Slide Microscopy Image (PS3.3, A.32.8) whose frames are the slide's own tiles.

Only stores that keep JPEG or JPEG 2000 tiles can be written: nothing is encoded again. pydicom writes.

    tiles            TILED_FULL if all of them are whole; else TILED_SPARSE without those that are missing, damaged or left out
    JPEG             1.2.840.10008.1.2.4.50; photometric interpretation as the Adobe marker states. YCbCr frames are
                     without that marker, as pydicom converts those that have it twice
    JPEG 2000        1.2.840.10008.1.2.4.91, the codestreams, without the boxes of JP2
    thumbnail        a second instance of the series, ImageType THUMBNAIL, not compressed
    um per px        those of the store, or `mpp`: the standard requires a spacing, so a store without any is an error
    positions        of TILED_SPARSE: from the corner of the picture, along ImageOrientationSlide (PS3.3, C.7.6.2.1.1)
    de-identified    no name, date or time but FIXED_TIME; the patient's ID and the container are digits of the quickhash
    light            brightfield, as the converter saw bright glass; a store without any is an error, unless `brightfield` says so
    colours          the profile of the slide, or sRGB, which readers take where a slide states none
    device           the vendor; model and serial number are "unknown". The standard requires the words AUTO (focus), NO (extended
                     depth of field) and a depth of 1 um: no store knows them
    UIDs             2.25 and 120 bits of SHA-256 over the key, the quickhash and what they name: a second run gives the same
"""
from __future__ import annotations

import csv
import hashlib
import os
import struct
from typing import Any, Mapping, Sequence

import numpy as np

from .base import StoreError
from .codecs import JP2_BOXES, SYCC
from .files import Path, View
from .publish import Outputs, open_regular
from .store import Store

CLASS = "1.2.840.10008.5.1.4.1.1.77.1.6"  # VL Whole Slide Microscopy Image Storage
JPEG, JPEG_2000, PLAIN = "1.2.840.10008.1.2.4.50", "1.2.840.10008.1.2.4.91", "1.2.840.10008.1.2.1"
FIXED_TIME = "19700101000000"  # the standard requires a time of acquisition
IMPLEMENTATION, WHAT = "2.25.294136217311226131271946612331126", "a DICOM file made by wsi-store"
MPP = 0.02, 50.0  # what a scanner can have
ORIENTATION = (0, -1, 0, -1, 0, 0)  # on the slide: where columns go (x, y, z), and where rows go
META = ("patient_id", "patient_name", "study_uid", "accession_number")  # what a table may say of a slide


def write_dicom(store: Path, output: Path, key: bytes = b"", meta: Mapping[str, str] | None = None,
                outputs: Outputs | None = None, mpp: float | None = None, brightfield: bool = False) -> list[str]:
    """Writes OUTPUT/NAME.dcm, and OUTPUT/NAME.thumbnail.dcm if the store has a thumbnail: their paths. `meta`: values of
    META for this slide. Without them nothing identifies the patient. `outputs`: those of the run that this is a part of.
    `mpp`: um per px of the store's pixels, for a store that states none. `brightfield`: so is the slide, although nothing in
    it is as bright as glass."""
    meta = dict(meta or {})
    if set(meta) - set(META):
        raise ValueError("unknown names: %s" % ", ".join(sorted(set(meta) - set(META))))
    if mpp is not None and not MPP[0] <= mpp <= MPP[1]:
        raise StoreError("um per px must be from %g to %g, not %g" % (*MPP, mpp))
    with Store(store, True, None, 0) as s:
        name = os.path.splitext(os.path.basename(os.fspath(store)))[0]
        if s.attrs.get("tissue_missing") and not brightfield:
            raise StoreError("%s: how it was lit is unknown (%s), and DICOM must state it; --brightfield says that it is brightfield"
                             % (s.path, s.attrs["tissue_missing"]))
        if s.mpp is None and mpp is not None:  # this Store is ours
            s.mpp = (mpp, mpp)
        uids, files = _Uids(key, s), outputs or Outputs([store])
        images = [(os.path.join(os.fspath(output), name + ".dcm"), _slide(s, uids, meta))]
        if s.thumbnail is not None:
            images.append((os.path.join(os.fspath(output), name + ".thumbnail.dcm"), _thumbnail(s, uids, meta)))
        for path, _ in images:  # both or none
            files.check(path, WHAT, _is_ours)
        for path, ds in images:
            with files.create(path, WHAT, _is_ours) as f:
                ds.save_as(f, enforce_file_format=True)
        return [path for path, _ in images]


def _is_ours(path: str) -> bool:
    with open_regular(path) as f:
        head = f.read(1024)
    return head[128:132] == b"DICM" and IMPLEMENTATION.encode() in head


def table_of(path: Path) -> dict[str, dict[str, str]]:
    """Slide: its values of META, from a CSV with the columns slide and some of META."""
    with open(path, newline="", encoding="utf-8-sig") as f:
        table = csv.DictReader(f)
        names = set(table.fieldnames or ())
        if "slide" not in names or names - {"slide", *META}:
            raise StoreError("%s: its columns must be slide and some of %s" % (os.fspath(path), ", ".join(META)))
        return {row["slide"]: {k: row[k] for k in META if row.get(k)} for row in table}


class _Uids:
    def __init__(self, key: bytes, s: Store) -> None:
        self._seed = key + b"\0" + (s.attrs.get("quickhash") or hashlib.sha256(os.fsencode(str(s.path))).hexdigest()).encode()

    def __call__(self, what: str) -> str:
        return "2.25.%d" % (int.from_bytes(hashlib.sha256(self._seed + b"\0" + what.encode()).digest()[:15], "big"))

    def digits(self, what: str) -> str:
        return hashlib.sha256(self._seed + b"\0" + what.encode()).hexdigest()[:16].upper()


class _Frame(View):
    """The bytes of a tile, read when pydicom writes them, so that no more than one is in memory."""

    def __init__(self, s: Store, row: int, column: int, n: int, cut: slice) -> None:
        super().__init__(n - (cut.stop - cut.start))
        self._where = s, row, column, cut

    def part(self, n: int, at: int) -> bytes:
        s, row, column, cut = self._where
        chunk = s.chunk_bytes(row, column)
        data = chunk[0] if chunk else b""
        return (data[:cut.start] + data[cut.stop:])[at:at + n]


def _slide(s: Store, uids: _Uids, meta: Mapping[str, str]) -> Any:
    from pydicom.encaps import encapsulate_buffer
    if s.codec not in ("jpeg", "j2k"):
        raise StoreError("%s: its tiles are not those of the slide (codec %s); convert the slide with --codec keep" % (s.path, s.codec))
    status = s.tile_status
    places = [(int(r), int(k)) for r, k in np.argwhere(status == 0)]
    if not places:
        raise StoreError("%s: none of its tiles is whole" % s.path)
    ds = _image(s, uids, meta, "slide", ["ORIGINAL", "PRIMARY", "VOLUME", "NONE"], (s.width, s.height), s._chunk[:2])
    first = s.chunk_bytes(*places[0])
    assert first is not None
    ds.PhotometricInterpretation = _photometric(s, first[0])
    ds.SamplesPerPixel = s.channels
    if s.channels == 3:
        ds.PlanarConfiguration = 0
    else:
        ds.PresentationLUTShape, ds.RescaleSlope, ds.RescaleIntercept = "IDENTITY", "1", "0"
    ds.NumberOfFrames = len(places)
    if len(places) < status.size:
        _sparse(ds, s, places, status)
    sizes = [g.bytes[r][k] for g, r, k in s._chunks_in_order(places)]
    j2k, ycbcr = s.codec == "j2k", ds.PhotometricInterpretation.startswith("YBR")
    cut = slice(0, JP2_BOXES) if j2k else slice(2, 18) if ycbcr else slice(0, 0)  # 2 to 18: the Adobe marker
    raw = s.width * s.height * s.channels
    ds.LossyImageCompression = "01"
    ds.LossyImageCompressionRatio = "%.4g" % max(raw / max(sum(sizes), 1), 1)
    ds.LossyImageCompressionMethod = "ISO_15444_1" if j2k else "ISO_10918_1"
    ds.PixelData = encapsulate_buffer([_Frame(s, r, k, n, cut) for (r, k), n in zip(places, sizes)], has_bot=False)
    ds["PixelData"].VR = "OB"
    ds["PixelData"].is_undefined_length = True
    ds.file_meta = _file_meta(ds, JPEG_2000 if j2k else JPEG)
    return ds


def _photometric(s: Store, data: bytes) -> str:
    """What the first tile states: JPEG in its Adobe marker, JPEG 2000 in its colour space and its coding style."""
    if s.channels == 1:
        return "MONOCHROME2"
    if s.codec == "jpeg":
        at = data.find(b"\xff\xee\x00\x0eAdobe")
        return "RGB" if at < 0 or data[at + 15] == 0 else "YBR_FULL_422"
    space = struct.unpack_from(">I", data, data.find(b"colr", 0, JP2_BOXES) + 7)[0]
    if space == SYCC:
        raise StoreError("%s: its JPEG 2000 tiles hold YCbCr, which readers of DICOM do not convert; no DICOM is written" % s.path)
    style = data.find(b"\xff\x52", JP2_BOXES)  # COD: length, style, progression, layers, transformation of components
    several, levels_at = data[style + 8], style + 9
    reversible = data[levels_at + 4] == 1
    return ("YBR_RCT" if reversible else "YBR_ICT") if several else "RGB"


def _sparse(ds: Any, s: Store, places: Sequence[tuple[int, int]], status: Any) -> None:
    """Says where each frame lies. Tiles without a frame read as background."""
    from pydicom.dataset import Dataset
    rows, cols = s._chunk[:2]
    ds.DimensionOrganizationType = "TILED_SPARSE"
    counts = [int((status == k).sum()) for k in (1, 2, 3)]
    ds.ImageComments = "%d tiles missing, %d damaged, %d left out as background have no frame" % tuple(counts)
    frames = []
    for r, k in places:
        item, content, plane = Dataset(), Dataset(), Dataset()
        content.DimensionIndexValues = [k + 1, r + 1]
        item.FrameContentSequence = [content]
        plane.ColumnPositionInTotalImagePixelMatrix = k * cols + 1
        plane.RowPositionInTotalImagePixelMatrix = r * rows + 1
        x, y, z = _place(s, k * cols, r * rows)
        plane.XOffsetInSlideCoordinateSystem, plane.YOffsetInSlideCoordinateSystem, plane.ZOffsetInSlideCoordinateSystem = x, y, z
        item.PlanePositionSlideSequence = [plane]
        frames.append(item)
    ds.PerFrameFunctionalGroupsSequence = frames


def _um(s: Store) -> tuple[float, float]:
    if s.mpp is None:
        raise StoreError("%s: its um per px are unknown, and DICOM must state them; give --mpp VALUE, or convert the slide with "
                         "--mpp-override" % s.path)
    return s.mpp


def _place(s: Store, column: int, row: int) -> list[str]:
    """Where a pixel lies on the slide, mm, if the first one lies at (0, 0, 0): x, y, z."""
    across, down = (um / 1000 * n for um, n in zip(_um(s), (column, row)))
    return ["%.10g" % (0.0 + across * ORIENTATION[k] + down * ORIENTATION[3 + k]) for k in range(3)]


def _thumbnail(s: Store, uids: _Uids, meta: Mapping[str, str]) -> Any:
    pixels = s.thumbnail
    assert pixels is not None
    h, w = pixels.shape[:2]
    ds = _image(s, uids, meta, "thumbnail", ["DERIVED", "PRIMARY", "THUMBNAIL", "RESAMPLED"], (w, h), (h, w))
    ds.SamplesPerPixel, ds.PlanarConfiguration, ds.PhotometricInterpretation = 3, 0, "RGB"
    ds.NumberOfFrames = 1
    ds.LossyImageCompression = "01"
    ds.LossyImageCompressionRatio = "1"
    ds.LossyImageCompressionMethod = "ISO_15444_1" if s.codec == "j2k" else "ISO_10918_1"
    data = pixels.tobytes()
    ds.PixelData = data + b"\0" * (len(data) % 2)
    ds["PixelData"].VR = "OB"
    ds.file_meta = _file_meta(ds, PLAIN)
    return ds


def _image(s: Store, uids: _Uids, meta: Mapping[str, str], what: str, kind: list[str], size: tuple[int, int],
           tile: tuple[int, int]) -> Any:
    """All but the pixels, of an image of `size` (columns, rows) in tiles (rows, columns)."""
    from pydicom.dataset import Dataset
    ds = Dataset()
    ds.SOPClassUID, ds.SOPInstanceUID = CLASS, uids(what)
    ds.ImageType = kind
    ds.Modality = "SM"
    for name in ("StudyDate", "StudyTime", "ReferringPhysicianName", "StudyID", "PatientBirthDate", "PatientSex"):
        setattr(ds, name, "")
    ds.ContentDate, ds.ContentTime, ds.AcquisitionDateTime = FIXED_TIME[:8], FIXED_TIME[8:], FIXED_TIME
    ds.PatientID = meta.get("patient_id") or uids.digits("patient")
    ds.PatientName = meta.get("patient_name", "")
    ds.AccessionNumber = meta.get("accession_number", "")
    if not meta:
        ds.PatientIdentityRemoved, ds.DeidentificationMethod = "YES", "wsi2h5: no name, date, label or serial number"
    ds.StudyInstanceUID, ds.SeriesInstanceUID = meta.get("study_uid") or uids("study"), uids("series")
    ds.FrameOfReferenceUID, ds.PositionReferenceIndicator = uids("frame of reference"), "SLIDE_CORNER"
    ds.SeriesNumber, ds.InstanceNumber = 1, 1 if what == "slide" else 2
    ds.Manufacturer = str(s.attrs.get("vendor") or "unknown")
    ds.ManufacturerModelName = ds.DeviceSerialNumber = "unknown"
    ds.SoftwareVersions = str(s.attrs.get("creator", "wsi2h5"))
    _specimen(ds, uids)
    _matrix(ds, s, uids, size, tile)
    _optics(ds, s, s.channels == 3 or what == "thumbnail")
    return ds


def _specimen(ds: Any, uids: _Uids) -> None:
    from pydicom.dataset import Dataset
    specimen, kind = Dataset(), _code("433466003", "SCT", "Microscope slide")
    specimen.SpecimenIdentifier, specimen.SpecimenUID = uids.digits("specimen"), uids("specimen")
    specimen.IssuerOfTheSpecimenIdentifierSequence, specimen.SpecimenPreparationSequence = [], []
    ds.ContainerIdentifier = uids.digits("container")
    ds.IssuerOfTheContainerIdentifierSequence, ds.ContainerTypeCodeSequence = [], [kind]
    ds.SpecimenDescriptionSequence = [specimen]
    ds.AcquisitionContextSequence = []


def _code(value: str, scheme: str, meaning: str) -> Any:
    from pydicom.dataset import Dataset
    c = Dataset()
    c.CodeValue, c.CodingSchemeDesignator, c.CodeMeaning = value, scheme, meaning
    return c


def _matrix(ds: Any, s: Store, uids: _Uids, size: tuple[int, int], tile: tuple[int, int]) -> None:
    """Sizes, dimensions, and the functional groups that all frames share."""
    from pydicom.dataset import Dataset
    shared, measures, frame, origin = Dataset(), Dataset(), Dataset(), Dataset()
    x_um, y_um = _um(s)
    width_mm, height_mm = s.width * x_um / 1000, s.height * y_um / 1000
    measures.PixelSpacing = ["%.10g" % (height_mm / size[1]), "%.10g" % (width_mm / size[0])]
    measures.SliceThickness = "0.001"
    frame.FrameType = ds.ImageType
    shared.PixelMeasuresSequence, shared.WholeSlideMicroscopyImageFrameTypeSequence = [measures], [frame]
    ds.SharedFunctionalGroupsSequence = [shared]
    ds.Columns, ds.Rows = tile[1], tile[0]
    ds.TotalPixelMatrixColumns, ds.TotalPixelMatrixRows = size
    ds.TotalPixelMatrixFocalPlanes = 1
    origin.XOffsetInSlideCoordinateSystem, origin.YOffsetInSlideCoordinateSystem = _place(s, 0, 0)[:2]
    ds.TotalPixelMatrixOriginSequence = [origin]
    ds.ImagedVolumeWidth, ds.ImagedVolumeHeight, ds.ImagedVolumeDepth = width_mm, height_mm, 1.0
    ds.ImageOrientationSlide = ["%d" % v for v in ORIENTATION]
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 8, 8, 7, 0
    ds.BurnedInAnnotation, ds.SpecimenLabelInImage, ds.VolumetricProperties = "NO", "NO", "VOLUME"
    ds.FocusMethod, ds.ExtendedDepthOfField = "AUTO", "NO"
    organization, dimensions = Dataset(), []
    organization.DimensionOrganizationUID = uids("dimensions")
    for pointer in (0x0048021E, 0x0048021F):  # column and row in the total pixel matrix
        d = Dataset()
        d.DimensionOrganizationUID, d.DimensionIndexPointer, d.FunctionalGroupPointer = organization.DimensionOrganizationUID, pointer, 0x0048021A
        dimensions.append(d)
    ds.DimensionOrganizationSequence, ds.DimensionIndexSequence = [organization], dimensions
    ds.DimensionOrganizationType = "TILED_FULL"


def _optics(ds: Any, s: Store, colour: bool) -> None:
    from pydicom.dataset import Dataset
    path, use, identification = Dataset(), Dataset(), Dataset()
    path.OpticalPathIdentifier = "1"
    path.IlluminationTypeCodeSequence = [_code("111744", "DCM", "Brightfield illumination")]
    path.IlluminationColorCodeSequence = [_code("414298005", "SCT", "Full Spectrum")]
    power = s.attrs.get("objective_power")
    if power:
        path.ObjectiveLensPower = "%.10g" % float(power)
    if colour:
        profile = s.icc_profile or _srgb()
        path.ICCProfile = profile + b"\0" * (len(profile) % 2)
    ds.OpticalPathSequence, ds.NumberOfOpticalPaths = [path], 1
    identification.OpticalPathIdentifier = "1"
    ds.SharedFunctionalGroupsSequence[0].OpticalPathIdentificationSequence = [identification]


def _srgb() -> bytes:
    """The standard requires a profile; where the slide states none, readers take sRGB."""
    from PIL import ImageCms
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    profile[24:36] = struct.pack(">6H", 1970, 1, 1, 0, 0, 0)  # when it was made
    return bytes(profile)


def _file_meta(ds: Any, syntax: str) -> Any:
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import UID
    m = FileMetaDataset()
    m.MediaStorageSOPClassUID, m.MediaStorageSOPInstanceUID = UID(ds.SOPClassUID), UID(ds.SOPInstanceUID)
    m.TransferSyntaxUID = UID(syntax)
    m.ImplementationClassUID, m.ImplementationVersionName = UID(IMPLEMENTATION), "WSI2H5"
    return m
