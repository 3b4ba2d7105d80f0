"""Nobody leaves unseen: child processes, other programs, connections past the hooks."""

# ruff: noqa: E501  # A row of a table is a line.

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from support.gate_case import (
    PYTEST,
    TEST,
    XDIST,
    Append,
    Case,
    Command,
    Configure,
    Replace,
    Step,
    Write,
    green,
    not_green,
    red,
)
from support.network_escapes import WAYS

CHAT, CHILDREN = "chat_tests.py", "children_tests.py"
RUN = 'subprocess.run([sys.executable, "child.py", "Who is there?"], capture_output=True, check=True)'
OTHER_WAYS = cycle((PYTEST, XDIST))

# How a test starts the child that asks: by name, an expression with QUESTION in place of the question. Its value is true.
STARTS = {
    "a subprocess": 'subprocess.run([sys.executable, "child.py", QUESTION], check=True)',
    "a subprocess with a copy of the environment":
        'subprocess.run([sys.executable, "child.py", QUESTION], check=True, env=dict(os.environ))',
    "a subprocess in another folder":
        'subprocess.run([sys.executable, os.path.abspath("child.py"), QUESTION], check=True, cwd="/")',
    "a subprocess of a thread":
        'ThreadPoolExecutor(1).submit(subprocess.run, [sys.executable, "child.py", QUESTION], check=True).result()',
    "a module as a subprocess": 'subprocess.run([sys.executable, "-m", "child", QUESTION], check=True)',
    "a text as a subprocess":
        'subprocess.run([sys.executable, "-c", f"import desk; desk.ask({QUESTION!r})"], check=True)',
    "a shell": 'subprocess.run(f"{sys.executable} child.py \'{QUESTION}\'", shell=True, check=True)',
    "os.system": 'os.system(f"{sys.executable} child.py \'{QUESTION}\'") == 0',
    "os.popen": 'os.popen(f"{sys.executable} child.py \'{QUESTION}\'").read()',
    "posix_spawn": 'os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "child.py", QUESTION], os.environ), 0)[1] == 0',
    "spawnv": 'os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "child.py", QUESTION]) == 0',
    "a fork": "run_fork(QUESTION)",
    "multiprocessing that forks": 'run_process("fork", QUESTION)',
    "multiprocessing that spawns": 'run_process("spawn", QUESTION)',
    "a fork server": 'run_process("forkserver", QUESTION)',
    "a pool of processes": "list(ProcessPoolExecutor(1).map(desk.ask, [QUESTION]))",
    "asyncio": 'asyncio.run(run_async(QUESTION)) == 0',
    "a child of a child":
        'subprocess.run(["sh", "-c", f"{sys.executable} -c \'import subprocess, sys; subprocess.run([sys.executable, \\"child.py\\", \\"{QUESTION}\\"], check=True)\'"], check=True)',
}  # fmt: skip
HEAD = """import asyncio
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import desk

os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))


def run_fork(question):
    child = os.fork()
    if child == 0:
        try:
            desk.ask(question)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def run_process(method, question):
    child = multiprocessing.get_context(method).Process(target=desk.ask, args=(question,))
    child.start()
    child.join()
    return True


async def run_async(question):
    return await (await asyncio.create_subprocess_exec(sys.executable, "child.py", question)).wait()


"""


def _started(name: str, question: str) -> Step:
    start = STARTS[name].replace("QUESTION", "question")
    text = f"{HEAD}def test_subprocess():\n    question = {question!r}\n    assert {start}\n"
    return Write(CHILDREN, text)


QUIET = "chat_tests.py::test_chat"

CHANGED_CHILDREN = [
    not_green(f"{name} asks something new", _started(name, "Is it new?"), tests=CHILDREN, says=r"GT[12]|process|child",
              ways=(TEST, next(OTHER_WAYS)))
    for name in STARTS
]  # fmt: skip
SAME_CHILDREN = [
    green(f"{name} asks the same", _started(name, "Who is there?"), tests=CHILDREN, ways=(TEST, next(OTHER_WAYS)))
    for name in STARTS
]  # fmt: skip


