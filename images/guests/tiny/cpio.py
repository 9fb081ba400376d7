"""Packs a folder as the kernel reads an initrd: cpio "newc", files in order of their names, of root, of one time.

    cpio.py FOLDER >initrd

Beside the files of FOLDER it holds the device /dev/console, which only root could make in a folder.
"""

import os
import pathlib
import stat
import sys

TIME = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


def main():
    folder = pathlib.Path(sys.argv[1])
    out = sys.stdout.buffer
    entries = [(path.relative_to(folder).as_posix(), path) for path in folder.rglob("*")]
    number = 0
    for number, (name, path) in enumerate(sorted(entries), 1):
        info = path.lstat()
        data = b""
        if path.is_symlink():
            data = os.readlink(path).encode()
        elif path.is_file():
            data = path.read_bytes()
        # What umask made of the modes does not count.
        executable = info.st_mode & 0o100 or path.is_dir() or path.is_symlink()
        mode = stat.S_IFMT(info.st_mode) | (0o755 if executable else 0o644)
        out.write(entry(number, name, mode, data))
    out.write(entry(number + 1, "dev/console", stat.S_IFCHR | 0o600, b"", (5, 1)))
    out.write(entry(0, "TRAILER!!!", 0, b""))


def entry(number, name, mode, data, device=(0, 0)):
    name = name.encode() + b"\0"
    fields = [number, mode, 0, 0, 1, TIME, len(data), 0, 0, *device, len(name), 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return padded(head) + padded(data)


def padded(data):
    return data + b"\0" * (-len(data) % 4)


if __name__ == "__main__":
    main()
