"""Benchmarks of images: buildah, skopeo and tar, compared with one command."""

import shlex

from goals import both, small, times
from measure import Line, Side


def lines(coracle, have, at, work):
    return Images(coracle, have, at, work).lines()


class Images:
    def __init__(self, coracle, have, at, work):
        self.coracle, self.at, self.work = f"CORACLE_STORE={work}/store {coracle}", at, work
        self.disk = have["plain.qcow2"]
        # Both sides write files that the other one would have to remove.
        self.empty = f"rm -rf {work}/layout {work}/store {work}/dir {work}/files {at.stored}"

    def lines(self):
        return [self.build(), self.build_and_push(), self.pull(), self.copy(), self.hash("pull"), self.hash("build")]

    def build(self):
        layout = f"oci:{self.work}/layout:1"
        sync = f"find {self.work}/layout -type f -exec sync --data {{}} +"
        return Line(
            "build to a local layout, gzip",
            self.side("coracle", f"{self.coracle} build --quiet --layer gzip -t {layout} {self.disk}", layout),
            [self.buildah(driver, f"push -q theirs {layout}", layout, sync) for driver in ("overlay", "vfs")],
            "3 ×, 64 MiB", both(times(3.0), small), warm=(self.disk,), ready=self.context(),
        )

    def build_and_push(self):
        image = f"docker://{self.at.target}/os:1"
        return Line(
            "build and push to a registry, gzip",
            self.side("coracle", f"{self.coracle} build --quiet --layer gzip -t {image} {self.disk}", image),
            [self.buildah(driver, f"push -q --tls-verify=false theirs {image}", image) for driver in ("overlay", "vfs")],
            "3 ×, 64 MiB", both(times(3.0), small), warm=(self.disk,), ready=self.context(),
        )

    def pull(self):
        image, work = f"docker://{self.at.source}/gzip:1", self.work
        layer = f'{work}/dir/$(jq -r ".layers[0].digest[7:]" {work}/dir/manifest.json)'
        ours, theirs = work / "ours.img", work / "theirs.raw"
        by_hand = (
            f"skopeo copy -q --src-tls-verify=false {image} dir:{work}/dir; mkdir {work}/files;"
            f" tar -C {work}/files {{}} -xf {layer};"
            f" qemu-img convert -W -m 8 -O raw {work}/files/disk/* {theirs}; sync --data {theirs}"
        )
        return Line(
            "pull, gzip → raw",
            Side("coracle", f"{self.coracle} convert --quiet --no-resume {image} {ours}", ours, after=self.empty),
            [
                Side("skopeo copy; tar; qemu-img convert", by_hand.format(""), theirs, after=self.empty),
                Side("skopeo copy; tar -I pigz; qemu-img convert", by_hand.format("-I pigz"), theirs, after=self.empty),
            ],
            "3 ×, 64 MiB", both(times(3.0), small), ready=self.theirs(),
        )

    def copy(self):
        image, to = f"docker://{self.at.source}/gzip:1", f"docker://{self.at.target}/gzip:1"
        return Line(
            "copy registry → registry, gzip",
            self.side("coracle", f"{self.coracle} copy --quiet {image} {to}", to),
            [self.side("skopeo copy", f"skopeo copy -q --src-tls-verify=false --dest-tls-verify=false {image} {to}", to)],
            "1.2 ×, 64 MiB", both(times(1.2), small), ready=self.theirs(),
        )

    def hash(self, verb):
        """The time of one blob, against its hash on one core."""
        image = f"docker://{self.at.source}/none:1"
        command, ready = {
            "pull": (f"pull --quiet {image} os:1", f"{self.coracle} build --quiet --layer none -t {image} {self.disk}"),
            "build": (f"build --quiet --layer none -t docker://{self.at.target}/os:1 {self.disk}", ""),
        }[verb]
        alone = [
            Side("openssl dgst -sha256", f"openssl dgst -sha256 {self.disk}"),
            Side("sha256sum", f"sha256sum {self.disk}"),
        ]
        name = {"pull": "pull into the store, not compressed", "build": "build and push, not compressed"}[verb]
        return Line(
            f"{name}, beside the hash alone", Side("coracle", f"{self.coracle} {command}", after=self.empty), alone,
            "64 MiB", small, against=lambda result: result.other.median, warm=(self.disk,), ready=ready,
        )

    def side(self, name, command, image, after=""):
        output = self.work / "proof.qcow2"
        return Side(name, command, output, self.proof(image, output), f"{after}{self.empty}")

    def buildah(self, driver, push, image, sync="true"):
        work = self.work
        buildah = f"buildah --root {work}/containers --runroot {work}/run --storage-driver {driver}"
        forget = (
            f"{buildah} rm --all >/dev/null || true; for at in $(awk '$2 ~ \"^{work}/containers/\" {{ print $2 }}' /proc/self/mounts |"
            f" sort -r); do umount $at; done;"
            f" unshare=$([[ $EUID = 0 ]] || echo buildah unshare); $unshare rm -rf {work}/containers {work}/run;"
        )
        command = f"{buildah} bud -q -t theirs {work}/context; {buildah} {push}; {sync}"
        return self.side(f"buildah bud; buildah push ({driver})", command, image, forget)

    def context(self):
        """The Containerfile of a disk."""
        work = self.work
        return (
            f"mkdir -p {work}/context; ln -f {self.disk} {work}/context/disk.qcow2;"
            f" printf 'FROM scratch\\nADD --chown=107:107 disk.qcow2 /disk/\\n' >{work}/context/Containerfile"
        )

    def theirs(self):
        """An image as other tools build it, in the source registry: its layer is one gzip stream."""
        image = f"docker://{self.at.source}/gzip:1"
        side = self.buildah("overlay", f"push -q --tls-verify=false theirs {image}", image)
        missing = f"! skopeo inspect --raw --tls-verify=false {image} &>/dev/null"
        return f"if {missing}; then {self.context()}; {side.command}; {side.after}; fi"

    def proof(self, image, output):
        """Extracts the disk of an image with other tools; prints the size of its layer."""
        folder = shlex.quote(f"{self.work}/proof")
        return (
            f"tls=; [[ {image} != docker:* ]] || tls=--src-tls-verify=false; rm -rf {folder};"
            f" skopeo copy -q $tls {image} dir:{folder};"
            f" layer={folder}/$(jq -r '.layers[0].digest[7:]' {folder}/manifest.json);"
            f" tar -xOf $layer --wildcards 'disk/?*' >{output}; stat -c %s $layer; rm -rf {folder}"
        )
