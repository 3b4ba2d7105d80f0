"""Programs that try to leave a process whose network is closed, and a server that counts their connections.

Each program first makes a call that was approved, so that the run replays something, and then tries to connect to
`HOST:PORT` in one or several ways. Its exit code does not matter: a test checks the connections and the report.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable, Iterator

from support.closed_listener import close_listener

ASK = """
import os, httpx
body = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60,
        "messages": [{"role": "user", "content": "Name a soup."}]}
httpx.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=body, timeout=20).raise_for_status()
"""
SETUP = """
import os, shutil, subprocess, sys
HOST, PORT, PYTHON = sys.argv[1], int(sys.argv[2]), sys.executable
CONNECT = f"import socket; socket.create_connection(({HOST!r}, {PORT}), 3).sendall(b'x')"
URL = f"http://{HOST}:{PORT}/"
FETCH = f"fetch('{URL}').catch((error) => console.log(String(error.cause)))"
"""

# By name: what the program does after it has asked.
WAYS = {
    "socket": "exec(CONNECT)",
    "raw socket": "import _socket; s = _socket.socket(); s.connect((HOST, PORT)); s.send(b'x')",
    "connect_ex": "import socket; s = socket.socket(); s.connect_ex((HOST, PORT)); s.send(b'x')",
    "urllib": "import urllib.request; urllib.request.urlopen(URL, timeout=3)",
    "httpx": "import httpx; httpx.get(URL, timeout=3)",
    "fast open": "import socket; socket.socket().sendto(b'x', 0x20000000, (HOST, PORT))",
    "multipath": "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); s.connect((HOST, PORT))",
    "thread": "import threading; t = threading.Thread(target=lambda: exec(CONNECT)); t.start(); t.join()",
    "uvloop": """
import asyncio, uvloop
async def go():
    _, writer = await asyncio.open_connection(HOST, PORT)
    writer.write(b"x")
    await writer.drain()
asyncio.Runner(loop_factory=uvloop.new_event_loop).run(go())
""",
    "aiodns": """
import aiodns, asyncio
async def go():
    try:
        await asyncio.wait_for(aiodns.DNSResolver(timeout=0.2, tries=1).query("model.invalid", "A"), 1)
    except Exception:
        pass
    await asyncio.open_connection(HOST, PORT)
asyncio.run(go())
""",
    "grpc": """
import grpc
channel = grpc.insecure_channel(f"{HOST}:{PORT}")
channel.unary_unary("/model/Ask")(b"x", timeout=3)
""",
    "python -I": "subprocess.run([PYTHON, '-I', '-c', CONNECT])",
    "python -S -E": "subprocess.run([PYTHON, '-SE', '-c', CONNECT])",
    "shell, python -I": "subprocess.run(['sh', '-c', f'\"{PYTHON}\" -I -c \"$0\"; true', CONNECT])",
    "spawned python -I": "os.waitpid(os.posix_spawn(PYTHON, [PYTHON, '-I', '-c', CONNECT], os.environ), 0)",
    "cleaned environment": "subprocess.run([PYTHON, '-c', CONNECT], env={})",
    "shell, cleaned environment": "subprocess.run(['sh', '-c', f'env -i \"{PYTHON}\" -c \"$0\"; true', CONNECT])",
    "multiprocessing fork": """
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=exec, args=(CONNECT,))
child.start(); child.join()
""",
    "multiprocessing spawn": """
import multiprocessing
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=exec, args=(CONNECT,))
    child.start(); child.join()
""",
    "curl": "subprocess.run(['curl', '-s', '-m', '3', URL])",
    "curl without proxy": "subprocess.run(['curl', '-s', '-m', '3', '--noproxy', '*', URL])",
    "curl, cleaned environment": "subprocess.run(['curl', '-s', '-m', '3', URL], env={})",
    "bash": "subprocess.run(['bash', '-c', f'echo x > /dev/tcp/{HOST}/{PORT}'])",
    "node fetch": "subprocess.run(['node', '-e', FETCH])",
    "node, cleaned environment": "subprocess.run([shutil.which('node'), '-e', FETCH], env={})",
}  # fmt: skip


# What these names begin with goes through Python, whose tripwire stops it.
STOPPED_IN_PYTHON = (
    "socket", "raw", "connect", "urllib", "httpx", "fast", "multipath", "thread", "uvloop", "aiodns",
    "multiprocessing",
)  # fmt: skip


def try_all(ways: Iterable[str]) -> str:
    """One program that tries these escapes one after the other, and prints the name of each."""
    tried = {way: WAYS[way] for way in ways}
    return f"""
if __name__ == "__main__":
    for way, text in {tried!r}.items():
        print(way, flush=True)
        try:
            exec(text)
        except Exception as exc:
            print(repr(exc), file=sys.stderr)
"""


class ConnectionCounter:
    """A server that counts its connections."""

    def __init__(self) -> None:
        self._server = socket.create_server(("0.0.0.0", 0), backlog=50)
        self.port: int = self._server.getsockname()[1]
        self.connections = 0
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.connections += 1
                connection.close()

    def close(self) -> None:
        close_listener(self._server, self._serving)


@contextlib.contextmanager
def connection_counter() -> Iterator[ConnectionCounter]:
    """Listen on every address of this machine."""
    server = ConnectionCounter()
    try:
        yield server
    finally:
        server.close()


def own_address() -> str:
    """An address of this machine that is not loopback, or ""."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.200", 9))  # nothing is sent
        address = str(probe.getsockname()[0])
        return "" if address.startswith("127.") else address
    return ""
