#!/usr/bin/env python3
"""Stores and results at URLs, through fsspec: pixels, how many requests and bytes they cost, and every way to fail."""
import http.server
import multiprocessing
import pickle
import threading

import numpy as np

from lib import *

sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.path.append(os.path.join(ROOT, "build", "python"))  # optional packages
os.environ.setdefault("HDF5_PLUGIN_PATH", BUILD)
from check_python import read_in_process, rejects
from wsi_store import open_store

BLOCK = 16 << 10
SMALL = dict(block_bytes=BLOCK, block_cache_bytes=8 << 20)


def slide():
    return made("--size", "1500x1100", "--tissue", "rect:200,100,800,700", name="remote")


class Server:
    """An HTTP server on this machine for the files of a folder. It counts what it sends; `ranges`: does it know ranges?"""

    def __init__(self, folder, ranges=True):
        self.requests, self.bytes, self.ranges, self.folder = 0, 0, ranges, folder
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *unused):
                pass

            def answer(self, body):
                path = os.path.join(folder, os.path.basename(self.path))
                if not os.path.exists(path):
                    self.send_response(404)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                data = bytes_in(path)
                wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if server.ranges else None
                size = len(data)
                if wanted:
                    data = data[int(wanted.group(1)):int(wanted.group(2)) + 1]
                self.send_response(206 if wanted else 200)
                self.send_header("Content-Length", str(len(data)))
                if server.ranges:
                    self.send_header("Accept-Ranges", "bytes")
                if wanted:
                    self.send_header("Content-Range", "bytes %s-%d/%d" % (wanted.group(1), int(wanted.group(1)) + len(data) - 1, size))
                self.end_headers()
                if body:
                    server.requests += 1
                    server.bytes += len(data)
                    self.wfile.write(data)

            def do_GET(self):
                self.answer(True)

            def do_HEAD(self):
                self.answer(False)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()
        self.url = "http://127.0.0.1:%d/" % self.http.server_port

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.http.shutdown()
        self.http.server_close()

    def cost(self, f):
        """Requests and bytes of a call, and what it returns."""
        before = self.requests, self.bytes
        result = f()
        return self.requests - before[0], self.bytes - before[1], result


def folder_with(*paths):
    folder = tmp("www")
    for p in paths:
        shutil.copy(p, folder)
    return folder


