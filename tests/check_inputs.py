"""Which slides a command line names: folders, links, series, lists, name clashes, options that do not fit together."""
import struct

import h5py

from dicomfile import UNDEFINED, element, sequence
from lib import *


def tiny(seed=1):
    return made("--size", "100x100", "--seed", str(seed), name="tiny")


def tree(*paths):
    """A folder with copies of a slide at these paths; a path with " -> " is a link."""
    folder = tmp("tree")
    for path in paths:
        name, _, link = path.partition(" -> ")
        full = os.path.join(folder, name)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if link:
            os.symlink(link, full)
        else:
            shutil.copy(tiny(), full)
    return folder


def found(folder, *options, status=0):
    """Converts a folder: names of the stores, stderr."""
    out = tmp("out")
    p = run(WSI2H5, *options, "-o", out, folder, status=status)
    stores = [os.path.relpath(os.path.join(d, f), out) for d, _, _ in os.walk(out) for f in stores_in(d) if f.endswith(".h5")]
    return sorted(stores), p.err


def skipped(*words):
    """What a dry run says that a search skips."""
    expect(run(WSI2H5, "--print-inputs", "-q", "-o", tmp(), *words).err == "", "messages although quiet")
    return run(WSI2H5, "--print-inputs", "-o", tmp(), *words).err


# --- folders ---

FOLDERS = [  # what is in it, with links to an archive of x.svs and deep/y.svs; stores, words of each path of --print-inputs
    (("a.svs", "batch2 -> {}"), ["a.h5", "x.h5", "y.h5"], {}),
    (("p -> {}", "q -> {}"), ["x.h5", "y.h5"], {}),  # searched once
    (("a.svs", "sub/b.svs", "sub/up -> ..", "sub/self -> .", "out -> ../.."), ["a.h5", "b.h5"],
     {link: "skipped: leads to a folder" for link in ("sub/up", "sub/self", "out")}),
    (("a.svs", "gone.svs -> nowhere.svs", "notes.txt -> nowhere"), ["a.h5"],
     {"gone.svs": "dangling link", "notes.txt": "skipped: dangling link"}),
    # a folder of slides on a file system that is not mounted must not be left out unnoticed
    (("a.svs", "batch2 -> /archive/not/mounted"), ["a.h5"], {"batch2": "dangling link"}),
    (("a.svs", ".hidden.svs", "notes.txt"), ["a.h5"], {".hidden.svs": "skipped: hidden", "notes.txt": "skipped: its name"}),
    (("m.mrxs", "m/Slidedat.ini", "m/extra.tif", "other/a.svs"), ["a.h5", "m.h5"], {"m": "skipped: holds the data of a MIRAX slide"}),
]


def test_which_files_of_a_folder_are_slides():
    archive = tree("x.svs", "deep/y.svs")
    for paths, want, words in FOLDERS:
        folder = tree(*(path.format(archive) for path in paths))
        failed = "dangling link" in words.values()
        stores, err = found(folder, status=int(failed))
        expect(stores == want and "skipped:" not in err, "%s: %s", paths, stores)
        says(err + skipped(folder), *(os.path.join(folder, path) + ": " + word for path, word in words.items()), "%d failed" % failed)


def test_series_of_nested_folders_stay_apart():
    folder = files(b=dicom("1.2.3.4"), z=dicom("1.2.3.4") + b"\0" * 9)
    os.makedirs(os.path.join(folder, "c"))
    for name, data in (("x", dicom("1.2.3.4")), ("y", dicom("1.2.3.4"))):
        put_file(os.path.join(folder, "c", name + ".dcm"), data)
    says(skipped(folder), "y.dcm: skipped: belongs to the DICOM series of x.dcm", "b.dcm: skipped: belongs to the DICOM series of z.dcm")
    says(found(folder, status=1)[1], "2 failed")


