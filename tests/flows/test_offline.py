"""Programs that try to reach a server under `traceforge test`.

Where the report says `sealed`, none of them can. With hooks only, each is stopped, or the run is not green, or the
program is listed as unguarded.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.command import COMMAND, CommandResult, traceforge
from support.environments import installed_python
from support.model_servers import ModelServer, model_server
from support.network_escapes import (
    ASK,
    SETUP,
    STOPPED_IN_PYTHON,
    WAYS,
    ConnectionCounter,
    connection_counter,
    own_address,
    try_all,
)
from traceforge.capture.run.seal import reason_not_sealable

WITHOUT_SECCOMP = Path(__file__).parents[1] / "support" / "without_seccomp.py"

needs_seal = pytest.mark.skipif(bool(reason_not_sealable()), reason=reason_not_sealable())


class Site(NamedTuple):
    """A project with one approved call, and a server that must not be reached."""

    folder: Path
    python: Path
    server: ModelServer
    target: ConnectionCounter

    def configure(self, **test: Any) -> None:
        """Write the settings of the tests; the server is one of the models."""
        upstreams = {"local": f"http://127.0.0.1:{self.target.port}"}
        (self.folder / "traceforge.config.json").write_text(json.dumps({"upstreams": upstreams, "test": test}))
        if (self.folder / ".ai-snapshots").exists():
            assert 0 == self.run("approve", "--policy", "--reason", "it is right").code

    def run(self, *words: str, **variables: str) -> CommandResult:
        url = f"{self.server.url}/v1"
        return traceforge(*words, cwd=self.folder, OPENAI_BASE_URL=url, PYTHONDONTWRITEBYTECODE="1", **variables)

    def test(self, way: str, host: str, *options: str, port: int = 0) -> CommandResult:
        """Make the approved call, then try to reach the server."""
        (self.folder / "way.py").write_text(f"{ASK}\n{SETUP}\n{WAYS.get(way, way)}\n")
        return self.run("test", *options, "--", str(self.python), "way.py", host, str(port or self.target.port))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Recorded and approved."""
    folder = tmp_path_factory.mktemp("offline")
    with model_server() as server, connection_counter() as target:
        site = Site(folder, installed_python("escapes"), server, target)
        site.configure()
        (folder / "way.py").write_text(ASK)
        recorded = site.run("record", "--", str(site.python), "way.py", "127.0.0.1", "1")
        assert 0 == recorded.code, recorded.err
        approved = site.run("approve", "--all", "--reason", "it is right")
        assert 0 == approved.code, approved.err
        yield site


@pytest.fixture
def site(project: Site, tmp_path: Path) -> Iterator[Site]:
    """A copy of the project with its own server."""
    shutil.copytree(project.folder, tmp_path / "copy", ignore=shutil.ignore_patterns(".ai-tests"))
    with connection_counter() as target:
        copy = Site(tmp_path / "copy", project.python, project.server, target)
        copy.configure()
        yield copy


def _host(place: str) -> str:
    host = "127.0.0.1" if place == "loopback" else own_address()
    if not host:
        pytest.skip("this machine has no other address")
    return host


def _needs(way: str) -> None:
    for program in ("curl", "node", "bash"):
        if way.startswith(program) and shutil.which(program) is None:
            pytest.skip(f"there is no {program} here")


def _tried(ran: CommandResult) -> list[str]:
    return [line for line in ran.out.splitlines() if line in WAYS]


def _last(ran: CommandResult) -> Any:
    return json.loads(ran.err.splitlines()[-1])


PYTHON_WAYS = [way for way in WAYS if way.startswith(STOPPED_IN_PYTHON)]
BEYOND = [way for way in WAYS if way not in PYTHON_WAYS]


@needs_seal
@pytest.mark.parametrize("place", ["loopback", pytest.param("elsewhere", marks=pytest.mark.slow)])
def test_no_program_reaches_a_server_from_a_sealed_run(site: Site, place: str) -> None:
    """In any environment."""
    ran = site.test(try_all(WAYS), _host(place))

    assert list(WAYS) == _tried(ran), ran
    assert "traceforge: offline: sealed" in ran.err, ran
    assert 0 == site.target.connections, ran