def test_pixels_and_requests():
    has("fsspec", "aiohttp")
    for codec in ("none", "jpeg", "deflate"):
        path = store(slide(), "--codec", codec)
        with Server(folder_with(path)) as server, open_store(path) as local:
            n, _, s = server.cost(lambda: open_store(server.url + "remote.h5", **SMALL))
            expect(n <= 12, "%s: %d requests to open", codec, n)
            at = s.places(100, min_tissue=0.5, limit=30, seed=1)
            s.load_tables()
            n, size, got = server.cost(lambda: s.read_patches(at, 100))
            chunks = {(g.at[r][k], g.bytes[r][k]) for g, r, k in s._chunks_of(at.tolist(), 100)}
            blocks = {b for a, m in chunks for b in range(a // BLOCK, (a + m - 1) // BLOCK + 1)}
            runs = sum(b - 1 not in blocks for b in blocks)
            expect(1 <= n <= runs and size <= len(blocks) * BLOCK, "%s: %d requests, %d bytes; %d runs of %d blocks", codec, n, size, runs, len(blocks))
            expect((got == local.read_patches(at, 100)).all(), "%s: pixels", codec)
            n, _, again = server.cost(lambda: s.read_patches(at, 100))
            expect(n == 0 and (again == got).all(), "%s: %d requests for cached blocks", codec, n)
            expect((s.read_region(-10, -10, 1600, 1200) == local.read_region(-10, -10, 1600, 1200)).all(), codec)
            expect((s.tissue == local.tissue).all() and (s.thumbnail == local.thumbnail).all(), "maps")
            expect(s.references()["refs"]["0/0.0.0"][0] == server.url + "remote.h5", "index")
            s.close()
            rejects(["is closed"], s.read_region, 0, 0, 10, 10)


def test_blocks_are_bounded():
    has("fsspec")
    import fsspec
    path = store(slide(), "--codec", "none")
    fsspec.filesystem("memory").pipe("/bounded.h5", open(path, "rb").read())
    with open_store("memory://bounded.h5", block_bytes=BLOCK, block_cache_bytes=20 * BLOCK) as s, open_store(path) as local:
        for _ in range(2):
            expect((s.read_region(0, 0, 1500, 1100) == local.read_region(0, 0, 1500, 1100)).all(), "pixels")
            expect((s.read_patches(s.places(256), 256) == local.read_patches(s.places(256), 256)).all(), "patches")
            expect(len(s._source._blocks) <= 20, "%d blocks", len(s._source._blocks))


def test_windows_of_a_result():
    has("fsspec", "aiohttp")
    path = store(slide())
    result = spectrum(path)
    with Server(folder_with(path, result)) as server, open_store(path) as local, open_store(server.url + "remote.h5") as s:
        want, got = local.windows(result), s.windows(server.url + "result.h5")
        run(TABLES, "merge", "-q", "-o", os.path.join(server.folder, "table.h5"), os.path.join(server.folder, "result.h5"))
        for found in (got, s.windows(server.url + "table.h5")):
            expect(sorted(want) == sorted(found) and all(np.array_equal(want[k], found[k], equal_nan=True) for k in want), "windows")


def test_forks_and_pickling():
    has("fsspec", "aiohttp")
    with Server(folder_with(store(slide()))) as server, open_store(server.url + "remote.h5", **SMALL) as s:
        want = s.read_region(0, 0, 1000, 1000)[300:400, 300:400].tobytes()
        expect(pickle.loads(pickle.dumps(s)).read_region(300, 300, 100, 100).tobytes() == want, "pickled")
        fresh = open_store(server.url + "remote.h5", **SMALL)  # the child must fetch
        for method in ("fork", "spawn"):
            c = multiprocessing.get_context(method)
            queue = c.Queue()
            p = c.Process(target=read_in_process, args=(fresh, queue), daemon=True)  # ends with the test
            p.start()
            expect(queue.get(timeout=60) == want, method)
            p.join(60)


def test_what_cannot_be_read():
    code = ("import sys; sys.modules['fsspec'] = None; sys.path.insert(0, sys.argv[1])\n"
            "import wsi_store\n"
            "try: wsi_store.open_store('s3://bucket/slide.h5')\n"
            "except wsi_store.StoreError as e: print(e)")
    says(run(sys.executable, "-c", code, os.path.join(ROOT, "scripts")).out, "s3://bucket/slide.h5", "pip install fsspec", "s3fs")
    has("fsspec")
    rejects(["nothing://x", "nothing"], open_store, "nothing://x")
    rejects(["memory://absent.h5", "No such file"], open_store, "memory://absent.h5")
    has("aiohttp")
    path = store(slide())
    folder = folder_with(path)
    put_file(os.path.join(folder, "text.h5"), "no store at all")
    with Server(folder) as server:
        rejects([server.url + "absent.h5", "No such file"], open_store, server.url + "absent.h5")
        rejects(["text.h5", "not a store"], open_store, server.url + "text.h5")
        s = open_store(server.url + "remote.h5", **SMALL)
        os.unlink(os.path.join(folder, "remote.h5"))
        rejects([server.url, "No such file"], s.read_region, 700, 700, 10, 10)
    with Server(folder_with(path), ranges=False) as server:
        rejects(["range requests"], open_store, server.url + "remote.h5", **SMALL)


def test_a_replaced_store_is_an_error():
    """Other bytes than those that the tables describe fail their checksum."""
    has("fsspec", "aiohttp")
    path = store(slide(), "--codec", "none")
    folder = folder_with(path)
    with Server(folder) as server:
        s = open_store(server.url + "remote.h5", **SMALL)
        s.load_tables()
        with open(os.path.join(folder, "remote.h5"), "r+b") as f:
            f.write(bytes(os.path.getsize(path)))
        rejects(["CRC mismatch", "again"], s.read_region, 700, 700, 10, 10)


if __name__ == "__main__":
    if SAN:
        print("skip remote: the reader is Python, which cannot load a plug-in with sanitizers")
    else:
        main(globals())
