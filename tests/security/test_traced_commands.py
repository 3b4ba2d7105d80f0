"""What commands read, write, listen on and connect to, seen by strace: the table of SECURITY.md is what they do."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from support.command import COMMAND
from support.model_servers import ModelServer, model_server
from support.security_page import list_rows

pytestmark = pytest.mark.slow

CALLS = "connect,bind,openat,open,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,link,linkat,symlinkat"
CHANGE = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|\b(creat|mkdir(at)?|rename(at2?)?|unlink(at)?|link(at)?|symlinkat)\(")
ADDRESS = re.compile(
    r"\b(connect|bind)\(.*?(?:sin_port=htons\((\d+)\), sin_addr=inet_addr\(\"([^\"]+)\"\)"
    r"|sin6_port=htons\((\d+)\).*?inet_pton\(AF_INET6, \"([^\"]+)\")"
)
UI_TOKEN = "a-token-of-the-tests"
APP = """
import os, httpx
message = {"role": "user", "content": "Hi"}
body = {"model": "m", "temperature": 0, "seed": 7, "max_tokens": 9, "messages": [message]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
assert httpx.post(url, json=body, headers={"authorization": "Bearer k"}, trust_env=False).status_code == 200
"""
CASSETTE = """
interactions:
- request: {method: POST, uri: 'https://api.openai.com/v1/chat/completions',
    headers: {content-type: [application/json]},
    body: '{"model": "m", "messages": [{"role": "user", "content": "Hello"}]}'}
  response: {status: {code: 200, message: OK}, headers: {content-type: [application/json]},
    body: {string: '{"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0,
      "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}'}}
version: 1
"""
# As vcrpy: the methods that the audit observes.
RECORDER = """
class Request:
    method, uri, headers = "POST", "https://api.openai.com/v1/chat/completions", {}
    body = '{"model": "m", "messages": [{"role": "user", "content": "Hello"}]}'

def requests_match(sent, recorded, match_on):
    return sent.uri == recorded.uri

class Cassette:
    write_protected = True
    def __init__(self, path):
        self._path, self.data = path, []
    def _load(self):
        with open(self._path) as file:
            self.data = [(Request(), file.read())]
    def _responses(self, request):
        for place, (recorded, response) in enumerate(self.data):
            if requests_match(request, recorded, ()):
                yield place, response
    def can_play_response_for(self, request):
        return bool([*self._responses(request)])
    def play_response(self, request):
        for _, response in self._responses(request):
            return response
"""
SUITE = """
from vcr.cassette import Cassette, Request
cassette = Cassette("cassette.yaml")
cassette._load()
assert cassette.can_play_response_for(Request()) and "Hello" in cassette.play_response(Request())
"""
RUN = {
    "run_schema_version": "1.0.0", "run_id": "run-1", "started_at": "2026-01-05T00:00:00Z",
    "completed_at": "2026-01-05T00:00:01Z", "kernel_version": "0.3.10", "policy": {"a": 1}, "intent": "x",
    "kernel_result_kind": "REFUSE", "decision": {}, "model_mode": "record",
}  # fmt: skip


class Traced(NamedTuple):
    """What a command did."""

    code: int
    out: str
    listened: set[str]  # addresses, without ports
    connected: set[tuple[str, int]]
    changed: set[str]  # paths


class Project:
    """A project with an application, a model on loopback, and commands under strace."""

    def __init__(self, folder: Path, model: ModelServer) -> None:
        strace = shutil.which("strace")
        if strace is None:
            pytest.fail("strace is not on PATH: `make strace` installs it", pytrace=False)
        self.folder, self.log, self.model = folder / "project", folder / "calls", model
        self.strace = [strace, "-f", "-qq", "-y", "-s", "4096", "-e", f"trace={CALLS}", "-o", str(self.log)]
        self.folder.mkdir()
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.state = folder / "home" / ".local" / "state" / "traceforge"
        (folder / "home").mkdir()
        (self.folder / "app.py").write_text(APP)
        (self.folder / "cassette.yaml").write_text(CASSETTE)
        self.environ = {
            "PATH": os.environ["PATH"], "HOME": str(folder / "home"), "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "k", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(self.temporary),
        }  # fmt: skip

    @property
    def port(self) -> int:
        """The model's port."""
        return int(self.model.url.rpartition(":")[2])

    def run(self, *words: str, codes: tuple[int, ...] = (0,)) -> Traced:
        """Run a command to its end; these exit codes are expected."""
        ran = subprocess.run(
            [*self.strace, COMMAND, *words], cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert ran.returncode in codes or words == ("diff",), (
            words,
            ran,
        )  # 1 says that there is something to approve
        return self._read(ran.returncode, ran.stdout + ran.stderr)

    def serve(self, *words: str, path: str = "", body: object = None) -> Traced:
        """Start a server, send one request to the address that it prints, and stop it."""
        process = subprocess.Popen(
            [*self.strace, COMMAND, *words], cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found and str(self.port) not in found[0]:
                break
        else:
            pytest.fail("".join(lines))
        url = found[0] + path
        request = {"method": "POST", "json": body} if body else {"method": "GET", "follow_redirects": True}
        answer = httpx.request(url=url, timeout=60, **request)  # type: ignore[arg-type]
        os.killpg(process.pid, signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert answer.status_code < 500, answer.text
        return self._read(process.returncode, "".join(lines) + (out or ""))

    def _read(self, code: int, out: str) -> Traced:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        assert len([line for line in lines if "open" in line]) > 100  # strace was attached while the command ran
        assert [] == list(self.temporary.iterdir())
        listened, connected, changed = set(), set(), set()
        for line in lines:
            if found := ADDRESS.search(line):
                kind, port, address, port6, address6 = found.groups()
                if kind == "bind":
                    listened.add(address or address6)
                elif port != "0":  # Python asks the kernel for its route so; nothing is sent.
                    connected.add((address or address6, int(port or port6)))
            elif CHANGE.search(line) and " = -1 " not in line:
                changed |= set(re.findall(r'(?:AT_FDCWD|\d+)<([^>]+)>, "(?!/)', line)) | set(
                    re.findall(r'"(/[^"]*)"', line)
                )
        return Traced(code, out, listened, connected, {path for path in changed if not path.startswith("/dev/")})


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project, and a model for it."""
    with model_server() as model:
        yield Project(tmp_path, model)


def outside(traced: Traced, project: Project) -> set[str]:
    """What was changed beyond the project and the temporary folder, in which nothing is left."""
    roots = (f"{project.folder}/", f"{project.temporary}/")
    return {path for path in traced.changed if not f"{path}/".startswith(roots)}


def writes_index(traced: Traced) -> bool:
    """Whether it changed files of traces or their index: whoever lists traces brings both up to date."""
    return any("/.ai-tests/traces/index" in path for path in traced.changed)


def test_the_walk_of_a_developer_stays_in_the_project(project: Project) -> None:
    """Recording and a live check connect to the model alone; everything else connects to nothing."""
    run = ["--", sys.executable, "app.py"]
    quiet = [
        ["init"], ["status"], ["diff"], ["approve", "--all", "--policy", "--reason", "it is right"], ["verify"],
        ["import", "vcr", "cassette.yaml"], ["trace", "list"], ["snapshot", "list"],
        ["modelio", "verify", "a.jsonl"], ["modelio", "show", "a.jsonl"],
    ]  # fmt: skip

    recorded = {"record": project.run("record", *run), "run": project.run("run", *run)}
    recorded["modelio record"] = project.run("modelio", "record", "--out", "a.jsonl", *run)
    silent = {" ".join(words): project.run(*words) for words in quiet}
    silent["status after import"] = project.run("status")
    pending = re.findall(r"\b[\w-]+-[0-9a-f]{8}\b", silent["status after import"].out)[0]
    silent["reject"] = project.run("reject", pending)
    live = project.run("check-live", "--yes")

    for name, traced in recorded.items():
        assert traced.listened <= {"127.0.0.1"}, name
        assert ("127.0.0.1", project.port) in traced.connected, name
        assert {"127.0.0.1"} == {address for address, _ in traced.connected}, name
        assert set() == outside(traced, project), name
    for name, traced in silent.items():
        assert (set(), set()) == (traced.listened, traced.connected), name
        assert name.startswith("approve") or set() == outside(traced, project), name
    approval = outside(silent["approve --all --policy --reason it is right"], project)
    assert {f"{project.state}/machine.key"} == {path for path in approval if Path(path).is_file()}
    assert {("127.0.0.1", project.port)} == live.connected, live
    assert (set(), set()) == (live.listened, outside(live, project))


def test_a_proxy_listens_on_loopback_and_connects_to_its_upstream(project: Project) -> None:
    """And writes traces in the project."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}

    traced = project.serve(
        "proxy",
        "--port",
        "0",
        "--upstream",
        f"openai={project.model.url}",
        path="/openai/v1/chat/completions",
        body=body,
    )

    assert ({"127.0.0.1"}, {("127.0.0.1", project.port)}) == (traced.listened, traced.connected)
    assert set() == outside(traced, project)
    assert any("/.ai-tests/traces" in path for path in traced.changed)


def test_a_chat_listens_on_loopback_and_writes_nothing(project: Project) -> None:
    """It connects to its model."""
    body = {"message": "Hi", "session_id": "s"}
    words = ("--port", "0", "--upstream", f"{project.model.url}/v1", "--model", "m")

    traced = project.serve("chat", "serve", *words, path="/chat", body=body)

    assert ({"127.0.0.1"}, {("127.0.0.1", project.port)}) == (traced.listened, traced.connected)
    assert set() == traced.changed


@pytest.mark.parametrize("page", ["/", "/evidence", "/changes"])
def test_the_web_view_listens_on_loopback_and_writes_in_the_project(project: Project, page: str) -> None:
    """It connects to nothing, and changes nothing but the files of traces and their index."""
    project.run("run", "--", sys.executable, "app.py")

    traced = project.serve("ui", "--port", "0", "--token", UI_TOKEN, path=f"{page}?token={UI_TOKEN}")

    assert ({"127.0.0.1"}, set()) == (traced.listened, traced.connected)
    assert set() == outside(traced, project)
    assert [] == [path for path in traced.changed if "/.ai-tests/traces" not in f"{path}/"]


def test_a_context_server_listens_on_loopback_and_writes_its_store(project: Project) -> None:
    """It connects to nothing until a model is asked; nor do the commands of the store."""
    served = project.serve("serve", "--port", "0", path="/v2/sessions")
    created = project.run("context", "session", "create")

    assert ({"127.0.0.1"}, set()) == (served.listened, served.connected)
    assert (set(), set()) == (created.listened, created.connected)
    for traced in (served, created):
        assert set() == outside(traced, project)
        assert any("context.db" in path for path in traced.changed)


def test_commands_that_read_and_rewrite_evidence_connect_to_nothing(project: Project) -> None:
    """Each subcommand that writes does so in the project, or where its option says."""
    run = ["--", sys.executable, "app.py"]
    for words in (["init"], ["record", *run], ["approve", "--all", "--policy", "--reason", "it is right"]):
        project.run(*words)
    project.run("run", *run)
    (record,) = (project.folder / ".ai-snapshots" / "openai").glob("*.json")
    first, second = [trace["id"] for trace in json.loads(project.run("trace", "list", "--json").out)["data"]]
    run_file = project.folder / "run.json"
    run_file.write_text(json.dumps(RUN))
    quiet = [
        ["trace", "show", first], ["trace", "search", "Hi"], ["trace", "diff", first, second],
        ["trace", "verify"], ["trace", "migrate"], ["trace", "reindex"], ["trace", "export", "--out", "traces.jsonl"],
        ["trace", "compress", "--older-than", "0"], ["session", "list"],
        ["check", "new", "--from-trace", first], ["check", "list"], ["check", "run"],
        ["modelio", "from-traces", "--out", "a.json"], ["modelio", "hash", "a.json"], ["modelio", "stats", "a.json"],
        ["modelio", "diff", "a.json", "a.json"], ["trace", "prune", "--older-than", "0"],
        ["pack", "create", "--run", "run.json", "--model-io", "a.json", "--out", "pack-1"],
        ["pack", "verify", "pack-1"], ["pack", "show", "pack-1"],
        ["pack", "export", "pack-1", "--archive", "pack-1.tar.zst"],
        ["snapshot", "verify"], ["snapshot", "show", record.stem], ["snapshot", "manifest"],
        ["snapshot", "rm", record.stem, "--reason", "gone"],
    ]  # fmt: skip

    for words in quiet:
        traced = project.run(*words)
        assert (set(), set()) == (traced.listened, traced.connected), words
        assert set() == {path for path in outside(traced, project) if Path(path).is_file()} - {
            f"{project.state}/machine.key"
        }, words
        says_so = {"trace", "session"} | {name for name, cells in list_rows().items() if "`trace list`" in cells[1]}
        assert words[0] in says_so or not writes_index(traced), words


def test_the_drift_of_checks_is_read_from_reports_alone(project: Project) -> None:
    """`check drift` reads two reports, and writes and connects to nothing."""
    project.run("run", "--", sys.executable, "app.py")
    (trace,) = json.loads(project.run("trace", "list", "--json").out)["data"]
    checks = project.folder / ".ai-checks"
    checks.mkdir()
    text = f"name: x\ntrace_id: '{trace['id']}'\nassertions:\n- {{type: length, min: 1}}\n"
    (checks / "a.yaml").write_text(text)
    report = project.folder / "report.json"
    report.write_text(project.run("check", "run", "--json").out)

    traced = project.run("check", "drift", "report.json", "report.json", codes=(0, 3))  # 3: one run shows no drop

    assert (set(), set(), set()) == (traced.listened, traced.connected, traced.changed)


def test_an_audit_of_cassettes_connects_to_nothing(project: Project) -> None:
    """Its suite replays a cassette; the audit listens on a socket of this user, and writes no file of the project."""
    (project.folder / "vcr").mkdir()
    (project.folder / "vcr" / "__init__.py").touch()
    (project.folder / "vcr" / "cassette.py").write_text(RECORDER)
    (project.folder / "suite.py").write_text(SUITE)

    traced = project.run("audit", "vcr", ".", "--", sys.executable, "suite.py", codes=(0, 1, 3))

    assert "(1 call)" in traced.out, traced.out
    assert (set(), set(), set()) == (traced.listened, traced.connected, outside(traced, project))
    assert set() == {path for path in traced.changed if path.startswith(f"{project.folder}/")}


def test_a_test_run_reaches_nothing_but_itself(project: Project) -> None:
    """The model of the recording is there, and gets no connection."""
    run = ["--", sys.executable, "app.py"]
    for words in (["init"], ["record", *run], ["approve", "--all", "--policy", "--reason", "it is right"]):
        project.run(*words)
    traced = project.run("test", *run)

    assert traced.listened <= {"127.0.0.1"}
    assert ("127.0.0.1", project.port) not in traced.connected
    assert {address for address, _ in traced.connected} <= {"127.0.0.1"}
    assert set() == outside(traced, project)


def test_trust_writes_your_list_alone(project: Project) -> None:
    """In the state folder of the user, not in the project."""
    traced = project.run("trust")

    assert (set(), set()) == (traced.listened, traced.connected)
    assert all(path.startswith(str(project.state.parent.parent.parent)) for path in outside(traced, project))
    assert set() == {path for path in traced.changed if path.startswith(f"{project.folder}/")}


def test_the_context_store_connects_to_the_model_that_is_asked_alone(project: Project) -> None:
    """Every other command of it connects to nothing, and all of them write their store and traces of the model."""
    model = f"openai={project.model.url}"

    def run_json(*words: str) -> Any:
        traced = project.run("context", *words, "--json")
        assert (set(), set(), set()) == (traced.listened, traced.connected, outside(traced, project)), words
        return json.loads(traced.out)

    session = run_json("session", "create")["id"]
    run_json("event", "append", session, "--content", "Hi")
    snapshot = run_json("snapshot", "create", session)["id"]
    artifact = run_json("artifact", "create", "app.py")["id"]
    (project.folder / "runtime.json").write_text("{}")
    for words in (
        ["session", "list"], ["log", session], ["branch", "fork", session], ["snapshot", "blocks", snapshot],
        ["snapshot", "render", snapshot, "--provider", "openai"], ["lint", snapshot],
        ["cache-key", snapshot, "--runtime", "runtime.json"],
        ["verify"], ["alias", "create", "helper", "--target", "openai/m"], ["purge", "create", artifact, "--yes"],
        ["purge", "expired"], ["api-key", "create", "--scope", "read"], ["session", "delete", session],
    ):  # fmt: skip
        run_json(*words)
    session = run_json("session", "create")["id"]
    asked = project.run("context", "response", "create", "--model", "helper", "--session", session, "--input", "Hi",
                        "--upstream", model)  # fmt: skip
    compared = project.run("context", "replay", "run", "--session", session, "--baseline", "helper",
                           "--candidate", "helper", "--upstream", model)  # fmt: skip

    for traced in (asked, compared):
        assert (set(), {("127.0.0.1", project.port)}) == (traced.listened, traced.connected)
        assert set() == outside(traced, project)


def test_the_base_is_read_from_git_and_fetched_from_origin_alone(project: Project) -> None:
    """`base` changes nothing; `base --fetch` changes the clone, and `git fetch` connects to its remote alone."""
    remote, clone = project.folder.parent / "remote", project.folder
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    subprocess.run(["git", "init", "-q", "-b", "main", str(remote)], check=True)
    for _ in range(2):
        subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=remote, check=True)
    before = subprocess.run(["git", "rev-parse", "HEAD~1"], cwd=remote, check=True, capture_output=True, text=True)
    shutil.rmtree(clone)
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{remote}", str(clone)], check=True)
    event = project.folder.parent / "event.json"
    event.write_text(json.dumps({"before": before.stdout.strip(), "repository": {"default_branch": "main"}}))
    project.environ |= {"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "push",
                        "GITHUB_EVENT_PATH": str(event)}  # fmt: skip

    fetched, read = project.run("base", "--fetch"), project.run("base")

    assert before.stdout[:12] in read.out
    for traced in (fetched, read):
        assert (set(), set(), set()) == (traced.listened, traced.connected, outside(traced, project))
    assert all(path.startswith(f"{clone}/.git") for path in fetched.changed if Path(path).is_file())
    assert set() == {path for path in read.changed if Path(path).is_file()}
