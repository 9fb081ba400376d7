"""The table, and the part of docs/benchmarks.md that a run replaces. What people write around it stays."""

import datetime
import os
import pathlib
import platform
import subprocess

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
MIB = 1 << 20


def table(results, rounds, coracle, have):
    head = [
        "| work | coracle s | RSS MiB | other | s | RSS MiB | ratio | goal | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*machine(rounds, coracle, have), "", *head, *map(row, results)])


def row(result):
    ours, other = result.ours, result.other
    ratio = f"{other.median / ours.median:.2f} ×" if other else "–"
    if result.line.against:
        ratio = f"takes {ours.median / result.line.against(result):.2f} × as long"
    name = result.line.name
    for runs in result.beside:
        name += f" ({runs.side.name}: {seconds(runs)})"
    if other and ours.size and other.size and (ours.side.proof or ours.side.output.suffix == ".qcow2"):
        name += f" ({ours.size // MIB} MiB, the other {other.size // MIB} MiB)"
    cells = [
        name, seconds(ours), str(ours.rss // MIB),
        f"`{other.side.name}`" if other else "–", seconds(other) if other else "–",
        str(other.rss // MIB) if other else "–", ratio, result.line.goal,
        {True: "yes", False: "**no**", None: ""}[result.met],
    ]
    return "| " + " | ".join(cells) + " |"


def seconds(runs):
    if len(runs.seconds) == 1:
        return f"{runs.seconds[0]:.2f}"
    return f"**{runs.median:.2f}** ({min(runs.seconds):.2f}–{max(runs.seconds):.2f})"


def machine(rounds, coracle, have):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    system = dict(
        line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line
    )
    held = have.disk.stat().st_blocks * 512 / (1 << 30)
    tools = [
        first(["qemu-img", "--version"]), first(["xz", "--version"]), first(["pigz", "--version"]),
        first(["zstd", "--version"]), first(["curl", "--version"]), first(["nginx", "-v"]),
        first(["buildah", "--version"]), first(["skopeo", "--version"]), first(["openssl", "version"]),
    ]
    return [
        f"Measured {datetime.date.today()} with {first([coracle, '--version'])}: medians of {rounds} (least–most).",
        "",
        f"- machine: {cpu()}, {os.cpu_count()} cores, {memory:.0f} GiB; Linux {platform.release()},"
        f" {system['PRETTY_NAME'].strip(chr(34))}; {filesystem(have.folder)}",
        f"- beside: {'; '.join(tools)}",
        f"- disk: Debian from packages, {have.disk.stat().st_size >> 30} GiB virtual, {held:.1f} GiB in use",
        f"- load average when it ended: {os.getloadavg()[2]:.1f} over 15 minutes (about 2 is the work itself)",
    ]


def first(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    line = done.stdout.decode(errors="replace").strip().split("\n")[0]
    # Versions, not how the tool was built: "qemu-img version 7.2.22 (Debian …)", "*** Zstandard CLI (64-bit) v1.5.4, …".
    return line.strip("* ").split(" (Debian")[0].split(",")[0].split(" (x86_64")[0]


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def filesystem(folder):
    done = subprocess.run(["findmnt", "-no", "FSTYPE", "-T", folder], stdout=subprocess.PIPE)
    return done.stdout.decode().strip() or "an unknown file system"


def write(path, text):
    content = path.read_text()
    before, rest = content.split(BEGIN)
    _, after = rest.split(END)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
