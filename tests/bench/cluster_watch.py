"""A watch on the API server, and when each object came: it waits, where repeated requests would load
the host that is measured."""

import json
import subprocess
import sys
import threading
import time

from watched import TOO_LONG

# First the objects that exist, then a bookmark, then changes.
ALL_THEN_NEWS = (
    "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion="
)


class Watch:
    """Objects of one kind in one namespace, as they change."""

    def __init__(self, at, path):
        self.path, self.seen, self.news, self.begun = path, [], threading.Condition(), threading.Event()
        self.child = subprocess.Popen(
            at.command("kubectl", "get", "--raw", path + ALL_THEN_NEWS), env=at.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        if not self.begun.wait(TOO_LONG):
            sys.exit(f"bench: a watch on {path} does not begin")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.child.wait()
        self.reader.join()

    def read(self):
        for line in self.child.stdout:
            came, event = time.time(), json.loads(line)
            if event["type"] == "BOOKMARK":
                # All existing objects have come.
                self.begun.set()
                continue
            with self.news:
                self.seen.append((came, event["object"]))
                self.news.notify_all()

    def until(self, so, what, longest=TOO_LONG):
        """The first object that fulfils a condition, and the time of its arrival."""
        end, looked = time.monotonic() + longest, 0
        with self.news:
            while True:
                for came, thing in self.seen[looked:]:
                    if so(thing):
                        return came, thing
                looked = len(self.seen)
                if not self.news.wait(max(0, end - time.monotonic())):
                    last = self.seen[-1][1].get("status") if self.seen else None
                    sys.exit(f"bench: in {longest} s not so: {what}; {self.path} told {len(self.seen)}, the last {last}")


def vmis(at, space):
    return Watch(at, f"/apis/kubevirt.io/v1/namespaces/{space}/virtualmachineinstances")


def pods(at, space):
    return Watch(at, f"/api/v1/namespaces/{space}/pods")


def events(at, space):
    return Watch(at, f"/api/v1/namespaces/{space}/events")


def conditions(thing):
    """Conditions of an object by type."""
    return {condition["type"]: condition for condition in thing.get("status", {}).get("conditions", [])}


def serves(vmi):
    """True if a VMI runs and its status is complete."""
    ready = conditions(vmi).get("Ready", {}).get("status")
    return vmi.get("status", {}).get("phase") == "Running" and ready == "True"
