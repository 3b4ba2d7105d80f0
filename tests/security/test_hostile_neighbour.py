"""A hostile neighbour: another user of the machine who reads, plants, links, locks, connects and kills what they can.

The neighbour is a real process under another user's id, so these tests need root. The project lies in a folder that
everybody can enter, and every command runs with an open umask: only the modes that TraceForge sets protect it.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.command import CommandResult, traceforge
from support.model_servers import model_server
from support.proxy_process import proxy
from support.store_servers import server_process
from traceforge.project_trust import list_trusted_projects, trust_project

NEIGHBOUR = 65534
SECRET_PROMPT = "Zq7-the-prompt-that-nobody-else-reads"
SECRET_KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
PRIVATE_FOLDERS = {".ai-tests", "home"}
PRIVATE_FILES = {"export.jsonl"}

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="Windows has other permissions"),
    pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root can act as another user"),
]

APP = """
import os, httpx
body = {"model": "gpt-4.1-mini", "temperature": 0, "max_tokens": 500,
        "messages": [{"role": "user", "content": "PROMPT"}]}
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
answer = httpx.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=body, headers=headers)
print(answer.raise_for_status().json()["choices"][0]["message"]["content"])
""".replace("PROMPT", SECRET_PROMPT)


class Village(NamedTuple):
    """A folder that everybody can enter, with a project, a home and a folder for everybody's files."""

    folder: Path
    variables: dict[str, str]
    given: frozenset[Path]  # What was there before the first command.

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def common(self) -> Path:
        """As /tmp: everybody may create files, nobody may remove those of others."""
        return self.folder / "common"

    def run(self, *words: str, **variables: str) -> CommandResult:
        return traceforge(*words, cwd=self.project, **{**self.variables, **variables})

    def run_app(self, *words: str) -> CommandResult:
        ran = self.run(*words, "--", sys.executable, "app.py")
        assert 0 == ran.code, ran
        return ran


@contextmanager
def new_village(mask: int) -> Iterator[Village]:
    """Build one with this umask, and a model server for its application."""
    before = os.umask(mask)
    folder = Path(tempfile.mkdtemp(prefix="village-"))
    try:
        folder.chmod(0o755)
        for name in ("project", "home"):
            (folder / name).mkdir()
            (folder / name).chmod(0o755)
        (folder / "common").mkdir()
        (folder / "common").chmod(0o1777)
        (folder / "project" / "app.py").write_text(APP)
        (folder / "project" / "traceforge.config.json").write_text('{"models": {"gpt-*": {"gate": "request"}}}')
        for name in ("app.py", "traceforge.config.json"):
            (folder / "project" / name).chmod(0o644)
        with model_server() as server:
            variables = {
                "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": SECRET_KEY, "HOME": str(folder / "home"),
                "XDG_STATE_HOME": str(folder / "home" / "state"), "TMPDIR": str(folder / "common"),
            }  # fmt: skip
            yield Village(folder, variables, frozenset(folder.rglob("*")))
    finally:
        os.umask(before)
        shutil.rmtree(folder)


def use_every_kind_of_command(village: Village) -> None:
    """Record, approve, test, look, export, compress, and keep context: whatever writes a file."""
    for words in (["init"], ["config", "show"]):
        assert 0 == village.run(*words).code
    village.run_app("run")
    village.run_app("record")
    pending = village.run("status", "--json")
    assert pending.code in (0, 1), pending
    approved = village.run("approve", "--all", "--policy", "--reason", "it is right")
    assert 0 == approved.code, (approved, pending)
    village.run_app("test", "--junit", "reports/junit.xml", "--sarif", "reports/deep/er.sarif")
    village.run_app("modelio", "record", "--out", "recording.json")
    context = ("context", "session", "create", "--metadata", json.dumps({"about": SECRET_PROMPT}))
    for words in (
        ["trace", "list"], ["trace", "search", "prompt"], ["trace", "export", "--out", "export.jsonl"],
        ["trace", "compress", "--older-than", "0"], ["trace", "reindex"], context,
        ["context", "artifact", "create", "app.py"],
    ):  # fmt: skip
        ran = village.run(*words)
        assert ran.code in (0, 1), (words, ran)


@pytest.fixture(scope="module")
def village() -> Iterator[Village]:
    """A project whose files were all created with an open umask."""
    with new_village(0) as built:
        use_every_kind_of_command(built)
        yield built


