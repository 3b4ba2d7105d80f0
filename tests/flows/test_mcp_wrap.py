"""`traceforge mcp wrap`: tool servers of a client that no hook sees, recorded and replayed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import COMMAND, CommandResult, traceforge
from support.environments import installed_python
from support.tool_servers import approve_all, copy_tool_servers, read_server_log
from traceforge.capture.run.mcp_wrap import UNWATCHED_NOTE

pytestmark = pytest.mark.slow

SERVER = (sys.executable, "plain_server.py")
WRAPPED = (str(COMMAND), "mcp", "wrap", "--", *SERVER)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a client and a server that use no library."""
    copy_tool_servers(tmp_path)
    return tmp_path


def run(folder: Path, word: str, *texts: str, **variables: str) -> CommandResult:
    """Run the client, which adds notes, under a command of TraceForge."""
    return traceforge(word, "--", sys.executable, "plain_client.py", *WRAPPED, "::", *texts, cwd=folder, **variables)


def server_log(folder: Path) -> list[str]:
    """What the server did since this was last asked."""
    return [line for line in read_server_log(folder) if not line.startswith("variables")]


def test_approved_results_replay_without_the_server(folder: Path) -> None:
    """The same output: ids that are texts, progress under the tokens of today, the n-th result of the n-th call."""
    recorded = run(folder, "record", "milk", "milk", "noise")
    assert (0, ["started", "add milk", "add milk", "add noise"]) == (recorded.code, server_log(folder)), recorded
    assert ("5 live" in recorded.err, "the server is ready" in recorded.err) == (True, True), recorded.err
    approve_all(folder)

    replayed = run(folder, "test", "milk", "milk", "noise")

    assert (0, recorded.out) == (replayed.code, replayed.out), replayed
    assert "progress of p1" in replayed.out
    assert [] == server_log(folder)
    assert "GREEN: 5 calls replayed" in replayed.err


def test_another_version_of_the_protocol_is_red(folder: Path) -> None:
    """What client and server agree on decides what a model sees; the server is not started to find out."""
    run(folder, "record", "milk")
    approve_all(folder)
    server_log(folder)

    changed = run(folder, "test", "milk", VERSION="2024-11-05")

    assert (1, []) == (changed.code, server_log(folder)), changed
    assert '$.request.params.protocolVersion: "2025-06-18" → "2024-11-05"' in changed.err


def test_recording_again_repeats_no_approved_call(folder: Path) -> None:
    """The server is started, asked for its tools, and gets no other request that has an answer."""
    run(folder, "record", "milk")
    approve_all(folder)
    server_log(folder)
    server = folder / "plain_server.py"
    server.write_text(server.read_text().replace("Add a note.", "Add one note."))

    recorded = run(folder, "record", "milk")

    assert (0, ["started"]) == (recorded.code, server_log(folder)), recorded
    assert "changed (answer): 1" in recorded.err, recorded.err
    diff = traceforge("diff", cwd=folder).out
    assert "answer.tool_list: What a tool server offers changed" in diff
    assert "Add one note." in recorded.out


def test_secrets_in_arguments_and_results_are_not_on_disk(folder: Path) -> None:
    """The client gets them all the same, in the replay of its own request, too."""
    key = "sk-proj-" + "A1b2C3d4E5f6G7h8" * 3
    recorded = run(folder, "record", key)
    approve_all(folder)
    (folder / "server.log").unlink()

    replayed = run(folder, "test", key)

    assert (0, recorded.out) == (replayed.code, replayed.out), replayed
    assert f"noted {key}" in recorded.out
    written = [file for file in folder.rglob("*") if file.is_file() and key.encode() in file.read_bytes()]
    assert [] == written


