"""Takes the kernel itself, an ELF file, out of what boot loaders start: vmlinux.py VMLINUZ VMLINUX"""

import lzma
import pathlib
import struct
import subprocess
import sys


def main():
    image = pathlib.Path(sys.argv[1]).read_bytes()
    # The header is told in the kernel's Documentation/x86/boot.rst; the offset counts from the end of its sectors.
    if image[0x202:0x206] != b"HdrS":
        sys.exit(f"{sys.argv[1]} is no Linux kernel for a boot loader")
    sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (sectors + 1) * 512 + offset
    kernel = unpacked(image[start : start + length])
    if kernel[:4] != b"\x7fELF":
        sys.exit(f"{sys.argv[1]} holds no ELF file")
    pathlib.Path(sys.argv[2]).write_bytes(kernel)


def unpacked(payload):
    if payload[:6] == b"\xfd7zXZ\0":
        # Its last four bytes are the length, which is no part of the xz file.
        return lzma.LZMADecompressor().decompress(payload)
    if payload[:4] == b"\x28\xb5\x2f\xfd":
        return subprocess.run(["zstd", "-dc"], input=payload[:-4], stdout=subprocess.PIPE, check=True).stdout
    sys.exit("the kernel is packed in a way that this recipe does not know")


if __name__ == "__main__":
    main()
