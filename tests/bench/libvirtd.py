"""The common way without coracle: a running libvirtd, skopeo, tar and virsh."""

import json
import os
import pathlib
import shutil
import subprocess
import time

from watched import Process, Watched

# Folders that libvirtd keeps outside of its settings; in a mount namespace of its own, so that the host's are not touched.
FOLDERS = ("/run/libvirt", "/var/lib/libvirt", "/var/cache/libvirt", "/var/log/libvirt", "/etc/libvirt")


class Libvirtd:
    """Debian's libvirtd with a socket and settings of its own."""

    def __init__(self, folder):
        self.folder, self.child = folder, None
        self.uri = f"qemu+unix:///system?socket={folder}/libvirt-sock"

    def start(self):
        if os.geteuid() != 0:
            raise SystemExit("bench: libvirtd of one's own needs root")
        self.folder.mkdir()
        (self.folder / "qemu.conf").write_text(
            'user = "root"\ngroup = "root"\nsecurity_driver = "none"\nstdio_handler = "file"\nnamespaces = []\n'
            "cgroup_controllers = []\nremember_owner = 0\n"
        )
        (self.folder / "libvirtd.conf").write_text(
            f'unix_sock_dir = "{self.folder}"\nauth_unix_rw = "none"\nauth_unix_ro = "none"\n'
        )
        hide = "; ".join(f"mkdir -p {at}; mount -t tmpfs none {at}" for at in FOLDERS)
        command = (
            f"{hide}; mkdir -p /etc/libvirt; cp {self.folder}/qemu.conf /etc/libvirt/;"
            f" exec libvirtd --config {self.folder}/libvirtd.conf --pid-file {self.folder}/pid"
        )
        with open(self.folder / "said", "w") as said:
            self.child = subprocess.Popen(
                ["unshare", "--mount", "bash", "-euc", command], stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        end = time.monotonic() + 60
        while subprocess.run(["virsh", "-q", "-c", self.uri, "version"], capture_output=True).returncode:
            if self.child.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"bench: libvirtd does not answer: {(self.folder / 'said').read_text()}")
            time.sleep(0.1)

    def end(self):
        if self.child:
            for name in self.virsh("list", "--name").split():
                self.virsh("destroy", name)
            self.child.terminate()
            self.child.wait()

    def memory(self):
        return Process(self.child.pid).memory()

    def virsh(self, *args):
        done = subprocess.run(["virsh", "-q", "-c", self.uri, *args], capture_output=True, text=True)
        return done.stdout

    def by_hand(self, image):
        return ByHand(self, image)


class ByHand(Watched):
    """skopeo copy, tar, virsh create; `brought` is the time at which the kernel was here."""

    def __init__(self, daemon, image):
        self.daemon, self.image, self.folder = daemon, image, daemon.folder / "hand"
        self.log = self.folder / "log"

    def __enter__(self):
        self.folder.mkdir()
        at = self.folder
        self.began = time.monotonic()
        shell(f"skopeo copy -q --src-tls-verify=false {self.image} dir:{at}/image; mkdir {at}/files;"
              f" for layer in $(jq -r '.layers[].digest[7:]' {at}/image/manifest.json);"
              f" do tar -C {at}/files -xf {at}/image/$layer; done")
        self.brought = time.monotonic() - self.began
        config = json.loads((at / "image/manifest.json").read_text())["config"]["digest"][7:]
        (at / "vm.xml").write_text(self.domain(json.loads((at / "image" / config).read_text())))
        shell(f"virsh -q -c '{self.daemon.uri}' create {at}/vm.xml")
        return self

    def __exit__(self, *_):
        self.daemon.virsh("destroy", "hand")
        shutil.rmtree(self.folder)

    def domain(self, config):
        """The domain that `coracle run` makes by default: its vCPUs, memory and kernel."""
        labels = config["config"]["Labels"]
        kernel, initrd = (f"{self.folder}/files{labels[f'io.coracle.{kind}']}" for kind in ("kernel", "initrd"))
        return f"""<domain type='qemu'><name>hand</name><memory unit='GiB'>1</memory><vcpu>{min(2, os.cpu_count())}</vcpu>
            <os><type machine='q35'>hvm</type><kernel>{kernel}</kernel><initrd>{initrd}</initrd>
            <cmdline>{labels['io.coracle.cmdline']}</cmdline></os><features><acpi/><apic/></features><cpu mode='maximum'/>
            <devices><emulator>{shutil.which('qemu-system-' + os.uname().machine)}</emulator>
            <serial type='file'><source path='{self.log}'/></serial><interface type='user'><model type='virtio'/></interface>
            <video><model type='vga'/></video><rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
            </devices></domain>"""


def shell(command):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench: {command}: {done.stderr}")