NEIGHBOUR_PROGRAM = """
import encodings.idna, fcntl, json, os, signal, socket, sys, urllib.error, urllib.request
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
os.umask(0)
root = sys.argv[1]

def entries():
    for folder, folders, files in os.walk(root):
        yield from (os.path.join(folder, name) for name in folders + files)

def tries(action):
    try:
        return action()
    except (OSError, ValueError) as exc:
        return None

result = []
{code}
print(json.dumps(result))
"""


def act_as_neighbour(folder: Path, code: str, *arguments: str) -> Any:
    """Run code as another user; its `result`."""
    program = NEIGHBOUR_PROGRAM.format(uid=NEIGHBOUR, code=textwrap.dedent(code))
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program, str(folder), *arguments], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stderr
    return json.loads(ran.stdout)


def is_private(path: Path, village: Village) -> bool:
    parts = path.relative_to(village.folder).parts
    return bool(PRIVATE_FOLDERS & set(parts)) or path.name in PRIVATE_FILES


@pytest.mark.slow
def test_files_are_private_or_not_writable_for_others_under_an_open_umask(village: Village) -> None:
    """State, traces, keys and exports have no bits for others; what is committed or published cannot be changed."""
    check_modes(village)


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0o002, 0o027, 0o077])
def test_files_are_private_or_not_writable_for_others_under_any_umask(mask: int) -> None:
    with new_village(mask) as village:
        use_every_kind_of_command(village)
        check_modes(village)


def check_modes(village: Village) -> None:
    created = {*village.folder.rglob("*")} - village.given
    wrong = [
        (str(path.relative_to(village.folder)), oct(mode))
        for path in sorted(created)
        if not path.is_symlink()
        for mode in [stat.S_IMODE(path.stat().st_mode)]
        if mode & (0o077 if is_private(path, village) else 0o022)
    ]

    assert len(created) > 30
    assert [] == wrong
    assert [] == list(village.common.iterdir())  # No temporary file stays behind.


@pytest.mark.slow
def test_a_neighbour_reads_nothing_private(village: Village) -> None:
    """Neither by opening what lies there nor by making a hard link to it."""
    readable = act_as_neighbour(
        village.folder,
        """
        for path in entries():
            if os.path.isfile(path) and tries(lambda: open(path, "rb").close() or True):
                result.append(path)
        links = [path for path in entries() if os.path.isfile(path)]
        for number, path in enumerate(links):
            name = os.path.join(root, "common", f"link{number}")
            if tries(lambda: os.link(path, name) or open(name, "rb").close() or True):
                result.append(path)
        """,
    )

    assert readable  # The test can see something at all.
    assert [] == [path for path in readable if is_private(Path(path), village)]
    for link in village.common.iterdir():
        link.unlink()


def test_a_neighbour_changes_nothing(village: Village) -> None:
    """No file can be written, removed or renamed, and no folder takes a new one."""
    changed = act_as_neighbour(
        village.project,
        """
        for path in [root, *entries()]:
            if os.path.isdir(path):
                name = os.path.join(path, "planted")
                if tries(lambda: os.close(os.open(name, os.O_CREAT | os.O_WRONLY)) or True):
                    result.append(name)
                if tries(lambda: os.symlink("/etc/passwd", name) or True):
                    result.append(name)
            elif tries(lambda: os.close(os.open(path, os.O_WRONLY)) or True):
                result.append(path)
            if tries(lambda: os.rename(path, path + ".away") or True) or tries(lambda: os.chmod(path, 0o777) or True):
                result.append(path)
        """,
    )

    assert [] == changed


