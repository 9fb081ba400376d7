"""Benchmarks of the console: the relay alone, and compared with socat, with a guest that writes as fast as it can.

 relay alone   a socket ──► the launcher's relay ──► a reader                        launcher/examples/relay.rs
 ours          a guest ──► QEMU's terminal ──► virt-launcher ──► coracle console ──► we count
 other         a guest ──► QEMU's terminal, or its socket ──► socat ──► we count
"""

import contextlib
import os
import re
import select
import signal
import statistics
import subprocess
import time

# Bytes that the guest writes: an emulated serial port takes each byte by itself.
FLOOD = 1 << 20
# The first bytes are not counted: dd starts, and buffers fill.
AHEAD = 128 << 10
TYPED = f"dd if=/dev/zero bs=4k count={(FLOOD + AHEAD) >> 12} 2>/dev/null | tr '\\000' x\n".encode()


def rows(at, rounds, row):
    # `make bench` builds it; a run of the benchmark alone may lack it.
    example = at.coracle.parent / "examples/relay"
    if example.exists():
        rates = {how: [alone(example, how) for _ in range(rounds)] for how in ((), ("stopped",))}
        plain, stopped = (statistics.median(rates[how]) for how in rates)
        yield row(
            "VM: console: the relay alone, from a socket to one reader", f"**{plain:.0f}** MB/s",
            f"with a second reader that has stopped: {stopped:.0f} MB/s", "≥ 500 MB/s", plain >= 500,
        )
    with at.run("flood", "tiny:1") as vm:
        vm.wait_for("tiny login:")
        bare = vm.bare()
        command = [at.coracle, "console", "flood"]
        looking = [at.coracle, "console", "--read-only", "flood"]
        ours, beside, theirs, socket = [], [], [], []
        # The other VMs are paused while one is measured.
        with bare.run("terminal") as qemu, bare.on_a_socket().run("socket") as other:
            lines = []
            for guest in (qemu, other):
                guest.wait_for("tiny login:")
                lines.append(guest.socat())
            for line in (command, *lines):
                log_in(line, at.env)
            for _ in range(rounds):
                ours.append(flood(command, at.env))
                theirs.append(flood(lines[0], at.env))
                socket.append(flood(lines[1], at.env))
                with stopped_reader(looking, at.env):
                    beside.append(flood(command, at.env))
    ours, theirs, socket, beside = map(statistics.median, (ours, theirs, socket, beside))
    yield row(
        "VM: console: what a guest writes, through `coracle console`", f"**{ours / 1e3:.0f}** kB/s",
        f"socat on the same kind of line, a terminal: {theirs / 1e3:.0f} kB/s; on a socket: {socket / 1e3:.0f} kB/s",
        "not slower on the same line (within 5 %)", ours >= 0.95 * theirs,
    )
    yield row(
        "VM: console: the same, beside a reader that has stopped", f"**{beside / 1e3:.0f}** kB/s",
        f"without it: {ours / 1e3:.0f} kB/s", "not slower (within 5 %)", beside >= 0.95 * ours,
    )


def alone(example, how):
    """MB/s that the example has fed."""
    said = subprocess.run([example, "4096", *how], stdout=subprocess.PIPE, check=True, timeout=300).stdout.decode()
    return float(re.search(r"fed \d+ MiB at (\d+) MB/s", said)[1])


def log_in(command, env):
    with terminal(command, env) as child:
        type_in(child, b"\n")
        time.sleep(1)
        type_in(child, b"root\n")
        time.sleep(1)
        # No echo, and a prompt that is not counted.
        type_in(child, b"stty -echo -opost; PS1=\n")
        time.sleep(1)


def flood(command, env):
    """Bytes per second of the guest's output."""
    with terminal(command, env) as child:
        # Earlier output is shown again to a client that joins.
        drain(child)
        type_in(child, TYPED)
        count, begin = 0, None
        while count < FLOOD + AHEAD:
            read = os.read(child.stdout.fileno(), 1 << 16)
            if not read:
                raise SystemExit(f"bench: {command} has ended after {count} bytes")
            count += read.count(b"x")
            if begin is None and count >= AHEAD:
                begin, counted = time.monotonic(), count
        rate = (count - counted) / (time.monotonic() - begin)
        drain(child)
        return rate


def drain(child):
    """Reads until nothing comes any more."""
    while select.select([child.stdout], [], [], 0.5)[0]:
        if not os.read(child.stdout.fileno(), 1 << 16):
            return


@contextlib.contextmanager
def terminal(command, env):
    child = subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        # The keyboard is free once the launcher has noticed the end of this client.
        time.sleep(0.2)


def type_in(child, typed):
    child.stdin.write(typed)
    child.stdin.flush()


@contextlib.contextmanager
def stopped_reader(command, env):
    with terminal(command, env) as child:
        # The client has joined by the time that it is stopped.
        time.sleep(0.5)
        child.send_signal(signal.SIGSTOP)
        yield
