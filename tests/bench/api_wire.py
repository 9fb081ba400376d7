"""A client of the API server without a client program: requests on persistent connections, and websockets.

 Server ─► Connection   one request after another, each with the time until its answer
        └► WebSocket    bytes both ways: as they are (plain.kubevirt.io), or behind a byte for the channel (exec)
 Door                   the launcher's own socket, which HTTP is left on: the same line on the node
"""

import base64
import hashlib
import http.client
import json
import os
import pathlib
import select
import socket
import ssl
import struct
import tempfile
import time
import urllib.parse

from watched import TOO_LONG

# Constant for the answer to a websocket's key (RFC 6455, 1.3).
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BINARY, CLOSE, PING, PONG = 2, 8, 9, 10
# Protocol name of the launcher's upgrade (lib/api/src/launcher.rs).
STREAM = "coracle-stream"
# Channels of exec.
STDIN, STDOUT, STATUS = 0, 1, 3
# Timeout, longer than any answer here.
PATIENCE = 60


class Server:
    """The API server of this cluster, with the administrator's credentials."""

    def __init__(self, at):
        config = json.loads(at.kubectl("config", "view", "--raw", "-o", "json"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.address = urllib.parse.urlsplit(cluster["server"])
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=authority)
        # ssl takes a certificate from a file alone.
        with tempfile.NamedTemporaryFile(suffix=".pem") as pair:
            for part in ("client-certificate-data", "client-key-data"):
                pair.write(base64.b64decode(user[part]) + b"\n")
            pair.flush()
            self.tls.load_cert_chain(pair.name)

    def dial(self):
        to = self.address.hostname, self.address.port
        plain = socket.create_connection(to, timeout=PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.tls.wrap_socket(plain, server_hostname=self.address.hostname)

    def connection(self):
        return Connection(self)


class Connection:
    def __init__(self, server):
        self.to = http.client.HTTPSConnection(
            server.address.hostname, server.address.port, timeout=PATIENCE, context=server.tls
        )

    def __enter__(self):
        # The TLS handshake is not part of a request.
        self.to.connect()
        self.to.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def __exit__(self, *_):
        self.to.close()

    def ask(self, method, path, body, kind="application/json"):
        """Seconds until the whole answer is received, which must be a success."""
        text = json.dumps(body).encode()
        began = time.monotonic()
        self.to.request(method, path, text, {"content-type": kind})
        answer = self.to.getresponse()
        said = answer.read()
        took = time.monotonic() - began
        if answer.status not in (200, 201, 202):
            raise SystemExit(f"bench: {method} {path}: {answer.status} {said[:500]!r}")
        return took


class Line:
    """A serial console. `came` has bytes that were received and not consumed yet."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        # The keyboard is free once the launcher has noticed the end of this client.
        time.sleep(0.2)

    def has(self, seconds):
        """True if something can be read within this time."""
        # TLS may hold bytes that the kernel has delivered already.
        held = self.came or (isinstance(self.socket, ssl.SSLSocket) and self.socket.pending())
        return bool(held or select.select([self.socket], [], [], seconds)[0])

    def drain(self):
        """Reads until nothing comes any more."""
        while self.has(0.5):
            self.read()

    def until(self, words, longest=TOO_LONG):
        """Reads until these words are received."""
        end, said = time.monotonic() + longest, b""
        while words not in said:
            if time.monotonic() > end or not self.has(max(0, end - time.monotonic())):
                raise SystemExit(f"bench: the console did not say {words!r} in {longest} s: {said[-500:]!r}")
            said += self.read()

    def receive(self):
        came = self.socket.recv(1 << 16)
        if not came:
            raise SystemExit("bench: a console has ended")
        return came


class WebSocket(Line):
    """`channels` is true for exec, where a byte before each message names its stream."""

    def __init__(self, server, path, protocol, channels=False):
        self.socket, self.channels, self.came = server.dial(), channels, b""
        key = base64.b64encode(os.urandom(16))
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nhost: {server.address.netloc}\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            f"sec-websocket-version: 13\r\nsec-websocket-key: {key.decode()}\r\nsec-websocket-protocol: {protocol}\r\n\r\n"
            .encode()
        )
        head, self.came = upgraded(self, path)
        wanted = base64.b64encode(hashlib.sha1(key + MAGIC).digest())
        if wanted not in head:
            raise SystemExit(f"bench: {path} answered another websocket: {head!r}")

    def type(self, keys):
        self.send(BINARY, bytes([STDIN]) + keys if self.channels else keys)

    def read(self):
        """The bytes of the next message; empty for a control message."""
        kind, said = self.frame()
        if kind == PING:
            self.send(PONG, said)
            return b""
        if kind == CLOSE:
            raise SystemExit(f"bench: a console was ended: {said[2:]!r}")
        if not self.channels or not said:
            return said
        if said[0] == STATUS:
            raise SystemExit(f"bench: exec has ended: {said[1:]!r}")
        return said[1:] if said[0] == STDOUT else b""

    def frame(self):
        first, size = self.take(2)
        size &= 0x7F
        if size >= 126:
            form = "!H" if size == 126 else "!Q"
            (size,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return first & 0xF, self.take(size)

    def take(self, count):
        while len(self.came) < count:
            self.came += self.receive()
        said, self.came = self.came[:count], self.came[count:]
        return said

    def send(self, kind, said):
        # The last part of a message, and masked.
        first, size, masked = 0x80 | kind, len(said), 0x80
        head = struct.pack("!BB", first, masked | size) if size < 126 else struct.pack("!BBH", first, masked | 126, size)
        # A mask of zeros leaves the bytes as they are.
        self.socket.sendall(head + bytes(4) + said)


class Door(Line):
    def __init__(self, process, way):
        self.came = b""
        path = pathlib.Path(f"/proc/{process.pid}/root/var/run/kubevirt/sockets/launcher-sock")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        self.socket.sendall(
            f"GET /v1/console?{way} HTTP/1.1\r\nhost: launcher\r\nconnection: upgrade\r\nupgrade: {STREAM}\r\n\r\n".encode()
        )
        _, self.came = upgraded(self, path)

    def type(self, keys):
        self.socket.sendall(keys)

    def read(self):
        said, self.came = self.came or self.receive(), b""
        return said


def upgraded(line, what):
    """The header of the answer, and the bytes after it."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += line.receive()
    head, rest = said.split(b"\r\n\r\n", 1)
    if b" 101 " not in head.split(b"\r\n")[0]:
        while not rest and line.has(1):
            rest = line.receive()
        raise SystemExit(f"bench: {what} is not a stream: {head[:500]!r} {rest[:500]!r}")
    return head, rest