@needs_seal
@pytest.mark.parametrize("place", ["loopback", pytest.param("elsewhere", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_the_seal_works_without_the_hook(site: Site, place: str) -> None:
    """In a Python without the hook, the kernel alone stops it."""
    (site.folder / "way.py").write_text(f"{SETUP}\n{try_all(WAYS)}\n")
    words = (str(site.python), "-I", "way.py", _host(place), str(site.target.port))

    ran = site.run("test", "--", *words)

    assert list(WAYS) == _tried(ran), ran
    assert (True, 0) == (ran.code != 0, site.target.connections), ran
    assert "a Python process could not be instrumented: python -I way.py" in ran.err


@pytest.mark.parametrize("place", ["loopback", pytest.param("elsewhere", marks=pytest.mark.slow)])
def test_hooks_alone_stop_connections_of_python(site: Site, place: str) -> None:
    """Its sockets, those of threads and forks, of uvloop, and other name resolution."""
    site.configure(seal_network="off")

    ran = site.test(try_all(PYTHON_WAYS), _host(place), "--json")

    assert PYTHON_WAYS == _tried(ran), ran
    assert (0, "hooks only") == (site.target.connections, _last(ran)["offline"]["strength"]), ran
    rules = {finding["rule"] for finding in _last(ran)["findings"]}
    assert {"GT5"} == rules - {"GT6"}  # A spawned child imports the script, and asks once more.


@pytest.mark.slow
@pytest.mark.parametrize("way", BEYOND)
def test_hooks_alone_stop_another_program_or_the_report_lists_it(site: Site, way: str) -> None:
    """A Python without the hook is exit code 3; another program is listed as unguarded."""
    _needs(way)
    site.configure(seal_network="off")

    ran = site.test(way, _host("elsewhere"), "--json")

    offline = _last(ran)["offline"]
    assert ("hooks only", "test.seal_network is off") == (offline["strength"], offline["why"])
    assert not site.target.connections or _last(ran)["exit_code"] == 3 or offline["unguarded"], ran
    if way.startswith(("curl", "bash", "node, cleaned")):
        assert way.partition(",")[0].partition(" ")[0] in offline["unguarded"], ran


@pytest.mark.parametrize(
    "seal", [pytest.param("auto", marks=needs_seal), pytest.param("off", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("way", ["python -I", "cleaned environment", "shell, python -I", "spawned python -I"])
def test_a_python_that_could_not_be_instrumented_is_exit_code_3(site: Site, way: str, seal: str) -> None:
    """Sealed or not, and whether it connects or not: its calls were not recorded."""
    site.configure(seal_network=seal)

    ran = site.test(f"CONNECT = 'import time; time.sleep(0.05)'\n{WAYS[way]}", "127.0.0.1", "--json")

    assert 3 == _last(ran)["exit_code"], ran
    assert 1 == sum(_last(ran)["offline"]["never_entered"].values()), ran


@pytest.mark.slow
@pytest.mark.parametrize("way", ["socket", "httpx", "uvloop", "node fetch", "curl"])
def test_a_refused_host_is_a_finding_that_names_it(site: Site, way: str) -> None:
    """Also where the program swallows the error; ignored hosts are not reported."""
    _needs(way)
    swallowed = WAYS[way] if way in ("node fetch", "curl") else f"try:\n    exec({WAYS[way]!r})\nexcept OSError: pass"
    swallowed = swallowed.replace("except OSError", "except Exception")

    ran = site.test(swallowed, "api.example.invalid", "--json", port=80)
    site.configure(ignore_hosts=["*.invalid"])
    ignored = site.test(swallowed, "api.example.invalid")

    (finding,) = _last(ran)["findings"]
    assert (1, "GT5") == (_last(ran)["exit_code"], finding["rule"])
    assert "a connection to api.example.invalid:80 was refused" in finding["message"]
    assert 0 == ignored.code, ignored.err


@pytest.mark.slow
@needs_seal
def test_an_allowed_port_is_open_on_loopback_only(site: Site) -> None:
    """Landlock has no addresses; the hook has."""
    with connection_counter() as allowed:
        site.configure(allow_ports=[allowed.port, "9000-9001"])
        near = site.test("socket", "127.0.0.1", port=allowed.port)
        connections_before = allowed.connections
        far = site.test("socket", own_address() or "192.0.2.1", port=allowed.port)

        assert (0, 1) == (near.code, connections_before), near.err
        assert f"traceforge: offline: sealed, except for ports {allowed.port}, 9000-9001" in near.err
        assert (1, 1) == (far.code, allowed.connections), far.err
        assert "GT5" in far.err


@needs_seal
@pytest.mark.slow
def test_a_refused_port_has_a_hint_how_to_allow_it(site: Site) -> None:
    """For a server that the test itself starts."""
    serve = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"

    ran = site.test(serve, "127.0.0.1")
    site.configure(allow_ports=["1024-65535"])
    allowed = site.test(serve, "127.0.0.1")
    site.configure(seal_network="off")
    unsealed = site.test(serve, "127.0.0.1")

    assert (1, True) == (ran.code, "test.allow_ports" in ran.err)
    assert (0, 0) == (allowed.code, unsealed.code), allowed.err


def test_a_model_s_port_on_loopback_is_blocked(site: Site) -> None:
    """That of a base-URL variable, of an upstream, and Ollama's own; other ports are open."""
    site.configure(seal_network="off", allow_ports=["1024-65535"])

    ran = site.test("socket", "127.0.0.1", "--json")
    ollama = site.test("socket", "localhost", "--json", port=11434)

    (refused,) = _last(ran)["offline"]["refused"]
    assert (f"127.0.0.1:{site.target.port}", "model", 1, 0) == (
        refused["place"],
        refused["why"],
        refused["times"],
        site.target.connections,
    )
    assert "127.0.0.1:11434" == _last(ollama)["offline"]["refused"][0]["place"]


def test_a_required_seal_that_is_not_available_is_exit_code_3(site: Site) -> None:
    """Where it is available, the run is green."""
    site.configure(seal_network="require")

    ran = site.test("pass", "127.0.0.1")

    assert (3 if reason_not_sealable() else 0) == ran.code, ran.err


@pytest.mark.slow
def test_only_the_api_keys_set_while_recording_are_set(site: Site) -> None:
    """With a dummy value; only their names are committed."""
    script = f"{ASK}\nprint({{n: v for n, v in os.environ.items() if n.endswith('_API_KEY')}})".replace(
        "soup", "salad"
    )
    (site.folder / "way.py").write_text(script)
    recorded = site.run("record", "--", str(site.python), "way.py", OPENAI_API_KEY="sk-real-and-secret")
    approved = site.run("approve", "--all", "--reason", "it is right")

    ran = site.run("test", "--allow-unused", "--", str(site.python), "way.py", GROQ_API_KEY="gsk-real-and-secret")

    assert (0, 0, 0) == (recorded.code, approved.code, ran.code), ran
    assert "{'OPENAI_API_KEY': 'traceforge-test-dummy-key'}\n" == ran.out
    files = [file.read_text() for file in (site.folder / ".ai-snapshots").rglob("*.json")]
    assert (1, 0) == (sum("OPENAI_API_KEY" in text for text in files), sum("secret" in text for text in files))


@pytest.mark.slow
@needs_seal
def test_the_seal_changes_nothing_else(site: Site) -> None:
    """Exit codes, arguments, input and signals are the command's own; traceforge itself is not sealed."""
    code = site.test("import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(7)", "127.0.0.1")
    killed = site.test("import signal; os.kill(os.getpid(), signal.SIGTERM)", "127.0.0.1")
    missing = site.run("test", "--", "no-such-command")

    assert (7, f"['127.0.0.1', '{site.target.port}'] \n") == (code.code, code.out)
    assert 128 + 15 == killed.code
    assert (3, True) == (missing.code, "no-such-command" in missing.err)


CURL = "subprocess.run(['curl', '-s', '-m', '3', '--noproxy', '*', 'http://192.0.2.1/'])"


@needs_seal
def test_a_refused_connection_names_the_test_and_the_program(site: Site) -> None:
    """Of every kind: a program, its daemon, compiled code in pytest itself, a fork, and programs that use a proxy."""
    (site.folder / "test_ways.py").write_text(
        f"""
import ctypes, os, socket, struct, subprocess, time
def connect(host):
    address = struct.pack("=HH4s8x", 2, socket.htons(80), socket.inet_aton(host))
    ctypes.CDLL(None).connect(socket.socket().fileno(), address, 16)
def test_a(): {CURL}
def test_b(): subprocess.run(["curl", "-s", "http://192.0.2.2/"])
def test_c(): connect("192.0.2.3")
def test_d():
    child = os.fork()
    if not child:
        connect("192.0.2.4")
        os._exit(0)
    os.waitpid(child, 0)
def test_e():
    subprocess.run(["setsid", "-f", "bash", "-c", "echo > /dev/tcp/192.0.2.5/80; touch done"])
    while not os.path.exists("done"):
        time.sleep(0.01)
"""
    )

    ran = site.run("test", "--json", "--", sys.executable, "-m", "pytest", "-q", "test_ways.py")

    found = {finding["message"].split()[3]: finding for finding in _last(ran)["findings"] if finding["rule"] == "GT5"}
    assert {f"192.0.2.{number + 1}:80": f"test_ways.py::test_{name}" for number, name in enumerate("abcde")} == {
        address: finding["file"] for address, finding in found.items()
    }
    assert ["(by curl)", "(by curl)", "(by bash)"] == [
        found[f"192.0.2.{number}:80"]["message"][-len("(by curl)") :] for number in (1, 2, 5)
    ]


def _run_where_refused(site: Site, kind: str, way: str) -> CommandResult:
    """Run a test where the kernel refuses a listener, or Landlock."""
    (site.folder / "way.py").write_text(f"{ASK}\n{SETUP}\n{way}\n")
    words = [str(COMMAND), "test", "--json", "--", str(site.python), "way.py", "127.0.0.1", "9"]
    environ = {"PATH": os.environ["PATH"], "OPENAI_BASE_URL": f"{site.server.url}/v1", "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, str(WITHOUT_SECCOMP), kind, *words],
        cwd=site.folder, env=environ, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return CommandResult(ran.returncode, ran.stdout, ran.stderr)


@needs_seal
@pytest.mark.parametrize(
    ("kind", "strength"),
    [("listener", "sealed, refusals not named"), pytest.param("landlock", "hooks only", marks=pytest.mark.slow)],
)
@pytest.mark.slow
def test_where_refusals_are_not_named_an_unknown_program_is_exit_code_3(site: Site, kind: str, strength: str) -> None:
    """The message has the line to add; shells and local tools are known."""
    way = "subprocess.run(['sh', '-c', 'uname; env true; perl -e \"select(undef, undef, undef, 0.1)\"'])"
    unknown = _run_where_refused(site, kind, way)
    site.configure(allow_programs=["perl"])
    allowed = _run_where_refused(site, kind, way)

    (finding,) = _last(unknown)["unchecked"]
    assert (3, True) == (unknown.code, '{"test":{"allow_programs":["perl"]}}' in finding["hint"]), unknown
    assert (0, strength) == (allowed.code, _last(allowed)["offline"]["strength"]), allowed


OUTLIVES = {
    "child": "subprocess.Popen(['sleep', '8'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)",
    "daemon": "subprocess.run(['setsid', '-f', 'sleep', '8'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)",
    "double fork": """
if not os.fork():
    os.setsid()
    if not os.fork():
        for number in (1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        os.execvp("sleep", ["sleep", "8"])
    os._exit(0)
os.wait()
""",
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux knows the processes of a command")
@pytest.mark.parametrize(
    "way", ["daemon", *(pytest.param(name, marks=pytest.mark.slow) for name in ("child", "double fork"))]
)
@pytest.mark.slow
def test_a_process_that_outlives_the_command_is_exit_code_3(site: Site, way: str) -> None:
    """Nobody sees what it does afterwards; one that ends at once is no problem. `run` says it, too."""
    ran = site.test(OUTLIVES[way], "127.0.0.1")
    ended = site.test("subprocess.Popen(['sleep', '0.1'])", "127.0.0.1")
    (site.folder / "way.py").write_text(f"import os, subprocess\n{OUTLIVES[way]}")
    outside = site.run("run", "--", str(site.python), "way.py")

    assert (3, True) == (ran.code, "a process outlived the command: sleep" in ran.err), ran
    assert 0 == ended.code, ended
    assert (0, True) == (outside.code, "traceforge: still running: sleep; " in outside.err), outside


HIDDEN_PYTHONS = {
    "renamed": "shutil.copy(os.path.realpath(PYTHON), 'helper'); subprocess.run(['./helper', '-I', '-c', WAIT])",
    "python3.13t": "os.symlink(PYTHON, 'python3.13t'); subprocess.run(['./python3.13t', '-I', '-c', WAIT])",
    "loader": "subprocess.run([LOADER, os.path.realpath(PYTHON), '-I', '-c', WAIT])",
    "no random addresses": "subprocess.run(['setarch', '-R', PYTHON, '-I', '-c', WAIT])",
    "same process": "os.execvp('sh', ['sh', '-c', f'exec {PYTHON} -I -c \"{WAIT}\"'])",
}


@pytest.mark.slow
@needs_seal
@pytest.mark.parametrize(
    "way", ["renamed", *(pytest.param(name, marks=pytest.mark.slow) for name in HIDDEN_PYTHONS if name != "renamed")]
)
def test_a_python_under_another_name_is_recognised(site: Site, way: str) -> None:
    """By its file, and by the address of its stack: whatever it is called, and whoever starts it."""
    (loader,) = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/ld-" in line}
    setup = f"WAIT = 'import time; time.sleep(0.1)'; LOADER = {loader!r}"

    ran = site.test(f"{setup}\n{HIDDEN_PYTHONS[way]}", "127.0.0.1", "--json")

    assert (3, 1) == (_last(ran)["exit_code"], sum(_last(ran)["offline"]["never_entered"].values())), ran


@pytest.mark.slow
def test_telemetry_and_start_up_downloads_are_refused_without_a_finding(site: Site) -> None:
    """As litellm does it when it is imported."""
    way = """
for host in ("raw.githubusercontent.com", "us.i.posthog.com", "169.254.169.254"):
    try:
        httpx.get(f"https://{host}/BerriAI/litellm/main/model_prices_and_context_window.json")
    except httpx.ConnectError:
        print("refused")
"""
    ran = site.test(way, "127.0.0.1", "--json")

    assert (0, "refused\n" * 3, []) == (ran.code, ran.out, _last(ran)["findings"]), ran
    assert 3 == len(_last(ran)["offline"]["refused"])


SERVE = """
import http.server, threading, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        print("served", self.path, flush=True)
        self.send_response(204)
        self.end_headers()
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
"""
NODE_HTTP = """
const options = {method: "POST", headers: {"Content-Length": 2}};
const request = require("http").request("%s", options, (response) => response.resume());
request.on("error", (error) => console.log(error.message));
request.end("{}");
"""
NODE_FETCH = "fetch('%s', {method: 'POST', body: '{}'}).catch((error) => console.log(String(error.cause)))"
CLIENTS = {
    "urllib": "urllib.request.urlopen(url, b'{}')",
    "node http": f"subprocess.run(['node', '-e', {NODE_HTTP!r} % url])",
    "node fetch": f"subprocess.run(['node', '-e', {NODE_FETCH!r} % url])",
    "curl": "subprocess.run(['curl', '-s', '-m', '2', '-d', '{}', url])",
}
SEEN = ("node http", "node fetch")  # Their calls go to the proxy of the run, which has no answer.


@pytest.mark.parametrize(
    "client",
    [
        "urllib",
        pytest.param("curl", marks=needs_seal),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("node http", "node fetch")),
    ],
)
@pytest.mark.slow
def test_http_to_an_allowed_port_is_watched_for_the_paths_of_models(site: Site, client: str) -> None:
    """By hooks in Python and Node.js, else by a relay; it cannot read TLS, which the project may allow."""
    _needs(client)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    site.configure(allow_ports=[port])

    def send(path: str, scheme: str = "http") -> CommandResult:
        url = f"url = '{scheme}://127.0.0.1:{port}{path}'"
        return site.test(f"{SERVE}\n{url}\n{CLIENTS[client]}", "127.0.0.1", "--json", port=port)

    model, other = send("/v1/chat/completions"), send("/channels/1/messages")
    expected = "this request was never approved" if client in SEEN else f"127.0.0.1:{port} was refused: a model"
    messages = [finding["message"] for finding in _last(model)["findings"]]
    assert (1, True) == (_last(model)["exit_code"], any(expected in message for message in messages)), messages
    assert "served" not in model.out, model
    assert (0, "served /channels/1/messages\n") == (other.code, other.out), other
    if client == "curl":
        encrypted = send("/x", "https")
        (unchecked,) = _last(encrypted)["unchecked"]
        site.configure(allow_ports=[port], allow_programs=["curl"])

        assert (3, True) == (encrypted.code, f"curl used port {port}" in unchecked["message"]), encrypted
        assert 0 == send("/x", "https").code