def test_inputs_can_be_printed_for_other_programs():
    folder = tree("a b.svs", "gone.svs -> nowhere", "m.mrxs", "m/Slidedat.ini", "m/x.tif", "z\nz.svs", "sub/up -> ..")
    for name, series in (("1.dcm", "1.2"), ("2.larger.DCM", "1.2"), ("other", "1.3")):
        open(os.path.join(folder, name), "wb").write(dicom(series, nested=NESTED) + name.encode())
    out = os.path.join(tmp(), "out")
    words = run(WSI2H5, "--print-inputs", "-o", out, folder, folder + "/m.mrxs", "/gone/x").out.split("\0")
    gone = folder + "/gone.svs"
    want = [folder + "/" + name for name in ("2.larger.DCM", "a b.svs", "gone.svs", "m.mrxs", "other", "z\nz.svs")] + ["/gone/x"]
    expect(words[::2] == want + [""], "%s", words)
    expect([w for w in words[1::2] if w] == [gone + ": dangling link: its target does not exist"], "%s", words)
    expect(not os.path.exists(out), "a folder was made")


def test_help_states_the_rule():
    text = run(WSI2H5, "--help").out
    says(text, "HDF5.\nSLIDE is a slide")
    says(" ".join(text.split()), "also in its subfolders and through links", "DICOM series", "MIRAX")


# --- series ---

def dicom(series, syntax="1.2.840.10008.1.2.1", nested=b""):
    """The head of a DICOM file."""
    meta = element(0x00020001, b"OB", b"\0\1") + element(0x00020010, b"UI", syntax)
    data = element(0x00080060, b"CS", b"SM") + nested + element(0x00100010, b"PN", b"NOBODY")
    data += element(0x0020000d, b"UI", "1.2.3") + element(0x0020000e, b"UI", series)
    return b"\0" * 128 + b"DICM" + meta + data


# with a series of another slide inside
NESTED = sequence(0x00081140, element(0x0020000e, b"UI", "9.9"), closed=False)
ITEM = struct.pack("<HHI", 0xfffe, 0xe000, UNDEFINED)


def files(**contents):
    folder = tmp("dicom")
    for name, data in contents.items():
        put_file(os.path.join(folder, name + ".dcm"), data)
    return folder


def test_dicom_series_is_one_slide():
    folder = files(a=dicom("1.2.3.4"), b=dicom("1.2.3.4"), c=dicom("1.2.3.4", nested=NESTED),
                   d=dicom("1.2.3.5"))
    open(os.path.join(folder, "b.dcm"), "ab").write(b"\0" * 999)  # the largest stands for the series
    says(found(folder, status=1)[1], "2 failed")  # OpenSlide 3 cannot open them, 4 finds no pixels
    err = skipped(folder)
    says(err, "a.dcm: skipped: belongs to the DICOM series of b.dcm", "c.dcm: skipped: belongs")
    expect("b.dcm: skipped" not in err and "d.dcm: skipped" not in err, "%s", err)


def test_dicom_header_that_lies():
    whole = dicom("1.2.3.4", nested=NESTED)
    at = whole.index(b"1.2.3.4")
    folder = files(whole=whole, cut=whole[:at + 3], long=whole[:at - 2] + b"\xff\xff" + whole[at:],
                   deep=dicom("1.2.3.4", nested=element(0x00081140, b"SQ", ITEM, UNDEFINED) * 60),
                   text=whole.replace(b"1.2.3.4", b"../../a"), deflated=dicom("1.2.3.4", "1.2.840.10008.1.2.1.99"),
                   empty=b"", nothing=b"\0" * 128 + b"DICM")
    _, err = found(folder, status=1)
    says(err, "8 failed")  # none is taken for a part of another
    for k in range(0, len(whole), 13):
        open(os.path.join(folder, "cut.dcm"), "wb").write(whole[:k])
        open(os.path.join(folder, "long.dcm"), "wb").write(whole[:k] + b"\xff" * 8 + whole[k + 8:])
        found(folder, status=1)


def test_vms_set_is_one_slide():
    folder = os.path.dirname(real("Hamamatsu-VMS/CMU-1-40x - 2010-01-12 13.24.05.vms"))
    _, err = found(folder, status=None)
    says(err, "0 converted, 0 skipped (up to date), 0 with damaged tiles, 1 failed")


# --- lists and names ---

def test_keep_tree_separates_slides_of_one_name():
    folder = tree("patient1/slide.svs", "patient2/slide.svs", "slide.svs")
    stores, err = found(folder, status=1)
    expect(stores == ["slide.h5"], "%s", stores)
    says(err, "would overwrite the store of", "--keep-tree", "2 failed")
    for name in (folder, folder + "/"):
        stores, err = found(name, "--keep-tree")
        expect(stores == ["patient1/slide.h5", "patient2/slide.h5", "slide.h5"], "%s", stores)


