"""Streams through virt-api: a key and its echo, a flood, a gibibyte to a port, and many consoles at once."""

import contextlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import time

from cluster_place import HOME
from report import percent, spread
from watched import MIB

# Keys of each side.
KEYS = 200
# Bytes that the guest writes. The first ones are not counted: dd starts, and buffers fill.
FLOOD, AHEAD = 512 << 10, 64 << 10
TYPED = f"dd if=/dev/zero bs=4k count={(FLOOD + AHEAD) >> 12} 2>/dev/null | tr '\\000' x\n".encode()
# Number of consoles, and maximum per VMI: virt-handler accepts 32 of a VMI.
CONSOLES, OF_VMI = 200, 25
# Bytes that a port sends to each client.
GIVEN, GIVEN_SMALL = 1 << 30, 64 << 20
PORT = 9100
# Server in the network of the pod, run by the host's python: pod and guest have neither one nor CPU time for it.
GIVE = """
import socket, sys
port, size = map(int, sys.argv[1:])
listener = socket.create_server(("0.0.0.0", port))
print("listens", flush=True)
piece = bytes(1 << 20)
while True:
    one, _ = listener.accept()
    with one:
        try:
            for _ in range(size // len(piece)):
                one.sendall(piece)
            one.shutdown(socket.SHUT_WR)
            one.recv(1)
        except OSError:
            pass
"""


def log_in(line):
    line.type(b"\n")
    line.until(b"tiny login:")
    line.drain()
    line.type(b"root\n")
    line.drain()
    # No echo, and a prompt that is not counted.
    line.type(b"stty -echo -opost; PS1=; echo so'me'\n")
    line.until(b"some")
    line.drain()