def _leaves(name: str, statement: str, **fields: object) -> Case:
    """A test that asks as approved, and then does something else."""
    prelude = "import os, shutil, subprocess, sys\n    "
    setup = (
        "HOST, PORT, PYTHON = '127.0.0.1', int(os.environ['OPENAI_BASE_URL'].rpartition(':')[2].partition('/')[0]), sys.executable\n"
        "    CONNECT = f\"import socket; socket.create_connection(({HOST!r}, {PORT}), 3).sendall(b'x')\"\n"
        "    URL = f'http://{HOST}:{PORT}/'\n"
        "    FETCH = f\"fetch('{URL}').catch((error) => console.log(String(error.cause)))\"\n    "
    )
    text = f"\n\ndef test_leaves():\n    {prelude}{setup}try:\n        exec({statement!r}, {{**globals(), **locals()}})\n    except Exception as error:\n        print(repr(error))\n"
    return not_green(name, Append(CHAT, text), **{"tests": CHAT, "says": r"GT[25]|traceforge: .*(program|process|instrument|Python)",
                                                  "ways": (TEST,), **fields})  # fmt: skip


IN_PROCESS = ("socket", "raw socket", "connect_ex", "urllib", "fast open", "thread")
ESCAPES = [
    *(_leaves(f"a test connects by {name}", WAYS[name], ways=(TEST, PYTEST)) for name in IN_PROCESS),
    *(
        _leaves(f"a test connects by {name}", WAYS[name])
        for name in ("python -I", "python -S -E", "shell, python -I", "spawned python -I", "cleaned environment",
                     "shell, cleaned environment", "multiprocessing fork", "curl", "curl without proxy",
                     "curl, cleaned environment", "bash", "node fetch", "node, cleaned environment")
    ),
    _leaves("a test connects by perl", "subprocess.run(['perl', '-MIO::Socket::INET', '-e', f'IO::Socket::INET->new(PeerAddr => \"{HOST}:{PORT}\")'])"),
    _leaves("a test connects by wget", "subprocess.run(['wget', '-q', '-T', '2', '-t', '1', '-O', '/dev/null', URL], env={'PATH': os.environ['PATH']})"),
    _leaves("a test connects by http.client", "import http.client\nc = http.client.HTTPConnection(HOST, PORT, timeout=3)\nc.request('POST', '/v1/chat/completions', '{}')"),
    _leaves("a test connects by urllib3", "import urllib3\nurllib3.PoolManager(retries=False, timeout=3).request('GET', URL)"),
    _leaves("a test connects by a renamed Python",
            "shutil.copy(os.path.realpath(PYTHON), 'tool')\nsubprocess.run([os.path.abspath('tool'), '-I', '-c', CONNECT])"),
    _leaves("a renamed Python hides its start and asks nothing",
            "shutil.copy(os.path.realpath(PYTHON), 'tool')\nsubprocess.run([os.path.abspath('tool'), '-I', '-S', '-c', 'pass'], env={})"),
    _leaves("a linked Python hides its start", "os.symlink(os.path.realpath(PYTHON), 'python3.13t')\nsubprocess.run(['./python3.13t', '-I', '-c', 'pass'])"),
    _leaves("a process outlives the command",
            "subprocess.Popen(['sleep', '4'], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)"),
    _leaves("a Python outlives the command",
            "subprocess.Popen([PYTHON, '-c', 'import time; time.sleep(4)'], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)"),
    _leaves("a daemon outlives the command",
            "subprocess.run(['sh', '-c', 'setsid sleep 4 > /dev/null 2>&1 < /dev/null &'])"),
    _leaves("a test resolves another host", "import socket\nsocket.getaddrinfo('model.example.com', 443)"),
    _leaves("a test connects to another host", "import socket\nsocket.create_connection(('192.0.2.7', 443), 1)", ways=(TEST, PYTEST)),
    _leaves("a test sends a datagram", "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.7', 53))",
            ways=(TEST, PYTEST)),
    _leaves("a test opens a WebSocket", "import aiohttp, asyncio\nasync def go():\n    async with aiohttp.ClientSession() as s:\n"
            "        await s.ws_connect(URL + 'v1/realtime')\nasyncio.run(go())", ways=(TEST, PYTEST)),
]  # fmt: skip


def _does(name: str, statement: str, **fields: object) -> Case:
    text = f"\n\ndef test_does():\n    import os, subprocess, sys\n\n    {statement}\n"
    return green(name, Append(CHAT, text), **{"ways": (TEST,), **fields})


PORTS = Configure({"test": {"allow_ports": ["32768-60999"]}})
APPROVE = Command(("approve", "--policy", "--reason", "Servers of our tests"))
SERVE = """

def test_serves():
    import http.server, subprocess, threading, urllib.request

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{{}}")

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{{server.server_port}}{path}"
        {ask}
        server.shutdown()
"""
URLLIB = "urllib.request.urlopen(urllib.request.Request(url, b'{}'), timeout=9).read()"
CURL = "subprocess.run(['curl', '-s', '-m', '9', '-d', '{}', url], check=True)"


