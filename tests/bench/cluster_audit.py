"""The API server's audit log: author and time of each write, to the microsecond. It has no contents."""

import dataclasses
import datetime
import json
import re

CONTROLLER, HANDLER, SCHEDULER, KUBELET, USER = "virt-controller", "virt-handler", "scheduler", "kubelet", "user"

WHO = {
    "system:serviceaccount:kubevirt:kubevirt-controller": CONTROLLER,
    "system:serviceaccount:kubevirt:kubevirt-handler": HANDLER,
    "system:kube-scheduler": SCHEDULER,
    "kubernetes-admin": USER,
}


@dataclasses.dataclass
class Write:
    who: str
    verb: str
    # `pods`, `pods/status`
    what: str
    namespace: str
    name: str
    code: int
    # Seconds since 1970: the request was read, the answer was sent.
    received: float
    done: float

    def __str__(self):
        return f"{self.who} {self.verb} {self.what}"


class Audit:
    def __init__(self, path):
        self.path = path

    def mark(self):
        """Current end of the log. A log that has grown large becomes another file."""
        now = self.path.stat()
        return now.st_ino, now.st_size

    def since(self, mark, namespace):
        """Successful writes to a namespace since then, in the order of their answers."""
        (number, offset), text = mark, b""
        files = sorted(self.path.parent.glob("audit*.log"), key=lambda path: path.stat().st_mtime)
        begin = next(at for at, path in enumerate(files) if path.stat().st_ino == number)
        for path in files[begin:]:
            with open(path, "rb") as log:
                log.seek(offset)
                text, offset = text + log.read(), 0
        wanted = f'"namespace":"{namespace}"'.encode()
        # The last line may be incomplete.
        lines = text.rpartition(b"\n")[0].splitlines()
        writes = [write_of(json.loads(line)) for line in lines if wanted in line]
        return [write for write in writes if write.namespace == namespace and write.code < 300]


def write_of(entry):
    about = entry.get("objectRef", {})
    # An impersonated request belongs to that account.
    user = (entry.get("impersonatedUser") or entry["user"])["username"]
    who = WHO.get(user) or (KUBELET if user.startswith("system:node:") else user)
    what = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return Write(
        who, entry["verb"], what, about.get("namespace", ""), about.get("name", ""),
        entry.get("responseStatus", {}).get("code", 0),
        seconds(entry["requestReceivedTimestamp"]), seconds(entry["stageTimestamp"]),
    )


def seconds(text):
    """Seconds since 1970 of a UTC time with any fraction of a second."""
    whole, fraction = re.match(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(\.\d+)?", text).groups()
    moment = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc)
    return moment.timestamp() + float(fraction or 0)
