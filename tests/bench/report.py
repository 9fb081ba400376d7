"""The tables, and the parts of docs/benchmarks.md that a run replaces. The text around them is kept."""

import datetime
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/benchmarks.md"
MIB = 1 << 20


def table(results, rounds, coracle, have):
    head = [
        "| work | coracle s | RSS MiB | other | s | RSS MiB | ratio | goal | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*of_disks(rounds, coracle, have), "", *head, *map(row, results)])


def row(result):
    ours, other = result.ours, result.other
    ratio = f"{other.median / ours.median:.2f} ×" if other else "–"
    if result.line.against:
        ratio = f"takes {ours.median / result.line.against(result):.2f} × as long"
    name = result.line.name
    for runs in result.beside:
        name += f" ({runs.side.name}: {spread(runs.seconds)})"
    if other and ours.size and other.size and (ours.side.proof or ours.side.output.suffix == ".qcow2"):
        name += f" ({ours.size // MIB} MiB, the other {other.size // MIB} MiB)"
    cells = [
        name, spread(ours.seconds), str(ours.rss // MIB),
        f"`{other.side.name}`" if other else "–", spread(other.seconds) if other else "–",
        str(other.rss // MIB) if other else "–", ratio, result.line.goal,
        {True: "yes", False: "**no**", None: ""}[result.met],
    ]
    return "| " + " | ".join(cells) + " |"


def of_imports(results, rows, rounds, coracle, have):
    """The table about imports, followed by that of the cluster, if there is one."""
    data = have.disk.stat().st_blocks * 512
    text = [
        *of_disks(rounds, coracle, have), "",
        "| work | coracle s | RSS MiB | written | by hand | s | RSS MiB | written | ratio | goal | |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    text += [import_row(result, data) for result in results]
    if rows:
        text += ["", "| in a cluster | coracle | beside | goal | |", "|---|---|---|---|---|", *map(str, rows)]
    return "\n".join(text)


def import_row(result, data):
    """Written bytes as a part of the data in the disk."""
    ours, other = result.ours, result.other
    ratio = f"{other.median / ours.median:.2f} ×"
    if result.line.against:
        ratio = f"takes {ours.median / result.line.against(result):.2f} × as long"
    cells = [
        result.line.name, spread(ours.seconds), str(ours.rss // MIB), f"{ours.written / data:.3f}",
        f"`{other.side.name}`", spread(other.seconds), str(other.rss // MIB), f"{other.written / data:.3f}",
        ratio, result.line.goal, {True: "yes", False: "**no**", None: ""}[result.met],
    ]
    return "| " + " | ".join(cells) + " |"


def spread(seconds):
    """Several runs: median, minimum and maximum; one run: its value."""
    if len(seconds) == 1:
        return f"{seconds[0]:.2f}"
    return f"**{statistics.median(seconds):.2f}** ({min(seconds):.2f}–{max(seconds):.2f})"


def percent(values, part):
    """Percentile: the value that so many of a hundred do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * part / 100) - 1)]


def of_vms(rows, rounds, coracle):
    """The table about VMs."""
    tools = [["qemu-system-x86_64", "--version"], ["libvirtd", "--version"], ["skopeo", "--version"], ["socat", "-V"]]
    return "\n".join([
        *host(rounds, coracle, pathlib.Path("/var/tmp"), tools), "",
        "| what | coracle | beside | goal | |", "|---|---|---|---|---|", *map(str, rows),
    ])


def of_cluster(rows, below, rounds, coracle):
    """The table about the cluster, and the lists below it."""
    tools = [["qemu-system-x86_64", "--version"], ["libvirtd", "--version"]]
    return "\n".join([
        *host(rounds, coracle, pathlib.Path("/var/tmp"), tools), f"- the cluster: {versions()}", "",
        "| what | coracle | beside | goal | |", "|---|---|---|---|---|", *map(str, rows), *below,
    ])


def of_migrations(rows, below, rounds, coracle, image):
    """The table about live migration, and the lists below it. `image`: versions of libvirt and QEMU on both sides."""
    return "\n".join([
        *host(rounds, coracle, pathlib.Path("/var/tmp"), [["virsh", "--version"]]), f"- on both sides: {image}",
        f"- the cluster: {versions()}", "",
        "| what | coracle | beside | goal | |", "|---|---|---|---|---|", *map(str, rows), *below,
    ])


def versions():
    """Versions of the cluster's programs, by its Go module."""
    module = (DOCUMENT.parents[1] / "tests/cluster/go.mod").read_text()
    names = {"Kubernetes": "k8s.io/kubernetes", "containerd": "github.com/containerd/containerd/v2", "kwok": "sigs.k8s.io/kwok"}
    found = {name: re.search(rf"^\s*{re.escape(path)} v(\S+)", module, re.M) for name, path in names.items()}
    return ", ".join(f"{name} {match[1]}" for name, match in found.items() if match)


def of_disks(rounds, coracle, have):
    held = have.disk.stat().st_blocks * 512 / (1 << 30)
    tools = [
        ["qemu-img", "--version"], ["xz", "--version"], ["pigz", "--version"], ["zstd", "--version"],
        ["curl", "--version"], ["nginx", "-v"], ["buildah", "--version"], ["skopeo", "--version"], ["openssl", "version"],
    ]
    return [
        *host(rounds, coracle, have.folder, tools),
        f"- disk: Debian from packages, {have.disk.stat().st_size >> 30} GiB virtual, {held:.1f} GiB in use",
    ]


def host(rounds, coracle, folder, tools):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    system = dict(
        line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line
    )
    return [
        f"Measured {datetime.date.today()} with {first([coracle, '--version'])}: medians of {rounds} (least–most), of 3 at most"
        " where they take long; a figure without least and most is of one run.",
        "",
        f"- host: {cpu()}, {os.cpu_count()} cores, {memory:.0f} GiB; Linux {platform.release()},"
        f" {system['PRETTY_NAME'].strip(chr(34))}; {filesystem(folder)}",
        f"- beside: {'; '.join(map(first, tools))}",
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


def put(text, part, is_dry):
    """Replaces a part of the document, or prints it."""
    if is_dry:
        print(text)
        return
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    before, rest = DOCUMENT.read_text().split(begin)
    _, after = rest.split(end)
    DOCUMENT.write_text(f"{before}{begin}\n{text}\n{end}{after}")
