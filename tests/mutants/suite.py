"""Tests of an executable, run in a process of their own with or without a mutant."""

import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time

# Timeout of a test without a mutant, in seconds.
TOO_LONG = 180
# Address space of a process: a mutant may ask for all memory there is.
MOST_MEMORY = 12 << 30
# Tests that take less than so many seconds run together in one process, before those that take longer.
GROUPS = [0.3, 2, float("inf")]


def names(place, executable):
    """Names of the tests that are not ignored."""

    def listed(*more):
        command = [executable, "--list", "--format", "terse", *more]
        lines = subprocess.run(command, cwd=folder(place), check=True, capture_output=True, text=True).stdout.splitlines()
        return {line.removesuffix(": test") for line in lines if line.endswith(": test")}

    return sorted(listed() - listed("--ignored"))


def reach(place, mutants, executable, name):
    """Runs a test without a mutant. Gives its result, its seconds and the keys of the mutants that it reaches."""
    with tempfile.NamedTemporaryFile(prefix="mutants.") as seen:
        seen.truncate(max((mutant["number"] for mutant in mutants), default=0) + 1)
        result, _, seconds = process(place, executable, [name], TOO_LONG, {"MUTANT_SEEN": seen.name})
        asked = pathlib.Path(seen.name).read_bytes()
    reached = [mutant["key"] for mutant in mutants if asked[mutant["number"]]]
    return {"executable": executable, "name": name, "result": result, "seconds": seconds, "reached": reached}


def judge(place, mutant, tests, likely=()):
    """Runs a mutant against tests that reach it: likely ones first, then those of its own folder. Gives the result, and the test
    that caught it."""
    groups, own = {}, module(mutant["file"])
    for test in sorted(tests, key=lambda test: test["seconds"]):
        rank = next(at for at, longest in enumerate(GROUPS) if test["seconds"] < longest)
        nearness = 0 if test["name"] in likely else 1 if test["name"].startswith(own) else 2
        groups.setdefault((nearness, rank, test["executable"]), []).append(test)
    for (_, _, executable), group in sorted(groups.items()):
        limit = 10 * sum(test["seconds"] for test in group) + 10
        named = [test["name"] for test in group]
        result, by, _ = process(place, executable, named, limit, {"MUTANT": str(mutant["number"])})
        if result != "ok":
            return result, by
    return "survived" if tests else "unreached", ""


def module(file):
    """Beginning of the names of the unit tests that belong to a file, and to those beside it."""
    parts = pathlib.PurePath(file).with_suffix("").parts[1:]
    is_alone = len(parts) == 1 and parts[0] not in ("lib", "main")
    return "::".join([*(parts if is_alone else parts[:-1]), ""])


def process(place, executable, tests, limit, environment):
    """Runs tests in one process until one fails. Gives the result, the test that failed or did not end, and the seconds."""
    own = tempfile.mkdtemp(prefix="mutants.")
    began = time.monotonic()
    running = subprocess.Popen(
        [executable, "--exact", "--test-threads=2", *tests],
        cwd=folder(place),
        env=dict(os.environ, TMPDIR=own, CARGO_MANIFEST_DIR=str(folder(place)), **PROPTEST, **environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=limits,
    )
    is_late = threading.Event()
    timer = threading.Timer(limit, lambda: (is_late.set(), kill(running.pid)))
    timer.start()
    failed, ended = "", set()
    for line in running.stdout:
        if match := re.match(r"test (\S+)(?: - should panic)? \.\.\. (ok|FAILED)", line):
            ended.add(match[1])
            if match[2] == "FAILED":
                failed = match[1]
                kill(running.pid)
                break
    timer.cancel()
    code = running.wait()
    # Programs that a test has started.
    kill(running.pid)
    running.stdout.close()
    clear(own)
    seconds = time.monotonic() - began
    if failed:
        return "failed", failed, seconds
    others = ", ".join(sorted(set(tests) - ended))[:200]
    if is_late.is_set():
        return "timeout", others, seconds
    return ("crash", others, seconds) if code else ("ok", "", seconds)


# A mutant fails on the first input found; neither a smaller one nor a file with it is of use.
PROPTEST = {"PROPTEST_MAX_SHRINK_ITERS": "0", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true"}


def folder(place):
    """Folder that cargo runs the tests of the crate in."""
    return place.tree / place.crate


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def kill(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def clear(path):
    """Removes the temporary folder of a process, with the mounts and loop devices that it left there."""
    mounts = [entry.split()[1] for entry in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed([mount for mount in mounts if mount.startswith(f"{path}/")]):
        subprocess.run(["umount", "--lazy", mount], capture_output=True)
    for backing in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            is_own = backing.read_text().startswith(f"{path}/")
        except OSError:
            continue
        if is_own:
            subprocess.run(["losetup", "--detach", f"/dev/{backing.parts[3]}"], capture_output=True)
    shutil.rmtree(path, ignore_errors=True)
