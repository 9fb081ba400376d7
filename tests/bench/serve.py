"""Servers on loopback: nginx directly, and behind a slow line with latency; two registries."""

import asyncio
import contextlib
import dataclasses
import grp
import os
import pathlib
import pwd
import socket
import subprocess
import sys
import time

# The slow line: bytes per second of one connection, and latency in one direction.
RATE = "20m"
ONE_WAY = 0.025
# Maximum number of bytes in flight in one direction of a connection.
ON_THE_WAY = 4 << 20


@dataclasses.dataclass
class Servers:
    fast: str
    slow: str
    # Registries as `host:port`: the source, the target, and the folder of the target.
    source: str
    target: str
    stored: pathlib.Path


@contextlib.contextmanager
def servers(folder, work):
    fast, slow, line, source, target = (free_port() for _ in range(5))
    state = work / "nginx"
    state.mkdir()
    (state / "nginx.conf").write_text(f"""
        user {pwd.getpwuid(os.getuid()).pw_name} {grp.getgrgid(os.getgid()).gr_name};
        daemon off; pid {state}/pid; error_log {state}/error.log; worker_processes 1;
        events {{ worker_connections 256; }}
        http {{
            access_log off; sendfile on; default_type application/octet-stream;
            client_body_temp_path {state}/body; proxy_temp_path {state}/proxy; fastcgi_temp_path {state}/fastcgi;
            uwsgi_temp_path {state}/uwsgi; scgi_temp_path {state}/scgi;
            server {{ listen 127.0.0.1:{fast}; root {folder}; }}
            server {{ listen 127.0.0.1:{slow}; root {folder}; limit_rate {RATE}; }}
        }}""")
    nginx = subprocess.Popen(
        ["nginx", "-p", state, "-e", state / "error.log", "-c", state / "nginx.conf"], stderr=subprocess.DEVNULL
    )
    delay = subprocess.Popen([sys.executable, __file__, str(line), str(slow)])
    registries = [registry(work / f"registry-{port}", port) for port in (source, target)]
    try:
        for port in (fast, slow, line, source, target):
            answers(port)
        yield Servers(
            f"http://127.0.0.1:{fast}", f"http://127.0.0.1:{line}",
            f"127.0.0.1:{source}", f"127.0.0.1:{target}", work / f"registry-{target}/data",
        )
    finally:
        for child in (nginx, delay, *registries):
            child.terminate()
            child.wait()


def registry(state, port):
    """Debian's docker-registry. It caches nothing in memory, so that its stored files can be removed."""
    state.mkdir()
    (state / "config.yml").write_text(f"""
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {state}/data}}}}
http: {{addr: 127.0.0.1:{port}, secret: not-secret}}
""")
    with open(state / "log", "w") as log:
        return subprocess.Popen(["docker-registry", "serve", state / "config.yml"], stdout=log, stderr=log)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    sys.exit(f"bench: nothing answers on port {port}")


async def delayed(listen, target):
    """Forwards connections; every byte arrives `ONE_WAY` later than it was sent."""

    async def one_way(reader, writer):
        queue, held, room = asyncio.Queue(), 0, asyncio.Condition()

        async def take():
            nonlocal held
            while True:
                try:
                    data = await reader.read(1 << 18)
                except ConnectionError:
                    data = b""
                async with room:
                    await room.wait_for(lambda: held < ON_THE_WAY)
                    held += len(data)
                queue.put_nowait((time.monotonic() + ONE_WAY, data))
                if not data:
                    return

        async def give():
            nonlocal held
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0, due - time.monotonic()))
                if not data:
                    break
                writer.write(data)
                await writer.drain()
                async with room:
                    held -= len(data)
                    room.notify()
            writer.close()

        taking = asyncio.create_task(take())
        try:
            with contextlib.suppress(ConnectionError):
                await give()
        finally:
            taking.cancel()
            writer.close()

    async def connection(client_reader, client_writer):
        await asyncio.sleep(2 * ONE_WAY)  # the handshake, which loopback does at once
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", target, limit=1 << 20)
        except OSError:
            client_writer.close()
            return
        await asyncio.gather(one_way(client_reader, server_writer), one_way(server_reader, client_writer))

    server = await asyncio.start_server(connection, "127.0.0.1", listen, limit=1 << 20)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(delayed(int(sys.argv[1]), int(sys.argv[2])))
