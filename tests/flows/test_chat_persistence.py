"""No part of a trace outlives its response: every write, log record and printed byte of the process is checked."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.chat_servers import BUNDLED_UPSTREAM, ChatProcess, chat_process, write_prompts
from support.upstream import ScriptedResponse, upstream

WATCHED = Path(__file__).resolve().parents[1] / "support" / "watched"
QUIET = {"PYTHONDONTWRITEBYTECODE": "1"}
LOUD = {**QUIET, "PYTHONASYNCIODEBUG": "1", "PYTHONDEVMODE": "1", "PYTHONWARNINGS": "ignore"}


def _converse(chat: ChatProcess) -> list[bytes]:
    """A traced conversation with failures; the texts of it that must not be found anywhere."""
    needles: list[str] = []
    for number in range(12):
        message = f"needle-message-{os.urandom(8).hex()}"
        session = f"needle-session-{os.urandom(8).hex()}" if number < 3 else "needle-session-shared"
        answer = chat.ask(message, session, trace=True)
        trace = answer["trace"]
        hashes = [value for name, value in trace["inputs"].items() if name.endswith("_hash")]
        needles += [message, session, trace["trace_id"], *hashes, answer["reply"][-40:]]
    for bad in (
        {"message": "needle-bad", "session_id": 7, "trace": True},
        {"needle-field": 1},
        {"trace": "needle-x"},
    ):
        assert 400 == chat.post(bad).status_code
        needles.append(next(iter(re.findall(r"needle-[a-z]+", json.dumps(bad)))))
    return [needle.encode() for needle in needles]


def _files(*folders: Path, since: float) -> Iterator[tuple[Path, bytes]]:
    """Every readable file below `folders` that changed since then."""
    for folder in folders:
        for path in folder.rglob("*"):
            try:
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_mtime >= since and status.st_size < 64 << 20:
                    yield path, path.read_bytes()
            except OSError:
                continue  # Another process's, already removed.


def _find_needles(needles: list[bytes], data: bytes) -> list[bytes]:
    return [needle for needle in needles if needle in data]


@pytest.mark.slow
@pytest.mark.parametrize("variables", [QUIET, LOUD], ids=["as it is", "with every debug switch"])
def test_nothing_is_opened_logged_or_printed(tmp_path: Path, variables: dict[str, str]) -> None:
    """Audit hooks see every open and every change of the file system, a root logger every record."""
    begun = time.time() - 1
    home, notes = tmp_path / "home", tmp_path / "notes"
    home.mkdir()
    places = {"HOME": str(home), "TMPDIR": str(home), "WATCHED": str(notes), "PYTHONPATH": str(WATCHED)}
    prompts = write_prompts(tmp_path / "prompts")
    with chat_process(home, "--prompts", str(prompts), **variables, **places) as chat:
        needles = _converse(chat)
        ended = chat.stop()
    audit_log = notes.read_text()

    assert "WATCHING" in audit_log  # the hook was active
    assert [] == [line for line in audit_log.splitlines() if line.startswith(("OPEN", "CHANGE"))]
    assert [] == _find_needles(needles, audit_log.encode())
    assert (0, f"{BUNDLED_UPSTREAM}\nstopped\n", b"") == (*ended, chat.out)
    assert [] == list(home.iterdir())
    assert [] == [
        (path, needle) for path, data in _files(tmp_path, since=begun) if (needle := _find_needles(needles, data))
    ]


def test_the_audit_hook_catches_a_write_and_a_log_line(tmp_path: Path) -> None:
    """A process that writes one file and logs one line is caught by the same hook."""
    notes = tmp_path / "notes"
    script = "import logging; open('x', 'w').write('a'); logging.getLogger('q').debug('needle')"
    environ = {"PATH": os.environ["PATH"], "WATCHED": str(notes), "PYTHONPATH": str(WATCHED), **QUIET}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environ, check=True)

    assert re.search(r"^OPEN 'x' 'w'", notes.read_text(), re.MULTILINE)
    assert re.search(r"^LOG q needle", notes.read_text(), re.MULTILINE)


_CALLS = (
    "open,openat,openat2,creat,write,writev,pwrite64,pwritev,pwritev2,sendfile,splice,copy_file_range,link,linkat,"
    "rename,renameat,renameat2,mkdir,mkdirat,mknod,mknodat,symlink,symlinkat,truncate,ftruncate,memfd_create,shmget,"
    "io_uring_setup,execve"
)
_NO_RING = "inject=io_uring_setup:error=ENOSYS"  # strace would not see writes through io_uring.
_LINE = re.compile(r"^(?:\[pid +\d+\] |\d+ +)?(?P<name>\w+)\((?P<arguments>.*)$")
_WRITES = frozenset({"write", "writev", "pwrite64", "pwritev", "pwritev2"})
_SOCKETS = re.compile(r"^\d+<(?:TCP|TCPv6|UNIX|UNIX-STREAM|socket:|anon_inode:|pipe:)")


def _is_write(line: str) -> bool:
    """Whether a system call writes to anything but a socket, a pipe or the loop's wake-up."""
    match = _LINE.match(line)
    if match is None:
        return False
    name, arguments = match["name"], match["arguments"]
    if name in _WRITES:
        return not _SOCKETS.match(arguments)
    if name.startswith("open"):
        return bool(re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", arguments)) and "/dev/null" not in arguments
    return name != "execve" and not arguments.endswith("(INJECTED)")


def test_no_system_call_writes_anything_but_to_sockets(tmp_path: Path) -> None:
    """With strace, below Python and the event loop; then every changed file on the disk is searched."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.fail("strace is not on PATH: `make strace` installs it", pytrace=False)
    begun = time.time() - 1
    home, calls = tmp_path / "home", tmp_path / "calls"
    home.mkdir()
    before = (strace, "-f", "-qq", "-yy", "-s", "0", "-e", f"trace={_CALLS}", "-e", _NO_RING, "-o", str(calls))
    prompts = write_prompts(tmp_path / "prompts")
    with chat_process(
        home, "--prompts", str(prompts), before=before, **QUIET, HOME=str(home), TMPDIR=str(home)
    ) as chat:
        needles = _converse(chat)
        ended = chat.stop()
    lines = calls.read_text().splitlines()

    assert len([line for line in lines if "session.md" in line]) >= 12  # strace was attached while it served
    assert [] == [line for line in lines if _is_write(line)]
    assert (0, f"{BUNDLED_UPSTREAM}\nstopped\n") == ended
    shared = [Path(name) for name in ("/dev/shm", "/var/tmp", "/var/log") if os.path.isdir(name)]
    places = (tmp_path, Path.cwd() / ".pytest_cache", *shared)
    assert [] == [
        (path, needle) for path, data in _files(*places, since=begun) if (needle := _find_needles(needles, data))
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('12 openat(AT_FDCWD</x>, "a.log", O_WRONLY|O_CREAT|O_APPEND, 0666) = 5</x/a.log>', True),
        ('12 openat(AT_FDCWD</x>, "session.md", O_RDONLY|O_NONBLOCK|O_CLOEXEC) = 5</x/session.md>', False),
        ('write(5</x/a.log>, ""..., 12) = 12', True),
        ('[pid 4] write(7<TCP:[127.0.0.1:1->127.0.0.1:2]>, ""..., 12) = 12', False),
        ('write(1<pipe:[123]>, ""..., 12) = 12', False),
        ('write(6<anon_inode:[eventfd]>, ""..., 8) = 8', False),
        ('9 renameat2(AT_FDCWD</x>, "a", AT_FDCWD</x>, "b", 0) = 0', True),
        ('9 memfd_create("x", 0) = 3', True),
        ("9 io_uring_setup(256, {}) = 6<anon_inode:[io_uring]>", True),
        ("9 io_uring_setup(256, {}) = -1 ENOSYS (Function not implemented) (INJECTED)", False),
        ("+++ exited with 0 +++", False),
    ],
)
def test_system_calls_that_write_are_recognised(line: str, expected: bool) -> None:
    """Checks the check of the test above."""
    assert expected is _is_write(line)


def test_a_failed_turn_leaves_no_part_of_a_trace(tmp_path: Path) -> None:
    """Neither on disk nor in the response."""
    notes = tmp_path / "notes"
    places = {"WATCHED": str(notes), "PYTHONPATH": str(WATCHED), **QUIET}
    with upstream() as model:
        model.respond_with(ScriptedResponse([b"{}"], 500))
        with chat_process(tmp_path, "--upstream", model.url, "--model", "m", **places) as chat:
            refused: Any = chat.post({"message": "needle-failed", "session_id": "s", "trace": True})
            ended = chat.stop()

    assert (502, {"error"}) == (refused.status_code, set(refused.json()))
    assert "trace" not in refused.text
    assert "needle-failed" not in notes.read_text() + ended.err
