"""The report of a run."""

import collections

# Groups of mutants, with what to do about them.
GROUPS = {
    "survived": "no test failed: a test is missing, or the change means nothing",
    "unreached": "no test runs this code",
    "timeout": "caught: tests did not end",
    "crash": "caught: the process of the tests ended",
    "failed": "caught by a test",
    "not run": "--until or --mutants left them out",
}


def write(place, document, executables, results):
    """Writes report.txt, and prints its first lines."""
    groups = collections.defaultdict(list)
    for mutant in document["mutants"]:
        result = results.get(mutant["key"], {"result": "not run", "by": ""})
        by = f"   by {result['by']}" if result["by"] else ""
        groups[result["result"]].append(line(place, mutant) + by)
    counts = ", ".join(f"{len(groups[name])} {name}" for name in GROUPS if groups[name])
    dropped = len(place.load("dropped.json", []))
    head = f"{len(document['mutants'])} mutants: {counts}; {dropped} more do not compile"
    report = [head, *(f"tests: {executable}" for executable in executables)]
    for name, meaning in GROUPS.items():
        if groups[name]:
            report += ["", f"== {name} ({meaning})", *groups[name]]
    place.path("report.txt").write_text("\n".join(report) + "\n")
    print(f"{head}\n{place.path('report.txt')}")


def line(place, mutant):
    """A mutant on one line: its number, its place, its kind, and the change."""
    where = f"{place.crate}/{mutant['file']}:{mutant['line']} {mutant['function']}"
    return f"{mutant['number']} {where} [{mutant['kind']}] {mutant['before']}  =>  {mutant['after'] or 'nothing'}"
