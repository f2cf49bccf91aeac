#!/usr/bin/env python3
"""wsi-store index: a reference file that presents a store as Zarr gives the store's pixels."""

import numpy as np

from lib import *

sys.path.append(os.path.join(ROOT, "build", "python"))  # optional packages


STORE = os.path.join(ROOT, "scripts", "wsi-store")


def slide():
    return made("--size", "1500x1100", "--tissue", "rect:200,100,600,500", name="index")


def index(path, *options, status=0):
    p = run(sys.executable, STORE, "index", *options, path, status=status)
    return json.loads(p.out) if status == 0 else p.err


def from_references(doc):
    """The array that the references describe, by the rules of Zarr version 2."""
    refs = doc["refs"]
    a = json.loads(refs["0/.zarray"])
    rows, cols, channels = a["chunks"]
    out = np.full(a["shape"], a["fill_value"], np.uint8)
    for key, (url, offset, size) in ((k, v) for k, v in refs.items() if not k.split("/")[-1].startswith(".z")):
        r, c, _ = map(int, key.split("/")[1].split("."))
        data = bytes_in(url)[offset:offset + size]
        if a["compressor"]:
            expect(a["compressor"]["id"] == "zlib", "%s", a["compressor"])
            data = zlib.decompress(data)
        part = out[r * rows:(r + 1) * rows, c * cols:(c + 1) * cols]
        part[...] = np.frombuffer(data, np.uint8).reshape(rows, cols, channels)[:part.shape[0], :part.shape[1]]
    return out


def test_references_give_the_pixels():
    for options in (["--codec", "none"], ["--codec", "deflate"], ["--gray"], ["--tissue-only"],
                    ["--stripe-rows", "240", "--group-bytes", "1"]):
        path = store(slide(), *options)
        doc = index(path)
        expect(doc["version"] == 1 and json.loads(doc["refs"][".zgroup"]) == {"zarr_format": 2}, "%s", options)
        got, want = from_references(doc), pixels(path)
        expect(got.shape == want.shape and (got == want).all(), "%s", options)
    metadata = json.loads(doc["refs"][".zattrs"])["multiscales"][0]["metadata"]
    expect(metadata["mpp"] == [0.499, 0.499] and metadata["objective_power"] == 20, "%s", metadata)
    expect(json.loads(doc["refs"]["0/.zattrs"])["_ARRAY_DIMENSIONS"] == ["Y", "X", "S"], "%s", doc["refs"]["0/.zattrs"])


def test_a_url_instead_of_the_path():
    refs = index(store(slide()), "--url", 's3://bucket/a "b".h5')["refs"]
    expect({v[0] for k, v in refs.items() if ".z" not in k} == {'s3://bucket/a "b".h5'}, "url")


def test_jpeg_chunks_are_the_tiles():
    path = store(slide(), "--codec", "jpeg")
    refs = index(path)["refs"]
    expect(json.loads(refs["0/.zarray"])["compressor"] == {"id": "imagecodecs_jpeg"}, "%s", refs["0/.zarray"])
    for key in ("0/0.0.0", "0/4.6.0"):
        url, offset, size = refs[key]
        data = bytes_in(url)[offset:offset + size]
        expect(data[:2] == b"\xff\xd8" and data[-2:] == b"\xff\xd9", key)


def test_what_cannot_be_presented():
    other = changed(store(slide()), lambda f: f.attrs.__setitem__("codec", "zip"))
    says(index(other, status=1), "Zarr cannot read codec zip", "another codec")
    grainy = store(made("--size", "200x200", "--tile", "8", "--quality", "100", name="grainy"))  # some chunks do not shrink
    says(index(grainy, status=1), "chunks are stored without compression", "--codec none")
    text = os.path.join(tmp(), "x.h5")
    open(text, "w").write("no store")
    says(index(text, status=1), text)
    says(index(spectrum(store(slide())), status=1), "store")
    says(run(sys.executable, STORE, "index", status=2).err, "STORE")
    says(run(sys.executable, STORE, "index", "--url", "", text, status=1).err, "--url")


def test_no_library_of_the_codec_is_needed():
    """Who reads the references unpacks the chunks."""
    path = store(slide(), "--codec", "zstd")
    code = ("import sys, runpy; sys.modules['zstandard'] = sys.modules['hdf5plugin'] = None; sys.argv = sys.argv[1:]\n"
            "runpy.run_path(sys.argv[0], run_name='__main__')")
    doc = json.loads(run(sys.executable, "-c", code, STORE, "index", path).out)
    expect(json.loads(doc["refs"]["0/.zarray"])["compressor"]["id"] == "zstd", "%s", doc["refs"]["0/.zarray"])


if __name__ == "__main__":
    main(globals())