def _serves(name: str, path: str, ask: str, make: Callable[..., Case], **fields: object) -> Case:
    """A test that starts a server on an allowed port and posts to it."""
    text = SERVE.format(path=path, ask=ask)
    return make(name, PORTS, APPROVE, Append(CHAT, text), tests=CHAT, **{"ways": (TEST,), **fields})


MODEL_PATH = "/v1/chat/completions"
WATCHED = [
    _serves("urllib asks a model at an allowed port", MODEL_PATH, URLLIB, not_green, says=r"GT\d|model"),
    _serves("curl asks a model at an allowed port", MODEL_PATH, CURL, not_green, says=r"GT\d|model"),
    _serves("curl asks Claude at an allowed port", "/v1/messages", CURL, not_green, says=r"GT\d|model"),
    _serves(
        "curl asks Gemini at an allowed port",
        "/v1beta/models/gemini-2.5-flash:generateContent",
        CURL,
        not_green,
        says=r"GT\d|model",
    ),
    _serves("urllib asks no model at an allowed port", "/health", URLLIB, green),
    _serves("curl asks no model at an allowed port", "/orders/7", CURL, green),
]
TELEMETRY = [
    green(f"a library connects to {host}", Append(CHAT, f"\n\ndef test_reports():\n    import httpx\n\n    try:\n"
          f"        httpx.get('https://{host}/x')\n    except Exception:\n        pass\n"), ways=(TEST, PYTEST))
    for host in ("us.i.posthog.com", "raw.githubusercontent.com", "o1.ingest.sentry.io", "api.smith.langchain.com")
]  # fmt: skip

PROGRAMS = [
    *(
        _does(f"a test runs {' '.join(words)}", f"subprocess.run({words!r}, check=True, stdout=subprocess.DEVNULL)")
        for words in (
            ["git", "--version"], ["uname", "-a"], ["sh", "-c", "true"], ["bash", "-c", "echo x"], ["env"], ["true"], ["ls"],
            ["cat", "/dev/null"], ["sleep", "0"], ["make", "--version"], ["date"], ["hostname"],
        )
    ),
    _does("a test runs a Python that asks nothing", "subprocess.run([sys.executable, '-c', 'pass'], check=True)", ways=(TEST, PYTEST)),
    _does("a test runs its own file", "subprocess.run([sys.executable, '-c', 'import json, ssl, socket'], check=True)"),
    _does("a test opens a socket and does not connect", "import socket; socket.socket().close()", ways=(TEST, PYTEST)),
    _does("a test listens", "import socket; socket.create_server(('127.0.0.1', 0)).close()", ways=(TEST, PYTEST)),
    _does("a test uses a pair of sockets", "import socket; a, b = socket.socketpair(); a.send(b'x'); b.recv(1)", ways=(TEST, PYTEST)),
    _does("a test uses a Unix socket", "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); s.close()", ways=(TEST, PYTEST)),
    _does("a test forks and asks nothing", "child = os.fork() or os._exit(0); os.waitpid(child, 0)", ways=(TEST, PYTEST)),
    _does("a test uses multiprocessing", "import multiprocessing; p = multiprocessing.Process(target=print); p.start(); p.join()",
          ways=(TEST, PYTEST)),
    _does("a test uses an event loop", "import asyncio; asyncio.run(asyncio.sleep(0))", ways=(TEST, PYTEST)),
]  # fmt: skip


SCRIPTS = [
    red("a script asks something new", Replace("child.py", "What can you do?", "Is it new?"), command="child.py", ways=(TEST,)),
    red("a script has other arguments and asks something new", command="child.py", ways=(TEST,), more_command="'Is it new?'"),
    not_green("a script asks nothing", Replace("child.py", "print(desk.ask(", "print(("), command="child.py", says="GT3|no call|no model call|nothing",
              ways=(TEST,)),
    red("a script asks twice", Replace("child.py", "    print(", "    desk.ask('What can you do?')\n    print("), command="child.py",
        ways=(TEST,), says=r"GT\d"),
    green("a script has other lines", Replace("child.py", "import sys\n", "import sys\n\n# More.\n"), command="child.py", ways=(TEST,)),
]  # fmt: skip

CASES = {
    "a child that asks something new": CHANGED_CHILDREN,
    "a child that asks the same": SAME_CHILDREN,
    "an escape": ESCAPES,
    "a harmless program": PROGRAMS,
    "an allowed port": WATCHED,
    "telemetry": TELEMETRY,
    "a script": SCRIPTS,
}
