"""--codec keep, the default: kept tiles where possible; and where other programs find the plug-in for them."""
import functools
import shlex

import numpy as np

from lib import *

PLUGIN = os.path.join(BUILD, "libh5jpeg.so")
KEPT = [(), ("--container", "generic"), ("--container", "generic", "--photometric", "gray"), ("--container", "ome-subifds", "--photometric", "ycbcr"), ("--container", "philips")]
NOT_KEPT = [  # options of mkslide and of wsi2h5, the reason
    (("--compression", "lzw"), (), "its tiles are LZW"), ((), ("--gray",), "--gray needs other pixels"),
]


def slide(*options):
    return made("--size", "700x500", "--tile", "256", *options)


keep = functools.partial(convert, default_codec=True)


def test_the_default_keeps_tiles():
    for options in KEPT:
        path = slide(*options)
        default, _, j = keep(path)
        expect(j["codec"] == "jpeg" and "codec_reason" not in j, "%s: %s", options, j)
        for codec in ("keep", "jpeg"):
            expect(bytes_in(keep(path, "--codec", codec, "--strict-codec")[0]) == bytes_in(default), "%s: another store", codec)


def test_what_is_not_kept_is_deflate_with_a_reason():
    for options, more, reason in NOT_KEPT:
        for codec in ((), ("--codec", "keep")):
            _, p, j = keep(slide(*options), *more, *codec)
            says(p.err, "stored with codec deflate, not jpeg: ", reason)
            expect(j["codec"] == "deflate" and reason in j["codec_reason"], "%s", j)
            _, p, _ = keep(slide(*options), *more, *codec, "--strict-codec", status=1)
            says(p.err, reason, "--strict-codec")


def test_existing_stores():
    path = slide()
    cases = [("deflate", "skipped"), ("jpeg", "skipped"), ("keep", "skipped"), ("none", "made with --codec none"), ("zstd", "made with --codec zstd")]
    for codec, becomes in cases:
        out, p, _ = keep(path, "--codec", codec)
        before = bytes_in(out)
        _, p, j = keep(path, out=out, status=None)
        expect(j["status"] == becomes if becomes == "skipped" else becomes in p.err, "%s: %s", codec, p.err)
        expect(bytes_in(out) == before, "%s: the store has changed", codec)
    out, _, _ = keep(path)
    _, p, _ = keep(path, "--codec", "deflate", out=out, status=1)
    says(p.err, "made with --codec jpeg", "--force")
    out, _, _ = keep(path, "--codec", "deflate")
    _, p, _ = keep(path, "--codec", "jpeg", out=out, status=1)
    says(p.err, "made with --codec deflate", "--force")


# --- the plug-in ---

READ = ("import sys, h5py, numpy\n"
        "with h5py.File(sys.argv[1], 'r') as f: numpy.save(sys.argv[2], f['pixels'][()])")


def without_plugin():
    env = {k: v for k, v in os.environ.items() if k != "HDF5_PLUGIN_PATH"}
    return dict(env, HDF5_PLUGIN_PATH=tmp("empty"))


def check_read(path, want, env):
    out = os.path.join(tmp(), "p.npy")
    run(sys.executable, "-c", READ, path, out, env=env)
    expect(np.array_equal(np.load(out), want), "h5py: pixels")
    raw = os.path.join(tmp(), "raw")
    run("h5dump", "-d", "/pixels", "-b", "LE", "-o", raw, path, env=env)
    expect(bytes_in(raw) == want.tobytes(), "h5dump: pixels")


def shown(info):
    """What `h5spec info` says of how to show pixels."""
    return re.search(r"^  shown by +(.*)$", info, re.M).group(1)


def check_pasted(command, want, env):
    """A command that was printed shows the pixels in the middle, wherever the shell is."""
    row, col = want.shape[0] // 2, (want.shape[1] - 4) // 2
    out = run("sh", "-c", command, env=env, cwd="/").out
    have = re.findall(r"\((\d+),(\d+),0\): (\d+), (\d+), (\d+)", out)
    expect([tuple(map(int, h)) for h in have] == [(row, col + k, *want[row, col + k]) for k in range(4)], "%s: %s", command, out)


def folder_of(command):
    return re.match("HDF5_PLUGIN_PATH=(.*) h5dump ", command) and shlex.split(command)[0].split("=", 1)[1]


