"""Copies of the workspace: the sources as they were when the run began, and the tree with the mutants."""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile


@contextlib.contextmanager
def alone(work):
    """Lets another run wait until this one has ended: all use one tree."""
    work.mkdir(parents=True, exist_ok=True)
    with open(work / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclasses.dataclass
class Place:
    """The folder of one crate below target/mutants."""

    root: pathlib.Path
    work: pathlib.Path
    # Folder of the package in the workspace.
    crate: str

    def path(self, name):
        return self.work / self.crate.replace("/", "-") / name

    @property
    def tree(self):
        """Workspace that is built, with the mutants. One for all crates: each is built at one path, and only once."""
        return self.work / "tree"

    @property
    def source(self):
        """The crate without mutants."""
        return self.path("source")

    @property
    def package(self):
        return re.search(r'^name = "(.*)"', (self.source / "Cargo.toml").read_text(), re.MULTILINE)[1]

    def load(self, name, default):
        return json.loads(self.path(name).read_text()) if self.path(name).exists() else default

    def save(self, name, value):
        new = self.path(f"{name}.new")
        new.write_text(json.dumps(value))
        os.replace(new, self.path(name))


def copy(place, is_head):
    """Copies the working tree, or HEAD with the crate of the working tree. Of the crate only `source` is written."""
    listed = ["git", "-C", place.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    names = {name for name in names if (place.root / name).is_file()}
    prefix = f"{place.crate}/"
    own = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    if "Cargo.toml" not in own:
        raise SystemExit(f"mutants: {place.crate}/Cargo.toml does not exist: name the folder of a package")
    sync(place.root / place.crate, own, place.source)
    others = lambda names: {name for name in names if not name.startswith(prefix)}  # noqa: E731
    if is_head:
        with tempfile.TemporaryDirectory(prefix="mutants.") as head:
            archive = subprocess.run(["git", "-C", place.root, "archive", "HEAD"], check=True, capture_output=True)
            subprocess.run(["tar", "x", "-C", head], check=True, input=archive.stdout)
            head = pathlib.Path(head)
            sync(head, others(below(head)), place.tree, is_kept=lambda name: name.startswith(prefix))
    else:
        sync(place.root, others(names), place.tree, is_kept=lambda name: name.startswith(prefix))
    allow_all(place.tree / "Cargo.toml")


def sync(source, names, to, is_kept=lambda name: False):
    """Copies files. A file with the same bytes keeps its time, so that cargo does not build it again. Others are removed."""
    for name in names:
        old, new = to / name, source / name
        if old.is_file() and old.read_bytes() == new.read_bytes():
            continue
        old.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(new, old)
        shutil.copymode(new, old)
    for name in below(to) - names:
        if not is_kept(name):
            (to / name).unlink()


def below(folder):
    """Names of all files in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def allow_all(manifest):
    """Replaces the lints of the workspace: a mutant may leave a variable unused, or a sum that overflows."""
    text = re.sub(r"^\[workspace\.lints\..*?(?=^\[(?!workspace\.lints)|\Z)", "", manifest.read_text(), flags=re.M | re.S)
    names = ["warnings", "arithmetic_overflow", "overflowing_literals", "unconditional_panic"]
    allowed = "".join(f'{name} = "allow"\n' for name in names)
    text += f"\n[workspace.lints.rust]\n{allowed}"
    manifest.write_text(text)