@pytest.mark.slow
def test_locks_that_a_neighbour_holds_stop_no_command(village: Village) -> None:
    """A file that can be opened can be locked for ever, also for reading only. So none of ours can be."""
    program = NEIGHBOUR_PROGRAM.format(
        uid=NEIGHBOUR,
        code=textwrap.dedent(
            """
            held = []
            for path in [root, *entries()]:
                descriptor = tries(lambda: os.open(path, os.O_RDONLY | os.O_NONBLOCK))
                if descriptor is not None:
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                    held.append(descriptor)
            print(len(held), flush=True)
            sys.stdin.read()
            """
        ),
    )
    words = [sys.executable, "-I", "-c", program, str(village.project)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert int(holder.stdout.readline()) > 0
        results = [
            village.run_app("run"),
            village.run("trace", "list"),
            village.run("verify"),
            village.run("context", "session", "list"),
        ]
        holder.communicate()

    assert [0] * 4 == [ran.code for ran in results], results


def test_a_neighbour_finds_no_way_into_a_running_command(village: Village) -> None:
    """No socket to connect to, no key in a command line, no environment, no signal; the folder has a random name."""
    (village.project / "watched.py").write_text(
        textwrap.dedent(
            """
            import os, subprocess, sys
            program = open(sys.argv[1]).read()
            words = [sys.executable, "-I", "-c", program, os.environ["TMPDIR"], str(os.getppid())]
            print(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
            """
        )
    )
    (village.project / "watched.py").chmod(0o644)
    program = village.folder / "program.py"
    program.write_text(
        NEIGHBOUR_PROGRAM.format(
            uid=NEIGHBOUR,
            code=textwrap.dedent(
                f"""
                names, opened, lines, environments, killed = os.listdir(root), [], [], [], []
                for path in entries():
                    peer = socket.socket(socket.AF_UNIX)
                    if tries(lambda: peer.connect(path) or True) or tries(lambda: os.listdir(path) or True):
                        opened.append(path)
                family = [number for number in os.listdir("/proc") if number.isdigit()]
                for number in family:
                    lines.append(tries(lambda: open("/proc/" + number + "/cmdline").read()) or "")
                mine = sys.argv[2]
                environments.append(tries(lambda: open("/proc/" + mine + "/environ").read()))
                killed.append(tries(lambda: os.kill(int(mine), signal.SIGTERM) or True))
                leaked = [line for line in lines if {SECRET_KEY!r} in line and "setgroups" not in line]
                result.append([names, opened, leaked, environments, killed])
                """
            ),
        )
    )
    outputs = [village.run("run", "--", sys.executable, "watched.py", str(program)) for _ in range(2)]

    assert [0, 0] == [ran.code for ran in outputs], outputs
    (first,), (second,) = (json.loads(ran.out.strip().splitlines()[0]) for ran in outputs)
    assert first[0]  # There is a folder of the run.
    assert not set(first[0]) & set(second[0])
    assert [[], [], [None], [None]] == first[1:]
    program.unlink()


def plant(village: Village, code: str) -> None:
    """Let the neighbour prepare the folder that everybody may write to."""
    act_as_neighbour(village.common, code)


PLANTED = {
    "a link to a file of the victim": "os.symlink(os.path.join(root, '..', 'project', 'victim.txt'), name)",
    "a link to a new file": "os.symlink(os.path.join(root, 'caught'), name)",
    "a FIFO": "os.mkfifo(name, 0o666)",
    "a file of the neighbour": "os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o666))",
}


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        *(("export", kind) for kind in PLANTED),
        ("database", "a link to a new file"),
        ("keyring", "a file of the neighbour"),
        *(
            pytest.param(what, kind, marks=pytest.mark.slow)
            for what in ("database", "keyring", "log")
            for kind in PLANTED
        ),
    ],
)
def test_what_a_neighbour_has_planted_is_refused(village: Village, what: str, kind: str) -> None:
    """A name in a common folder may be a trap: the command says so at once, and writes nothing into it."""
    victim = village.project / "victim.txt"
    victim.write_text("precious")
    names = {"export": "out.jsonl", "database": "context.db", "keyring": "context.db.keys", "log": "context.db-wal"}
    path = village.common / names[what]
    plant(village, f"name = os.path.join(root, {names[what]!r})\n{PLANTED[kind]}")
    database = str(village.common / "context.db")
    words = (
        ["trace", "export", "--out", str(path)]
        if what == "export"
        else ["context", "session", "create", "--db", database]
    )

    ran = village.run(*words)

    left = {entry.name for entry in village.common.iterdir()}
    content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    for entry in village.common.iterdir():
        entry.unlink()
    assert ran.code in (2, 3), ran
    assert "another user has put it there" in ran.err
    assert {names[what]} == left
    assert ("precious", b"") == (victim.read_text(), content)
    victim.unlink()


def test_a_database_that_others_can_change_and_that_is_not_ours_is_refused(village: Village) -> None:
    """The neighbour as victim: a user who is not root cannot close a file of another user."""
    folder = village.folder / "lent"
    folder.mkdir()
    folder.chmod(0o755)
    path = folder / "notes"
    path.write_bytes(b"")
    path.chmod(0o666)
    imports = "from traceforge.files import close_to_others\nfrom traceforge.errors import CannotWrite\n"
    code = "try:\n    close_to_others(root)\nexcept CannotWrite as exc:\n    result = [exc.message, exc.hint]"
    program = imports + NEIGHBOUR_PROGRAM.format(uid=NEIGHBOUR, code=code)

    ran = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)

    message, hint = json.loads(ran.stdout)
    assert (True, True) == ("notes" in message, "another user" in hint)


