"""Migration without coracle: two libvirtd, each with mounts, processes and a network of its own, and `virsh migrate --p2p`.

 host 1                                            host 2
 libvirtd ── QEMU ── eth0 192.0.2.1 ════════════ 192.0.2.2 eth0 ── QEMU ── libvirtd

libvirtd and QEMU are those of our launcher's image, and the domain is that of a launcher of ours (`virsh dumpxml` in its pod).
Only these parts differ: the guest's network is one of QEMU itself, since there is no pod; libvirtd is root; its RPC and the
guest's memory go over plain TCP. /local is another folder on each host; the folder of the benchmark is the same on both.
"""

import pathlib
import re
import subprocess
import time
import xml.etree.ElementTree as ElementTree

LOCAL = "/local"
# Root of a host: the image's files, with folders of its own where libvirt and QEMU write.
START = """
mount --make-rprivate /
mkdir -p {own}/root {own}/upper {own}/work {local}
mount -t overlay overlay -o lowerdir={files},upperdir={own}/upper,workdir={own}/work {own}/root
cd {own}/root
mkdir -p dev proc sys run tmp .{local_at} .{folder} var/lib/libvirt var/cache/libvirt var/log/libvirt etc/libvirt
mount --rbind /dev dev; mount --rbind /sys sys; mount -t proc proc proc; mount -t tmpfs tmpfs run; mount -t tmpfs tmpfs tmp
mkdir -p run/libvirt
mount --bind {folder} .{folder}
mount --bind {local} .{local_at}
cp {own}/qemu.conf etc/libvirt/
hostname host{number}
ip link set lo up
# Not `exec`: the first process has to reap, or libvirt waits 40 s for a QEMU that has ended.
chroot . /usr/sbin/libvirtd --listen --config {own}/libvirtd.conf --pid-file /run/libvirtd.pid &
wait $!
"""


class Peer:
    """Two hosts that a domain goes to and fro between. `files` is the root of the launcher's image."""

    def __init__(self, folder, files):
        self.folder, self.files = folder, files
        self.hosts = [Host(self, number) for number in (1, 2)]

    def __enter__(self):
        try:
            for host in self.hosts:
                host.start()
            one, two = (host.child.pid for host in self.hosts)
            run("ip", "link", "add", "eth0", "netns", one, "type", "veth", "peer", "name", "eth0", "netns", two)
            for host in self.hosts:
                host.in_network("ip", "addr", "add", f"{host.address}/24", "dev", "eth0")
                host.in_network("ip", "link", "set", "eth0", "up")
            for host in self.hosts:
                host.answers()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            host.end()


class Host:
    def __init__(self, peer, number):
        self.peer, self.number, self.child = peer, number, None
        self.own, self.local = peer.folder / f"host{number}", peer.folder / f"local{number}"
        self.address = f"192.0.2.{number}"
        self.uri = f"qemu+unix:///system?socket={self.own}/libvirt-sock"

    def start(self):
        self.own.mkdir()
        self.own.joinpath("qemu.conf").write_text(
            'user = "root"\ngroup = "root"\nsecurity_driver = "none"\nstdio_handler = "file"\nnamespaces = []\n'
            f'cgroup_controllers = []\nremember_owner = 0\nmigration_address = "{self.address}"\n'
            f'migration_host = "{self.address}"\nshared_filesystems = [ "{self.peer.folder}" ]\n'
        )
        self.own.joinpath("libvirtd.conf").write_text(
            f'unix_sock_dir = "{self.own}"\nauth_unix_rw = "none"\nauth_unix_ro = "none"\nlisten_tls = 0\nlisten_tcp = 1\n'
            f'auth_tcp = "none"\nhost_uuid = "00000000-0000-4000-8000-00000000000{self.number}"\n'
        )
        command = START.format(
            own=self.own, files=self.peer.files, local=self.local, local_at=LOCAL, folder=self.peer.folder, number=self.number
        )
        with open(self.own / "said", "w") as said:
            self.child = subprocess.Popen(
                ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "bash", "-euc", command],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )
        # It has its own network by then.
        self.wait(lambda: same_network(self.child.pid) is False)

    def answers(self):
        self.wait(lambda: subprocess.run(["virsh", "-q", "-c", self.uri, "version"], capture_output=True).returncode == 0)

    def wait(self, so):
        end = time.monotonic() + 60
        while not so():
            if self.child.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"bench: libvirtd of host {self.number} does not answer: {(self.own / 'said').read_text()}")
            time.sleep(0.05)

    def end(self):
        # All processes of the host end with the first one.
        if self.child:
            self.child.kill()
            self.child.wait()

    def in_network(self, *command):
        return run("nsenter", "--target", self.child.pid, "--net", *command)

    def sent(self):
        """Bytes that the host has sent to the other one."""
        line = self.in_network("ip", "-j", "-s", "link", "show", "eth0")
        return int(re.search(r'"tx":\{"bytes":(\d+)', line)[1])

    def virsh(self, *args):
        return run("virsh", "-q", "-c", self.uri, *args)

    def begin_migration(self, name, to, *options):
        """The command that migrates a domain to another host; it has begun."""
        return subprocess.Popen(
            ["virsh", "-q", "-c", self.uri, "migrate", "--live", "--p2p", *options, name,
             f"qemu+tcp://{to.address}/system"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench: {' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def same_network(pid):
    return pathlib.Path(f"/proc/{pid}/ns/net").readlink() == pathlib.Path("/proc/self/ns/net").readlink()


def file_of(xml, disk):
    """The file of a domain's disk."""
    found = ElementTree.fromstring(xml).findall("devices/disk")
    return next(one.find("source").get("file") for one in found if one.find("target").get("dev") == disk)


def domain(ours, name, log, kernel, initrd, disks):
    """A domain of ours as one of the peer. `disks`: files by the names of the guest's disks (`vda`)."""
    xml = ElementTree.fromstring(ours)
    for tag in ("metadata", "resource", "seclabel"):
        for found in xml.findall(tag):
            xml.remove(found)
    xml.attrib.pop("id", None)
    xml.find("name").text = name
    xml.find("os/kernel").text, xml.find("os/initrd").text = str(kernel), str(initrd)
    devices = xml.find("devices")
    for disk in devices.findall("disk"):
        source = disk.find("source")
        source.attrib.clear()
        for inner in list(source):
            source.remove(inner)
        disk.set("type", "file")
        source.set("file", str(disks[disk.find("target").get("dev")]))
        for backing in disk.findall("backingStore"):
            disk.remove(backing)
    for card in devices.findall("interface"):
        card.set("type", "user")
        for inner in list(card):
            if inner.tag not in ("mac", "model", "address", "alias", "rom"):
                card.remove(inner)
    for line in [*devices.findall("serial"), *devices.findall("console")]:
        line.attrib.pop("tty", None)
        for source in line.findall("source"):
            line.remove(source)
        for kept in line.findall("log"):
            kept.set("file", str(log))
    for channel in devices.findall("channel"):
        for source in channel.findall("source"):
            channel.remove(source)
    for screen in devices.findall("graphics"):
        for inner in list(screen):
            screen.remove(inner)
        screen.attrib.pop("port", None)
        screen.set("socket", "/run/vnc")
        ElementTree.SubElement(screen, "listen", {"type": "socket", "socket": "/run/vnc"})
    return ElementTree.tostring(xml, encoding="unicode")
