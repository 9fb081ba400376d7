"""The lines of the table: the task, our command, the other tools at their best, and the goal."""

import images
from goals import MIB, both, no_larger, small, times, within
from measure import Line, Side


def all_lines(coracle, have, at, work):
    lines = Lines(coracle, have, at, work)
    return [*lines.local(), *lines.packed(), *lines.remote(), *images.lines(coracle, have, at, work), *lines.large()]


class Lines:
    def __init__(self, coracle, have, at, work):
        self.coracle, self.have, self.at, self.work = coracle, have, at, work

    def local(self):
        """Images on this host, against qemu-img."""
        out = self.work / "theirs.raw"
        for name, source, factor in [
            ("qcow2 zlib → raw", "zlib.qcow2", 2.0),
            ("qcow2 zstd → raw", "zstd.qcow2", 1.7),
            ("qcow2 plain → raw", "plain.qcow2", 1.3),
            ("raw → raw, sparse", None, 1.3),
        ]:
            path = self.have[source] if source else self.have.disk
            given = "qcow2" if source else "raw"
            yield Line(
                name, self.convert(path), self.qemu(f"-f {given} -O raw {path} {out}", out),
                f"{factor} ×", times(factor), warm=(path,),
            )
        out = self.work / "theirs.qcow2"
        for name, level, option, factor in [
            ("raw → qcow2 zlib", "zlib:6", "zlib", 2.0),
            ("raw → qcow2 zstd", "zstd:3", "zstd", 1.3),
        ]:
            disk = self.have.disk
            yield Line(
                name, self.convert(disk, "qcow2", f"--compress {level}"),
                self.qemu(f"-c -o compression_type={option} -f raw -O qcow2 {disk} {out}", out),
                f"{factor} ×, no larger", both(times(factor), no_larger), warm=(disk,),
            )

    def packed(self):
        """Compressed streams, compared with the tool of each compression. A tool that writes holes itself may do so."""
        for name, source, tool, factor in [
            ("raw.xz of many blocks → raw", "blocks.raw.xz", "xz -T0 -dc", 1.3),
            ("raw.gz → raw", "disk.raw.gz", "pigz -dc", 2.0),
            ("raw.zst → raw", "disk.raw.zst", "zstd -q -dc", None),
        ]:
            path, out = self.have[source], self.work / "theirs.raw"
            others = [
                Side(f"{tool} \\| dd conv=sparse", f"{tool} {path} | dd of={out} bs=64K iflag=fullblock conv=sparse status=none; {sync(out)}", out),
                Side(f"{tool} > file", f"{tool} {path} >{out}; {sync(out)}", out),
            ]
            reached = times(factor) if factor else None
            yield Line(name, self.convert(path), others, f"{factor} ×" if factor else "–", reached, warm=(path,))

        path = self.have["one-block.qcow2.xz"]
        decode = self.coracle.parent / "examples/decode"
        decoding = lambda result: result.other.median  # noqa: E731
        null = [Side("our decoder > /dev/null", f"{decode} {path}")] if decode.exists() else []
        yield Line(
            "qcow2.xz of one block → raw", self.convert(path), null, "within 10 % of decoding alone",
            within(1.10, decoding) if null else None, warm=(path,), against=decoding if null else None,
        )

    def remote(self):
        """Over HTTP on loopback: the server takes part of the same two cores."""
        alone = lambda result: result.beside[0].median  # noqa: E731
        longer = lambda result: max(result.other.median, alone(result))  # noqa: E731
        path, url = self.have["zlib.qcow2"], f"{self.at.fast}/zlib.qcow2"
        local = self.convert(path)
        yield Line(
            "qcow2 zlib over HTTP → raw", self.convert(url), [Side("curl > /dev/null", curl(url))],
            "≤ 1.15 × the longer of local and curl",
            within(1.15, longer), against=longer, warm=(path,), beside=(Side("the same, local", local.command, local.output),),
        )
        path, url = self.have["plain.qcow2"], f"{self.at.fast}/plain.qcow2"
        local = self.convert(path)
        yield Line(
            "qcow2 plain over HTTP → raw", self.convert(url), [Side("curl > /dev/null", curl(url))], "≤ 1.5 × local",
            within(1.5, alone), against=alone, warm=(path,), beside=(Side("the same, local", local.command, local.output),),
        )
        path, url = self.have["zlib.qcow2"], f"{self.at.slow}/zlib.qcow2"
        yield Line(
            "qcow2 zlib, 20 MB/s a connection, 50 ms → raw", self.convert(url),
            [Side("curl > file", f"curl -fsS -o {self.work}/theirs.bin {url}; {sync(self.work / 'theirs.bin')}")],
            "3 ×", times(3.0), warm=(path,),
        )

    def large(self):
        """Sizes that memory must not follow."""
        out = self.work / "ours.img"
        one, ten = self.have["empty-1T.qcow2"], self.have["empty-10T.qcow2"]
        removed = f"rm {out}"
        yield Line(
            "empty qcow2 of 1 TiB → raw", Side("coracle", f"{self.run(one, out)}; {removed}"), [], "1 s, 64 MiB",
            both(small, lambda result: result.ours.median < 1), warm=(one,),
        )
        yield Line(
            "empty qcow2 of 10 TiB → raw", Side("coracle", f"{self.run(ten, out)}; {removed}"), [], "64 MiB",
            small, warm=(ten,), once=True,
        )
        # One MiB in a hundred holds data, so that the disk holds 1 GiB.
        pattern = (
            "import sys, random; w = sys.stdout.buffer.write; r = random.Random(1)\n"
            "for _ in range(1024): w(r.randbytes(1 << 20)); [w(z) for z in [bytes(1 << 20)] * 99]"
        )
        yield Line(
            "stream of 100 GiB → raw",
            Side("coracle", f"python3 -c '{pattern}' | {self.run('-', out)}; {removed}"), [], "64 MiB", small, once=True,
        )

    def convert(self, source, given="raw", options=""):
        out = self.work / f"ours.{'img' if given == 'raw' else given}"
        return Side("coracle", self.run(source, out, f"--format {given} {options}"), out)

    def run(self, source, out, options=""):
        # Without a journal to resume from, each run starts from the beginning.
        return f"{self.coracle} convert --no-resume {options} {source} {out}"

    def qemu(self, rest, out):
        ways = ["-t writeback -T writeback", "-t none -T none", "-t writeback -T none"]
        return [
            Side(f"qemu-img convert -W -m 8 {way}", f"qemu-img convert -W -m 8 {way} {rest}; {sync(out)}", out)
            for way in ways
        ]


def curl(url):
    return f"curl -fsS -o /dev/null {url}"


def sync(path):
    return f"sync --data {path}"