def test_a_neighbour_without_the_token_or_a_key_gets_nothing_from_our_ports(village: Village) -> None:
    """Everybody on the machine can connect to loopback; the token of the proxy and the keys of the server hold."""
    ask = """
        for url in sys.argv[2:]:
            for headers in ({}, {"X-TraceForge-Token": "guess"}, {"Authorization": "Bearer tf_live_guess"}):
                request = urllib.request.Request(url, headers=headers)
                try:
                    result.append(urllib.request.urlopen(request).status)
                except urllib.error.HTTPError as exc:
                    result.append(exc.code)
    """
    with (
        proxy(village.project, TRACEFORGE_PROXY_TOKEN="t" * 40) as guarded,
        server_process("--auth", "required", cwd=village.project) as server,
    ):
        statuses = act_as_neighbour(
            village.common,
            ask,
            f"{guarded.url}/openai/v1/models",
            f"{server.url}/v2/sessions",
            f"{server.url}/v2/artifacts",
        )

    assert {401} == set(statuses)


def test_a_neighbour_who_finds_the_port_of_a_run_gets_nothing_from_it(village: Village) -> None:
    """Only the command's environment has the token of its base URL: no list of processes, no output and no trace."""
    program = NEIGHBOUR_PROGRAM.format(
        uid=NEIGHBOUR,
        code=textwrap.dedent(
            """
            from urllib.parse import urlsplit
            base = urlsplit(sys.argv[2])
            origin, paths = f"{base.scheme}://{base.netloc}", ["/openai/v1/models", "/v1/models", "/metrics", "/"]
            for prefix in ["", "/guess", "/" + "0" * 32, "//", base.path[:-8]]:
                for path in paths:
                    try:
                        result.append(urllib.request.urlopen(origin + prefix + path).status)
                    except urllib.error.HTTPError as exc:
                        result.append(exc.code)
            lines = [tries(lambda: open(f"/proc/{number}/cmdline").read()) or ""
                     for number in os.listdir("/proc") if number.isdigit() and number != str(os.getpid())]
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).encode()
            headers = {"Content-Type": "application/json"}
            call = urllib.request.Request(sys.argv[2] + "/chat/completions", data=body, headers=headers)
            own = urllib.request.urlopen(call).status
            result = [result, own, base.path, any(base.path.split("/")[1] in line for line in lines)]
            """
        ),
    )
    words = ["sh", "-c", 'exec "$0" -I -c "$1" / "$OPENAI_BASE_URL"', sys.executable, program]

    ran = village.run("run", "--", *words)

    assert 0 == ran.code, ran
    statuses, own, path, is_in_a_command_line = json.loads(ran.out)
    token = path.split("/")[1]
    assert ({401}, 20) == (set(statuses), len(statuses))
    assert (200, 32, False) == (own, len(token), is_in_a_command_line)
    assert token not in ran.err
    stored = [
        entry for entry in village.project.rglob("*") if entry.is_file() and token.encode() in entry.read_bytes()
    ]
    assert [] == stored


def test_a_list_of_trusted_projects_that_others_can_write_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one of another user, nor a link; until its owner closes it again."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert trust_project("/a/project")
    path = tmp_path / "traceforge" / "trusted-projects"

    for mode, expected in ((0o600, ["/a/project"]), (0o602, []), (0o620, []), (0o666, []), (0o644, ["/a/project"])):
        path.chmod(mode)
        assert expected == list_trusted_projects(), oct(mode)
    os.chown(path, NEIGHBOUR, NEIGHBOUR)
    assert [] == list_trusted_projects()
    os.chown(path, os.geteuid(), -1)
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    assert [] == list_trusted_projects()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell whose a connection is")
def test_a_program_of_the_run_that_loses_the_path_of_its_base_url_is_served(village: Village) -> None:
    """As with `new URL("/v1/…", base)`: `run` does not break a program that works without it."""
    program = textwrap.dedent(
        """
        import os, urllib.request
        from urllib.parse import urljoin
        body = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'
        url = urljoin(os.environ["OPENAI_BASE_URL"], "/v1/chat/completions")
        call = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
        print(urllib.request.urlopen(call).status)
        """
    )

    ran = village.run("run", "--", sys.executable, "-I", "-c", program)

    assert (0, "200") == (ran.code, ran.out.strip()), ran
    assert "1 trace recorded" in ran.err