def test_names_with_control_characters_do_not_reach_the_terminal():
    for name in ("a\x1b[2Jb.svs", "line\nbreak.svs", "tab\tname.svs", "bell\a.svs", "rubout\x7f.svs"):
        folder = tree("x.svs")
        os.rename(os.path.join(folder, "x.svs"), os.path.join(folder, name))
        p = run(WSI2H5, "--progress", "yes", "--tissue-thresholds", "0,0", "-o", tmp(), folder)
        bad = [c for c in p.err if (ord(c) < 32 and c not in "\n\r") or ord(c) == 127]
        expect(not [c for c in bad if c != "\x1b"] and "\x1b[2J" not in p.err and p.err.count("\n") == 1, "%r", p.err)
        os.truncate(os.path.join(folder, name), 0)
        p = run(WSI2H5, "-o", tmp(), folder, status=1)
        expect(not [c for c in p.err if ord(c) < 32 and c != "\n"] and p.err.count("\n") == 3, "%r", p.err)


def test_anonymous_names():
    folder = tree("Smith_19560312.svs", "sub/Smith_19560312.svs", "Jones.svs -> gone.svs")
    other = os.path.join(folder, "sub", "Smith_19560312.svs")
    shutil.copy(tiny(2), other)
    broken = os.path.join(folder, "Miller.svs")
    open(broken, "wb").write(open(tiny(3), "rb").read()[:-1000])
    out, key = tmp("out"), os.path.join(tmp("key"), "key.csv")
    argv = [WSI2H5, "--json", "--anonymous", key, "--progress", "yes", "-o", out, folder]
    p = run(*argv, status=1)
    stores = sorted(stores_in(out))
    expect(len(stores) == 2 and all(re.fullmatch(r"slide-[0-9a-f]{16}\.h5", s) for s in stores), "%s", stores)
    said = p.out + p.err + "".join(open(os.path.join(out, s), "rb").read().decode("latin-1") for s in stores)
    for word in ("Smith", "Jones", "Miller", folder):
        expect(word not in said, "%s comes out: %s", word, p.err + p.out)
    says(p.err, "2 converted", "2 failed", "dangling link", "has no quickhash")
    lines = sorted(open(key).read().splitlines())
    want = sorted('%s,"%s"' % (s[:-3], path) for s, path in zip(
        [j["store"].split("/")[-1] for j in json_lines(p.out) if j["status"] == "done"],
        [os.path.join(folder, "Smith_19560312.svs"), other]))
    expect(lines == want and os.stat(key).st_mode & 0o777 == 0o600, "%s, not %s", lines, want)
    with h5py.File(os.path.join(out, stores[0]), "r") as f:
        expect(f.attrs["source_name"] == stores[0][:-3] and f.attrs.get("source_tag", 0) == 0, "%s", dict(f.attrs))
    says(run(*argv, status=1).err, "0 converted, 2 skipped (up to date)")
    expect(sorted(open(key).read().splitlines()) == want, "the key has grown")


# --- options ---

REJECTED = [  # options that contradict each other or have no effect, a word of the message
    (["--accept-damage", "--on-damage", "fail"], "--accept-damage"),
    (["-q", "--progress", "yes"], "--progress"), (["-j", "100000"], "--threads"),
    (["--stripe-rows", "0"], "--stripe-rows"),
    (["--anonymous", "slide.svs"], "must end in .csv"), (["--anonymous", ""], "must end in .csv"),
    (["--anonymous", "k.csv", "--keep-identifiers"], "--keep-identifiers"),
    (["--anonymous", "k.csv", "--keep-tree"], "--keep-tree"),
    (["--anonymous", "k.csv", "--print-inputs"], "--print-inputs"),
    (["--group-bytes", "0"], "--group-bytes"),
]


SLOW_KEY = """
#include <stdlib.h>
#include <sys/syscall.h>
int flock(int fd, int how) { (void)fd; (void)how; return 0; } /* of this node alone */
ssize_t write(int fd, const void *from, size_t n)
{
    char name[64], path[4096] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (readlink(name, path, sizeof path - 1) > 0 && strstr(path, "key.csv"))
        usleep(300000);
    return syscall(SYS_write, fd, from, n);
}
"""


