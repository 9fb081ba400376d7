"""The one build of all mutants. Those that do not compile are dropped, until it succeeds."""

import json
import os
import pathlib
import subprocess
import sys

import tree

HERE = pathlib.Path(__file__).resolve().parent
# Errors hide others: each build drops some mutants.
MOST_BUILDS = 40


def build(place, modules, suites):
    """Gives the document of the mutants, and the paths of the executables with tests."""
    environment = dict(os.environ, CARGO_TARGET_DIR=str(place.work / "build"))
    for _ in range(MOST_BUILDS):
        document = rewrite(place, modules)
        is_built, executables, errors = compile(place, document, suites, environment)
        if is_built:
            return document, executables
        if not drop(place, document, errors):
            texts = "\n".join(error["rendered"] for error in errors[:5])
            raise SystemExit(f"mutants: {place.crate} does not compile:\n{texts}")
    raise SystemExit(f"mutants: {place.crate} does not compile after {MOST_BUILDS} builds: {place.path('dropped.log')}")


def rewrite(place, modules):
    """Puts the mutants into the tree."""
    tool = ["cargo", "run", "--quiet", "--locked", "--manifest-path", HERE / "Cargo.toml", "--"]
    names = {"source": place.source, "copy": place.tree / place.crate}
    names |= {"dropped": place.path("dropped.json"), "out": place.path("mutants.json")}
    options = [word for name, path in names.items() for word in [f"--{name}", path]]
    environment = dict(os.environ, CARGO_TARGET_DIR=str(place.work / "tool"))
    done = subprocess.run([*tool, *options, *modules], env=environment, stdout=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"mutants: {place.crate} could not be rewritten (see above)")
    document = place.load("mutants.json", None)
    written = set(document["files"])
    others = tree.below(place.source) - written
    tree.sync(place.source, others, place.tree / place.crate, is_kept=lambda name: name in written)
    return document


def compile(place, document, suites, environment):
    """Builds the tests of the crate. Gives success, executables and the errors of the compiler."""
    targets = ["--lib"] if "src/lib.rs" in document["roots"] else []
    if set(document["roots"]) - {"src/lib.rs"}:
        targets.append("--bins")
    for name in suites:
        targets += ["--test", name]
    command = ["cargo", "test", "--no-run", "--message-format=json", "--package", place.package, *targets]
    print(f"mutants: build {len(document['mutants'])} mutants", file=sys.stderr, flush=True)
    with open(place.path("build.log"), "w") as log:
        done = subprocess.run(command, cwd=place.tree, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    told = [message["message"] for message in messages if message["reason"] == "compiler-message"]
    errors = [message for message in told if message["level"] == "error"]
    if done.returncode and not errors:
        raise SystemExit(f"mutants: {place.crate} cannot be built:\n{place.path('build.log').read_text()[-3000:]}")
    built = [message for message in messages if message["reason"] == "compiler-artifact" and message["profile"]["test"]]
    return done.returncode == 0, [message["executable"] for message in built if message["executable"]], errors


def drop(place, document, errors):
    """Drops the mutants that errors are about. True if there were new ones."""
    dropped = set(place.load("dropped.json", []))
    before = len(dropped)
    with open(place.path("dropped.log"), "a") as log:
        for error in errors:
            new = set(culprits(place, document["ranges"], error)) - dropped
            log.writelines(f"{error['message'][:100]} | {key}\n" for key in sorted(new))
            dropped |= new
    place.save("dropped.json", sorted(dropped))
    return len(dropped) > before


def culprits(place, ranges, error):
    """Keys of the mutants that an error is about: those at its places, else all of the function around."""
    spans = []
    for span in sorted(error["spans"], key=lambda span: not span["is_primary"]):
        while span:
            spans.append((of_file(place, ranges, span["file_name"]), span["byte_start"], span["byte_end"]))
            span = (span.get("expansion") or {}).get("span")
    # The type of an original may be that which a mutation beside it lacks: a place in one mutation tells more than one in many.
    for here, begin, end in spans:
        if keys := [one["key"] for one in here if "key" in one and one["from"] <= begin and end <= one["to"]]:
            return keys
    for here, begin, end in spans:
        if keys := at(here, begin, end):
            return keys
    for here, begin, end in spans:
        around = [one for one in here if one.get("is_body") and one["from"] <= begin and end <= one["to"]]
        if around:
            body = min(around, key=length)
            return [key for one in here if body["from"] <= one["from"] and one["to"] <= body["to"] for key in keys_of(one)]
    return []


def of_file(place, ranges, name):
    name = os.path.relpath(os.path.join(place.tree, name), place.tree / place.crate)
    return ranges.get(name, [])


def at(here, begin, end):
    """Keys of mutations at a place; else of the smallest site around it; else of the sites in it."""
    mutations = [one for one in here if "key" in one and one["from"] < max(end, begin + 1) and begin < one["to"]]
    around = [one for one in mutations if one["from"] <= begin and end <= one["to"]]
    if mutations:
        return [one["key"] for one in around or mutations]
    sites = [one for one in here if "keys" in one and not one["is_body"]]
    around = [one for one in sites if one["from"] <= begin and end <= one["to"]]
    if around:
        return min(around, key=length)["keys"]
    return [key for one in sites if begin <= one["from"] and one["to"] <= end for key in one["keys"]]


def length(one):
    return one["to"] - one["from"]


def keys_of(one):
    return one.get("keys") or [one["key"]]
