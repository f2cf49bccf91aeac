"""-o NAME means the same in every command, and nothing that was read or computed is lost by it."""
import h5py

from lib import *


def small(name):
    return store(made("--size", "300x300", "--seed", str(sum(map(ord, name))), name=name))


def stores(folder, *names):
    for name in names:
        shutil.copy(small(name), os.path.join(folder, name + ".h5"))
    return folder


def results(*names):
    """A folder with a result per slide."""
    out = tmp("results")
    run(H5SPEC, "run", "--device", "cpu", "-q", "-o", out, stores(tmp("stores"), *names))
    return out


def slides_of(path):
    with h5py.File(path, "r") as f:
        return sorted(f["slides"]) if "slides" in f else [name.decode() for name in f["table/name"][:]]


def commands():
    """Each command that writes, up to its -o; and what it is given."""
    one = results("a")
    return {"wsi2h5": ([WSI2H5, "-q"], made("--size", "300x300", name="slide")),
            "run": ([H5SPEC, "run", "-q", "--device", "cpu"], small("a")),
            "merge": ([H5SPEC, "merge", "-q"], one),
            "map": ([H5SPEC, "map", "-q"], one)}


def test_a_name_without_ending_is_a_folder():
    for name, (argv, given) in commands().items():
        for output in ("new", "new.v2", "new/", "deep/er"):
            path = os.path.join(tmp(), output)
            p = run(*argv, "-o", path, given)
            expect(os.path.isdir(path), "%s -o %s: %s", name, output, p.err)


def test_a_name_in_h5_is_a_file():
    for name, (argv, given) in commands().items():
        path = os.path.join(tmp(), "new.h5")
        p = run(*argv, "-o", path, given, status=2 if name == "map" else 0)
        expect(os.path.isfile(path) == (name != "map"), "%s: %s", name, p.err)


def test_the_ending_of_another_kind_of_file():
    for name, (argv, given) in commands().items():
        for ending in ("a.SVS", "a.hdf5", "a.json", "a.html", "a.zip", "a.txt") + (("a.tif", "a.csv") if name != "map" else ("a.h5",)):
            path = os.path.join(tmp(), ending)
            p = run(*argv, "-o", path, given, status=2)
            says(p.err, path, "another kind of file")
            expect(not os.path.exists(path), "%s made %s", name, ending)


def test_an_existing_folder_may_have_any_name():
    for name, (argv, given) in commands().items():
        if name != "merge":
            folder = os.path.join(tmp(), "2026.tif")
            os.mkdir(folder)
            run(*argv, "-o", folder, given)
            expect(os.listdir(folder), "%s wrote nothing", name)


def test_a_file_is_no_folder():
    file = file_of("file", "")
    says(run(WSI2H5, "-o", file, made("--size", "300x300", name="slide"), status=1).err, file, "is neither a folder nor a .h5 file")
    a = small("a")
    says(run(H5SPEC, "run", "-q", "--device", "cpu", "-o", a + "/", a, status=1).err, a)


def test_an_output_that_is_an_input():
    both = results("a", "b")
    a, store_a = os.path.join(both, "a.h5"), stores(tmp("s"), "a") + "/a.h5"
    csv = file_of("scores.csv", "x,y,size,score\n0,0,256,1\n")
    meta = os.path.join(tmp(), "meta.csv")
    run(H5SPEC, "report", "-q", "-o", os.path.join(tmp(), "r.html"), "--csv", meta, both)
    link = os.path.join(tmp(), "link.h5")
    os.symlink(a, link)
    for argv in (["merge", "-o", a, a, both + "/b.h5"], ["merge", "-o", link, a], ["merge", "-o", a, both],
                 ["merge", "--force", "-o", a, both], ["merge", "-o", a, os.path.dirname(a), "-q"],
                 ["run", "--device", "cpu", "-o", store_a, store_a], ["run", "--device", "cpu", "--force", "-o", os.path.dirname(store_a), store_a],
                 ["map", "--scores", csv, "--slide-size", "300x300", "--feature", "score", "-o", csv],
                 ["report", "-o", os.path.join(tmp(), "n.html"), "--csv", meta, "--meta", meta, "--group", "slide", both]):
        before = {p: open(p, "rb").read() for p in (a, store_a, csv, meta)}
        for program in (H5SPEC, TABLES) if argv[0] == "merge" else (H5SPEC,):
            says(run(program, *argv, status=2).err, "input")
            expect(before == {p: open(p, "rb").read() for p in before}, "%s changed a file", argv)


def test_the_converter_writes_over_no_input():
    slide, listed = made("--size", "300x300", name="slide"), tmp()
    for ending, *argv in ((".h5", "-o"), (".csv", "-o", tmp("o"), "--anonymous")):
        path = os.path.join(listed, "list" + ending)
        put_file(path, slide + "\n")
        says(run(WSI2H5, *argv, path, "--list", path, status=2).err, "is one of the inputs")
        expect(text_in(path) == slide + "\n", "the list was changed")


def test_a_result_of_other_slides_is_replaced_with_force_only():
    out, both = os.path.join(tmp(), "corpus.h5"), results("a", "b")
    c = small("c")
    for program, word, target, given, left in ((H5SPEC, ("run", "--device", "cpu"), out, c, "c"), (H5SPEC, ("merge",), out, results("c"), "c"),
                                               (TABLES, ("merge",), os.path.join(both, "all.h5"), both + "/b.h5", "b")):
        run(program, "merge", "-q", "--force", "-o", target, both)
        says(run(program, *word, "-o", target, given, status=2).err, target, "among the inputs", "--force")
        expect(slides_of(target) == ["a", "b"], "%s: replaced", word)
        run(program, *word, "--force", "-o", target, given)
        expect(slides_of(target) == [left], "%s: %s", word, slides_of(target))


def test_the_same_slides_are_replaced_without_force():
    out, c = os.path.join(tmp(), "one.h5"), small("c")
    for _ in range(2):
        run(H5SPEC, "run", "-q", "--device", "cpu", "-o", out, c)
        run(H5SPEC, "run", "-q", "--device", "cpu", "-o", out, c, small("a"))
        os.unlink(out)


def test_a_merge_into_its_own_folder_can_be_repeated():
    both = results("a", "b")
    out = os.path.join(both, "corpus.h5")
    for program in (H5SPEC, H5SPEC, TABLES, TABLES, H5SPEC):
        p = run(program, "merge", "-o", out, both)
        expect(slides_of(out) == ["a", "b"], "%s", p.err)
    says(p.err, out, "left out of the inputs")
    both = results("a", "c")
    p = run(H5SPEC, "merge", "-o", os.path.join(both, "a.h5"), both, status=2)
    says(p.err, os.path.join(both, "a.h5") + ": is one of the inputs; name another file")


main(globals())
