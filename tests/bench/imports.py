"""Benchmarks of imports: the program of an importer pod, compared with manual steps for the same disk.

 ours    cdi-worker import: the bytes go from the server to the disk once, with the memory limit of a pod
 other   the image into a scratch folder, then qemu-img convert; of compressed disks also a pipe into the disk

Both sides tell what they had written to storage, of all their processes (write_bytes of /proc/PID/io).
"""

import json
import shlex

import images
from goals import times
from lines import sync
from measure import Line, Side

MIB = 1 << 20
# Memory limit of an importer pod, in bytes.
LIMIT = 128 * MIB
# Names of lines.
NAMES = (
    "import: qcow2 zlib over HTTP", "import: qcow2 plain over HTTP", "import: qcow2 zstd over HTTP",
    "import: raw.xz of many blocks over HTTP", "import: raw.gz over HTTP", "import: containerDisk, gzip, from a registry",
    "import: qcow2 uploaded to the pod",
)


def lines(coracle, have, at, work):
    return Imports(coracle, have, at, work).lines()


class Imports:
    def __init__(self, coracle, have, at, work):
        self.coracle, self.have, self.at, self.work = coracle, have, at, work
        self.worker = coracle.parent / "cdi-worker"
        self.ours, self.theirs, self.scratch = work / "ours.img", work / "theirs.raw", work / "scratch"
        self.counted = work / "written"

    def lines(self):
        return [*self.qcow2(), *self.packed(), self.registry(), self.upload()]

    def qcow2(self):
        for name, source in zip(NAMES, ("zlib.qcow2", "plain.qcow2", "zstd.qcow2")):
            path, url = self.have[source], f"{self.at.fast}/{source}"
            by_hand = f"curl -fsS -o {self.scratch} {url}; {self.convert('qcow2', self.scratch)}"
            yield self.line(name, self.http(url), [self.hand("curl; qemu-img convert", by_hand)], 3.0, (path,))

    def packed(self):
        for name, source, tool, factor in [
            (NAMES[3], "blocks.raw.xz", "xz -T0 -dc", 5.0), (NAMES[4], "disk.raw.gz", "pigz -dc", 3.0),
        ]:
            path, url = self.have[source], f"{self.at.fast}/{source}"
            fetched = f"curl -fsS -o {self.scratch} {url}"
            raw = f"{self.scratch}.raw"
            steps = f"{fetched}; {tool} {self.scratch} >{raw}; {self.convert('raw', raw)}"
            pipe = (
                f"curl -fsS {url} | {tool} | dd of={self.theirs} bs=64K iflag=fullblock conv=sparse status=none;"
                f" {sync(self.theirs)}"
            )
            others = [self.hand(f"curl; {tool}; qemu-img convert", steps), self.hand(f"curl \\| {tool} \\| dd conv=sparse", pipe)]
            yield self.line(name, self.http(url), others, factor, (path,))

    def registry(self):
        """The steps of `images.py`, into a scratch folder."""
        them = images.Images(self.coracle, self.have, self.at, self.work)
        pull, image = them.pull(), f"docker://{self.at.source}/gzip:1"
        others = [self.hand(side.name, side.command, side.after) for side in pull.others]
        return self.line(NAMES[5], self.job({"registry": {"url": image}}), others, 3.0, (), pull.ready)

    def upload(self):
        """Compared with a copy of the bytes through TLS: the pod also converts them. The proxy is in the cluster's line."""
        path, folder = self.have["zlib.qcow2"], self.work / "upload"
        job = json.dumps({"source": {"upload": {}}, "target": {"file": str(self.ours)}})
        at = "--listen 127.0.0.1:0 --linger 0"
        serve = (
            f"TLS_CERT_FILE={folder}/server.crt TLS_KEY_FILE={folder}/server.key CLIENT_CERT_FILE={folder}/ca.crt"
            f" CLIENT_NAME=bench {self.environment(job)} {self.worker} upload {at} 2>{folder}/log & pod=$!;"
            f" until port=$(sed -n 's|.*serves https://127.0.0.1:\\([0-9]*\\)/.*|\\1|p' {folder}/log) && [[ $port ]]; do sleep 0.01; done;"
            f" curl -fsS --cacert {folder}/ca.crt --cert {folder}/client.crt --key {folder}/client.key -H 'Expect:'"
            f" -X POST -T {path} https://127.0.0.1:$port/v1beta1/upload; wait $pod"
        )
        ours = Side("cdi-worker", self.told(serve), self.ours, written=self.counted)
        other = Side("the same bytes by socat through TLS", self.told(copied(path, folder, self.scratch)), after=f"rm -f {self.scratch}", written=self.counted)
        factor = lambda result: result.ours.median <= 1.5 * result.other.median  # noqa: E731
        return Line(
            NAMES[6], ours, [other], "≤ 1.5 × its time", factor, against=lambda result: result.other.median,
            warm=(path,), ready=certificates(folder),
        )

    def line(self, name, ours, others, factor, warm, ready=""):
        data = self.have.disk.stat().st_blocks * 512

        def reached(result):
            is_lean = result.ours.written <= 1.02 * data and result.ours.rss <= 64 * MIB
            return times(factor)(result) and is_lean

        goal = f"{factor:g} ×, written ≤ 1.02, 64 MiB"
        return Line(name, ours, others, goal, reached, warm=warm, ready=ready)

    def http(self, url):
        return self.job({"http": {"url": url}})

    def job(self, source):
        """An importer as a pod starts it, without a file for its last message."""
        job = json.dumps({"source": source, "target": {"file": str(self.ours)}})
        command = f"{self.environment(job)} {self.worker} import --listen 127.0.0.1:0"
        return Side("cdi-worker", self.told(command), self.ours, written=self.counted)

    def environment(self, job):
        return f"CDI_JOB={shlex.quote(job)} MEMORY_LIMIT={LIMIT} OWNER_UID=bench TERMINATION_LOG={self.work}/last-words"

    def hand(self, name, command, after=""):
        after = f"{after}{';' if after else ''} rm -f {self.scratch} {self.scratch}.raw"
        return Side(name, self.told(command), self.theirs, after=after, written=self.counted)

    def convert(self, given, source):
        out = self.theirs
        return f"qemu-img convert -W -m 8 -t writeback -T writeback -f {given} -O raw {source} {out}; {sync(out)}"

    def told(self, command):
        """The command, followed by the bytes that its processes have written: the shell has waited for all of them."""
        return f"{command}; sed -n 's/^write_bytes: //p' /proc/$$/io >{self.counted}"