def echo(scene, rounds):
    """From a key to its echo, which is the guest's on both sides."""
    vmi, count = scene.guest(), max(10, KEYS // rounds)
    ways = {"ours": vmi.console, "exec": vmi.exec, "node": vmi.door}
    seconds = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            with way() as line:
                seconds[name].append(keys(line, count))
    median = {name: statistics.median(key for keys in each for key in keys) for name, each in seconds.items()}
    last = {name: percent([key for keys in each for key in keys], 99) * 1000 for name, each in seconds.items()}
    factor = median["ours"] / median["exec"]
    yield (
        f"api: console echo: a key to the guest's echo, {count * rounds} keys a side",
        f"{milliseconds(seconds['ours'])}, p99 {last['ours']:.1f} ms",
        f"exec of `virt-launcher console` in the same pod: {milliseconds(seconds['exec'])}, p99 {last['exec']:.1f} ms;"
        f" the launcher's socket on the node: {milliseconds(seconds['node'])}",
        f"not slower than exec: {factor:.2f} × as long", factor <= 1,
    )


def milliseconds(rounds):
    """Median of the rounds' medians, minimum and maximum."""
    return f"{spread([statistics.median(seconds) * 1000 for seconds in rounds])} ms"


def keys(line, count):
    line.drain()
    line.type(b"stty echo; cat >/dev/null; stty -echo\n")
    # stty is a process, too: a key before it has no echo.
    line.drain()
    seconds = []
    for _ in range(count):
        began = time.monotonic()
        line.type(b"x")
        line.until(b"x", 60)
        seconds.append(time.monotonic() - began)
    # The end of the line, and of what cat reads.
    line.type(b"\n\x04")
    line.drain()
    return seconds


def throughput(scene, rounds):
    """Output of a guest that writes as fast as it can, read through virt-api and on its node, in turn."""
    vmi = scene.guest()
    ours, theirs = [], []
    for _ in range(rounds):
        for way, rates in ((vmi.console, ours), (vmi.door, theirs)):
            with way() as line:
                rates.append(flood(line) / 1e3)
    part = statistics.median(ours) / statistics.median(theirs)
    yield (
        "api: console throughput: what a guest writes that writes all it can", f"{spread(ours)} kB/s",
        f"the launcher's socket on the node: {spread(theirs)} kB/s", f"≥ 95 %: {part:.0%}", part >= 0.95,
    )


def flood(line):
    """Bytes per second of the guest's output."""
    # Earlier output is shown again to a client that joins.
    line.drain()
    line.type(TYPED)
    count, begin = 0, None
    while count < FLOOD + AHEAD:
        count += line.read().count(b"x")
        if begin is None and count >= AHEAD:
            begin, counted = time.monotonic(), count
    rate = (count - counted) / (time.monotonic() - begin)
    line.drain()
    return rate


def port_forward(scene, rounds):
    """As many bytes from a port of the pod, by ours and by kubectl."""
    vmi, size = scene.guest(), GIVEN_SMALL if scene.small else GIVEN
    pod = vmi.pod["metadata"]["name"]
    space = vmi.pod["metadata"]["namespace"]
    enter = ["nsenter", "-t", vmi.launcher.pid, "-n"]
    ours, theirs = [], []
    with (
        told([*enter, sys.executable, "-c", GIVE, PORT, size], scene.at.env, "listens"),
        told([scene.at.coracle, "virt", "port-forward", "-n", space, f"vmi/{vmi.name}", f"0:{PORT}"],
             scene.at.env, r"127\.0\.0\.1:(\d+)") as mine,
        told(scene.at.command("kubectl", "port-forward", "-n", space, f"pod/{pod}", f":{PORT}"),
             scene.at.env, r"127\.0\.0\.1:(\d+)") as other,
    ):
        for _ in range(min(rounds, 3)):
            ours.append(take(mine, size))
            theirs.append(take(other, size))
    factor = statistics.median(theirs) / statistics.median(ours)
    yield (
        f"api: port-forward of {size // MIB:,} MiB by `coracle virt port-forward`", f"{spread(ours)} s",
        f"`kubectl port-forward` to the same port of the same pod: {spread(theirs)} s", f"1.5 ×: {factor:.2f} ×",
        factor >= 1.5,
    )


@contextlib.contextmanager
def told(command, env, words):
    """A running program; yields its output at these words: their first group, or all."""
    child = subprocess.Popen(
        list(map(str, command)), env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said = ""
        for line in child.stdout:
            said += line
            found = re.search(words, line)
            if found:
                yield found[found.re.groups]
                return
        raise SystemExit(f"bench: {' '.join(map(str, command))} ended: {said[-1000:]}")
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait()


def take(port, size):
    """Seconds until all bytes have arrived."""
    began, count, piece = time.monotonic(), 0, bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", int(port)), timeout=120) as one:
        while count < size:
            came = one.recv_into(piece)
            if not came:
                raise SystemExit(f"bench: port {port} has ended after {count} bytes of {size}")
            count += came
    return time.monotonic() - began


def consoles(scene, _rounds):
    """Memory of virt-api with many consoles, each of which has shown output."""
    vmis = scene.some([f"many-{number}" for number in range(CONSOLES // OF_VMI)])
    for vmi in vmis:
        with vmi.door() as line:
            line.until(b"tiny login:")
    # All of them are one process's.
    replicas(scene.at, 1)
    time.sleep(5)
    idle = scene.at.held("virt-api")
    with contextlib.ExitStack() as open_now:
        lines = [open_now.enter_context(vmi.console("read")) for _ in range(OF_VMI) for vmi in vmis]
        # First the last screen, then the same prompt anew.
        for vmi in vmis:
            with vmi.door() as keyboard:
                keyboard.type(b"\n")
                keyboard.drain()
        for line in lines:
            line.until(b"tiny login:")
        held = scene.at.held("virt-api")
    replicas(scene.at, 2)
    yield (
        f"api: {CONSOLES} consoles open at once, {OF_VMI} of each VMI: RSS of virt-api", f"**{held / MIB:.1f} MiB**",
        f"without one: {idle / MIB:.1f} MiB", "≤ 100 MiB", held <= 100 * MIB,
    )


def replicas(at, count):
    """Many consoles through virt-api, all of which answer."""
    at.kubectl("-n", HOME, "scale", "deployment/virt-api", f"--replicas={count}")
    at.kubectl("-n", HOME, "rollout", "status", "deployment/virt-api", "--timeout=120s")
    label = ("-n", HOME, "pods", "-l", "kubevirt.io=virt-api")
    at.until(lambda: len(at.get(*label)["items"]) == count, f"virt-api has {count} pods")