def test_a_whole_command_is_printed():
    path = slide()
    want = pixels(store(path))
    out = os.path.join(tmp("it's a $(folder)"), "-store.h5")
    _, p, _ = keep(path, out=out, env=without_plugin())
    line = p.err.strip().splitlines()[-1]
    says(line, "wsi2h5: other programs need the plug-in: HDF5_PLUGIN_PATH=%s h5dump" % shlex.quote(os.path.realpath(BUILD)))
    command = shown(run(H5SPEC, "info", out, env=without_plugin()).out)
    expect(line.endswith(": " + command), "%s", line)
    if not SAN:
        check_pasted(command, want, without_plugin())
        check_read(out, want, dict(os.environ, HDF5_PLUGIN_PATH=folder_of(command)))
    found = dict(os.environ, HDF5_PLUGIN_PATH=os.pathsep.join((tmp("empty"), os.path.dirname(PLUGIN))))
    _, p, _ = keep(path, env=found)
    expect("HDF5_PLUGIN_PATH" not in p.err + run(H5SPEC, "info", out, env=found).out, "%s", p.err)
    for codec in ("deflate", "none"):
        plain, p, _ = keep(path, "--codec", codec, env=without_plugin())
        expect("HDF5_PLUGIN_PATH" not in p.err, "%s", p.err)
        check_pasted(shown(run(H5SPEC, "info", plain, env=without_plugin()).out), want, without_plugin())
    expect("HDF5_PLUGIN_PATH" not in keep(path, "-q", env=without_plugin())[1].err, "--quiet")


def test_without_a_plug_in_a_line_says_how_to_get_one():
    alone = tmp("alone")
    for program in (WSI2H5, H5SPEC):
        shutil.copy(program, alone)
    out, line = os.path.join(alone, "s.h5"), "libh5jpeg.so is not beside this program; run make "
    says(run(alone + "/wsi2h5", "-o", out, slide(), default_codec=True, env=without_plugin()).err, line)
    says(run(alone + "/h5spec", "info", out, env=without_plugin()).out, line)


def readers():
    """Every other HDF5 at hand: the h5dump of this system, h5py of its Python, and of PyPI, which brings another library."""
    return [["h5dump"]] + [[p, "-c"] for p in (sys.executable, os.path.join(ROOT, "build/h5py/bin/python")) if os.path.exists(p)]


def test_installed_programs_print_a_command_that_works():
    """In a PREFIX of any name, with every HDF5 at hand; tests/releases does the same in other releases, and with the wheel."""
    if SAN:
        raise Skip("builds are tried without sanitizers")
    path, d = slide(), os.path.join(tmp(), "it's a prefix")
    want = pixels(store(path))
    make_install("PREFIX=" + d)
    out = os.path.join(tmp(), "s.h5")
    p = run(d + "/bin/wsi2h5", "-o", out, path, default_codec=True, env=without_plugin())
    command = shown(run(d + "/bin/h5spec", "info", out, env=without_plugin()).out)
    says(p.err, command)
    expect(folder_of(command) == os.path.realpath(d) + "/lib/wsi2h5/plugin", "%s", command)
    check_pasted(command, want, without_plugin())
    lines = make_install("PREFIX=" + d, goal="check-installed", env=without_plugin()).out
    says(lines, "ok CPU, jpeg: 12 windows", "ok CPU, plain: 12 windows", "ok h5dump, jpeg: HDF5_PLUGIN_PATH=", " 0 failed, ")
    for python in readers()[1:]:
        run(*python, READ, out, d + "/p.npy", env=dict(os.environ, HDF5_PLUGIN_PATH=folder_of(command)))
        expect(np.array_equal(np.load(d + "/p.npy"), want), "%s: pixels", python)
        print("# read by HDF5 %s" % run(*python, "import h5py; print(h5py.version.hdf5_version)").out.strip())


def test_everything_but_pixels_is_read_without_the_plug_in():
    out, _, _ = keep(slide())
    says(run("h5dump", "-p", "-H", out, env=without_plugin()).out, "USER_DEFINED_FILTER", "32019", "DATASET \"pixels\"")
    says(run("h5dump", "-d", "/tissue/mask", "-d", "/groups/00001/tile_crc32", out, env=without_plugin()).out, "DATA {")


def make_install(*words, env=None, goal="install"):
    return run("make", "-s", "-C", ROOT, *same_build(), *words, goal,
               env={k: v for k, v in (env or os.environ).items() if not k.startswith("MAKE")})


