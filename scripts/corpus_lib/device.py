"""Where h5spec computes: how many GPUs a task asks the scheduler for, and its option --device.

A task never holds a GPU while it computes on the CPU: with a GPU it gets `--device cuda`, which
fails if the GPU cannot be used; without one it gets `--device cpu`, which uses no GPU of others.
"""
import re

from corpus_lib.files import USAGE, ask, die, program, say


def has_cuda():
    """True if h5spec was built with its CUDA backend. A GPU need not be present here."""
    text = ask(program("h5spec"), "--version").stdout
    return bool(re.search(r"^backends?:[^;]*\bcuda\b", text, re.M))


def given_device(options):
    """The value of --device in options of h5spec; None if there is none."""
    found = None
    for k, word in enumerate(options):
        if word == "--device" and k + 1 < len(options):
            found = options[k + 1]
        elif word.startswith("--device="):
            found = word.split("=", 1)[1]
    return found


def choose_gpus(asked, scheduler, device):
    """GPUs per task: `asked`, or as many as h5spec can use. None: no request, h5spec decides."""
    if asked is not None:
        return asked
    if device is not None:
        return None if scheduler == "local" else int(device.startswith("cuda"))
    if scheduler == "local":
        return None
    if has_cuda():
        return 1
    say("h5spec was built without CUDA: tasks compute on CPUs and request no GPU")
    return 0


def choose_device(asked, scheduler, options):
    """(GPUs per task or None, options of h5spec to add). `asked` is --gpus or None."""
    device = given_device(options)
    gpus = choose_gpus(asked, scheduler, device)
    if gpus and not has_cuda():
        die("--gpus %d: %s was built without CUDA; use --gpus 0 to compute on CPUs, or name "
            "another build in H5SPEC" % (gpus, program("h5spec")), USAGE)
    if device is None:
        return gpus, [] if gpus is None else ["--device", "cuda" if gpus else "cpu"]
    if gpus is not None and (gpus > 0) != device.startswith("cuda"):
        die("--gpus %d and --h5spec '--device %s' contradict each other; leave one out" % (
            gpus, device), USAGE)
    return gpus, []
