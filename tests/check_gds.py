"""--io gds without a GPU: the device reads the store itself, over stubs of the CUDA runtime and of cuFile."""

import h5py

from check_cuda import STUB, calls_of, check_result, direct_reading, flipped_chunk, long_jpeg, need_stub, on_host, plain, plain_gray, rgb, right, stub
from check_jpeg import changed_store
from lib import *

GDS = ("--io", "gds")


def need_direct_reading():
    need_stub()
    if not direct_reading():
        raise Skip("this file system has no direct reading")


def modes(p):
    return [j["io"] for j in json_lines(p.out)]


def test_results_are_right_and_name_the_way():
    need_direct_reading()
    for mode, word in ((None, "gds"), ("compat", "gds-compat")):
        p = right([plain(), plain_gray(), long_jpeg()], *GDS, "--json", gds=mode)
        expect(modes(p) == [word] * 3, "%s", modes(p))
        with h5py.File(p.result, "r") as f:
            expect(all(s.attrs["io"] in (word, word.encode()) for s in f["slides"].values()), "the attribute")
        says(run(H5SPEC, "info", p.result).out, word)


def test_headers_too_long_for_the_device():
    # what the host gets of a tile ends within its header: libjpeg-turbo decodes it
    need_direct_reading()
    comment = b"\xff\xfe" + (2000).to_bytes(2, "big") + b"x" * 1998
    bad = changed_store(lambda d: d[:2] + comment + d[2:])
    want, got = stub(bad), stub(bad, *GDS, "--json")
    expect(on_host(got) == [1], "%s tiles on the host", on_host(got))
    with h5py.File(want.result, "r") as f, h5py.File(got.result, "r") as g:
        expect((f["histogram"][()] == g["histogram"][()]).all(), "the histogram")


def test_what_cannot_be_read_says_why():
    need_direct_reading()
    p = stub([rgb(), plain()], *GDS, status=1)
    says(p.err, rgb(), "codec deflate is unpacked by the host", "choose --io auto")
    check_result(p.result, [plain()])
    says(stub(plain(), *GDS, status=1, gds="none").err, "--device cuda", "GPUDirect Storage: cuFileDriverOpen", "not loaded",
         "choose --io direct")
    says(stub(plain(), *GDS, status=1, gds="refuse").err, plain(), "cuFileHandleRegister", "not supported on current file", "choose --io direct")
    says(stub(plain(), *GDS, device="cpu", status=2).err, "--io gds and --device cpu contradict each other")
    says(stub(plain(), *GDS, device="auto", devices=0, status=1).err, "--io gds needs a GPU", "no CUDA-capable device")


def test_only_what_a_machine_lacks_is_a_reason_to_skip():
    # check_gpu.py skips where cuFile takes no file; a failure of CUDA or a wrong call must not look like that
    need_direct_reading()
    for gds in ("none", "refuse"):
        says(has_no_gds(stub(plain(), *GDS, status=1, gds=gds).err), "GPUDirect Storage: cuFile", "choose --io direct")
    for gds, status, why in (("broken", 5, "error 999 of the CUDA driver"), ("misused", 1, "another error")):
        p = stub(plain(), *GDS, status=status, gds=gds)
        says(p.err, plain(), "cuFileHandleRegister", why)
        expect(has_no_gds(p.err) == "" and "choose --io direct" not in p.err, "%s", p.err)
    calls = calls_of(plain(), *GDS)["calls"]
    for call in range(calls // 4, calls // 2, 5):  # cuFile's own calls are among them
        p = stub(plain(), *GDS, status=None, fail="%d:700" % call)
        expect(p.returncode == 5 and has_no_gds(p.err) == "", "call %d: %d, %s", call, p.returncode, p.err)
    expect(has_no_gds(stub(flipped_chunk(plain(), 0, 0), *GDS, status=1).err) == "", "a CRC mismatch")


def test_the_arithmetic_of_crcs():
    need_stub()
    says(run(os.path.join(os.path.dirname(STUB), "gpu_crc"), "host").out, " 0 wrong")


main(globals())
