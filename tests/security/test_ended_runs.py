"""A process that outlives its run: what it says then goes to nobody who takes the place of the run.

The name of a run's folder is readable for every user while the run lasts, and its port for ever. When both are free
again, a neighbour takes them. These tests need root, as the neighbour is another user.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.command import traceforge
from support.model_servers import model_server
from traceforge.capture.hook import bootstrap
from traceforge.capture.run.environment import RUN_VARIABLE
from traceforge.capture.run.mcp_wrap import find_run

NEIGHBOUR = 65534
SECRET_KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="Windows has other permissions"),
    pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root can act as another user"),
]

START = """
import os, subprocess, sys
program = "while [ ! -e go ]; do sleep 0.05; done; " + sys.argv[1] + " > out 2>&1; touch done"
with open("environment.json", "w") as file:
    import json
    json.dump({name: os.environ.get(name, "") for name in ("TRACEFORGE_RUN", "TRACEFORGE_NODE")}, file)
quiet = subprocess.DEVNULL
subprocess.Popen(["sh", "-c", program], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
"""
CALL = {
    "call.py": """
import os, httpx
headers = {"Authorization": "Bearer " + os.environ["KEY"]}
print(httpx.post(os.environ["SERVER"] + "/v1/chat/completions", json={"model": "m"}, headers=headers).status_code)
""",
    "call.mjs": """
const headers = {Authorization: "Bearer " + process.env.KEY, "content-type": "application/json"};
const url = process.env.SERVER + "/v1/chat/completions";
console.log((await fetch(url, {method: "POST", headers, body: '{"model": "m"}'})).status);
""",
}
WAIT = "while [ ! -e done ]; do sleep 0.05; done"
# Takes the socket of the run, and its port, and keeps whatever is sent there.
SQUATTER = """
import json, os, selectors, socket, sys
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
os.umask(0)
path, port = sys.argv[1:]
os.mkdir(os.path.dirname(path))
listeners = [socket.socket(socket.AF_UNIX)]
listeners[0].bind(path)
if port:
    listeners.append(socket.create_server(("127.0.0.1", int(port))))
selector = selectors.DefaultSelector()
for listener in listeners:
    listener.listen()
    selector.register(listener, selectors.EVENT_READ)
print("ready", flush=True)
heard = b""
while True:
    for key, _ in selector.select():
        if key.fileobj in listeners:
            selector.register(key.fileobj.accept()[0], selectors.EVENT_READ)
        elif data := key.fileobj.recv(1 << 16):
            print(repr(data), flush=True)
        else:
            selector.unregister(key.fileobj)
"""


@pytest.fixture
def common() -> Iterator[Path]:
    """As /tmp: everybody may create files, nobody may remove those of others."""
    folder = Path(tempfile.mkdtemp(prefix="common-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["call.py", "call.mjs"])
def test_a_neighbour_who_takes_the_place_of_a_run_hears_nothing(file: str, tmp_path: Path, common: Path) -> None:
    """The process makes its call as it would without TraceForge."""
    program = sys.executable if file.endswith(".py") else shutil.which("node")
    if program is None:
        pytest.skip("there is no node here")
    (tmp_path / "start.py").write_text(START)
    (tmp_path / file).write_text(CALL[file])
    with model_server() as server:
        variables = {"TMPDIR": str(common), "SERVER": server.url, "KEY": SECRET_KEY}
        words = ("run", "--", sys.executable, "start.py", f"{program} {file}")
        assert 0 == traceforge(*words, cwd=tmp_path, **variables).code
        environment = json.loads((tmp_path / "environment.json").read_text())
        path = environment[RUN_VARIABLE].split("\n")[0].removeprefix("unix:")
        port = json.loads(environment["TRACEFORGE_NODE"])["proxy"].split(":")[2].partition("/")[0]
        with subprocess.Popen(
            [sys.executable, "-I", "-c", SQUATTER.replace("{uid}", str(NEIGHBOUR)), path, port],
            stdout=subprocess.PIPE, text=True,
        ) as squatter:  # fmt: skip
            assert squatter.stdout is not None
            assert "ready\n" == squatter.stdout.readline()
            (tmp_path / "go").touch()
            subprocess.run(["sh", "-c", WAIT], cwd=tmp_path, timeout=60, check=True)
            squatter.kill()
            heard = squatter.stdout.read()

    assert ("", "200\n") == (heard, (tmp_path / "out").read_text())


@pytest.mark.parametrize("knows_peers", [True, False])
def test_a_run_is_known_by_its_user(knows_peers: bool, common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not say who listens, by its folder: not that of others, or open to them, or a link."""
    if not knows_peers:
        monkeypatch.delattr(bootstrap._socket, "SO_PEERCRED")
    (common / "own").mkdir(mode=0o700)
    (common / "link").symlink_to(common / "own")
    for name, mode, owner in (("open", 0o770, 0), ("theirs", 0o700, NEIGHBOUR)):
        (common / name).mkdir()
        os.chown(common / name, owner, owner)
        (common / name).chmod(mode)

    accepted = []
    for name in ("own", "link", "open", "theirs", "gone"):
        user = NEIGHBOUR if name == "theirs" else 0
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
            path = "/own/../" if name == "gone" else f"/{name}/"
            listener.bind(f"{common}{path}run{name}")
            os.seteuid(user)
            listener.listen()
            os.seteuid(0)
            client.connect(f"{common}{path}run{name}")
            accepted += [name] if bootstrap.is_own_peer(client, f"unix:{common}/{name}/run{name}") else []

    assert (["own", "link", "open", "gone"] if knows_peers else ["own"]) == accepted
    assert bootstrap.is_own_peer(None, "tcp:127.0.0.1:1")


def test_a_socket_of_another_user_gets_no_hello(common: Path) -> None:
    """Not from the first lines that run in a Python process either."""
    theirs = common / "theirs"
    theirs.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{theirs}/run")
        os.seteuid(NEIGHBOUR)
        listener.listen()
        os.seteuid(0)
        listener.setblocking(False)
        settings = "\n".join([f"unix:{theirs}/run", "token", "", "", "{}"])
        code = "import traceforge.capture.hook.bootstrap as b, sys; b.bootstrap(sys.argv[1]); import httpx"
        subprocess.run([sys.executable, "-c", code, settings], check=True)

        heard = b""
        with suppress(BlockingIOError):
            while True:
                with listener.accept()[0] as connection:
                    heard += connection.recv(1 << 16)

    assert b"" == heard


def test_the_run_of_another_user_is_not_ours() -> None:
    """`traceforge mcp wrap` looks for its run in the processes above it; root can read those of all users."""
    environ = {RUN_VARIABLE: "unix:/tmp/theirs/run\ntoken\n\n\n{}"}
    for user, expected in ((NEIGHBOUR, {}), (None, environ)):
        with subprocess.Popen(
            ["sh", "-c", "echo started; read word"], env={**os.environ, **environ}, user=user, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert b"started\n" == process.stdout.readline()
            assert expected.get(RUN_VARIABLE) == find_run({}, process.pid).get(RUN_VARIABLE)
            process.kill()
