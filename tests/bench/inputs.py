"""The disk of the benchmarks in every compression, made once and kept in the cache."""

import dataclasses
import os
import pathlib
import subprocess
import sys

# Like `xz -6` in what a decoder needs (8 MiB of dictionary, blocks of 24 MiB), but packed in a tenth of the time.
XZ = ["xz", "--lzma2=preset=1,dict=8MiB", "-c"]


@dataclasses.dataclass
class Inputs:
    """Path of a file in the cache."""

    folder: pathlib.Path
    disk: pathlib.Path

    def __getitem__(self, name):
        return self.folder / name


def prepare(root, name):
    built = subprocess.run([root / "images/guests/debian/build", name], stdout=subprocess.PIPE, check=True)
    disk = pathlib.Path(built.stdout.decode().strip())
    cache = pathlib.Path(os.environ.get("CORACLE_CACHE") or pathlib.Path.home() / ".cache/coracle")
    folder = cache / "bench" / disk.stem
    folder.mkdir(parents=True, exist_ok=True)
    have = Inputs(folder, disk)

    qemu = ["qemu-img", "convert", "-m", "8", "-f", "raw", "-O", "qcow2"]
    made(have["plain.qcow2"], lambda to: run([*qemu, disk, to]))
    made(have["zlib.qcow2"], lambda to: run([*qemu, "-c", disk, to]))
    made(have["zstd.qcow2"], lambda to: run([*qemu, "-c", "-o", "compression_type=zstd", disk, to]))
    made(have["disk.raw.gz"], lambda to: packed(["pigz", "-c", disk], to))
    made(have["disk.raw.zst"], lambda to: packed(["zstd", "-q", "-T0", "-c", disk], to))
    made(have["blocks.raw.xz"], lambda to: packed([*XZ, "-T0", "--block-size=24MiB", disk], to))
    made(have["one-block.qcow2.xz"], lambda to: packed([*XZ, "-T1", have["plain.qcow2"]], to))
    made(have["empty-1T.qcow2"], lambda to: run(["qemu-img", "create", "-q", "-f", "qcow2", to, "1T"]))
    made(have["empty-10T.qcow2"], lambda to: run(["qemu-img", "create", "-q", "-f", "qcow2", to, "10T"]))
    return have


def made(path, make):
    """Makes a file unless it exists; it gets its name once it is complete."""
    if path.exists():
        return
    print(f"bench: making {path.name}", file=sys.stderr, flush=True)
    part = path.with_name(path.name + ".part")
    make(part)
    part.rename(path)


def run(command):
    subprocess.run(command, check=True)


def packed(command, to):
    with open(to, "wb") as out:
        subprocess.run(command, stdout=out, check=True)