def copied(path, folder, to):
    """Copies a file through TLS on loopback into another, until its bytes are on the disk."""
    free = "import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); print(s.getsockname()[1])"
    return (
        f"port=$(python3 -c '{free}');"
        f" socat -u -b 65536 OPENSSL-LISTEN:$port,bind=127.0.0.1,cert={folder}/server.pem,verify=0 CREATE:{to} & copy=$!;"
        f" socat -u -b 65536 FILE:{path} OPENSSL:127.0.0.1:$port,verify=0,retry=100,interval=0.02; wait $copy; {sync(to)}"
    )


def certificates(folder):
    """A server and a client with certificates of one authority; made once."""
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    sign = f"-CA {folder}/ca.crt -CAkey {folder}/ca.key"
    return (
        f"mkdir -p {folder}; cd {folder};"
        f" openssl req -x509 -subj /CN=ca {key} -keyout ca.key -out ca.crt 2>/dev/null;"
        f" openssl req -x509 -subj /CN=server -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=CA:FALSE {sign} {key} -keyout server.key -out server.crt 2>/dev/null;"
        f" openssl req -x509 -subj /CN=bench -addext basicConstraints=CA:FALSE {sign} {key} -keyout client.key -out client.crt 2>/dev/null;"
        " cat server.crt server.key >server.pem"
    )
