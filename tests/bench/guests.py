"""VMs for the benchmark: by `coracle run`, and the same QEMU alone."""

import contextlib
import copy
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import time

import libvirtd
import serve
from watched import TOO_LONG, Process, Watched, processes


@contextlib.contextmanager
def place(root, coracle):
    """A registry, a running libvirtd, and a folder for VMs; its path is short, since it holds sockets."""
    port = serve.free_port()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir="/var/tmp"))
    registry = serve.registry(folder / "registry", port)
    daemon = libvirtd.Libvirtd(folder / "libvirt")
    at = Place(root, coracle, folder, f"127.0.0.1:{port}", daemon)
    try:
        serve.answers(port)
        daemon.start()
        at.build()
        yield at
    finally:
        at.end()
        daemon.end()
        registry.terminate()
        registry.wait()
        shutil.rmtree(folder, ignore_errors=True)


class Place:
    def __init__(self, root, coracle, folder, registry, daemon):
        self.root, self.coracle, self.folder, self.registry, self.libvirtd = root, coracle, folder, registry, daemon
        self.home = folder / "home"
        self.env = {**os.environ, "CORACLE_HOME": str(self.home), "CORACLE_STORE": str(folder / "store")}
        self.env.pop("CORACLE_LAUNCHER", None)

    def build(self):
        built = subprocess.run([self.root / "images/guests/tiny/build"], stdout=subprocess.PIPE, check=True)
        tiny = pathlib.Path(built.stdout.decode().strip())
        self.tell(
            "build", "--quiet", "-t", "tiny:1", "--kernel", tiny / "vmlinux", "--initrd", tiny / "initrd",
            "--cmdline", (tiny / "cmdline").read_text().strip(),
        )

    def publish(self, image):
        """Puts an image into the registry, and yields its name there."""
        there = f"docker://{self.registry}/{image}"
        self.tell("push", "--quiet", image, there)
        return there

    def forget_images(self):
        """Removes all images from this host."""
        shutil.rmtree(self.folder / "store", ignore_errors=True)
        shutil.rmtree(self.home / "data", ignore_errors=True)

    def tell(self, *args):
        done = subprocess.run(
            [self.coracle, *args], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=TOO_LONG,
        )
        if done.returncode:
            raise SystemExit(f"bench: coracle {' '.join(map(str, args))}: {done.stderr.decode(errors='replace')}")
        return done.stdout

    def run(self, name, image, *args):
        return Ours(self, name, image, args)

    def end(self):
        vms = self.home / "state/vms"
        for vm in sorted(vms.iterdir()) if vms.is_dir() else []:
            subprocess.run([self.coracle, "rm", "--force", vm.name], env=self.env, stderr=subprocess.DEVNULL)


class Ours(Watched):
    """Runs `coracle run -d`; `told` is the duration of the command."""

    def __init__(self, at, name, image, args):
        self.at, self.name, self.image, self.args = at, name, image, args
        self.log = at.home / "state/vms" / name / "root/log/serial.log"

    def __enter__(self):
        before = children()
        self.began = time.monotonic()
        self.at.tell("run", "--quiet", "--detach", "--name", self.name, self.image, *self.args)
        self.told = time.monotonic() - self.began
        self.command = children() - before
        return self

    def __exit__(self, *_):
        self.at.tell("rm", "--force", self.name)

    def processes(self):
        """All processes with this VM's folder in their arguments."""
        return [p for p in processes() if any(f"{self.at.home}/state/vms/{self.name}/" in arg for arg in p.args)]

    def cpu(self):
        """CPU seconds so far of the command, the launcher and QEMU."""
        return self.command + sum(process.cpu() for process in self.processes())

    def launcher(self):
        return next(p for p in self.processes() if p.name == "virt-launcher").memory()

    def qemu(self):
        return self.qemu_process().memory()

    def qemu_process(self):
        return next(p for p in self.processes() if p.name.startswith("qemu-system"))

    def bare(self):
        return Bare(self.at, self.qemu_process().args)


class Bare:
    """Arguments of a QEMU process of the launcher, without those that only libvirt can provide."""

    def __init__(self, at, args):
        self.at, self.args = at, []
        rest = iter(args[1:])
        for word in rest:
            value = next(rest) if word not in ("-S", "-no-user-config", "-nodefaults", "-no-shutdown") else None
            if word in ("-S", "-mon", "-add-fd") or (value and ("charmonitor" in value or "masterKey0" in value)):
                continue
            if word == "-chardev" and "id=charserial0" in value:
                value = "pty,id=charserial0,logfile=FOLDER/log,logappend=on"
            elif word == "-chardev" and ",fd=" in value:
                value = re.sub(r"fd=\d+", f"path=FOLDER/{re.search('id=([a-z0-9]+)', value)[1]}", value)
            elif word == "-vnc":
                value = re.sub(r"unix:[^,]*", "unix:FOLDER/vnc", value)
            self.args += [word] if value is None else [word, value]
        # Kernel and initrd are copied, since an image's files may be removed meanwhile.
        kept = at.folder / "kept"
        kept.mkdir(exist_ok=True)
        for option in ("-kernel", "-initrd"):
            where = self.args.index(option) + 1
            mine = kept / option.strip("-")
            shutil.copyfile(self.args[where], mine)
            self.args[where] = str(mine)
        self.program = args[0]

    def run(self, name="bare"):
        return Alone(self, name)

    def on_a_socket(self):
        """The same QEMU with its serial console on a unix socket, as other tools have it."""
        other = copy.copy(self)
        line = "socket,id=charserial0,path=FOLDER/serial,server=on,wait=off,"
        other.args = [arg.replace("pty,id=charserial0,", line) for arg in self.args]
        return other


class Alone(Watched):
    def __init__(self, bare, name):
        self.bare, self.folder = bare, bare.at.folder / f"bare-{name}"
        self.log = self.folder / "log"

    def __enter__(self):
        self.folder.mkdir()
        self.began = time.monotonic()
        args = [arg.replace("FOLDER", str(self.folder)) for arg in self.bare.args]
        with open(self.folder / "said", "w") as said:
            self.child = subprocess.Popen([self.bare.program, *args], stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()
        shutil.rmtree(self.folder)

    def said(self):
        if self.child.poll() is not None:
            raise SystemExit(f"bench: QEMU alone has ended: {(self.folder / 'said').read_text()}")
        return super().said()

    def socat(self):
        """A client of its serial console."""
        terminal = re.search(r"/dev/pts/\d+", (self.folder / "said").read_text())
        return ["socat", "-", f"{terminal[0]},rawer" if terminal else f"UNIX-CONNECT:{self.folder}/serial"]

    def memory(self):
        return Process(self.child.pid).memory()

    def cpu(self):
        return Process(self.child.pid).cpu()


def children():
    """CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