@pytest.mark.parametrize(("text", "code"), [("die", 7), ("kill", -signal.SIGKILL)])
def test_the_end_of_a_server_is_its_own(folder: Path, text: str, code: int) -> None:
    """Its exit code and its signal reach the client, and a replay closes the session where it was closed."""
    recorded = run(folder, "record", "milk", text)
    assert ["the server has ended"] == recorded.out.splitlines()[-1].strip('"').split("\n"), recorded
    assert f"ended with {code}" in recorded.err
    approve_all(folder)
    server_log(folder)

    replayed = run(folder, "test", "milk", text)

    assert (0, recorded.out, []) == (replayed.code, replayed.out, server_log(folder)), replayed


def test_a_server_without_a_command_around_it_runs_as_it_is(folder: Path) -> None:
    """It has its own process, so that every signal reaches it; the note is on stderr alone."""
    with subprocess.Popen(
        WRAPPED, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"id":1,"method":"tools/list"}\n')
        process.stdin.flush()
        assert b'"add_note"' in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)

    assert (-signal.SIGTERM, b"", f"{UNWATCHED_NOTE}\nthe server is ready\n".encode()) == (
        process.returncode,
        out,
        err,
    )
    assert not (folder / ".ai-tests").exists()


def test_a_server_has_no_variable_of_the_run(folder: Path) -> None:
    """What it does itself could never be replayed, because a test does not start it."""
    code = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode)"
    ran = traceforge("run", "--", sys.executable, "-c", code, *WRAPPED, cwd=folder)

    assert 0 == ran.code, ran
    assert ["started", "variables "] == (folder / "server.log").read_text().splitlines()


def test_a_server_that_cannot_be_started_is_an_error(folder: Path) -> None:
    """The client sees the process end."""
    ran = traceforge("mcp", "wrap", "--", "no-such-program", cwd=folder)

    assert (3, True) == (ran.code, "TF502: no-such-program: command not found" in ran.err), ran


def test_a_test_of_pytest_owns_the_calls_of_its_servers(folder: Path) -> None:
    """Also where the client is a program that the test starts."""
    words = [sys.executable, "plain_client.py", *WRAPPED, "::", "milk"]
    out = f"subprocess.check_output({words!r}, text=True)"
    (folder / "test_notes.py").write_text(f"import subprocess\n\ndef test_it():\n    assert 'noted milk' in {out}\n")
    pytest_words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    recorded = traceforge("record", "--", *pytest_words, cwd=folder)
    approve_all(folder)
    (folder / "plain_server.py").unlink()
    replayed = traceforge("test", "--", *pytest_words, cwd=folder)

    assert (0, True) == (recorded.code, "test_notes.py:0 in test_it" in recorded.err), recorded
    assert (0, True) == (replayed.code, "GREEN: 3 calls replayed" in replayed.err), replayed


@pytest.mark.parametrize("environment", ["mcp", "apps"])
def test_a_client_that_is_watched_itself_is_recorded_once(folder: Path, environment: str) -> None:
    """A wrapped server in the configuration of a Python client has the name that it has without the wrap."""
    python = str(installed_python(environment))
    client = folder / "client.py"
    text = client.read_text().replace(
        'command=sys.executable, args=["notes_server.py"]',
        f'command={WRAPPED[0]!r}, args=["mcp", "wrap", "--", sys.executable, "notes_server.py"]',
    )
    client.write_text(text)
    command = (python, "-W", "ignore", "client.py", "stdio", "milk")
    recorded = traceforge("record", "--", *command, cwd=folder)
    approve_all(folder)
    (folder / "server.log").unlink()

    replayed = traceforge("test", "--", *command, cwd=folder)

    assert (0, True) == (recorded.code, "3 model calls" in recorded.err), recorded
    assert (0, False) == (replayed.code, (folder / "server.log").exists()), replayed
    upstreams = {line.strip() for file in (folder / ".ai-snapshots/wire").iterdir()
                 for line in file.read_text().splitlines() if '"upstream"' in line}  # fmt: skip
    assert {'"upstream": "mcp/notes_server",'} == upstreams