def test_programs_at_once_add_a_slide_to_the_key_once():
    """Also where locks of the system do not reach other nodes."""
    library, folder, slide = preloaded(SLOW_KEY), tmp(), made("--size", "300x300")
    key = os.path.join(folder, "key.csv")
    argv = [[WSI2H5, "-q", "--anonymous", key, "-o", os.path.join(folder, "out%d/" % k), slide] for k in range(5)]
    running = [subprocess.Popen(a, env=dict(os.environ, LD_PRELOAD=library), stderr=subprocess.PIPE) for a in argv]
    for p in running:
        _, err = p.communicate(timeout=TIMEOUT)
        expect(p.returncode == 0, "%s", err)
    expect(len(text_in(key).splitlines()) == 1 and not os.path.exists(key + ".lock"), "%s %s", text_in(key), os.listdir(folder))
    # of a program that died
    put_file(key + ".lock", "")
    os.utime(key + ".lock", (time.time() - 400,) * 2)
    run(*argv[0][:-1], made("--size", "320x300"))
    expect(len(text_in(key).splitlines()) == 2 and not os.path.exists(key + ".lock"), "%s %s", text_in(key), os.listdir(folder))
    # that another program holds
    put_file(key + ".lock", "")
    p = subprocess.Popen([*argv[0][:-1], made("--size", "340x300")], stderr=subprocess.PIPE)
    time.sleep(1)
    expect(p.poll() is None, "it did not wait")
    p.terminate()
    expect(p.wait(timeout=10) == 3 and os.path.exists(key + ".lock"), "%s", p.returncode)


def test_a_key_file_that_is_a_link():
    victim, folder = file_of("victim", b"precious"), tmp()
    os.symlink(victim, os.path.join(folder, "key.csv"))
    p = run(WSI2H5, "-q", "--anonymous", os.path.join(folder, "key.csv"), "-o", os.path.join(folder, "out/"), made("--size", "300x300"), status=None)
    expect(p.returncode != 0 and bytes_in(victim) == b"precious", "status %d: the victim's file is written", p.returncode)
    says(p.err, "key.csv: is a symbolic link; name the file itself")


def test_options_that_contradict_each_other():
    for options, word in REJECTED:
        p = run(WSI2H5, *options, "-o", os.path.join(tmp(), "new"), tiny(), status=2)
        says(p.err, "wsi2h5: ", word, "Try 'wsi2h5 --help'")
    for options in (["--keep-tree"], ["--task", "1/2"]):
        p = run(WSI2H5, *options, "-o", os.path.join(tmp(), "x.h5"), tiny(), status=2)
        says(p.err, "x.h5 is a file", options[0])


def test_group_smaller_than_a_stripe_is_reported():
    says(run(WSI2H5, "--group-bytes", "1", "-o", tmp(), tiny()).err, "more than --group-bytes", "one stripe")


def test_json_numbers_have_sensible_digits():
    slide = made("--size", "100x100", "--mpp", "0.4990", name="digits")
    text = run(WSI2H5, "--json", "-o", tmp(), slide).out
    says(text, '"mpp_x": 0.499,', '"mpp_y": 0.499,')
    seconds = re.search(r'"seconds": ([^,}]*)', text).group(1)
    expect(len(seconds.split(".")[1]) == 3, "%s", seconds)


def test_counts_after_a_stop():
    folder = tmp("many")
    slow = made("--size", "3000x3000", name="slow")
    for k in range(4):
        shutil.copy(slow, os.path.join(folder, "s%d.svs" % k))
    out = tmp()
    p = subprocess.Popen([WSI2H5, "--codec", "deflate", "-j", "1", "-o", out, folder], stderr=subprocess.PIPE)
    while p.poll() is None and not any(name.endswith(".part") for name in os.listdir(out)):
        time.sleep(0.001)  # until a store is being written
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=TIMEOUT)[1].decode()
    expect(p.returncode == 3, "%d: %s", p.returncode, err)
    numbers = [int(w) for w in err.splitlines()[-1].split(";")[0].split() if w.isdigit()]
    expect(len(numbers) == 6 and sum(numbers) == 4 and numbers[4] == 1, "%s: %s", numbers, err)
    says(err, "1 stopped, ", "not begun")


main(globals())