def test_make_install_asks_hdf5_for_its_folder():
    if SAN:
        raise Skip("builds are tried without sanitizers")
    folder = re.search("^HDF5 plug-ins: (.*)$", run(WSI2H5, "--version", env={k: v for k, v in os.environ.items() if k != "HDF5_PLUGIN_PATH"}).out,
                       re.M).group(1)
    d = tmp()
    out = make_install("DESTDIR=" + d, "PREFIX=/usr").out
    for place in (folder, "/usr/local/hdf5/lib/plugin"):  # the other is that of h5py from PyPI
        says(out, "the HDF5 plug-ins are in " + d + place)
        expect(bytes_in(d + place + "/libh5jpeg.so") == bytes_in(PLUGIN), "another plug-in")
    blocked = os.path.join(tmp(), "file")
    open(blocked, "w").close()
    out = make_install("PREFIX=" + tmp(), "HDF5_PLUGINS=%s/plugins %s/p" % (blocked, d)).out
    says(out, "not written: %s/plugins; h5spec info STORE prints the command" % blocked, "the HDF5 plug-ins are in %s/p" % d)


def test_the_test_of_an_installation_notices():
    """Another library in the place of the plug-in, and other counts."""
    says(run(sys.executable, os.path.join(ROOT, "scripts/selftest"), "--build", BUILD).out, " 0 failed, ")
    text = text_in(os.path.join(ROOT, "scripts/selftest"))
    other = file_of("selftest", text.replace('"plain": "', '"plain": "0'))
    says(run(sys.executable, other, "--build", BUILD, status=1).out, "not ok CPU, plain: other counts than recorded", "1 failed")
    d = tmp("broken")
    for name in ("wsi2h5", "h5spec"):
        shutil.copy(os.path.join(BUILD, name), d)
    p = run(sys.executable, os.path.join(ROOT, "scripts/selftest"), "--build", d, status=1, env=without_plugin())
    says(p.out, "not ok h5dump, jpeg: h5spec info prints no command: the plug-in is missing", "1 failed")


@later("ci")
def test_only_a_prefix_of_the_system_reaches_beyond_it():
    """And make uninstall leaves nothing of it, except folders of the system."""
    if SAN:
        raise Skip("builds are tried without sanitizers")
    for prefix, beyond in (("/usr", True), ("/usr/local", True), ("/opt/a b", False), ("/usr/local/x", False), ("/x /usr", False)):
        d = tmp()
        out = make_install("DESTDIR=" + d, "PREFIX=" + prefix).out
        expect(("not written: the plug-in folder of HDF5; h5spec info STORE prints" in out) == (not beyond), "%s: %s", prefix, out)
        files = [os.path.relpath(os.path.join(f, n), d) for f, _, names in os.walk(d) for n in names]
        outside = [f for f in files if not ("/" + f).startswith(prefix + "/")]
        plugins = [f for f in files if f.endswith("/libh5jpeg.so")]
        expect(len(plugins) == (3 if beyond else 1), "%s: %s", prefix, plugins)
        expect(beyond or not outside, "%s: %s", prefix, outside)
        make_install("DESTDIR=" + d, "PREFIX=" + prefix, goal="uninstall")
        left = [os.path.join(f, n) for f, folders, names in os.walk(d) for n in names + ([] if beyond else folders)]
        expect(not [x for x in left if not (d + prefix).startswith(x)], "%s: %s", prefix, left)


def test_installed_plug_in_is_found_without_a_variable():
    """In a mount namespace of its own, so that this machine stays as it is."""
    if SAN or os.geteuid() != 0 or not shutil.which("unshare"):
        raise Skip("needs root, unshare and a build without sanitizers")
    env = {k: v for k, v in os.environ.items() if k != "HDF5_PLUGIN_PATH" and not k.startswith("MAKE")}
    folder = plugins = re.search("^HDF5 plug-ins: (.*)$", run(WSI2H5, "--version", env=env).out, re.M).group(1)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if folder in ("/", "/usr", "/usr/lib", "/usr/local") or subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode:
        raise Skip("HDF5's folder cannot be replaced here")
    path, d = slide(), tmp()
    out, _, _ = keep(path, env=without_plugin())
    script = ("set -e; mount -t tmpfs none %s; make -s -C %s %s PREFIX=%s/usr HDF5_PLUGINS=%s install >/dev/null\n"
              "h5dump -d /pixels -b LE -o %s/raw %s >/dev/null\n%s -c '%s' %s %s/p.npy\n%s/usr/bin/h5spec info %s" %
              (folder, ROOT, shlex.join(same_build()), d, plugins, d, out, sys.executable, READ.replace("'", '"'), out, d, d, out))
    info = run("unshare", "-m", "sh", "-c", script, env=env).out
    want = pixels(store(path))
    expect(np.array_equal(np.load(d + "/p.npy"), want) and bytes_in(d + "/raw") == want.tobytes(), "pixels")
    expect("HDF5_PLUGIN_PATH" not in info, "%s", info)


main(globals())
