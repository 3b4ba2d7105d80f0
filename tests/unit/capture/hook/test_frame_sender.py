"""The connection to the parent: it never blocks, and counts what it loses."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from traceforge.capture.hook import frame_sender as module
from traceforge.capture.hook.frame_sender import FrameSender
from traceforge.capture.hook.frames import read_frame, write_frame


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """The parent's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        listener.settimeout(10)
        yield listener


@pytest.fixture
def sender(listener: socket.socket) -> Iterator[FrameSender]:
    """A sender that is connected to it."""
    sender = FrameSender(f"unix:{listener.getsockname()}", "token")
    yield sender
    sender.close()


def read_kinds(connection: socket.socket) -> list[str]:
    """The kinds of the frames that came until the end."""
    with connection, connection.makefile("rb") as stream:
        frames = iter(lambda: read_frame(stream.read), None)
        return [frame[0]["kind"] for frame in frames]


def test_frames_come_in_order_after_hello(listener: socket.socket, sender: FrameSender) -> None:
    """One connection a process, opened for the first frame."""
    for kind in ("a", "b", "c"):
        sender.send(write_frame({"kind": kind}))
    sender.close()
    connection, _ = listener.accept()

    assert ["hello", "a", "b", "c"] == read_kinds(connection)


def test_no_thread_runs_while_the_parent_keeps_up(listener: socket.socket, sender: FrameSender) -> None:
    """A process that forks must not have threads because of the hook."""
    before = threading.active_count()
    for _ in range(10):
        sender.send(write_frame({"kind": "a"}))

    assert before == threading.active_count()


def test_a_parent_that_does_not_read_does_not_block_the_application(
    listener: socket.socket, sender: FrameSender
) -> None:
    """What the socket does not take waits in memory, and comes in order once the parent reads again."""
    for number in range(200):
        sender.send(write_frame({"kind": str(number)}, [b"x" * 50_000]))
    connection, _ = listener.accept()
    result: list[list[str]] = []
    reader = threading.Thread(target=lambda: result.append(read_kinds(connection)))
    reader.start()
    sender.flush(10)
    sender.close()
    reader.join(10)

    assert ["hello", *map(str, range(200))] == result[0]
    assert 0 == sender.lost


def test_a_large_frame_is_sent_whole_before_the_process_ends(listener: socket.socket, sender: FrameSender) -> None:
    """Also while the thread is in the middle of it."""
    sender.send(write_frame({"kind": "large"}, [b"x" * 30_000_000]))
    connection, _ = listener.accept()
    result: list[list[str]] = []
    reader = threading.Thread(target=lambda: result.append(read_kinds(connection)))
    reader.start()
    sender.flush(10)
    sender.close()
    reader.join(10)

    assert ["hello", "large"] == result[0]
    assert 0 == sender.lost


def test_memory_is_bounded_and_lost_frames_are_counted(
    listener: socket.socket, sender: FrameSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory does not grow with a parent that has stopped reading."""
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 1_000_000)
    for _ in range(100):
        sender.send(write_frame({"kind": "x"}, [b"x" * 50_000]))

    assert sender._waiting_bytes <= 1_000_000
    assert 60 < sender.lost < 100


def test_a_missing_parent_does_no_harm(tmp_path: Path) -> None:
    """Nothing is raised, and everything is counted."""
    sender = FrameSender(f"unix:{tmp_path}/nobody", "token")
    for _ in range(3):
        sender.send(b"x")
    sender.flush(1)

    assert 3 == sender.lost


def test_an_application_without_descriptors_does_not_notice(
    listener: socket.socket, sender: FrameSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it reports waits until there is a descriptor again."""
    make_socket, failures = module.make_socket, [OSError(errno.EMFILE, "Too many open files")] * 2

    def fail_at_first(address: str) -> Any:
        if failures:
            raise failures.pop()
        return make_socket(address)

    monkeypatch.setattr(module, "make_socket", fail_at_first)
    sender.send(write_frame({"kind": "begin"}))
    sender.flush(10)
    sender.close()

    assert ["hello", "begin"] == read_kinds(listener.accept()[0])
    assert 0 == sender.lost


def test_a_parent_that_goes_away_is_noticed(listener: socket.socket, sender: FrameSender) -> None:
    """The application never sees a broken pipe."""
    sender.send(write_frame({"kind": "first"}))
    connection, _ = listener.accept()
    connection.close()
    for _ in range(3):
        sender.send(write_frame({"kind": "a"}))

    assert sender.lost > 0


def test_a_descriptor_that_the_application_has_reused_is_not_written_to(
    listener: socket.socket, sender: FrameSender, tmp_path: Path
) -> None:
    """A daemon closes all its descriptors; our frames must not go into another file."""
    sender.send(write_frame({"kind": "first"}))
    assert sender._socket is not None
    number = sender._socket.fileno()
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    os.dup2(file, number)
    sender.send(write_frame({"kind": "a"}))
    os.close(number)
    os.close(file)
    listener.accept()[0].close()
    connection, _ = listener.accept()
    sender.close()

    assert b"" == (tmp_path / "file").read_bytes()
    assert ["hello", "a"] == read_kinds(connection)


def test_frames_travel_over_tcp_where_there_are_no_unix_sockets() -> None:
    """The same frames, over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = FrameSender(f"tcp:127.0.0.1:{listener.getsockname()[1]}", "token")
        sender.send(write_frame({"kind": "a"}))
        sender.close()
        connection, _ = listener.accept()

        assert ["hello", "a"] == read_kinds(connection)
